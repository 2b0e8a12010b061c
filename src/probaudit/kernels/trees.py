"""k-d trees over rows of outputs."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .vectors import prefetch

LINE_BYTES = 64  # of a processor's cache
AHEAD = 8  # rows


@inline
def _widest_axis(points, rows, origin, mean, spread):
    """The axis of largest variance among some rows, the first of equals; their means are left in `mean`.

    Sums are of differences to the first row, so that one pass loses no digits of the variance. Four rows are added at
    a time: a sum is then loaded and stored a quarter as often, but the processor no longer sees which row comes next.
    """
    n, d = rows.size, points.shape[1]
    for k in range(d):
        origin[k], mean[k], spread[k] = points[rows[0], k], 0.0, 0.0
    for i in range(0, n, 4):
        for j in range(i + AHEAD, min(i + AHEAD + 4, n)):
            for k in range(0, d, LINE_BYTES // points.itemsize):
                prefetch(points, rows[j] * d + k)
        first = points[rows[i]]  # the last four are filled up with the origin, which adds nothing
        second = points[rows[i + 1 if i + 1 < n else 0]]
        third = points[rows[i + 2 if i + 2 < n else 0]]
        fourth = points[rows[i + 3 if i + 3 < n else 0]]
        for k in range(d):
            a, b, c, e = first[k] - origin[k], second[k] - origin[k], third[k] - origin[k], fourth[k] - origin[k]
            mean[k] += (a + b) + (c + e)
            spread[k] += (a * a + b * b) + (c * c + e * e)
    axis = 0
    for k in range(d):
        mean[k] /= n
        spread[k] -= n * mean[k] * mean[k]
        mean[k] += origin[k]
        if spread[k] > spread[axis]:
            axis = k
    return axis


@inline
def _partition(rows, values, cut, spare):
    """Put the rows with values below the cut first, in order, then the others, in order; how many are below."""
    low, high = 0, 0
    for i in range(rows.size):  # no branch: it would be a coin toss
        row, below = rows[i], values[i] < cut
        rows[low] = row
        spare[high] = row
        low += below
        high += not below
    for i in range(high):
        rows[low + i] = spare[i]
    return low


@inline
def _next_above(values, cut):
    """The smallest value above the cut."""
    found = np.inf
    for value in values:
        if cut < value < found:
            found = value
    return found


@kernel
def tree_cells(points, least, at_median):
    """The box of each row, numbered from the lowest. A box is split while it holds at least `least` rows that differ.

    Where no row is below the cut (more than half of them share the smallest value), the cut is the next value above.
    """
    n, d = points.shape
    rows, spare, values = np.arange(n), np.empty(n, np.int64), np.empty(n)
    origin, mean, spread = np.empty(d), np.empty(d), np.empty(d)
    found = np.empty(n, np.int64)
    stack = [(0, n)]
    leaves = 0
    while len(stack) > 0:
        start, stop = stack.pop()
        box, column = rows[start:stop], values[start:stop]
        below = 0
        if stop - start >= least:
            axis = _widest_axis(points, box, origin, mean, spread)
            for i in range(stop - start):
                column[i] = points[box[i], axis]
            cut = np.median(column) if at_median else mean[axis]
            below = _partition(box, column, cut, spare)
            if below == 0:
                below = _partition(box, column, _next_above(column, cut), spare)
        if below == 0 or below == stop - start:
            for i in range(start, stop):
                found[rows[i]] = leaves
            leaves += 1
        else:
            stack.append((start + below, stop))
            stack.append((start, start + below))
    return found
