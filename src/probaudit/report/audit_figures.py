"""The figures of an audit's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..audits.dependence import lens_event
from ..calibration.dependent_event import DependentEvent
from ..calibration.fine_grid import FineGrid
from ..choices.lenses import Lens, OneVsRest, TopLabel
from ..choices.partitions import EqualMass, EqualWidth
from ..data.predictions import Predictions
from ..diagrams.bins import Bins
from ..diagrams.classwise import ClasswiseReliability
from ..diagrams.decisions import decision_regions_diagram
from ..diagrams.diagram import Diagram
from ..diagrams.interval_wise import interval_wise_diagram
from ..diagrams.reliability import Reliability
from ..diagrams.risk import RiskCurves, risk_curve_diagram
from ..diagrams.sharpness import CalibrationSharpness
from ..diagrams.smooth_curve import SmoothCalibration
from ..diagrams.top_k import TopKCalibration, top_k_diagram
from ..states import EventSums
from ..states.sampling import drawn
from .page import Control, Figure
from .summary import repaired
from .terminal import is_pairs

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.lens_error import LensError

SHOWN_CLASSES = 6  # in the reliability diagram, besides the most probable class
DRAWN_ROWS = 20_000  # for diagrams that need rows
SMOOTH = "smooth curve"
BINS: dict[str, Bins] = {
    "15 equal bins": EqualWidth(15),
    "15 bins of equal mass": EqualMass(15),
    "isotonic (CORP)": "corp",
}
VIEWS = (*BINS, SMOOTH)


def decisions(audit: Audit) -> list[Figure]:
    """The costs of decisions that are based on these probabilities."""
    rows, figures = audit.evidence.sample, []
    if audit.costs is not None:
        regions = decision_regions_diagram(rows, costs=audit.costs)
        figures.append(Figure("decisions", {(): regions}))
    if (
        rows.n_classes == 2
        and not rows.pairs
        and (audit.summary.log.rows > 0).all()
        and audit.summary.rows >= 10
    ):
        figures.append(Figure("risk", {(): _risk_curves(audit)}))
    return figures


def _risk_curves(audit: Audit) -> RiskCurves:
    """The risk at every threshold, before and after the recommended repair."""
    rows, best = audit.evidence.sample, repaired(audit)
    others = {}
    if best is not None and best.out_of_fold is not None:
        rows = rows.take(best.out_of_fold.rows)
        outputs = np.clip(best.out_of_fold.posteriors, 0, 1)
        if rows.kind != "probabilities":  # the outputs of a curve are of the same kind
            outputs = np.log(np.maximum(outputs, np.finfo(np.float64).tiny))
        others = {"recalibrated": outputs}
    return risk_curve_diagram(rows, calibrator="none", others=others, against="threshold")


def judged_words(audit: Audit) -> str:
    """The event that the audit judges first."""
    if is_pairs(audit):
        return "the stated answer"
    return "the most probable class" if audit.event is None else f"class {audit.event}"


@dataclass(frozen=True)
class _DrawnEvent:
    """An event to draw a reliability diagram of, with the errors of the audit by partition."""

    grid: FineGrid
    rows: DependentEvent | None
    errors: Mapping[str, LensError]

    def diagram(self, view: str, event: str) -> Diagram:
        """The diagram of one view. It accounts for clusters, and reports the errors of the
        audit."""
        if view == SMOOTH:
            effect = 1.0 if self.rows is None else self.rows.effect
            return SmoothCalibration.of_grid(self.grid, event=event, resamples=199, effect=effect)
        grid = self.grid if self.rows is None else self.rows.thinned(self.grid)
        if view not in self.errors:
            return Reliability.of_grid(grid, BINS[view], event=event, resamples=199)
        error = self.errors[view]
        diagram = Reliability.of_grid(grid, BINS[view], event=event, resamples=1)
        return diagram.judged_by(float(error.estimate), error)


def _events(audit: Audit) -> dict[str, _DrawnEvent]:
    """The events to draw: the judged one first, the top label, and the classes with the largest
    excess."""
    evidence, plan = audit.evidence, audit.summary.plan
    judged = _drawn_event(audit, plan.lens, evidence.judged)
    found = {judged_words(audit): judged}
    if (best := repaired(audit)) is not None:
        found[f"{judged_words(audit)}, recalibrated"] = _DrawnEvent(best.grid, None, {})
    if plan.event is not None:
        top = _drawn_event(audit, TopLabel(), evidence.top, prefix="top_label.")
        found["the most probable class"] = top
    order = np.argsort([-error.excess for error in audit.class_errors], kind="stable")
    for k in order[:SHOWN_CLASSES].tolist():
        own = {"15 equal bins": audit.class_errors[k]}
        found.setdefault(
            f"class {plan.classes[k]}",
            _DrawnEvent(
                FineGrid.of_event(evidence.classes[k]), lens_event(evidence, OneVsRest(k)), own
            ),
        )
    return found


def _drawn_event(audit: Audit, lens: Lens, sums: EventSums, prefix: str = "") -> _DrawnEvent:
    """An event of which the audit has errors under names that begin with `prefix`."""
    by_name = {error.name: error for error in audit.errors}
    names = {"15 equal bins": f"{prefix}ece", "15 bins of equal mass": f"{prefix}ace"}
    errors = {view: by_name[name] for view, name in names.items()}
    return _DrawnEvent(FineGrid.of_event(sums), lens_event(audit.evidence, lens), errors)


def _class_grid(audit: Audit, k: int) -> FineGrid:
    grid, event = (
        FineGrid.of_event(audit.evidence.classes[k]),
        lens_event(audit.evidence, OneVsRest(k)),
    )
    return grid if event is None else event.thinned(grid)


def _drawn_rows(audit: Audit) -> Predictions:
    return audit.evidence.sample.take(drawn(len(audit.evidence.sample), DRAWN_ROWS))


def reliability_figures(audit: Audit) -> list[Figure]:
    """Reliability, sharpness, and errors by confidence."""
    figures = [_reliability(audit), _sharpness(audit)]
    if audit.clusters != 1:  # tests need two clusters
        diagram = interval_wise_diagram(_drawn_rows(audit))
        figures.append(Figure("interval-wise", {(): diagram}))
    return figures


def class_figures(audit: Audit) -> list[Figure]:
    """Errors of the worst classes, and by k."""
    grids = [_class_grid(audit, k) for k in range(len(audit.evidence.classes))]
    names = [str(c) for c in audit.summary.plan.classes]
    diagram = ClasswiseReliability.of_grids(grids, names, most=SHOWN_CLASSES)
    figures = [Figure("classwise", {(): diagram})]
    if audit.clusters != 1:
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
        top_k_diagram(_drawn_rows(audit), ks=list(names), resamples=2),
        error=bars[None, :, 0],
        low=bars[None, :, 1],
        high=bars[None, :, 2],
        null=np.array([[error.null_mean for error in found]]),
        definition="true class among the k most probable, 15 equal bins",
    )


def _reliability(audit: Audit) -> Figure:
    events = _events(audit)
    variants = {
        (name, view): event.diagram(view, name) for name, event in events.items() for view in VIEWS
    }
    controls = [Control("of", tuple(events)), Control("bins", VIEWS)]
    return Figure("reliability", variants, controls, large=True)


def _sharpness(audit: Audit) -> Figure:
    grid, evidence = audit.summary.grid, audit.evidence
    event = "the stated answer" if is_pairs(audit) else "the most probable class"
    variants: dict[tuple[str], Diagram] = {
        ("Brier score",): CalibrationSharpness.of_grid(
            grid, squared=evidence.top.weight_squared, event=event
        ),
        ("log loss",): CalibrationSharpness.of_rows(grid, evidence.sample, event=event),
    }
    return Figure("sharpness", variants, [Control("by", tuple(name for (name,) in variants))])
