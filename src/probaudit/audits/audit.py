"""One audit of one classifier's predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import RESAMPLES
from ..calibration.significance import CalibrationTest
from ..calibration.validation import Validation
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss, default_calibrator
from ..calibrators.folds import FOLDS
from ..calibrators.registry import calibrator_named
from ..choices.scores import Cost
from ..data.arrays import named_columns
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.populations import Crossing, crossings
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.memory import evidence_of
from ..engines.row_source import RowSource
from ..errors import InputError
from ..estimate import Estimate
from ..grouping.budget import Budget, loss_budget
from ..scoring.clusters import ClusteredRows
from ..scoring.decision_curve import DecisionCurve
from ..scoring.risk_coverage import RiskCoverage
from ..states import AuditState, Plan, Summary
from ..states.evidence import Evidence
from ..version import __version__
from . import errors_by_lens, risks
from .case import MATERIAL, Case
from .decision import Decision, Grade, decide, helps
from .dependence import cluster_words, clustered_rows
from .estimates import (
    calibration_loss_estimates,
    grouping_loss_estimates,
    named_costs,
    score_estimates,
    too_few_to_calibrate,
)
from .finding import Finding, Spelling, as_call
from .groups import GroupTable, group_errors, with_bounds
from .lens_error import BINS, LensError
from .pitfalls import PITFALLS
from .repairs import Repair, compare_repairs
from .result import Result, plain, plain_columns
from .verdict import judge

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator
    from ..engines.dask_rows import DaskRows
    from ..report.page import Page

SCHEMA = "probaudit.audit/5"
CLEAR = 0.01  # the lower limit of a calibration error from which more calibrators are tried
SHOWN_REGIONS = 20
SHOWN_CLASSES = 50

Repairing = bool | Literal["compare"] | None


@dataclass(frozen=True, eq=False)
class Audit(Result):
    """The result of an audit.

    estimates : scores and losses by name, with 95% intervals.
    errors, class_errors : the calibration error under each lens, and of each class, each with its
        test against a calibrated model.
    groups : predicted and observed rate, calibration error and other measures of each group, for
        each value of each column; see `Group`.
    repairs : the calibrators that were tried: the default one, or many with `repair="compare"`; one
        is recommended, which may be to change nothing.
    budget : the loss budget, if there are features or groups.
    validation, decision_curve : observed / expected ratio, slope, AUC and so on of the event, and
        the net benefit of acting on it, if there is an event (see `event`).
    risk_coverage : the error rate among the most confident rows.
    decision : the grade, the headline, one sentence in numbers, and the most important findings.
    findings : all findings, the most serious first.
    evidence : the sums over all rows, and the sample that fits use.
    settings, choices : how the numbers were made; `regions`, if they were given.

    spelling : writes the actions of advice, as calls in Python or as commands.

    `print(audit)` shows the verdict and a summary, `to_text` all of it; `to_dict`, `to_json`,
    `to_frame` and `flat` return the numbers; `to_html` writes the report.
    """

    estimates: Mapping[str, Estimate]
    errors: tuple[LensError, ...]
    findings: tuple[Finding, ...]
    decision: Decision
    evidence: Evidence
    settings: Mapping[str, Any]
    risk_coverage: RiskCoverage
    validation: Validation | None = None
    decision_curve: DecisionCurve | None = None
    class_errors: tuple[LensError, ...] = ()
    groups: GroupTable = field(default_factory=GroupTable)
    repairs: tuple[Repair, ...] = ()
    budget: Budget | None = None
    title: str = ""
    choices: Mapping[str, Any] = field(default_factory=dict)
    spelling: Spelling = as_call

    @property
    def summary(self) -> Summary:
        return self.evidence.summary

    @property
    def fingerprint(self) -> str:
        return self.evidence.fingerprint

    @property
    def costs(self) -> Cost | None:
        return self.summary.plan.costs.get("costs")

    @property
    def clusters(self) -> int | None:
        """The number of clusters (of the sample, if there is one); None if rows are
        independent."""
        rows = clustered_rows(self.evidence)
        return None if rows is None else rows.clusters.count

    @property
    def event(self) -> Any:
        """The class whose probability is judged; None if it is the most probable class."""
        return self.summary.plan.event_class

    @property
    def calibration(self) -> CalibrationTest:
        """The ECE of the event, or of the most probable class, over 15 bins of equal width."""
        return self.errors[0].test

    @property
    def grade(self) -> Grade:
        """What to do: "use", "recalibrate", "do_not_use" or "cannot_tell" (see `decision`)."""
        return self.decision.grade

    @property
    def verdict(self) -> str:
        """The headline, the sentence in numbers, and all findings, as text."""
        first = (self.headline, self.decision.sentence)
        return "\n".join([*first, *(finding.text for finding in self.findings)])

    @property
    def headline(self) -> str:
        """The verdict in one imperative sentence."""
        return self.decision.headline

    @property
    def recommended(self) -> Repair | None:
        """The recommended calibrator; None if none was tried."""
        return next((repair for repair in self.repairs if repair.recommended), None)

    @property
    def pitfall_rules(self) -> dict[str, str]:
        """What each rule for a pitfall looks for, by the name of the rule."""
        return {rule.name: rule.looks_for for rule in PITFALLS}

    def __getitem__(self, name: str) -> Estimate:
        named = self._named()
        if name not in named:
            raise KeyError(f"{name!r}; the estimates are {', '.join(named)}")
        return named[name]

    def _named(self) -> dict[str, Estimate]:
        """Every estimate and calibration error by name."""
        return dict(self.estimates) | {error.name: error.estimate for error in self.errors}

    def __repr__(self) -> str:
        from ..report.terminal import as_text

        return as_text(self)

    def to_text(self) -> str:
        """All of the audit as plain text. `print(audit)` shows its first part."""
        from ..report.terminal import as_text

        return as_text(self, full=True)

    def flat(self) -> dict[str, float]:
        """Every estimate and calibration error by name, with the ends of its interval (`.low` and
        `.high`), counts of rows, and the numbers of each group, for `check` or an experiment
        tracker."""
        values: dict[str, float] = {}
        for name, estimate in self.estimates.items():
            values |= with_bounds(name, estimate)
        for error in self.errors:
            values |= with_bounds(error.name, error.estimate)
            values[f"{error.name}.p_value"] = error.p_value
        values |= {
            "rows": self.summary.rows,
            "dropped_rows": self.summary.dropped,
            "infinite_rows": int(self.summary.log.infinite.sum()),
        }
        for group in self.groups:
            values |= group.flat()
        return values

    def to_frame(self) -> Any:
        """Every estimate and calibration error as a pandas DataFrame, one row each."""
        import narwhals as nw

        named = self._named()
        columns: dict[str, list[Any]] = {
            "name": list(named),
            "value": [float(x) for x in named.values()],
        }
        columns |= {
            part: [getattr(x, part) for x in named.values()]
            for part in ("low", "high", "n", "definition")
        }
        return nw.from_dict(columns, backend="pandas").to_native()

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain values (schema `probaudit.audit/5`, see docs/audit-json.md)."""
        plan, sample = self.summary.plan, self.evidence.sample
        worst = sorted(self.class_errors, key=lambda error: -error.excess)[:SHOWN_CLASSES]
        return {
            "schema": SCHEMA,
            "version": __version__,
            "headline": self.headline,
            "decision": self.decision.to_dict(),
            "rows": self.summary.rows,
            "dropped_rows": {rule: count for rule, count in self.summary.bad.items() if count},
            "sample_rows": len(sample),
            "clusters": self.clusters,
            "classes": [plain(c) for c in plan.classes],
            "class_rows": self.summary.log.rows.tolist(),
            "event": None if self.event is None else plain(self.event),
            "kind": plan.kind,
            "weighted": plan.weighted,
            "calibration": {
                name: _number(getattr(self.calibration, name))
                for name in ("value", "null_mean", "null_high", "p_value")
            }
            | {"bins": BINS},
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "errors": [error.to_dict() for error in self.errors],
            "class_errors": [error.to_dict() for error in worst],
            "groups": [group.to_dict() for group in self.groups],
            "curves": self._curves(),
            "budget": None
            if self.budget is None
            else self.budget.to_dict() | {"regions": _regions(self.budget)},
            "repairs": [repair.to_dict() for repair in self.repairs],
            "findings": [finding.to_dict(self.spelling) for finding in self.findings],
            "settings": dict(self.settings),
            "fingerprint": self.fingerprint,
        }

    def _curves(self) -> dict[str, Any]:
        """The risk-coverage curve and, if there is an event, the decision curve."""
        found = {"risk_coverage": plain_columns(self.risk_coverage.curve._asdict())}
        if self.decision_curve is not None:
            found["net_benefit"] = plain_columns(self.decision_curve.columns())
        return found

    def _page(self, title: str) -> Page:
        from ..report.audit_page import audit_page

        return audit_page(self, title)

    def _short_page(self) -> Page:
        from ..report.audit_page import audit_summary

        return audit_summary(self)

    def plot(self, ax: Any = None) -> Any:
        """The reliability diagram of the event, or of the most probable class, drawn by matplotlib.
        See `diagrams` for others."""
        from ..diagrams.reliability import Reliability, event_name

        event = event_name(self.evidence.sample, self.summary.plan.lens)
        grid = FineGrid.of_event(self.evidence.judged)
        return Reliability.of_grid(grid, BINS, event=event).plot(ax)


