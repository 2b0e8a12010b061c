"""How kernels are compiled: numba, without the GIL, serial, kept on disk between runs.

numba's own cache keeps one index per function. Two processes that start cold and compile different
signatures can overwrite each other's index and later load the wrong machine code, and a full or
read-only disk raises. Here every signature has files of its own, stamped with the source of all
kernels, and a cache that cannot be read or written only costs a compilation. Wheels for a platform
also ship such files (`SHIPPED`), compiled for the processors in `targets.py`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from . import numba_private
from .numba_private import BORROWING, CACHE
from .plain_cache import PlainlyCached
from .targets import runnable_targets

F = TypeVar("F", bound=Callable[..., Any])

SHIPPED = Path(__file__).with_name("compiled")
PATIENCE = 1.0  # seconds of compiling before a line says so
FIRST = (
    "probaudit: compiling, on the first run only (up to a minute). `probaudit warm-up` compiles "
    "everything ahead."
)
EVERY = (
    "probaudit: compiling (up to a minute), on every run: no folder can be written. Set "
    "NUMBA_CACHE_DIR to one that can."
)
KERNELS: dict[str, Any] = {}  # every entry point, as "module.function"


@functools.cache
def source_stamp() -> str:
    """A hash of every kernel's source: helpers are inlined, so any of them can change any
    kernel."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _Notice:
    """One line on standard error, once a process, if compiling takes longer than PATIENCE. Called
    with True before a compilation, and with False after it. `kept`: whether compiled code can be
    stored."""

    def __init__(self) -> None:
        self.kept = True
        self._lock, self._timer = threading.Lock(), None
        self._printed = os.environ.get("PROBAUDIT_QUIET", "") not in ("", "0")

    def never(self) -> None:
        """Print nothing, as the caller says what goes on."""
        self._printed = True

    def __call__(self, compiling: bool) -> None:
        with self._lock:
            if not compiling and self._timer is not None:
                self._timer.cancel()
                self._timer = None
            elif compiling and self._timer is None and not self._printed:
                self._timer = threading.Timer(PATIENCE, self._print)
                self._timer.daemon = True
                self._timer.start()

    def _print(self) -> None:
        with self._lock:
            printed, self._printed = self._printed, True
        if printed:
            return
        print(FIRST if self.kept else EVERY, file=sys.stderr, flush=True)


notice = _Notice()


def kernel(function: F) -> F:
    """Compile an entry point: called from Python, cached on disk."""
    make = functools.partial(numba.njit, nogil=True, error_model="numpy")
    dispatcher = make()(function)
    try:
        if numba_private.works(CACHE):
            shipped = str(SHIPPED), runnable_targets()
            cache = numba_private.KernelCache(function, source_stamp(), shipped, notice)
            numba_private.attach_cache(dispatcher, cache)
        else:
            dispatcher = cache = PlainlyCached(function, source_stamp(), make, notice)
        if not cache.is_kept:
            notice.kept = False
    except (RuntimeError, OSError):  # nowhere to write: run without a cache
        notice.kept = False
    KERNELS[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = dispatcher
    return dispatcher


def inline(function: F) -> F:
    """Compile a helper that only other kernels call, and that allocates nothing.

    It borrows its arrays: without `_nrt=False` every call would count references, with an atomic
    operation for each array of each tuple. `forceinline` avoids passing those tuples through
    memory.
    """
    borrowing = {"forceinline": True, "_nrt": False} if numba_private.works(BORROWING) else {}
    return numba.njit(
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        **borrowing,
    )(function)


def allocator(function: F) -> F:
    """Compile a helper that returns new arrays."""
    return numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
