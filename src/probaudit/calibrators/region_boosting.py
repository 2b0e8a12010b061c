"""Boosting over regions of rows: steps that remove the bias and the wrong slope of a region.

A region is a cell of a given partition (a group, or a crossing of groups) or a leaf of a shallow
tree. In a region, log-probabilities z become z + b + s (z - c), with a bias b for each class, a
slope s, and the mean c of all rows. The gradient of the log loss with respect to b is the sum of
y - p, and with respect to s that of (y - p) (z - c): both vanish if the region is calibrated in the
mean and in the first degree of its outputs (Gopalan et al. 2022, low-degree multicalibration).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csc_matrix
from scipy.special import softmax

FAR = 20.0  # log-probabilities further below the largest do not increase the effect of a slope
BINS = 32  # of a column, between which trees split
# The least gain of a parameter in log-likelihood, z^2 / 2 for a violation of z standard errors.
LEAST_GAIN = 2.0
NEVER = float(np.finfo(np.float64).max)  # a threshold that no row exceeds
PENALTY = 1.0  # added to the second derivatives
LARGEST_STEP = 2.0  # far from the optimum, Newton steps are too long


@dataclass(frozen=True, eq=False)
class RegionRows:
    """Rows and what regions are made of.

    logs : [n, K] log-probabilities. points : [n, columns], numbers that trees split.
    cells : [n, partitions], the cell of each row, or -1 for none.
    """

    logs: np.ndarray
    points: np.ndarray
    cells: np.ndarray

    def take(self, rows: np.ndarray) -> RegionRows:
        return RegionRows(self.logs[rows], self.points[rows], self.cells[rows])

    def moved(self, shift: np.ndarray) -> np.ndarray:
        """The logits after a shift, [n, K + 1]: a bias for each class, and a slope."""
        return self.logs + self.change(shift)

    def change(self, shift: np.ndarray) -> np.ndarray:
        """How much a shift changes the logits."""
        return np.asarray(shift[:, :-1] + shift[:, -1:] * self.near)

    @cached_property
    def near(self) -> np.ndarray:
        return near(self.logs)


def near(logs: np.ndarray) -> np.ndarray:
    """Log-probabilities without those far below the largest of their row."""
    return np.maximum(logs, logs.max(axis=1, keepdims=True) - FAR)


@dataclass(frozen=True, eq=False)
class CellStep:
    """A step in all cells of one partition. table : [cells + 1, K + 1]; the last row is zero."""

    partition: int
    table: np.ndarray

    def scaled(self, factor: float) -> CellStep:
        return replace(self, table=factor * self.table)

    def shift(self, rows: RegionRows) -> np.ndarray:
        return np.asarray(self.table[rows.cells[:, self.partition]])


@dataclass(frozen=True, eq=False)
class TreeStep:
    """A step in all leaves of a tree that splits all nodes of a level at the same column and
    threshold. leaves : [2^depth, K + 1]."""

    columns: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray

    def scaled(self, factor: float) -> TreeStep:
        return replace(self, leaves=factor * self.leaves)

    def shift(self, rows: RegionRows) -> np.ndarray:
        above = rows.points[:, self.columns] > self.thresholds
        return np.asarray(self.leaves[leaf_numbers(above)])


Step = CellStep | TreeStep


def leaf_numbers(above: np.ndarray) -> np.ndarray:
    """The leaf of each row, given the answers [n, depth] to the questions of a tree.

    >>> leaf_numbers(np.array([[False, True], [True, True]]))
    array([1, 3])
    """
    return np.asarray(above @ (1 << np.arange(above.shape[1])[::-1]))


@dataclass(frozen=True)
class Learning:
    """How steps are learned: the depth of trees, the share of a step that is taken, and the least
    number of rows of a region."""

    depth: int
    rate: float
    min_rows: float


class Booster:
    """Boosting on rows with known classes. `shift` is the sum of all steps so far, [n, K + 1].

    sizes : the number of cells of each partition.
    """

    def __init__(
        self,
        rows: RegionRows,
        codes: np.ndarray,
        weights: np.ndarray,
        sizes: Sequence[int],
        learning: Learning,
    ) -> None:
        self.rows, self.codes, self.weights = rows, codes, weights
        self.sizes, self.learning = sizes, learning
        self.centre = weights @ rows.near / weights.sum()
        self.direction = rows.near - self.centre
        self.shift = np.zeros((len(codes), rows.logs.shape[1] + 1))
        self.in_cell = _cell_matrix(rows.cells, sizes)
        self.binned = BinnedColumns.of(rows.points)

    def step(self) -> Step | None:
        """Take the step with the largest gain. None if no region is violated."""
        statistics = self._statistics()
        gain = 0.0
        best: Step | None = None
        for partition, cells in enumerate(self._cell_statistics(statistics)):
            own = float(gains(cells, self.learning.min_rows).sum())
            if own > gain:
                steps = self._steps(cells)
                table = np.concatenate([steps, np.zeros((1, steps.shape[1]))])
                gain, best = own, CellStep(partition, table)
        own, tree = self._tree(statistics)
        best = tree if own > gain else best
        if best is None:
            return None
        step = self._damped(best)
        self.shift += step.shift(self.rows)
        return step

    def _damped(self, step: Step) -> Step:
        """The step, shortened to the minimum of the log loss along it: parameters that are moved
        together overshoot. Then the share `rate` of it."""
        p = softmax(self.rows.moved(self.shift), axis=1)
        change = self.rows.change(step.shift(self.rows))
        mean = np.einsum("nk,nk->n", p, change)
        first = self.weights @ (change[np.arange(len(p)), self.codes] - mean)
        second = self.weights @ (np.einsum("nk,nk,nk->n", p, change, change) - mean**2)
        length = min(1.0, first / second) if second > 0 else 1.0
        return step.scaled(self.learning.rate * max(length, 0.0))

    def _statistics(self) -> np.ndarray:
        """For each row the derivatives of the log loss with respect to each parameter, the second
        derivatives, and the weight. With two classes, only the second has a bias."""
        p = softmax(self.rows.moved(self.shift), axis=1)
        residual = -p
        residual[np.arange(len(p)), self.codes] += 1
        first = slice(1 if p.shape[1] == 2 else 0, None)
        mean = np.einsum("nk,nk->n", p, self.direction)
        table = [
            residual[:, first],
            np.einsum("nk,nk->n", residual, self.direction),
            (p * (1 - p))[:, first],
            np.einsum("nk,nk,nk->n", p, self.direction, self.direction) - mean**2,
            np.ones(len(p)),
        ]
        return np.asarray(np.column_stack(table) * self.weights[:, None])

    def _cell_statistics(self, statistics: np.ndarray) -> list[np.ndarray]:
        if not self.sizes:
            return []
        return np.split(self.in_cell @ statistics, np.cumsum(self.sizes)[:-1])

    def _tree(self, statistics: np.ndarray) -> tuple[float, TreeStep | None]:
        """The tree that greedily maximises the gain, and its gain less the logarithm of the number
        of splits searched on each level: the best of m splits of noise gains about log m."""
        least, binned = self.learning.min_rows, self.binned
        if not binned.numbers.shape[1]:
            return 0.0, None
        columns, places = [], []
        leaf = np.zeros(len(statistics), np.int64)
        below = binned.sums(statistics, leaf, 1)
        for level in range(self.learning.depth):
            if level:
                upper = binned.sums(statistics * (leaf & 1)[:, None], leaf >> 1, 1 << (level - 1))
                below = np.stack([below - upper, upper], axis=1).reshape(-1, *upper.shape[1:])
            rest = below[:, :, -1:] - below
            gain = (gains(below, least) + gains(rest, least)).sum(axis=0)[:, :-1]
            column, place = np.unravel_index(int(gain.argmax()), gain.shape)
            columns.append(int(column))
            places.append(int(place))
            leaf = 2 * leaf + (binned.numbers[:, column] > place)
        size = 1 << self.learning.depth
        leaves = _cell_matrix(leaf[:, None], [size]) @ statistics
        total = float(gains(leaves, least).sum())
        thresholds = binned.edges[columns, places]
        total -= self.learning.depth * math.log(binned.edges.size)
        return total, TreeStep(np.array(columns), thresholds, self._steps(leaves))

    def _steps(self, statistics: np.ndarray) -> np.ndarray:
        """The Newton steps of regions, [regions, K + 1]; 0 where nothing is violated."""
        first, second, _ = _parts(statistics)
        newton = np.clip(first / (second + PENALTY), -LARGEST_STEP, LARGEST_STEP)
        violated = _parameter_gains(statistics, self.learning.min_rows) > 0
        steps = np.where(violated, newton, 0.0)
        if len(self.centre) == 2:
            steps = np.column_stack([np.zeros(len(steps)), steps])
        steps[:, :-1] -= steps[:, -1:] * self.centre
        return np.asarray(steps)


def _parts(statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First derivatives, second derivatives and rows of regions."""
    size = statistics.shape[-1] // 2
    second = np.maximum(statistics[..., size:-1], 0.0)  # rounding may put a sum below 0
    return statistics[..., :size], second, statistics[..., -1:]


