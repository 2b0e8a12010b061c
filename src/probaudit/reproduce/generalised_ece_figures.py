"""Diagrams of quantities by method, with intervals over trials (Kirchenbauer et al. 2022, Figures 1
to 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..diagrams.diagram import HIGH, LOW, Diagram, stacked
from ..diagrams.lens_table import grouped
from ..diagrams.picture import Axis, Bars, Mark, Panel, Picture, Points
from ..estimate import Estimate
from ..text import number
from .generalised_ece_trials import Measured, over_trials

SPREAD = "Lines: 95% intervals of the mean over trials."


@dataclass(frozen=True, eq=False)
class BarsByMethod(Diagram):
    """A bar for each quantity and method. `each` : estimates by method, then by quantity."""

    each: Mapping[str, Mapping[str, Estimate]]
    title: str
    y: str
    caption: str = SPREAD
    least: float = 0.0  # intervals are drawn from here

    @classmethod
    def of(
        cls,
        measured: Measured,
        quantities: Mapping[str, str],
        title: str,
        y: str,
        caption: str = SPREAD,
        *,
        change: bool = False,
        without: Sequence[str] = (),
    ) -> BarsByMethod:
        """From quantities, each with the name that the diagram shows.

        change : the change from the base model. without : methods that are not shown.
        """
        numbers = measured.change if change else measured.mean
        each = {
            method: {name: numbers(method, q) for q, name in quantities.items()}
            for method in measured.methods
            if method not in without
        }
        return cls(each, title, y, caption, -math.inf if change else 0.0)

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(next(iter(self.each.values())))

    def _numbers(self, method: str) -> dict[str, np.ndarray]:
        found = self.each[method].values()
        ends = np.array([(float(x), x.low, x.high) for x in found]).T
        return dict(zip(("value", LOW, HIGH), ends, strict=True))

    def columns(self) -> dict[str, np.ndarray]:
        names = {"quantity": np.array(self.quantities, object)}
        return stacked("method", {method: names | self._numbers(method) for method in self.each})

    def picture(self) -> Picture:
        marks: list[Mark] = []
        places = grouped(len(self.quantities), len(self.each))
        for s, (method, (at, width)) in enumerate(zip(self.each, places, strict=True)):
            numbers = self._numbers(method)
            value, low, high = numbers.values()
            detail = {"method": [method] * len(value), "quantity": self.quantities} | numbers
            ends = np.minimum(0, value), np.maximum(0, value)
            marks.append(
                Bars.upright(
                    at,
                    *ends,
                    thickness=0.9 * width,
                    role=f"series {s}",
                    name=method,
                    detail=detail,
                )
            )
            marks.append(Points(at, value, np.maximum(low, self.least), high, role="reference"))
        panel = Panel(tuple(marks), Axis("", categories=self.quantities), Axis(self.y), share=0.7)
        return Picture((panel,), self.title, self._description(), self.caption)

    def _description(self) -> str:
        words = [
            f"{quantity}: " + ", ".join(f"{m} {number(x[quantity], 3)}" for m, x in self._items())
            for quantity in self.quantities
        ]
        return f"{self.title}. {'; '.join(words)}."

    def _items(self) -> list[tuple[str, Mapping[str, Estimate]]]:
        return list(self.each.items())


@dataclass(frozen=True, eq=False)
class AgainstUsual(Diagram):
    """Quantities against the usual one: a panel for each quantity, a point for each method and
    trial.

    correlation : the rank correlation over methods in each trial, by quantity.
    """

    measured: Measured
    name: str
    usual: str
    correlation: Mapping[str, np.ndarray]

    def columns(self) -> dict[str, np.ndarray]:
        trials, methods, _ = self.measured.values.shape
        found = {
            "trial": np.repeat(np.arange(trials), methods),
            "method": np.tile(np.array(self.measured.methods, object), trials),
        }
        return found | {
            quantity: self.measured.values[:, :, k].reshape(-1)
            for k, quantity in enumerate(self.measured.quantities)
        }

    def picture(self) -> Picture:
        panels = [self._panel(quantity) for quantity in self.correlation]
        listed = "; ".join(
            f"{quantity} {number(values.mean(), 2)}"
            for quantity, values in self.correlation.items()
        )
        return Picture(
            tuple(panels),
            f"{self.name}: does the {self.usual} predict the others?",
            f"Quantities of each method and trial against the {self.usual}. Mean rank correlations"
            f" over methods: {listed}.",
            "A point is a method in a trial. In the titles: the rank correlation over methods, mean"
            " of the trials.",
            columns=3,
        )

    def _panel(self, quantity: str) -> Panel:
        marks = tuple(
            Points(
                self.measured[method, self.usual],
                self.measured[method, quantity],
                role=f"series {s}",
                name=method,
                detail={
                    "method": [method] * len(self.measured.values),
                    self.usual: self.measured[method, self.usual],
                    quantity: self.measured[method, quantity],
                },
            )
            for s, method in enumerate(self.measured.methods)
        )
        mean = over_trials(self.correlation[quantity])
        title = f"{quantity} ({number(mean, 2)})"
        return Panel(marks, Axis(self.usual, 0.0), Axis("", 0.0), title=title)
