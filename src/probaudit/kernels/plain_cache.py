"""numba's own cache, for kernels without the private parts of numba (see numba_private.py)."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numba


class Stats(NamedTuple):
    """How often compiled code was found in the cache, by signature, and how often not."""

    cache_hits: Counter[Any]
    cache_misses: Counter[Any]


class PlainlyCached:
    """A function compiled with `numba.njit(cache=True)`, with files of its own for each signature.

    numba keeps one index per function, in which processes that start together can mix up their
    signatures. It compares this index with the file of the function only. Hence each signature is
    compiled from a function of its own, whose name has the stamp of all kernels.

    stamp : what the code is compiled from; other files are ignored.
    make : `numba.njit` with all other options.
    on_compile : called with True before a signature is loaded or compiled, and with False after it.
    is_kept : whether compiled code can be stored.
    """

    def __init__(
        self,
        function: Any,
        stamp: str,
        make: Callable[..., Any],
        on_compile: Callable[[bool], None],
    ) -> None:
        self.py_func, self._stamp = function, stamp
        self._make, self._on_compile = make, on_compile
        self._each: dict[Any, Any] = {}
        functools.update_wrapper(self, function)
        try:
            make(cache=True)(_renamed(function, stamp))
            self.is_kept = True
        except (RuntimeError, OSError):  # no folder can be written
            self.is_kept = False

    def __call__(self, *args: Any) -> Any:
        defaults = self.py_func.__defaults__ or ()
        missing = self.py_func.__code__.co_argcount - len(args)
        omitted = map(numba.types.Omitted, defaults[len(defaults) - missing :])
        signature = (*map(numba.typeof, args), *omitted)
        self.compile(signature)
        return self._each[signature](*args)

    def compile(self, signature: Any) -> None:
        """Load or compile a signature; without a cache if its files are damaged or the disk is
        full."""
        if signature in self._each:
            return
        # numba's key does not say whether bounds are checked
        key = hashlib.sha256(repr((signature, numba.config.BOUNDSCHECK)).encode()).hexdigest()[:16]
        name = f"{self._stamp}-{key}"
        found = (
            self._make(cache=True)(_renamed(self.py_func, name))
            if self.is_kept
            else self._make()(self.py_func)
        )
        self._on_compile(True)
        try:
            found.compile(signature)
        except Exception:  # whatever numba raises then
            found = self._make()(self.py_func)
            found.compile(signature)
        finally:
            self._on_compile(False)
        self._each[signature] = found

    @property
    def signatures(self) -> list[Any]:
        return list(self._each)

    @property
    def stats(self) -> Stats:
        each = [dispatcher.stats for dispatcher in self._each.values()]
        hits, misses = Counter[Any](), Counter[Any]()
        for one in each:
            hits.update(one.cache_hits)
            misses.update(one.cache_misses)
        return Stats(hits, misses)


def _renamed(function: Any, name: str) -> Any:
    """A copy of a function whose files in the cache have another name."""
    parts = function.__code__, function.__globals__, function.__name__
    copy = FunctionType(*parts, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__module__ = function.__kwdefaults__, function.__module__
    copy.__qualname__ = f"{function.__qualname__}-{name}"
    return copy
