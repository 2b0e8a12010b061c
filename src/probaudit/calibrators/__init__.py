"""Calibrators: maps from a classifier's probabilities to better ones, behind one scikit-learn
contract.

scikit-learn is loaded when the first calibrator is used, not when probaudit is imported.
`registry.py` says how to add a calibrator.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..data.keywords import absent
from .registry import CLASSES

MODULES = CLASSES | {
    "CalibratedModel": "model",
    "Calibrator": "base",
    "DirectionPreserving": "temperature",
    "FitReport": "base",
    "fingerprint": "export.saving",
    "from_json": "export.saving",
    "load": "export.saving",
    "save": "export.saving",
    "to_json": "export.saving",
    "to_onnx": "export.onnx_export",
}

__all__ = sorted(MODULES)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        absent(__name__, MODULES, [])(name)
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(MODULES)
