"""Cells: rows judged together, as sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..lenses import View


@dataclass(frozen=True)
class Cells:
    """For each cell: rows, weight, mean output and mean target ([m], or [m, d]), and (sum w)^2 / sum w^2."""

    rows: np.ndarray
    weight: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray
    effective: np.ndarray

    @property
    def share(self) -> np.ndarray:
        return self.weight / self.weight.sum()


def gather_cells(view: View, cell: np.ndarray, weights: np.ndarray) -> Cells:
    """Means over the rows of each cell that has any weight."""
    count = int(cell.max()) + 1 if len(cell) else 0

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(cell, values, minlength=count)

    weight = total(weights)
    kept = weight > 0
    weight = weight[kept]
    if view.outputs.ndim == 1:
        outputs, targets = total(weights * view.outputs)[kept] / weight, total(weights * view.labels)[kept] / weight
    else:
        d = view.outputs.shape[1]
        outputs = np.column_stack([total(weights * view.outputs[:, k]) for k in range(d)])[kept] / weight[:, None]
        hits = np.bincount(cell * d + view.labels, weights, minlength=count * d).reshape(count, d)
        targets = hits[kept] / weight[:, None]
    effective = weight**2 / total(weights**2)[kept]
    return Cells(np.bincount(cell, minlength=count)[kept], weight, outputs, targets, effective)
