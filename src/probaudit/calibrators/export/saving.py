"""Calibrators as JSON: options and fitted attributes, exact to the last bit. A file contains no
code."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...data.classes import class_list
from ...errors import InputError
from ...files.writing import write_text
from ...version import __version__
from ..base import Calibrator, FitReport
from ..registry import CLASSES, calibrator_class

SCHEMA = "probaudit.calibrator/1"
MOST_BYTES = 2**30  # of a file; a matrix for a thousand classes takes 2^25

# The types of an array's items, by the name of its dtype. Arrays of objects hold labels.
ITEMS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    **{f"{kind}{bits}": (int,) for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (float,) for bits in (16, 32, 64)},
    "str": (str,),
    "object": (str, int, float, bool),
}
REPORT = {"converged": bool, "status": str, "score_before": float, "score_after": float, "n": int}
LABELS = ("classes_", "groups_", "feature_names_in_", "columns_")  # arrays of any type
OPTIONAL = ("feature_names_in_", "columns_")  # names of columns, where these are known
NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # not in JSON


def to_json(calibrator: Calibrator) -> str:
    """A fitted calibrator as JSON, with a fingerprint of its contents."""
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "calibrator": _encoded_calibrator(calibrator, fitted=True),
    }
    return (
        json.dumps(content | {"fingerprint": _fingerprint(content)}, indent=1, allow_nan=False)
        + "\n"
    )


def from_json(text: str) -> Calibrator:
    """The calibrator that `to_json` wrote. Raises if the text is no calibrator or was changed."""
    try:
        content = json.loads(text, parse_constant=_refused)
    except (ValueError, TypeError, RecursionError) as problem:
        raise InputError("text", "must be JSON", str(problem)) from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise InputError("text", f"must be a calibrator ({SCHEMA})", repr(schema)[:80])
    given = content.pop("fingerprint", None)
    if "calibrator" not in content or given != _fingerprint(content):
        rule = "its fingerprint must match its contents: the file was changed"
        raise InputError("text", rule, repr(given)[:80])
    try:
        calibrator = _decoded(content["calibrator"])
        if not (isinstance(calibrator, Calibrator) and hasattr(calibrator, "classes_")):
            raise ValueError("it is not fitted")
    except Exception as problem:  # a forged file can raise any error
        reason = str(problem)[:200] or type(problem).__name__
        raise InputError("text", "must be a valid calibrator", reason) from None
    return calibrator


def save(calibrator: Calibrator, path: str | Path) -> None:
    """Write a fitted calibrator to a JSON file, whole or not at all."""
    write_text(Path(path), to_json(calibrator))


def load(path: str | Path) -> Calibrator:
    """Read a calibrator that `save` wrote. Nothing in the file is executed."""
    try:
        size = Path(path).stat().st_size
        if size > MOST_BYTES:
            raise InputError(
                "path", f"must be a file of at most {MOST_BYTES:,} bytes", f"{path}: {size:,} bytes"
            )
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError("path", "must be a readable JSON file", str(problem)) from None
    return from_json(text)


def fingerprint(calibrator: Calibrator) -> str:
    """Sixteen hexadecimal digits that identify a calibrator, its options and its fitted
    attributes."""
    return _fingerprint({"calibrator": _encoded_calibrator(calibrator, fitted=True)})


def _fingerprint(content: dict[str, Any]) -> str:
    plain = json.dumps(content["calibrator"], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _encoded_calibrator(calibrator: Calibrator, fitted: bool) -> dict[str, Any]:
    name = type(calibrator).__name__
    if name not in CLASSES or type(calibrator) is not calibrator_class(name):
        raise InputError("calibrator", "must be a calibrator of probaudit to be saved", name)
    choices = calibrator.get_params(deep=False)
    if choices["classes"] is not None:
        choices["classes"] = class_list(choices["classes"], "classes")
    content = {
        "class": name,
        "choices": {field: _encoded(value) for field, value in choices.items()},
    }
    if not fitted:
        return content
    fields = ["classes_", "n_features_in_", *calibrator._fitted]
    if not all(hasattr(calibrator, field) for field in (*fields, "fit_report_")):
        raise InputError("calibrator", "must be fitted before it is saved", name)
    fields += [field for field in OPTIONAL if hasattr(calibrator, field)]
    learned = {field: _encoded(getattr(calibrator, field)) for field in fields}
    report = {field: _encoded(value) for field, value in asdict(calibrator.fit_report_).items()}
    return content | {"learned": learned, "report": report}


def _encoded(value: Any) -> Any:
    """A value as JSON: numbers as the shortest text that restores their bits, arrays with dtype and
    shape."""
    if isinstance(value, Calibrator):
        return _encoded_calibrator(value, fitted=hasattr(value, "classes_"))
    if isinstance(value, np.ndarray):
        dtype = "str" if value.dtype.kind == "U" else value.dtype.name
        if dtype not in ITEMS:
            raise InputError(
                "calibrator", "has an attribute that cannot be saved", f"an array of {value.dtype}"
            )
        return {
            "array": [_encoded(item) for item in value.reshape(-1).tolist()],
            "dtype": dtype,
            "shape": list(value.shape),
        }
    if isinstance(value, np.generic):
        return _encoded(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    raise InputError("calibrator", "has an attribute that cannot be saved", type(value).__name__)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _decoded_array(
            [_decoded(item) for item in value["array"]], value["dtype"], value["shape"]
        )
    if "number" in value:
        return NUMBERS[value["number"]]
    choices = {field: _decoded(item) for field, item in value["choices"].items()}
    calibrator = _class(value["class"])(**choices)
    if not isinstance(calibrator.from_logits, bool):
        raise ValueError("from_logits must be true or false")
    if "learned" in value:
        for field, item in value["learned"].items():
            setattr(calibrator, _known(field, calibrator), _decoded(item))
        calibrator.fit_report_ = _report(
            {field: _decoded(item) for field, item in value["report"].items()}
        )
        _check_forms(calibrator)
        calibrator._check_learned()
    return calibrator


def _decoded_array(items: list[Any], dtype: str, shape: list[Any]) -> np.ndarray:
    if not all(type(item) in ITEMS[dtype] for item in items):
        raise ValueError(f"an array of {dtype} has items of another type")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("a shape must have whole numbers")
    return np.array(items, dtype).reshape(shape)


def _report(fields: dict[str, Any]) -> FitReport:
    if not all(type(fields[name]) is kind for name, kind in REPORT.items()):
        raise ValueError("the fit report has a field of the wrong type")
    return FitReport(**fields)


def _known(field: str, calibrator: Calibrator) -> str:
    if field not in ("classes_", "n_features_in_", *OPTIONAL, *calibrator._fitted):
        raise ValueError(f"{type(calibrator).__name__} has no attribute {field!r}")
    return field


def _check_forms(calibrator: Calibrator) -> None:
    """Raise unless all fitted attributes exist and have their form (see `Calibrator`), on which
    compiled loops rely."""
    sizes: dict[str, int] = {}
    forms = {"classes_": ("K",)} | dict(calibrator._fitted)
    if hasattr(calibrator, "feature_names_in_"):
        forms["feature_names_in_"] = (calibrator.n_features_in_,)
    if hasattr(calibrator, "columns_"):
        forms["columns_"] = (None,)
    for field, form in forms.items():
        if not _fits(getattr(calibrator, field), form, sizes, labels=field in LABELS):
            raise ValueError(f"{field} is not in the form of {type(calibrator).__name__}")
    if sizes["K"] < 2 or len(set(calibrator.classes_.tolist())) < sizes["K"]:
        raise ValueError("classes_ must be two or more distinct classes")
    if type(calibrator.n_features_in_) is not int or calibrator.n_features_in_ not in (
        sizes["K"] - 1,
        sizes["K"],
    ):
        raise ValueError("n_features_in_ must be the number of classes, or one less")


def _fits(value: Any, form: Any, sizes: dict[str, int], labels: bool = False) -> bool:
    if isinstance(form, list):
        return isinstance(value, list) and all(
            _fits(item, form[0], sizes, labels=labels) or _is_empty(item) for item in value
        )
    if form is float:
        return type(value) is float and math.isfinite(value)
    if form is Calibrator:
        return (
            isinstance(value, Calibrator)
            and hasattr(value, "classes_")
            and len(value.classes_) == sizes["K"]
        )
    if not isinstance(form, tuple):
        return isinstance(value, form)
    if not isinstance(value, np.ndarray) or value.ndim != len(form):
        return False
    if not labels and not (value.dtype in (np.float64, np.int64) and np.isfinite(value).all()):
        return False
    known = [
        sizes.setdefault(size, n) if isinstance(size, str) else size
        for size, n in zip(form, value.shape, strict=True)
    ]
    return all(
        n > 0 if size is None else n == size for size, n in zip(known, value.shape, strict=True)
    )


def _is_empty(value: Any) -> bool:
    """Whether it is the empty curve of a class without rows."""
    return isinstance(value, np.ndarray) and value.shape == (0,)


def _class(name: Any) -> type[Calibrator]:
    if name not in CLASSES:
        raise ValueError(f"there is no calibrator called {name!r}")
    return calibrator_class(name)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
