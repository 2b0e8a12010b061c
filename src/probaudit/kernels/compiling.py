"""How kernels are compiled: numba, without the GIL, serial, kept on disk between runs.

numba's own cache keeps one index per function. Two processes that start cold and compile different
signatures can overwrite each other's index and later load the wrong machine code, and a full or
read-only disk raises. Here every signature has files of its own, stamped with the source of all
kernels, and a cache that cannot be read or written only costs a compilation.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def source_stamp() -> str:
    """A hash of every kernel's source: helpers are inlined, so any of them can change any
    kernel."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _SignatureFiles:
    """Saves and loads one compiled signature per pair of files, so that writers never share one."""

    def __init__(self, folder: str, base: str) -> None:
        self._folder, self._base = folder, base

    def _file(self, key: Any) -> caching.IndexDataCacheFile:
        # numba's key does not say whether bounds are checked (NUMBA_BOUNDSCHECK).
        parts = (key, numba.config.BOUNDSCHECK)
        name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
        return caching.IndexDataCacheFile(self._folder, f"{self._base}-{name}", source_stamp())

    def save(self, key: Any, data: Any) -> None:
        self._file(key).save(key, data)

    def load(self, key: Any) -> Any:
        return self._file(key).load(key)


class _KernelCache(caching.FunctionCache):
    """numba's function cache, except that no failure of the disk reaches the caller."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _SignatureFiles(self._cache_path, self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a truncated or foreign file: compile instead
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:  # disk full, folder gone: the compiled code in memory still works
            return


def kernel(function: F) -> F:
    """Compile an entry point: called from Python, cached on disk."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    with contextlib.suppress(RuntimeError, OSError):  # nowhere to write: run without a cache
        dispatcher._cache = _KernelCache(function)
    return dispatcher


def inline(function: F) -> F:
    """Compile a helper that only other kernels call, and that allocates nothing.

    It borrows its arrays: without `_nrt=False` every call would count references, with an atomic
    operation for each array of each tuple. `forceinline` avoids passing those tuples through
    memory.
    """
    return numba.njit(
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        forceinline=True,
        _nrt=False,
    )(function)


def allocator(function: F) -> F:
    """Compile a helper that returns new arrays."""
    return numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
