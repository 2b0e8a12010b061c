"""States as bytes: an .npz of arrays with one JSON text beside them. Nothing in such bytes is ever
run."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from numbers import Real
from typing import Any, get_args

import numpy as np

from ..choices.scores import Cost
from ..data.predictions import Kind, OnBadRows
from ..errors import InputError
from .state import Plan

JSON = "json"
TEXT = "text."  # arrays of objects, as JSON lists; with their shape if they have several dimensions


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The same bytes for the same content."""
    kept = {}  # in the given order: it must not depend on which columns have turned out to be text
    for name, array in arrays.items():
        text = array.dtype.kind == "O"
        kept[f"{TEXT}{name}" if text else name] = (
            _text(name, array) if text else np.ascontiguousarray(array)
        )
    head = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **{JSON: head}, **kept)  # type: ignore[arg-type]
    return stream.getvalue()


def unpack(content: bytes, schema: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of bytes that `pack` made; anything else is refused."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            kept = {name: stored[name] for name in stored.files}
        header = json.loads(kept.pop(JSON).tobytes())
        found = header["schema"]
        if not isinstance(found, str):
            raise TypeError(found)
        arrays = {
            name.removeprefix(TEXT): _objects(a) if name.startswith(TEXT) else a
            for name, a in kept.items()
        }
    except Exception:  # whatever zip, numpy and JSON raise; what they advise is not for these files
        raise InputError(
            "state", f"must be a whole file of the form {schema}", "damaged, or something else"
        ) from None
    if found != schema:
        raise InputError("state", f"must be of the form {schema}", repr(found))
    return header, arrays


def _objects(text: np.ndarray) -> np.ndarray:
    """What `_text` wrote down."""
    values = json.loads(text.tobytes())
    shape, values = (
        (values["shape"], values["values"]) if isinstance(values, dict) else (len(values), values)
    )
    array = np.empty(len(values), object)
    array[:] = [np.nan if value == {"nan": 1} else value for value in values]
    return array.reshape(shape)


def _text(name: str, array: np.ndarray) -> np.ndarray:
    flat = array.reshape(-1).tolist()
    odd = next(
        (
            value
            for value in flat
            if not (value is None or isinstance(value, (str, bool, int, float)))
        ),
        None,
    )
    if odd is not None:
        rule = "a column of a state must hold text, numbers, truth values or dates"
        raise InputError("columns", rule, f"{name!r} has {type(odd).__name__}")
    values = [
        {"nan": 1} if isinstance(value, float) and value != value else value for value in flat
    ]
    return np.frombuffer(
        json.dumps(
            values if array.ndim == 1 else {"shape": array.shape, "values": values}
        ).encode(),
        np.uint8,
    )


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    for c in plan.classes:
        if not isinstance(c, (str, bool, int, float)):
            raise InputError(
                "classes", "must be text, numbers or truth values to be stored", repr(c)
            )
    costs = {
        name: {"matrix": cost.matrix.tolist(), "name": cost.name, "decisions": cost.decisions}
        for name, cost in plan.costs.items()
    }
    return {
        "classes": list(plan.classes),
        "kind": plan.kind,
        "weight_exponent": plan.weight_exponent,
        "reject_cost": plan.reject_cost,
        "tolerance": plan.tolerance,
        "on_bad_rows": plan.on_bad_rows,
        "costs": costs,
        "names": dict(plan.names),
    }


def plan_from_dict(stored: Mapping[str, Any]) -> Plan:
    costs = {
        name: Cost(
            np.array(c["matrix"]),
            c["name"],
            None if c["decisions"] is None else tuple(c["decisions"]),
        )
        for name, c in stored["costs"].items()
    }
    plan = Plan(**{**stored, "classes": tuple(stored["classes"]), "costs": costs})
    sound = {
        "classes": plan.n_classes > 1
        and all(isinstance(c, (str, int, float)) for c in plan.classes),
        "kind": plan.kind in get_args(Kind),
        "weight_exponent": plan.weight_exponent is None or type(plan.weight_exponent) is int,
        "reject_cost": isinstance(plan.reject_cost, Real) and 0 <= plan.reject_cost < 1,
        "tolerance": isinstance(plan.tolerance, Real) and 0 <= plan.tolerance < 1,
        "on_bad_rows": plan.on_bad_rows in get_args(OnBadRows),
        "names": all(isinstance(word, str) for pair in dict(plan.names).items() for word in pair),
    }
    for cost in costs.values():
        cost.check_classes(plan.n_classes)
    if not all(sound.values()):
        raise InputError(
            "state",
            "must hold a plan that can be",
            ", ".join(name for name, fine in sound.items() if not fine),
        )
    return plan
