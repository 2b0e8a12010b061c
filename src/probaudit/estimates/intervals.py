"""Bootstrap intervals whose cost does not grow with the rows: rows that share a cell and a label are drawn together.

At the boundary: an error that is truly zero cannot be estimated from below, and a resample adds noise of its own, so the
percentile interval of a plain error lies above zero even for a calibrated model. Read it with the null value, or debias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Literal

import numpy as np

Method = Literal["percentile", "bca"]
Statistic = Callable[[np.ndarray], np.ndarray]  # values [B] for counts [B, categories]

NORMAL = NormalDist()


def resampled_counts(counts: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each category of rows is drawn, [resamples, categories]."""
    n = int(counts.sum())
    return rng.multinomial(n, counts / n, resamples)


def resampled_groups(
    category: np.ndarray, groups: np.ndarray, categories: int, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """The same when whole groups of rows are drawn (clustered bootstrap)."""
    from scipy.sparse import csr_matrix

    number = np.unique(groups, return_inverse=True)[1].reshape(-1)
    size = int(number.max()) + 1
    table = csr_matrix((np.ones(len(category)), (number, category)), shape=(size, categories))
    drawn = rng.multinomial(size, np.full(size, 1 / size), resamples)
    return np.asarray(drawn @ table)


def percentile(draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The middle share of the resampled values."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bca(value: float, draws: np.ndarray, counts: np.ndarray, statistic: Statistic, level: float = 0.95) -> tuple[float, float]:
    """Bias-corrected and accelerated percentiles (Efron 1987); the acceleration from leaving out one row of each category."""
    share = float((np.sum(draws < value) + 0.5 * np.sum(draws == value)) / len(draws))
    if not 0 < share < 1:  # the estimate lies outside its own resamples: no correction can be trusted
        return percentile(draws, level)
    left_out = statistic(counts - np.eye(len(counts)))
    gap = np.average(left_out, weights=counts) - left_out
    spread = float((counts * gap**2).sum())
    acceleration = float((counts * gap**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    bias = NORMAL.inv_cdf(share)

    def place(tail: float) -> float:
        z = bias + NORMAL.inv_cdf(tail)
        return NORMAL.cdf(bias + z / (1 - acceleration * z))

    low, high = np.quantile(draws, [place((1 - level) / 2), place((1 + level) / 2)])
    return float(low), float(high)


def bootstrap(
    value: float,
    counts: np.ndarray,
    statistic: Statistic,
    *,
    method: Method = "percentile",
    resamples: int = 1000,
    seed: int = 0,
    category: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    recentre: bool = False,
) -> tuple[float, float]:
    """An interval for statistic(counts), with categories of rows, or whole groups of rows, drawn again.

    recentre : for debiased estimates. A resample is debiased for its own chance only, so resampled values lie around the plain
        estimate; they are moved to lie around the debiased one.
    """
    rng = np.random.default_rng(seed)
    if groups is not None and category is not None:
        drawn = resampled_groups(category, groups, len(counts), resamples, rng)
    else:
        drawn = resampled_counts(counts, resamples, rng)
    draws = statistic(drawn)
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return math.nan, math.nan
    if recentre:
        draws = draws - draws.mean() + value
    return bca(value, draws, counts, statistic) if method == "bca" else percentile(draws)
