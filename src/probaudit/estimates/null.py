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

    def calibrated(self, resamples: int, seed: int = 0) -> Cells:
        """The cells [resamples, m] of a calibrated model with the same outputs. Of equally probable rows binomially many are
        hits; if rows have weights, the weight of a cell's hits is taken to be normal."""
        rng, mean = np.random.default_rng(seed), np.clip(self.mean, 0, 1)
        starts = np.flatnonzero(np.r_[True, np.diff(self.cell) > 0])
        terms = (self.weight, self.weight_squared, self.weight * self.mean, self.weight_squared * mean * (1 - mean))
        weight, squared, outputs, variance = (np.add.reduceat(term, starts) for term in terms)
        if np.array_equal(self.weight, self.rows):
            drawn = rng.binomial(self.rows.astype(np.int64), mean, (resamples, len(mean)))
            hits = np.add.reduceat(drawn, starts, axis=1) * 1.0
        else:
            noise = np.sqrt(variance) * rng.standard_normal((resamples, len(starts)))
            hits = np.clip(outputs + noise, 0, weight)
        fixed = (weight, weight, outputs / weight, effective_rows(weight, squared))
        rows, weight, outputs, effective = (np.broadcast_to(field, hits.shape) for field in fixed)
        return Cells(self.cell[starts], rows, weight, outputs, hits / weight, effective)

    def null(self, distance: Distance, resamples: int, seed: int) -> np.ndarray:
        """Errors of a calibrated model."""
        return mean_gap(self.calibrated(resamples, seed), distance)


def p_value(value: float, null: np.ndarray) -> float:
    """(1 + how many resampled errors are at least as large) / (1 + resamples)."""
    return (1 + int((null >= value * (1 - 1e-12)).sum())) / (1 + len(null))


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
