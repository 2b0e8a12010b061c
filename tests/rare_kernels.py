"""Calls with few rows of a signature that `warm-up` does not list run in numpy, not compiled.

A twin in numpy gives the same bits (tests/kernels). Such a signature costs 1 to 13 seconds to
compile, for tests that are about something else. Tests of kernels compile it, and all tests do
with NUMBA_BOUNDSCHECK=1 (`make test-bounds`).
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numba
import numpy as np

from probaudit.kernels import signatures
from probaudit.kernels.twins import FEW_ROWS, FEW_VALUES, Twin

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK", "0") != "0"


class _RareError(Exception):
    """A kernel would have to be compiled for few rows."""


class _Now(threading.local):
    few = False  # whether the call that this thread makes has few rows


now = _Now()
compiled_too = threading.Event()  # set while a test of kernels runs


def spare() -> None:
    """Make all twins spare rare signatures. Kernels without a twin, or with plain numba's cache,
    stay as they are."""
    if CHECKED:
        return
    listed = signatures.listed()
    for name, kernel in signatures.kernels().items():
        if hasattr(kernel, "_compile_for_args"):
            kernel._compile_for_args = _sparing(kernel, listed.get(name, []))
    Twin.__call__ = _called  # type: ignore[method-assign]


def _sparing(kernel: Any, listed: list[Any]) -> Any:
    compile_for = kernel._compile_for_args

    def compiled(*args: Any) -> Any:
        if now.few and not compiled_too.is_set():
            found = [signatures.spelled(numba.typeof(one)) for one in args]
            if found not in listed:
                raise _RareError
        return compile_for(*args)

    return compiled


call = Twin.__call__


def _called(self: Twin, *args: Any) -> Any:
    rows = self._rows(*args)
    few = rows is not None and len(rows) <= FEW_ROWS and rows.size <= FEW_VALUES
    outer, now.few = now.few, few
    try:
        return call(self, *args)
    except _RareError:
        with np.errstate(all="ignore"):
            return self.in_numpy(*args)
    finally:
        now.few = outer
