"""Outputs by row, wherever they are."""

from __future__ import annotations

import ctypes

import numpy as np


def rows_at(
    values: np.ndarray | None, addresses: np.ndarray | None, like: np.ndarray, part: slice
) -> np.ndarray:
    """Some rows of `values`, or of columns at these addresses with the type of `like`."""
    if values is not None:
        return values[part]
    assert addresses is not None
    size = (part.stop - part.start) * like.itemsize
    columns = [
        (ctypes.c_char * size).from_address(int(address) + part.start * like.itemsize)
        for address in addresses
    ]
    return np.stack([np.frombuffer(column, like.dtype) for column in columns], axis=-1)
