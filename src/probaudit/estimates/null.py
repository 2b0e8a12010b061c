"""What a calibrated model with the same outputs would get: labels drawn anew from the forecasts (consistency resampling)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..distances import L1, Distance
from ..lenses import View
from ..partitions import EqualWidth, Partition
from .calibration_error import mean_gap
from .cells import Cells, compact, effective_rows
from .fine_grid import FineGrid

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
    def of_view(cls, view: View, cell: np.ndarray) -> Steps:
        """Of rows without weights."""
        step = np.minimum((np.clip(view.outputs, 0, 1) * STEPS).astype(np.int64), STEPS - 1)
        codes, of_row = compact(cell * STEPS + step)
        rows = np.bincount(of_row)
        return cls(codes // STEPS, rows, rows * 1.0, rows * 1.0, np.bincount(of_row, view.outputs) / rows)

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
        rng, mean = np.random.default_rng(seed), np.clip(self.mean, 0, 1)
        starts = np.flatnonzero(np.r_[True, np.diff(self.cell) > 0])
        terms = (self.weight, self.weight_squared, self.weight * self.mean)
        weight, squared, outputs = (np.add.reduceat(term, starts) for term in terms)
        size = np.maximum(1, np.rint(effective_rows(self.weight, self.weight_squared))).astype(np.int64)
        drawn = rng.binomial(size, mean, (resamples, len(mean)))
        hits = np.add.reduceat(drawn * (self.weight / size), starts, axis=1)
        if shared is not None:
            noise = np.random.default_rng([seed, 1]).standard_normal((resamples, len(shared))) @ shared[:, self.cell[starts]]
            hits = np.clip(hits + noise * weight.sum(), 0, weight)
        fixed = (weight, weight, outputs / weight, effective_rows(weight, squared))
        rows, weight, outputs, effective = (np.broadcast_to(field, hits.shape) for field in fixed)
        return Cells(self.cell[starts], rows, weight, outputs, hits / weight, effective)

    def null(self, distance: Distance, resamples: int, seed: int, shared: np.ndarray | None = None) -> np.ndarray:
        """Errors of a calibrated model."""
        return mean_gap(self.calibrated(resamples, seed, shared), distance)


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
