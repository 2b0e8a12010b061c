"""What a diagram draws, as plain data: panels of marks over two axes. Two thin drawers turn it into
matplotlib or Vega-Lite.

Marks hold arrays in the units of the axes. Colours are roles, not values: a drawer's palette says
how a role looks, so that light, dark and print differ only there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

Role = Literal[
    "model",  # what the model states or does
    "observed",  # what happened
    "reference",  # the diagonal, a baseline, a naive forecast
    "chance",  # what a calibrated model would show
    "over",  # too sure of itself
    "under",  # not sure enough
    "calibration",
    "grouping",
    "rest",
    "density",
    "reject",
]
"""What a mark stands for; series of the same kind have a role of the form `series 0`, `series 1`, ..."""

Columns = Mapping[str, Sequence[object] | np.ndarray]


@dataclass(frozen=True)
class Axis:
    """A quantity, or (with `categories`) names in order, each at its number: 0, 1, ... from the
    left, or from the top down."""

    title: str
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What all marks have: a role, a name for the legend ("" for none), and columns to show on
    hover, an entry per element."""

    role: str = "model"
    name: str = ""
    detail: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class Line(Mark):
    """A curve through points in their order; of steps, if `step`, each value holding from its x to
    the next one's."""

    x: np.ndarray
    y: np.ndarray
    dashed: bool = False
    step: bool = False


@dataclass(frozen=True)
class Band(Mark):
    """The area between two curves."""

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Points(Mark):
    """Points, with an interval upright through each if `low` and `high` are given, and areas
    proportional to `size` if given. On an axis of categories x (or y) are the numbers of the
    categories."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    size: np.ndarray | None = None
    across: bool = False  # intervals lie along x


@dataclass(frozen=True)
class Bars(Mark):
    """Rectangles: bars upright between `left` and `right`, from `bottom` to `top`; or the cells of
    a plane."""

    left: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    top: np.ndarray
    faint: bool = False

    @classmethod
    def lying(
        cls,
        place: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        *,
        thickness: float = 0.7,
        faint: bool = False,
        **mark: Any,
    ) -> Bars:
        """Bars that lie along x, one at each number of a category of the y axis."""
        half = thickness / 2
        return cls(start, end, place - half, place + half, faint, **mark)

    @classmethod
    def upright(
        cls,
        place: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        *,
        thickness: float = 0.7,
        faint: bool = False,
        **mark: Any,
    ) -> Bars:
        """Bars that stand, one at each number of a category of the x axis."""
        half = thickness / 2
        return cls(place - half, place + half, start, end, faint, **mark)


@dataclass(frozen=True)
class Rule(Mark):
    """A straight line through the whole panel: at an x, at a y, or (with neither) the diagonal y =
    x."""

    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Text(Mark):
    """A label at a point."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"


@dataclass(frozen=True)
class Panel:
    """Marks over two axes, drawn in order, the first at the back. `share` is its part of the height
    of its column."""

    marks: tuple[Mark, ...]
    x: Axis
    y: Axis
    title: str = ""
    share: float = 1.0
    square: bool = False


@dataclass(frozen=True)
class Picture:
    """Panels in rows of `columns`, with a title, a caption (what to look for) and a description for
    those who cannot see it."""

    panels: tuple[Panel, ...]
    title: str
    description: str
    caption: str = ""
    columns: int = 1

    def titled(self, title: str) -> Picture:
        return replace(self, title=title)
