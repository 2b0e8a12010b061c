"""k-d trees over rows of outputs."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel

PENDING = 64  # boxes: the k-th that waits has at most n / 2^k rows
LOST = 2.0**-10  # about ten of the 53 bits of a variance
# variances that differ by less are equal: the order of rows moves their last bits
TIED = 1 + 2.0**-30


@inline
def _sum_rows(points, rows, origin, sums, squares):
    """The sums over rows of their differences to the row `origin`, and of the squares of these.

    Two rows at a time: each sum is then loaded and stored half as often.
    """
    n, d, zero = rows.size, points.shape[1], points[origin]
    for k in range(d):
        sums[k], squares[k] = 0.0, 0.0
    for i in range(0, n, 2):
        # the origin adds nothing
        one, two = points[rows[i]], points[rows[i + 1] if i + 1 < n else origin]
        for k in range(d):
            a, b = np.float64(one[k]) - zero[k], np.float64(two[k]) - zero[k]
            sums[k] += a + b
            squares[k] += a * a + b * b


@inline
def _widest_axis(n, sums, squares):
    """The axis of largest variance, the first of equals, and n^2 times its variance, n Σx² -
    (Σx)²."""
    axis, widest = 0, 0.0
    for k in range(sums.size):
        spread = n * squares[k] - sums[k] * sums[k]
        if spread > widest * TIED or k == 0:
            axis, widest = k, spread
    return axis, widest


@inline
def _partition(rows, values, cut, spare):
    """Put the rows with values below the cut first, in order, then the others, in order; how many
    are below."""
    low, high = 0, 0
    for i in range(rows.size):  # without a branch, which would be a coin toss
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
    """The box of each row, numbered from the lowest; and the tree: for each node its axis (-1 in
    leaves) and first child (the other comes next), or box, [nodes, 2]; and its cut. A box is split
    while it holds at least `least` rows that differ.

    Rows below the cut go low. If there are none, as many share the smallest value, the cut is the
    next larger value.

    Of the two parts of a box only the smaller is read: the sums of the other are what is left of
    the sums of the box. The bits lost that way are those by which the variances of a box are
    smaller than the squares of the last box that was read in full; where too many would be lost,
    the box is read in full itself.
    """
    n, d = points.shape
    rows, spare, values = np.arange(n), np.empty(n, np.int64), np.empty(n)
    sums, squares, scale = np.zeros((PENDING, d)), np.zeros((PENDING, d)), np.full(PENDING, np.inf)
    starts, stops, origins = (
        np.zeros(PENDING, np.int64),
        np.full(PENDING, n),
        np.zeros(PENDING, np.int64),
    )
    ends = np.zeros(n + 1, np.bool_)
    nodes, cuts, node, known = (
        np.empty((2 * n + 1, 2), np.int64),
        np.empty(2 * n + 1),
        np.zeros(PENDING, np.int64),
        1,
    )
    top = 0
    while top >= 0:
        start, stop = starts[top], stops[top]
        box, column, size = rows[start:stop], values[start:stop], stop - start
        below = 0
        if size >= least:
            axis, widest = _widest_axis(size, sums[top], squares[top])
            if widest <= LOST * size * scale[top]:
                origins[top] = box[0]
                _sum_rows(points, box, box[0], sums[top], squares[top])
                axis, widest = _widest_axis(size, sums[top], squares[top])
                scale[top] = squares[top].max()
            for i in range(size):
                column[i] = points[box[i], axis]
            cut = (
                np.median(column)
                if at_median
                else points[origins[top], axis] + sums[top, axis] / size
            )
            below = _partition(box, column, cut, spare)
            if below == 0:
                cut = _next_above(column, cut)
                below = _partition(box, column, cut, spare)
        if below == 0 or below == size:
            ends[stop] = True
            nodes[node[top], 0], nodes[node[top], 1], cuts[node[top]] = -1, start, 0.0
            top -= 1
            continue
        middle, few = start + below, top + 1
        nodes[node[top], 0], nodes[node[top], 1], cuts[node[top]] = axis, known, cut
        node[few], node[top] = (known, known + 1) if 2 * below < size else (known + 1, known)
        known += 2
        scale[few], origins[few] = scale[top], origins[top]
        if 2 * below < size:
            starts[few], stops[few], starts[top] = start, middle, middle
        else:
            starts[few], stops[few], stops[top] = middle, stop, middle
        if max(below, size - below) >= least:
            _sum_rows(points, rows[starts[few] : stops[few]], origins[few], sums[few], squares[few])
            for k in range(d):
                sums[top, k] -= sums[few, k]
                squares[top, k] -= squares[few, k]
        top = few
    cell, found = 0, np.empty(n, np.int64)
    for i in range(n):
        cell += ends[i]
        found[rows[i]] = cell
    for i in range(known):
        if nodes[i, 0] < 0:
            # no rows: the root is the only box
            nodes[i, 1] = found[rows[nodes[i, 1]]] if n > 0 else 0
    return found, nodes[:known].copy(), cuts[:known].copy()


@kernel
def find_boxes(points, nodes, cuts, found):
    """found[i] = the box of row i in a tree."""
    for i in range(points.shape[0]):
        node = 0
        while nodes[node, 0] >= 0:
            node = nodes[node, 1] + (not points[i, nodes[node, 0]] < cuts[node])
        found[i] = nodes[node, 1]
