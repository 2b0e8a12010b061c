"""Isotonic regression: pool adjacent violators (PAV), and interpolate between its knots."""

from __future__ import annotations

import numpy as np

from .compiling import kernel
from .twins import twin

CELLS = 1024
COUNTS = 2.0**26  # up to this sum, counts and their products are exact


def _counts(hits, weights):
    """Whether all sums are exact, so that the order of pooling is free; `hits` may be a matrix."""
    return (
        hits.size > 0
        and weights.min() > 0
        and weights.sum() < COUNTS
        and hits.min() >= 0
        and bool((hits <= weights).all())
        and not (weights % 1).any()
        and not (hits % 1).any()
    )


@twin(lambda outputs, hits, weights: outputs if _counts(hits, weights) else None)
@kernel
def pool_adjacent_violators(outputs, hits, weights):
    """Knots [2, m] of the isotonic regression of hits / weights on outputs: the ends of each pool,
    and its mean.

    Rows are sorted by output, and each has its own sums of hits and weights. Equal outputs form one
    block before any pooling. Blocks go on a stack; while the last two violate the order, they are
    pooled (Ayer et al. 1955). A pool keeps its sums, so that its mean does not depend on the order
    of pooling.
    """
    n = outputs.size
    low, high = np.empty(n), np.empty(n)
    hit, weight = np.empty(n), np.empty(n)
    last = -1
    i = 0
    while i < n:
        x = outputs[i]
        h, w = 0.0, 0.0
        while i < n and outputs[i] == x:
            h += hits[i]
            w += weights[i]
            i += 1
        start = x
        while last >= 0 and hit[last] * w >= h * weight[last]:
            start = low[last]
            h += hit[last]
            w += weight[last]
            last -= 1
        last += 1
        low[last], high[last], hit[last], weight[last] = start, x, h, w
    knots = np.empty((2, 2 * (last + 1)))
    m = 0
    floor = 0.0
    for pool in range(last + 1):
        # rounding must not reverse the order of neighbours
        floor = max(floor, min(hit[pool] / weight[pool], 1.0))
        knots[0, m], knots[1, m] = low[pool], floor
        m += 1
        if high[pool] > low[pool]:
            knots[0, m], knots[1, m] = high[pool], floor
            m += 1
    return knots[:, :m].copy()


@twin(lambda hits, weights: hits if _counts(hits, weights) else None)
@kernel
def isotonic_levels(hits, weights):
    """The isotonic regression of each row of hits [r, m] / weights [m] on the place of its columns,
    pooled as above."""
    n = weights.size
    fits, start = np.empty(hits.shape), np.empty(n + 1, np.int64)
    hit, weight = np.empty(n), np.empty(n)
    for r in range(len(hits)):
        last = -1
        for i in range(n):
            at, h, w = i, hits[r, i], weights[i]
            while last >= 0 and hit[last] * w >= h * weight[last]:
                at = start[last]
                h += hit[last]
                w += weight[last]
                last -= 1
            last += 1
            start[last], hit[last], weight[last] = at, h, w
        start[last + 1] = n
        floor = 0.0
        for pool in range(last + 1):
            floor = max(floor, min(hit[pool] / weight[pool], 1.0))
            fits[r, start[pool] : start[pool + 1]] = floor
    return fits


@twin(lambda knots, outputs: outputs)
@kernel
def read_curve(knots, outputs):
    """Interpolate linearly between the knots at each output, constant outside them. The curve never
    decreases where its knots do not.

    The fraction of the distance between two knots is computed before the product with the rise: a
    slope would overflow between subnormal knots.
    """
    x, y = knots[0], knots[1]
    # the last knot not above each multiple of 1 / CELLS, where the binary search starts
    first = np.empty(CELLS + 1, np.int64)
    low = 0
    for cell in range(CELLS + 1):
        while low + 1 < x.size and x[low + 1] * CELLS <= cell:
            low += 1
        first[cell] = low
    first[CELLS] = x.size - 1
    curve = np.empty(outputs.size)
    for i in range(outputs.size):
        at = outputs[i]
        cell = min(np.int64(at * CELLS), CELLS - 1)
        low = first[cell]
        left = first[cell + 1] - low + 1
        while left > 1:
            half = left // 2
            low = low + half if x[low + half] <= at else low
            left -= half
        if at <= x[low] or low == x.size - 1 or y[low] == y[low + 1]:
            curve[i] = y[low]
        else:
            share = (at - x[low]) / (x[low + 1] - x[low])
            curve[i] = min(y[low] + share * (y[low + 1] - y[low]), y[low + 1])
    return curve
