"""Partitions: which rows are judged together (Kirchenbauer et al. 2022, Appendix B; Yang et al.
2023, Definition 2).

A partition gives every row the number of its cell, from the outputs that a lens shows: [n] for a
single event, else [n, d].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_array, as_numbers, bits_of
from ..data.parallel import each_chunk
from ..errors import InputError

SLACK = 5 * 2.0**-26  # a little more than the rounding of a float32; as in kernels.gridding


class Partition(ABC):
    """A choice of which rows are judged together. To write one, subclass and implement `cells`."""

    @abstractmethod
    def cells(self, outputs: np.ndarray) -> np.ndarray:
        """The number of each row's cell; equal numbers share a cell."""

    @property
    def count(self) -> int:
        """How many cells there can be, of a partition that is `placed`."""
        raise InputError(
            "partition",
            "needs `count`, how many cells there are, to be counted over rows in files",
            repr(self),
        )

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The same for cells of a fine grid, given where each lies and how many rows it holds."""
        raise InputError(
            "exact", "must be True: this partition needs the rows themselves", repr(self)
        )

    def select(self, rows: np.ndarray, total: int) -> Partition:
        """The same partition for some of all `total` rows."""
        return self

    def placed(self, outputs: np.ndarray) -> Partition:
        """The cells that these outputs make, for any others: for rows that are counted after a
        sample has shown what they are like."""
        raise InputError(
            "partition",
            "must be one that a sample of rows can decide, as bins and k-d trees are",
            repr(self),
        )

    def __mul__(self, other: Partition) -> Partition:
        return Product(self, other)


def _numbered(*labels: np.ndarray) -> np.ndarray:
    """Cells of the combinations that occur."""
    codes = np.zeros(len(labels[0]), np.int64)
    for label in labels:
        place = _places(label)
        codes = np.unique(codes * (int(place.max(initial=0)) + 1) + place, return_inverse=True)[
            1
        ].reshape(-1)
    return codes


def _places(label: np.ndarray) -> np.ndarray:
    """A number for each different value; in order of the values if these have one."""
    try:
        return np.unique(label, return_inverse=True)[1].reshape(-1)
    except TypeError:  # None among strings, say
        known: dict[Any, int] = {}
        return np.array([known.setdefault(value, len(known)) for value in label.tolist()], np.int64)


def rising_order(outputs: np.ndarray) -> np.ndarray:
    """The rows from the least output to the largest; those of equal outputs as they come.

    >>> rising_order(np.array([0.5, 0.2, 0.5, 0.1]))
    array([3, 1, 0, 2])
    """
    from ..kernels.sorting import sorting_order

    bits = bits_of(outputs.astype(np.float64) + 0.0)  # the two zeros are equal
    return sorting_order(np.where(bits < 0, ~bits, bits ^ np.iinfo(np.int64).min).view(np.uint64))


def _ranks(codes: np.ndarray) -> np.ndarray:
    """The place of each code among those that occur."""
    from ..kernels.sorting import sorting_order

    order, found = sorting_order(codes), np.empty(len(codes), np.int64)
    rising = codes[order]
    found[order] = np.cumsum(np.r_[False, rising[1:] != rising[:-1]][: len(codes)])
    return found


def _with_slack(edges: np.ndarray, right: bool) -> np.ndarray:
    """Edges moved so that outputs that round to them as float32 are not below them, or with `right`
    not above."""
    return edges * (1 + SLACK if right else 1 - SLACK)


def _single(outputs: np.ndarray, name: str) -> np.ndarray:
    if outputs.ndim != 1:
        raise InputError(
            "partition",
            f"{name} needs a lens that shows a single event",
            f"outputs of shape {outputs.shape}",
        )
    return outputs


@dataclass(frozen=True)
class EqualWidth(Partition):
    """Bins of equal width, [low, high), the last one closed; with `right`, (low, high], the first
    one closed.

    An output that differs from an edge by no more than the rounding of a float32 (7.5e-8 of itself)
    is at the edge. The fine grid of a pass over rows has the same rule. With several outputs, the
    cells of the first d - 1 of them (Kirchenbauer et al. 2022's uniform scheme).

    >>> EqualWidth(10).cells(np.array([0.2, 0.3, 0.6, 0.7]))
    array([2, 3, 6, 7])
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
        from ..kernels.viewing import row_codes, width_bins

        outputs = np.ascontiguousarray(outputs)
        if outputs.ndim == 1:
            found = np.empty(len(outputs), np.int64)
            each_chunk(
                outputs, lambda part: width_bins(outputs[part], self.cuts, self.right, found[part])
            )
            return found
        codes, first = np.empty(len(outputs), np.uint64), self.first_beyond(outputs.dtype)
        bits = bits_of(outputs)
        each_chunk(
            outputs,
            lambda part: row_codes(
                outputs[part], bits[part], self.cuts, first, self.right, codes[part]
            ),
        )
        return _ranks(codes)

    @property
    def edges(self) -> np.ndarray:
        return np.arange(self.bins + 1) / self.bins

    @property
    def cuts(self) -> np.ndarray:
        """What outputs are compared with."""
        return _with_slack(self.edges, self.right)

    def first_beyond(self, dtype: Any) -> Any:
        """The bit pattern of the least number of a format that lies beyond the first bin."""
        edge = np.nextafter(self.cuts[1], 2.0) if self.right else self.cuts[1]
        number = np.array([edge], dtype)
        return bits_of(np.where(number >= edge, number, np.nextafter(number, np.array(2, dtype))))[
            0
        ]

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.cells(place)

    def placed(self, outputs: np.ndarray) -> Partition:
        if outputs.ndim != 1:
            raise InputError(
                "partition",
                "of several outputs must be a KDTree, for rows that are not in memory",
                repr(self),
            )
        return self

    @property
    def count(self) -> int:
        return self.bins


@dataclass(frozen=True, eq=False)
class Edges(Partition):
    """Bins between given edges, [low, high), the last one closed; with `right`, (low, high]. What
    is at an edge is as in `EqualWidth`."""

    edges: Any
    right: bool = False

    def __post_init__(self) -> None:
        edges = as_numbers(self.edges, "edges")
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InputError("edges", "must be two or more increasing numbers", edges.tolist())
        object.__setattr__(self, "edges", edges)

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        outputs = _single(outputs, "Edges")
        low, high = _with_slack(self.edges, False)[0], _with_slack(self.edges, True)[-1]
        if ((outputs < low) | (outputs > high)).any():
            raise InputError(
                "edges", "must span all outputs", f"{outputs.min():.6g} to {outputs.max():.6g}"
            )
        found = (
            np.searchsorted(
                _with_slack(self.edges, self.right), outputs, side="left" if self.right else "right"
            )
            - 1
        )
        return np.clip(found, 0, len(self.edges) - 2)

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.cells(place)

    def placed(self, outputs: np.ndarray) -> Partition:
        return self

    @property
    def count(self) -> int:
        return len(self.edges) - 1


@dataclass(frozen=True)
class EqualMass(Partition):
    """Bins of equally many rows. Equal outputs are never parted: a boundary moves up past them, and
    there may be fewer bins.

    >>> EqualMass(2).cells(np.array([0.1, 0.1, 0.1, 0.2]))
    array([0, 0, 0, 1])
    """

    bins: int = 15

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError("bins", "must be at least 1", self.bins)

    def cells(self, outputs: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
        """As for every partition; `order` is that of the outputs, if it is known."""
        order = rising_order(_single(outputs, "EqualMass")) if order is None else order
        rising, starts = outputs[order], self._starts(len(outputs))
        cuts = np.unique((rising[starts - 1] + rising[starts]) / 2)
        sizes = np.diff(np.r_[0, np.searchsorted(rising, cuts, side="right"), len(outputs)])
        sizes, found = sizes[sizes > 0], np.empty(len(outputs), np.int64)
        found[order] = np.repeat(np.arange(len(sizes)), sizes)
        return found

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        first = np.cumsum(rows) - rows
        return np.unique(
            np.searchsorted(self._starts(int(rows.sum())), first, side="right"), return_inverse=True
        )[1].reshape(-1)

    def placed(self, outputs: np.ndarray) -> Partition:
        cells = self.cells(outputs)
        least = np.full(int(cells.max()) + 1, np.inf)
        np.minimum.at(least, cells, outputs)
        return Cuts(least[1:])

    def _starts(self, rows: int) -> np.ndarray:
        """The first row of each bin but the first, counted in order of the outputs."""
        small, larger = divmod(rows, self.bins)
        starts = np.cumsum(np.full(self.bins, small) + (np.arange(self.bins) < larger))[:-1]
        return starts[(starts > 0) & (starts < rows)]


@dataclass(frozen=True)
class KDTree(Partition):
    """Boxes of the simplex: the axis of largest variance is split again and again, at its mean or
    median.

    Rows count alike, whatever their weights. Those below the cut go low; if there are none, the cut
    is the next larger value: only a box of equal rows cannot be split.

    gamma : a box is split while it holds at least this share of the rows (Kirchenbauer et al. 2022,
        Appendix B.2); `min_rows` gives the number of rows instead.
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
        return self._grown(outputs)[0]

    def _grown(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from ..kernels.trees import tree_cells

        points = _points(outputs)
        least = max(2.0, self.gamma * len(points) if self.min_rows is None else self.min_rows)
        found: tuple[np.ndarray, np.ndarray, np.ndarray] = tree_cells(
            points, least, self.split == "median"
        )
        return found

    def placed(self, outputs: np.ndarray) -> Partition:
        return Boxes(*self._grown(outputs)[1:])


def _points(outputs: np.ndarray) -> np.ndarray:
    """Outputs as points of the simplex."""
    points = (
        outputs
        if outputs.ndim == 2
        else np.column_stack([np.subtract(1, outputs, dtype=np.float64), outputs])
    )
    return np.ascontiguousarray(points, np.float32 if points.dtype == np.float32 else np.float64)


@dataclass(frozen=True, eq=False)
class Boxes(Partition):
    """The boxes of a k-d tree that is grown already: see `kernels.trees.tree_cells`."""

    nodes: np.ndarray
    cuts: np.ndarray

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        from ..kernels.trees import find_boxes

        points, found = _points(outputs), np.empty(len(outputs), np.int64)
        each_chunk(
            points, lambda part: find_boxes(points[part], self.nodes, self.cuts, found[part])
        )
        return found

    def placed(self, outputs: np.ndarray) -> Partition:
        return self

    @property
    def count(self) -> int:
        return int(self.nodes[self.nodes[:, 0] < 0, 1].max()) + 1


@dataclass(frozen=True, eq=False)
class Cuts(Partition):
    """Bins between rising cuts, without ends: the first holds all below the first cut."""

    cuts: np.ndarray

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.cuts, _single(outputs, "Cuts"), side="right")

    def placed(self, outputs: np.ndarray) -> Partition:
        return self

    @property
    def count(self) -> int:
        return len(self.cuts) + 1


@dataclass(frozen=True, eq=False)
class Column(Partition):
    """Cells given row by row: a column of groups, or any array of cell numbers."""

    values: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_array(self.values, "values"))

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        if len(self.values) != len(outputs):
            raise InputError(
                "values", f"needs one value per row ({len(outputs)})", len(self.values)
            )
        return _numbered(self.values)

    def select(self, rows: np.ndarray, total: int) -> Partition:
        if len(self.values) != total:
            raise InputError("values", f"needs one value per row ({total})", len(self.values))
        return Column(self.values[rows])


@dataclass(frozen=True)
class Whole(Partition):
    """All rows together (Yang et al. 2023, Example 5)."""

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return np.zeros(len(outputs), np.int64)

    def placed(self, outputs: np.ndarray) -> Partition:
        return self

    @property
    def count(self) -> int:
        return 1

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.cells(place)


@dataclass(frozen=True)
class Each(Partition):
    """Every row by itself (Yang et al. 2023, Example 4)."""

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
