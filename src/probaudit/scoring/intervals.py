"""95% intervals of proportions and of mean scores.

Proportions have Wilson's interval, or the exact one (Clopper & Pearson 1934).

95% intervals of mean scores that hold with few rows of a class.

A mean score is value = sum_c w_c m_c, w_c the share of class c (divided by the naive score, if
normalised) and m_c the mean score of its rows. Its variance splits into that of the class means
and that of the class counts. Both are skewed where a class has few rows, and the symmetric interval
of a linearised mean then covers too little: of calibrated risks with 1% positives, n = 1000, that
of the normalised reject risk covers 60%. So each part gets limits of its own, and the distances
from the estimate to these are added in quadrature (MOVER: Zou & Donner 2008).

- A count of n rows is Poisson; its score limits are n + z^2 / 2 -+ z sqrt(n + z^2 / 4).
- The mean of a bounded score (a cost) has the limits of a Beta distribution with Jeffreys' prior,
  half a row at each bound (Brown, Cai & DasGupta 2001); with costs 0 and 1, Jeffreys' interval.
- Means of other scores have limits from a log-normal distribution, with the quantile of Student's
  t at Satterthwaite's degrees of freedom; the upper limit is at most 39.5 times the mean.

With many rows of each class all three meet the linearised interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

Z95 = 1.959963984540054  # the 97.5% point of the normal distribution
LEVEL, TAIL = 0.95, 0.025
PRIOR_ROWS = 0.5
MANY_CLASSES = 10  # that vary alike, so that the sum of their means is nearly normal
# The upper limit of an exponential mean from a single row is 39.5 times that row. Student's t on
# the logarithmic scale goes far beyond with two or three rows; with more, this never binds.
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
    """The exact 95% interval of a probability from the rate of an event among rows (Clopper &
    Pearson 1934).

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
    """What each class adds to a mean score and to its variance; arrays [classes that have rows].

    share, mean : w_c and m_c. rows : how many independent rows of equal weight say as much.
    within : the variance of w_c m_c given the class counts. counts : the variance that the count of
        the class adds. rising : whether more rows of the class raise the value.
    least, most : the bounds of the score in this class; `most` is infinite if there is none.

    Rows that come in clusters are fewer independent ones: with a design effect D, rows / D and
    D times both variances.
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
        """The same parts of rows whose dependence has this design effect."""
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
    """How far the counts may move the value down and up."""
    half, root = Z95**2 / 2, Z95 * np.sqrt(parts.rows + Z95**2 / 4)
    each = np.sqrt(parts.counts / parts.rows)  # the change by one row
    fewer, more = each * (root - half), each * (root + half)
    return np.where(parts.rising, fewer, more), np.where(parts.rising, more, fewer)


def _bounded_sides(parts: ClassParts, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far means of bounded scores may lie below and above. A mean whose score varies less than
    one of two values at the bounds counts as that of more rows."""
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
        # A sum over many classes is nearly normal, also where each class has few rows, all right or
        # all wrong: their limits lie on one side, and together would leave none on the other.
        least = Z95 * math.sqrt(total)
        down, up = (
            side if math.sqrt(math.fsum(side**2)) >= least else np.array([least])
            for side in (down, up)
        )
    return down, up


def _unbounded_sides(parts: ClassParts, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the weighted sum of means of other scores may lie below and above, in one number
    each.

    Its relative error counts against the means that vary most; of many classes alike, against all.
    The score of a single row tells nothing of its variation, and counts as exponential; of many
    such classes the counts tell it.
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
