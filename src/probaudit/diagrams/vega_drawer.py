"""The drawer for the report: a picture as a Vega-Lite specification.

Colours of marks are in the specification; those of text and axes in a configuration, so that a page
can swap light and dark.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .palette import FAINT, FAINTER, PAPER, colour, shape
from .picture import CONTEXT, Axis, Band, Bars, Line, Mark, Panel, Picture, Points, Rule, Text

DIGITS = 6
WIDEST_NAME = 230  # px, of a category
LETTER = 6.2  # px, average character of a label
MARGIN = 10  # px, right of a panel, before a label
LINE = 26  # px, height of a category
LARGEST_POINT, SMALLEST_POINT, POINT = 300, 81, 81  # px^2
DOT = 42  # px^2, of a circle on an interval along the x axis, which can be short
WIDTH, WIDE = 420, 720  # px, width with one column and with several
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

Theme = Literal["light", "dark"]
Width = int | Literal["container"] | None


def spec(picture: Picture, *, width: Width = None, titled: bool = True) -> dict[str, Any]:
    """A Vega-Lite specification, without configuration.

    width : of the whole picture in pixels, or "container": a picture of one panel then fills its
        container on a page. Vega-Lite cannot resize several panels, so a page must set their widths
        itself. `usermeta` has what it needs: the number of columns, and the width in pixels of the
        y axis beside each panel and of the labels in its right margin.
    titled : whether title and caption are drawn, or left to the page.
    """
    total = (WIDTH if picture.columns == 1 else WIDE) if width in (None, "container") else width
    assert isinstance(total, int)
    beside = max(_beside(panel) for panel in picture.panels)
    after = max(_after(panel) for panel in picture.panels)
    across = max(60, total // picture.columns - beside - after)
    heights = _heights(picture, across)
    panels = [
        _panel(panel, across, height) for panel, height in zip(picture.panels, heights, strict=True)
    ]
    legend = _Legend.of(picture, total)
    if legend.styles:
        panels[0]["layer"].append(legend.layer())
    found: dict[str, Any] = {"description": picture.description, "data": {"values": [{}]}}
    found["usermeta"] = {"columns": picture.columns, "beside": beside, "after": after}
    if titled:
        letters = int(total / LETTER)
        found["title"] = {
            "text": textwrap.wrap(picture.title, int(letters * 0.85)),
            "anchor": "start",
            "frame": "group",
        }
        only = [picture.panels[0].title] if len(panels) == 1 and picture.panels[0].title else []
        if picture.caption or only:
            found["title"]["subtitle"] = textwrap.wrap(picture.caption, letters) + only
    if len(panels) == 1:
        found = panels[0] | found
        found["width"] = "container" if width == "container" else across
        found["autosize"] = {
            "type": "fit-x" if width == "container" else "pad",
            "contains": "padding",
        }
        return found
    found |= {"concat": panels, "columns": picture.columns, "spacing": {"row": 14, "column": 14}}
    found["resolve"] = {"scale": {"color": "shared"}}
    return found


def with_marker(drawn: dict[str, Any], x: float) -> dict[str, Any]:
    """A specification of one panel with a vertical line at x, which the signal `marker` moves."""
    rule = {
        "mark": {"type": "rule", "strokeWidth": 1.5, "clip": True, "color": colour("reference")},
        "encoding": {
            "x": {"datum": {"expr": "marker"}},
            "y": {"value": 0},
            "y2": {"value": "height"},
        },
    }
    return drawn | {"params": [{"name": "marker", "value": x}], "layer": [*drawn["layer"], rule]}


def configured(dark: bool) -> dict[str, Any]:
    """The configuration of text, axes and background, light or dark."""
    light = ("#1a1a1a", "#595959", "#e4e4e4")
    return configuration(*(("#e8e8e8", "#b0b0b0", "#3a3d42") if dark else light))


def configuration(ink: str, soft: str, grid: str) -> dict[str, Any]:
    """The same with given colours of text, secondary text and grid lines, which may be CSS
    variables."""
    return {
        "background": "transparent",
        "font": "system-ui, 'Liberation Sans', Arial, sans-serif",
        "view": {"stroke": grid},
        "axis": {
            "labelColor": soft,
            "titleColor": ink,
            "tickColor": grid,
            "domainColor": grid,
            "gridColor": grid,
            "labelFontSize": 12,
            "labelSeparation": 3,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
        },
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 12,
            "labelLimit": 400,
            "symbolStrokeWidth": 0,
            "labelOffset": 8,  # beside the symbols of lines, which are wider than others
        },
        "title": {
            "color": ink,
            "subtitleColor": soft,
            "fontSize": 14,
            "subtitleFontSize": 12,
            "subtitlePadding": 4,
        },
        "text": {"color": ink, "fontSize": 12},
    }


def document(picture: Picture, *, theme: Theme = "light", width: Width = None) -> dict[str, Any]:
    """A Vega-Lite specification with configuration, which any Vega viewer can show."""
    return {"$schema": SCHEMA, "config": configured(theme == "dark")} | spec(picture, width=width)


AREA, LINE_SHAPE = "square", "M-1.6,-0.18h3.2v0.36h-3.2Z"
DASHES = "".join(f"M{x},-0.14h0.72v0.28h-0.72Z" for x in (-1.6, -0.36, 0.88))
TICK = "M-.2,-1h.4v2h-.4Z"
RING = "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0M-.55,0A.55,.55,0,1,0,.55,0A.55,.55,0,1,0,-.55,0Z"


@dataclass(frozen=True)
class _Legend:
    """Colour and symbol of each legend entry. The colour is faint if all its marks are."""

    styles: dict[str, tuple[str, str]]
    columns: int

    @classmethod
    def of(cls, picture: Picture, width: int) -> _Legend:
        named: dict[str, list[Mark]] = {}
        for mark in (mark for panel in picture.panels for mark in panel.marks if mark.name):
            named.setdefault(mark.name, []).append(mark)
        styles = {
            name: (_paint(mark), _shape(mark))
            for name, mark in ((name, min(marks, key=_rank)) for name, marks in named.items())
        }
        longest = max((len(name) for name in styles), default=0) * LETTER + 30
        return cls(styles, max(1, int(width / longest)))

    def layer(self) -> dict[str, Any]:
        """An empty layer that carries the legend."""
        names = list(self.styles)
        colours, shapes = zip(*self.styles.values(), strict=True)
        shown = {"orient": "bottom", "title": None, "columns": self.columns, "symbolOpacity": 1}
        field = {"field": "name", "type": "nominal", "legend": shown}
        return {
            "data": {"values": [{"name": name} for name in names]},
            "mark": {"type": "point", "filled": True, "opacity": 0, "aria": False},
            "encoding": {
                "color": field | {"scale": {"domain": names, "range": list(colours)}},
                "shape": field | {"scale": {"domain": names, "range": list(shapes)}},
                "x": {"value": 0},
                "y": {"value": 0},
            },
        }


def _rank(mark: Mark) -> tuple[bool, bool]:
    """The order of marks with one name: the first one is drawn in the legend."""
    return _faint(mark), not isinstance(mark, Points)


def _faint(mark: Mark) -> bool:
    return isinstance(mark, Band) or (isinstance(mark, Bars) and mark.faint)


def _shape(mark: Mark) -> str:
    if isinstance(mark, Points):
        return RING if mark.hollow else _symbol(mark.role)
    if isinstance(mark, (Band, Bars)):
        return AREA
    dashed = isinstance(mark, Rule) or (isinstance(mark, Line) and mark.dashed)
    return DASHES if dashed else LINE_SHAPE


def _symbol(role: str) -> str:
    """The shape of a point; Vega has none for a tick."""
    found = shape(role)
    return TICK if found == "tick" else found


def _paint(mark: Mark) -> str:
    """The colour of a role, with opacity if faint."""
    solid = colour(mark.role)
    if not _faint(mark):
        return solid
    red, green, blue = (int(solid[k : k + 2], 16) for k in (1, 3, 5))
    edged = mark.role not in CONTEXT and _edge(mark)
    return f"rgba({red},{green},{blue},{FAINTER if edged else FAINT})"


def _edge(mark: Mark) -> dict[str, Any]:
    """The outline of a range or an interval, which its faint area alone does not show; none of
    other areas, such as a density."""
    filled = mark.role in ("density", "sharpness")
    if filled or (isinstance(mark, Bars) and mark.role != "null"):
        return {}
    strong = mark.role in CONTEXT
    return {"stroke": colour(mark.role), "strokeWidth": 1, "strokeOpacity": 1 if strong else 0.55}


def _heights(picture: Picture, across: int) -> list[float]:
    """A panel of share 1 is as high as wide if square, else two thirds of that. Each category needs
    a line. Shares of a column are scaled up if their sum is below 1."""
    found = []
    for place, panel in enumerate(picture.panels):
        column = picture.panels[place % picture.columns :: picture.columns]
        share = panel.share / min(1.0, sum(other.share for other in column))
        lines = LINE * len(panel.y.categories) if panel.y.categories else 0
        found.append(float(lines or (across if panel.square else round(across * share * 2 / 3))))
    return found


def _beside(panel: Panel) -> int:
    """The width in pixels of labels and title of the y axis."""
    letters = (
        max((len(name) for name in panel.y.categories), default=0) if panel.y.categories else 5
    )
    return int(min(WIDEST_NAME, letters * LETTER)) + (40 if panel.y.title else 22)


def _after(panel: Panel) -> int:
    """The width in pixels of the labels in the right margin."""
    labels = [mark.text for mark in panel.marks if isinstance(mark, Text) and mark.x is None]
    return int(max((len(text) * LETTER + MARGIN for text in labels), default=0))


def _panel(panel: Panel, across: int, height: float) -> dict[str, Any]:
    axes = {"x": _axis(panel, "x", across), "y": _axis(panel, "y", height * 1.5)}
    layers = [layer for mark in panel.marks for layer in _layers(mark, panel)]
    found = {"width": across, "height": int(height), "encoding": axes, "layer": layers}
    if panel.title:
        found["title"] = {
            "text": panel.title,
            "anchor": "start",
            "frame": "group",
            "fontSize": 12,
            "fontWeight": "normal",
        }
    return found


def _axis(panel: Panel, side: Literal["x", "y"], room: float) -> dict[str, Any]:
    axis: Axis = getattr(panel, side)
    domain = [_round(end) for end in panel.extent(side)]
    scale: dict[str, Any] = {"domain": domain, "nice": False, "zero": False}
    # a label stands below its tick, also at the ends of the axis
    shown: dict[str, Any] = {"title": axis.title or None, "labelFlush": False}
    if axis.scale == "log":
        scale["type"] = "log"
    if axis.categories is None:
        shown["tickCount"] = int(max(2, min(5, room / 60)))
    else:
        scale["reverse"] = side == "y"  # the first name on top
        shown |= {
            "values": list(range(len(axis.categories))),
            "grid": False,
            "ticks": False,
            "labelLimit": WIDEST_NAME,
            "labelPadding": 7,  # half of a point at the edge
            "labelOverlap": False,
        }
        if side == "x" and max(map(len, axis.categories), default=0) * LETTER > room / len(
            axis.categories
        ):
            shown |= {"labelAngle": -40, "labelAlign": "right"}
        shown["labelExpr"] = f"{json.dumps(list(axis.categories))}[datum.value]"
    if axis.percent:
        shown["format"] = f".{_percent_decimals(domain[1] - domain[0])}%"
    elif axis.scale == "linear" and max(map(abs, domain)) >= 1e5:
        shown["format"] = "~s"
    return {"type": "quantitative", "scale": scale, "axis": shown}


def _percent_decimals(length: float) -> int:
    """Decimals that distinguish ten ticks of an axis.

    >>> [_percent_decimals(length) for length in (1.0, 0.1, 0.05, 0.004)]
    [0, 0, 1, 2]
    """
    return max(0, math.ceil(-math.log10(length)) - 1)


def _layers(mark: Mark, panel: Panel) -> Iterator[dict[str, Any]]:
    """One layer for each mark; two for points with intervals."""
    if isinstance(mark, Line):
        yield _line(mark)
    elif isinstance(mark, Band):
        columns = {"x": mark.x, "y": mark.low, "y2": mark.high}
        yield _layer(mark, "area", columns, hover=False, opacity=1, clip=True, **_edge(mark))
    elif isinstance(mark, Points):
        yield from _points(mark, panel)
    elif isinstance(mark, Bars):
        columns = {"x": mark.left, "x2": mark.right, "y": mark.bottom, "y2": mark.top}
        edge = _edge(mark) if mark.faint else {}
        yield _layer(mark, "rect", columns, opacity=1, clip=True, **edge)
    elif isinstance(mark, Rule):
        yield _rule(mark, panel)
    elif isinstance(mark, Text):
        yield _text(mark)


def _layer(
    mark: Mark, kind: str, columns: Mapping[str, Any], *, hover: bool = True, **style: Any
) -> dict[str, Any]:
    """A layer with its own data, and the details of the mark as tooltip."""
    encoding: dict[str, Any] = {
        name: {"field": name} for name in ("x", "y", "x2", "y2") if name in columns
    }
    if "size" in columns:
        encoding["size"] = {"field": "size", "type": "quantitative", "scale": None, "legend": None}
    encoding |= _named(mark)
    fields = dict(columns)
    if hover and mark.detail:
        names = [_field(values, fields) for values in mark.detail.values()]
        encoding["tooltip"] = [
            _tooltip(*row) for row in zip(mark.detail, names, mark.detail.values(), strict=True)
        ]
    return {
        "data": {"values": _records(fields)},
        "mark": {"type": kind} | _painted(mark) | style,
        "encoding": encoding,
    }


def _named(mark: Mark) -> dict[str, Any]:
    """The colour of a mark with an entry in the legend, which has the colour."""
    return {"color": {"datum": mark.name}} if mark.name else {}


def _painted(mark: Mark) -> dict[str, Any]:
    """The colour of a mark without an entry in the legend."""
    return {} if mark.name else {"color": _paint(mark)}


def _line(mark: Line) -> dict[str, Any]:
    style: dict[str, Any] = {"strokeWidth": 2, "clip": True}
    style |= {"interpolate": "step-after"} if mark.step else {}
    style |= {"strokeDash": [5, 4], "strokeWidth": 1.5} if mark.dashed else {}
    style |= {"point": "transparent"} if mark.detail else {}
    layer = _layer(mark, "line", {"x": mark.x, "y": mark.y}, **style)
    layer["encoding"]["x"]["sort"] = None  # keep the given order
    return layer


def _points(mark: Points, panel: Panel) -> Iterator[dict[str, Any]]:
    if mark.low is not None and mark.high is not None:
        along, fixed = ("x", "y") if mark.across else ("y", "x")
        ends = {fixed: getattr(mark, fixed), along: mark.low, f"{along}2": mark.high}
        yield _layer(mark, "rule", ends, hover=False, strokeWidth=1.5, clip=True)
    columns = {"x": mark.x, "y": mark.y}
    style: dict[str, Any] = {"filled": True, "opacity": 1, "clip": not panel.contains(mark)}
    style["shape"] = _symbol(mark.role)
    if mark.hollow:
        style |= {"filled": False, "fill": PAPER, "strokeWidth": 2}
    if mark.size is not None:
        columns["size"] = np.maximum(LARGEST_POINT * mark.size, SMALLEST_POINT)
    else:
        style["size"] = DOT if mark.across and style["shape"] == "circle" else POINT
    yield _layer(mark, "point", columns, **style)


def _text(mark: Text) -> dict[str, Any]:
    align = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    coloured = {} if mark.role == "model" else {"color": _paint(mark), "fontWeight": "bold"}
    x = {"value": "width"} if mark.x is None else {"datum": _round(mark.x)}
    moved = {"dx": MARGIN} if mark.x is None else {}
    return {
        "mark": {"type": "text", "align": align, "text": mark.text.split("\n")} | coloured | moved,
        "encoding": {"x": x, "y": {"datum": _round(mark.y)}},
    }


def _rule(mark: Rule, panel: Panel) -> dict[str, Any]:
    style, named = {"strokeDash": [5, 4], "strokeWidth": 1.2} | _painted(mark), _named(mark)
    if mark.x is None and mark.y is None:
        ends = np.array(panel.diagonal())
        encoding = {"x": {"field": "x"}, "y": {"field": "y"}} | named
        return {
            "data": {"values": _records({"x": ends, "y": ends})},
            "mark": {"type": "line"} | style,
            "encoding": encoding,
        }
    if mark.x is not None:
        encoding = {"x": {"datum": _round(mark.x)}, "y": {"value": 0}, "y2": {"value": "height"}}
    else:
        encoding = {"y": {"datum": _round(mark.y)}, "x": {"value": 0}, "x2": {"value": "width"}}
    return {"mark": {"type": "rule"} | style, "encoding": encoding | named}


def _field(values: Any, fields: dict[str, Any]) -> str:
    """The position of a column in a layer, to which it is added if missing."""
    known = next((name for name, column in fields.items() if np.array_equal(column, values)), None)
    if known is None:
        known = f"d{len(fields)}"
        fields[known] = values
    return known


def _tooltip(name: str, field: str, values: Sequence[object] | np.ndarray) -> dict[str, Any]:
    """The tooltip of a column."""
    kind = np.asarray(values).dtype.kind
    if kind not in "iuf":
        return {"field": field, "title": name, "type": "nominal"}
    return {
        "field": field,
        "title": name,
        "type": "quantitative",
        "format": ",d" if kind in "iu" else ".4~g",
    }


def _records(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as records, with numbers rounded to six digits."""
    rounded = [
        [_round(value) for value in np.asarray(column).tolist()] for column in columns.values()
    ]
    return [dict(zip(columns, record, strict=True)) for record in zip(*rounded, strict=True)]


def _round(value: Any) -> Any:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return value if value is None else str(value)
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short == int(short) and abs(short) < 2**53 else short
