"""What every model gives for a batch of inputs: outputs, and features if there are any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from ..data.arrays import as_array, as_numbers
from ..data.predictions import sum_tolerance
from ..errors import InputError

Outputs = Literal["logits", "probabilities", "log_probabilities"]
KINDS = ", ".join(get_args(Outputs))
PENULTIMATE = "penultimate"

Features = np.ndarray | Mapping[str, np.ndarray] | None


class Answer(NamedTuple):
    """The answer of a model for a batch.

    outputs : [n, K], or [n] for the second of two classes; dense outputs are [n, K, ...].
    features : a matrix, or columns by name.
    tolerance : how far a sum of probabilities may be from 1, by the number format of the model.
    """

    outputs: np.ndarray
    features: Features
    tolerance: float

    @classmethod
    def of(cls, outputs: Any, features: Any = None) -> Answer:
        """An answer from arrays or tensors, which are copied. A single column of outputs belongs to
        the second of two classes."""
        values = np.array(as_numbers(outputs, "outputs"))
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if features is not None and not isinstance(features, Mapping):
            rows = np.array(as_array(features, "features"))
            features = rows.reshape(len(rows), -1) if rows.ndim != 2 else rows
        return cls(values, features, sum_tolerance(outputs))


@dataclass(frozen=True)
class Forward:
    """A model that is ready to be asked.

    outputs : what its outputs are. classes : the class of each column, if the model knows it.
    """

    ask: Callable[[Any], Answer]
    outputs: Outputs
    classes: Sequence[Any] | None = None


def checked_outputs(outputs: str | None, default: Outputs | None, whose: str) -> Outputs:
    """What the outputs are: as declared, or the default of this kind of model."""
    if outputs is None and default is None:
        raise InputError("outputs", f"must be declared for {whose}: one of {KINDS}")
    found: Any = default if outputs is None else outputs
    if found not in get_args(Outputs):
        raise InputError("outputs", f"must be one of {KINDS}", repr(outputs))
    return cast(Outputs, found)


def forward_of_function(model: Callable[[Any], Any], layer: Any, outputs: str | None) -> Forward:
    """A callable that returns outputs, or a pair of outputs and features."""
    if layer not in (PENULTIMATE, None):
        rule = "applies to PyTorch modules and pipelines; a callable returns (outputs, features)"
        raise InputError("layer", rule, repr(layer))

    def ask(inputs: Any) -> Answer:
        found = model(inputs)
        pair = isinstance(found, tuple)
        if pair and len(found) != 2:
            rule = "must return outputs, or a pair (outputs, features)"
            raise InputError("model", rule, f"{len(found)} parts")
        values, features = found if pair else (found, None)
        return Answer.of(values, None if layer is None else features)

    return Forward(ask, checked_outputs(outputs, None, "a callable"))
