"""A single event in rows with clusters: how much its calibration error varies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..choices.lenses import View
from ..choices.partitions import EqualWidth
from ..scoring.clusters import Clusters
from ..scoring.intervals import Z95, t95
from .cells import Cells
from .fine_grid import FineGrid
from .null import SignedClusters

# bins whose covariance is estimated: with more, each would have few pairs of rows
SHARED_CELLS = 15


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The noise that clusters add to the gaps of cells.

    observed : a factor [k, cells] of its covariance (`Clusters.shared_noise`); None for independent
        rows.
    widened : the factor that widens an interval because clusters are few.
    """

    observed: np.ndarray | None = None
    widened: float = 1.0


INDEPENDENT = SharedNoise()


@dataclass(frozen=True, eq=False)
class DependentEvent:
    """Outputs and labels of an event in rows with clusters. The rows may be a sample; methods take
    the grid of all rows."""

    view: View
    clusters: Clusters

    def widening(self, grid: FineGrid, cell: np.ndarray, *, squared: bool = False) -> float:
        """How many times wider the interval of a calibration error is than for independent rows, by
        linearisation; see `influence`."""
        return self.clusters.widening(self.influence(grid, cell, squared=squared))

    def influence(self, grid: FineGrid, cell: np.ndarray, *, squared: bool = False) -> np.ndarray:
        """How much each row moves a calibration error: target - output times the sign of the gap in
        its cell (for squared distances, times the gap). `cell` : the cell of the partition for each
        kept cell of the grid."""
        gap = _gaps_by_number(grid.cells(cell), cell)
        slope = gap if squared else np.sign(gap)
        moved = slope[self.cells(grid, cell)] * (self.view.labels - self.view.outputs)
        return np.asarray(moved - self.clusters.share @ moved)

    @property
    def effect(self) -> float:
        """The design effect of the mean of target - output, at least 1."""
        residuals = self.view.labels - self.view.outputs
        centred = residuals - self.clusters.share @ residuals
        return float(self.clusters.cell_effects(centred, np.zeros(len(centred), np.int64), 1)[0])

    def effects(self, cells: Cells, cell: np.ndarray) -> np.ndarray:
        """The design effect of each cell, given the cell of each row."""
        centred = self.view.labels - self.view.outputs - _gaps_by_number(cells, cell)[cell]
        return self.clusters.cell_effects(centred, cell, int(cell.max()) + 1)[cells.number]

    def thinned(self, grid: FineGrid) -> FineGrid:
        """The same grid, with effective rows divided by the design effect of each of 15 equal-width
        bins, so that error bars and bands of diagrams account for clusters."""
        wide = np.arange(len(grid.rows)) * SHARED_CELLS // len(grid.rows)
        cells, effects = grid.cells(wide[grid.kept]), np.ones(SHARED_CELLS)
        effects[cells.number] = self.effects(cells, self.cells(grid, wide[grid.kept]))
        return replace(grid, weight_squared=grid.weight_squared * effects[wide])

    def signed(self, grid: FineGrid, cell: np.ndarray) -> SignedClusters | None:
        """The wild cluster bootstrap of a calibrated model, as in `calibration_test`; None if these
        rows are a sample."""
        if self.clusters.fraction < 1:
            return None
        at, size = self.cells(grid, cell), int(cell.max()) + 1
        return SignedClusters.of_view(
            self.view, at, self.clusters.share, self.clusters.number, size=size
        )

    def shared(self, grid: FineGrid, cell: np.ndarray) -> np.ndarray | None:
        """The noise that clusters add for a calibrated model, if these rows are a sample."""
        return (
            None
            if self.clusters.fraction == 1
            else self._shared(grid, cell, self.view.labels - self.view.outputs)
        )

    def noise(self, grid: FineGrid, cell: np.ndarray) -> SharedNoise:
        """The noise that clusters add around the observed gaps. `cell` as in `influence`."""
        count = self.clusters.count
        widened = t95(count - 1) / Z95 if count > 1 else math.nan
        # Of many cells, most have a single cluster, and residuals from their gaps would not vary.
        wide = cell if int(cell.max()) < SHARED_CELLS else _wide_bins(grid)
        centred = (
            self.view.labels
            - self.view.outputs
            - _gaps_by_number(grid.cells(wide), wide)[self.cells(grid, wide)]
        )
        return SharedNoise(self._shared(grid, cell, centred), widened)

    def _shared(self, grid: FineGrid, cell: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        size = int(cell.max()) + 1
        if size <= SHARED_CELLS:
            return self.clusters.shared_noise(residuals, self.cells(grid, cell), size)
        wide = _wide_bins(grid)  # their noise is divided among the cells by weight
        noise = self.clusters.shared_noise(residuals, self.cells(grid, wide), SHARED_CELLS)
        weight = grid.weight[grid.kept]
        parts = noise[:, wide] * (weight / np.bincount(wide, weight)[wide])
        return np.array([np.bincount(cell, part, minlength=size) for part in parts]).reshape(
            -1, size
        )

    def cells(self, grid: FineGrid, cell: np.ndarray) -> np.ndarray:
        """The cell of each row, given those of the kept cells of the grid."""
        place = EqualWidth(len(grid.rows)).cells(self.view.outputs)
        kept = np.flatnonzero(grid.kept)
        return np.asarray(cell[np.minimum(np.searchsorted(kept, place), len(kept) - 1)])


def _gaps_by_number(cells: Cells, cell: np.ndarray) -> np.ndarray:
    """The gap (target - output) of each cell by its number, up to the largest in `cell`; 0 for
    cells without rows."""
    gaps = np.zeros(int(cell.max()) + 1)
    gaps[cells.number] = cells.targets - cells.outputs
    return gaps


def _wide_bins(grid: FineGrid) -> np.ndarray:
    """The equal-width bin (of 15) of each kept cell."""
    return np.asarray(np.flatnonzero(grid.kept) * SHARED_CELLS // len(grid.rows))
