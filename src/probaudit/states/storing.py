"""States as bytes: an .npz file of arrays and a JSON header. Nothing in such bytes is ever
executed."""

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
from .plan import Plan
from .row_sample import PLAIN

JSON = "json"
TEXT = "text."  # prefix of arrays of objects, stored as JSON lists


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The same bytes for the same content."""
    kept = {}  # in the given order, which does not depend on which columns contain text
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
    """The header and the arrays from the bytes of `pack`. Raises for anything else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            kept = {name: stored[name] for name in stored.files}
        header = json.loads(kept.pop(JSON).tobytes())
        stored_schema = header["schema"]
        if not isinstance(stored_schema, str):
            raise TypeError(stored_schema)
        arrays = {
            name.removeprefix(TEXT): _objects(a) if name.startswith(TEXT) else a
            for name, a in kept.items()
        }
    except Exception:  # whatever zip, numpy and JSON raise; their advice does not fit these files
        rule = f"must be a complete file in the format {schema}"
        raise InputError("state", rule, "damaged, or another format") from None
    if stored_schema != schema:
        raise InputError("state", f"must be in the format {schema}", repr(stored_schema))
    return header, arrays


def _objects(text: np.ndarray) -> np.ndarray:
    """The array that `_text` stored."""
    values = json.loads(text.tobytes())
    shape, values = (
        (values["shape"], values["values"]) if isinstance(values, dict) else (len(values), values)
    )
    array = np.empty(len(values), object)
    array[:] = [np.nan if value == {"nan": 1} else value for value in values]
    return array.reshape(shape)


def _text(name: str, array: np.ndarray) -> np.ndarray:
    """An array of objects as JSON: a list, with the shape if there are several dimensions."""
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
        rule = "a column of a state must contain text, numbers, booleans or dates"
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
        if not isinstance(c, PLAIN):
            raise InputError("classes", "must be text, numbers or booleans to be stored", repr(c))
    costs = {
        name: {"matrix": cost.matrix.tolist(), "name": cost.name, "decisions": cost.decisions}
        for name, cost in plan.costs.items()
    }
    ignored = plan.ignore_label
    if not (ignored is None or isinstance(ignored, PLAIN)):
        raise InputError("ignore_label", "must be text or a number to be stored", repr(ignored))
    return {
        "classes": list(plan.classes),
        "event": plan.event,
        "kind": plan.kind,
        "weight_exponent": plan.weight_exponent,
        "reject_cost": plan.reject_cost,
        "tolerance": plan.tolerance,
        "on_bad_rows": plan.on_bad_rows,
        "costs": costs,
        "names": dict(plan.names),
    } | ({} if ignored is None else {"ignore_label": ignored})


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
    valid = {
        "classes": plan.n_classes > 1
        and all(isinstance(c, (str, int, float)) for c in plan.classes),
        "event": plan.event is None or plan.event in range(plan.n_classes),
        "kind": plan.kind in get_args(Kind),
        "weight_exponent": plan.weight_exponent is None or type(plan.weight_exponent) is int,
        "reject_cost": isinstance(plan.reject_cost, Real) and 0 <= plan.reject_cost < 1,
        "tolerance": isinstance(plan.tolerance, Real) and 0 <= plan.tolerance < 1,
        "on_bad_rows": plan.on_bad_rows in get_args(OnBadRows),
        "ignore_label": plan.ignore_label is None or isinstance(plan.ignore_label, PLAIN),
        "names": all(isinstance(word, str) for pair in dict(plan.names).items() for word in pair),
    }
    for cost in costs.values():
        cost.check_classes(plan.n_classes)
    if not all(valid.values()):
        invalid = ", ".join(name for name, fine in valid.items() if not fine)
        raise InputError("state", "must contain a valid plan", f"invalid: {invalid}")
    return plan