def _regions(budget: Budget) -> list[dict[str, Any]]:
    """The regions with the largest loss, as plain values."""
    table = budget.found.regions
    return [table[i]._asdict() for i in range(min(len(table), SHOWN_REGIONS))]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


@documents_row_options
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
    features : [rows, d], a frame, or a mapping of columns. Adds a loss budget (`loss_budget`), with
        regions of the features as hidden groups.
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
        whether these are the rows that fitted it.
    material : the share of the log loss from which a gain matters to the verdict (see
        `audits.decision`); 1% by default.
    title : the title of the report.
    threads : the number of threads; all cores by default. The result does not depend on it.

    >>> found = audit([1, 0, 1, 1], [0.9, 0.2, 0.4, 0.7])
    >>> round(found["accuracy"], 2), found["log_score"].n
    (0.75, 4)
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
        return audit_source(source, passing=Passing(threads=threads), **choices)
    rows = rows_of(y_true, y_proba, **given)
    return audit_rows(rows, features=features, threads=threads, **choices)


def audit_rows(
    rows: Predictions,
    *,
    costs: Any = None,
    reject_cost: float = 0.1,
    repair: Repairing = None,
    regions: Any = None,
    cross: Crossing = False,
    features: Any = None,
    calibrator: Calibrator | None = None,
    material: float = MATERIAL,
    title: str = "",
    threads: int | None = None,
    progress: bool | None = None,
) -> Audit:
    """As `audit`, for `Predictions`. `features`, if a frame or mapping, replaces those of the
    rows."""
    _check_choices(repair, calibrator)
    crossings(cross, rows.columns or {})
    if features is not None and (named := named_columns(features, "features")) is not None:
        rows = replace(rows, features=named, feature_names=None)
    plan = Plan.of(rows, named_costs(costs), reject_cost)
    evidence = evidence_of(rows, plan, threads=threads, progress=progress)
    return audit_evidence(
        evidence,
        repair=repair,
        regions=regions,
        cross=cross,
        calibrator=calibrator,
        material=material,
        title=title,
        progress=progress,
    )


