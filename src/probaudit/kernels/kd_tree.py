"""k-d trees over rows of outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import allocator, inline, kernel
from .twins import twin

PENDING = 64  # boxes: the k-th on the stack has at most n / 2^k rows
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
    """Move the rows with values below the cut to the front, in order, before the others, in order;
    returns how many are below."""
    low, high = 0, 0
    for i in range(rows.size):  # without a branch, which could not be predicted
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
    above = np.inf
    for value in values:
        if cut < value < above:
            above = value
    return above


class BoxStack(NamedTuple):
    """The boxes that wait to be split, as a stack. The sums are over the differences of a box's
    rows to one of them, its origin."""

    starts: np.ndarray  # rows[start:stop] are those of the box
    stops: np.ndarray
    nodes: np.ndarray  # the number of its node
    origins: np.ndarray
    sums: np.ndarray  # [PENDING, axes]
    squares: np.ndarray
    scale: np.ndarray  # the largest sum of squares when the box, or one around it, was last read


class Tree(NamedTuple):
    """Nodes of a tree, in the order of their numbers."""

    # [nodes, 2] the axis (-1 in leaves), and the first child (the other comes next) or the box
    nodes: np.ndarray
    cuts: np.ndarray


@allocator
def _new_boxes(n, d):
    """A stack with one box, of all rows."""
    return BoxStack(
        np.zeros(PENDING, np.int64),
        np.full(PENDING, n),
        np.zeros(PENDING, np.int64),
        np.zeros(PENDING, np.int64),
        np.zeros((PENDING, d)),
        np.zeros((PENDING, d)),
        np.full(PENDING, np.inf),
    )


@inline
def _axis_of(points, box, boxes, top):
    """The axis along which to split a box. Reads the box in full if its sums have lost too many
    bits."""
    size, sums, squares = box.size, boxes.sums[top], boxes.squares[top]
    axis, widest = _widest_axis(size, sums, squares)
    if widest <= LOST * size * boxes.scale[top]:
        boxes.origins[top] = box[0]
        _sum_rows(points, box, box[0], sums, squares)
        axis, widest = _widest_axis(size, sums, squares)
        most = squares[0]
        for k in range(1, squares.size):
            most = max(most, squares[k])
        boxes.scale[top] = most
    return axis


@inline
def _set_node(tree, node, axis, child, cut):
    tree.nodes[node, 0], tree.nodes[node, 1], tree.cuts[node] = axis, child, cut


@inline
def _push_smaller(boxes, top, below, child):
    """Divide the topmost box, of which `below` rows go low: the larger part takes its place, and
    the smaller one goes on top. Their nodes are `child` and the next. Returns the new top."""
    start, stop, few = boxes.starts[top], boxes.stops[top], top + 1
    middle, low_is_smaller = start + below, 2 * below < stop - start
    boxes.scale[few], boxes.origins[few] = boxes.scale[top], boxes.origins[top]
    if low_is_smaller:
        boxes.nodes[few], boxes.nodes[top] = child, child + 1
        boxes.starts[few], boxes.stops[few], boxes.starts[top] = start, middle, middle
    else:
        boxes.nodes[few], boxes.nodes[top] = child + 1, child
        boxes.starts[few], boxes.stops[few], boxes.stops[top] = middle, stop, middle
    return few


@inline
def _divide_sums(points, rows, boxes, top):
    """Sum the rows of the topmost box, and subtract their sums from the box below it."""
    sums, squares = boxes.sums[top], boxes.squares[top]
    _sum_rows(points, rows[boxes.starts[top] : boxes.stops[top]], boxes.origins[top], sums, squares)
    for k in range(sums.size):
        boxes.sums[top - 1, k] -= sums[k]
        boxes.squares[top - 1, k] -= squares[k]


@inline
def _number_boxes(rows, ends, tree, known, cell):
    """Number the boxes from the lowest, for the rows and in the leaves of a tree."""
    box = 0
    for i in range(rows.size):
        box += ends[i]
        cell[rows[i]] = box
    for i in range(known):
        if tree.nodes[i, 0] < 0:
            # without rows the root is the only box
            tree.nodes[i, 1] = cell[rows[tree.nodes[i, 1]]] if rows.size > 0 else 0


@twin(lambda points, *_: points)
@kernel
def tree_cells(points, least, at_median):
    """The box of each row, numbered from the lowest; and the nodes and cuts of the tree. A box is
    split while it holds at least `least` rows that differ.

    Rows below the cut go low. If there are none, because many rows share the smallest value, the
    cut is the next larger value.

    Only the smaller of the two parts of a box is read: the sums of the other are the difference to
    the sums of the box. This loses the bits by which the variances of a box are smaller than the
    squares of the last box that was read in full. If too many would be lost, the box itself is read
    in full.
    """
    n, d = points.shape
    rows, spare, values = np.arange(n), np.empty(n, np.int64), np.empty(n)
    boxes, ends = _new_boxes(n, d), np.zeros(n + 1, np.bool_)
    tree, known = Tree(np.empty((2 * n + 1, 2), np.int64), np.empty(2 * n + 1)), 1
    top = 0
    while top >= 0:
        start, stop, node = boxes.starts[top], boxes.stops[top], boxes.nodes[top]
        box, column, size = rows[start:stop], values[start:stop], stop - start
        below, axis, cut = 0, -1, 0.0
        if size >= least:
            axis = _axis_of(points, box, boxes, top)
            for i in range(size):
                column[i] = points[box[i], axis]
            if at_median:
                cut = np.median(column)
            else:
                cut = points[boxes.origins[top], axis] + boxes.sums[top, axis] / size
            below = _partition(box, column, cut, spare)
            if below == 0:
                cut = _next_above(column, cut)
                below = _partition(box, column, cut, spare)
        if below == 0 or below == size:
            ends[stop] = True
            _set_node(tree, node, -1, start, 0.0)
            top -= 1
            continue
        _set_node(tree, node, axis, known, cut)
        top = _push_smaller(boxes, top, below, known)
        known += 2
        if max(below, size - below) >= least:
            _divide_sums(points, rows, boxes, top)
    cell = np.empty(n, np.int64)
    _number_boxes(rows, ends, tree, known, cell)
    return cell, tree.nodes[:known].copy(), tree.cuts[:known].copy()


@kernel
def find_boxes(points, nodes, cuts, boxes):
    """boxes[i] = the box of row i in a tree."""
    for i in range(points.shape[0]):
        node = 0
        while nodes[node, 0] >= 0:
            node = nodes[node, 1] + (not points[i, nodes[node, 0]] < cuts[node])
        boxes[i] = nodes[node, 1]
