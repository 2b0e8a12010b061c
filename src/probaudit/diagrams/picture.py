"""Pictures as plain data: panels of marks over two axes. Two drawers turn them into matplotlib
figures or Vega-Lite specifications.

Marks have arrays in the units of the axes. A mark has a role, which the palette maps to a colour.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

Role = Literal[
    "model",  # predictions or decisions of the model
    "observed",  # observed rates
    "original",  # before recalibration
    "recalibrated",
    "reference",  # the diagonal, a baseline
    "null",  # range if calibrated
    "limit",  # limit if calibrated, a tick across the axis
    "over",  # predicted too high
    "under",  # predicted too low
    "mixed",  # misjudged, in both directions
    "agrees",  # not found to be misjudged
    "thin",  # too few rows to tell
    "calibration",
    "grouping",
    "rest",
    "density",
    "sharpness",
    "reject",
]
"""The meaning of a mark. Series of the same kind have the roles `series 0`, `series 1`, ..."""

Columns = Mapping[str, Sequence[object] | np.ndarray]
Side = Literal["x", "y"]
MARGIN = 0.04  # on each side of the marks, as a share of their range
HISTOGRAM = 0.18  # height of a histogram inside a panel, as a share of the panel
CONTEXT = frozenset(
    {"reference", "null", "limit", "rest", "density"}
)  # roles that are not of the model
JUDGED = frozenset({"over", "under", "mixed", "agrees", "thin"})  # kinds of observed rates


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
class Mark(ABC):
    """Base class of marks: a role, a name for the legend ("" for none), and columns shown on hover,
    with one entry per element."""

    role: str = "model"
    name: str = ""
    detail: Columns = field(default_factory=dict)

    @abstractmethod
    def values(self, side: Side) -> np.ndarray:
        """The values of the mark along an axis, which must show them."""

    @property
    def series(self) -> str:
        """The curve or bars of the model that this mark belongs to; "" for other marks, such as a
        baseline. Judged points belong to the observed rates."""
        if self.role in CONTEXT or isinstance(self, (Text, Rule)) or getattr(self, "faint", False):
            return ""
        return "observed" if self.role in JUDGED | {"sharpness"} else self.role


@dataclass(frozen=True)
class Line(Mark):
    """A line through points in the given order; with `step`, each value extends to the next x."""

    x: np.ndarray
    y: np.ndarray
    dashed: bool = False
    step: bool = False

    def values(self, side: Side) -> np.ndarray:
        return np.asarray(getattr(self, side), float)


@dataclass(frozen=True)
class Band(Mark):
    """The area between two curves."""

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def values(self, side: Side) -> np.ndarray:
        return np.asarray(self.x, float) if side == "x" else np.r_[self.low, self.high]


@dataclass(frozen=True)
class Points(Mark):
    """Points. With `low` and `high` they have intervals, vertical unless `across`; with `size`,
    areas as shares of the largest area. On an axis of categories, x (or y) are category numbers.
    The role sets the shape (see `palette.shape`)."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    size: np.ndarray | None = None
    across: bool = False  # intervals along x
    hollow: bool = False

    def values(self, side: Side) -> np.ndarray:
        own = np.asarray(getattr(self, side), float)
        along = self.low is not None and self.high is not None and (side == "x") == self.across
        return np.r_[own, self.low, self.high] if along else own


@dataclass(frozen=True)
class Bars(Mark):
    """Rectangles between `left` and `right`, from `bottom` to `top`."""

    left: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    top: np.ndarray
    faint: bool = False

    def values(self, side: Side) -> np.ndarray:
        return np.r_[self.left, self.right] if side == "x" else np.r_[self.bottom, self.top]

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

    def values(self, side: Side) -> np.ndarray:
        at = self.x if side == "x" else self.y
        return np.zeros(0) if at is None else np.array([float(at)])


@dataclass(frozen=True)
class Text(Mark):
    """A label at a point; without x, in the right margin of the panel, where it covers no mark. A
    role other than "model", the default, gives it a colour."""

    x: float | None
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"

    def values(self, side: Side) -> np.ndarray:
        at = getattr(self, side)
        return np.zeros(0) if at is None else np.array([float(at)])