def audit_source(
    source: RowSource | DaskRows,
    *,
    passing: Passing | None = None,
    costs: Any = None,
    reject_cost: float = 0.1,
    repair: Repairing = None,
    regions: Any = None,
    cross: Crossing = False,
    calibrator: Calibrator | None = None,
    material: float = MATERIAL,
    title: str = "",
) -> Audit:
    """As `audit`, for rows in files or on a Dask cluster (`scan`); results are identical."""
    _check_choices(repair, calibrator)
    first = source.first_rows if isinstance(source, RowSource) else source.first
    crossings(cross, first.columns or {})
    evidence = (passing or Passing()).evidence(source, named_costs(costs), reject_cost)
    return audit_evidence(
        evidence,
        repair=repair,
        regions=regions,
        cross=cross,
        calibrator=calibrator,
        material=material,
        title=title,
    )


def audit_evidence(
    evidence: Evidence,
    *,
    repair: Repairing = None,
    regions: Any = None,
    cross: Crossing = False,
    calibrator: Calibrator | None = None,
    material: float = MATERIAL,
    title: str = "",
    progress: bool | None = None,
) -> Audit:
    """As `audit`, for the evidence of a pass, whose plan has the costs."""
    _check_choices(repair, calibrator)
    if not 0 < material < 1:
        raise InputError("material", "must be a share between 0 and 1", material)
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
    budget = _budget(evidence, regions, loss, repairs)
    estimates = score_estimates(evidence.summary, clustered)
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
        calibrator=calibrator,
        validation=risk,
        effective_rows=risks.effective_rows(selective),
        material=material,
    )
    findings = judge(case)
    return Audit(
        estimates=estimates,
        errors=errors,
        findings=findings,
        decision=decide(case, findings),
        evidence=evidence,
        settings=_settings(evidence, clustered, loss_words) | groups.settings,
        class_errors=class_errors,
        groups=groups,
        repairs=repairs,
        budget=budget,
        validation=risk,
        decision_curve=curve,
        risk_coverage=selective,
        title=title,
        choices={} if regions is None else {"regions": regions},
    )


