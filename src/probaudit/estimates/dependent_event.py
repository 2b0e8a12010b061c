"""A single event in rows that are dependent within clusters: how its calibration error varies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..lenses import View
from .clusters import Clusters
from .fine_grid import FineGrid

SHARED_CELLS = 15  # cells whose covariance is estimated: those of more would hold few pairs of rows each


@dataclass(frozen=True, eq=False)
class DependentEvent:
    """What some rows say about an event and whether it happened, with their clusters. The grid of all rows, of which these may
    be a sample, is given to each method."""

    view: View
    clusters: Clusters

    def widening(self, grid: FineGrid, cell: np.ndarray, *, squared: bool = False) -> float:
        """How many times wider the interval of a calibration error is than that of independent rows, by linearisation: a row
        moves the error by target - output, with the sign of the gap in its cell (or, of squares, times the gap)."""
        return self.clusters.widening(self.influence(grid, cell, squared=squared))

    def influence(self, grid: FineGrid, cell: np.ndarray, *, squared: bool = False) -> np.ndarray:
        """How much each row moves a calibration error over cells. `cell` numbers the grid's kept cells."""
        cells = grid.cells(cell)
        gap = np.zeros(int(cell.max()) + 1)
        gap[cells.number] = cells.targets - cells.outputs
        slope = gap if squared else np.sign(gap)
        moved = slope[self._cells(grid, cell)] * (self.view.labels - self.view.outputs)
        return np.asarray(moved - self.clusters.share @ moved)

    def shared_noise(self, grid: FineGrid, cell: np.ndarray) -> np.ndarray:
        """What clusters add to the noise of share x (target - output), summed over cells (`Clusters.shared_noise`)."""
        residuals, size = self.view.labels - self.view.outputs, int(cell.max()) + 1
        if size <= SHARED_CELLS:
            return self.clusters.shared_noise(residuals, self._cells(grid, cell), size)
        wide = np.flatnonzero(grid.kept) * SHARED_CELLS // len(grid.rows)  # whose parts share the noise by their weight
        found = self.clusters.shared_noise(residuals, self._cells(grid, wide), SHARED_CELLS)
        weight = grid.weight[grid.kept]
        parts = found[:, wide] * (weight / np.bincount(wide, weight)[wide])
        return np.array([np.bincount(cell, part, minlength=size) for part in parts]).reshape(-1, size)

    def _cells(self, grid: FineGrid, cell: np.ndarray) -> np.ndarray:
        """The cell of each row."""
        place = np.minimum((np.clip(self.view.outputs, 0, 1) * len(grid.rows)).astype(np.int64), len(grid.rows) - 1)
        kept = np.flatnonzero(grid.kept)
        return np.asarray(cell[np.minimum(np.searchsorted(kept, place), len(kept) - 1)])
