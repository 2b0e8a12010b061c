"""The page of a comparison: which model to use and why, then the numbers and diagrams of every
model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..audits.finding import COMMANDS, Spelling, as_call
from ..comparisons.gaps import model_names
from ..comparisons.metrics import DIFFERENCES, LABELS, METRICS, Metric, tables
from ..comparisons.model_table import TIED, TIED_WORDS, Cell, ModelTable
from ..diagrams.aligned_sharpness import AlignedSharpness
from ..diagrams.score_intervals import ScoreIntervals
from ..diagrams.sharpness import CalibrationSharpness
from ..text import capitalised, number, whole_percent
from .comparison_terminal import (
    BEST,
    facts,
    is_pairs,
    judgement,
    other_findings,
    rank,
    rank_words,
    repair_commands,
    scores_of,
)
from .page import Block, CommandLine, Control, Figure, FindingList, Page, Section, Table, Words
from .page.shell_lines import in_lines
from .sections import budget_section, provenance
from .terminal import interval

if TYPE_CHECKING:
    from ..comparisons.comparison import Comparison

DRAWN = ("log_score", "brier_score", "ece", "smooth_ece")
FIGURE_SPACE = "\u2007"
TITLE = "Which of these models is best?"
CAPTIONS = ("All models on the same rows", "Further calibration errors", "Losses and their causes")


def comparison_page(found: Comparison, title: str = "") -> Page:
    """The page of a comparison: the decision, the forest plot, the reliability curves and the table
    of models first."""
    decision, title = found.decision, title or TITLE
    sections = [
        _summary(found),
        _calibration(found),
        *([_budgets(found)] if found.budgets else []),
        _numbers(found),
        _for_a_paper(found),
        _methods(found),
    ]
    return Page(
        title,
        facts(found),
        decision.headline,
        decision.level,
        sections,
        grade=decision.words,
        lead=decision.sentence,
        markdown=as_markdown(found, title),
    )


def comparison_summary(found: Comparison) -> Page:
    """The summary that a notebook displays."""
    first, *_ = tables(found.metrics)
    blocks: list[Block] = [*_findings(found, as_call), *_model_table(found, first, CAPTIONS[0])]
    decision = found.decision
    return Page(
        "Comparison",
        facts(found),
        decision.headline,
        decision.level,
        [Section("summary", "Summary", [*blocks, Words(_marks_words(found))])],
        grade=decision.words,
        lead=decision.sentence,
    )


def as_markdown(found: Comparison, title: str) -> str:
    """The decision and the table as Markdown, for a message or a pull request."""
    decision = found.decision
    lines = [f"## {title}", "", f"**{decision.words}.** {decision.text}", "", found.to_markdown()]
    lines += [f"- {finding.text}" for finding in other_findings(found)]
    return "\n".join([*lines, "", f"{facts(found)}. probaudit."])


def _findings(found: Comparison, spell: Spelling) -> list[Block]:
    others = other_findings(found)
    return [FindingList(others, spell)] if others else []


def _summary(found: Comparison) -> Section:
    forest, (first, *_) = found.forest(), tables(found.metrics)
    wide = forest.picture().columns > 1
    blocks = [
        *_steps(found),
        Figure("forest", {(): forest}),
        Figure("overlaid", {(): found.reliability()}, large=wide, direct=True),
        *_model_table(found, first, CAPTIONS[0]),
        Words(_marks_words(found)),
        *_findings(found, COMMANDS),
    ]
    return Section("summary", "Summary", blocks, headed=False)


def _steps(found: Comparison) -> list[Block]:
    """The commands that recalibrate the chosen model, if the decision advises it."""
    if not found.decision.recalibrate:
        return []
    model, *others = found.decision.models
    again = f", then the same for {model_names(others)}" if others else ""
    title = f"Do this: recalibrate {model!r} and apply the calibrator to new rows{again}"
    return [CommandLine("\n".join(map(in_lines, repair_commands(found))), title)]


def _marks_words(found: Comparison) -> str:
    chosen = "The row of the chosen model is shaded. " if len(found.decision.models) == 1 else ""
    return f"{chosen}{BEST} best; {TIED} {TIED_WORDS}. {capitalised(rank_words(found))}."


def _model_table(found: Comparison, known: dict[str, Metric], caption: str) -> list[Block]:
    """A row for each model, in the given order; no table if no model has any of the metrics."""
    shown = ModelTable.of(found, known)
    if not shown.metrics:
        return []
    marked = [k for k, m in enumerate(found.names) if m in found.decision.models]
    rows = [
        [model, rank(found, model), *map(_marked, cells)]
        for model, cells in zip(shown.models, shown.cells, strict=True)
    ]
    tips = {metric.label: metric.direction for metric in shown.metrics if metric.direction}
    tips["rank"] = capitalised(rank_words(found))
    headers = ("model", "rank", *(metric.label for metric in shown.metrics))
    bold = {
        (row, column)
        for row, cells in enumerate(shown.cells)
        for column, cell in enumerate(cells, len(headers) - len(shown.metrics))
        if cell.best
    }
    return [Table(caption, headers, rows, marked=marked, tips=tips, bold=bold)]


def _marked(cell: Cell) -> str:
    """The number with its mark, or as much space, so that numbers are aligned."""
    return cell.text + (BEST if cell.best else TIED if cell.tied else FIGURE_SPACE)


def _calibration(found: Comparison) -> Section:
    answer = "the confidence" if is_pairs(found) else "the most probable class"
    sharpness = {
        m: CalibrationSharpness.of_grid(
            found.summaries[m].grid, squared=found.top_grids[m].weight_squared, event=answer
        )
        for m in found.names
    }
    blocks = [
        Figure("aligned", {(): found.aligned()}),
        Figure("sharpness", {(): AlignedSharpness(sharpness)}),
    ]
    if found.lens_table is not None:
        blocks.append(Figure("lenses", {(): found.lens_table}))
    return Section("calibration", "Calibration of each model", blocks)


def _budgets(found: Comparison) -> Section:
    headers = ("model", "total", "calibration", "hidden groups (at least)", "the rest")
    rows = [
        (
            m,
            *(
                f"{number(part)} ({whole_percent(part / b.total if b.total else 0.0)})"
                for part in (b.total, b.calibration, b.grouping, b.rest)
            ),
        )
        for m, b in found.budgets.items()
    ]
    one = next(iter(found.budgets.values()))
    score = one.score_words(pairs=is_pairs(found))
    return budget_section(
        [Table(f"Parts of the {score}, and their shares", headers, rows)], score=score
    )


def _numbers(found: Comparison) -> Section:
    """All metrics with their intervals, and all differences."""
    blocks: list[Block] = []
    for caption, known in zip(CAPTIONS[1:], tables(found.metrics)[1:], strict=True):
        blocks += _model_table(found, known, caption)
    names = {LABELS[name]: name for name in DRAWN}
    intervals = {
        (label,): ScoreIntervals.of(
            {m: found.estimates[m][name] for m in found.names},
            title=f"{capitalised(label)} of each model",
        )
        for label, name in names.items()
        if any(math.isfinite(found.estimates[m][name]) for m in found.names)
    }
    control = Control("of", tuple(label for (label,) in intervals))
    blocks += [Figure("intervals", intervals, [control]), *_differences(found)]
    return Section("numbers", "All numbers", blocks, folded=True)


def _differences(found: Comparison) -> list[Block]:
    """A table for each model."""
    blocks: list[Block] = [
        Words(
            "Both models are resampled with the same rows. They are tied if the interval of their "
            "difference contains 0."
        )
    ]
    for model, parts in found.differences.items():
        rows = [
            (
                LABELS[name],
                number(parts[name]),
                interval(parts[name]),
                judgement(parts[name], name)[0],
            )
            for name in DIFFERENCES
            if name in parts
        ]
        tips = {METRICS[name].label: METRICS[name].direction for name in DIFFERENCES}
        headers = ("", "difference", "95% interval", "verdict")
        caption = f"{model} minus {found.reference}"
        blocks.append(Table(caption, headers, rows, words=(0, 3), tips=tips))
    return blocks


def _for_a_paper(found: Comparison) -> Section:
    blocks = [
        CommandLine(found.to_latex(), "LaTeX, with the package booktabs"),
        CommandLine(found.to_markdown(), "Markdown"),
    ]
    return Section("paper", "Table for a paper", blocks, folded=True)


def _methods(found: Comparison) -> Section:
    data = [
        ("rows", f"{found.rows:,}"),
        ("rows left out", f"{found.dropped_rows:,}"),
        ("reference", found.reference),
        *((f"fingerprint of {m}", found.fingerprints[m]) for m in found.names),
    ]
    blocks: list[Block] = [FindingList(found.notes, COMMANDS)] if found.notes else []
    blocks += [Words(f"{capitalised(words)}.") for words in scores_of(found)]
    blocks.append(provenance(data, found.settings, pairs=is_pairs(found)))
    return Section("methods", "Methods and provenance", blocks, folded=True)
