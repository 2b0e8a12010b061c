"""One audit of one classifier's predictions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

from ..arrays import as_array
from ..budget import Budget, loss_budget
from ..calibration_loss import calibration_loss
from ..engines.memory import gather
from ..errors import InputError
from ..estimates import scores
from ..estimates.estimate import Estimate
from ..estimates.fine_grid import FineGrid
from ..estimates.null import BinnedError, binned_error
from ..lenses import TopLabel
from ..metrics import RowOptions, rows_of
from ..predictions import Predictions
from ..scores import Brier, Cost, Log
from ..statistics import Plan, Summary
from ..version import __version__
from ..viewing import grids_of
from ..writing import write_text
from .verdict import Finding, judge

SCHEMA = "probaudit.audit/1"
FOLDS = 5
REPAIRED_VALUES = 20_000_000
SHOWN_REGIONS = 20


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found: estimates by name, findings in words, and where they come from.

    `print(audit)` shows it as the terminal does; `to_dict`, `to_json` and `flat` give the numbers.
    """

    estimates: Mapping[str, Estimate]
    calibration: BinnedError
    findings: tuple[Finding, ...]
    summary: Summary
    settings: Mapping[str, Any]
    fingerprint: str
    budget: Budget | None = None

    @property
    def verdict(self) -> str:
        """The findings as text, the gravest first."""
        return "\n".join(finding.text for finding in self.findings)

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.estimates:
            raise KeyError(f"{name!r}; the estimates are {', '.join(self.estimates)}")
        return self.estimates[name]

    def __repr__(self) -> str:
        from .terminal import as_text

        return as_text(self)

    def flat(self) -> dict[str, float]:
        """Every estimate by name, and the counts that can be gated on: for `check`, or for any tracker."""
        found = {name: float(value) for name, value in self.estimates.items()}
        infinite = int(self.summary.log.infinite.sum())
        found |= {"ece": self.calibration.value, "ece.p_value": self.calibration.p_value}
        return found | {"rows": self.summary.rows, "dropped_rows": self.summary.dropped, "infinite_rows": infinite}

    def to_dict(self) -> dict[str, Any]:
        """The whole audit as plain values (schema `probaudit.audit/1`)."""
        plan = self.summary.plan
        return {
            "schema": SCHEMA,
            "version": __version__,
            "rows": self.summary.rows,
            "dropped_rows": {rule: count for rule, count in self.summary.bad.items() if count},
            "classes": [_plain(c) for c in plan.classes],
            "class_rows": self.summary.log.rows.tolist(),
            "kind": plan.kind,
            "weighted": plan.weighted,
            "calibration": {name: _number(value) for name, value in asdict(self.calibration).items()},
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "budget": None if self.budget is None else self.budget.to_dict() | {"regions": _regions(self.budget)},
            "findings": [{"level": finding.level, "rule": finding.rule, "text": finding.text} for finding in self.findings],
            "settings": dict(self.settings),
            "fingerprint": self.fingerprint,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The audit as JSON; written to a file too, if a path is given."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        if path is not None:
            write_text(Path(path), text)
        return text


def _regions(budget: Budget) -> list[dict[str, Any]]:
    """The regions that lose most, as plain values."""
    table = budget.found.regions
    return [table[i]._asdict() for i in range(min(len(table), SHOWN_REGIONS))]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, bool)) or (isinstance(value, float) and math.isfinite(value)) else str(value)


