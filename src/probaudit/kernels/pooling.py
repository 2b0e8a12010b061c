"""Loops of calibration curves: pooling adjacent violators, reading between knots, a step of logistic regression."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log

TILE = 512
CELLS = 1024


@kernel
def pool_adjacent_violators(outputs, hits, weights):
    """Knots [2, m] of the isotonic regression of hits / weights on outputs: the ends of each pool, and its mean.

    Rows are sorted by output; `hits` and `weights` are sums of a row. Equal outputs form one block before any pooling. Blocks
    go on a stack; while the last two are in the wrong order, they become one (Ayer et al. 1955). A pool keeps its sums, so
    that it has the mean of its rows however it came about.
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
        floor = max(floor, min(hit[pool] / weight[pool], 1.0))  # rounding must not turn neighbours around
        knots[0, m], knots[1, m] = low[pool], floor
        m += 1
        if high[pool] > low[pool]:
            knots[0, m], knots[1, m] = high[pool], floor
            m += 1
    return knots[:, :m].copy()


@kernel
def read_curve(knots, outputs):
    """The curve through the knots at each output, constant outside them. It never decreases where its knots do not.

    The share of the way between two knots is taken before the rise: a slope would overflow between subnormal knots.
    """
    x, y = knots[0], knots[1]
    first = np.empty(CELLS + 1, np.int64)  # the last knot not above each multiple of 1 / CELLS: the search starts there
    low = 0
    for cell in range(CELLS + 1):
        while low + 1 < x.size and x[low + 1] * CELLS <= cell:
            low += 1
        first[cell] = low
    first[CELLS] = x.size - 1
    found = np.empty(outputs.size)
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
            found[i] = y[low]
        else:
            share = (at - x[low]) / (x[low + 1] - x[low])
            found[i] = min(y[low] + share * (y[low + 1] - y[low]), y[low + 1])
    return found


@inline
def _dot(a, b, size):
    """Eight sums side by side: one alone would wait for each addition."""
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = size - size % 8
    for i in range(0, whole, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(whole, size):
        s0 += a[i] * b[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@kernel
def logistic_sums(features, targets, shares, coefficients):
    """The weighted mean log score of sigmoid(coefficients . features [d, n]), its gradient [d] and its Hessian [d, d]."""
    d, n = features.shape
    score, gradient, hessian = 0.0, np.zeros(d), np.zeros((d, d))
    margin, loss, slope, curvature, ones = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE), np.ones(TILE)
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        target, share = targets[start : start + size], shares[start : start + size]
        margin[:size] = 0.0
        for a in range(d):
            column = features[a, start : start + size]
            for i in range(size):
                margin[i] += coefficients[a] * column[i]
        for i in range(size):
            m, t, w = margin[i], target[i], share[i]
            small = exp(-abs(m))
            top = 1.0 / (1.0 + small)
            q = top if m >= 0 else small * top
            loss[i] = w * (max(m, 0.0) + log(1.0 + small) - t * m)
            slope[i] = w * (q - t)
            curvature[i] = w * (small * top * top)
        score += _dot(loss, ones, size)
        for a in range(d):
            column = features[a, start : start + size]
            gradient[a] += _dot(slope, column, size)
            for i in range(size):
                margin[i] = curvature[i] * column[i]
            for b in range(a + 1):
                hessian[a, b] += _dot(margin, features[b, start : start + size], size)
    for a in range(d):
        for b in range(a):
            hessian[b, a] = hessian[a, b]
    return score, gradient, hessian
