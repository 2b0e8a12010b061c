"""Thresholds of `check`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError


@dataclass(frozen=True)
class Threshold:
    """A bound on one number of an audit.

    >>> Threshold.parse("accuracy=90%", "min")
    Threshold(name='accuracy', side='min', bound=0.9)
    """

    name: str
    side: Literal["max", "min"]
    bound: float

    @classmethod
    def parse(cls, text: str, side: Literal["max", "min"]) -> Threshold:
        name, equals, value = text.partition("=")
        number = value.strip()
        try:
            bound = float(number[:-1]) / 100 if number.endswith("%") else float(number)
        except ValueError:
            bound = math.nan
        if not equals or not name.strip() or math.isnan(bound):
            raise InputError(
                side,
                "must have the form NAME=VALUE, such as log_score.normalized=0.5 or accuracy=90%",
                repr(text),
            )
        return cls(name.strip(), side, bound)

    @property
    def rule(self) -> str:
        return f"at {'most' if self.side == 'max' else 'least'} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Whether a value is within the bound; NaN never is."""
        return value <= self.bound if self.side == "max" else value >= self.bound


def failures(values: Mapping[str, float], thresholds: Sequence[Threshold]) -> list[Threshold]:
    """The thresholds that do not hold."""
    for threshold in thresholds:
        if threshold.name not in values:
            rule = f"must name one of {', '.join(values)}"
            raise InputError(threshold.side, rule, repr(threshold.name))
    return [threshold for threshold in thresholds if not threshold.holds(values[threshold.name])]
