"""The figures of an audit's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..audits.dependence import lens_event
from ..calibration.dependent_event import DependentEvent
from ..calibration.fine_grid import FineGrid
from ..choices.lenses import Lens, OneVsRest, TopLabel
from ..choices.partitions import EqualMass, EqualWidth
from ..data.predictions import Predictions
from ..diagrams.before_after import ORIGINAL, RECALIBRATED
from ..diagrams.bins import Bins, bins_for
from ..diagrams.diagram import Diagram
from ..diagrams.interval_wise import interval_wise_diagram
from ..diagrams.reliability import Reliability
from ..diagrams.sharpness import CalibrationSharpness
from ..diagrams.smooth_curve import SmoothCalibration
from ..diagrams.top_k import TopKCalibration, top_k_diagram
from ..states import EventSums
from ..states.sampling import drawn
from .page import Control, Figure
from .summary import is_pairs, repaired, short

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.lens_error import LensError

SHOWN_CLASSES = 3  # in the reliability diagram, besides the judged event
PANELS = 6  # of single classes
CORRECTED = "The p-value is corrected for the number of classes."
UNCORRECTED = "The p-value is not corrected for the number of classes."
DRAWN_ROWS = 20_000  # for diagrams that need rows
SMOOTH, EQUAL_BINS, EQUAL_MASS = "smooth curve", "15 equal bins", "15 bins of equal mass"
BINS: dict[str, Bins] = {
    EQUAL_BINS: EqualWidth(15),
    EQUAL_MASS: EqualMass(15),
    "isotonic (CORP)": "corp",
}


def bins_of_views(rows: int) -> dict[str, Bins | None]:
    """The bins of each view, the first one the default: fewer than 15 if there are few rows, as in
    the summary. None for the smooth curve.

    >>> list(bins_of_views(60))[:2]
    ['3 equal bins', '15 equal bins']
    """
    count = bins_for(rows, 15)
    few: dict[str, Bins | None] = {f"{count} equal bins": EqualWidth(count)}
    return few | BINS | {SMOOTH: None}


def judged_words(audit: Audit) -> str:
    """The event that the audit judges first."""
    if is_pairs(audit):
        return "the confidence"
    return "the most probable class" if audit.event is None else f"class {audit.event}"


@dataclass(frozen=True)
class DrawnEvent:
    """An event to draw a reliability diagram of, with the errors of the audit by partition."""

    grid: FineGrid
    rows: DependentEvent | None = None
    errors: Mapping[str, LensError] = field(default_factory=dict)
    remark: str = ""  # a sentence at the end of the caption
    judged: bool = True  # whether the rows are enough to judge single bins

    def diagram(self, view: str, bins: Bins | None, event: str) -> Diagram:
        """The diagram of one view. It accounts for clusters, and reports the errors of the
        audit."""
        if bins is None:
            effect = 1.0 if self.rows is None else self.rows.effect
            return SmoothCalibration.of_grid(self.grid, event=event, resamples=199, effect=effect)
        grid = self.grid if self.rows is None else self.rows.thinned(self.grid)
        if view not in self.errors:
            drawn = Reliability.of_grid(grid, bins, event=event, resamples=199)
            remark = self.remark and UNCORRECTED
            remark = remark or (self._usual() if view not in BINS else "")
            return replace(drawn, remark=remark, judged=self.judged)
        error = self.errors[view]
        diagram = Reliability.of_grid(grid, bins, event=event, resamples=1)
        diagram = replace(diagram, remark=self.remark, judged=self.judged)
        return diagram.judged_by(float(error.estimate), error)

    def _usual(self) -> str:
        """The error over the usual number of bins, if fewer are drawn."""
        usual = self.errors.get(EQUAL_BINS)
        return f"With {EQUAL_BINS}, the ECE is {short(usual.estimate)}." if usual else ""


def _events(audit: Audit) -> dict[str, tuple[Lens, DrawnEvent]]:
    """The events to draw: the judged one first, the top label, and the classes with the largest
    excess."""
    evidence, plan = audit.evidence, audit.summary.plan
    found = {judged_words(audit): (plan.lens, _drawn_event(audit, plan.lens, evidence.judged))}
    if plan.event is not None:
        top = _drawn_event(audit, TopLabel(), evidence.top, prefix="top_label.")
        found["the most probable class"] = (TopLabel(), top)
    order = np.argsort([-error.excess for error in audit.class_errors], kind="stable")
    for k in order[:SHOWN_CLASSES].tolist():
        found.setdefault(f"class {plan.classes[k]}", (OneVsRest(k), drawn_class(audit, k)))
    return found


def drawn_class(audit: Audit, k: int) -> DrawnEvent:
    """A class against all others, with the p-value that the table of classes shows."""
    sums, rows = audit.evidence.classes[k], lens_event(audit.evidence, OneVsRest(k))
    error = audit.class_errors[k]
    shown = {EQUAL_BINS: error.with_p_value(error.adjusted)}
    judged = audit.grade != "cannot_tell"
    return DrawnEvent(FineGrid.of_event(sums), rows, shown, CORRECTED, judged)


def by_outputs(audit: Audit, lens: Lens, event: DrawnEvent) -> dict[str, DrawnEvent]:
    """The event by the original outputs and, if a repair is advised, by the recalibrated ones."""
    best = repaired(audit)
    if best is None or best.out_of_fold is None:
        return {ORIGINAL: event}
    after = DrawnEvent(best.out_of_fold.grid(lens), remark=event.remark and UNCORRECTED)
    return {ORIGINAL: event, RECALIBRATED: after}


def _drawn_event(audit: Audit, lens: Lens, sums: EventSums, prefix: str = "") -> DrawnEvent:
    """An event of which the audit has errors under names that begin with `prefix`."""
    by_name = {error.name: error for error in audit.errors}
    names = {EQUAL_BINS: f"{prefix}ece", EQUAL_MASS: f"{prefix}ace"}
    errors = {view: by_name[name] for view, name in names.items()}
    judged, rows = audit.grade != "cannot_tell", lens_event(audit.evidence, lens)
    return DrawnEvent(FineGrid.of_event(sums), rows, errors, judged=judged)


def drawn_rows(audit: Audit) -> Predictions:
    return audit.evidence.sample.take(drawn(len(audit.evidence.sample), DRAWN_ROWS))


def reliability(audit: Audit) -> Figure:
    """The reliability of the judged event, the top label and the worst classes."""
    events = _events(audit)
    variants = {
        (name, outputs, view): drawn.diagram(view, bins, name)
        for name, (lens, event) in events.items()
        for outputs, drawn in by_outputs(audit, lens, event).items()
        for view, bins in bins_of_views(audit.summary.rows).items()
    }
    controls = controls_of(variants, ("event", "outputs", "bins"))
    heading = "Which predictions are off"
    return Figure("reliability", variants, controls, large=True, heading=heading)


def controls_of(variants: Mapping[Any, Diagram], names: Sequence[str]) -> list[Control]:
    """A control for each part of the variants' keys. Without a choice it is not shown."""
    options = (tuple(dict.fromkeys(part)) for part in zip(*variants, strict=True))
    return [Control(*pair) for pair in zip(names, options, strict=True)]


