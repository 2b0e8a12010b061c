"""The index of pandas objects. Rows are paired by position, so their indexes must be equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError


def index_of(data: Any) -> Any:
    """The index of a pandas series or frame; None for all other data.

    >>> import pandas as pd
    >>> index_of(pd.Series([0.5], index=["a"])), index_of([0.5])
    (Index(['a'], dtype='str'), None)
    """
    index = getattr(data, "index", None)  # lists have a method of that name
    return index if hasattr(index, "equals") else None


def common_index(parts: Mapping[str, Any]) -> Any:
    """The index of the first of these arguments that has one. Raises if that of another argument
    differs. Mappings have several columns."""
    first, found = "", None
    for argument, data in parts.items():
        for column in data.values() if isinstance(data, Mapping) else (data,):
            index = index_of(column)
            if index is None:
                continue
            if found is None:
                first, found = argument, index
            _check_equal(argument, index, first, found)
    return found


def _check_equal(argument: str, index: Any, first: str, wanted: Any) -> None:
    """Raise if two indexes of the same length differ. Other lengths have an error of their own."""
    if index is wanted or len(index) != len(wanted) or index.equals(wanted):
        return
    row = next(row for row, (a, b) in enumerate(zip(index, wanted, strict=True)) if a != b)
    raise InputError(
        argument,
        f"must have the same pandas index as `{first}`, as rows are paired by position",
        f"index {index.tolist()[row]!r}, not {wanted.tolist()[row]!r}",
        row=row,
        way_out=(
            f"align it with `.loc[{first}.index]`, or pass `.to_numpy()` if the rows are in order",
        ),
    )
