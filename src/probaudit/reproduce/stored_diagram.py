"""A diagram that was computed before: its picture and its numbers, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Self

import numpy as np

from ..diagrams import picture
from ..diagrams.diagram import Diagram
from ..diagrams.picture import Mark, Picture


@dataclass(frozen=True, eq=False)
class StoredDiagram(Diagram):
    """Any diagram, without the data it was computed from. It draws the same picture."""

    drawn: Picture
    numbers: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, diagram: Diagram) -> Self:
        return cls(diagram.picture(), diagram.columns())

    def picture(self) -> Picture:
        return self.drawn

    def columns(self) -> dict[str, np.ndarray]:
        return dict(self.numbers)

    def to_dict(self) -> dict[str, Any]:
        return {"picture": _encoded(self.drawn), "columns": _encoded(self.numbers)}

    @classmethod
    def of_dict(cls, stored: Mapping[str, Any]) -> Self:
        columns = {name: _array(column) for name, column in stored["columns"].items()}
        return cls(_decoded(stored["picture"]), columns)


def _encoded(value: Any) -> Any:
    """Dataclasses as dictionaries with their `kind`, arrays as lists, and NaN as null."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: _encoded(getattr(value, one.name)) for one in fields(value)}
        return {"kind": type(value).__name__} | parts
    if isinstance(value, Mapping):
        return {name: _encoded(part) for name, part in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _encoded(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_encoded(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _decoded(value: Any) -> Any:
    """The inverse of `_encoded`: lists of a mark are arrays, other lists tuples."""
    if isinstance(value, list):
        return tuple(_decoded(part) for part in value)
    if not isinstance(value, dict) or "kind" not in value:
        return value
    kind = getattr(picture, value["kind"])
    parts = {name: part for name, part in value.items() if name != "kind"}
    if issubclass(kind, Mark):
        detail = {name: _array(column) for name, column in parts.pop("detail").items()}
        arrays = {name: _array(p) if isinstance(p, list) else p for name, p in parts.items()}
        return kind(**arrays, detail=detail)
    return kind(**{name: _decoded(part) for name, part in parts.items()})


def _array(column: list[Any]) -> np.ndarray:
    """A column of numbers, with NaN for null; or of other values."""
    numbers = [float(v) if v in ("inf", "-inf") else v for v in column]
    if all(isinstance(v, (int, float)) or v is None for v in numbers):
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in numbers)
        return np.array(numbers, np.int64 if whole and numbers else np.float64)
    return np.array(column, object)
