"""k-d trees over rows of outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..kd_tree import LOST, TIED
from .fixed_point import in_order

Array = np.ndarray


@dataclass
class _Box:
    """A box that waits to be split (see `kernels.kd_tree.BoxStack`)."""

    start: int
    stop: int
    node: int
    origin: int
    sums: Array
    squares: Array
    scale: float


def _sum_rows(points: Array, rows: Array, origin: int) -> tuple[Array, Array]:
    """`kernels.kd_tree._sum_rows`: two rows at a time."""
    x = np.zeros((len(rows) + len(rows) % 2, points.shape[1]))
    x[: len(rows)] = points[rows] - points[origin]
    a, b, zero = x[::2], x[1::2], np.zeros(points.shape[1])
    return in_order(zero, a + b), in_order(zero, a * a + b * b)


def _widest_axis(size: int, box: _Box) -> tuple[int, float]:
    axis, widest = 0, 0.0
    for k, spread in enumerate((size * box.squares - box.sums * box.sums).tolist()):
        if spread > widest * TIED or k == 0:
            axis, widest = k, spread
    return axis, widest


def _axis_of(points: Array, rows: Array, box: _Box) -> int:
    axis, widest = _widest_axis(len(rows), box)
    if widest <= LOST * len(rows) * box.scale:
        box.origin = rows[0]
        box.sums, box.squares = _sum_rows(points, rows, box.origin)
        axis, widest = _widest_axis(len(rows), box)
        box.scale = box.squares.max()
    return axis


def _halves(box: _Box, below: int, child: int) -> tuple[_Box, _Box]:
    """The larger and the smaller part of a box."""
    low = replace(box, stop=box.start + below, node=child)
    high = replace(box, start=box.start + below, node=child + 1)
    return (high, low) if 2 * below < box.stop - box.start else (low, high)


def tree_cells(points: Array, least: float, at_median: bool) -> tuple[Array, Array, Array]:
    points = points.astype(np.float64, copy=False)
    n, d = points.shape
    rows, ends = np.arange(n), np.zeros(n + 1, np.bool_)
    nodes, cuts = [(-1, 0)], [0.0]
    stack = [_Box(0, n, 0, 0, np.zeros(d), np.zeros(d), np.inf)]
    while stack:
        box = stack.pop()
        inside, size = rows[box.start : box.stop], box.stop - box.start
        below = 0
        if size >= least:
            axis = _axis_of(points, inside, box)
            column = points[inside, axis]
            mean = points[box.origin, axis] + box.sums[axis] / size
            cut = np.median(column) if at_median else mean
            low = column < cut
            if not low.any():
                cut = column[column > cut].min(initial=np.inf)
                low = column < cut
            below = np.count_nonzero(low)
            inside[:] = np.concatenate([inside[low], inside[~low]])
        if below in (0, size):
            ends[box.stop] = True
            nodes[box.node], cuts[box.node] = (-1, box.start), 0.0
            continue
        nodes[box.node], cuts[box.node] = (axis, len(nodes)), cut
        large, small = _halves(box, below, len(nodes))
        nodes += [(-1, 0)] * 2
        cuts += [0.0] * 2
        if large.stop - large.start >= least:
            part = rows[small.start : small.stop]
            small.sums, small.squares = _sum_rows(points, part, small.origin)
            large.sums, large.squares = large.sums - small.sums, large.squares - small.squares
        stack += [large, small]
    cell = np.empty(n, np.int64)
    cell[rows] = np.cumsum(ends[:n])
    tree, leaves = np.array(nodes), np.array(nodes)[:, 0] < 0
    tree[leaves, 1] = cell[rows[tree[leaves, 1]]] if n else 0
    return cell, tree, np.array(cuts)