def sharpness(audit: Audit) -> Figure:
    """The calibration-sharpness diagram of the most probable class."""
    grid, evidence = audit.summary.grid, audit.evidence
    event = "the confidence" if is_pairs(audit) else "the most probable class"
    variants: dict[tuple[str], Diagram] = {
        ("Brier score",): CalibrationSharpness.of_grid(
            grid, squared=evidence.top.weight_squared, event=event
        ),
        ("log loss",): CalibrationSharpness.of_rows(grid, evidence.sample, event=event),
    }
    return Figure("sharpness", variants, [Control("by", tuple(name for (name,) in variants))])


def error_figures(audit: Audit) -> list[Figure]:
    """Errors by predicted probability and, with several classes, by k."""
    if audit.clusters == 1:  # tests need two clusters
        return []
    figures = [Figure("interval-wise", {(): interval_wise_diagram(drawn_rows(audit))})]
    if audit.evidence.ranks and not is_pairs(audit):
        figures.append(Figure("top-k", {(): _top_k(audit)}))
    return figures


def _top_k(audit: Audit) -> TopKCalibration:
    """The errors of the audit by k; rates are those of the sample."""
    first = "ece" if audit.event is None else "top_label.ece"
    names = {1: first} | {k: f"topk_ece.{k}" for k in audit.evidence.ranks}
    errors = {error.name: error for error in audit.errors}
    found = [errors[name] for name in names.values()]
    bars = np.array([error.estimate.error_bar for error in found])
    return replace(
        top_k_diagram(drawn_rows(audit), ks=list(names), resamples=2),
        error=bars[None, :, 0],
        low=bars[None, :, 1],
        high=bars[None, :, 2],
        null=np.array([[error.null_mean for error in found]]),
        definition="true class among the k most probable, 15 equal bins",
    )
