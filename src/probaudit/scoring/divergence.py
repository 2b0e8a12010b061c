"""Forecasts against reference posteriors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..choices.scores import Cost, RiskWeighted, Score, as_score
from ..data.arrays import as_array
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from .intervals import ClassParts, score_interval


def score_divergence(
    reference: Any,
    y_proba: Any,
    *,
    score: str | Score = "log",
    normalize: bool = False,
    sample_weight: Any = None,
    clusters: Any = None,
    from_logits: bool = False,
    from_log_probs: bool = False,
    tolerance: float | None = None,
) -> Estimate:
    """The expected score divergence of forecasts q from reference posteriors s (Ferrer & Ramos
    2025, Eq. 24 and 26):

        mean over rows of d(s, q) = E[S(q, Y) - S(s, Y)], Y distributed as s.

    It is what the forecasts lose, in the unit of the score, beside a forecaster who knows s: for
    "log" the Kullback-Leibler divergence, for "brier" the squared distance, for a `Cost` the regret
    of the decisions. The expected score under s is the divergence and the mean entropy of s (Eq.
    25).

    reference : [n, K] probabilities that are taken as true, as in a simulation, from a better model
        or from many raters; or [n] for the second of two classes.
    y_proba : the forecasts, of the same shape or one of the two.
    score : "log", "brier", or a `Score`.
    normalize : divide by the score of the base-rate forecast, the mean of the reference.
    sample_weight, clusters, from_logits, from_log_probs, tolerance : see `RowOptions`; the last
        three are of `y_proba`.

    The 95% interval is that of the mean over rows; the reference has no uncertainty of its own.
    `naive` is the score of the base-rate forecast under the reference. `infinite_rows` counts rows
    that give probability 0 to what the reference holds possible.

    >>> score_divergence([[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.6, 0.4]], score="brier").value
    0.09000000000000002
    >>> # half of KL((0.9, 0.1) || (0.6, 0.4))
    >>> round(score_divergence([0.5, 0.1], [0.5, 0.4]).value, 4)
    0.1131
    """
    rule = as_score(score)
    kind = {"from_logits": from_logits, "from_log_probs": from_log_probs, "tolerance": tolerance}
    rows = _unlabelled(y_proba, "y_proba", sample_weight=sample_weight, clusters=clusters, **kind)
    truth = _unlabelled(reference, "reference")
    if len(truth) != len(rows):
        raise InputError(
            "reference",
            f"must have one row for each forecast ({len(rows)})",
            f"has {len(truth)} rows",
        )
    if truth.n_classes != rows.n_classes:
        raise InputError(
            "reference",
            f"must have the {rows.n_classes} classes of y_proba",
            f"has {truth.n_classes}",
        )
    _check_classes(rule, rows.n_classes)
    good = GoodRows.of(rows)
    s = GoodRows.of(truth).probs[good.places].astype(np.float64)
    share = good.weights / math.fsum(good.weights)
    # rounding may leave less than nothing
    values = np.maximum(rule.divergence(s, good.probs.astype(np.float64)), 0.0)
    prior = np.array([math.fsum(column) for column in (share[:, None] * s).T])
    best = rule.by_class(rule.naive(prior))
    naive_rows = np.where(s > 0, s * np.where(s > 0, best, 0.0), 0.0).sum(axis=1)
    naive = math.fsum(share * naive_rows)
    value = math.fsum(share * values)
    words = [f"mean divergence of the {rule.words()} from the reference posteriors"]
    infinite = int(np.isinf(values[share > 0]).sum())
    if normalize and not naive > 0:
        raise InputError("normalize", "requires a base-rate forecast with a positive score", naive)
    scale = naive if normalize else 1.0
    low, high = math.nan, math.nan
    clustered = None if rows.cluster_numbers is None else rows.cluster_numbers[good.places]
    if not infinite:
        residuals = (
            share * (values - value / naive * naive_rows if normalize else values - value) / scale
        )
        low, high = _interval(value / scale, residuals, share, clustered)
    words += ["divided by the score of the base-rate forecast"] if normalize else []
    words += ["weighted"] if sample_weight is not None else []
    words += ["interval by clusters"] if clusters is not None else []
    found: dict[str, Any] = {
        "n": len(good.labels),
        "definition": ", ".join(words),
        "naive": naive,
        "infinite_rows": infinite,
    }
    return Estimate(value / scale, low=max(0.0, low) if low < 0 else low, high=high, **found)


def _unlabelled(values: Any, name: str, **options: Any) -> Predictions:
    """Probabilities without labels, checked as those of `Predictions` are."""
    array = as_array(values, name)
    if array.ndim not in (1, 2):
        raise InputError(
            name, "must have shape [n, K], or [n] for two classes", f"has shape {array.shape}"
        )
    classes = range(2 if array.ndim == 1 else array.shape[1])
    return Predictions(
        np.zeros(len(array), np.int64),
        array,
        classes=list(classes),
        names={"probs": name},
        **options,
    )


def _check_classes(score: Score, classes: int) -> None:
    if isinstance(score, Cost):
        score.check_classes(classes)
    if isinstance(score, RiskWeighted) and classes != 2:
        raise InputError("score", "is defined for two classes", f"{classes} classes")


def _interval(
    value: float, residuals: np.ndarray, share: np.ndarray, clusters: np.ndarray | None
) -> tuple[float, float]:
    """Of a mean whose rows, or whose clusters of rows, are independent."""
    sums, parts = residuals, share
    if clusters is not None:
        sums, parts = np.bincount(clusters, residuals), np.bincount(clusters, share)
    units = np.count_nonzero(parts)
    if units < 2:
        return math.nan, math.nan
    variance = math.fsum(sums**2) * units / (units - 1)
    effective = 1 / math.fsum(parts**2)
    one = (1.0, value, effective, variance, 0.0, False, 0.0, math.inf)
    return score_interval(value, ClassParts(*(np.array([field]) for field in one)))
