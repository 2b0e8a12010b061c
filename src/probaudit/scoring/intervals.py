"""95% intervals of proportions and of mean scores.

Proportions have Wilson's interval, or the exact one of Clopper & Pearson.

A mean score is value = sum_c w_c m_c, where w_c is the share of class c (divided by the naive score
if normalised) and m_c the mean score of its rows. Its variance has two parts: that of the class
means and that of the class counts. Both are skewed if a class has few rows, and the symmetric
interval of a linearised mean then covers too little: with calibrated outputs, 1% positives and
n = 1000, it covers the normalised reject risk in 60% of samples. So each part gets limits of its
own, and their distances from the estimate are added in quadrature (MOVER; Zou & Donner 2008).

- A class count n is Poisson; its score limits are n + z^2 / 2 -+ z sqrt(n + z^2 / 4).
- The mean of a bounded score (a cost) has the limits of a Beta distribution with Jeffreys' prior,
  half a row at each bound (Brown, Cai & DasGupta 2001). For costs 0 and 1 this is Jeffreys'
  interval.
- The mean of any other score has log-normal limits, with Student's t quantile at Satterthwaite's
  degrees of freedom. The upper limit is at most 39.5 times the mean.

With many rows in each class the result agrees with the linearised interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

Z95 = 1.959963984540054  # the 97.5% point of the normal distribution
LEVEL, TAIL = 0.95, 0.025
PRIOR_ROWS = 0.5
MANY_CLASSES = 10  # of similar variance, so that the sum of their means is nearly normal
# The upper limit of an exponential mean from a single row is 39.5 times its value. Student's t on
# the log scale goes far beyond with two or three rows; with more rows this limit never applies.
LONGEST = math.log(-1 / math.log1p(-TAIL))


def t95(freedom: float) -> float:
    """The 97.5% point of Student's distribution.

    >>> round(t95(9), 3), round(t95(1e9), 3)
    (2.262, 1.96)
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - TAIL))


@overload
def wilson(share: float, n: float) -> tuple[float, float]: ...


@overload
def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


def wilson(
    share: float | np.ndarray, n: float | np.ndarray
) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    """Wilson's 95% interval of a proportion (Wilson 1927), given the share of events among n rows.

    n may be an effective number of rows. The interval is NaN where n is not positive.

    >>> tuple(round(x, 4) for x in wilson(0.0, 10))
    (0.0, 0.2775)
    >>> [float(end.round(4)[0]) for end in wilson(np.array([0.1]), np.array([20]))]
    [0.0279, 0.301]
    """
    rate, size = np.asarray(share, np.float64), np.asarray(n, np.float64)
    size = np.where(size > 0, size, np.nan)
    centre = (rate + Z95**2 / (2 * size)) / (1 + Z95**2 / size)
    variance = np.maximum(rate * (1 - rate), 0.0) / size + Z95**2 / (4 * size**2)
    half = Z95 / (1 + Z95**2 / size) * np.sqrt(variance)
    low, high = np.clip(centre - half, 0, rate), np.clip(centre + half, rate, 1)
    return (float(low), float(high)) if low.ndim == 0 else (low, high)


