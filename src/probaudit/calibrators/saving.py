"""Calibrators as JSON: what they were told and what they learned, to the last bit, and nothing that could be run."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..version import __version__
from ..writing import write_text
from . import MODULES, named
from .base import Calibrator, FitReport

SCHEMA = "probaudit.calibrator/1"


def to_json(calibrator: Calibrator) -> str:
    """A fitted calibrator as JSON, with a fingerprint of its contents."""
    content = {"schema": SCHEMA, "version": __version__, "calibrator": _encoded_calibrator(calibrator)}
    return json.dumps(content | {"fingerprint": _fingerprint(content)}, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def from_json(text: str) -> Calibrator:
    """The calibrator that `to_json` wrote; raises if the text is not such a calibrator, or was changed."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as problem:
        raise InputError("text", "must be JSON", str(problem)) from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise InputError("text", f"must be a calibrator ({SCHEMA})", repr(found))
    given = content.pop("fingerprint", None)
    if given != _fingerprint(content):
        raise InputError("text", "its fingerprint must be that of its contents: the file was changed", repr(given))
    try:
        found = _decoded(content["calibrator"])
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise InputError("text", "must hold all parts of a calibrator", str(problem)) from None
    if not isinstance(found, Calibrator):
        raise InputError("text", "must hold a calibrator", type(found).__name__)
    return found


def save(calibrator: Calibrator, path: str | Path) -> None:
    """Write a fitted calibrator to a JSON file, whole or not at all."""
    write_text(Path(path), to_json(calibrator))


def load(path: str | Path) -> Calibrator:
    """Read a calibrator that `save` wrote. Nothing in the file is run."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError("path", "must be a readable JSON file", str(problem)) from None
    return from_json(text)


def fingerprint(calibrator: Calibrator) -> str:
    """Sixteen digits that name what a calibrator is and has learned."""
    return str(json.loads(to_json(calibrator))["fingerprint"])


def _fingerprint(content: dict[str, Any]) -> str:
    plain = json.dumps(content["calibrator"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _encoded_calibrator(calibrator: Calibrator) -> dict[str, Any]:
    name = type(calibrator).__name__
    if MODULES.get(name) is None or type(calibrator) is not named(name):
        raise InputError("calibrator", "only calibrators of probaudit can be saved", type(calibrator).__name__)
    if not hasattr(calibrator, "classes_"):
        raise InputError("calibrator", "must be fitted before it is saved", name)
    learned = {field: getattr(calibrator, field) for field in ("classes_", "n_features_in_", *calibrator._fitted)}
    if hasattr(calibrator, "feature_names_in_"):
        learned["feature_names_in_"] = calibrator.feature_names_in_
    choices = calibrator.get_params(deep=False)
    return {
        "class": name,
        "choices": {field: _encoded(value) for field, value in choices.items()},
        "learned": {field: _encoded(value) for field, value in learned.items()},
        "report": {field: _encoded(value) for field, value in asdict(calibrator.fit_report_).items()},
    }


def _encoded(value: Any) -> Any:
    """Plain JSON: numbers as the shortest text that gives their bits back, arrays with type and shape."""
    if isinstance(value, Calibrator):
        return _encoded_calibrator(value) if hasattr(value, "classes_") else _unfitted(value)
    if isinstance(value, np.ndarray):
        flat = [_encoded(item) for item in value.reshape(-1).tolist()]
        return {"array": flat, "dtype": "object" if value.dtype == object else value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return _encoded(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    raise InputError("calibrator", "holds something that cannot be saved", type(value).__name__)


def _unfitted(calibrator: Calibrator) -> dict[str, Any]:
    choices = {field: _encoded(value) for field, value in calibrator.get_params(deep=False).items()}
    return {"class": type(calibrator).__name__, "choices": choices}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        dtype = np.dtype(value["dtype"])
        if dtype.kind not in "biufUSO":
            raise ValueError(f"arrays of {dtype} are not allowed")
        array = np.array([_decoded(item) for item in value["array"]], dtype)
        return array.reshape([int(size) for size in value["shape"]])
    if "number" in value:
        return float(value["number"])
    calibrator = _class(value["class"])(**{field: _decoded(item) for field, item in value["choices"].items()})
    if "learned" in value:
        allowed = {"classes_", "n_features_in_", "feature_names_in_", *calibrator._fitted}
        for field, item in value["learned"].items():
            if field not in allowed:
                raise ValueError(f"{value['class']} has no part {field!r}")
            setattr(calibrator, field, _decoded(item))
        calibrator.fit_report_ = FitReport(**{field: _decoded(item) for field, item in value["report"].items()})
    return calibrator


def _class(name: Any) -> type[Calibrator]:
    found = named(name) if name in MODULES else None
    if not (isinstance(found, type) and issubclass(found, Calibrator) and found is not Calibrator):
        raise ValueError(f"there is no calibrator called {name!r}")
    return found
