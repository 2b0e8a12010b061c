"""The threshold slider of a page: plain data for each position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from .page import Table


class Position(NamedTuple):
    """One position of a slider.

    percent : the threshold. ratio : of costs, in the number field.
    label : the rule and the costs in words. words : what happens.
    cells : [rows, columns] of the table.
    """

    percent: int
    ratio: float
    label: str
    words: str
    cells: Sequence[Sequence[str]]


@dataclass(frozen=True)
class ThresholdSlider:
    """A slider over thresholds in percent, with a number field for the ratio of costs, and a table
    of what happens at the chosen one.

    field : the words before and after the number field.
    ends : the words at both ends of the slider.
    headers, names : columns and rows of the table.
    few : the same for a few thresholds, shown in print and without scripts.
    markers : by the name of a figure, the place of its marker at each position.
    """

    kind: ClassVar[str] = "slider"
    name: str
    title: str
    lead: str
    axis: str
    field: tuple[str, str]
    ends: tuple[str, str]
    headers: Sequence[str]
    names: Sequence[str]
    positions: Sequence[Position]
    start: int
    few: Table
    markers: Mapping[str, Sequence[float]]

    @property
    def first(self) -> Position:
        return next(one for one in self.positions if one.percent == self.start)

    @property
    def whole(self) -> Table:
        """The head of the table of all thresholds, whose rows the script of the page adds."""
        return replace(self.few, rows=())

    @property
    def low(self) -> int:
        return self.positions[0].percent

    @property
    def high(self) -> int:
        return self.positions[-1].percent

    @property
    def ratios(self) -> tuple[float, float]:
        """The smallest and the largest ratio."""
        found = [one.ratio for one in self.positions]
        return min(found), max(found)

    def ticks(self) -> list[tuple[int, float]]:
        """Thresholds to label on the axis, and their places in percent of its length."""
        wide = self.high - self.low
        return [
            (at, round(100 * (at - self.low) / wide, 3))
            for at in range(10, 100, 10)
            if self.low <= at <= self.high
        ]

    def data(self) -> dict[str, Any]:
        """What the script of the page needs."""
        return {
            "positions": [one._asdict() for one in self.positions],
            "markers": dict(self.markers),
        }
