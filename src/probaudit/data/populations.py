"""Populations: rows that share a value of a column, of several columns crossed, or a range of a
numeric column."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..text import significant
from .arrays import MISSING, value_names

MOST_VALUES = 50  # values of a column beyond which it does not split the rows into groups
MOST_NUMBERS = 20  # values of a numeric column beyond which it is cut into ranges
RANGES = 5


@dataclass(frozen=True, eq=False)
class GroupColumn:
    """A column (or several, crossed) as groups of rows.

    values : the names of the groups, in order. number : the group of each row.
    cut : whether the numbers of the column were cut into ranges with equally many rows.
    """

    column: str
    values: tuple[str, ...]
    number: np.ndarray
    cut: bool = False

    def rows(self, group: int) -> np.ndarray:
        return np.flatnonzero(self.number == group)


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
    if cut and values.dtype.kind in "fiu" and len(np.unique(values)) > MOST_NUMBERS:
        return _ranges(column, values)
    names, number = np.unique(value_names(values), return_inverse=True)
    order = _natural_order(values, names)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return GroupColumn(column, tuple(names[order].tolist()), place[number.reshape(-1)])


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
    names = tuple(
        ", ".join(one.values[k] for one, k in zip(columns, combination, strict=True))
        for combination in zip(*(part.tolist() for part in each), strict=True)
    )
    name = " x ".join(one.column for one in columns)
    return GroupColumn(name, names, number.reshape(-1), any(one.cut for one in columns))


def group_columns(
    columns: Mapping[str, np.ndarray], cross: Sequence[str] = ()
) -> list[GroupColumn]:
    """The groups of each column, then those of the crossed columns, if `cross` names any.

    Columns with more than 50 groups, or with several values in each row, are left out; see
    `ungrouped`.
    """
    missing = [name for name in cross if name not in columns]
    if missing:
        raise InputError("groups", f"must name columns: {', '.join(columns)}", repr(missing[0]))
    single = {
        name: group_column(name, values) for name, values in columns.items() if values.ndim == 1
    }
    found = [one for one in single.values() if len(one.values) <= MOST_VALUES]
    named = [one for one in found if one.column in cross]
    return found + ([crossed(named)] if len(named) > 1 else [])


def ungrouped(columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The columns that are left out, and why."""
    found = {}
    for name, values in columns.items():
        if values.ndim != 1:
            shape = " x ".join(f"{size:,}" for size in values.shape[1:])
            found[name] = f"has {shape} values in each row"
        elif (count := len(group_column(name, values).values)) > MOST_VALUES:
            found[name] = f"has {count:,} values"
    return found


def _natural_order(values: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Numbers in rising order, text in alphabetical order; missing values last."""
    missing = names == MISSING
    if values.dtype.kind in "fiu":
        numbers = np.array([np.inf if name == MISSING else float(name) for name in names])
        return np.argsort(numbers, kind="stable")
    return np.lexsort((np.arange(len(names)), missing))


def _ranges(column: str, values: np.ndarray) -> GroupColumn:
    """Ranges with about equally many rows; rows without a number are a group of their own."""
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, RANGES + 1)))
    number = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, max(len(edges) - 2, 0))
    names = _range_names(edges)
    number = np.where(known, number, len(names))
    return GroupColumn(column, tuple(names if known.all() else [*names, MISSING]), number, cut=True)


def _range_names(edges: np.ndarray) -> list[str]:
    """Names with as few digits as keep the edges apart, but at least four."""
    for digits in range(4, 18):
        text = [significant(edge, digits) for edge in edges.tolist()]
        if len(set(text)) == len(text):
            break
    return [f"{low} to {high}" for low, high in itertools.pairwise(text)] or text
