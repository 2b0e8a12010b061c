"""The page of a comparison: which model is better and by how much, then the numbers and diagrams of
every model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..audits.finding import COMMANDS, as_call
from ..diagrams.aligned import AlignedReliability
from ..diagrams.score_intervals import ScoreIntervals
from ..diagrams.sharpness import CalibrationSharpness
from ..text import capitalised, number, whole_percent
from .comparison_terminal import (
    DIFFERENCES,
    ERRORS,
    LABELS,
    MORE,
    SCORES,
    cell_text,
    facts,
    is_pairs,
    judgement,
    rank,
    rank_words,
    scores_of,
)
from .page import Control, Figure, Page, Section, Table, Words
from .sections import budget_section, diagrams_section, provenance_section, verdict_section
from .terminal import interval

if TYPE_CHECKING:
    from ..comparisons.comparison import Comparison

DRAWN = ("log_score", "brier_score", "ece", "smooth_ece")


def comparison_page(found: Comparison, title: str = "") -> Page:
    """The page of a comparison."""
    sections = [
        verdict_section(found.findings, COMMANDS),
        _models(found),
        _differences(found),
        _diagrams(found),
        _provenance(found),
    ]
    if found.budgets:
        sections.insert(3, _budgets(found))
    best = next(finding for finding in found.findings if finding.rule == "best_by_score")
    return Page(
        title or "Which of these models is better?",
        facts(found),
        found.headline,
        best.level,
        sections,
    )


def comparison_summary(found: Comparison) -> Page:
    """The summary that a notebook displays."""
    sections = [verdict_section(found.findings, as_call), _models(found), _differences(found)]
    return Page("Comparison", facts(found), "", "note", sections)


def _models(found: Comparison) -> Section:
    best = min(found.ranks[found.score].values())
    marked = [k for k, m in enumerate(found.names) if found.ranks[found.score][m] == best]
    tables = []
    for caption, known in (
        ("All models on the same rows", SCORES),
        ("Further calibration errors", ERRORS),
        ("Losses and their causes", MORE),
    ):
        columns = {
            name: LABELS[name] for name in known if any(name in x for x in found.estimates.values())
        }
        rows = [
            [
                m,
                rank(found, m),
                *(cell_text(found.estimates[m].get(name), name) for name in columns),
            ]
            for m in found.names
        ]
        tables.append(Table(caption, ("model", "rank", *columns.values()), rows, marked=marked))
    lead = f"{capitalised(rank_words(found))}."
    notes = [Words(f"{capitalised(words)}.") for words in scores_of(found)]
    return Section("models", "Models", [*tables, *notes], lead)


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
    event = answer if found.event is None else f"the {found.judged}"
    control = Control("of", tuple(label for (label,) in intervals))
    sharpness = {
        (m,): CalibrationSharpness.of_grid(
            found.summaries[m].grid, squared=found.top_grids[m].weight_squared, event=answer
        )
        for m in found.names
    }
    blocks = [
        Figure("aligned", {(): AlignedReliability.of_grids(found.grids, event=event)}),
        Figure("intervals", intervals, [control]),
        Figure("sharpness", sharpness, [Control("model", tuple(found.names))]),
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
