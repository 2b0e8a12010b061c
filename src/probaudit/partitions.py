"""Partitions: which rows are judged together (paper 3, Appendix B; paper 4, Definition 2).

A partition gives every row the number of its cell, from the outputs that a lens shows: [n] for a single event, else [n, d].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import as_array, as_numbers
from .errors import InputError


class Partition(ABC):
    """A choice of which rows are judged together. To write one, subclass and implement `cells`."""

    @abstractmethod
    def cells(self, outputs: np.ndarray) -> np.ndarray:
        """The number of each row's cell; equal numbers share a cell."""

    def select(self, rows: np.ndarray, total: int) -> Partition:
        """The same partition for some of all `total` rows."""
        return self

    def __mul__(self, other: Partition) -> Partition:
        return Product(self, other)


def _numbered(*labels: np.ndarray) -> np.ndarray:
    """Cells of the combinations that occur."""
    codes = np.zeros(len(labels[0]), np.int64)
    for label in labels:
        values, place = np.unique(label, return_inverse=True)
        codes = np.unique(codes * len(values) + place.reshape(-1), return_inverse=True)[1].reshape(-1)
    return codes


def _single(outputs: np.ndarray, name: str) -> np.ndarray:
    if outputs.ndim != 1:
        raise InputError("partition", f"{name} needs a lens that shows a single event", f"outputs of shape {outputs.shape}")
    return outputs


@dataclass(frozen=True)
class EqualWidth(Partition):
    """Bins of equal width, [low, high), the last one closed; with `right`, (low, high], the first one closed.

    With several outputs, the cells of the first d - 1 of them (paper 3's uniform scheme).

    >>> EqualWidth(4).cells(np.array([0.0, 0.25, 0.5, 1.0]))
    array([0, 1, 2, 3])
    >>> EqualWidth(4, right=True).cells(np.array([0.0, 0.25, 0.5, 1.0]))
    array([0, 0, 1, 3])
    """

    bins: int = 15
    right: bool = False

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError("bins", "must be at least 1", self.bins)

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        edges = np.linspace(0, 1, self.bins + 1)
        found = np.searchsorted(edges, outputs, side="left" if self.right else "right") - 1
        found = np.clip(found, 0, self.bins - 1)
        return found if outputs.ndim == 1 else _numbered(*found[:, :-1].T)


@dataclass(frozen=True, eq=False)
class Edges(Partition):
    """Bins between given edges, [low, high), the last one closed; with `right`, (low, high]."""

    edges: Any
    right: bool = False

    def __post_init__(self) -> None:
        edges = as_numbers(self.edges, "edges")
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InputError("edges", "must be two or more increasing numbers", edges.tolist())
        object.__setattr__(self, "edges", edges)

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        outputs = _single(outputs, "Edges")
        if ((outputs < self.edges[0]) | (outputs > self.edges[-1])).any():
            raise InputError("edges", "must span all outputs", f"{outputs.min():.6g} to {outputs.max():.6g}")
        found = np.searchsorted(self.edges, outputs, side="left" if self.right else "right") - 1
        return np.clip(found, 0, len(self.edges) - 2)


@dataclass(frozen=True)
class EqualMass(Partition):
    """Bins of equally many rows. Equal outputs are never parted: a boundary moves up past them, and there may be fewer bins.

    >>> EqualMass(2).cells(np.array([0.1, 0.1, 0.1, 0.2]))
    array([0, 0, 0, 1])
    """

    bins: int = 15

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError("bins", "must be at least 1", self.bins)

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        values = np.sort(_single(outputs, "EqualMass"))
        starts = np.cumsum([len(part) for part in np.array_split(values, self.bins)])[:-1]
        starts = starts[(starts > 0) & (starts < len(values))]
        cuts = np.unique((values[starts - 1] + values[starts]) / 2)
        return np.unique(np.searchsorted(cuts, outputs, side="left"), return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True)
class KDTree(Partition):
    """Boxes of the simplex: the axis of largest variance is split again and again, at its mean or median.

    Rows count alike, whatever their weights; a box whose split would leave one side empty stays whole.

    gamma : a box is split while it holds at least this share of the rows (paper 3, Appendix B.2); `min_rows` gives the
        number of rows instead.
    """

    gamma: float = 0.1
    min_rows: int | None = None
    split: str = "mean"

    def __post_init__(self) -> None:
        if self.split not in ("mean", "median"):
            raise InputError("split", 'must be "mean" or "median"', repr(self.split))
        if not 0 < self.gamma <= 1:
            raise InputError("gamma", "must lie in (0, 1]", self.gamma)
        if self.min_rows is not None and self.min_rows < 1:
            raise InputError("min_rows", "must be at least 1", self.min_rows)

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        from .kernels.trees import tree_cells

        points = outputs if outputs.ndim == 2 else np.column_stack([1 - outputs, outputs])
        least = max(2.0, self.gamma * len(points) if self.min_rows is None else self.min_rows)
        return tree_cells(np.ascontiguousarray(points, np.float64), least, self.split == "median")


@dataclass(frozen=True, eq=False)
class Column(Partition):
    """Cells given row by row: a column of groups, or any array of cell numbers."""

    values: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_array(self.values, "values"))

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        if len(self.values) != len(outputs):
            raise InputError("values", f"needs one value per row ({len(outputs)})", len(self.values))
        return _numbered(self.values)

    def select(self, rows: np.ndarray, total: int) -> Partition:
        if len(self.values) != total:
            raise InputError("values", f"needs one value per row ({total})", len(self.values))
        return Column(self.values[rows])


@dataclass(frozen=True)
class Whole(Partition):
    """All rows together (paper 4, Example 5)."""

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return np.zeros(len(outputs), np.int64)


@dataclass(frozen=True)
class Each(Partition):
    """Every row by itself (paper 4, Example 4)."""

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return np.arange(len(outputs))


@dataclass(frozen=True)
class Product(Partition):
    """Rows together that are together in both partitions."""

    first: Partition
    second: Partition

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return _numbered(self.first.cells(outputs), self.second.cells(outputs))

    def select(self, rows: np.ndarray, total: int) -> Partition:
        return Product(self.first.select(rows, total), self.second.select(rows, total))
