"""Anything array-like in, numpy out: lists, numpy, torch tensors, series and frames of any
library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..text import listed

# Relative spacing of the formats in which probabilities arrive; numpy has no bfloat16 of its own.
BFLOAT16_SPACING = 2.0**-7
MISSING = "(missing)"
WHOLE_LIMIT = 2.0**53  # beyond it, all floats are whole


def bits_of(values: np.ndarray) -> np.ndarray:
    """The bit patterns of floats as integers. For numbers that are not negative they are in the
    same order.

    >>> bits_of(np.float32([0.0, 0.5, 1.0]))
    array([         0, 1056964608, 1065353216], dtype=int32)
    """
    return values.view(np.int32 if values.itemsize == 4 else np.int64)


def as_array(data: Any, argument: str) -> np.ndarray:
    """The data as a plain numpy array, without a copy where possible and without changing a value.

    Masked entries become NaN or None, and so does what pandas calls missing.
    """
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        real = data.dtype.kind == "f"
        values = np.array(data.data, data.dtype if real else object)
        values[np.ma.getmaskarray(data)] = np.nan if real else None
        return values
    if isinstance(data, np.ndarray):
        return np.asarray(data)
    library = type(data).__module__.split(".")[0]
    if library == "torch":
        tensor = data.detach().cpu()
        return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)
    if library == "pyarrow":
        tabular = hasattr(data, "columns")
        return (
            np.column_stack([from_arrow(c, argument) for c in data.columns])
            if tabular
            else from_arrow(data, argument)
        )
    if hasattr(data, "to_numpy"):  # pandas, polars
        return _without_na(np.asarray(data.to_numpy()))
    try:
        return np.asarray(data)
    except ValueError as problem:
        raise _ragged(data, argument, problem) from None


def from_arrow(column: Any, argument: str) -> np.ndarray:
    """An Arrow column as numpy; a column of lists becomes two-dimensional."""
    import pyarrow as pa

    if isinstance(column, (pa.FloatingPointArray, pa.IntegerArray)) and not column.null_count:
        return np.asarray(column.to_numpy())  # the usual case, and there may be many columns
    if not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not any(
        is_kind(column.type)
        for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    ):
        return np.asarray(column.to_numpy())
    if not len(column):
        return np.empty((0, 0))
    lists = column.combine_chunks()
    lengths = lists.value_lengths().fill_null(-1).to_numpy()
    odd = np.flatnonzero((lengths != lengths[0]) | (lengths < 0))
    if len(odd):
        found = lengths[odd[0]]
        rule = "every row needs a list, all of the same length"
        raise InputError(
            argument,
            rule,
            "no list" if found < 0 else f"{found} entries, not {lengths[0]}",
            row=int(odd[0]),
        )
    return np.asarray(lists.flatten().to_numpy(zero_copy_only=False)).reshape(
        len(lists), lengths[0]
    )


def named_columns(data: Any, argument: str) -> dict[str, np.ndarray] | None:
    """The columns of a frame of any library, or of a mapping, by name; None for a matrix.

    >>> named_columns({"size": [1.5, 2.5], 7: ["red", None]}, "features")
    {'size': array([1.5, 2.5]), '7': array(['red', None], dtype=object)}
    """
    if isinstance(data, Mapping):
        return {str(name): as_array(column, argument) for name, column in data.items()}
    if isinstance(data, np.ndarray) or not hasattr(data, "columns"):
        return None
    import narwhals as nw

    frame = nw.from_native(data, eager_only=True)
    return {
        str(name): _without_na(np.asarray(frame.get_column(name).to_numpy()))
        for name in frame.columns
    }


def column_names(data: Any) -> list[str]:
    """The names of a frame's columns, as text; none of anything else."""
    if isinstance(data, (np.ndarray, Mapping)):
        return []
    # the columns of pyarrow are not names
    names = getattr(data, "column_names", getattr(data, "columns", ()))
    return [] if callable(names) else [str(name) for name in names]


def in_class_order(names: Sequence[str], classes: Sequence[Any]) -> list[str] | None:
    """Column names in the order of the classes, if they are the classes but for what all begin and
    end with.

    >>> in_class_order(["p_owl", "p_cat", "p_dog"], ["cat", "dog", "owl"])
    ['p_cat', 'p_dog', 'p_owl']
    """
    wanted = [str(c) for c in classes]
    if not names or len(names) != len(wanted):
        return None
    first, more = names[0], (len("".join(names)) - len("".join(wanted))) // len(wanted)
    for start in range(more + 1):
        ordered = [first[:start] + c + first[len(first) - more + start :] for c in wanted]
        if sorted(ordered) == sorted(names):
            return ordered
    return None


