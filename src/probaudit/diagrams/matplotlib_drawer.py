"""The matplotlib drawer, for notebooks and papers.

Sizes, fonts, line widths and colours follow rcParams. The drawer never changes them and does not
use pyplot.
"""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Argument, InputError
from .palette import FAINT, SERIES, colour, shape
from .panel_grid import (
    PanelGrid,
    arranged,
    columns_of,
    common_sides,
    figure_size,
    is_outer,
    row_heights,
)
from .picture import CONTEXT, Axis, Band, Bars, Line, Mark, Panel, Picture, Points, Rule, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = (0, (4, 3))
LARGEST_POINT = 1.8  # diameter, in multiples of lines.markersize
SMALLEST_POINT = 0.08  # area, as a share of the largest
MARKERS = {"circle": "o", "triangle-down": "v", "triangle-up": "^"}
THIN = 0.75  # of references and intervals, in multiples of lines.linewidth
COMPACT = 0.8  # font size and line width of a compact figure, relative to rcParams
SMALLEST = 0.65  # the same for several panels in given axes
LETTER = 0.55  # mean width of a character, in multiples of the font size
ROW_OF_NAMES = 45  # characters
MOVED = (0.0, 0.26, -0.26)  # places of overlaid models within a category
SHOWN = "_probaudit_shown"  # attribute of axes: what they show
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


@dataclass(frozen=True, eq=False)
class Drawing:
    """The figure and the axes of each panel. Notebooks display a figure that the drawer created."""

    figure_: Figure
    axes_: tuple[Axes, ...]
    own: bool

    @property
    def ax_(self) -> Axes:
        """The axes of the first panel."""
        return self.axes_[0]

    def _repr_png_(self) -> bytes | None:
        if not self.own:  # the caller displays a figure of their own
            return None
        content = io.BytesIO()
        self.figure_.savefig(content, format="png")
        return content.getvalue()


@dataclass(frozen=True, eq=False)
class Shown:
    """What axes show: a panel in each of `axes`, a number of `models`, their colours, the names in
    the legend that models share, and artists that are shown for a single model only."""

    axes: tuple[Axes, ...]
    panels: tuple[Panel, ...]
    models: int = 0
    colours: tuple[Any, ...] = ()
    names: frozenset[str] = frozenset()
    single: tuple[Any, ...] = ()

    @classmethod
    def on(cls, ax: Axes) -> Shown | None:
        """None if nothing has been drawn, or if the axes were cleared since."""
        shown: Shown | None = getattr(ax, SHOWN, None)
        if shown is None or not shown.axes[0].has_data():
            return None
        return shown if shown.axes[0] in (ax, *ax.child_axes) else None


def draw(
    picture: Picture,
    ax: Axes | None = None,
    *,
    name: str | None = None,
    color: Any = None,
    legend: bool | None = None,
    title: str | bool | None = None,
    hist: bool | None = None,
    compact: bool = False,
    **keywords: Any,
) -> Drawing:
    """Draw inside given axes, or on a new figure. Options as in `Display.plot`."""
    from matplotlib import rc_context, rcParams

    if compact and ax is not None:
        raise InputError(
            "compact",
            "must be False if `ax` is given, whose figure has a size",
            compact,
            way_out=("leave out ", Argument("ax"), " or ", Argument("compact")),
        )
    if hist and not any(panel.histogram for panel in picture.panels):
        raise InputError(
            "hist",
            "must be None or False for a diagram without a histogram of outputs",
            hist,
            way_out=("leave out ", Argument("hist")),
        )
    picture = picture.folded(hist is not False)
    own = ax is None
    scale = COMPACT if compact else 1.0 if ax is None else _scale(picture, ax)
    sizes: Any = ("font.size", "lines.linewidth", "lines.markersize") if scale < 1 else ()
    with rc_context({key: scale * rcParams[key] for key in sizes}):
        if ax is None:
            ax = _new_axes(picture, compact)
        before = Shown.on(ax)
        if before is not None:
            picture = _comparable(picture)
        style = _Style.of(picture, before, name, color, keywords)
        shown = style.draw(picture, before or _empty(picture, ax))
        setattr(ax, SHOWN, shown)
        if title is not False and (own or title is not None):
            _title(picture, ax, title)
        _legend(ax, shown.axes, legend, keywords.get("legend_kw"))
    figure = ax.get_figure(root=True)
    assert figure is not None
    return Drawing(figure, shown.axes, own)


