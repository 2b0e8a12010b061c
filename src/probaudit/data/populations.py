"""Populations: rows that share a value of a column, of several columns crossed, or a range of a
numeric column."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..text import listed, significant
from .arrays import MISSING, value_names

MOST_VALUES = 50  # values of a column beyond which it does not split the rows into groups
MOST_CROSSED = 200  # the same, for combinations of the values of several columns
MOST_NUMBERS = 20  # values of a numeric column beyond which it is cut into ranges
RANGES = 5
CROSS = "*"

# what to cross: all columns, or several names of columns, "a*b" or ("a", "b"), for each crossing
Crossing = bool | Sequence[str | Sequence[str]]


@dataclass(frozen=True)
class Population:
    """The rows with these values in these columns; without columns, all rows.

    >>> women = Population(("sex", "race"), ("f", "b"))
    >>> str(women), women.key, women.column, women.value
    ('sex = f and race = b', 'sex=f and race=b', 'sex*race', 'f, b')
    """

    columns: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The column, or the crossed columns as `crossing` reads them."""
        return CROSS.join(self.columns)

    @property
    def value(self) -> str:
        return ", ".join(self.values)

    @property
    def crossed(self) -> bool:
        """Whether this is an intersection of groups of several columns."""
        return len(self.columns) > 1

    @property
    def key(self) -> str:
        """The name of the group in names of numbers."""
        return self._joined("=")

    def __str__(self) -> str:
        return self._joined(" = ")

    def _joined(self, equals: str) -> str:
        pairs = zip(self.columns, self.values, strict=True)
        return " and ".join(f"{column}{equals}{value}" for column, value in pairs)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges of numbers. Values below the first and above the last edge belong to the first and
    the last range.

    edges : of the ranges, rising.
    """

    edges: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Ranges | None:
        """Five ranges with about equally many values; None for text and for few different numbers.

        >>> Ranges.of(np.arange(100.0)).names[:2]
        ['0 to 19.8', '19.8 to 39.6']
        """
        if values.dtype.kind not in "fiu" or len(np.unique(values)) <= MOST_NUMBERS:
            return None
        numbers = values.astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        edges = np.unique(np.quantile(finite, np.linspace(0, 1, RANGES + 1)))
        if len(edges) == 2:  # nearly all values are equal
            different, counts = np.unique(finite, return_counts=True)
            most = int(counts.argmax())
            apart = different[most + 1 if most + 1 < len(different) else most]
            edges = np.array([edges[0], apart, edges[-1]])
        edges[0], edges[-1] = np.nanmin(numbers), np.nanmax(numbers)
        return cls(edges)

    @property
    def names(self) -> list[str]:
        """Names with as few digits as keep the edges apart, but at least four."""
        for digits in range(4, 18):
            text = [significant(edge, digits) for edge in self.edges.tolist()]
            if len(set(text)) == len(text):
                break
        return [f"{low} to {high}" for low, high in itertools.pairwise(text)]

    def number(self, values: np.ndarray) -> np.ndarray:
        """The range of each value; for missing values, the number of ranges."""
        numbers = values.astype(np.float64)
        number = np.searchsorted(self.edges[1:-1], numbers, side="right")
        return np.where(np.isnan(numbers), len(self.edges) - 1, number)

    def labels(self, values: np.ndarray) -> np.ndarray:
        """The name of the range of each value; None for missing values."""
        return np.array([*self.names, None], object)[self.number(values)]


@dataclass(frozen=True, eq=False)
class GroupColumn:
    """A column (or several, crossed) as groups of rows.

    populations : the groups, in order. number : the group of each row.
    cut : whether the numbers of the column were cut into ranges with equally many rows.
    """

    column: str
    populations: tuple[Population, ...]
    number: np.ndarray
    cut: bool = False

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(one.value for one in self.populations)

    def rows(self, group: int) -> np.ndarray:
        return np.flatnonzero(self.number == group)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of several columns.

    columns : each column, then the crossed ones. left_out : the columns without groups, and why.
    """

    columns: tuple[GroupColumn, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def cut(self) -> tuple[str, ...]:
        """The columns whose numbers were cut into ranges."""
        return tuple(
            one.column for one in self.columns if one.cut and not one.populations[0].crossed
        )


def group_column(column: str, values: np.ndarray, *, cut: bool = True) -> GroupColumn:
    """The groups of one column. With `cut`, many different numbers are cut into ranges.

    >>> group_column("sex", np.array(["f", "m", "f"])).values
    ('f', 'm')
    >>> group_column("age", np.arange(100.0)).values[:2]
    ('0 to 19.8', '19.8 to 39.6')
    """
    if values.ndim != 1:
        raise InputError(
            column, "must have one value per row to define groups", f"has shape {values.shape}"
        )
    if cut and (ranges := Ranges.of(values)) is not None:
        number, names = ranges.number(values), ranges.names
        names = [*names, MISSING] if (number == len(names)).any() else names
        return GroupColumn(column, _populations(column, names), number, cut=True)
    unique, number = np.unique(value_names(values), return_inverse=True)
    order = _natural_order(values, unique)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    names = unique[order].tolist()
    return GroupColumn(column, _populations(column, names), place[number.reshape(-1)])


def _populations(column: str, names: Sequence[str]) -> tuple[Population, ...]:
    return tuple(Population((column,), (name,)) for name in names)


def crossed(columns: Sequence[GroupColumn]) -> GroupColumn:
    """The groups of several columns together: one for each combination that occurs.

    >>> sex = group_column("sex", np.array(["f", "m"]))
    >>> race = group_column("race", np.array(["a", "b"]))
    >>> crossed([sex, race]).values
    ('f, a', 'm, b')
    """
    sizes = [len(one.values) for one in columns]
    code = np.ravel_multi_index(tuple(one.number for one in columns), sizes)
    codes, number = np.unique(code, return_inverse=True)
    each = np.unravel_index(codes, sizes)
    names, values = tuple(one.column for one in columns), [one.values for one in columns]
    populations = tuple(
        Population(names, tuple(value[k] for value, k in zip(values, combination, strict=True)))
        for combination in zip(*(part.tolist() for part in each), strict=True)
    )
    cut = any(one.cut for one in columns)
    return GroupColumn(CROSS.join(names), populations, number.reshape(-1), cut)


def crossing(text: str, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that a text such as "sex*race" crosses; none if it is the name of a column, or
    if a part is not.

    >>> crossing("sex*race", ["sex", "race"]), crossing("f_*", ["f_1"])
    (('sex', 'race'), ())
    """
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(CROSS)))
    known = text not in columns and len(parts) > 1 and all(part in columns for part in parts)
    return parts if known else ()


def crossings(cross: Crossing, columns: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """What to cross: nothing (False), all columns (True), or the given crossings: each a text such
    as "sex*race", or several names.

    >>> crossings(["sex*race", ("sex", "age")], ["sex", "race", "age"])
    (('sex', 'race'), ('sex', 'age'))
    """
    if cross is False or (not isinstance(cross, bool) and not len(cross)):
        return ()
    if not columns:
        way_out = ("pass the columns whose groups to cross",)
        raise InputError("cross", "requires two or more columns", "none", way_out=way_out)
    each: list[Any] = (
        [tuple(columns)] if cross is True else [cross] if isinstance(cross, str) else list(cross)
    )
    found = []
    for one in each:
        names = crossing(one, columns) if isinstance(one, str) else tuple(dict.fromkeys(one))
        if len(names) < 2 or not all(name in columns for name in names):
            rule = f"must cross two or more columns of {listed(list(columns))}"
            way_out = ('write "a*b", or a tuple of names, for each crossing',)
            raise InputError("cross", rule, repr(one), way_out=way_out)
        found.append(names)
    return tuple(dict.fromkeys(found))


def grouping_of(columns: Mapping[str, np.ndarray], cross: Crossing = False) -> Grouping:
    """The groups of each column, then those of the crossings (see `crossings`).

    Columns with more than 50 groups, or with several values in each row, are left out; crossings
    with more than 200 combinations, or of a column that is left out, as well.
    """
    wanted = crossings(cross, columns)
    single: dict[str, GroupColumn] = {}
    left_out: dict[str, str] = {}
    for name, values in columns.items():
        if values.ndim != 1:
            shape = " x ".join(f"{size:,}" for size in values.shape[1:])
            left_out[name] = f"has {shape} values in each row"
            continue
        one = group_column(name, values)
        if (count := len(one.populations)) > MOST_VALUES:
            left_out[name] = f"has {count:,} values"
        else:
            single[name] = one
    both = []
    for names in wanted:
        if all(name in single for name in names):
            one = crossed([single[name] for name in names])
            if (count := len(one.populations)) > MOST_CROSSED:
                left_out[one.column] = f"has {count:,} combinations"
            else:
                both.append(one)
    return Grouping((*single.values(), *both), left_out)


def _natural_order(values: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Numbers in rising order, text in alphabetical order; missing values last."""
    missing = names == MISSING
    if values.dtype.kind in "fiu":
        numbers = [0.0 if name == MISSING else float(name) for name in names.tolist()]
        return np.lexsort((np.array(numbers), missing))
    return np.lexsort((np.arange(len(names)), missing))
