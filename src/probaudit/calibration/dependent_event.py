"""A single event in rows that are dependent within clusters: how its calibration error varies."""

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

# cells whose covariance is estimated: those of more would hold few pairs of rows each
SHARED_CELLS = 15


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """How samples of dependent rows vary around the gaps of the cells.

    observed : what clusters add to the noise of the sums of share x (target - output) over cells:
        [k, cells], of which k normal
    numbers make a draw (`Clusters.shared_noise`); None for independent rows. widened : how much
    wider an interval is because clusters are few.
    """

    observed: np.ndarray | None = None
    widened: float = 1.0


INDEPENDENT = SharedNoise()


@dataclass(frozen=True, eq=False)
class DependentEvent:
    """What some rows say about an event and whether it happened, with their clusters. The grid of
    all rows, of which these may be a sample, is given to each method."""

    view: View
    clusters: Clusters

    def widening(self, grid: FineGrid, cell: np.ndarray, *, squared: bool = False) -> float:
        """How many times wider the interval of a calibration error is than that of independent
        rows, by linearisation: a row moves the error by target - output, with the sign of the gap
        in its cell (or, of squares, times the gap)."""
        return self.clusters.widening(self.influence(grid, cell, squared=squared))

    def influence(self, grid: FineGrid, cell: np.ndarray, *, squared: bool = False) -> np.ndarray:
        """How much each row moves a calibration error over cells. `cell` numbers the grid's kept
        cells."""
        gap = _gaps_by_number(grid.cells(cell), cell)
        slope = gap if squared else np.sign(gap)
        moved = slope[self.cells(grid, cell)] * (self.view.labels - self.view.outputs)
        return np.asarray(moved - self.clusters.share @ moved)

    @property
    def effect(self) -> float:
        """The design effect of the mean of target - output, and at least 1."""
        residuals = self.view.labels - self.view.outputs
        centred = residuals - self.clusters.share @ residuals
        return float(self.clusters.cell_effects(centred, np.zeros(len(centred), np.int64), 1)[0])

    def effects(self, cells: Cells, cell: np.ndarray) -> np.ndarray:
        """The design effect of each of the cells, given the cell of each row."""
        centred = self.view.labels - self.view.outputs - _gaps_by_number(cells, cell)[cell]
        return self.clusters.cell_effects(centred, cell, int(cell.max()) + 1)[cells.number]

    def thinned(self, grid: FineGrid) -> FineGrid:
        """The same grid, whose effective rows are fewer by the design effect of each of 15 equal
        bins: what bars and bands of a diagram take for chance is then that of clusters."""
        wide = np.arange(len(grid.rows)) * SHARED_CELLS // len(grid.rows)
        cells, effects = grid.cells(wide[grid.kept]), np.ones(SHARED_CELLS)
        effects[cells.number] = self.effects(cells, self.cells(grid, wide[grid.kept]))
        return replace(grid, weight_squared=grid.weight_squared * effects[wide])

    def signed(self, grid: FineGrid, cell: np.ndarray) -> SignedClusters | None:
        """Calibrated models by random signs of whole clusters, as in `calibration_test`; none if
        these rows are a sample."""
        if self.clusters.fraction < 1:
            return None
        at, size = self.cells(grid, cell), int(cell.max()) + 1
        return SignedClusters.of_view(
            self.view, at, self.clusters.share, self.clusters.number, size=size
        )

    def shared(self, grid: FineGrid, cell: np.ndarray) -> np.ndarray | None:
        """Where these rows are a sample: what clusters add to the noise of calibrated rows."""
        return (
            None
            if self.clusters.fraction == 1
            else self._shared(grid, cell, self.view.labels - self.view.outputs)
        )

    def noise(self, grid: FineGrid, cell: np.ndarray) -> SharedNoise:
        """`cell` numbers the grid's kept cells."""
        count = self.clusters.count
        widened = t95(count - 1) / Z95 if count > 1 else math.nan
        # Around the gaps of many cells, most of them of a single cluster, nothing would vary.
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
        wide = _wide_bins(grid)  # whose parts share the noise by their weight
        found = self.clusters.shared_noise(residuals, self.cells(grid, wide), SHARED_CELLS)
        weight = grid.weight[grid.kept]
        parts = found[:, wide] * (weight / np.bincount(wide, weight)[wide])
        return np.array([np.bincount(cell, part, minlength=size) for part in parts]).reshape(
            -1, size
        )

    def cells(self, grid: FineGrid, cell: np.ndarray) -> np.ndarray:
        """The cell of each row, given those of the grid's kept cells."""
        place = EqualWidth(len(grid.rows)).cells(self.view.outputs)
        kept = np.flatnonzero(grid.kept)
        return np.asarray(cell[np.minimum(np.searchsorted(kept, place), len(kept) - 1)])


def _gaps_by_number(cells: Cells, cell: np.ndarray) -> np.ndarray:
    """The gap of each cell by its number, 0 of those without rows. `cell` : numbers up to the
    last."""
    found = np.zeros(int(cell.max()) + 1)
    found[cells.number] = cells.targets - cells.outputs
    return found


def _wide_bins(grid: FineGrid) -> np.ndarray:
    """Which of 15 equal bins each kept cell is in."""
    return np.asarray(np.flatnonzero(grid.kept) * SHARED_CELLS // len(grid.rows))
