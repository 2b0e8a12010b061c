"""The expected score divergence of forecasts from reference posteriors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..choices.scores import Cost, RiskWeighted, Score, as_score
from ..data.arrays import as_array
from ..data.keywords import with_known_keywords
from ..data.predictions import Predictions
from ..data.row_index import common_index
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from .intervals import ClassParts, score_interval


@with_known_keywords
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

    This is how much worse the forecasts score than a forecaster who knows s: for "log" the
    Kullback-Leibler divergence, for "brier" the squared distance, for a `Cost` the regret of the
    decisions. The expected score under s is the divergence plus the mean entropy of s (Eq. 25).

    reference : [n, K] probabilities taken as true, for example from a simulation, a better model or
        many raters; or [n] for the second of two classes.
    y_proba : the forecasts, [n, K] or [n].
    score : "log", "brier", or a `Score`.
    normalize : divide by the score of the base-rate forecast, the mean of the reference.
    sample_weight, clusters, from_logits, from_log_probs, tolerance : see `RowOptions`; the last
        three apply to `y_proba`.

    The 95% interval is that of the mean over rows; the reference counts as exact. `naive` is the
    score of the base-rate forecast under the reference. `infinite_rows` counts rows that give
    probability 0 to a class that has a positive probability in the reference.

    >>> score_divergence([[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.6, 0.4]], score="brier").value
    0.09000000000000002
    >>> # half of KL((0.9, 0.1) || (0.6, 0.4))
    >>> round(score_divergence([0.5, 0.1], [0.5, 0.4]).value, 4)
    0.1131
    """
    rule = as_score(score)
    beside = {"sample_weight": sample_weight, "clusters": clusters}
    common_index({"reference": reference, "y_proba": y_proba} | beside)
    kind = {"from_logits": from_logits, "from_log_probs": from_log_probs, "tolerance": tolerance}
    rows = _unlabelled(y_proba, "y_proba", sample_weight=sample_weight, clusters=clusters, **kind)
    truth = _unlabelled(reference, "reference")
    _check_shapes(rule, rows, truth)
    good = GoodRows.of(rows)
    s = GoodRows.of(truth).probs[good.places].astype(np.float64)
    share = good.weights / math.fsum(good.weights)
    # rounding may leave a divergence just below 0
    values = np.maximum(rule.divergence(s, good.probs.astype(np.float64)), 0.0)
    naive_rows = _naive_scores(rule, s, share)
    naive, value = math.fsum(share * naive_rows), math.fsum(share * values)
    if normalize and not naive > 0:
        raise InputError("normalize", "requires a base-rate forecast with a positive score", naive)
    scale = naive if normalize else 1.0
    infinite = int(np.isinf(values[share > 0]).sum())
    low, high = math.nan, math.nan
    if not infinite:
        residuals = values - value / naive * naive_rows if normalize else values - value
        numbers = None if rows.cluster_numbers is None else rows.cluster_numbers[good.places]
        low, high = _interval(value / scale, share * residuals / scale, share, numbers)
    words = [f"mean divergence of the {rule.words()} from the reference posteriors"]
    words += ["divided by the score of the base-rate forecast"] if normalize else []
    words += ["weighted"] if sample_weight is not None else []
    words += ["interval by clusters"] if clusters is not None else []
    return Estimate(
        value / scale,
        low=max(0.0, low) if low < 0 else low,
        high=high,
        n=len(good.labels),
        definition=", ".join(words),
        naive=naive,
        infinite_rows=infinite,
    )


def _unlabelled(values: Any, name: str, **options: Any) -> Predictions:
    """Probabilities without labels, with the checks of `Predictions`."""
    array = as_array(values, name)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim not in (1, 2):
        raise InputError(
            name, "must have shape [n, K], or [n] for two classes", f"shape {array.shape}"
        )
    classes = range(2 if array.ndim == 1 else array.shape[1])
    return Predictions(
        np.zeros(len(array), np.int64),
        array,
        classes=list(classes),
        names={"probs": name},
        **options,
    )


def _check_shapes(score: Score, rows: Predictions, truth: Predictions) -> None:
    if len(truth) != len(rows):
        rule = f"must have one row for each of the {len(rows)} forecasts"
        raise InputError("reference", rule, f"{len(truth)} rows")
    if truth.n_classes != rows.n_classes:
        rule = f"must have the {rows.n_classes} classes of y_proba"
        raise InputError("reference", rule, f"{truth.n_classes} classes")
    if isinstance(score, Cost):
        score.check_classes(rows.n_classes)
    if isinstance(score, RiskWeighted) and rows.n_classes != 2:
        raise InputError("score", "is defined for two classes", f"{rows.n_classes} classes")


def _naive_scores(score: Score, s: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The expected score of the base-rate forecast in each row, under the reference s."""
    prior = np.array([math.fsum(column) for column in (share[:, None] * s).T])
    naive = score.by_class(score.naive(prior))
    return np.asarray(np.where(s > 0, s * np.where(s > 0, naive, 0.0), 0.0).sum(axis=1))


def _interval(
    value: float, residuals: np.ndarray, share: np.ndarray, clusters: np.ndarray | None
) -> tuple[float, float]:
    """The interval of a mean over independent rows, or over independent clusters."""
    sums, parts = residuals, share
    if clusters is not None:
        sums, parts = np.bincount(clusters, residuals), np.bincount(clusters, share)
    units = np.count_nonzero(parts)
    if units < 2:
        return math.nan, math.nan
    variance = math.fsum(sums**2) * units / (units - 1)
    effective = 1 / math.fsum(parts**2)
    part = ClassParts(
        share=np.ones(1),
        mean=np.array([value]),
        rows=np.array([effective]),
        within=np.array([variance]),
        counts=np.zeros(1),
        rising=np.zeros(1, bool),
        least=np.zeros(1),
        most=np.array([math.inf]),
    )
    return score_interval(value, part)
