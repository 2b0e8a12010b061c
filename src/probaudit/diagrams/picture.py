"""Pictures as plain data: panels of marks over two axes. Two drawers turn them into matplotlib
figures or Vega-Lite specifications.

Marks have arrays in the units of the axes. A colour is given as a role; the palette maps roles to
colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

Role = Literal[
    "model",  # predictions or decisions of the model
    "observed",  # observed rates
    "reference",  # the diagonal, a baseline, a naive forecast
    "chance",  # range if calibrated
    "over",  # overconfident
    "under",  # underconfident
    "calibration",
    "grouping",
    "rest",
    "density",
    "reject",
]
"""The meaning of a mark. Series of the same kind have the roles `series 0`, `series 1`, ..."""

Columns = Mapping[str, Sequence[object] | np.ndarray]


@dataclass(frozen=True)
class Axis:
    """A numeric axis; or, with `categories`, names at the positions 0, 1, ... from the left or from
    the top."""

    title: str
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Base class of marks: a role, a name for the legend ("" for none), and columns shown on hover,
    with one entry per element."""

    role: str = "model"
    name: str = ""
    detail: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class Line(Mark):
    """A line through points in the given order; with `step`, each value extends to the next x."""

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
    """Points, with vertical intervals if `low` and `high` are given and areas proportional to
    `size` if given. On an axis of categories, x (or y) are category numbers."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    size: np.ndarray | None = None
    across: bool = False  # intervals along x


@dataclass(frozen=True)
class Bars(Mark):
    """Rectangles between `left` and `right`, from `bottom` to `top`."""

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
        """Horizontal bars at the category numbers of the y axis."""
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
        """Vertical bars at the category numbers of the x axis."""
        half = thickness / 2
        return cls(place - half, place + half, start, end, faint, **mark)


@dataclass(frozen=True)
class Rule(Mark):
    """A straight line across the panel: at an x, at a y, or by default the diagonal y = x."""

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
    """Marks over two axes, drawn in order, the first one at the back. `share` is the relative
    height of the panel."""

    marks: tuple[Mark, ...]
    x: Axis
    y: Axis
    title: str = ""
    share: float = 1.0
    square: bool = False


@dataclass(frozen=True)
class Picture:
    """Panels in rows of `columns`, with a title, a caption and a description (alternative text)."""

    panels: tuple[Panel, ...]
    title: str
    description: str
    caption: str = ""
    columns: int = 1

    def titled(self, title: str) -> Picture:
        return replace(self, title=title)
