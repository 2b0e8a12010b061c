"""Tail probabilities of binned calibration errors, without simulation.

If the model is calibrated, W times the binned error is T = sum_b |H_b - E_b|: H_b, the hits in bin
b, is a sum of independent binomials with mean E_b, and bins are independent. P(T >= t) is found by
convolution on a grid of [0, t): the probabilities of each H_b from its characteristic function
(Hong 2013), |H_b - E_b| rounded up to the grid, bins added one after the other. Rounding up makes
the probability a little too large, never too small.

A p-value from B resamples is at least 1 / (B + 1), so that among many classes none can be told from
chance; these tails go down to 1e-12 at the same cost for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .cells import effective_rows
from .null import RELATIVE_ROUNDING, ROUNDING, BinomialNull

GRID = 1024  # steps from 0 to the error
SMALLEST = 1e-12  # sums of probabilities are rounded to about this
WIDE = 10.0  # standard deviations within which hits are counted one by one
MARGIN = 20  # hits more, for skewed counts
MOST_COUNTED = 512  # values of a count; beyond, it is normal
TOGETHER = 64  # errors at a time


def exceedance(nulls: Sequence[BinomialNull], values: Iterable[float]) -> np.ndarray:
    """P(error >= value) if the model is calibrated, for each binned error (distance L1).

    Weighted rows count as their effective number, of equal weight in each bin.

    >>> rows = np.array([10])
    >>> one = BinomialNull(np.array([0]), rows, rows * 1.0, rows * 1.0, np.array([0.5]))
    >>> exceedance([one], [0.3]).round(6)  # at least 8, or at most 2, of 10
    array([0.109375])
    """
    values = np.array(list(values), np.float64)
    found = np.ones(len(nulls))
    for first in range(0, len(nulls), TOGETHER):
        part = slice(first, first + TOGETHER)
        found[part] = _tails(nulls[part], values[part])
    return found


def _tails(nulls: Sequence[BinomialNull], values: np.ndarray) -> np.ndarray:
    totals = np.array([null.weight.sum() for null in nulls])
    limits = totals * (values * (1 - RELATIVE_ROUNDING) - ROUNDING)
    bins = [
        _bin_distributions(null, limit) if limit > 0 else []
        for null, limit in zip(nulls, limits, strict=True)
    ]
    most = max(map(len, bins), default=0)
    kept = np.zeros((len(nulls), GRID))
    kept[:, 0] = 1.0
    for place in range(most):
        some = [i for i, each in enumerate(bins) if len(each) > place]
        added = np.stack([bins[i][place] for i in some])
        size = 2 * GRID
        product = np.fft.rfft(kept[some], size) * np.fft.rfft(added, size)
        kept[some] = np.maximum(np.fft.irfft(product, size)[:, :GRID], 0.0)
    tails = np.where(limits > 0, 1 - kept.sum(axis=1), 1.0)
    return np.clip(tails, SMALLEST, 1.0)


def _bin_distributions(null: BinomialNull, limit: float) -> list[np.ndarray]:
    """The probabilities of |H_b - E_b| on the grid of [0, limit), for each bin; what lies beyond is
    left out."""
    starts = np.flatnonzero(np.r_[True, np.diff(null.cell) > 0])
    ends = np.r_[starts[1:], len(null.cell)]
    size = np.maximum(1, np.rint(effective_rows(null.weight, null.weight_squared))).astype(np.int64)
    mean = np.clip(null.mean, 0, 1)
    found = []
    for low, high in zip(starts, ends, strict=True):
        part = slice(low, high)
        found.append(
            _bin_distribution(size[part], mean[part], null.weight[part] / size[part], limit)
        )
    return found


def _bin_distribution(
    size: np.ndarray, mean: np.ndarray, unit: np.ndarray, limit: float
) -> np.ndarray:
    """The same for one bin of rows that count `unit` each."""
    varying = size * mean * (1 - mean)
    variance = float(varying.sum())
    kept = np.zeros(GRID)
    if variance <= 0:
        kept[0] = 1.0
        return kept
    scale = float(np.sqrt((unit**2 * varying).sum() / variance)) * GRID / limit
    expected = float((size * mean).sum())
    reach = WIDE * np.sqrt(variance) + MARGIN
    first = max(0, int(np.floor(expected - reach)))
    last = min(int(size.sum()), int(np.ceil(expected + reach)))
    if last - first >= MOST_COUNTED:
        return _normal_distribution(np.sqrt(variance) * scale)
    hits = np.arange(first, last + 1)
    probabilities = _count_probabilities(size, mean, first, last)
    place = np.ceil(np.abs(hits - expected) * scale * (1 - RELATIVE_ROUNDING)).astype(np.int64)
    inside = place < GRID
    return np.bincount(place[inside], probabilities[inside], minlength=GRID)


def _count_probabilities(size: np.ndarray, mean: np.ndarray, first: int, last: int) -> np.ndarray:
    """P(H = first), ..., P(H = last) of a sum of binomials that hardly leaves this range."""
    count = 1 << (last - first).bit_length()  # at least as many; a power of 2 is fastest
    turn = 2 * np.pi * np.arange(count // 2 + 1) / count
    with np.errstate(divide="ignore"):
        logs = size @ np.log(1 + mean[:, None] * np.expm1(1j * turn))
    found = np.fft.irfft(np.exp(np.conj(logs) + 1j * turn * first), count)[: last - first + 1]
    return np.maximum(found, 0.0)


def _normal_distribution(deviation: float) -> np.ndarray:
    from scipy.special import ndtr

    edges = np.arange(GRID) / deviation
    below = np.r_[0.0, 2 * ndtr(edges[1:]) - 1]
    return np.diff(below, prepend=0.0)
