"""What a pass computes: the plan of a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..choices.lenses import Lens, judged_lens
from ..choices.scores import Cost
from ..data.predictions import Kind, OnBadRows, Predictions
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Plan:
    """What a pass computes. States of equal plans can be merged.

    event : the column of the class that is judged as an event, if there is one.
    weight_exponent : weights are divided by 2^weight_exponent, a power of two not below any of
        them, so that sums are equally precise for any scale of the weights; None without weights. A
        weight below 2^-58 of the largest is lost in the sums.
    """

    classes: tuple[Any, ...]
    kind: Kind = "probabilities"
    weight_exponent: int | None = None
    reject_cost: float = 0.1
    tolerance: float = 1e-5
    on_bad_rows: OnBadRows = "error"
    costs: Mapping[str, Cost] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    ignore_label: Any = None
    event: int | None = None

    @classmethod
    def of(
        cls, rows: Predictions, costs: Mapping[str, Cost] | None = None, reject_cost: float = 0.1
    ) -> Plan:
        """The plan for these rows: their classes, kind, tolerance and scale of weights."""
        if not 0 <= reject_cost < 1:
            raise InputError("reject_cost", "must lie in [0, 1), as an error costs 1", reject_cost)
        for cost in (costs or {}).values():
            if rows.pairs:
                raise InputError(
                    "costs", "require probabilities of all classes, not confidence and correctness"
                )
            cost.check_classes(rows.n_classes)
        return cls(
            classes=rows.class_order,
            kind=rows.kind,
            weight_exponent=None
            if rows.sample_weight is None
            else weight_exponent(rows.sample_weight),
            reject_cost=float(reject_cost),
            tolerance=rows.row_tolerance,
            on_bad_rows=rows.on_bad_rows,
            costs=dict(costs or {}),
            names=rows.names,
            ignore_label=rows.ignore_label,
            event=rows.event_column,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._choices() == other._choices()

    def __hash__(self) -> int:
        return hash(self._choices())

    def _choices(self) -> tuple[object, ...]:
        """Everything except the names; cost matrices by their values, and classes with their types,
        as 1 == True."""
        classes = tuple((type(c), c) for c in self.classes)
        costs = tuple(
            (name, cost.matrix.shape, cost.matrix.tobytes())
            for name, cost in sorted(self.costs.items())
        )
        return (
            classes,
            self.kind,
            self.weight_exponent,
            self.reject_cost,
            self.tolerance,
            self.on_bad_rows,
            costs,
            repr(self.ignore_label),
            self.event,
        )

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def event_class(self) -> Any:
        """The class that is judged as an event, or None."""
        return None if self.event is None else self.classes[self.event]

    @property
    def named_event(self) -> Any:
        """The event, unless it is the default: the second of two classes."""
        return None if (self.event, self.n_classes) == (1, 2) else self.event_class

    @property
    def lens(self) -> Lens:
        """What is judged first: the event, or the most probable class if there is none."""
        return judged_lens(self.event, self.n_classes)

    @property
    def weighted(self) -> bool:
        return self.weight_exponent is not None

    def scaled(self, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights on the plan's scale, at most 1."""
        if (weights is None) != (self.weight_exponent is None):
            raise InputError("sample_weight", "all blocks of a state must have weights, or none")
        if weights is None or self.weight_exponent is None:
            return None
        with np.errstate(over="ignore"):  # a negative weight may overflow; the kernel rejects it
            scaled = np.ldexp(weights, -self.weight_exponent)
        above = np.flatnonzero((scaled > 1) & (scaled < np.inf))
        if len(above):
            rule = f"must not exceed 2^{self.weight_exponent}, the largest weight of the plan"
            raise InputError("sample_weight", rule, weights[above[0]])
        return scaled


def weight_exponent(weights: np.ndarray) -> int:
    """The least e with every finite weight <= 2^e.

    >>> weight_exponent(np.array([0.0, 3.0, 4.0]))
    2
    """
    largest = float(np.max(weights, initial=0.0, where=np.isfinite(weights)))
    mantissa, exponent = np.frexp(largest)
    return int(exponent) - (1 if mantissa == 0.5 else 0)
