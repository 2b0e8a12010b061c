"""The parts of numba that are not its public interface, in one place.

Any release of numba may change them. `BROKEN` lists the parts that this numba does not have, with
the reason. Kernels then do without: slower, with the same results, from `numba.njit(cache=True)`
alone. PROBAUDIT_PLAIN_NUMBA=1 does without all of them.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

CACHE, BORROWING, LLVM = "cache", "borrowing", "llvm"
PARTS = {
    CACHE: "the files of a dispatcher's cache (numba.core.caching, Dispatcher._cache)",
    BORROWING: "helpers that borrow arrays (the option _nrt=False)",
    LLVM: "code generation (numba.core.cgutils, numba.np.arrayobj.populate_array, llvmlite.ir)",
}
BROKEN: dict[str, str] = {}


@contextmanager
def _part(name: str) -> Iterator[None]:
    try:
        yield
        if os.environ.get("PROBAUDIT_PLAIN_NUMBA", "") not in ("", "0"):
            raise RuntimeError("PROBAUDIT_PLAIN_NUMBA is set")
    except Exception as error:  # whatever a later numba raises
        BROKEN[name] = f"{PARTS[name]}: {type(error).__name__}: {error}"


def _takes(function: Callable[..., Any], *names: str) -> None:
    """Check that a function has these parameters, in this order."""
    found = [name for name in inspect.signature(function).parameters if name != "self"]
    if found[: len(names)] != list(names):
        raise TypeError(f"{function.__qualname__} takes {found}, not {list(names)}")


def _never_compiled() -> None:
    """Decorated only to see which options numba knows."""


with _part(CACHE):
    from numba.core import caching

    _takes(caching.FunctionCache._load_overload, "sig", "target_context")
    _takes(caching.FunctionCache._index_key, "sig", "codegen")
    _takes(caching.IndexDataCacheFile, "cache_path", "filename_base", "source_stamp")
    _takes(caching.IndexDataCacheFile.save, "key", "data")
    _takes(caching.CompileResultCacheImpl.rebuild, "target_context", "payload")
    if not hasattr(numba.njit(_never_compiled), "_cache"):
        raise AttributeError("a dispatcher has no _cache")

with _part(BORROWING):
    numba.njit(forceinline=True, _nrt=False)(_never_compiled)

with _part(LLVM):
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic
    from numba.np.arrayobj import populate_array

    _takes(populate_array, "array", "data", "shape", "strides", "itemsize", "meminfo")
    _takes(cgutils.unpack_tuple, "builder", "tup", "count")
    _takes(cgutils.alloca_once_value, "builder", "value")
    _takes(cgutils.for_range, "builder", "count")
    _takes(cgutils.get_or_insert_function, "module", "fnty", "name")

__all__ = ["cgutils", "intrinsic", "ir", "populate_array", "types"]


def works(part: str) -> bool:
    """Whether this numba has a part that is not public."""
    return part not in BROKEN


def attach_cache(dispatcher: Any, cache: Any) -> None:
    """Let a dispatcher store its compiled code in a KernelCache."""
    dispatcher._cache = cache


if works(CACHE):

    class _NowhereToWrite(caching._CacheLocator):
        """The place of a cache that can only be read, if no folder can be written."""

        def get_cache_path(self) -> str:
            return os.devnull

        def get_source_stamp(self) -> str:
            return ""

        def get_disambiguator(self) -> str:
            return self._line

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            self = cls()
            self._line = str(py_func.__code__.co_firstlineno)
            return self

    class _CodeOfFunction(caching.CompileResultCacheImpl):
        _locator_classes = (*caching.CompileResultCacheImpl._locator_classes, _NowhereToWrite)

    class _SignatureFiles:
        """Saves and loads one compiled signature per pair of files, so that writers never share
        one."""

        def __init__(self, folder: str, base: str, stamp: str) -> None:
            self._folder, self._base, self._stamp = folder, base, stamp

        def _file(self, key: Any) -> caching.IndexDataCacheFile:
            # numba's key does not say whether bounds are checked (NUMBA_BOUNDSCHECK).
            parts = (key, numba.config.BOUNDSCHECK)
            name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
            return caching.IndexDataCacheFile(self._folder, f"{self._base}-{name}", self._stamp)

        def save(self, key: Any, data: Any) -> None:
            self._file(key).save(key, data)

        def load(self, key: Any) -> Any:
            return self._file(key).load(key)

    class KernelCache(caching.FunctionCache):
        """numba's function cache, except that no failure of the disk reaches the caller, and that
        code shipped with the package is used where this machine can run it.

        stamp : what the stored code was compiled from; other files are ignored.
        shipped : a folder with code compiled ahead, and the targets of it (see targets.py), best
            first, that this machine runs.
        on_compile : called with True before a compilation, and with False after it.
        """

        _impl_class = _CodeOfFunction

        def __init__(
            self,
            function: Callable[..., Any],
            stamp: str,
            shipped: tuple[str, list[tuple[str, str]]],
            on_compile: Callable[[bool], None],
        ) -> None:
            super().__init__(function)
            folder, self._targets = shipped
            base = self._impl.filename_base
            self._cache_file = _SignatureFiles(self._cache_path, base, stamp)
            self.is_kept = self._cache_path != os.devnull  # whether a folder can be written
            self._shipped, self._on_compile = _SignatureFiles(folder, base, stamp), on_compile

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = self._shipped_overload(sig, target_context) or self._own(sig, target_context)
            if found is None:
                self._on_compile(True)
            return found

        def _own(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # a truncated or foreign file: compile instead
                return None

        def _shipped_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                target_context.refresh()
                signature, (triple, *_), code = self._index_key(sig, target_context.codegen())
                for target in self._targets:
                    data = self._shipped.load((signature, (triple, *target), code))
                    if data is not None:
                        return self._impl.rebuild(target_context, data)
            except Exception:  # as above
                pass
            return None

        def save_overload(self, sig: Any, data: Any) -> None:
            self._on_compile(False)
            try:
                super().save_overload(sig, data)
            except Exception:  # disk full, folder gone: the compiled code in memory still works
                return
