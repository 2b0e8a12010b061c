"""One audit of one classifier's predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from ..calibration.resampling import RESAMPLES
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss
from ..calibrators.folds import FOLDS
from ..data.arrays import named_columns
from ..data.calibrator_fit import CalibratorFit
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.populations import Crossing, crossings
from ..data.predictions import Predictions
from ..data.work import one_blas_thread
from ..engines.choosing import Passing, as_source
from ..engines.memory import evidence_of
from ..engines.row_source import RowSource
from ..errors import InputError
from ..estimate import Estimate
from ..grouping.budget import Budget, loss_budget
from ..scoring.clusters import ClusteredRows
from ..states import AuditState, Plan
from ..states.evidence import Evidence
from . import errors_by_lens, risks
from .audit_result import Audit
from .case import MATERIAL, Case
from .decision import decide, settled
from .dependence import cluster_words, clustered_rows
from .estimates import (
    calibration_loss_estimates,
    grouping_loss_estimates,
    named_costs,
    score_estimates,
    too_few_to_calibrate,
)
from .finding import Calls
from .groups import group_errors
from .lens_error import BINS, LensError
from .repairs import Repair, advised, compare_repairs, helps
from .verdict import judge

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator
    from ..engines.dask_rows import DaskRows

CLEAR = 0.01  # the lower limit of a calibration error from which more calibrators are tried

Repairing = bool | Literal["compare"] | None


class AuditChoices(TypedDict, total=False):
    """The choices of `audit` that need no pass over the rows."""

    repair: Repairing
    regions: Any
    cross: Crossing
    calibrator: Calibrator | CalibratorFit | None
    material: float
    title: str


@takes_row_options
def audit(
    y_true: Any,
    y_proba: Any = None,
    *,
    features: Any = None,
    columns: Any = None,
    cross: Crossing = False,
    costs: Any = None,
    reject_cost: float = 0.1,
    repair: Repairing = None,
    regions: Any = None,
    calibrator: Calibrator | None = None,
    material: float = MATERIAL,
    title: str = "",
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Audit:
    """Audit predicted probabilities: proper scores and calibration errors with 95% intervals,
    groups the model misjudges, repairs, and a verdict in words.

    y_true, y_proba : labels and outputs, as in `log_score`; or `Predictions` alone; or rows that
        need not fit into memory: the result of `scan`, dask arrays of labels and outputs, or a
        `State`.
    features : [rows, d], a frame, or a mapping of columns. Adds a budget of the log loss
        (`loss_budget`) relative to the base-rate forecast, with regions of the features as hidden
        groups.
    columns : a frame or a mapping of names to one value per row: candidates for groups. Each column
        with at most 50 values splits the rows into groups, each with its own measures and
        calibration error. Numeric columns with more than 20 values are cut into five ranges with
        equally many rows.
    cross : adds the intersections of groups: of all columns (True), or of each of the given
        crossings, such as ["sex*race", "sex*age"].
    regions : the groups of the loss budget, as in `grouping_loss`: a tree of the features by
        default, or names of `columns`.
    costs : matrix [K, M] of the cost of decision j if class i is true; adds `cost_risk`.
    reject_cost : the cost of the reject option; an error costs 1.
    repair : by default, one calibrator is cross-validated, and the audit reports what it removes of
        the log loss (`calibration_loss`); many, if it does not help although the calibration error
        is clear. "compare" always compares many and recommends one (`repairs`); False tries none.
    calibrator : the fitted calibrator that made these probabilities, if any. The audit then checks
        whether these are the rows that fitted it. A file of `probaudit apply` needs none: it stores
        what identifies these rows.
    material : the share of the log loss from which a gain matters to the verdict (see
        `audits.decision`); 1% by default.
    title : the title of the report.
    threads : the number of threads; all cores by default. The result does not depend on it.

    >>> found = audit([1, 0, 1, 1], [0.9, 0.2, 0.4, 0.7])
    >>> round(found["accuracy"], 2), found["log_score"].n
    (0.75, 4)

    With two classes, `ece` judges the event: does it happen in 20% of the rows with 20%? Other
    functions judge the most probable class unless you pass `lens=Binary()`; in an audit, that
    number is `top_label.ece`.

    >>> from probaudit import Binary, calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < 0.5 * p  # half of the risks that the model predicts
    >>> found = audit(y, p, repair=False)
    >>> round(found["ece"], 3), round(calibration_error(y, p, lens=Binary()), 3)
    (0.236, 0.236)
    >>> round(found["top_label.ece"], 3), round(calibration_error(y, p), 3)
    (0.123, 0.123)
    """
    choices: dict[str, Any] = {
        "repair": repair,
        "regions": regions,
        "calibrator": calibrator,
        "material": material,
        "title": title,
        "cross": cross,
    }
    if isinstance(y_true, AuditState):
        if y_proba is not None:
            raise InputError("y_proba", "must not be given with a state, which has its own rows")
        return audit_evidence(y_true.finalise(), **choices)
    choices |= {"costs": costs, "reject_cost": reject_cost}
    given: Any = {"features": features, "columns": columns, **options}
    if (source := as_source(y_true, y_proba, **given)) is not None:
        found = audit_source(source, passing=Passing(threads=threads), **choices)
        names: tuple[str, ...] = ("pb.read(...)",)  # calibrators need rows in memory
    else:
        rows = rows_of(y_true, y_proba, **given)
        found = audit_rows(rows, features=features, threads=threads, **choices)
        names = ("rows",) if y_proba is None else ("y_true", "y_proba")
    return replace(found, spelling=Calls.of(names, options))


def audit_rows(
    rows: Predictions,
    *,
    costs: Any = None,
    reject_cost: float = 0.1,
    features: Any = None,
    threads: int | None = None,
    progress: bool | None = None,
    **choices: Unpack[AuditChoices],
) -> Audit:
    """As `audit`, for `Predictions`. `features`, if a frame or mapping, replaces those of the
    rows."""
    _check_choices(rows, **choices)
    if features is not None and (named := named_columns(features, "features")) is not None:
        rows = replace(rows, features=named, feature_names=None)
    plan = Plan.of(rows, named_costs(costs), reject_cost)
    evidence = evidence_of(rows, plan, threads=threads, progress=progress)
    return audit_evidence(evidence, progress=progress, **choices)


def audit_source(
    source: RowSource | DaskRows,
    *,
    passing: Passing | None = None,
    costs: Any = None,
    reject_cost: float = 0.1,
    **choices: Unpack[AuditChoices],
) -> Audit:
    """As `audit`, for rows in files or on a Dask cluster (`scan`); results are identical."""
    first = source.first_rows if isinstance(source, RowSource) else source.first
    _check_choices(first, **choices)
    if choices.get("calibrator") is None:
        choices["calibrator"] = first.calibrator_fit
    evidence = (passing or Passing()).evidence(source, named_costs(costs), reject_cost)
    return audit_evidence(evidence, **choices)


@one_blas_thread()
def audit_evidence(
    evidence: Evidence,
    *,
    repair: Repairing = None,
    regions: Any = None,
    cross: Crossing = False,
    calibrator: Calibrator | CalibratorFit | None = None,
    material: float = MATERIAL,
    title: str = "",
    progress: bool | None = None,
) -> Audit:
    """As `audit`, for the evidence of a pass, whose plan has the costs."""
    _check_choices(
        evidence.sample, repair=repair, cross=cross, calibrator=calibrator, material=material
    )
    clustered = clustered_rows(evidence)
    with np.errstate(divide="ignore"):  # squares of very small weights underflow
        errors, class_errors = _calibration_errors(evidence)
        groups = group_errors(evidence, cross)
    loss, loss_words = _default_calibration_loss(evidence, repair)
    repairs: tuple[Repair, ...] = ()
    if loss is not None:
        every = repair == "compare"
        repairs = compare_repairs(evidence, loss, regions=regions, every=every, progress=progress)
        if repair is None and _unexplained(errors, repairs, material):
            repairs = compare_repairs(evidence, loss, regions=regions, progress=progress)
    estimates = score_estimates(evidence.summary, clustered)
    budget = _budget(evidence, regions, repairs, estimates)
    risk, selective = risks.validation(evidence, estimates), risks.risk_coverage(evidence)
    estimates |= risks.risk_estimates(risk, selective)
    estimates |= calibration_loss_estimates(loss, evidence.sample_words)
    estimates |= grouping_loss_estimates(budget, evidence.sample_words)
    curve = risks.decision_curve(evidence)
    evidence = replace(evidence, total=None)  # release the rows
    case = Case(
        evidence=evidence,
        estimates=estimates,
        errors=errors,
        class_errors=class_errors,
        groups=groups,
        repairs=repairs,
        budget=budget,
        calibrator_fit=_fit_of(calibrator, evidence.sample),
        validation=risk,
        effective_rows=risks.effective_rows(selective),
        material=material,
    )
    findings = judge(case)
    decision = decide(case, findings)
    return Audit(
        estimates=estimates,
        errors=errors,
        findings=settled(findings, decision.grade),
        decision=decision,
        evidence=evidence,
        settings=_settings(evidence, clustered, loss_words) | groups.settings,
        class_errors=class_errors,
        groups=groups,
        repairs=advised(repairs, decision.grade),
        budget=budget,
        validation=risk,
        decision_curve=curve,
        risk_coverage=selective,
        title=title,
        choices={} if regions is None else {"regions": regions},
    )


def _unexplained(errors: Sequence[LensError], repairs: Sequence[Repair], material: float) -> bool:
    """Whether a calibration error is clear, and the default calibrator does not remove it: others
    may. So may they if the log loss is infinite, as the default leaves outputs of 0 near 0."""
    best = next((repair for repair in repairs if repair.selected), None)
    if best is not None and not math.isfinite(best.gain):
        return True
    clear = any(error.miscalibrated and error.estimate.low > CLEAR for error in errors)
    return clear and not helps(best, material)


def _calibration_errors(
    evidence: Evidence,
) -> tuple[tuple[LensError, ...], tuple[LensError, ...]]:
    """The errors under all lenses, and those of single classes if there are more than two."""
    judged = errors_by_lens.event_errors(evidence)
    classwise, class_errors = errors_by_lens.class_errors(evidence, judged[0])
    errors = (
        *judged,
        classwise,
        *errors_by_lens.rank_errors(evidence),
        errors_by_lens.full_error(evidence),
    )
    return tuple(error for error in errors if error is not None), class_errors


def _budget(
    evidence: Evidence,
    regions: Any,
    repairs: tuple[Repair, ...],
    estimates: Mapping[str, Estimate],
) -> Budget | None:
    """The budget of the log loss relative to the base-rate forecast; of the Brier score if the log
    loss is infinite. None without features and regions, for a single cluster or class, or without
    loss."""
    sample, clustered = evidence.sample, clustered_rows(evidence)
    if sample.features is None and regions is None:
        return None
    if clustered is not None and clustered.clusters.count < 2:
        return None
    best = next((repair for repair in repairs if repair.selected), None)
    recalibration = _recalibration(best)
    changed = best is not None and isinstance(recalibration, CalibrationLoss)
    for score in ("log", "brier"):
        total = estimates[f"{score}_score.normalized"]
        if not (math.isfinite(total) and total > 0):
            continue
        budget = loss_budget(
            sample,
            score=score,
            regions="tree" if regions is None else regions,
            calibrator=recalibration,
            others=evidence.others if recalibration == "none" else None,
        )
        if budget.finite and budget.total > 0:
            after = best.normalized if best is not None and changed and score == "log" else None
            return budget.relative_to(total, after)
    return None


def _settings(
    evidence: Evidence, clustered: ClusteredRows | None, loss_words: str
) -> dict[str, Any]:
    """How the numbers were made, for the report."""
    sample, plan = evidence.sample, evidence.summary.plan
    event = "confidence" if sample.pairs else "top-label"
    event = event if plan.event is None else f"class {plan.event_class}:"
    settings = {
        "calibration_loss": loss_words,
        "reject_cost": plan.reject_cost,
        "on_bad_rows": plan.on_bad_rows,
        "row_sum_tolerance": plan.tolerance,
        "interval": _interval_words(clustered),
        "calibration": f"{event} ECE, {BINS} equal bins, {RESAMPLES} consistency resamples"
        + (", seed 0" if clustered is None else " and signs of clusters, seed 0"),
        "sample": f"{len(sample):,} rows, by row number" if evidence.sampled else "all rows",
    }
    if plan.ignore_label is not None:
        settings["ignored"] = evidence.summary.ignored_words
    return settings | ({} if clustered is None else {"clusters": cluster_words(evidence)})


def _interval_words(clustered: ClusteredRows | None) -> str:
    if clustered is None:
        return (
            "95%, by linearisation, with limits for few rows (accuracy: Wilson; "
            "binned calibration errors: simulated populations; others: bootstrap)"
        )
    return (
        "95%, cluster-robust by linearisation, Student's t (accuracy: Wilson on effective rows; "
        "calibration errors: resampled clusters, or widened by the root of the design effect)"
    )


def _check_choices(
    rows: Predictions,
    *,
    repair: Any = None,
    cross: Crossing = False,
    calibrator: Any = None,
    material: float = MATERIAL,
    **_: Any,
) -> None:
    """Check the choices before any work. `rows` : all rows, or the first of them."""
    crossings(cross, rows.columns or {})
    if not 0 < material < 1:
        raise InputError("material", "must be a share between 0 and 1", material)
    if repair not in (None, True, False, "compare"):
        raise InputError("repair", 'must be True, False, "compare" or None', repr(repair))
    known = calibrator is None or isinstance(calibrator, CalibratorFit)
    if not known and not hasattr(calibrator, "fit_report_"):
        raise InputError("calibrator", "must be a fitted calibrator", repr(calibrator)[:80])


def _fit_of(
    calibrator: Calibrator | CalibratorFit | None, sample: Predictions
) -> CalibratorFit | None:
    """The fit of the calibrator that made the outputs: as given, or as the file of the rows stores
    it."""
    if calibrator is None:
        return sample.calibrator_fit
    return calibrator if isinstance(calibrator, CalibratorFit) else calibrator.fit_identity


def _default_calibration_loss(
    evidence: Evidence, requested: Repairing
) -> tuple[CalibrationLoss | None, str]:
    """The calibration loss of the default calibrator on the sample, and its definition; or None
    and the reason."""
    if requested is False:
        return None, "not requested"
    if why := too_few_to_calibrate(evidence.summary.log.rows):
        return None, why
    try:
        loss = calibration_loss(evidence.sample, cv=FOLDS)
    except InputError as problem:
        return None, f"not tried: {problem.rule}"
    return loss, loss.definition + evidence.sample_words


def _recalibration(best: Repair | None) -> CalibrationLoss | Literal["none"] | None:
    """The recalibration of the loss budget: that of the selected calibrator; None, for the
    default of the budget, if none was tried."""
    if best is None or best.out_of_fold is None:
        return None
    return "none" if best.name == "identity" else best.out_of_fold.loss