def audit(
    y_true: Any,
    y_proba: Any = None,
    *,
    features: Any = None,
    columns: Mapping[str, Any] | None = None,
    costs: Any = None,
    classes: Sequence[Any] | None = None,
    reject_cost: float = 0.1,
    repair: bool | None = None,
    regions: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Audit:
    """Judge predicted probabilities: accuracy, proper scores with 95% intervals, normalised, and a verdict in words.

    y_true, y_proba : labels and outputs, as in `log_score`; or `Predictions` alone.
    features, columns : per row. With features, or with `regions`, the audit has a loss budget (`loss_budget`) and says who is
        badly served.
    regions : how rows are parted for that, as in `grouping_loss`: a tree of the features unless given; names of columns.
    costs : matrix [K, M] of what decision j costs when class i is true; adds `cost_risk`.
    classes : the class of each column, in order (the same as `labels` elsewhere).
    reject_cost : of the reject option, where an error costs 1.
    repair : whether to try a calibrator in cross-validation and say what it would gain (`calibration_loss`); unless given,
        up to 20 million outputs.

    >>> found = audit([1, 0, 1, 1], [0.9, 0.2, 0.4, 0.7])
    >>> round(found["accuracy"], 2), found["log_score"].n
    (0.75, 4)
    """
    if classes is not None and options.get("labels") is not None:
        raise InputError("labels", "is the same as `classes`; give one of them")
    if classes is not None:
        options["labels"] = classes
    rows = rows_of(y_true, y_proba, features=features, columns=columns, **options)
    return audit_rows(
        rows, costs=costs, reject_cost=reject_cost, repair=repair, regions=regions, features=features, threads=threads
    )


def audit_rows(
    rows: Predictions,
    *,
    costs: Any = None,
    reject_cost: float = 0.1,
    repair: bool | None = None,
    regions: Any = None,
    features: Any = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Audit:
    """As `audit`, for rows that are `Predictions` already; `features` only to give those of the rows names."""
    cost = None if costs is None else costs if isinstance(costs, Cost) else Cost(as_array(costs, "costs"))
    plan = Plan.of(rows, {} if cost is None else {"costs": cost}, reject_cost)
    state = gather(rows, plan, threads=threads, progress=progress)
    summary = state.finalise()
    if summary.rows == 0:
        raise InputError(rows.name("probs"), "no row is left to judge", summary.why_empty())
    estimates = _estimates(summary, cost)
    calibration = binned_error(FineGrid.of_summary(summary.grid) if not plan.weighted else grids_of(rows, TopLabel())[0])
    repaired, words = _repair(rows, summary, repair)
    estimates |= repaired
    budget = None if rows.features is None and regions is None else _budget(rows, features, regions, repaired)
    if budget is not None:
        share = budget.grouping / budget.total
        words = f"share of the Brier score, {budget.grouping.definition}"
        low, high = (end / budget.total for end in budget.grouping.interval)
        estimates["grouping_loss"] = budget.grouping
        estimates["grouping_loss.relative"] = Estimate(share, low=low, high=high, n=budget.grouping.n, definition=words)
    settings = {
        "calibration_loss": words,
        "reject_cost": reject_cost,
        "on_bad_rows": rows.on_bad_rows,
        "row_sum_tolerance": rows.row_tolerance,
        "interval": "95%, by linearisation (accuracy: Wilson)",
        "calibration": f"top-label ECE, {calibration.bins} equal bins, 999 consistency resamples, seed 0",
    }
    fingerprint = hashlib.sha256(state.to_bytes()).hexdigest()[:16]
    findings = judge(summary, estimates, calibration, budget)
    return Audit(estimates, calibration, findings, summary, settings, fingerprint, budget)


def _budget(rows: Predictions, features: Any, regions: Any, repaired: Mapping[str, Estimate]) -> Budget:
    """The loss budget, before and (if a calibrator was tried) after calibration."""
    return loss_budget(
        rows, features=features, regions="tree" if regions is None else regions, calibrator=None if repaired else "none"
    )


def _repair(rows: Predictions, summary: Summary, asked: bool | None) -> tuple[dict[str, Estimate], str]:
    """What the usual calibrator would gain, out of fold, and how it was found; or why it was not tried."""
    if asked is False or (asked is None and rows.probs.size > REPAIRED_VALUES):
        return {}, "not asked for" if asked is False else f"not tried: more than {REPAIRED_VALUES:,} outputs"
    if (summary.log.rows > 0).sum() < 2 or summary.rows < FOLDS:
        return {}, "not tried: it needs two classes and five rows"
    try:
        found = calibration_loss(rows, cv=FOLDS)
    except InputError as problem:
        return {}, f"not tried: {problem.rule}"
    estimates = {"log_score.calibrated": found.calibrated}
    if math.isfinite(found.raw):  # of an infinite score no share can be lost
        estimates |= {"calibration_loss": found.loss, "calibration_loss.relative": found.relative}
    return estimates, found.definition


def _estimates(summary: Summary, cost: Cost | None) -> dict[str, Estimate]:
    found = {"accuracy": scores.accuracy(summary)}
    for name, score in (("log_score", Log()), ("brier_score", Brier())):
        found[name] = scores.estimate_score(summary, score)
        found[f"{name}.normalized"] = scores.estimate_score(summary, score, normalize=True)
    if summary.plan.kind != "pairs":  # a stated confidence allows no other decision than the one already made
        found["error_rate"] = scores.zero_one(summary)
        found["error_rate.normalized"] = scores.zero_one(summary, normalize=True)
        found["reject_risk"] = scores.zero_one_reject(summary)
        found["reject_risk.normalized"] = scores.zero_one_reject(summary, normalize=True)
    if cost is not None:
        found["cost_risk"] = scores.estimate_score(summary, cost)
        found["cost_risk.normalized"] = scores.estimate_score(summary, cost, normalize=True)
    return found
