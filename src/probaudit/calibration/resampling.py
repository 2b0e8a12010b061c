"""Resampling with replacement: default numbers of resamples, sampling units, bootstrap intervals,
and linearised intervals for the same units. `draw_counts` draws every resample of the package.

Rows that share a cell and a label are resampled as one category, so that the cost does not grow
with the rows.

A plain calibration error cannot be negative, and each resample adds noise to that of the sample.
The percentile interval of such an error lies above zero even for a calibrated model. Binned errors
therefore have intervals of another kind (`calibration.population`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from ..scoring.intervals import Z95, t95

Method = Literal["percentile", "bca"]
Statistic = Callable[[np.ndarray], np.ndarray]  # values [B] for counts [B, categories]

RESAMPLES = 999  # the default: null distributions, and intervals for the population's error
FEWER_RESAMPLES = 199  # the same, for many errors at once or errors that are slow to compute
BOOTSTRAP_RESAMPLES = 1000  # the default of bootstrap intervals, also of paired differences
NORMAL = NormalDist()
UNITS = 1000  # resampled instead of rows if rows have clusters or several events are dependent


def check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)


def draw_counts(
    size: int, shares: np.ndarray, resamples: int, seed: int | np.random.Generator
) -> np.ndarray:
    """Counts [resamples, categories] of `size` rows drawn with replacement, given the share of each
    category.

    >>> draw_counts(10, np.array([0.5, 0.5]), 2, seed=0).sum(axis=1)
    array([10, 10])
    """
    return np.random.default_rng(seed).multinomial(size, shares, resamples)


def draw_units(units: int, resamples: int, seed: int | np.random.Generator) -> np.ndarray:
    """Counts [resamples, units] of equally probable units drawn with replacement."""
    return draw_counts(units, np.full(units, 1 / units), resamples, seed)


def sampling_units(rows: int, seed: int, clusters: np.ndarray | None = None) -> np.ndarray:
    """The unit of each row. Rows, or whole clusters, are merged at random into at most UNITS units
    of about equal size.

    Units of independent rows are independent too, so that resampling units is as good as resampling
    rows, at a cost that does not grow with the rows.
    """
    number = (
        np.arange(rows)
        if clusters is None
        else np.unique(clusters, return_inverse=True)[1].reshape(-1)
    )
    size = int(number.max()) + 1
    if size <= UNITS:
        return number
    unit = np.random.default_rng(seed).permutation(size) % UNITS
    return unit[number]


def unit_table(
    units: np.ndarray, category: np.ndarray | None, n_units: int, categories: int
) -> Any:
    """The number of rows of each category in each unit, a sparse matrix [units, categories]."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(units)), (units, category)), shape=(n_units, categories))


def effective_rows(weight: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """The effective number of rows (Kish 1965), (sum w)^2 / sum w^2; 0 where the squares
    underflow."""
    return np.divide(weight**2, squared, out=np.zeros_like(weight), where=squared > 0)


def mean_influence(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The influence of each row on a mean: its value less the mean. Shares sum to 1.

    >>> mean_influence(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    array([-1.,  1.])
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(values - share @ values)


def ratio_influence(values: np.ndarray, base: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The influence of each row on a ratio of means, (mean of values) / (mean of base), by
    linearisation."""
    with np.errstate(invalid="ignore", divide="ignore"):
        below = share @ base
        return np.asarray((values - base * ((share @ values) / below)) / below)


def unit_terms(influence: np.ndarray, share: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """The independent terms whose sum is the error of an estimate: one for each row, or one for
    each cluster."""
    with np.errstate(invalid="ignore"):
        return share * influence if units is None else np.bincount(units, share * influence)


def quantile(clusters: np.ndarray | None) -> float:
    """The 97.5% point of the normal distribution; for rows in G clusters, of Student's distribution
    with G - 1 degrees of freedom.

    >>> round(quantile(None), 2), round(quantile(np.array([0, 1, 2, 2])), 2)
    (1.96, 4.3)
    """
    return Z95 if clusters is None or clusters.max() < 1 else t95(int(clusters.max()))


def half_width(terms: np.ndarray, quantile: float = Z95) -> float:
    """Half the width of the 95% interval of an estimate whose error is a sum of independent
    terms."""
    m = len(terms)
    width = quantile * math.sqrt(float((terms**2).sum()) * m / (m - 1)) if m > 1 else math.nan
    return width if math.isfinite(width) else math.nan


def percentile(draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of resampled values."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bca(
    value: float, draws: np.ndarray, counts: np.ndarray, statistic: Statistic, level: float = 0.95
) -> tuple[float, float]:
    """The BCa interval: bias-corrected and accelerated percentiles (Efron 1987). The acceleration
    comes from a jackknife that leaves out one row of each category."""
    share = float((np.sum(draws < value) + 0.5 * np.sum(draws == value)) / len(draws))
    # no correction is reliable if the estimate lies outside its resamples
    if not 0 < share < 1:
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
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = 0,
    bias_removed: int = 0,
) -> tuple[float, float]:
    """A bootstrap interval for value = statistic(counts), with categories of rows resampled.

    bias_removed : how often to subtract the bias of resamples, their mean less the value. Resamples
        have the noise of the sample and their own. 1 centres them at the value, for debiased
        estimates. 2 centres them at the value less its own bias, for plain estimates; "bca" then
        measures their bias from there. (Measured from the plain value, "bca" would correct the same
        bias again: in 3,000 simulated data sets of 1,000 rows the interval of the kernel error then
        covers 92.4%, instead of 95.4%.)
    """
    n = int(counts.sum())
    draws = statistic(draw_counts(n, counts / n, resamples, seed))
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return math.nan, math.nan
    bias = float(draws.mean()) - value
    draws = draws - bias_removed * bias
    if method == "percentile":
        return percentile(draws)
    return bca(value - max(0, bias_removed - 1) * bias, draws, counts, statistic)
