"""Mean scores with 95% intervals: plain, normalised, under other priors, weighted, per class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..choices.scores import Brier, Cost, Log, Score
from ..data.arrays import as_numbers
from ..errors import InputError, not_a_truth_value
from ..estimate import Estimate
from ..states import ClassSums, Decisions, Summary
from .clusters import ClusteredRows
from .intervals import ClassParts, score_interval, wilson


@dataclass(frozen=True)
class Mean:
    """A mean score with its standard error (by linearisation) and 95% interval, the score of the
    base-rate forecast under the same priors (`naive`), and the mean score of each class."""

    value: float
    error: float
    low: float
    high: float
    naive: float
    by_class: np.ndarray


def check_priors(priors: Any, classes: Sequence[Any], weight: np.ndarray) -> np.ndarray:
    """Priors as an array that sums to 1, one for each class. A class without rows (or weight) must
    have prior 0."""
    values = as_numbers(priors, "priors")
    K = len(classes)
    if values.shape != (K,):
        raise InputError(
            "priors", f"must be one number for each of the {K} classes", f"shape {values.shape}"
        )
    if not ((values >= 0) & (values <= 1)).all() or not abs(values.sum() - 1) <= 1e-6:
        raise InputError("priors", "must be probabilities that sum to 1", values.tolist())
    empty = np.flatnonzero((values > 0) & (weight == 0))
    if len(empty):
        k = int(empty[0])
        raise InputError(
            "priors", "a class with a positive prior must have rows", f"{classes[k]!r} has none"
        )
    return values / values.sum()


def mean_score(
    sums: ClassSums,
    score: Score,
    *,
    normalize: bool = False,
    priors: np.ndarray | None = None,
    effect: float = 1.0,
) -> Mean:
    """The mean of a score from its class sums, with its 95% interval (see `score_interval`).

    With given priors P it is sum_c P_c m_c, where m_c is the mean over the rows of class c (Ferrer
    & Ramos 2025, Eq. 36-37); the class counts are then fixed and only the class means vary.
    Otherwise rows are a simple random sample and the mean is m = sum w s / sum w. Normalised by the
    naive score H(P), it is a ratio whose variance is that of u_i = s_i - (m / H) S(P, y_i), because
    for a proper score the derivative of H in the direction of a row of class y is S(P, y) - H.

    effect : the design effect of dependent rows; if it is NaN (unknown), so is the interval.
    """
    weight, total = sums.weight, sums.weight.sum()
    infinite = sums.infinite > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(weight > 0, sums.score / weight, np.nan)
    means[infinite] = np.inf
    frequencies = weight / total
    P = frequencies if priors is None else priors
    naive_scores = score.by_class(score.naive(P))
    present = P > 0
    naive = float((P[present] * naive_scores[present]).sum())
    value = math.fsum(P[present] * means[present])
    # a positive weight may be too small to make P positive
    if (infinite & (present | (priors is None))).any():
        value = math.inf
    scale = naive if normalize else 1.0
    if normalize and naive <= 0:  # nothing to divide by: the naive forecast costs nothing
        value = math.inf if naive == 0 and value > 0 else math.nan
        return Mean(value, math.nan, math.nan, math.nan, naive, means)
    value /= scale
    if not math.isfinite(value) or sums.rows.sum() < 2:
        return Mean(value, math.nan, math.nan, math.nan, naive, means)
    offset = value * np.where(present, naive_scores, 0.0) if normalize else np.full(len(P), value)
    parts = _parts(
        sums, score, P, np.where(present, means, 0.0), None if priors is not None else offset, scale
    )
    if parts is None or math.isnan(effect):
        return Mean(value, math.nan, math.nan, math.nan, naive, means)
    parts = parts.dependent(effect)
    low, high = score_interval(value, parts)
    if normalize and priors is None:
        missing = _naive_bias(score, P, total**2 / sums.weight_squared.sum() / effect)
        low -= value * missing / (naive + missing)
    n = float(sums.rows.sum())
    if priors is None:
        error = math.sqrt(effect * _spread(sums, offset).sum() * n / (n - 1)) / total / scale
    else:
        error = math.sqrt(parts.within.sum())
    return Mean(value, float(error), low, high, naive, means)


def _naive_bias(score: Score, P: np.ndarray, rows: float) -> float:
    """The mean bias of H(P) if P is estimated, as a positive number. For the log score with few
    rows in each of many classes it exceeds the standard deviation of H (Miller 1955)."""
    if isinstance(score, Log):
        return float((np.count_nonzero(P) - 1) / (2 * rows))
    return float((1 - (P**2).sum()) / rows) if isinstance(score, Brier) else 0.0


def _parts(
    sums: ClassSums,
    score: Score,
    P: np.ndarray,
    means: np.ndarray,
    offset: np.ndarray | None,
    scale: float,
) -> ClassParts | None:
    """The parts of the classes. Without an offset the class counts are fixed, and the result is
    None if a class has a single row, because its variance is unknown."""
    some = (P > 0) & (sums.weight_squared > 0)
    least, most = _bounds(score, len(P))
    if offset is None and (sums.rows[some] < 2).any():
        return None
    weight, squared = sums.weight[some], sums.weight_squared[some]
    within = _spread(sums, means)[some]
    about = within if offset is None else np.maximum(_spread(sums, offset)[some], within)
    share, unit = P[some] / scale, (P[some] / weight / scale) ** 2
    rows = sums.rows[some]
    return ClassParts(
        share=share,
        mean=means[some],
        rows=weight**2 / squared,
        within=unit * within * np.where(rows > 1, rows / np.maximum(rows - 1, 1), 1.0),
        counts=unit * (about - within),
        rising=np.zeros(len(rows), bool) if offset is None else means[some] > offset[some],
        least=least[some],
        most=most[some],
    )


def _bounds(score: Score, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and largest score that a row of each class can have."""
    if isinstance(score, Cost):
        return score.matrix.min(axis=1), score.matrix.max(axis=1)
    return np.zeros(classes), np.full(classes, np.inf)


