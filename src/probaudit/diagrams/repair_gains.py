"""What each calibrator gains out of fold: a dot plot with intervals, the lowest log loss first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ..estimate import Estimate
from ..text import enumerated, percent, short_number
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Mark, Panel, Picture, Points, Rule, Text

GAIN, LOSS = "share of the log loss removed", "log loss / base rate"


@dataclass(frozen=True, eq=False)
class RepairGains(Diagram):
    """The share of the log loss that each calibrator removes, with a 95% interval.

    names : of the calibrators, in order. recommended : which of them is; None if none is.
    left_out : those with an infinite log loss, which have no gain.
    """

    percents: ClassVar[tuple[str, ...]] = (GAIN, LOW, HIGH)
    what: ClassVar[str] = GAIN
    none: ClassVar[float] = 0.0  # the value that is no gain
    title: ClassVar[str] = "Gain of each calibrator"
    axis: ClassVar[str] = "log loss removed (cross-validated)"
    words: ClassVar[str] = "Right of 0, a calibrator lowers the log loss"

    names: tuple[str, ...]
    values: tuple[Estimate, ...]
    recommended: int | None
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Estimate], recommended: str) -> Self | None:
        """None if fewer than two calibrators have a finite value."""
        pairs = zip(names, values, strict=True)
        finite = [(name, value) for name, value in pairs if np.isfinite(value.low)]
        if len(finite) < 2:
            return None
        shown = tuple(name for name, _ in finite)
        place = shown.index(recommended) if recommended in shown else None
        left_out = tuple(name for name in names if name not in shown)
        return cls(shown, tuple(value for _, value in finite), place, left_out)

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "calibrator": np.array(self.names, object),
            self.what: np.array([float(value) for value in self.values]),
            LOW: np.array([value.low for value in self.values]),
            HIGH: np.array([value.high for value in self.values]),
        }

    def picture(self) -> Picture:
        columns, place = self.columns(), np.arange(len(self.names), dtype=float)
        chosen = place == self.recommended
        marks: list[Mark] = [Rule(x=self.none, role="reference")]
        for of, role in ((~chosen, "rest"), (chosen, "recalibrated")):
            if of.any():
                detail = {key: list(column[of]) for key, column in columns.items()}
                marks.append(
                    Points(
                        columns[self.what][of],
                        place[of],
                        columns[LOW][of],
                        columns[HIGH][of],
                        across=True,
                        role=role,
                        detail=detail,
                    )
                )
        marks += [
            Text(None, y, self.label(value), role="recalibrated" if best else "model")
            for y, value, best in zip(place, self.values, chosen, strict=True)
        ]
        across = Axis(self.axis, percent=self.what in self.percents)
        panel = Panel(tuple(marks), across, Axis("", categories=self.names))
        return Picture((panel,), self.title, self._description(), self._caption())

    @staticmethod
    def label(value: Estimate) -> str:
        """The value beside its interval."""
        return percent(value)

    def _caption(self) -> str:
        caption = f"{self.words}; lines are 95% intervals."
        if not self.left_out:
            return caption
        return f"{caption} Not drawn, as the log loss is infinite: {enumerated(self.left_out)}."

    def _description(self) -> str:
        text = f"{self.title}, {len(self.names)} shown. The first: {self.names[0]}, "
        text += self.label(self.values[0])
        if self.recommended is not None:
            text += f". Recommended: {self.names[self.recommended]}"
        return f"{text}."


@dataclass(frozen=True, eq=False)
class RepairLosses(RepairGains):
    """The log loss after each calibrator, divided by that of the base-rate forecast: from an
    infinite log loss, no share can be removed."""

    percents: ClassVar[tuple[str, ...]] = ()
    what: ClassVar[str] = LOSS
    none: ClassVar[float] = 1.0
    title: ClassVar[str] = "Log loss after each calibrator"
    axis: ClassVar[str] = "log loss / base rate (cross-validated)"
    words: ClassVar[str] = "Left of 1, the log loss is lower than that of the base-rate forecast"

    @staticmethod
    def label(value: Estimate) -> str:
        return short_number(value)
