"""Scores as functions of (y_true, y_proba), in the manner of scikit-learn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..choices.scores import Brier, Cost, Log, RiskWeighted, Score
from ..data.arrays import as_numbers
from ..data.inputs import RowOptions, rows_of
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..engines.memory import sample_of, summary
from ..errors import InputError
from ..estimate import Estimate
from ..states import ClassSums, Plan, Summary
from .clusters import ClusteredRows
from .expected_scores import estimate_score


def log_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean logarithmic score -log p_y, the cross-entropy of the forecasts (Ferrer & Ramos 2025,
    Eq. 8).

    y_true : labels; column numbers 0..K-1, or members of `labels`. Or `Predictions`, as `read`
        gives them, and nothing else.
    y_proba : [n, K] probabilities, or [n] for the second of two classes.
    normalize : divide by the score of the best constant forecast, the class frequencies. A value
        above 1 is worse than not looking at the input at all.
    priors : class frequencies to assume in place of those in the data (Ferrer & Ramos 2025, Eq.
        36).
    threads : how many to use; all cores unless given. The result does not depend on it.
    options : see `RowOptions`.

    A row whose true class has probability 0 makes the score infinite; `infinite_rows` counts them.
    Nothing is clipped.

    >>> log_score([1, 0, 1], [0.9, 0.2, 0.4])
    0.414932 [0, 14.6707]  mean log score, n = 3
    >>> log_score(["no", "yes"], [[1.0, 0.0], [1.0, 0.0]], labels=["no", "yes"]).infinite_rows
    1
    """
    return _score(Log(), y_true, y_proba, normalize, priors, threads, options)


def brier_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean Brier score, sum_k (p_k - [k = y])^2, from 0 to 2. Arguments as in `log_score`.

    For two classes this is twice the familiar mean of (p - y)^2. Ferrer & Ramos 2025, Eq. 9 and 37,
    divides by K.

    >>> round(brier_score([1, 0, 1], [0.9, 0.2, 0.4]), 6)
    0.273333
    """
    return _score(Brier(), y_true, y_proba, normalize, priors, threads, options)


def bayes_risk(
    y_true: Any,
    y_proba: Any = None,
    costs: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean cost of the decisions that the probabilities lead to (Ferrer & Ramos 2025, Eq. 7).
    Other arguments as in `log_score`.

    costs : matrix [K, M] of what decision j costs when class i is true. Decisions need not be
        classes: a column of equal costs is the option to reject. For each row the decision of least
        expected cost is taken, the first of equals.
    normalize : divide by the cost of the best constant decision.

    >>> round(bayes_risk([1, 0, 1], [0.9, 0.2, 0.4], [[0, 1, 0.1], [1, 0, 0.1]]), 6)
    0.066667
    """
    if costs is None:
        raise InputError("costs", "must be a matrix [classes, decisions]")
    cost = costs if isinstance(costs, Cost) else Cost(costs)
    return _score(cost, y_true, y_proba, normalize, priors, threads, options)


def _score(
    score: Score,
    y_true: Any,
    y_proba: Any,
    normalize: bool,
    priors: Any,
    threads: int | None,
    options: RowOptions,
) -> Estimate:
    rows = rows_of(y_true, y_proba, **options)
    costs = {"costs": score} if isinstance(score, Cost) else {}
    found = summary(rows, Plan.of(rows, costs), threads=threads)
    return estimate_score(
        found, score, normalize=normalize, priors=priors, clustered=_clustered(rows, found)
    )


def _clustered(rows: Predictions, found: Summary) -> ClusteredRows | None:
    """The rows that an interval of dependent rows rests on: as in an audit, a sample if they are
    many."""
    if rows.clusters is None:
        return None
    sample, places = sample_of(rows)
    good = survey(sample).good
    return ClusteredRows(sample, good, 1.0 if places is None else len(good) / found.rows)


