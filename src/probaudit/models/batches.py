"""Batches of inputs and labels: from a loader, or from arrays in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data.arrays import as_array, named_columns
from ..errors import Argument, InputError

BATCH_SIZE = 1024


class Batch(NamedTuple):
    """The inputs of some rows, their labels, and other values per row by name."""

    inputs: Any
    labels: np.ndarray
    columns: dict[str, np.ndarray]

    @classmethod
    def of(cls, parts: Any, argument: str) -> Batch:
        """A batch from a pair (inputs, labels), or a triple with a mapping of columns."""
        if not isinstance(parts, Sequence) or isinstance(parts, str) or len(parts) not in (2, 3):
            size = f" of {len(parts)}" if isinstance(parts, Sequence) else ""
            raise InputError(
                argument,
                "a batch must be (inputs, labels) or (inputs, labels, columns)",
                f"{type(parts).__name__}{size}",
                way_out=(
                    "pass all rows as a tuple (inputs, labels), or ",
                    Argument("batch"),
                    ", a function that turns a batch of a loader into such a pair",
                ),
            )
        inputs, labels, *rest = parts
        columns = named_columns(rest[0], "columns") if rest else {}
        if columns is None:
            rule = "columns must be a frame, or a mapping of names to arrays"
            raise InputError(argument, rule, type(rest[0]).__name__)
        # Copied: labels of a loader's processes live in shared memory, which has few places.
        array = np.array(as_array(labels, "labels"))
        one = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        return cls(inputs, one, {name: np.array(column) for name, column in columns.items()})


@dataclass(frozen=True)
class Batches:
    """The batches of a data set.

    data : a tuple (inputs, labels) or (inputs, labels, columns) for all rows, of which `batch_size`
        rows form a batch; anything else is iterated over, and its items are batches.
    batch : turns an item into a pair or triple.
    """

    data: Any
    batch: Callable[[Any], Any] | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.data, tuple)
        if self.batch is not None and whole:
            raise InputError("batch", "must not be given with a tuple (inputs, labels)")
        if self.batch_size is not None and not whole:
            rule = "must not be given with a loader, which has its own batches"
            raise InputError("batch_size", rule, self.batch_size)
        if self.batch_size is not None and self.batch_size < 1:
            raise InputError("batch_size", "must be at least 1", self.batch_size)
        if not whole and not hasattr(self.data, "__iter__"):
            rule = "must be a loader, or a tuple (inputs, labels)"
            raise InputError("data", rule, type(self.data).__name__)

    @property
    def count(self) -> int | None:
        """The number of batches, if it is known."""
        if isinstance(self.data, tuple):
            return -(-len(Batch.of(self.data, "data").labels) // (self.batch_size or BATCH_SIZE))
        return len(self.data) if hasattr(self.data, "__len__") else None

    def __iter__(self) -> Iterator[Batch]:
        if not isinstance(self.data, tuple):
            for item in self.data:
                if self.batch is None:
                    yield Batch.of(item, "data")
                else:
                    yield Batch.of(self.batch(item), "batch")
            return
        inputs, labels, columns = Batch.of(self.data, "data")
        for name, part in {"labels": labels, **columns}.items():
            if len(part) != _length(inputs):
                rule = f"{name} must have one value for each row ({_length(inputs)})"
                raise InputError("data", rule, len(part))
        for first in range(0, len(labels), size := self.batch_size or BATCH_SIZE):
            rows = slice(first, first + size)
            some = {name: column[rows] for name, column in columns.items()}
            yield Batch(_rows(inputs, rows), labels[rows], some)


def _length(inputs: Any) -> int:
    """The number of rows of inputs: of an array, a frame, a list, or a mapping of arrays."""
    if isinstance(inputs, Mapping):
        return _length(next(iter(inputs.values())))
    return int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)


def _rows(inputs: Any, rows: slice) -> Any:
    if isinstance(inputs, Mapping):
        return {name: _rows(part, rows) for name, part in inputs.items()}
    return inputs.iloc[rows] if hasattr(inputs, "iloc") else inputs[rows]
