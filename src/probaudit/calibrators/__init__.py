"""Calibrators: maps from a classifier's probabilities to better ones, behind one scikit-learn
contract.

scikit-learn is loaded when the first calibrator is named, not when probaudit is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {
    "BBQ": "binning",
    "BetaCalibration": "beta",
    "BiasCorrectedTemperature": "temperature",
    "CalibratedModel": "model",
    "Calibrator": "base",
    "Chain": "combining",
    "DirectionPreserving": "temperature",
    "DirichletCalibration": "dirichlet",
    "EnsembleTemperature": "temperature",
    "FitReport": "base",
    "GaussianProcessCalibration": "gaussian_process",
    "GroupCalibration": "grouping",
    "HistogramBinning": "binning",
    "IRM": "isotonic",
    "Identity": "identity",
    "IsotonicCalibration": "isotonic",
    "MatrixScaling": "linear",
    "MeanReplacement": "mean_replacement",
    "PerGroup": "combining",
    "PlattScaling": "linear",
    "PriorCorrection": "priors",
    "TemperatureScaling": "temperature",
    "VectorScaling": "linear",
    "fingerprint": "export.saving",
    "from_json": "export.saving",
    "load": "export.saving",
    "save": "export.saving",
    "to_json": "export.saving",
    "to_onnx": "export.onnx_export",
}

__all__ = list(MODULES)


def named(name: str) -> Any:
    """What this package calls so."""
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named(name)


def __dir__() -> list[str]:
    return sorted(MODULES)