def _parameter_gains(statistics: np.ndarray, least: float) -> np.ndarray:
    first, second, rows = _parts(statistics)
    gain = 0.5 * first**2 / (second + PENALTY) - LEAST_GAIN
    return np.where((gain > 0) & (rows >= least), gain, 0.0)


def gains(statistics: np.ndarray, least: float) -> np.ndarray:
    """What a Newton step gains in a region, in log-likelihood: the sum over the parameters that
    gain more than LEAST_GAIN, less that. Without this threshold, a partition with many cells or a
    step with many classes would always win, by noise.

    statistics : [..., 2 parameters + 1], first and second derivatives and rows, summed.
    """
    return np.asarray(_parameter_gains(statistics, least).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class BinnedColumns:
    """Columns cut into bins with about equally many rows.

    numbers : [n, columns], the bin of each row. edges : [columns, BINS - 1], with NEVER for absent
    ones. A row is above an edge if its bin has a higher number.
    """

    numbers: np.ndarray
    edges: np.ndarray
    in_bin: csc_matrix

    @classmethod
    def of(cls, points: np.ndarray) -> BinnedColumns:
        n, d = points.shape
        edges = np.full((d, BINS - 1), NEVER)
        numbers = np.empty((n, d), np.int64)
        for column, values in enumerate(np.ascontiguousarray(points.T)):
            own = quantile_edges(values)
            edges[column, : len(own)] = own
            numbers[:, column] = np.searchsorted(own, values)
        return cls(numbers, edges, _cell_matrix(numbers, [BINS] * d))

    def sums(self, statistics: np.ndarray, leaf: np.ndarray, leaves: int) -> np.ndarray:
        """Sums over the rows of each leaf in each bin and those below it: [leaves, columns, bins,
        statistics]."""
        n, m = statistics.shape
        by_leaf = np.zeros((n, leaves, m))
        by_leaf[np.arange(n), leaf] = statistics
        sums = (self.in_bin @ by_leaf.reshape(n, leaves * m)).reshape(-1, BINS, leaves, m)
        return np.moveaxis(sums.cumsum(axis=1), 2, 0)


def quantile_edges(values: np.ndarray) -> np.ndarray:
    """At most BINS - 1 thresholds between different values, at about equal numbers of rows.

    >>> quantile_edges(np.array([3.0, 1.0, 1.0, 2.0]))
    array([1.5, 2.5])
    """
    ordered = np.sort(values)
    distinct = ordered[np.concatenate([[True], ordered[1:] > ordered[:-1]])]
    lower = distinct[:-1]
    if len(distinct) > BINS:
        places = np.arange(1, BINS) * len(ordered) // BINS - 1
        lower = np.unique(ordered[np.maximum(places, 0)])
        lower = lower[lower < distinct[-1]]
    upper = distinct[np.searchsorted(distinct, lower, side="right")]
    return np.asarray(lower + (upper - lower) / 2)


def _cell_matrix(cells: np.ndarray, sizes: Sequence[int]) -> csc_matrix:
    """A matrix whose product with values of rows, [n, ...], sums them by cell. The cells of all
    partitions are numbered together."""
    n, partitions = cells.shape
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[:partitions]
    known = cells >= 0
    numbers = (cells + starts)[known]
    ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    return csc_matrix((np.ones(len(numbers)), numbers, ends), shape=(int(sum(sizes)), n))
