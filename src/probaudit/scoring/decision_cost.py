"""The cost of decisions: those that were made, and those that the probabilities lead to along a
range of costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from ..choices.scores import Cost
from ..data.arrays import as_array, as_numbers
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.keywords import with_known_keywords
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from .clusters import Clusters
from .expected_scores import mean_score
from .intervals import Z95
from .row_scores import class_sums

NODES = 200  # values of t at which a risk integral evaluates the risk
Path = Callable[[float], Any]


@with_known_keywords
def decision_cost(
    y_true: Any,
    decisions: Any,
    costs: Any,
    *,
    names: Sequence[Any] | None = None,
    normalize: bool = False,
    classes: Sequence[Any] | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
) -> Estimate:
    """The mean cost of given decisions, one for each row.

    decisions : the decision made in each row: a column number of `costs`, or a member of `names`.
    costs : matrix [K, M] of what decision j costs when class i is true.
    names : the names of the M decisions, in the order of the columns.
    normalize : divide by the cost of the best constant decision.
    classes, sample_weight, clusters : as in `log_score`.

    >>> decision_cost([1, 0, 1], ["treat", "treat", "wait"], [[0, 1], [5, 0]],
    ...               names=["wait", "treat"])
    2 [0, 3.73106]  mean cost of the given decisions, n = 3
    """
    if isinstance(y_true, Predictions):
        raise InputError("y_true", "must be labels", way_out=("pass `rows.y`",))
    cost = costs if isinstance(costs, Cost) else Cost(costs)
    K, M = cost.matrix.shape
    # rows without a forecast: the costs do not depend on it
    even = np.full((len(as_array(y_true, "y_true")), K), 1 / K)
    rows = Predictions(
        y_true,
        even,
        classes=classes,
        sample_weight=sample_weight,
        clusters=clusters,
        names={"y": "y_true", "probs": "y_proba", "classes": "classes"},
    )
    rows.check_index("decisions", decisions)
    made = _decision_codes(decisions, names, M)
    if len(made) != len(rows):
        raise InputError("decisions", f"must have one entry per row ({len(rows):,})", len(made))
    good = GoodRows.of(rows)
    values = cost.matrix[good.labels, made[good.places]]
    return _mean_cost(rows, good, values, cost, normalize, "mean cost of the given decisions")


def _decision_codes(decisions: Any, names: Sequence[Any] | None, count: int) -> np.ndarray:
    given = as_array(decisions, "decisions")
    if given.ndim != 1:
        raise InputError("decisions", "must be one column", f"has shape {given.shape}")
    if names is None:
        codes = as_numbers(given, "decisions")
        rule = f"must be column numbers of `costs`, 0 to {count - 1}"
        wrong = np.flatnonzero((codes != np.rint(codes)) | (codes < 0) | (codes >= count))
    else:
        if len(names) != count:
            raise InputError("names", f"must name the {count} columns of `costs`", len(names))
        known = {name: code for code, name in enumerate(names)}
        if len(known) < count:
            raise InputError("names", "must be different names", ", ".join(map(str, names)))
        codes = np.array([known.get(value, -1) for value in given.tolist()])
        rule, wrong = f"must be among {', '.join(map(str, names))}", np.flatnonzero(codes < 0)
    if len(wrong):
        row = int(wrong[0])
        raise InputError("decisions", rule, repr(given.tolist()[row]), row=row)
    return codes.astype(np.int64)


@takes_row_options
def risk_integral(
    y_true: Any,
    y_proba: Any = None,
    costs: Path | Sequence[Any] | None = None,
    *,
    weight: Callable[[np.ndarray], np.ndarray] | None = None,
    normalize: bool = False,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The Bayes risk integrated over a family of cost matrices, t from 0 to 1 (Ferrer & Ramos 2025,
    Eq. 10).

    costs : a function that gives the cost matrix [K, M] at t; or two matrices A and B, for
        (1 - t) A + t B. For two classes, the default is a miss that costs 1 / t and a false alarm
        that costs 1 / (1 - t), so that t is the threshold.
    weight : W(t) of an array of t, at least 0; 1 by default. For the default costs, W = 1 gives the
        log loss and W(t) = 4 t (1 - t) the Brier score, except that the sum does not resolve
        outputs within 0.0025 of 0 or 1. `log_score` does.
    normalize : divide by the same integral for the base-rate forecast.

    The integral is a sum over 200 midpoints. `risk_weighted_score` has closed forms for Beta
    weights.

    >>> y, p = [1, 0, 1], [0.9, 0.2, 0.4]
    >>> round(risk_integral(y, p, weight=lambda t: 4 * t * (1 - t)), 3)
    0.273
    """
    rows = rows_of(y_true, y_proba, **options)
    path = _cost_path(costs, rows.n_classes)
    t = (np.arange(NODES) + 0.5) / NODES
    if weight is not None and not callable(weight):
        raise InputError("weight", "must be a function of t", repr(weight))
    w = np.ones(NODES) if weight is None else np.asarray(weight(t), np.float64)
    if w.shape != t.shape or not np.isfinite(w).all() or not (w >= 0).all():
        raise InputError("weight", "must give one finite number of at least 0 for each t")
    good = GoodRows.of(rows)
    prior = np.bincount(good.labels, good.weights, minlength=rows.n_classes)
    prior = prior / prior.sum()
    values, base = np.zeros(len(good.labels)), np.zeros(len(good.labels))
    for threshold, share in zip(t.tolist(), (w / NODES).tolist(), strict=True):
        cost = Cost(path(threshold))
        cost.check_classes(rows.n_classes)
        values += share * cost.matrix[good.labels, cost.decide(good.probs)]
        base += share * cost.matrix[good.labels, int(cost.decide(prior[None, :])[0])]
    words = "Bayes risk, integrated over costs"
    return row_mean(rows, good, values, base if normalize else None, words)


