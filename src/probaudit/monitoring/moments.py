"""Moments of measures over rows, and tests of the difference of two means.

Alarms are decided far out in the tail of a distribution, and losses are skewed, so that a normal
approximation gives p-values that are too small. The tail of a difference of means is therefore that
of the Pearson type III distribution with the same mean, variance and skewness (Hall 1983, "Chi
squared approximations to the distribution of a sum of independent random variables", Annals of
Probability 11), or that of the normal distribution where it is heavier. Weighted rows count as
(sum w)^2 / sum w^2 rows of equal weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..states import ClassSums, Evidence, Grid


@dataclass(frozen=True)
class Moments:
    """Mean, variance and third central moment of a measure over rows, and the effective number of
    rows. All but the number may be arrays.
    """

    mean: Any
    variance: Any
    third: Any
    n: float

    @classmethod
    def of_share(cls, share: Any, n: float) -> Moments:
        """Of an indicator with this mean."""
        spread = share * (1 - share)
        return cls(share, spread, spread * (1 - 2 * share), n)

    @classmethod
    def of_values(cls, values: np.ndarray, weight: np.ndarray, squared: np.ndarray) -> Moments:
        """Of distinct values; `weight` and `squared` are the sums of w and w^2 over their rows."""
        mean = float(weight @ values / weight.sum())
        gap = values - mean
        return cls(
            mean,
            float(squared @ gap**2 / squared.sum()),
            float(squared @ gap**3 / squared.sum()),
            float(weight.sum() ** 2 / squared.sum()),
        )

    def pooled(self, other: Moments) -> Moments:
        """Of the rows of both samples."""
        n = self.n + other.n
        mean = (self.n * self.mean + other.n * other.mean) / n
        second: Any = 0.0
        third: Any = 0.0
        for part in (self, other):
            gap = part.mean - mean
            second += part.n / n * (part.variance + gap**2)
            third += part.n / n * (part.third + 3 * gap * part.variance + gap**3)
        return Moments(mean, second, third, n)


def two_sided_p(z: Any, skewness: Any) -> Any:
    """Twice the probability that a standardised sum with this skewness lies at least as far out as
    z, on the side of z.

    The second example has 8 events where 1 is expected; the exact value is 2 x 1.0e-5.

    >>> two_sided_p(1.96, 0.0).round(3), two_sided_p(7.0, 1.0).round(6)
    (np.float64(0.05), np.float64(3.5e-05))
    """
    from scipy.special import gammaincc, ndtr

    far, lean = np.abs(z), np.asarray(skewness * np.sign(z))
    heavy = lean > 1e-3  # below, both distributions are normal
    shape = 4 / np.square(np.where(heavy, lean, 1.0))
    tail = np.maximum(
        ndtr(-far), np.where(heavy, gammaincc(shape, shape + far * np.sqrt(shape)), 0.0)
    )
    return np.minimum(1.0, 2 * tail)


def mean_p_value(recent: Moments, reference: Moments, ignored: float = 0.0) -> Any:
    """The p-value of a difference of means, if both samples come from the population of the pooled
    rows. Differences up to `ignored` do not count."""
    both = recent.pooled(reference)
    variance = both.variance * (1 / recent.n + 1 / reference.n)
    excess = beyond(recent.mean - reference.mean, ignored)
    error = np.sqrt(np.where(variance > 0, variance, 1.0))
    p = two_sided_p(excess / error, both.third * (recent.n**-2 - reference.n**-2) / error**3)
    return np.where(excess == 0, 1.0, p)


def beyond(difference: Any, ignored: float) -> Any:
    """The part of a difference that exceeds `ignored`, with its sign."""
    return np.copysign(np.maximum(0.0, np.abs(difference) - ignored), difference)


def score_moments(sums: ClassSums, grid: Grid, score: str) -> Moments:
    """The moments of a score over the rows where it is finite. Mean and variance are exact. The
    skewness is that of the mean scores of right and of wrong rows in each cell of confidence; for
    two classes it is exact up to the width of the cells."""
    with np.errstate(invalid="ignore"):
        finite = np.where(sums.rows > 0, 1 - sums.infinite / sums.rows, 0.0)
    weight, squared = float(sums.weight @ finite), float(sums.weight_squared @ finite)
    if not weight > 0:
        return Moments(math.nan, math.nan, math.nan, 0.0)
    mean = float(sums.score.sum() / weight)
    spread = float(sums.score_squared.sum() - 2 * mean * sums.score_cross.sum() + mean**2 * squared)
    variance = max(0.0, spread / squared)
    coarse = Moments.of_values(*_losses(grid, score))
    skewness = coarse.third / coarse.variance**1.5 if coarse.variance > 0 else 0.0
    return Moments(mean, variance, skewness * variance**1.5, weight**2 / squared)


def _losses(grid: Grid, score: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean losses of the right and of the wrong rows in each cell of confidence, and their weights
    twice: once as sums of weights and once, approximately, as sums of squares."""
    kept = grid.weight > 0
    weight, hits, total = grid.weight[kept], grid.hits[kept], getattr(grid, score)[kept]
    confidence = np.clip(grid.confidence[kept] / weight, 1e-300, 1.0)
    right = -np.log(confidence) if score == "log" else 2 * (1 - confidence) ** 2
    right = np.minimum(right, np.where(hits > 0, total / np.where(hits > 0, hits, 1), 0.0))
    misses = (weight - hits) * (
        1 - grid.infinite[kept] / np.maximum(1, grid.rows[kept] - grid.hit_rows[kept])
    )
    wrong = np.where(misses > 0, (total - hits * right) / np.where(misses > 0, misses, 1), 0.0)
    weights = np.concatenate([hits, misses])
    return np.concatenate([right, wrong]), weights, weights


def measure_moments(measure: str, evidence: Evidence) -> Moments:
    """The moments of a measure that is a mean over rows."""
    summary, top = evidence.summary, evidence.top
    if measure in ("log_score", "brier_score"):
        sums, name = (summary.log, "log") if measure == "log_score" else (summary.brier, "brier")
        return score_moments(sums, summary.grid, name)
    if measure == "infinite_rows":
        return Moments.of_share(float(summary.log.infinite.sum() / summary.rows), summary.rows)
    kept = top.weight > 0
    weight, squared = top.weight[kept], top.weight_squared[kept]
    confidence, rate = top.outputs[kept] / weight, np.clip(top.hits[kept] / weight, 0, 1)
    if measure == "confidence":
        return Moments.of_values(confidence, weight, squared)
    if measure == "accuracy":
        return Moments.of_share(
            float(weight @ rate / weight.sum()), float(weight.sum() ** 2 / squared.sum())
        )
    # overconfidence: confidence - 1 where right, confidence where wrong
    return Moments.of_values(
        np.concatenate([confidence - 1, confidence]),
        np.concatenate([weight * rate, weight * (1 - rate)]),
        np.concatenate([squared * rate, squared * (1 - rate)]),
    )
