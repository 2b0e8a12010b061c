"""Calibrators: maps from a classifier's probabilities to better ones, behind one scikit-learn contract.

scikit-learn is loaded when the first calibrator is named, not when probaudit is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {
    "Calibrator": "base",
    "FitReport": "base",
}

__all__ = list(MODULES)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(MODULES)