def _spread(sums: ClassSums, offset: Any) -> np.ndarray:
    """sum w^2 (s - offset)^2 over the rows of each class."""
    # a score whose square overflows has an infinite spread
    with np.errstate(over="ignore", invalid="ignore"):
        spread = (
            sums.score_squared
            - 2 * offset * sums.score_cross
            + np.square(offset) * sums.weight_squared
        )
    # rounding may leave the spread of a constant score just below zero
    return np.maximum(spread, 0.0)


def score_sums(summary: Summary, score: Score) -> ClassSums:
    """The class sums of a score, from the summary of a pass."""
    if isinstance(score, Log):
        return summary.log
    if isinstance(score, Brier):
        return summary.brier
    if isinstance(score, Cost):
        for name, cost in summary.plan.costs.items():
            if cost == score:
                return _cost_sums(summary.costs[name], cost.matrix, summary)
    raise InputError("score", "was not counted in this pass", score.name)


def _cost_sums(decisions: Decisions, matrix: np.ndarray, summary: Summary) -> ClassSums:
    return decisions.cost(matrix[decisions.true, decisions.decision], summary.log)


def estimate_score(
    summary: Summary,
    score: Score,
    *,
    normalize: bool = False,
    priors: Any = None,
    sums: ClassSums | None = None,
    clustered: ClusteredRows | None = None,
) -> Estimate:
    """A mean score as an estimate. `clustered` : the rows (or a sample of them) if they have
    clusters."""
    if not isinstance(normalize, (bool, np.bool_)):
        raise not_a_truth_value("normalize", normalize)
    sums = score_sums(summary, score) if sums is None else sums
    classes = summary.plan.classes
    P = None if priors is None else check_priors(priors, classes, sums.weight)
    effect = 1.0
    if clustered is not None:
        effect = clustered.clusters.widening(_influence(clustered, score, normalize, P)) ** 2
    mean = mean_score(sums, score, normalize=normalize, priors=P, effect=effect)
    words = [score.words() if isinstance(score, Cost) else f"mean {score.words()}"]
    if isinstance(score, Brier):
        pairs = summary.plan.kind == "pairs"
        words.append(f"summed over {'right and wrong' if pairs else 'classes'}")
    if normalize:
        words.append("divided by that of the base-rate forecast")
    if P is not None:
        words.append("under given priors")
    if summary.plan.weighted:
        words.append("weighted")
    if clustered is not None:
        words.append(clustered.words)
    return Estimate(
        mean.value,
        low=0.0 if mean.low < 0 and _non_negative(score) else mean.low,
        high=mean.high,
        n=summary.rows,
        definition=", ".join(words),
        per_class=dict(zip(classes, mean.by_class.tolist(), strict=True)),
        naive=mean.naive,
        infinite_rows=int(sums.infinite.sum()),
    )


