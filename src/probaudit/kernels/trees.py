"""k-d trees over rows of outputs."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel


@inline
def _widest_axis(points, rows, mean, spread):
    """The axis of largest variance among some rows; their means are left in `mean`.

    Sums are of differences to the first row, so that one pass loses no digits of the variance.
    """
    d, origin = points.shape[1], points[rows[0]]
    mean[:] = 0.0
    spread[:] = 0.0
    for i in range(rows.size):
        line = points[rows[i]]
        for k in range(d):
            gap = line[k] - origin[k]
            mean[k] += gap
            spread[k] += gap * gap
    axis = 0
    for k in range(d):
        mean[k] /= rows.size
        spread[k] -= rows.size * mean[k] * mean[k]
        mean[k] += origin[k]
        if spread[k] > spread[axis]:
            axis = k
    return axis


@inline
def _partition(points, rows, axis, cut, spare):
    """Put the rows below the cut first, in order, then the others, in order; how many are below."""
    low, high = 0, 0
    for i in range(rows.size):
        if points[rows[i], axis] < cut:
            rows[low] = rows[i]
            low += 1
        else:
            spare[high] = rows[i]
            high += 1
    for i in range(high):
        rows[low + i] = spare[i]
    return low


@kernel
def tree_cells(points, least, at_median):
    """The box of each row, numbered from the lowest. A box is split while it holds at least `least` rows that differ."""
    n, d = points.shape
    rows, spare = np.arange(n), np.empty(n, np.int64)
    mean, spread = np.empty(d), np.empty(d)
    found = np.empty(n, np.int64)
    stack = [(0, n)]
    leaves = 0
    while len(stack) > 0:
        start, stop = stack.pop()
        box = rows[start:stop]
        below = 0
        if stop - start >= least:
            axis = _widest_axis(points, box, mean, spread)
            cut = np.median(points[box, axis]) if at_median else mean[axis]
            below = _partition(points, box, axis, cut, spare)
        if below == 0 or below == stop - start:
            for i in range(start, stop):
                found[rows[i]] = leaves
            leaves += 1
        else:
            stack.append((start + below, stop))
            stack.append((start, start + below))
    return found
