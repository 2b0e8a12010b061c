"""The page of a comparison: which model is better and by how much, then the numbers and diagrams of
every model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..audits.finding import COMMANDS, Spelling, as_call
from ..comparisons.metrics import DIFFERENCES, LABELS, tables
from ..comparisons.model_table import TIED, TIED_WORDS, Cell, ModelTable
from ..diagrams.score_intervals import ScoreIntervals
from ..diagrams.sharpness import CalibrationSharpness, on_one_axis
from ..text import capitalised, number, whole_percent
from .comparison_terminal import facts, is_pairs, judgement, rank, rank_words, scores_of
from .page import Control, Figure, FindingList, Page, Section, Table, Words
from .sections import budget_section, diagrams_section, provenance_section, verdict_section
from .terminal import interval

if TYPE_CHECKING:
    from ..comparisons.comparison import Comparison

DRAWN = ("log_score", "brier_score", "ece", "smooth_ece")
BEST, FIGURE_SPACE = "*", "\u2007"


def comparison_page(found: Comparison, title: str = "") -> Page:
    """The page of a comparison: the forest plot and the reliability curves first, then words and
    tables."""
    sections = [
        _overview(found),
        *_verdict(found, COMMANDS),
        _models(found),
        _differences(found),
        *([_budgets(found)] if found.budgets else []),
        _diagrams(found),
        *_notes(found, COMMANDS),
        _provenance(found),
    ]
    return Page(
        title or "Which of these models is better?",
        facts(found),
        found.headline,
        found.best.level,
        sections,
    )


def comparison_summary(found: Comparison) -> Page:
    """The summary that a notebook displays."""
    sections = [
        *_verdict(found, as_call),
        _models(found),
        _differences(found),
        *_notes(found, as_call),
    ]
    return Page("Comparison", facts(found), found.headline, "note", sections)


def _overview(found: Comparison) -> Section:
    blocks = [
        Figure("forest", {(): found.forest()}),
        Figure("overlaid", {(): found.reliability()}),
    ]
    return Section("overview", "At a glance", blocks)


def _verdict(found: Comparison, spell: Spelling) -> list[Section]:
    """The findings that the headline does not tell."""
    others = [finding for finding in found.findings if finding is not found.best]
    return [verdict_section(others, spell)] if others else []


def _notes(found: Comparison, spell: Spelling) -> list[Section]:
    if not found.notes:
        return []
    return [Section("notes", "Notes", [FindingList(found.notes, spell)], "Further conclusions.")]


def _models(found: Comparison) -> Section:
    best = min(found.ranks[found.score].values())
    marked = [k for k, m in enumerate(found.names) if found.ranks[found.score][m] == best]
    captions = (
        "All models on the same rows",
        "Further calibration errors",
        "Losses and their causes",
    )
    blocks: list[Table | Words] = []
    for caption, known in zip(captions, tables(found.metrics), strict=True):
        shown = ModelTable.of(found, known)
        rows = [
            [model, rank(found, model), *map(_marked, cells)]
            for model, cells in zip(shown.models, shown.cells, strict=True)
        ]
        labels = [metric.label for metric in shown.metrics]
        if labels:
            blocks.append(Table(caption, ("model", "rank", *labels), rows, marked=marked))
    lead = f"{capitalised(rank_words(found))}. {BEST} best; {TIED} {TIED_WORDS}."
    blocks += [Words(f"{capitalised(words)}.") for words in scores_of(found)]
    return Section("models", "Models", blocks, lead)


def _marked(cell: Cell) -> str:
    """The number with its mark, or as much space, so that numbers are aligned."""
    return cell.text + (BEST if cell.best else TIED if cell.tied else FIGURE_SPACE)


def _differences(found: Comparison) -> Section:
    rows = [
        (
            f"{model}: {LABELS[name]}",
            number(parts[name]),
            interval(parts[name]),
            judgement(parts[name], name)[0],
        )
        for model, parts in found.differences.items()
        for name in DIFFERENCES
        if name in parts
    ]
    table = Table(
        f"Each model minus {found.reference}",
        ("", "difference", "95% interval", ""),
        rows,
        words=(0, 3),
    )
    lead = "Paired: both models are resampled with the same rows. Unclear: the interval contains 0."
    return Section("differences", "Differences", [table], lead)


def _budgets(found: Comparison) -> Section:
    headers = ("model", "total", "calibration", "grouping, at least", "the rest")
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
    return budget_section([Table(f"Parts of the {score}, and their shares", headers, rows)])


def _diagrams(found: Comparison) -> Section:
    names = {LABELS[name]: name for name in DRAWN}
    intervals = {
        (label,): ScoreIntervals.of(
            {m: found.estimates[m][name] for m in found.names},
            title=capitalised(label),
        )
        for label, name in names.items()
        if any(math.isfinite(found.estimates[m][name]) for m in found.names)
    }
    answer = "the stated answer" if is_pairs(found) else "the most probable class"
    control = Control("of", tuple(label for (label,) in intervals))
    sharpness = on_one_axis(
        {
            m: CalibrationSharpness.of_grid(
                found.summaries[m].grid, squared=found.top_grids[m].weight_squared, event=answer
            )
            for m in found.names
        }
    )
    blocks = [
        Figure("aligned", {(): found.aligned()}),
        Figure("intervals", intervals, [control]),
        Figure(
            "sharpness",
            {(m,): one for m, one in sharpness.items()},
            [Control("model", tuple(found.names))],
        ),
    ]
    if found.lens_table is not None:
        blocks.insert(2, Figure("lenses", {(): found.lens_table}))
    return diagrams_section(blocks)


def _provenance(found: Comparison) -> Section:
    data = [
        ("rows", f"{found.rows:,}"),
        ("rows left out", f"{found.dropped_rows:,}"),
        *((f"fingerprint of {m}", found.fingerprints[m]) for m in found.names),
    ]
    return provenance_section(data, found.settings, pairs=is_pairs(found))
