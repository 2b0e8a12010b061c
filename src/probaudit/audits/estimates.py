"""The estimates of an audit by name: proper scores and risks, calibration loss, grouping loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..calibrators.calibration_loss import CalibrationLoss
from ..calibrators.folds import FOLDS
from ..choices.scores import Brier, Cost, Log
from ..data.arrays import as_array
from ..estimate import Estimate
from ..grouping.budget import Budget
from ..scoring import expected_scores as scores
from ..scoring.clusters import ClusteredRows
from ..states import Summary


def named_costs(costs: Any) -> dict[str, Cost]:
    """The costs of a plan, from a matrix or `Cost`; empty for None."""
    if costs is None:
        return {}
    return {"costs": costs if isinstance(costs, Cost) else Cost(as_array(costs, "costs"))}


def score_estimates(summary: Summary, clustered: ClusteredRows | None) -> dict[str, Estimate]:
    """Accuracy, proper scores and risks; `.normalized` is relative to the base-rate forecast, or
    to the best constant decision."""
    accuracy, cost = scores.accuracy(summary, clustered), summary.plan.costs.get("costs")
    estimates = {"accuracy": accuracy}
    rows: Any = {"clustered": clustered}
    for name, score in (("log_score", Log()), ("brier_score", Brier())):
        estimates[name] = scores.estimate_score(summary, score, **rows)
        estimates[f"{name}.normalized"] = scores.estimate_score(
            summary, score, normalize=True, **rows
        )
    # with confidences the decision is already made
    if summary.plan.kind != "pairs":
        errors, reject = scores.zero_one(summary, **rows), scores.zero_one_reject(summary, **rows)
        estimates["error_rate"] = _with_interval(errors, 1 - accuracy.high, 1 - accuracy.low)
        estimates["error_rate.normalized"] = scores.zero_one(summary, normalize=True, **rows)
        estimates["reject_risk"] = _clipped(reject, 0, 1)
        estimates["reject_risk.normalized"] = scores.zero_one_reject(
            summary, normalize=True, **rows
        )
    if cost is not None:
        risk = scores.estimate_score(summary, cost, **rows)
        estimates["cost_risk"] = _clipped(risk, cost.matrix.min(), cost.matrix.max())
        estimates["cost_risk.normalized"] = scores.estimate_score(
            summary, cost, normalize=True, **rows
        )
    return {
        name: _undefined_ratio(x) if name.endswith(".normalized") and x.naive == 0 else x
        for name, x in estimates.items()
    }


def too_few_to_calibrate(rows_by_class: np.ndarray) -> str:
    """Why the rows are too few to cross-validate a calibrator; empty if they are enough.

    >>> too_few_to_calibrate(np.array([7, 1])), too_few_to_calibrate(np.array([7, 2]))
    ('not tried: needs two classes with at least two rows each, one of them with five', '')
    """
    if (rows_by_class >= 2).sum() >= 2 and rows_by_class.max() >= FOLDS:
        return ""
    return "not tried: needs two classes with at least two rows each, one of them with five"


def calibration_loss_estimates(
    loss: CalibrationLoss | None, sample_words: str = ""
) -> dict[str, Estimate]:
    """What a calibrator removes of the log loss; empty if none was tried."""
    if loss is None:
        return {}
    estimates = {"log_score.calibrated": loss.calibrated}
    if math.isfinite(loss.raw):  # an infinite loss has no shares
        estimates |= {"calibration_loss": loss.loss, "calibration_loss.relative": loss.relative}
    return {
        name: _with_definition(estimate, estimate.definition + sample_words)
        for name, estimate in estimates.items()
    }


def grouping_loss_estimates(budget: Budget | None, sample_words: str) -> dict[str, Estimate]:
    """The grouping loss relative to the base-rate forecast, as in the budget, and its share of the
    score; empty without a budget."""
    if budget is None:
        return {}
    x = _with_definition(budget.grouping, budget.grouping.definition + sample_words)
    low, high = (end / budget.total for end in x.interval)
    definition = f"share of the {budget.score_words()}, " + x.definition
    share = Estimate(x / budget.total, low=low, high=high, n=x.n, definition=definition)
    return {"grouping_loss": x, "grouping_loss.relative": share}


def _with_definition(x: Estimate, words: str) -> Estimate:
    """The estimate with another definition."""
    return Estimate(x, low=x.low, high=x.high, n=x.n, definition=words, per_class=x.per_class)


def _with_interval(x: Estimate, low: float, high: float) -> Estimate:
    """The estimate with another interval."""
    return Estimate(
        x,
        low=low,
        high=high,
        n=x.n,
        definition=x.definition,
        per_class=x.per_class,
        naive=x.naive,
        infinite_rows=x.infinite_rows,
    )


def _clipped(x: Estimate, least: float, most: float) -> Estimate:
    """The estimate with its interval clipped to the possible range."""
    return _with_interval(x, *(float(np.clip(end, least, most)) for end in x.interval))


def _undefined_ratio(x: Estimate) -> Estimate:
    """NaN, because the base-rate forecast has no loss, as if all rows are of one class."""
    return Estimate(
        math.nan, n=x.n, definition=x.definition, naive=x.naive, infinite_rows=x.infinite_rows
    )
