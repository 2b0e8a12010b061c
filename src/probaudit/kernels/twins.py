"""Few rows are computed in numpy until compiled code is in memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

FEW_ROWS, FEW_VALUES = 2**12, 2**18
# Calls of each kernel before its compiled code is used. They take about a second: more than loading
# that code, and much less than compiling it. None if kernels check their bounds, to be tested.
CALLS = 0 if os.environ.get("NUMBA_BOUNDSCHECK", "0") != "0" else 200


class Twin:
    """A kernel, and the function of the same name in `in_numpy` that gives the same bits.

    rows : the array with the rows of a call, along its first axis; None if it must be compiled.
    """

    def __init__(self, kernel: Any, rows: Callable[..., np.ndarray | None]) -> None:
        self.kernel, self._rows, self._calls = kernel, rows, itertools.count()

    @property
    def in_numpy(self) -> Callable[..., Any]:
        package, _, module = self.kernel.__module__.rpartition(".")
        home = import_module(f"{package}.in_numpy.{module}")
        return getattr(home, self.kernel.__name__)

    def __call__(self, *args: Any) -> Any:
        if not self._takes(*args):
            return self.kernel(*args)
        with np.errstate(all="ignore"):
            return self.in_numpy(*args)

    def _takes(self, *args: Any) -> bool:
        """Whether numpy makes the call: the kernel is not in memory, rows are few, and there were
        not many such calls."""
        if self.kernel.signatures:
            return False
        rows = self._rows(*args)
        few = rows is not None and len(rows) <= FEW_ROWS and rows.size <= FEW_VALUES
        return few and next(self._calls) < CALLS


def twin(rows: Callable[..., np.ndarray | None]) -> Callable[[Any], Any]:
    """Compute few rows in numpy until the decorated kernel is in memory."""
    return lambda kernel: Twin(kernel, rows)