def _new_axes(picture: Picture, compact: bool) -> Axes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=figure_size(picture, compact))
    figure.subplots_adjust(0.1, 0.1, 0.98, 0.9)  # until the layout is computed
    ax = figure.add_subplot()
    figure.set_layout_engine("constrained")
    return ax


def _scale(picture: Picture, ax: Axes) -> float:
    """The size of letters and lines for several panels in given axes, which have less room than a
    figure of their own."""
    if len(picture.panels) == 1:
        return 1.0
    width, height = _inches(ax)
    wanted = figure_size(picture, False)
    return max(SMALLEST, min(1.0, width / wanted[0], height / wanted[1]))


def _inches(ax: Axes) -> tuple[float, float]:
    figure, box = ax.get_figure(root=True), ax.get_window_extent()
    assert figure is not None
    return box.width / figure.dpi, box.height / figure.dpi


def _empty(picture: Picture, ax: Axes) -> Shown:
    """Axes for each panel: the given ones, or several inside their area."""
    if len(picture.panels) == 1:
        return Shown((ax,), picture.panels)
    ax.set_axis_off()
    columns, count = columns_of(picture, *_inches(ax)), len(picture.panels)
    box = (0.2, 0.2, 0.8 / columns, 0.8 / math.ceil(count / columns))  # until it is drawn
    axes = tuple(ax.inset_axes(box) for _ in picture.panels)
    grid = PanelGrid(ax, axes, columns, row_heights(picture, columns))
    for place, one in enumerate(axes):
        one.set_axes_locator(partial(grid.box, place))
        for side in common_sides(picture):
            if not is_outer(side, place, columns, count):
                one.tick_params(axis=side, labelbottom=False, labelleft=False)
    return Shown(axes, arranged(picture, columns))


