"""Conversion to numpy: lists, arrays, torch tensors, Arrow columns, and series and frames of any
library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import Argument, InputError, WayOut
from ..estimate import Estimate
from .extras import needed

# The relative spacing of bfloat16, which numpy does not have.
BFLOAT16_SPACING = 2.0**-7
MISSING = "(missing)"
WHOLE_LIMIT = 2.0**53  # all larger floats are whole numbers
# columns from which numpy reduces rows fast; it then adds them in another order
LONG_ROWS = 8


def bits_of(values: np.ndarray) -> np.ndarray:
    """The bit patterns of floats as integers. Integers of non-negative numbers sort like the
    numbers.

    >>> bits_of(np.float32([0.0, 0.5, 1.0]))
    array([         0, 1056964608, 1065353216], dtype=int32)
    """
    return values.view(np.int32 if values.itemsize == 4 else np.int64)


def as_array(data: Any, argument: str) -> np.ndarray:
    """The data as a plain numpy array, without a copy where possible and without changing a value.

    Masked entries, and missing values of pandas, become NaN or None.
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
        return np.asarray(column.to_numpy())  # a fast path, as tables may have many columns
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
        length = lengths[odd[0]]
        raise InputError(
            argument,
            "rows must be lists of the same length",
            "no list" if length < 0 else f"{length} entries, not {lengths[0]}",
            row=int(odd[0]),
        )
    return np.asarray(lists.flatten().to_numpy(zero_copy_only=False)).reshape(
        len(lists), lengths[0]
    )


def named_columns(data: Any, argument: str) -> dict[str, np.ndarray] | None:
    """The columns of a mapping, or of a frame of any library, by name; None for a matrix.

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


def wrong_features(argument: str, rows: int, shape: tuple[int, ...]) -> InputError:
    """The error for features of a shape other than [rows, features]."""
    single = f"pass a single feature as `{argument}[:, None]`"
    return InputError(
        argument,
        f"must be [rows, features] with {rows} rows",
        f"has shape {shape}",
        way_out=(single,) if shape == (rows,) else (),
    )


def column_names(data: Any) -> list[str]:
    """The column names of a frame, as text; an empty list for anything else."""
    if isinstance(data, (np.ndarray, Mapping)):
        return []
    # `columns` of a pyarrow table is a list of arrays, not of names
    names = getattr(data, "column_names", getattr(data, "columns", ()))
    return [] if callable(names) else [str(name) for name in names]


def _without_na(values: np.ndarray) -> np.ndarray:
    """Missing values among objects replaced by None: those of pandas cannot be compared."""
    if values.dtype.kind != "O":
        return values
    missing = np.asarray(np.frompyfunc(is_missing, 1, 1)(values), bool)
    if missing.any():
        values = values.copy()
        values[missing] = None
    return values


def _ragged(rows: Any, argument: str, problem: ValueError) -> InputError:
    """The error for rows that numpy cannot stack; it names the first row of another length."""
    lengths = [len(row) if hasattr(row, "__len__") else None for row in rows]
    row = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    rule = "rows must all have the same length"
    if row is None:
        return InputError(argument, rule, str(problem))
    found = "not a list" if lengths[row] is None else f"{lengths[row]} entries"
    return InputError(argument, rule, f"{found}; row 0 has {lengths[0] or 'none'}", row=row)


def spacing(data: Any) -> float:
    """The relative spacing (machine epsilon) of the data's floating-point format; 0 for
    integers."""
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
    """A numeric array of float16, float32 or float64. Integers and booleans become float64; missing
    values become NaN."""
    array = as_array(data, argument)
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.kind == "f":
        return array if array.dtype.itemsize <= 8 else array.astype(np.float64)
    if array.dtype.kind == "O":
        return _objects_as_numbers(array, argument)
    raise InputError(argument, "must hold numbers", f"has dtype {array.dtype}")


def _objects_as_numbers(array: np.ndarray, argument: str) -> np.ndarray:
    if array.ndim == 1 and len(array) and isinstance(array[0], (list, tuple, np.ndarray)):
        # a series of lists
        return as_numbers(as_array(array.tolist(), argument), argument)
    missing = np.asarray(np.frompyfunc(is_missing, 1, 1)(array), bool)
    numeric = np.asarray(
        np.frompyfunc(lambda value: hasattr(value, "__float__"), 1, 1)(array), bool
    )
    odd = np.argwhere(~(missing | numeric))
    if len(odd):  # text is refused even if it looks like a number, as in an array of strings
        # one word makes a column of a file text: it is at fault, not the numbers before it
        at = next((where for where in odd if not _reads_as_number(array[tuple(where)])), odd[0])
        row = int(at[0]) if array.ndim else None
        value = array[tuple(at)]
        raise InputError(
            argument, "must hold numbers", repr(value), row=row, way_out=_way_out(value)
        )
    try:
        return np.where(missing, np.nan, array).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(
            argument, "must hold numbers, in rows of the same length", str(problem)
        ) from None


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _way_out(value: Any) -> WayOut:
    """What to do about text that a person reads as a number."""
    text = str(value).strip()
    if re.fullmatch(r"-?\d*,\d+", text):
        return ("pass ", Argument("decimal", "','"), " if a comma precedes decimals in the file")
    if re.fullmatch(r"\d+([.,]\d+)?\s*%", text):
        return ("remove the percent signs and divide by 100",)
    return ()


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or the NA or NaT of pandas."""
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and bool(value != value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def value_name(value: Any) -> str:
    """The name of a group with this value. Whole floats are shown as integers, because missing
    values turn a column of integers into floats.

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
    """`value_name` for each value of a column."""
    if column.dtype.kind in "OTV":
        return np.array([value_name(value) for value in column.tolist()], str)
    text = column.astype(str)
    if column.dtype.kind == "f":
        whole = _is_whole(column)
        text = np.where(whole, np.where(whole, column, 0).astype(np.int64).astype(str), text)
    return np.where(column != column, MISSING, text)


def _is_whole(value: Any) -> Any:
    return (np.rint(value) == value) & (np.abs(value) < WHOLE_LIMIT)


def row_reduced(operation: np.ufunc, table: np.ndarray) -> np.ndarray:
    """`operation.reduce` along rows, [n, 1]. numpy takes long for short rows: their columns are
    joined one after another, which gives the same bits.

    >>> row_reduced(np.add, np.array([[1, 2], [3, 4]])).tolist()
    [[3], [7]]
    """
    if table.shape[1] >= LONG_ROWS:
        return np.asarray(operation.reduce(table, axis=1, keepdims=True))
    found = table[:, :1].copy()
    for column in range(1, table.shape[1]):
        operation(found, table[:, column : column + 1], out=found)
    return found


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Columns by name as a pandas DataFrame."""
    needed("pandas", "A data frame")
    import narwhals as nw

    return nw.from_dict(columns, backend="pandas").to_native()


def estimate_frame(named: Mapping[str, Estimate]) -> Any:
    """Estimates by name as a pandas DataFrame, one row each."""
    each = list(named.values())
    parts = ("value", "low", "high", "n", "definition")
    columns = {part: [getattr(x, part) for x in each] for part in parts}
    return data_frame({"name": list(named)} | columns)
