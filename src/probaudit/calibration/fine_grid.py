"""A single event on a fine grid: sums from which curves and kernel estimates are computed, at a
cost that does not depend on the number of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..choices.lenses import View
from ..states import CELLS, EventGrid, EventSums, Grid
from .cells import Categories, Cells
from .resampling import effective_rows

DRAWN_CELLS = 105  # bins of [0, 1] within which outputs count as equal when rows are resampled


@dataclass(frozen=True)
class FineGrid:
    """For each cell of [0, 1]: rows, rows in which the event happened, and sums of weights, squared
    weights, outputs, targets and (if known) a loss. Arrays [G], or [B, G] for B resamples."""

    rows: np.ndarray
    hit_rows: np.ndarray
    weight: np.ndarray
    weight_squared: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray
    loss: np.ndarray

    @classmethod
    def of_event(cls, sums: EventSums) -> FineGrid:
        none = np.zeros(len(sums.rows))
        return cls(
            sums.rows,
            sums.hit_rows,
            sums.weight,
            sums.weight_squared,
            sums.outputs,
            sums.hits,
            none,
        )

    @classmethod
    def of_view(cls, view: View, weights: np.ndarray, cells: int = CELLS) -> FineGrid:
        """Weights must be at most 1."""
        return cls.of_event(
            EventGrid(cells, weighted=True).update(view.outputs, view.labels, weights).finalise()
        )

    @classmethod
    def of_summary(cls, grid: Grid, loss: str = "brier") -> FineGrid:
        """The grid of the top label from the summary of a pass. For weighted rows, squared weights
        are unknown (NaN)."""
        weighted = not np.array_equal(grid.weight, grid.rows)
        squared = np.full(len(grid.rows), np.nan) if weighted else grid.weight
        return cls(
            grid.rows,
            grid.hit_rows,
            grid.weight,
            squared,
            grid.confidence,
            grid.hits,
            getattr(grid, loss),
        )

    @property
    def kept(self) -> np.ndarray:
        return self.weight > 0

    @property
    def place(self) -> np.ndarray:
        """The mean output of each kept cell."""
        return self.outputs[self.kept] / self.weight[self.kept]

    @property
    def share(self) -> np.ndarray:
        return self.weight[self.kept] / self.weight.sum()

    def coarse(self, least: int) -> FineGrid:
        """The same with fewer cells: at least `least`, if there are as many."""
        size = len(self.rows)
        step = next(step for step in range(max(1, size // least), 0, -1) if size % step == 0)
        return FineGrid(*(field.reshape(-1, step).sum(axis=1) for field in self._fields()))

    def cells(self, cell: np.ndarray) -> Cells:
        """The cells of a partition. `cell` : the cell of the partition for each kept cell of the
        grid."""
        rows, _, weight, squared, outputs, targets, _ = (
            np.bincount(cell, field[self.kept]) for field in self._fields()
        )
        full = np.flatnonzero(weight > 0)
        rows, weight, squared, outputs, targets = (
            total[full] for total in (rows, weight, squared, outputs, targets)
        )
        return Cells(
            full,
            rows.astype(np.int64),
            weight,
            outputs / weight,
            targets / weight,
            effective_rows(weight, squared),
        )

    def _fields(self) -> np.ndarray:
        return np.stack(
            [
                self.rows,
                self.hit_rows,
                self.weight,
                self.weight_squared,
                self.outputs,
                self.targets,
                self.loss,
            ]
        )

    def categories(self, cell: np.ndarray) -> Categories:
        """Categories of rows with the same cell of a partition, the same label and nearly the same
        output. `cell` as in `cells`, in increasing order."""
        kept = np.flatnonzero(self.kept)
        near = kept * DRAWN_CELLS // len(self.rows)
        starts = np.flatnonzero(np.r_[True, (np.diff(cell) > 0) | (np.diff(near) > 0)])

        def total(values: np.ndarray) -> np.ndarray:
            return np.add.reduceat(values[kept], starts)

        place = total(self.outputs) / total(self.weight)
        counts = np.column_stack([total(self.rows - self.hit_rows), total(self.hit_rows)]).reshape(
            -1
        )
        weight = np.column_stack([total(self.weight - self.targets), total(self.targets)]).reshape(
            -1
        )
        some = np.flatnonzero(counts)
        view = View(place[some // 2], some % 2)
        return Categories(view, cell[starts][some // 2], weight[some] / counts[some], counts[some])


def grid_sums(cells: Cells, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of weights, weighted outputs and weighted targets on the whole grid, [..., size], from
    the cells that have rows."""

    def on_grid(values: np.ndarray) -> np.ndarray:
        grid = np.zeros((*values.shape[:-1], size))
        grid[..., cells.number] = values
        return grid

    weight = cells.weight
    return on_grid(weight), on_grid(weight * cells.outputs), on_grid(weight * cells.targets)