@dataclass(frozen=True, eq=False)
class _Style:
    """How the marks of one model are drawn. `colours`: by series, of a model that is named, has a
    given colour or is drawn over another one; otherwise each role has its own."""

    name: str | None
    colours: dict[str, Any]
    keywords: dict[str, Any]
    single: bool
    cycle: tuple[str, ...]

    @classmethod
    def of(
        cls,
        picture: Picture,
        before: Shown | None,
        name: str | None,
        color: Any,
        keywords: dict[str, Any],
    ) -> _Style:
        single = len(picture.series) == 1
        marks = [mark for panel in picture.panels for mark in panel.marks]
        _check_keywords(marks, keywords)
        if before is not None:
            _check_overlay(picture, before, single)
        if color is not None and not single:
            raise InputError(
                "color",
                f"must be None for a diagram of {len(picture.series)} curves or parts",
                repr(color),
                way_out=("set `axes.prop_cycle` in rcParams",),
            )
        if name is not None and not single and not any(m.name for m in marks if m.series):
            raise InputError(
                "name",
                "must be None for a diagram whose parts have no legend",
                repr(name),
                way_out=("use ", Argument("title")),
            )
        cycle, used = _cycle(), before.colours if before else ()
        colours: dict[str, Any] = {}
        if color is not None:
            colours = dict.fromkeys(picture.series, color)
        elif before is not None or (single and name is not None):
            free = [each for each in cycle if each not in used] or list(cycle)
            colours = {key: free[k % len(free)] for k, key in enumerate(picture.series)}
        return cls(name, colours, keywords, single, cycle)

    def draw(self, picture: Picture, shown: Shown) -> Shown:
        """Draw all panels; returns what the axes show then."""
        names, single = set(shown.names), []
        for artist in shown.single if shown.models else ():
            artist.remove()
        placed = zip(shown.panels, picture.panels, shown.axes, strict=True)
        for place, panel, ax in placed:
            limits = (ax.get_xlim(), ax.get_ylim()) if ax.has_data() else None
            x, y = replace(panel.x, title=place.x.title), replace(panel.y, title=place.y.title)
            drawn = replace(panel, x=x, y=y)
            for order, mark in enumerate(panel.marks):
                at = _moved(mark, panel, shown.models)
                paint = self._paint(mark, names, order)
                artists = _draw_mark(at, drawn, ax, paint, self._own(mark))
                single += artists if _of_single(mark) else []
            _frame(drawn, ax, limits)
            if len(picture.panels) > 1 and panel.title:
                size = float(ax.xaxis.label.get_fontsize())
                wide = ax.get_window_extent().width
                text = _wrapped(panel.title, wide, size, ax)
                ax.set_title(text, loc="center", fontsize=size)
        marks = [mark for panel in picture.panels for mark in panel.marks]
        common = {_escaped(m.name) for m in marks if not m.series or isinstance(m, Band)}
        painted = [self._colour(mark) for mark in marks if mark.series]
        return replace(
            shown,
            models=shown.models + 1,
            colours=(*shown.colours, *painted),
            names=shown.names | common,
            single=tuple(single),
        )

    def _colour(self, mark: Mark) -> Any:
        series = mark.series or next(iter(self.colours), "")
        if series in self.colours and (mark.role not in CONTEXT or mark.role == "density"):
            return self.colours[series]
        return colour(mark.role, self.cycle)

    def _own(self, mark: Mark) -> dict[str, Any]:
        """The keywords for the artist of a mark, and for its intervals."""
        return {key: self.keywords.get(key) or {} for key in _keys(mark)}

    def _paint(self, mark: Mark, names: set[str], order: int) -> dict[str, Any]:
        name = mark.name
        if self.name is not None and mark.series and not isinstance(mark, Band):
            name = self.name if self.single else name and f"{self.name}: {name}"
        label = _escaped(name)
        if label in names:
            label = ""
        names.add(label)
        return {"color": self._colour(mark), "label": label or "_", "zorder": 2 + 0.01 * order}


def _of_single(mark: Mark) -> bool:
    """Whether a mark is clear for a single model only: text, and ranges behind the marks."""
    faint = isinstance(mark, Bars) and mark.faint
    return faint or isinstance(mark, Text) or (mark.role == "null" and isinstance(mark, Band))


def _comparable(picture: Picture) -> Picture:
    """The picture for axes that show another model."""
    panels = [
        replace(panel, marks=tuple(mark for mark in panel.marks if not _of_single(mark)))
        for panel in picture.panels
    ]
    return replace(picture, panels=tuple(panels))


def _cycle() -> tuple[str, ...]:
    """The colours of axes.prop_cycle if it was changed, else the palette."""
    from matplotlib import rcParams, rcParamsDefault

    cycle = rcParams["axes.prop_cycle"]
    if cycle == rcParamsDefault["axes.prop_cycle"]:
        return SERIES
    return tuple(cycle.by_key().get("color", SERIES))


def _keys(mark: Mark) -> tuple[str, ...]:
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


def _check_keywords(marks: list[Mark], keywords: dict[str, Any]) -> None:
    known = {key for mark in marks for key in _keys(mark)} | {"legend_kw"}
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


