"""Isotonic regression of counts, and interpolation between its knots."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def _pools(hits: Array, weights: Array, first: Array) -> tuple[Array, Array]:
    """Where pools start, and their means. `first`: where a regression starts.

    Each round pools all runs of adjacent violators at once. Sums of counts are exact, so that the
    result does not depend on the order of pooling.
    """
    start = np.arange(len(hits))
    while True:
        apart = first.copy()
        apart[1:] |= hits[:-1] * weights[1:] < hits[1:] * weights[:-1]
        if apart.all():
            return start, np.minimum(hits / weights, 1.0)
        kept = np.flatnonzero(apart)
        hits, weights = np.add.reduceat(hits, kept), np.add.reduceat(weights, kept)
        start, first = start[kept], first[kept]


def pool_adjacent_violators(outputs: Array, hits: Array, weights: Array) -> Array:
    level = np.flatnonzero(np.r_[True, outputs[1:] != outputs[:-1]])
    first = np.arange(len(level)) == 0
    start, rate = _pools(np.add.reduceat(hits, level), np.add.reduceat(weights, level), first)
    x = outputs[level]
    ends = np.stack([x[start], x[np.r_[start[1:], len(x)] - 1]], axis=1)
    kept = np.stack([np.ones(len(start), np.bool_), ends[:, 0] < ends[:, 1]], axis=1)
    rates = np.stack([rate, rate], axis=1)
    return np.stack([ends[kept], rates[kept]])


def isotonic_levels(hits: Array, weights: Array) -> Array:
    first = np.zeros(hits.shape, np.bool_)
    first[:, 0] = True
    start, rate = _pools(hits.ravel(), np.tile(weights, len(hits)), first.ravel())
    return np.repeat(rate, np.diff(start, append=hits.size)).reshape(hits.shape)


def read_curve(knots: Array, outputs: Array) -> Array:
    x, y = knots
    low = np.maximum(np.searchsorted(x, outputs, "right") - 1, 0)
    high = np.minimum(low + 1, len(x) - 1)
    share = (outputs - x[low]) / (x[high] - x[low])
    inside = (outputs > x[low]) & (y[low] != y[high])
    return np.where(inside, np.minimum(y[low] + share * (y[high] - y[low]), y[high]), y[low])
