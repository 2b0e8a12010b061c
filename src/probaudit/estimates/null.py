"""What a calibrated model with the same outputs would get.

Labels of independent rows are simulated from the forecasts (consistency resampling). Those of dependent rows cannot be, as
their joint distribution is unknown: there the residuals of whole clusters change sign (`cluster_null`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..distances import L1, Distance
from ..errors import InputError
from ..lenses import View
from ..partitions import EqualWidth, Partition
from .calibration_error import mean_gap
from .cells import Cells, compact, effective_rows, exact_sums
from .fine_grid import FineGrid
from .intervals import sampling_units

STEPS = 840  # parts of [0, 1] in which all rows of a cell count as equally probable when labels are drawn anew
ROUNDING, RELATIVE_ROUNDING = 1e-13, 1e-9  # errors of outputs and sums of about 1, added in another order


@dataclass(frozen=True)
class Steps:
    """Rows of the same cell and nearly the same output as one: cell in rising order, rows, sums of w and w^2, mean output."""

    cell: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    weight_squared: np.ndarray
    mean: np.ndarray

    @classmethod
    def of_view(cls, view: View, cell: np.ndarray, weights: np.ndarray | None = None) -> Steps:
        """Of a single event."""
        codes, of_row = compact(cell * STEPS + EqualWidth(STEPS).cells(np.clip(view.outputs, 0, 1)))
        rows = np.bincount(of_row)
        if weights is None or np.ptp(weights) == 0:
            weight = squared = rows * 1.0
            return cls(codes // STEPS, rows, weight, squared, exact_sums(of_row, view.outputs, len(codes)) / rows)
        weight, squared, outputs = (
            exact_sums(of_row, part, len(codes)) for part in (weights, weights**2, weights * view.outputs)
        )
        return cls(codes // STEPS, rows, weight, squared, outputs / weight)

    @classmethod
    def of_cells(cls, cells: Cells) -> Steps:
        """With all rows of a cell as equally probable."""
        squared = np.divide(cells.weight**2, cells.effective, out=np.zeros(len(cells.weight)), where=cells.effective > 0)
        return cls(cells.number, cells.rows, cells.weight, squared, cells.outputs)

    @classmethod
    def of_grid(cls, grid: FineGrid, cell: np.ndarray) -> Steps:
        """`cell` numbers the grid's kept cells."""
        kept = np.flatnonzero(grid.kept)
        step = kept * STEPS // len(grid.rows)
        starts = np.flatnonzero(np.r_[True, (np.diff(cell) > 0) | (np.diff(step) > 0)])
        fields = (grid.rows, grid.weight, grid.weight_squared, grid.outputs)
        rows, weight, squared, outputs = (np.add.reduceat(field[kept], starts) for field in fields)
        return cls(cell[starts], rows, weight, squared, outputs / weight)

    def calibrated(self, resamples: int, seed: int = 0, shared: np.ndarray | None = None) -> Cells:
        """The cells [resamples, m] of a calibrated model with the same outputs. Of equally probable rows binomially many are
        hits; of weighted ones, as many of equal weight as say as much (Kish 1965). `shared` is what clusters of dependent rows
        add to the noise, [k, cells] (`Clusters.shared_noise`)."""
        starts = self._starts
        terms = (self.weight, self.weight_squared, self.weight * self.mean)
        weight, squared, outputs = (np.add.reduceat(term, starts) for term in terms)
        hits = self._hits(np.clip(self.mean, 0, 1), resamples, seed)
        if shared is not None:
            hits = np.clip(hits + self._shared(shared, resamples, seed), 0, weight)
        fixed = (weight, weight, outputs / weight, effective_rows(weight, squared))
        rows, weight, outputs, effective = (np.broadcast_to(field, hits.shape) for field in fixed)
        return Cells(self.cell[starts], rows, weight, outputs, hits / weight, effective)

    @property
    def _starts(self) -> np.ndarray:
        return np.flatnonzero(np.r_[True, np.diff(self.cell) > 0])

    def _hits(self, mean: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Simulated sums of targets [resamples, m], given the probability of each step."""
        size = np.maximum(1, np.rint(effective_rows(self.weight, self.weight_squared))).astype(np.int64)
        drawn = np.random.default_rng(seed).binomial(size, mean, (resamples, len(mean)))
        return np.add.reduceat(drawn * (self.weight / size), self._starts, axis=1)

    def _shared(self, shared: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Simulated noise of clusters in the sums of targets, [resamples, m]."""
        numbers = np.random.default_rng([seed, 1]).standard_normal((resamples, len(shared)))
        return np.asarray(numbers @ shared[:, self.cell[self._starts]] * self.weight.sum())

    def noise(self, gaps: np.ndarray, resamples: int, seed: int, shared: np.ndarray | None = None) -> np.ndarray:
        """Deviations [resamples, m] of the gaps of samples from those of a population, [m]. `shared` as in `calibrated`."""
        starts = self._starts
        rows = np.diff(np.r_[starts, len(self.cell)])
        mean = np.clip(np.clip(self.mean, 0, 1) - np.repeat(gaps, rows), 0, 1)
        weight, expected = (np.add.reduceat(term, starts) for term in (self.weight, self.weight * mean))
        hits = self._hits(mean, resamples, seed)
        if shared is not None:
            hits = np.clip(hits + self._shared(shared, resamples, seed), 0, weight)
        return (expected - hits) / weight

    def null(self, distance: Distance, resamples: int, seed: int, shared: np.ndarray | None = None) -> np.ndarray:
        """Errors of a calibrated model."""
        return mean_gap(self.calibrated(resamples, seed, shared), distance)


def cluster_null(
    view: View,
    cell: np.ndarray,
    weights: np.ndarray,
    clusters: np.ndarray,
    distance: Distance,
    resamples: int = 999,
    seed: int = 0,
) -> np.ndarray:
    """Errors [resamples] of a calibrated model whose rows depend on each other within clusters.

    A wild cluster bootstrap (Cameron, Gelbach & Miller 2008) with the null imposed: the residuals target - output of a cluster,
    summed by cell, get one random sign. Residuals are not centred at the gaps of cells: a cell of one cluster would then have
    no chance at all (in null worlds of 100 clusters of 20 rows a test at 5% rejects 6%, and 8% with centred residuals).

    cell : the cell of each row. clusters : the cluster of each row, as whole numbers from 0.

    The signs depend on `seed` and the clusters alone, so that calls for several views of the same rows may be averaged, draw by
    draw. More than 1,000 clusters are merged at random into 1,000.

    >>> view = View(np.array([0.5, 0.5, 0.5, 0.5]), np.array([1, 1, 0, 0]))
    >>> np.unique(cluster_null(view, np.zeros(4, int), np.ones(4), np.array([0, 0, 1, 1]), L1()))
    array([0. , 0.5])
    """
    from scipy.sparse import csr_array

    if len(np.unique(clusters)) < 2:
        raise InputError("clusters", "needs two clusters or more for a test", 1)
    units = sampling_units(len(cell), seed, clusters)
    size, m = int(units.max()) + 1, int(cell.max()) + 1
    rows = csr_array((weights, (cell, np.arange(len(cell)))), shape=(m, len(cell)))
    weight = np.asarray(rows.sum(axis=1)).reshape(-1)
    scale = np.where(weight > 0, weight, 1.0)[:, None]
    columns = view.outputs.reshape(len(cell), -1)
    outputs, residuals = rows @ columns / scale, view.targets.reshape(len(cell), -1) - columns
    table = csr_array((weights, (units * m + cell, np.arange(len(cell)))), shape=(size * m, len(cell)))
    sums = (table @ residuals).reshape(size, -1)
    signs = np.random.default_rng(seed).integers(0, 2, (resamples, size)) * 2.0 - 1
    gaps = (signs @ sums).reshape(resamples, m, -1) / scale
    shape = (resamples, *weight.shape, *view.outputs.shape[1:])
    predicted, simulated = (np.broadcast_to(field, gaps.shape).reshape(shape) for field in (outputs, outputs + gaps))
    share = np.broadcast_to(weight, (resamples, m))
    null = mean_gap(Cells(np.arange(m), share, share, predicted, simulated, share), distance)
    if not np.isfinite(null).all():
        raise InputError("distance", "must be finite for any difference, as l1, for rows in clusters", repr(distance))
    return null


def at_least(null: np.ndarray, value: float) -> int:
    """How many resampled errors are as large. Errors of near-certain outputs are differences of numbers near 1, and few of them
    are possible: what differs by the rounding of such a difference ties.

    >>> at_least(np.array([7.45e-6 - 1e-15, 2.0, 0.0]), 7.45e-6)
    2
    """
    return int((null >= value - max(ROUNDING, RELATIVE_ROUNDING * abs(value))).sum())


def p_value(value: float, null: np.ndarray) -> float:
    """(1 + how many resampled errors are at least as large) / (1 + resamples)."""
    return (1 + at_least(null, value)) / (1 + len(null))


@dataclass(frozen=True)
class BinnedError:
    """An error over bins; its mean and 95% point if the model were calibrated, and the p-value of that."""

    value: float
    null_mean: float
    null_high: float
    p_value: float
    bins: int


def binned_error(
    grid: FineGrid,
    partition: Partition | None = None,
    *,
    distance: Distance | None = None,
    resamples: int = 999,
    seed: int = 0,
) -> BinnedError:
    """The calibration error from a grid, ECE over 15 equal bins unless told otherwise, beside its null.

    Where bins are unions of grid cells the error is exact but for rounding at a bin's edge.
    """
    partition, distance = EqualWidth(15) if partition is None else partition, L1() if distance is None else distance
    cell = partition.grid_cells(grid.place, grid.rows[grid.kept])
    cells = grid.cells(cell)
    value = float(mean_gap(cells, distance))
    null = Steps.of_grid(grid, cell).null(distance, resamples, seed)
    bins = partition.bins if isinstance(partition, EqualWidth) else len(cells.rows)
    return BinnedError(value, float(null.mean()), float(np.quantile(null, 0.95)), p_value(value, null), bins)
