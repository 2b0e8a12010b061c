"""A single event on a fine grid: the sums from which curves and kernel estimates come, whatever the number of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..lenses import View
from ..statistics import CELLS, Grid


@dataclass(frozen=True)
class FineGrid:
    """Per cell of [0, 1]: weight, sum of outputs, sum of targets, and (if known) sum of a loss. Arrays [G]."""

    weight: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray
    loss: np.ndarray

    @classmethod
    def of_view(cls, view: View, weights: np.ndarray) -> FineGrid:
        from ..kernels.gridding import grid_sums

        sums = np.zeros((CELLS, 3))
        grid_sums(np.ascontiguousarray(view.outputs), view.labels, weights, sums)
        weight, outputs, targets = sums.T
        return cls(weight, outputs, targets, np.zeros(CELLS))

    @classmethod
    def of_summary(cls, grid: Grid, loss: str = "brier") -> FineGrid:
        """The grid of the top label that a pass has gathered."""
        return cls(grid.weight, grid.confidence, grid.hits, getattr(grid, loss))

    @property
    def kept(self) -> np.ndarray:
        return self.weight > 0

    @property
    def place(self) -> np.ndarray:
        """Where the rows of each cell that has any lie, on average."""
        return self.outputs[self.kept] / self.weight[self.kept]

    @property
    def share(self) -> np.ndarray:
        return self.weight[self.kept] / self.weight.sum()
