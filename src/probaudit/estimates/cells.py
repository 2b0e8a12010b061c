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


def gather_cells(view: View, cell: np.ndarray, weights: np.ndarray, counts: np.ndarray | None = None) -> Cells:
    """Means over the rows of each cell that has any weight. With `counts`, each row stands for so many."""
    size = int(cell.max()) + 1 if len(cell) else 0
    times = np.ones(len(cell)) if counts is None else counts

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(cell, values, minlength=size)

    w = weights * times
    weight = total(w)
    kept = weight > 0
    weight = weight[kept]
    if view.outputs.ndim == 1:
        outputs, targets = total(w * view.outputs)[kept] / weight, total(w * view.labels)[kept] / weight
    else:
        d = view.outputs.shape[1]
        outputs = np.column_stack([total(w * view.outputs[:, k]) for k in range(d)])[kept] / weight[:, None]
        hits = np.bincount(cell * d + view.labels, w, minlength=size * d).reshape(size, d)
        targets = hits[kept] / weight[:, None]
    effective = weight**2 / total(w * weights)[kept]
    return Cells(total(times)[kept].astype(np.int64), weight, outputs, targets, effective)


@dataclass(frozen=True)
class Categories:
    """Rows of the same cell and label as one, with their mean output and weight, and how many they are."""

    view: View
    cell: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    of_row: np.ndarray

    def cells(self, counts: np.ndarray) -> Cells:
        """The cells if the categories had these counts."""
        return gather_cells(self.view, self.cell, self.weights, counts)


def gather_categories(view: View, cell: np.ndarray, weights: np.ndarray) -> Categories:
    """A calibration error depends on the rows only through these."""
    labels = int(view.labels.max()) + 1
    codes, of_row = np.unique(cell * labels + view.labels, return_inverse=True)
    of_row = of_row.reshape(-1)
    counts, weight = np.bincount(of_row), np.bincount(of_row, weights)
    columns = view.outputs.reshape(len(view.outputs), -1).T
    outputs = np.column_stack([np.bincount(of_row, weights * column) / weight for column in columns])
    means = View(outputs[:, 0] if view.outputs.ndim == 1 else outputs, codes % labels)
    return Categories(means, codes // labels, weight / counts, counts, of_row)
