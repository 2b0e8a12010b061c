"""Few rows are computed in numpy until compiled code is in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

FEW_ROWS, FEW_VALUES = 2**12, 2**18
# CPU seconds in the twin of each kernel before its compiled code is used: about as long as it takes
# to compile it. None if kernels check their bounds, to be tested.
SECONDS = 0.0 if os.environ.get("NUMBA_BOUNDSCHECK", "0") != "0" else 1.5


class Twin:
    """A kernel, and the function of the same name in `in_numpy` that gives the same bits.

    rows : the array with the rows of a call, along its first axis; None if it must be compiled.
    """

    def __init__(self, kernel: Any, rows: Callable[..., np.ndarray | None]) -> None:
        self.kernel, self._rows, self._spent = kernel, rows, 0.0

    @property
    def in_numpy(self) -> Callable[..., Any]:
        package, _, module = self.kernel.__module__.rpartition(".")
        home = import_module(f"{package}.in_numpy.{module}")
        return getattr(home, self.kernel.__name__)

    def __call__(self, *args: Any) -> Any:
        if not self._takes(*args):
            return self.kernel(*args)
        start = time.thread_time()
        try:
            with np.errstate(all="ignore"):
                return self.in_numpy(*args)
        finally:
            self._spent += time.thread_time() - start

    def _takes(self, *args: Any) -> bool:
        """Whether numpy makes the call: the kernel is not in memory, rows are few, and such calls
        have not taken long."""
        if self.kernel.signatures or self._spent >= SECONDS:
            return False
        rows = self._rows(*args)
        return rows is not None and len(rows) <= FEW_ROWS and rows.size <= FEW_VALUES


def twin(rows: Callable[..., np.ndarray | None]) -> Callable[[Any], Any]:
    """Compute few rows in numpy until the decorated kernel is in memory."""
    return lambda kernel: Twin(kernel, rows)
