"""Partitions: which rows share a cell (Kirchenbauer et al. 2022, Appendix B; Yang et al. 2023,
Definition 2).

A partition assigns a cell number to every row, from the outputs of a lens: [n] for a single event,
otherwise [n, d].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.arrays import as_array, as_numbers, bits_of
from ..data.row_index import index_of
from ..data.work import each_chunk
from ..errors import Argument, InputError
from ..text import counted, fraction
from .checked import class_names, wrong_choice

SLACK = 5 * 2.0**-26  # slightly above the rounding error of float32; as in kernels.grid_cells


class Partition(ABC):
    """Base class of partitions. A subclass implements `cells`, and `words` for reports."""

    index: Any = None  # that of pandas, if the cells are given as a series

    @abstractmethod
    def cells(self, outputs: np.ndarray) -> np.ndarray:
        """The cell number of each row."""

    @property
    def count(self) -> int:
        """The largest possible number of cells, for the result of `placed`."""
        raise InputError(
            "partition",
            "must define `count`, the number of cells, for rows that are not in memory",
            repr(self),
        )

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Cell numbers for the cells of a fine grid, given their positions and row counts."""
        raise InputError(
            "exact", "must be True for a partition that is not defined on a grid", repr(self)
        )

    def select(self, rows: np.ndarray, total: int) -> Partition:
        """The same partition for a subset of all `total` rows."""
        return self

    def placed(self, outputs: np.ndarray) -> Partition:
        """The partition with cells fixed by these outputs (a sample), to be applied to other
        rows."""
        raise InputError(
            "partition",
            "must be bins or a k-d tree for rows that are not in memory",
            repr(self),
        )

    def words(self) -> str:
        """A plain-English description; the code of the partition unless a subclass has one."""
        return repr(self)

    def __mul__(self, other: Partition) -> Partition:
        return Product(self, other)


def checked_partition(partition: Any, default: Partition) -> Partition:
    """The partition, or the default. Raises an error with the spelling of a partition if it is a
    number, a name or a class.

    >>> checked_partition(10, Whole())
    Traceback (most recent call last):
    probaudit.errors.InputError: `partition`: must be a partition (found: 10). Pass EqualWidth(10).
    """
    if partition is None:
        return default
    if not isinstance(partition, Partition):
        bins = partition if _is_whole_number(partition) else 15
        raise wrong_choice(
            "partition", partition, "partition", class_names(Partition), f"EqualWidth({bins})"
        )
    return partition


def checked_partitions(partitions: Any) -> tuple[Partition, ...]:
    """One partition, or several."""
    each = partitions if isinstance(partitions, Sequence) else [partitions]
    return tuple(checked_partition(one, Whole()) for one in each)


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_bins(bins: Any) -> None:
    if not _is_whole_number(bins):
        way_out = "pass a number without quotes or decimals, such as ", Argument("bins", "15")
        raise InputError("bins", "must be a whole number", repr(bins), way_out=way_out)
    if bins < 1:
        raise InputError("bins", "must be at least 1", bins)


def _combined_codes(*labels: np.ndarray) -> np.ndarray:
    """A cell number for each combination of labels that occurs."""
    codes = np.zeros(len(labels[0]), np.int64)
    for label in labels:
        place = _codes(label)
        codes = np.unique(codes * (int(place.max(initial=0)) + 1) + place, return_inverse=True)[
            1
        ].reshape(-1)
    return codes


def _codes(label: np.ndarray) -> np.ndarray:
    """A number for each distinct value, in sorted order if the values can be sorted."""
    try:
        return np.unique(label, return_inverse=True)[1].reshape(-1)
    except TypeError:  # None among strings, say
        known: dict[Any, int] = {}
        return np.array([known.setdefault(value, len(known)) for value in label.tolist()], np.int64)


def rising_order(outputs: np.ndarray) -> np.ndarray:
    """The order that sorts outputs, stable for ties.

    >>> rising_order(np.array([0.5, 0.2, 0.5, 0.1]))
    array([3, 1, 0, 2])
    """
    from ..kernels.bins import sorting_order

    bits = bits_of(outputs.astype(np.float64) + 0.0)  # makes -0.0 equal to 0.0
    return sorting_order(np.where(bits < 0, ~bits, bits ^ np.iinfo(np.int64).min).view(np.uint64))