def check_column_order(data: Any, classes: Sequence[Any], argument: str) -> None:
    """Raise if the columns of a frame are the classes by name, in another order. Columns go by
    their places, not by names."""
    names = column_names(data)
    ordered = in_class_order(names, classes)
    if ordered is not None and ordered != names:
        found = f"its columns are the classes in another order: {listed(names)}"
        raise InputError(
            argument, f"they must stand in the order of the classes: {listed(ordered)}", found
        )


def _without_na(values: np.ndarray) -> np.ndarray:
    """None for each missing value among objects: those of pandas cannot be compared with others."""
    if values.dtype.kind != "O":
        return values
    missing = np.asarray(np.frompyfunc(is_missing, 1, 1)(values), bool)
    if missing.any():
        values = values.copy()
        values[missing] = None
    return values


def _ragged(rows: Any, argument: str, problem: ValueError) -> InputError:
    """The error for rows that numpy cannot stack, with the first that differs in length."""
    lengths = [len(row) if hasattr(row, "__len__") else None for row in rows]
    row = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    rule = "rows must all have the same length"
    if row is None:
        return InputError(argument, rule, str(problem))
    found = "not a list" if lengths[row] is None else f"{lengths[row]} entries"
    return InputError(
        argument, rule, f"{found}, where the first row has {lengths[0] or 'none'}", row=row
    )


def spacing(data: Any) -> float:
    """The relative spacing of the floating-point format the data arrived in; 0 for integers."""
    if "bfloat16" in str(getattr(data, "dtype", "")):
        return BFLOAT16_SPACING
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype):
        return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    return (
        spacing(as_array(data, "data"))
        if hasattr(data, "__len__") or hasattr(data, "shape")
        else 0.0
    )


def as_numbers(data: Any, argument: str) -> np.ndarray:
    """A numeric array of float16, float32 or float64; integers and booleans become float64, missing
    values NaN."""
    array = as_array(data, argument)
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.kind == "f":
        return array if array.dtype.itemsize <= 8 else array.astype(np.float64)
    if array.dtype.kind == "O":
        return _objects_as_numbers(array, argument)
    raise InputError(argument, "must hold numbers", f"has dtype {array.dtype}")


def _objects_as_numbers(array: np.ndarray, argument: str) -> np.ndarray:
    # a series of lists
    if array.ndim == 1 and len(array) and isinstance(array[0], (list, tuple, np.ndarray)):
        return as_numbers(as_array(array.tolist(), argument), argument)
    missing = np.asarray(np.frompyfunc(is_missing, 1, 1)(array), bool)
    numeric = np.asarray(
        np.frompyfunc(lambda value: hasattr(value, "__float__"), 1, 1)(array), bool
    )
    odd = np.argwhere(~(missing | numeric))
    if len(odd):  # text that looks like a number is refused too, as in an array of strings
        row = int(odd[0][0]) if array.ndim else None
        raise InputError(argument, "must hold numbers", repr(array[tuple(odd[0])]), row=row)
    try:
        return np.where(missing, np.nan, array).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(
            argument, "must hold numbers in rows of one length", str(problem)
        ) from None


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or the NA or NaT of pandas."""
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and bool(value != value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def value_name(value: Any) -> str:
    """What a value is called where it names a group: a whole number has no point, as missing values
    make it one of floats.

    >>> value_name(2.0), value_name(2.5), value_name("2.0"), value_name(None)
    ('2', '2.5', '2.0', '(missing)')
    """
    if is_missing(value):
        return MISSING
    return (
        str(int(value))
        if isinstance(value, (float, np.floating)) and _is_whole(value)
        else str(value)
    )


def value_names(column: np.ndarray) -> np.ndarray:
    """The same of each value of a column."""
    if column.dtype.kind in "OTV":
        return np.array([value_name(value) for value in column.tolist()], str)
    text = column.astype(str)
    if column.dtype.kind == "f":
        whole = _is_whole(column)
        text = np.where(whole, np.where(whole, column, 0).astype(np.int64).astype(str), text)
    return np.where(column != column, MISSING, text)


def _is_whole(value: Any) -> Any:
    return (np.rint(value) == value) & (np.abs(value) < WHOLE_LIMIT)