def _check_overlay(picture: Picture, before: Shown, single: bool) -> None:
    """A second model must have the same axes, and must not hide the first."""
    way_out = ("draw it in other axes",)

    def kinds(panels: tuple[Panel, ...]) -> list[tuple[object, ...]]:
        return [(p.x.scale, p.x.categories, p.y.scale, p.y.categories) for p in panels]

    if kinds(picture.panels) != kinds(before.panels):
        rule = "must show a diagram with the same axes, or none"
        raise InputError("ax", rule, "a diagram with other axes", way_out=way_out)
    stacked = any(isinstance(m, Bars) and m.series for p in picture.panels for m in p.marks)
    if stacked and not single:
        rule = "must be empty for a diagram of several bars, which would hide those of others"
        raise InputError("ax", rule, "axes with a diagram", way_out=way_out)


def _moved(mark: Mark, panel: Panel, model: int) -> Mark:
    """Bars and points of overlaid models side by side within each category."""
    lines = any(isinstance(other, Line) for other in panel.marks)
    if not model or lines or (panel.x.categories is None and panel.y.categories is None):
        return mark
    names: dict[type[Mark], tuple[str, ...]] = {
        Bars: ("left", "right") if panel.x.categories else ("bottom", "top"),
        Points: ("x",) if panel.x.categories else ("y",),
    }
    keys = names.get(type(mark), ())
    values: dict[str, Any] = {key: np.asarray(getattr(mark, key), float) for key in keys}
    if not values:
        return mark
    middle = np.rint(sum(values.values()) / len(values))
    moved = MOVED[model % len(MOVED)]
    places: dict[str, Any] = {key: middle + (v - middle) / 3 + moved for key, v in values.items()}
    return replace(mark, **places)


def _frame(panel: Panel, ax: Axes, limits: tuple[Any, Any] | None) -> None:
    _axis(panel.x, ax, "x", panel.extent("x"), limits and limits[0])
    _axis(panel.y, ax, "y", panel.extent("y"), limits and limits[1])
    if panel.square:
        ax.set_box_aspect(1)


def _axis(
    axis: Axis, ax: Axes, side: str, ends: tuple[float, float], shown: tuple[float, float] | None
) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    own = ax.xaxis if side == "x" else ax.yaxis
    limit, scale = (ax.set_xlim, ax.set_xscale) if side == "x" else (ax.set_ylim, ax.set_yscale)
    if axis.scale == "log":
        scale("log")
    if shown is not None:
        ends = min(*ends, *shown), max(*ends, *shown)
    # the first name on top
    limit(ends[::-1] if axis.categories is not None and side == "y" else ends)
    box = ax.get_window_extent()
    room = box.width if side == "x" else box.height
    # Ticks are created later, when rcParams may differ.
    own.set_tick_params(labelsize=_points(f"{side}tick.labelsize"))
    own.set_label_text(_wrapped(axis.title, room, float(own.label.get_fontsize()), ax))
    if axis.categories is not None:
        own.set_ticks(range(len(axis.categories)), [_escaped(name) for name in axis.categories])
        if side == "x" and sum(map(len, axis.categories)) > ROW_OF_NAMES:
            own.set_tick_params(rotation=40)
            for label in own.get_ticklabels():
                label.set_horizontalalignment("right")
        return
    if axis.scale == "linear":
        own.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10]))
    if axis.percent:
        own.set_major_formatter(PercentFormatter(1))
    elif axis.scale == "linear" and max(map(abs, ends)) >= 1e4:
        own.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value / 1000:,.10g}k" if value else "0")
        )


