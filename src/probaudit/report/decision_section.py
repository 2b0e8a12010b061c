"""Decisions and costs on the page of an audit: a threshold slider, and charts of costs, net benefit
and selective prediction, before and after recalibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..audits.finding import Finding
from ..diagrams.before_after import ORIGINAL, RECALIBRATED
from ..diagrams.decisions import decision_regions_diagram
from ..diagrams.net_benefit import DecisionCurves
from ..diagrams.risk import RiskCurves
from ..diagrams.selective import SelectivePrediction
from ..scoring.decision_curve import THRESHOLDS, DecisionCurve, decision_curve_of
from ..scoring.operating_points import OperatingPoints
from ..scoring.risk_coverage import RiskCoverage, risk_coverage_of
from ..scoring.risk_curve import RiskCurve
from ..text import capitalised, class_words
from .page import Block, Figure, Position, Section, Table, ThresholdSlider
from .summary import is_pairs, repaired, sample_words
from .threshold_words import Acting, Answering, Threshold, table_rows

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.repairs import OutOfFold

Curve = TypeVar("Curve", DecisionCurve, RiskCurve)

LEAST_ANSWERED = 0.05  # share of the rows at the first threshold
ROWS_BY_THRESHOLD = 3  # at least, in a drawn curve; more thresholds of few rows show noise
FEW = (10, 20, 50, 80)
FEW_CONFIDENCES = (50, 70, 80, 90, 95)


def decision_section(audit: Audit) -> Section:
    """Costs at every threshold, net benefit, and answering only confident rows."""
    how = threshold_rule(audit)
    slider = threshold_slider(audit, how)
    blocks: list[Block] = [slider]
    if audit.costs is not None:
        regions = decision_regions_diagram(audit.evidence.sample, costs=audit.costs)
        blocks.append(Figure("decisions", {(): regions}))
    start = slider.start - slider.low
    marker = {name: places[start] for name, places in slider.markers.items()}
    if "risk" in slider.markers:
        risks = {(): _risk_curves(audit, how)}
        blocks.append(Figure("risk", risks, direct=True, marker=marker["risk"]))
    if curves := _net_benefits(audit):
        drawn = DecisionCurves(curves, f"class {audit.event}")
        benefit = Figure("net-benefit", {(): drawn}, direct=True, marker=marker["net-benefit"])
        blocks.append(benefit)
    covered = {(): SelectivePrediction(_selective_predictions(audit))}
    blocks.append(Figure("risk-coverage", covered, direct=True))
    lead = "What these probabilities cost and gain in decisions."
    return Section("actions", "Decisions and costs", blocks, lead)


def _net_benefits(audit: Audit) -> dict[str, DecisionCurve]:
    """The decision curves of the event, before and after recalibration; empty without an event."""
    if audit.decision_curve is None:
        return {}
    found, after = {ORIGINAL: audit.decision_curve}, _recalibrated(audit)
    found |= {} if after is None else {RECALIBRATED: decision_curve_of(after.judged)}
    columns = ("thresholds", "net_benefit", "low", "high", "treat_all")
    return {name: _fewer(curve, columns) for name, curve in found.items()}


def _fewer(curve: Curve, columns: Sequence[str]) -> Curve:
    """The curve at as many of its thresholds as its rows allow, evenly spaced."""
    step = max(1, math.ceil(ROWS_BY_THRESHOLD * len(THRESHOLDS) / curve.n))
    kept = np.arange(step, len(THRESHOLDS) + 1, step) - 1
    return replace(curve, **{name: getattr(curve, name)[kept] for name in columns})


def _selective_predictions(audit: Audit) -> dict[str, RiskCoverage]:
    """Risk and coverage, before and after recalibration."""
    found, after = {ORIGINAL: audit.risk_coverage}, _recalibrated(audit)
    return found | ({} if after is None else {RECALIBRATED: risk_coverage_of(after.top)})


def _recalibrated(audit: Audit) -> OutOfFold | None:
    best = repaired(audit)
    return None if best is None else best.out_of_fold


def threshold_rule(audit: Audit) -> Threshold:
    """Acting on the event if there is one, else answering only confident rows."""
    acting, after = audit.decision_curve is not None, _recalibrated(audit)
    events = {ORIGINAL: (audit.decision_curve or audit.risk_coverage).event}
    if after is not None:
        events[RECALIBRATED] = after.judged if acting else after.top
    points = {name: OperatingPoints.of(event, THRESHOLDS) for name, event in events.items()}
    return Acting(points, class_words(audit.event)) if acting else Answering(points)


def treat_all_alike(audit: Audit) -> Finding | None:
    """The advice to treat all rows alike, if no output is worth more at the first threshold."""
    how = threshold_rule(audit)
    k = _first(audit, how) - 1
    decision = how.cheapest_for_all(k)
    if not decision:
        return None
    return Finding("note", how.words(k), advice=(f"If {how.costs(k)}, {decision}.",))


def _least(audit: Audit, how: Threshold) -> int:
    """The lowest threshold in percent: no most probable class of K has less than 1 / K."""
    every = isinstance(how, Acting) or is_pairs(audit)
    return 1 if every else math.ceil(100 / audit.summary.plan.n_classes)


def _first(audit: Audit, how: Threshold) -> int:
    """The threshold in percent at which the slider starts."""
    return min(max(_start(audit, how), _least(audit, how)), 99)


def threshold_slider(audit: Audit, how: Threshold) -> ThresholdSlider:
    """The slider of a rule."""
    acting, least = isinstance(how, Acting), _least(audit, how)
    places = range(least - 1, len(THRESHOLDS))
    positions = [
        Position(
            round(100 * how.threshold(k)),
            float(f"{how.ratio(k):.3g}"),
            how.label(k),
            how.words(k),
            list(zip(*(how.cells(one, k) for one in how.points.values()), strict=True)),
        )
        for k in places
    ]
    few = [t - 1 for t in (FEW if acting else FEW_CONFIDENCES) if t - 1 in places]
    headers = ("threshold", how.ratio_name, "outputs", *how.names)
    sampled = sample_words(audit)
    what = f"Decisions by threshold, {how.rows_words}"
    return ThresholdSlider(
        name="threshold",
        title="Choose a threshold",
        lead=how.lead + (f" {capitalised(sampled)}." if sampled else ""),
        axis=how.axis,
        field=how.field,
        ends=how.ends,
        headers=(how.rows_words, *how.points),
        names=how.names,
        positions=positions,
        start=_first(audit, how),
        few=Table(what, headers, table_rows(how, few), (0, 2), tips=how.tips),
        markers={name: found[least - 1 :] for name, found in _markers(how).items()},
    )


def _start(audit: Audit, how: Threshold) -> int:
    """The threshold in percent that is best under the given costs; if hardly any row would be
    answered, one that answers half of them."""
    if isinstance(how, Answering):
        best = round(100 * (1 - audit.summary.plan.reject_cost))
        answered = how.points[ORIGINAL].acted
        if max(one.acted[best - 1] for one in how.points.values()) >= LEAST_ANSWERED:
            return best
        return 1 + int(np.argmin(np.abs(answered - 0.5)))
    if audit.costs is None or audit.costs.matrix.shape != (2, 2):
        return 50
    matrix = audit.costs.matrix if audit.summary.plan.event == 1 else audit.costs.matrix[::-1, ::-1]
    alarm, miss = matrix[0, 1] - matrix[0, 0], matrix[1, 0] - matrix[1, 1]
    return round(100 * float(alarm / (alarm + miss))) if alarm > 0 and miss > 0 else 50


def _markers(how: Threshold) -> dict[str, list[float]]:
    """The place of the chosen threshold in each chart."""
    first = how.points[ORIGINAL]
    if isinstance(how, Answering):  # the chart of its errors has another axis
        return {}
    places = first.thresholds.tolist()
    drawn = 0 < first.rate < 1
    return {"net-benefit": places} | ({"risk": places} if drawn else {})


def _risk_curves(audit: Audit, how: Threshold) -> RiskCurves:
    """The cost at every threshold."""
    n = audit.summary.rows
    first = how.points[ORIGINAL].risk_curve(n)
    # both relative to one constant decision: a sample has slightly other rates
    columns = ("thresholds", "risk", "naive")
    curves = {
        name: _fewer(one.risk_curve(n, first.naive), columns) for name, one in how.points.items()
    }
    return RiskCurves.of_curves(curves, against="threshold")