def _unexplained(errors: Sequence[LensError], repairs: Sequence[Repair], material: float) -> bool:
    """Whether a calibration error is clear, and the default calibrator does not remove it: others
    may."""
    best = next((repair for repair in repairs if repair.recommended), None)
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
    evidence: Evidence, regions: Any, loss: CalibrationLoss | None, repairs: tuple[Repair, ...]
) -> Budget | None:
    """The loss budget; None without features and regions, for a single cluster, or without loss."""
    sample, clustered = evidence.sample, clustered_rows(evidence)
    if sample.features is None and regions is None:
        return None
    if clustered is not None and clustered.clusters.count < 2:
        return None
    recalibration = _recalibration(sample, loss, repairs)
    budget = loss_budget(
        sample,
        regions="tree" if regions is None else regions,
        calibrator=recalibration,
        others=evidence.others if recalibration == "none" else None,
    )
    return budget if budget.total > 0 else None


def _settings(
    evidence: Evidence, clustered: ClusteredRows | None, loss_words: str
) -> dict[str, Any]:
    """How the numbers were made, for the report."""
    sample, plan = evidence.sample, evidence.summary.plan
    event = "stated-confidence" if sample.pairs else "top-label"
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


def _check_choices(repair: Any, calibrator: Any) -> None:
    if repair not in (None, True, False, "compare"):
        raise InputError("repair", 'must be True, False, "compare" or None', repr(repair))
    if calibrator is not None and not hasattr(calibrator, "fit_report_"):
        raise InputError("calibrator", "must be a fitted calibrator", repr(calibrator)[:80])


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


def _recalibration(
    sample: Predictions, loss: CalibrationLoss | None, repairs: tuple[Repair, ...]
) -> CalibrationLoss | Literal["none"] | None:
    """The recalibration of the loss budget: by the recommended calibrator, or by the default one
    if the recommended one uses features or groups and would remove more than miscalibration.

    loss : that of the default calibrator.
    """
    name = next((repair.name for repair in repairs if repair.recommended), "")
    if name == "identity":
        return "none"
    calibrator = calibrator_named(name) if name else default_calibrator()
    if calibrator.takes or type(calibrator) is type(default_calibrator()):
        return loss
    return calibration_loss(sample, calibrator=calibrator, cv=FOLDS, interval=None)
