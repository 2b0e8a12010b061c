"""Packages that only an extra of probaudit installs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


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