@dataclass(frozen=True)
class Panel:
    """Marks over two axes, drawn in order, the first one at the back. `share` is the relative
    height of the panel. A `histogram` shows the outputs below the panel before it; a panel that
    has taken it in has its `histogram_top`, the upper end of its axis. By its `key`, the panel of
    another model finds its place over this one.

    >>> line = Line(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    >>> Panel((line,), Axis("x", 0, 1), Axis("y", high=3)).extent("y")
    (0.96, 3.0)
    """

    marks: tuple[Mark, ...]
    x: Axis
    y: Axis
    title: str = ""
    share: float = 1.0
    square: bool = False
    histogram: bool = False
    histogram_top: float = 0.0
    key: str = ""

    def extent(self, side: Side) -> tuple[float, float]:
        """The range of an axis: its given ends, else the range of the marks with a margin (none
        below bars)."""
        axis = self.x if side == "x" else self.y
        if axis.categories is not None:
            return -0.5, len(axis.categories) - 0.5
        if axis.low is not None and axis.high is not None:
            return float(axis.low), float(axis.high)
        low, high = self._range_of_marks(side, log=axis.scale == "log")
        return (
            low if axis.low is None else float(axis.low),
            high if axis.high is None else float(axis.high),
        )

    def _range_of_marks(self, side: Side, *, log: bool) -> tuple[float, float]:
        shown = np.concatenate([np.zeros(0), *(mark.values(side) for mark in self.marks)])
        shown = shown[np.isfinite(shown) & ((shown > 0) | (not log))]
        if not len(shown):
            shown = np.array([0.1, 1.0]) if log else np.array([0.0, 1.0])
        low, high = float(shown.min()), float(shown.max())
        on_bars = side == "y" and low in {
            float(mark.bottom.min())
            for mark in self.marks
            if isinstance(mark, Bars) and len(mark.bottom)
        }
        start, stop = (np.log(low), np.log(high)) if log else (low, high)
        margin = MARGIN * (stop - start or abs(start) or 1.0)
        start, stop = start - margin * (not on_bars), stop + margin
        return (float(np.exp(start)), float(np.exp(stop))) if log else (start, stop)

    def diagonal(self) -> tuple[float, float]:
        """The ends of the line y = x within the panel."""
        x, y = self.extent("x"), self.extent("y")
        return max(x[0], y[0]), min(x[1], y[1])

    def with_histogram(self, below: Panel) -> Panel:
        """This panel, with a histogram scaled to fit along its bottom, behind the other marks."""
        (low, high), top = self.extent("y"), below.extent("y")[1]
        scale = HISTOGRAM * (high - low) / top
        bars = tuple(scaled(mark, 0.0, scale, low) for mark in below.marks)
        return replace(self, marks=(*bars, *self.marks), histogram_top=top)

    def contains(self, points: Points) -> bool:
        """Whether all points lie within the axes. Then points at the edge are not clipped."""
        (left, right), (low, high) = self.extent("x"), self.extent("y")
        inside = (points.x >= left) & (points.x <= right) & (points.y >= low) & (points.y <= high)
        return bool(np.all(inside))


def scaled(mark: Mark, base: float, scale: float, start: float | None = None) -> Mark:
    """A mark of a histogram with heights above `base` multiplied by `scale`, and drawn from `start`
    upwards (by default from `base`)."""
    heights = ("bottom", "top") if isinstance(mark, Bars) else ("low", "high", "y")
    start = base if start is None else start
    found: dict[str, Any] = {
        name: start + scale * (np.asarray(getattr(mark, name)) - base)
        for name in heights
        if hasattr(mark, name)
    }
    return replace(mark, **found)


@dataclass(frozen=True)
class Picture:
    """Panels in rows of `columns`, with a title, a caption and a description (alternative text).
    `alone` says why no other model can be drawn over this one; "" if that is possible."""

    panels: tuple[Panel, ...]
    title: str
    description: str
    caption: str = ""
    columns: int = 1
    alone: str = ""

    @property
    def series(self) -> list[str]:
        """The curves and bars of the model, in order."""
        marks = [mark for panel in self.panels for mark in panel.marks]
        return [name for name in dict.fromkeys(mark.series for mark in marks) if name]

    @property
    def one_colour(self) -> bool:
        """Whether all marks of a model can have the same colour: those of a single curve, or bars
        that the axis names."""
        named = any(mark.name for panel in self.panels for mark in panel.marks if mark.series)
        on_names = all(panel.y.categories or panel.x.categories for panel in self.panels)
        return len(self.series) == 1 or (on_names and not named)

    def folded(self, hist: bool = True) -> Picture:
        """The picture with each histogram inside the panel above it, or without histograms."""
        panels: list[Panel] = []
        for panel in self.panels:
            if panel.histogram:
                above = replace(panels[-1], x=panel.x)
                panels[-1] = above.with_histogram(panel) if hist else above
            else:
                panels.append(panel)
        return replace(self, panels=tuple(panels))
