"""The event of an audit as a risk: its validation, the net benefit of acting on it, and selective
prediction by confidence.

All come from the distinct outputs of the rows, or from the grid of a pass, whose cost does not grow
with the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..calibration.event_measures import indices_of
from ..calibration.fine_grid import FineGrid
from ..calibration.validation import (
    Validation,
    agreement,
    brier_of,
    event_brier,
    halved_brier,
    validation_of,
)
from ..calibration.views import event_rows, single_event
from ..choices.lenses import Lens, TopLabel
from ..estimate import Estimate
from ..scoring.decision_curve import DecisionCurve, decision_curve_of
from ..scoring.events import EventTable
from ..scoring.risk_coverage import RiskCoverage, risk_coverage_of
from ..states import EventSums
from ..states.evidence import Evidence
from .dependence import lens_event

COVERAGE, RISK = 0.8, 0.05  # at which selective prediction is reported
# Largest share of pairs of rows that the grid ties and their outputs do not.
TIED = 1e-3


def event_table(evidence: Evidence, lens: Lens, sums: EventSums) -> EventTable:
    """An event from all rows: from their outputs if they are in memory, else from the grid. The
    sample replaces the grid if rows have clusters, or if many outputs share a cell, such as the
    probabilities of a rare event."""
    if not evidence.sampled:
        return EventTable.of(evidence.sample, lens)
    if evidence.sample.clusters is None and _separates(evidence, lens, len(sums.rows)):
        return EventTable.of_sums(sums)
    table = EventTable.of(evidence.sample, lens)
    return replace(table, words=table.words + evidence.sample_words)


def _separates(evidence: Evidence, lens: Lens, cells: int) -> bool:
    """Whether a grid of so many cells separates nearly all outputs that differ, and those of
    exactly 0 and 1, which have no log-odds, from all others."""
    outputs = event_rows(evidence.sample, lens).view.outputs
    if (outputs <= 0).any() or (outputs >= 1).any():
        return False
    return _tied((outputs * cells).astype(np.int64)) - _tied(outputs) <= TIED


def _tied(values: np.ndarray) -> float:
    """The share of pairs of rows with equal values."""
    counts = np.unique(values, return_counts=True)[1] / len(values)
    return float(counts @ counts)


def validation(evidence: Evidence, scores: Mapping[str, Estimate]) -> Validation | None:
    """The validation of the event, or of a stated confidence; None if the most probable class is
    judged. `scores` are the estimates of the audit."""
    plan = evidence.summary.plan
    if plan.event is None and plan.kind != "pairs":
        return None
    event = event_table(evidence, plan.lens, evidence.judged)
    dependent = lens_event(evidence, plan.lens)
    enough = dependent is None or dependent.clusters.count > 1
    grid = FineGrid.of_event(evidence.judged)
    if plan.n_classes == 2:
        brier = halved_brier(scores["brier_score"], scores["brier_score.normalized"])
    elif evidence.sampled:
        brier = event_brier(event)
    else:
        brier = brier_of(single_event(evidence.sample, plan.lens))
    found = validation_of(event, indices_of(grid, interval=enough, event=dependent), brier)
    return replace(found, adjusted=found.p_value)


def decision_curve(evidence: Evidence) -> DecisionCurve | None:
    """The net benefit of acting on the event at each threshold; None without an event."""
    plan = evidence.summary.plan
    if plan.event is None:
        return None
    return decision_curve_of(event_table(evidence, plan.lens, evidence.judged))


def risk_coverage(evidence: Evidence) -> RiskCoverage:
    """Selective prediction by the confidence in the most probable class, or the stated one."""
    return risk_coverage_of(event_table(evidence, TopLabel(), evidence.top))


def effective_rows(selective: RiskCoverage) -> float:
    """How many independent rows of equal weight have the same information on how often answers are
    right."""
    event = selective.event
    wider = event.widening(event.p[:, None] - np.array([0.0, 1.0]))
    return event.effective_rows / wider**2


def risk_estimates(validation: Validation | None, selective: RiskCoverage) -> dict[str, Estimate]:
    """The estimates of an audit by name. Without an event, predicted and observed rates are those
    of the most probable class."""
    found = agreement(selective.event) if validation is None else dict(validation.estimates())
    return found | {
        "aurc": selective.aurc,
        "excess_aurc": selective.excess_aurc,
        "confidence_auroc": selective.auroc,
        f"accuracy_at_{COVERAGE:.0%}".rstrip("%"): selective.accuracy_at(COVERAGE),
        f"coverage_at_risk_{RISK:.0%}".rstrip("%"): selective.coverage_at(RISK),
    }
