"""The signatures with which kernels are compiled ahead: those of ordinary use, in signatures.json.

`benchmarks/record_signatures.py` writes that file. A type is spelled as JSON: "f8" is a number,
"f8:2" a C-ordered array of two dimensions ("f8:2r" if it can only be read, "f8:2A" in any order),
null is None, and a list is a tuple, which begins with its name if it is a NamedTuple.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from .compiling import KERNELS, notice
from .numba_private import LLVM, works

LIST = Path(__file__).with_name("signatures.json")
COLUMNS = "None, 'u8:1'"  # no outputs by row, but the addresses of columns


def kernels() -> dict[str, Any]:
    """Every kernel of the package, as "module.function"."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__):
        if not module.name.startswith(("llvm_", "plain_")):
            import_module(f"{package}.{module.name}")
    return {name: KERNELS[name] for name in sorted(KERNELS)}


def spelled(kind: Any) -> Any:
    """A type of numba, as JSON."""
    if isinstance(kind, types.NoneType):
        return None
    if isinstance(kind, types.BaseNamedTuple):
        home = kind.instance_class
        name = f"{home.__module__.rpartition('.')[2]}.{home.__name__}"
        return [name, *map(spelled, kind.types)]
    if isinstance(kind, types.BaseTuple):
        return ["", *map(spelled, kind.types)]
    if isinstance(kind, types.Array):
        layout = "" if kind.layout == "C" else kind.layout
        return f"{_code(kind.dtype)}:{kind.ndim}{layout}{'' if kind.mutable else 'r'}"
    return _code(kind)


def _code(kind: Any) -> str:
    return as_dtype(kind).str.lstrip("<|=")


def parsed(spelling: Any) -> Any:
    """The type of numba that `spelled` gave as JSON."""
    if spelling is None:
        return types.none
    if isinstance(spelling, list):
        name, *parts = spelling
        fields = [parsed(part) for part in parts]
        if not name:
            return types.BaseTuple.from_types(fields)
        module, _, cls = name.rpartition(".")
        home = getattr(import_module(f".{module}", __package__), cls)
        return types.BaseTuple.from_types(fields, home)
    code, _, shape = spelling.partition(":")
    dtype = from_dtype(np.dtype(code))
    if not shape:
        return dtype
    return types.Array(dtype, int(shape[0]), shape[1:].rstrip("r") or "C", shape.endswith("r"))


def listed() -> dict[str, list[list[Any]]]:
    """The signatures of each kernel, spelled."""
    found: dict[str, list[list[Any]]] = json.loads(LIST.read_text("utf-8"))
    return found


def wanted() -> list[tuple[Any, list[Any]]]:
    """Each kernel with each of its listed signatures, spelled, that this numba can compile."""
    found = kernels()
    return [
        (found[name], signature)
        for name, signatures in listed().items()
        for signature in signatures
        # without generated code, no kernel reads columns by address
        if works(LLVM) or not _reads_columns(name, signature)
    ]


def _reads_columns(name: str, signature: list[Any]) -> bool:
    return name == "vectors.rows_of_columns" or COLUMNS in str(signature)


def compile_listed(advance: Callable[[int], None] = lambda signatures: None) -> int:
    """Load or compile every listed signature; returns how many were compiled.

    advance : called after each, with 1.
    """
    notice.never()
    compiled = 0
    for dispatcher, signature in wanted():
        before = sum(dispatcher.stats.cache_misses.values())
        dispatcher.compile(tuple(map(parsed, signature)))
        compiled += sum(dispatcher.stats.cache_misses.values()) - before
        advance(1)
    return compiled
