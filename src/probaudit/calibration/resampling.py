"""Resampling with replacement, and the bootstrap intervals that rest on it. Every resample of the
package is drawn by `draw_counts`.

Rows that share a cell and a label are resampled together, so that the cost does not grow with the
rows.

At the boundary: an error that is truly zero cannot be estimated from below, and a resample adds
noise of its own, so the percentile interval of a plain error lies above zero even for a calibrated
model. Binned errors therefore have intervals of another kind (`calibration.population`).
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

# Default numbers of resamples: of null distributions and of intervals for the population; where
# there are many errors, or each takes long; and of bootstrap intervals.
RESAMPLES, FEWER_RESAMPLES, BOOTSTRAP_RESAMPLES = 999, 199, 1000
NORMAL = NormalDist()
# units of rows to resample, where rows are in clusters or several events are dependent
UNITS = 1000


def check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)


def draw_counts(
    size: int, shares: np.ndarray, resamples: int, seed: int | np.random.Generator
) -> np.ndarray:
    """How often each category occurs among `size` rows drawn with replacement, [resamples,
    categories], given the share of each category.

    >>> draw_counts(10, np.array([0.5, 0.5]), 2, seed=0).sum(axis=1)
    array([10, 10])
    """
    return np.random.default_rng(seed).multinomial(size, shares, resamples)


def draw_units(units: int, resamples: int, seed: int | np.random.Generator) -> np.ndarray:
    """How often each of so many equally probable units occurs in each resample."""
    return draw_counts(units, np.full(units, 1 / units), resamples, seed)


def sampling_units(rows: int, seed: int, clusters: np.ndarray | None = None) -> np.ndarray:
    """The unit of each row, where rows (or whole clusters of them) are merged at random into UNITS
    of about equal size.

    Units of independent rows are independent too, so that resampling units is as good as
    resampling rows, at a cost that does not grow with them.
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
    """How many rows of each category every unit holds, a sparse matrix [units, categories]."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(units)), (units, category)), shape=(n_units, categories))


def effective_rows(weight: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """How many rows of equal weight say as much (Kish 1965): (sum w)^2 / sum w^2; 0 where the
    squares are too small to be told from 0."""
    return np.divide(weight**2, squared, out=np.zeros_like(weight), where=squared > 0)


def mean_influence(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """What each row adds to a mean of rows whose shares sum to 1, beyond the mean itself.

    >>> mean_influence(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    array([-1.,  1.])
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(values - share @ values)


def ratio_influence(values: np.ndarray, base: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The same for the ratio of two means, (mean of values) / (mean of base), by linearisation."""
    with np.errstate(invalid="ignore", divide="ignore"):
        below = share @ base
        return np.asarray((values - base * ((share @ values) / below)) / below)


def unit_terms(influence: np.ndarray, share: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """The terms whose sum is the error of an estimate: one for each row, or for each cluster of
    dependent rows."""
    with np.errstate(invalid="ignore"):
        return share * influence if units is None else np.bincount(units, share * influence)


def quantile(clusters: np.ndarray | None) -> float:
    """Of the normal distribution; for rows in G clusters, of Student's with G - 1 degrees of
    freedom.

    >>> round(quantile(None), 2), round(quantile(np.array([0, 1, 2, 2])), 2)
    (1.96, 4.3)
    """
    return Z95 if clusters is None or clusters.max() < 1 else t95(int(clusters.max()))


def half_width(terms: np.ndarray, quantile: float = Z95) -> float:
    """Half of the 95% interval of an estimate whose error is a sum of independent terms."""
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
    """Bias-corrected and accelerated percentiles (Efron 1987); the acceleration from leaving out
    one row of each category."""
    share = float((np.sum(draws < value) + 0.5 * np.sum(draws == value)) / len(draws))
    # the estimate lies outside its resamples: no correction is reliable
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
    """An interval for value = statistic(counts), with categories of rows resampled.

    bias_removed : how often the mean excess of resamples over the value is subtracted from them. A
        resample has the noise of the rows and its own. Once centres resamples at the estimate, as
        debiased estimates require. Twice centres them at the plain estimate less its bias, from
        where "bca" measures their bias. (From the plain estimate itself, "bca" would find that bias
        again and correct a shift by quantiles: over 3,000 simulated data sets of 1,000 rows the
        interval of the kernel error then covers 92.4%, and 95.4% with this method.)
    """
    n = int(counts.sum())
    draws = statistic(draw_counts(n, counts / n, resamples, seed))
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return math.nan, math.nan
    chance = float(draws.mean()) - value
    draws = draws - bias_removed * chance
    if method == "percentile":
        return percentile(draws)
    return bca(value - max(0, bias_removed - 1) * chance, draws, counts, statistic)
