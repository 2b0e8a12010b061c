"""A matrix stored as separate columns, as Arrow tables store them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np


class Columns:
    """Columns of the same type and length, read in place. Indexing returns a C-ordered copy of
    rows.

    >>> matrix = Columns([np.array([0.1, 0.6]), np.array([0.9, 0.4])])
    >>> matrix.shape, matrix[1]
    ((2, 2), array([0.6, 0.4]))
    """

    ndim = 2

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self._columns = [
            column if column.flags.c_contiguous and column.flags.aligned else column.copy()
            for column in columns
        ]
        self.dtype = self._columns[0].dtype
        self.shape = len(self._columns[0]), len(self._columns)

    @cached_property
    def addresses(self) -> np.ndarray:
        """The memory address of each column."""
        return np.array(
            [column.__array_interface__["data"][0] for column in self._columns], np.uint64
        )

    def part(self, first: int, last: int) -> Columns:
        """A range of rows, without a copy."""
        if first == 0 and last >= len(self):
            return self
        return Columns([column[first:last] for column in self._columns])

    def min(self) -> Any:
        """The least value; NaN if there is one."""
        return np.min([column.min() for column in self._columns])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.stack([column[rows] for column in self._columns], axis=-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)