def _dense_ranks(codes: np.ndarray) -> np.ndarray:
    """The rank of each code among the distinct codes."""
    from ..kernels.bins import sorting_order

    order, found = sorting_order(codes), np.empty(len(codes), np.int64)
    rising = codes[order]
    found[order] = np.cumsum(np.r_[False, rising[1:] != rising[:-1]][: len(codes)])
    return found


def _with_slack(edges: np.ndarray, right: bool) -> np.ndarray:
    """Edges moved by the rounding error of float32: outputs that round to an edge fall above it, or
    below it with `right`."""
    return edges * (1 + SLACK if right else 1 - SLACK)


def _single(outputs: np.ndarray, name: str) -> np.ndarray:
    if outputs.ndim != 1:
        raise InputError(
            "partition",
            f"{name} requires a lens with a single event, such as TopLabel()",
            f"outputs of shape {outputs.shape}",
        )
    return outputs


@dataclass(frozen=True)
class EqualWidth(Partition):
    """Bins of equal width, [low, high), the last one closed; with `right`, (low, high], the first
    one closed.

    An output that differs from an edge by no more than the rounding error of float32 (relative
    7.5e-8) counts as lying at the edge. The fine grids use the same rule. With several outputs,
    cells are products of the bins of the first d - 1 outputs (the uniform scheme of Kirchenbauer et
    al. 2022).

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
        _check_bins(self.bins)

    def words(self) -> str:
        return f"{self.bins} equal-width bins" + (", closed on the right" if self.right else "")

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        from ..kernels.bins import row_codes, width_bins

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
        return _dense_ranks(codes)

    @property
    def edges(self) -> np.ndarray:
        return np.arange(self.bins + 1) / self.bins

    @property
    def cuts(self) -> np.ndarray:
        """The edges that outputs are compared with."""
        return _with_slack(self.edges, self.right)

    def first_beyond(self, dtype: Any) -> Any:
        """The bit pattern of the smallest number of a dtype above the first bin."""
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
                "must be a KDTree for several outputs of rows that are not in memory",
                repr(self),
            )
        return self

    @property
    def count(self) -> int:
        return self.bins


@dataclass(frozen=True, eq=False)
class Edges(Partition):
    """Bins between given edges, [low, high), the last one closed; with `right`, (low, high].
    Outputs at an edge are treated as in `EqualWidth`."""

    edges: Any
    right: bool = False

    def __post_init__(self) -> None:
        edges = as_numbers(self.edges, "edges")
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InputError("edges", "must be two or more increasing numbers", edges.tolist())
        object.__setattr__(self, "edges", edges)

    def words(self) -> str:
        return "bins between given edges" + (", closed on the right" if self.right else "")

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
    """Bins with equal numbers of rows. Equal outputs always share a bin: a boundary moves up past
    ties, so that there may be fewer bins.

    >>> EqualMass(2).cells(np.array([0.1, 0.1, 0.1, 0.2]))
    array([0, 0, 0, 1])
    """

    bins: int = 15

    def __post_init__(self) -> None:
        _check_bins(self.bins)

    def words(self) -> str:
        return f"{self.bins} equal-mass bins"

    def cells(self, outputs: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
        """As for every partition. `order` sorts the outputs, if already known."""
        order = rising_order(_single(outputs, "EqualMass")) if order is None else order
        rising, starts = outputs[order], self._bin_starts(len(outputs))
        cuts = np.unique((rising[starts - 1] + rising[starts]) / 2)
        sizes = np.diff(np.r_[0, np.searchsorted(rising, cuts, side="right"), len(outputs)])
        sizes, found = sizes[sizes > 0], np.empty(len(outputs), np.int64)
        found[order] = np.repeat(np.arange(len(sizes)), sizes)
        return found

    def grid_cells(self, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
        first = np.cumsum(rows) - rows
        return np.unique(
            np.searchsorted(self._bin_starts(int(rows.sum())), first, side="right"),
            return_inverse=True,
        )[1].reshape(-1)

    def placed(self, outputs: np.ndarray) -> Partition:
        cells = self.cells(outputs)
        least = np.full(int(cells.max()) + 1, np.inf)
        np.minimum.at(least, cells, outputs)
        return Cuts(least[1:])

    def _bin_starts(self, rows: int) -> np.ndarray:
        """The first row of each bin except the first, in sorted order."""
        small, larger = divmod(rows, self.bins)
        starts = np.cumsum(np.full(self.bins, small) + (np.arange(self.bins) < larger))[:-1]
        return starts[(starts > 0) & (starts < rows)]


@dataclass(frozen=True)
class KDTree(Partition):
    """Cells of a k-d tree over the simplex: the axis of largest variance is split recursively,
    at its mean or median.

    Sample weights are ignored. Rows below the cut go to the left child. If there are none, the cut
    moves to the next larger value, so that only a cell of identical rows cannot be split.

    gamma : a cell is split while it has at least this share of the rows (Kirchenbauer et al. 2022,
        Appendix B.2). `min_rows` : the same as a number of rows.
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

    def words(self) -> str:
        least = f"{fraction(self.gamma)} of the rows"
        if self.min_rows is not None:
            least = counted(self.min_rows)
        return f"cells of a k-d tree, split at the {self.split} while they hold {least}"

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return self._grow_tree(outputs)[0]

    def _grow_tree(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from ..kernels.kd_tree import tree_cells

        points = _simplex_points(outputs)
        least = max(2.0, self.gamma * len(points) if self.min_rows is None else self.min_rows)
        found: tuple[np.ndarray, np.ndarray, np.ndarray] = tree_cells(
            points, least, self.split == "median"
        )
        return found

    def placed(self, outputs: np.ndarray) -> Partition:
        return Boxes(*self._grow_tree(outputs)[1:])


def _simplex_points(outputs: np.ndarray) -> np.ndarray:
    """Outputs as points of the simplex."""
    points = (
        outputs
        if outputs.ndim == 2
        else np.column_stack([np.subtract(1, outputs, dtype=np.float64), outputs])
    )
    return np.ascontiguousarray(points, np.float32 if points.dtype == np.float32 else np.float64)


@dataclass(frozen=True, eq=False)
class Boxes(Partition):
    """The cells of a fitted k-d tree, see `kernels.kd_tree.tree_cells`."""

    nodes: np.ndarray
    cuts: np.ndarray

    def words(self) -> str:
        return "cells of a k-d tree"

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        from ..kernels.kd_tree import find_boxes

        points, found = _simplex_points(outputs), np.empty(len(outputs), np.int64)
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
    """Bins between increasing cuts. The first bin has all outputs below the first cut."""

    cuts: np.ndarray

    def words(self) -> str:
        return "bins between given cuts"

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.cuts, _single(outputs, "Cuts"), side="right")

    def placed(self, outputs: np.ndarray) -> Partition:
        return self

    @property
    def count(self) -> int:
        return len(self.cuts) + 1


