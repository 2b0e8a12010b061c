"""Marks as matplotlib artists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .matplotlib_text import escaped
from .palette import FAINT, shape
from .picture import Band, Bars, Line, Mark, Panel, Points, Rule, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = (0, (4, 3))
LARGEST_POINT = 1.8  # diameter, in multiples of lines.markersize
SMALLEST_POINT = 0.2  # area, as a share of the largest
MARKERS: dict[str, Any] = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "cross": "P",
    "triangle-down": "v",
    "triangle-up": "^",
    "triangle-right": ">",
    "tick": ((-0.2, -1), (0.2, -1), (0.2, 1), (-0.2, 1)),  # upright
}
THIN = 0.75  # of references and intervals, in multiples of lines.linewidth
ASIDE = 4  # points, from the right end of the axes to a label in the margin
KEYWORDS = (
    "line_kw",
    "marker_kw",
    "interval_kw",
    "band_kw",
    "bar_kw",
    "reference_kw",
    "hist_kw",
    "text_kw",
    "legend_kw",
)


def keys_of(mark: Mark) -> tuple[str, ...]:
    """The options that style the artists of a mark."""
    if mark.role == "density":
        return ("hist_kw",)
    if isinstance(mark, Points):
        return ("marker_kw",) if mark.low is None else ("marker_kw", "interval_kw")
    if isinstance(mark, Rule) or (isinstance(mark, Line) and mark.role == "reference"):
        return ("reference_kw",)
    if isinstance(mark, Bars):
        return ("band_kw",) if mark.faint else ("bar_kw",)
    return ({Line: "line_kw", Band: "band_kw", Text: "text_kw"}[type(mark)],)


def check_keywords(marks: list[Mark], keywords: dict[str, Any]) -> None:
    known = {key for mark in marks for key in keys_of(mark)} | {"legend_kw"}
    for key, value in keywords.items():
        if key not in KEYWORDS:
            raise TypeError(f"plot() got an unexpected keyword argument {key!r}")
        if value is not None and key not in known:
            usable = ", ".join(f"`{key}`" for key in KEYWORDS if key in known)
            raise InputError(
                key,
                "must be None for a diagram without such marks",
                value,
                way_out=(f"use one of {usable}",),
            )


def draw_mark(
    mark: Mark, panel: Panel, ax: Axes, paint: dict[str, Any], keywords: dict[str, Any]
) -> list[Any]:
    """The artists of a mark. `keywords`: the options of `keys_of`."""
    from matplotlib import rcParams

    thin = {"linewidth": THIN * rcParams["lines.linewidth"]}
    (first, *_) = keywords.values()
    if isinstance(mark, Line):
        style: dict[str, Any] = {"linestyle": DASHES, **thin} if mark.dashed else {}
        style["drawstyle"] = "steps-post" if mark.step else "default"
        (line,) = ax.plot(mark.x, mark.y, **style, **paint)
        line.set(**first)
        return [line]
    if isinstance(mark, Band):
        band = ax.fill_between(mark.x, mark.low, mark.high, alpha=FAINT, linewidth=0, **paint)
        band.set(**first)
        return [band]
    if isinstance(mark, Points):
        found: list[Any] = []
        if mark.low is not None and mark.high is not None:
            lines, fixed = (ax.hlines, mark.y) if mark.across else (ax.vlines, mark.x)
            found.append(lines(fixed, mark.low, mark.high, **thin, **paint | {"label": "_"}))
            found[0].set(**keywords["interval_kw"])
        style = {"s": areas(mark.size), "clip_on": not panel.contains(mark)}
        style["marker"] = MARKERS[shape(mark.role)]
        if mark.hollow:
            edge = paint["color"]
            style |= {"facecolors": ax.get_facecolor(), "edgecolors": edge, **thin}
            paint = {name: value for name, value in paint.items() if name != "color"}
        else:
            style["linewidths"] = 0
        return [*found, ax.scatter(mark.x, mark.y, **style | paint | first)]
    if isinstance(mark, Bars):
        height, width = mark.top - mark.bottom, mark.right - mark.left
        inside = mark.role == "density" and panel.histogram_top > 0
        style = {"align": "edge", "linewidth": 0, "alpha": FAINT if mark.faint or inside else 0.9}
        bars = ax.bar(mark.left, height, width, mark.bottom, **style, **paint)
        for bar in bars:
            bar.set(**first)
        return [bars]
    if isinstance(mark, Rule):
        style = {"linestyle": DASHES, **thin, **paint}
        if mark.x is not None:
            rule = ax.axvline(mark.x, **style)
        elif mark.y is not None:
            rule = ax.axhline(mark.y, **style)
        else:
            (rule,) = ax.plot(panel.diagonal(), panel.diagonal(), **style)
        rule.set(**first)
        return [rule]
    assert isinstance(mark, Text)
    align = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    style = {"ha": align, "va": "center", "fontsize": "small", "zorder": 5}
    if mark.role != "model":
        style["color"] = paint["color"]
    if mark.x is None:
        at = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        aside: dict[str, Any] = {"annotation_clip": False, "xytext": (ASIDE, 0)} | at
        text: Any = ax.annotate(escaped(mark.text), (1.0, mark.y), **aside, **style)
    else:
        text = ax.text(mark.x, mark.y, escaped(mark.text), **style)
    text.set(**first)
    return [text]


def move(artists: list[Any], mark: Mark) -> None:
    """Move the artists of a mark to its place, with all their other properties."""
    if isinstance(mark, Bars):
        (bars,) = artists
        size = mark.right - mark.left, mark.top - mark.bottom
        for bar, *bounds in zip(bars, mark.left, mark.bottom, *size, strict=True):
            bar.set_bounds(*bounds)
    elif isinstance(mark, Points):
        *intervals, points = artists
        points.set_offsets(np.column_stack([mark.x, mark.y]))
        for lines in intervals:
            fixed = mark.y if mark.across else mark.x
            ends = [np.column_stack([fixed, np.asarray(end)]) for end in (mark.low, mark.high)]
            segments = np.stack(ends, axis=1)
            lines.set_segments(segments[..., ::-1] if mark.across else segments)
    elif isinstance(mark, Line):
        artists[0].set_data(mark.x, mark.y)
    elif isinstance(mark, Band):
        low, high = (np.column_stack([mark.x, end]) for end in (mark.low, mark.high))
        artists[0].set_verts([np.vstack([low, high[::-1]])])


def areas(size: np.ndarray | None) -> Any:
    """The areas of points, in pt^2; the default area without sizes."""
    from matplotlib import rcParams

    if size is None:
        return rcParams["lines.markersize"] ** 2
    largest = (LARGEST_POINT * rcParams["lines.markersize"]) ** 2
    return largest * np.maximum(size, SMALLEST_POINT)
