"""The ranges of axes, shared by both drawers."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .picture import Band, Bars, Line, Mark, Panel, Points, Rule, Text

MARGIN = 0.04  # on each side, as a share of the range


def extent(panel: Panel, side: Literal["x", "y"]) -> tuple[float, float]:
    """The range of an axis: its given ends, else the range of the marks with a margin (none below
    bars).

    >>> from probaudit.diagrams.picture import Axis
    >>> line = Line(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    >>> extent(Panel((line,), Axis("x", 0, 1), Axis("y", high=3)), "y")
    (0.96, 3.0)
    """
    axis = panel.x if side == "x" else panel.y
    if axis.categories is not None:
        return -0.5, len(axis.categories) - 0.5
    if axis.low is not None and axis.high is not None:
        return float(axis.low), float(axis.high)
    shown = np.concatenate([np.zeros(0), *(_mark_values(mark, side) for mark in panel.marks)])
    shown = shown[np.isfinite(shown) & ((shown > 0) | (axis.scale == "linear"))]
    if not len(shown):
        shown = np.array([0.1, 1.0]) if axis.scale == "log" else np.array([0.0, 1.0])
    low, high = float(shown.min()), float(shown.max())
    flush = _bar_bottoms(panel, side)
    ends = (low, high) if axis.scale == "linear" else (np.log(low), np.log(high))
    span = ends[1] - ends[0] or abs(ends[0]) or 1.0
    ends = (ends[0] - MARGIN * span * (low not in flush), ends[1] + MARGIN * span)
    low, high = ends if axis.scale == "linear" else (float(np.exp(ends[0])), float(np.exp(ends[1])))
    return (
        low if axis.low is None else float(axis.low),
        high if axis.high is None else float(axis.high),
    )


def diagonal(panel: Panel) -> tuple[float, float]:
    """The ends of the line y = x within the panel."""
    x, y = extent(panel, "x"), extent(panel, "y")
    return max(x[0], y[0]), min(x[1], y[1])


def inside(mark: Points, panel: Panel) -> bool:
    """Whether all points lie within the axes; then points at the edge are not clipped."""
    (left, right), (low, high) = extent(panel, "x"), extent(panel, "y")
    return bool(np.all((mark.x >= left) & (mark.x <= right) & (mark.y >= low) & (mark.y <= high)))


def _bar_bottoms(panel: Panel, side: str) -> set[float]:
    """The bottoms of bars, below which there is no margin."""
    return {
        float(mark.bottom.min())
        for mark in panel.marks
        if isinstance(mark, Bars) and side == "y" and len(mark.bottom)
    }


def _mark_values(mark: Mark, side: str) -> np.ndarray:
    """The values of a mark along an axis."""
    if isinstance(mark, Line):
        return np.asarray(mark.x if side == "x" else mark.y, float)
    if isinstance(mark, Band):
        return np.asarray(mark.x, float) if side == "x" else np.r_[mark.low, mark.high]
    if isinstance(mark, Bars):
        return np.r_[mark.left, mark.right] if side == "x" else np.r_[mark.bottom, mark.top]
    if isinstance(mark, Points):
        own = np.asarray(mark.x if side == "x" else mark.y, float)
        along = mark.low is not None and mark.high is not None and (side == "x") == mark.across
        return np.r_[own, mark.low, mark.high] if along else own
    at = (mark.x if side == "x" else mark.y) if isinstance(mark, (Rule, Text)) else None
    return np.zeros(0) if at is None else np.array([float(at)])
