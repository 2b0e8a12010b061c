"""Packages that may be missing: those of an extra, and all but the core set after a small install
(docs/installing.md)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# the extra of probaudit that has a package; without one, the package itself is named
EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "matplotlib": "plots",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "torch": "torch",
}
PACKAGES = {"sklearn": "scikit-learn"}  # names of modules and of their packages


def how_to_install(problem: ImportError) -> str | None:
    """The message for a package that is missing; None if the package is not the problem.

    >>> how_to_install(ModuleNotFoundError("No module named 'sklearn'", name="sklearn.base"))
    'this needs scikit-learn: pip install scikit-learn'
    """
    if isinstance(problem.__cause__, ModuleNotFoundError):  # of `needed`, which says it already
        return str(problem)
    module = (problem.name or "").split(".")[0]
    if not isinstance(problem, ModuleNotFoundError) or module in ("", "probaudit"):
        return None
    package = PACKAGES.get(module, module)
    extra = EXTRAS.get(module)
    install = f"'probaudit[{extra}]'" if extra else package
    return f"this needs {package}: pip install {install}"


def needed(name: str, purpose: str, extra: str = "") -> Any:
    """The package of this name. If it is missing, the error says how to install it.

    extra : the extra of probaudit that has the package; without one, the package itself is named.

    >>> needed("no_such_package", "This loader")
    Traceback (most recent call last):
    ImportError: This loader needs no_such_package: pip install no_such_package
    """
    try:
        return import_module(name)
    except ImportError as problem:
        install = f"'probaudit[{extra}]'" if extra else name
        raise ImportError(f"{purpose} needs {name}: pip install {install}") from problem