def _cost_path(costs: Any, classes: int) -> Path:
    if callable(costs):
        return costs
    if costs is not None:
        pair = costs if isinstance(costs, (list, tuple, np.ndarray)) else ()
        ends = [np.asarray(as_numbers(end, "costs")) for end in pair]
        if len(ends) != 2 or ends[0].shape != ends[1].shape or ends[0].ndim != 2:
            raise InputError("costs", "must be a function of t, or two matrices of the same shape")
        return lambda t: (1 - t) * ends[0] + t * ends[1]
    if classes != 2:
        raise InputError("costs", "must be given with more than two classes", f"{classes} classes")
    return lambda t: np.array([[0.0, 1 / (1 - t)], [1 / t, 0.0]])


def row_mean(
    rows: Predictions, good: GoodRows, values: np.ndarray, base: np.ndarray | None, words: str
) -> Estimate:
    """The mean of row values, or its ratio to the mean of `base`, with a linearised interval."""
    share = good.weights / good.weights.sum()
    value = float(share @ values)
    influence = values - value
    if base is not None:
        below = float(share @ base)
        if not below > 0:
            ratio = math.inf if value > 0 else math.nan
            return Estimate(ratio, n=len(values), definition=words)
        value, words = value / below, f"{words}, divided by that of the base-rate forecast"
        influence = (values - value * base) / below
    n, clusters = len(values), _clusters(rows, good)
    error = np.sqrt(float(((share * influence) ** 2).sum()) * n / max(n - 1, 1))
    wider = 1.0 if clusters is None else clusters.widening(influence)
    half = Z95 * float(error) * wider if n > 1 else np.nan
    low = max(value - half, 0.0) if (values >= 0).all() else value - half
    return Estimate(value, low=low, high=value + half, n=n, definition=words)


def _mean_cost(
    rows: Predictions,
    good: GoodRows,
    values: np.ndarray,
    cost: Cost,
    normalize: bool,
    words: str,
) -> Estimate:
    sums = class_sums(values, good.labels, good.weights, rows.n_classes)
    clusters = _clusters(rows, good)
    effect = 1.0
    if clusters is not None:
        effect = clusters.widening(values - clusters.share @ values) ** 2
        words += f", {clusters.words}"
    found = mean_score(sums, cost, normalize=normalize, effect=effect)
    words += ", divided by that of the best constant decision" if normalize else ""
    return Estimate(
        found.value,
        low=max(found.low, 0.0) if (cost.matrix >= 0).all() else found.low,
        high=found.high,
        n=len(values),
        definition=words,
        naive=found.naive,
        per_class=dict(zip(rows.class_order, found.by_class.tolist(), strict=True)),
    )


def _clusters(rows: Predictions, good: GoodRows) -> Clusters | None:
    if rows.cluster_numbers is None:
        return None
    number = np.unique(rows.cluster_numbers[good.places], return_inverse=True)[1].reshape(-1)
    return Clusters(number, good.weights / good.weights.sum())