def _draw_mark(
    mark: Mark, panel: Panel, ax: Axes, paint: dict[str, Any], own: dict[str, Any]
) -> list[Any]:
    """The artists of a mark."""
    from matplotlib import rcParams

    thin = {"linewidth": THIN * rcParams["lines.linewidth"]}
    (first, *_) = own.values()
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
        if mark.low is not None and mark.high is not None:
            lines, fixed = (ax.hlines, mark.y) if mark.across else (ax.vlines, mark.x)
            bare = paint | {"label": "_"}
            lines(fixed, mark.low, mark.high, **thin, **bare).set(**own["interval_kw"])
        style = {"s": _areas(mark.size), "clip_on": not panel.contains(mark)}
        style["marker"] = MARKERS[shape(mark.role)]
        if mark.hollow:
            edge = paint["color"]
            style |= {"facecolors": ax.get_facecolor(), "edgecolors": edge, **thin, "zorder": 2.1}
            paint = {name: value for name, value in paint.items() if name != "color"}
        else:
            style["linewidths"] = 0
        return [ax.scatter(mark.x, mark.y, **style | paint | first)]
    if isinstance(mark, Bars):
        height, width = mark.top - mark.bottom, mark.right - mark.left
        alpha = FAINT if mark.faint or mark.role == "density" else 0.9
        style = {"align": "edge", "linewidth": 0, "alpha": alpha}
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
    text = ax.text(mark.x, mark.y, _escaped(mark.text), **style)
    text.set(**first)
    return [text]


def _areas(size: np.ndarray | None) -> Any:
    """The areas of points, in pt^2; the default area without sizes."""
    from matplotlib import rcParams

    if size is None:
        return None
    largest = (LARGEST_POINT * rcParams["lines.markersize"]) ** 2
    return largest * np.maximum(size, SMALLEST_POINT)


def _escaped(text: str) -> str:
    """Escape dollar signs, so that names are not parsed as formulas."""
    from matplotlib import rcParams

    special = "%&#_$" if rcParams["text.usetex"] else "$"
    return "".join(f"\\{letter}" if letter in special else letter for letter in text)


def _wrapped(text: str, pixels: float, size: float, ax: Axes) -> str:
    """Lines that fit into a width, for a font size in points."""
    lines = textwrap.wrap(text, max(12, _letters(ax, pixels, size)))
    return "\n".join(map(_escaped, lines))


def _points(key: Any) -> float:
    """A font size of rcParams in points."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=rcParams[key]).get_size())


def _letters(ax: Axes, pixels: float, size: float) -> int:
    """The number of characters that fit into a width."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return int(pixels * 72 / figure.dpi / (LETTER * size))


def _title(picture: Picture, ax: Axes, title: str | bool | None) -> None:
    """The title of the axes; of a picture of one panel, also that of the panel."""
    lines = [picture.title] if title in (None, True) else [str(title)]
    if len(picture.panels) == 1 and title in (None, True) and picture.panels[0].title:
        lines.append(picture.panels[0].title)
    size = float(ax.title.get_fontsize())
    wide = ax.get_window_extent().width
    ax.set_title("\n".join(_wrapped(line, wide, size, ax) for line in lines))


def _legend(
    ax: Axes, axes: tuple[Axes, ...], legend: bool | None, keywords: dict[str, Any] | None
) -> None:
    """One legend for all panels, inside the given axes."""
    found: dict[str, list[Any]] = {"handles": [], "labels": []}
    for one in axes:
        handles, labels = one.get_legend_handles_labels()
        found["handles"] += handles
        found["labels"] += labels
    if legend is False:
        if keywords is not None:
            raise InputError("legend_kw", "must be None without a legend", keywords)
        return
    if not found["labels"]:
        if legend or keywords is not None:
            raise InputError(
                "legend",
                "must be None or False for a diagram without names",
                legend,
                way_out=("use ", Argument("name")),
            )
        return
    # "best" does not avoid text, which pictures have on top
    style: dict[str, Any] = {"loc": "lower right" if ax.texts else "best"}
    if axes[0] is not ax:
        size = _points("legend.fontsize")
        longest = max(map(len, found["labels"])) + 8
        letters = _letters(ax, ax.get_window_extent().width, size)
        columns = max(1, min(len(found["labels"]), letters // longest))
        style = {"loc": "lower center", "ncols": columns, "borderaxespad": 0, "frameon": False}
    ax.legend(**found, **style | (keywords or {}))