@dataclass(frozen=True, eq=False)
class Column(Partition):
    """Cells given per row: a column of groups, or any array of cell numbers."""

    values: Any
    index: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = as_array(self.values, "values")
        if values.ndim != 1:
            raise InputError(
                "values",
                "Column needs one value per row",
                repr(self.values) if isinstance(self.values, str) else f"has shape {values.shape}",
                way_out=('pass the values of a column, such as Column(frame["topic"])',),
            )
        object.__setattr__(self, "index", index_of(self.values))
        object.__setattr__(self, "values", values)

    def words(self) -> str:
        return "given groups"

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        if len(self.values) != len(outputs):
            raise InputError(
                "values", f"must have one value per row ({len(outputs)})", len(self.values)
            )
        return _combined_codes(self.values)

    def select(self, rows: np.ndarray, total: int) -> Partition:
        if len(self.values) != total:
            raise InputError("values", f"must have one value per row ({total})", len(self.values))
        return Column(self.values[rows])


@dataclass(frozen=True)
class Whole(Partition):
    """One cell for all rows (Yang et al. 2023, Example 5)."""

    def words(self) -> str:
        return "all rows together"

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
    """One cell per row (Yang et al. 2023, Example 4)."""

    def words(self) -> str:
        return "each row by itself"

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return np.arange(len(outputs))


@dataclass(frozen=True)
class Product(Partition):
    """The common refinement: rows share a cell if they do so in both partitions."""

    first: Partition
    second: Partition
    index: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = self.second.index if self.first.index is None else self.first.index
        object.__setattr__(self, "index", index)

    def words(self) -> str:
        return f"{self.first.words()} within {self.second.words()}"

    def cells(self, outputs: np.ndarray) -> np.ndarray:
        return _combined_codes(self.first.cells(outputs), self.second.cells(outputs))

    def select(self, rows: np.ndarray, total: int) -> Partition:
        return Product(self.first.select(rows, total), self.second.select(rows, total))