def risk_weighted_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    a: float = 1.0,
    b: float = 1.0,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The Bayes risk of a two-class problem, integrated over all thresholds with a Beta(a, b)
    weight.

    Beta(1, 1) is the log score and Beta(2, 2) the Brier score; a > b cares more about high
    thresholds, that is about false alarms being dear. See `scores.RiskWeighted`. Other arguments as
    in `log_score`.

    >>> round(risk_weighted_score([1, 0, 1], [0.9, 0.2, 0.4], a=2, b=2), 6)
    0.273333
    """
    score = RiskWeighted(a, b)
    rows = rows_of(y_true, y_proba, **options)
    forecast, labels, weights, found = _good_binary_rows(rows, threads)
    sums = _sums(score.score(forecast, labels), labels, weights)
    clustered = _clustered(rows, found)
    return estimate_score(
        found, score, normalize=normalize, priors=priors, sums=sums, clustered=clustered
    )


@dataclass(frozen=True)
class RiskCurve:
    """The Bayes risk at each threshold, and that of the better constant decision."""

    thresholds: np.ndarray
    risk: np.ndarray
    naive: np.ndarray
    n: int
    definition: str


def risk_curve(
    y_true: Any,
    y_proba: Any = None,
    *,
    thresholds: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> RiskCurve:
    """The Bayes risk of a two-class problem as a function of the decision threshold (Ferrer & Ramos
    2025, Eq. 34, Figure 4).

    At threshold t the second class is decided when its probability exceeds t. To miss it costs 1 /
    t, a false alarm 1 / (1 - t); for these costs t is the Bayes threshold. The area under the curve
    is the log score.

    thresholds : inside (0, 1); 99 equal steps unless given.

    >>> risk_curve([1, 0, 1], [0.9, 0.2, 0.4], thresholds=[0.5]).risk
    array([0.66666667])
    """
    if options.get("clusters") is not None:
        raise InputError(
            "clusters", "have no effect on a risk curve, which has no interval; leave them out"
        )
    t = (
        np.linspace(0.01, 0.99, 99)
        if thresholds is None
        else np.atleast_1d(as_numbers(thresholds, "thresholds"))
    )
    if not ((t > 0) & (t < 1)).all():
        raise InputError("thresholds", "must lie inside (0, 1)", t[~((t > 0) & (t < 1))][0])
    forecast, labels, weights, found = _good_binary_rows(
        rows_of(y_true, y_proba, **options), threads
    )
    p, prior = forecast[:, 1], found.priors[1]
    missed = prior * _share_up_to(p[labels == 1], weights[labels == 1], t)
    alarms = (1 - prior) * (1 - _share_up_to(p[labels == 0], weights[labels == 0], t))
    naive = np.minimum(prior / t, (1 - prior) / (1 - t))
    return RiskCurve(
        t, missed / t + alarms / (1 - t), naive, found.rows, "Bayes risk, costs 1/t and 1/(1 - t)"
    )


def _share_up_to(p: np.ndarray, weights: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The weighted share of p up to each threshold; 0 where there is no row."""
    if not len(p):
        return np.zeros(len(thresholds))
    order = np.argsort(p, kind="stable")
    cumulated = np.r_[0.0, np.cumsum(weights[order])]
    return cumulated[np.searchsorted(p[order], thresholds, side="right")] / cumulated[-1]


def _good_binary_rows(
    rows: Predictions, threads: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Summary]:
    """Forecasts [n, 2], labels and weights of every row that counts, and the summary of the
    pass."""
    if rows.n_classes != 2:
        raise InputError(rows.name("probs"), "must have two classes", rows.n_classes)
    plan = Plan.of(rows)
    found = summary(rows, plan, threads=threads)
    good = survey(rows).good
    values = rows.probs[good].astype(np.float64)
    if rows.kind == "logits":
        gap = values if values.ndim == 1 else values[:, 1] - values[:, 0]
        forecast = np.exp(-np.logaddexp(0.0, np.column_stack([gap, -gap])))
    else:
        values = np.exp(values) if rows.kind == "log_probabilities" else values
        forecast = np.column_stack([1 - values, values]) if values.ndim == 1 else values
    weights = np.ones(len(forecast)) if rows.sample_weight is None else rows.sample_weight[good]
    return forecast, rows.codes[good], weights, found


def _sums(values: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> ClassSums:
    """Class sums of scores given row by row, rounded once, so that the order of the rows does not
    matter."""
    infinite = np.isinf(values)
    s, w = np.where(infinite, 0.0, values), weights / weights.max()

    def by_class(x: np.ndarray) -> np.ndarray:
        return np.array([math.fsum(x[labels == k]) for k in range(2)])

    # a score of 1e162 has no finite square: its interval is without end
    with np.errstate(over="ignore"):
        squares = (w * s) ** 2
    return ClassSums(
        rows=np.bincount(labels, minlength=2),
        weight=by_class(w),
        weight_squared=by_class(w * w),
        score=by_class(w * s),
        score_cross=by_class(w * w * s),
        score_squared=by_class(squares),
        infinite=np.bincount(labels[infinite], minlength=2),
    )
