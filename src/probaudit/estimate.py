"""A number with its interval and its definition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .text import counted


class Estimate(float):
    """A float with its 95% interval, its number of rows and its definition.

    per_class : the value of each class, by name. naive : the value of the base-rate forecast.
    infinite_rows : rows that gave their true class probability 0.
    debiased : for a calibration error, an estimate of the error of the population. The interval is
        for that error.

    >>> x = Estimate(0.25, low=0.2, high=0.3, n=100, definition="mean of something")
    >>> x + 1, x.interval
    (1.25, (0.2, 0.3))
    """

    low: float
    high: float
    n: int
    definition: str
    per_class: Mapping[Any, float]
    naive: float
    infinite_rows: int
    debiased: float

    def __new__(
        cls,
        value: float,
        *,
        low: float = math.nan,
        high: float = math.nan,
        n: int = 0,
        definition: str = "",
        per_class: Mapping[Any, float] | None = None,
        naive: float = math.nan,
        infinite_rows: int = 0,
        debiased: float = math.nan,
    ) -> Estimate:
        self = super().__new__(cls, value)
        self.low, self.high = float(low), float(high)
        self.n, self.definition = int(n), definition
        self.per_class, self.naive = dict(per_class or {}), float(naive)
        self.infinite_rows = int(infinite_rows)
        self.debiased = float(debiased)
        return self

    @property
    def value(self) -> float:
        return float(self)

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def error_bar(self) -> tuple[float, float, float]:
        """The value, and its interval extended to include it. A calibration error is biased
        upwards and may lie outside the interval, which is for the error of the population.

        >>> Estimate(0.5, low=0.1, high=0.4).error_bar
        (0.5, 0.1, 0.5)
        """
        value = float(self)  # the second argument, so that NaN ends remain
        return value, min(self.low, value), max(self.high, value)

    def moved_to(self, value: float, *, scale: float = 1.0, words: str = "") -> Estimate:
        """An estimate of another value. Its interval moves along, divided by `scale`, and its
        definition ends in `words`.

        >>> Estimate(0.5, low=0.1, high=0.7, n=9).moved_to(1.0, scale=2).interval
        (0.8, 1.1)
        """
        low, high = (value + (end - float(self)) / scale for end in self.interval)
        return Estimate(
            value,
            low=low,
            high=high,
            n=self.n,
            definition=self.definition + words,
            infinite_rows=self.infinite_rows,
        )

    def __repr__(self) -> str:
        text = f"{float(self):.6g}"
        if math.isfinite(self.low):
            text += f" [{self.low:.6g}, {self.high:.6g}]"
        if self.infinite_rows:
            whose = "its" if self.infinite_rows == 1 else "their"
            text += f" ({counted(self.infinite_rows)} gave {whose} true class probability 0)"
        return f"{text}  {self.definition}, n = {self.n:,}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (float(self), dict(self.__dict__))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON. Values that are not finite become null."""

        def finite(x: float) -> float | None:
            return x if math.isfinite(x) else None

        fields: dict[str, Any] = {
            "value": finite(float(self)),
            "low": finite(self.low),
            "high": finite(self.high),
            "n": self.n,
            "definition": str(self.definition),
        }
        if math.isfinite(self.naive):
            fields["naive"] = self.naive
        if math.isfinite(self.debiased):
            fields["debiased"] = self.debiased
        if self.infinite_rows:
            fields |= {"infinite": math.isinf(self), "infinite_rows": self.infinite_rows}
        if self.per_class:
            fields["per_class"] = {
                str(name): finite(value) for name, value in self.per_class.items()
            }
        return fields


def _rebuild(value: float, parts: dict[str, Any]) -> Estimate:
    return Estimate(value, **parts)
