"""Anything array-like in, numpy out: lists, numpy, torch tensors, series and frames of any library."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InputError

# Relative spacing of the formats in which probabilities arrive; numpy has no bfloat16 of its own.
BFLOAT16_SPACING = 2.0**-7


def as_array(data: Any, argument: str) -> np.ndarray:
    """The data as a numpy array, without a copy where possible and without changing a value."""
    if isinstance(data, np.ndarray):
        return data
    if type(data).__module__.split(".")[0] == "torch":
        tensor = data.detach().cpu()
        return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)
    if hasattr(data, "to_numpy"):  # pandas, polars, pyarrow arrays
        return np.asarray(data.to_numpy())
    if type(data).__module__.split(".")[0] == "pyarrow":  # tables
        return np.column_stack([column.to_numpy() for column in data.columns])
    try:
        return np.asarray(data)
    except ValueError as problem:
        raise InputError(argument, "rows must all have the same length", str(problem)) from None


def spacing(data: Any) -> float:
    """The relative spacing of the floating-point format the data arrived in; 0 for integers."""
    if "bfloat16" in str(getattr(data, "dtype", "")):
        return BFLOAT16_SPACING
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype):
        return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    return spacing(as_array(data, "data")) if hasattr(data, "__len__") or hasattr(data, "shape") else 0.0


def as_numbers(data: Any, argument: str) -> np.ndarray:
    """A numeric array of float16, float32 or float64; integers and booleans become float64."""
    array = as_array(data, argument)
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.kind == "f":
        return array if array.dtype.itemsize <= 8 else array.astype(np.float64)
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise InputError(argument, "must hold numbers in rows of one length", str(problem)) from None
    raise InputError(argument, "must hold numbers", f"has dtype {array.dtype}")