def clopper_pearson(rate: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The exact 95% interval of a proportion (Clopper & Pearson 1934), given the rate of an event
    among `size` rows.

    >>> [float(end.round(4)[0]) for end in clopper_pearson(np.array([0.1]), np.array([20]))]
    [0.0123, 0.317]
    """
    from scipy.special import betaincinv

    hits, misses, tail = rate * size, (1 - rate) * size, (1 - LEVEL) / 2
    some, short = hits > 1e-9, misses > 1e-9
    low = np.where(some, betaincinv(np.where(some, hits, 1.0), misses + 1, tail), 0.0)
    high = np.where(short, betaincinv(hits + 1, np.where(short, misses, 1.0), 1 - TAIL), 1.0)
    return low, high


@dataclass(frozen=True)
class ClassParts:
    """The contribution of each class to a mean score and to its variance: arrays over the classes
    that have rows.

    share, mean : w_c and m_c.
    rows : the effective number of rows.
    within : the variance of w_c m_c given the class counts.
    counts : the variance due to the count of the class.
    rising : whether more rows of the class raise the value.
    least, most : the bounds of the score in this class; `most` is infinite if there is none.
    """

    share: np.ndarray
    mean: np.ndarray
    rows: np.ndarray
    within: np.ndarray
    counts: np.ndarray
    rising: np.ndarray
    least: np.ndarray
    most: np.ndarray

    def dependent(self, effect: float) -> ClassParts:
        """The same parts with a design effect D: rows / D, and D times both variances."""
        changed = {
            "rows": self.rows / effect,
            "within": self.within * effect,
            "counts": self.counts * effect,
        }
        return replace(self, **changed)


def score_interval(value: float, parts: ClassParts) -> tuple[float, float]:
    """The 95% interval of a mean score.

    >>> one = [np.array([x]) for x in (1.0, 0.5, 100.0, 0.0025, 0.0, 0.0, 0.0, 1.0)]
    >>> tuple(round(x, 3) for x in score_interval(0.5, ClassParts(*one)))
    (0.403, 0.597)
    """
    variances = parts.within.sum() + parts.counts.sum()
    if not math.isfinite(variances):
        return -math.inf, math.inf
    bounded = np.isfinite(parts.most)
    sides = [_count_sides(parts), _bounded_sides(parts, bounded), _unbounded_sides(parts, ~bounded)]
    down, up = (
        math.sqrt(math.fsum(np.concatenate(side) ** 2)) for side in zip(*sides, strict=True)
    )
    return value - down, value + up


def _count_sides(parts: ClassParts) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the lower and upper limit due to the class counts."""
    half, root = Z95**2 / 2, Z95 * np.sqrt(parts.rows + Z95**2 / 4)
    each = np.sqrt(parts.counts / parts.rows)  # the change due to one row
    fewer, more = each * (root - half), each * (root + half)
    return np.where(parts.rising, fewer, more), np.where(parts.rising, more, fewer)


def _bounded_sides(parts: ClassParts, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the limits of class means of bounded scores. A score that varies less than a
    two-valued score at the bounds counts as more rows."""
    from scipy.special import betaincinv

    share, mean, rows, within = (
        field[some] for field in (parts.share, parts.mean, parts.rows, parts.within)
    )
    least, width = parts.least[some], (parts.most - parts.least)[some]
    scale = np.where(width > 0, width, 1.0)
    place = np.clip((mean - least) / scale, 0.0, 1.0)
    spread = within * rows / np.where(share > 0, share * scale, 1.0) ** 2
    total = rows + 2 * PRIOR_ROWS
    middle = (rows * place + PRIOR_ROWS) / total
    second = (rows * (spread + place**2) + PRIOR_ROWS) / total
    variance, most = second - middle**2, middle * (1 - middle)
    size = total * np.maximum(most / np.maximum(variance, 1e-300), 1.0)
    low, high = (betaincinv(size * middle, size * (1 - middle), tail) for tail in (TAIL, 1 - TAIL))
    down, up = (
        share * width * np.maximum(place - low, 0.0),
        share * width * np.maximum(high - place, 0.0),
    )
    total = math.fsum(within)
    if total**2 > MANY_CLASSES * math.fsum(within**2):
        # A sum over many classes is nearly normal. But if each class has few rows, all right or all
        # wrong, their limits lie on one side only, and the other distance would be too short.
        least = Z95 * math.sqrt(total)
        down, up = (
            side if math.sqrt(math.fsum(side**2)) >= least else np.array([least])
            for side in (down, up)
        )
    return down, up


def _unbounded_sides(parts: ClassParts, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the limits of the weighted sum of class means of unbounded scores, one each.

    The error is taken relative to the means that vary most; if many classes vary alike, relative
    to all of them. A class of a single row shows no variance: its score counts as exponential. If
    there are many such classes, this variance is shared among them.
    """
    rows, part = parts.rows[some], (parts.share * parts.mean)[some]
    single = rows < 2
    within = parts.within[some] + single * part**2 / max(1, single.sum())
    total = math.fsum(within)
    if total == 0:
        return np.zeros(1), np.zeros(1)
    each = within / total
    alike = 1 / math.fsum(each**2)
    size = alike * math.fsum(each * part)
    freedom = 1 / math.fsum(each**2 / np.maximum(rows - 1, 1.0))
    half = t95(max(freedom, 1.0)) * math.sqrt(total)
    if not size > 0:
        return np.array([half]), np.array([half])
    ratio = min(half / size, LONGEST)
    return np.array([-size * np.expm1(-half / size)]), np.array([size * np.expm1(ratio)])