def _influence(
    rows: ClusteredRows, score: Score, normalize: bool, priors: np.ndarray | None
) -> np.ndarray:
    """The influence of each row on the mean score, as in `mean_score`, up to a constant factor."""
    values, codes, share = rows.scores(score), rows.codes, rows.clusters.share
    with np.errstate(invalid="ignore", divide="ignore"):
        if priors is not None:
            weight = np.bincount(codes, share, minlength=len(priors))
            means = np.bincount(codes, share * values, minlength=len(priors)) / weight
            return np.asarray((priors / weight)[codes] * (values - means[codes]))
        base = np.ones(len(values))
        if normalize:
            base = score.by_class(
                score.naive(np.bincount(codes, share, minlength=rows.rows.n_classes))
            )[codes]
        return np.asarray(values - (share @ values) / (share @ base) * base)


def _non_negative(score: Score) -> bool:
    return not isinstance(score, Cost) or bool((score.matrix >= 0).all())


def zero_one(
    summary: Summary,
    *,
    normalize: bool = False,
    priors: Any = None,
    clustered: ClusteredRows | None = None,
) -> Estimate:
    """Bayes risk under 0-1 costs: the error rate of the argmax decisions."""
    cost = Cost.zero_one(len(summary.plan.classes))
    sums = _cost_sums(summary.argmax, cost.matrix, summary)
    return estimate_score(
        summary, cost, normalize=normalize, priors=priors, sums=sums, clustered=clustered
    )


def zero_one_reject(
    summary: Summary,
    *,
    normalize: bool = False,
    priors: Any = None,
    clustered: ClusteredRows | None = None,
) -> Estimate:
    """Bayes risk if an error costs 1 and a rejection costs the plan's `reject_cost`."""
    cost = Cost.zero_one(len(summary.plan.classes), reject=summary.plan.reject_cost)
    sums = _cost_sums(summary.reject, cost.matrix, summary)
    return estimate_score(
        summary, cost, normalize=normalize, priors=priors, sums=sums, clustered=clustered
    )


def accuracy(summary: Summary, clustered: ClusteredRows | None = None) -> Estimate:
    """The share of rows whose most probable class is the true one, with a Wilson interval.

    The interval uses the effective number of rows, (sum w)^2 / sum w^2 (Kish 1965), divided by the
    design effect if rows have clusters.
    """
    hits = summary.argmax.true == summary.argmax.decision
    weight = summary.log.weight.sum()
    share = float(summary.argmax.weight[hits].sum() / weight)
    size = float(weight**2 / summary.log.weight_squared.sum())
    words = (
        "share of rows marked correct"
        if summary.plan.kind == "pairs"
        else "share of rows whose most probable class is the true one"
    )
    if clustered is not None:
        words, hits = f"{words}, {clustered.words}", clustered.hits
        size /= clustered.clusters.widening(hits - clustered.clusters.share @ hits) ** 2
    low, high = wilson(share, size)
    return Estimate(share, low=low, high=high, n=summary.rows, definition=words)
