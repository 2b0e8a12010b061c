"""The matplotlib drawer, for notebooks and papers. It uses no global state: neither pyplot nor
rcParams."""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .palette import FAINT, colour
from .picture import Axis, Band, Bars, Line, Mark, Panel, Picture, Points, Rule, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID = "#e4e4e4"
INK, SOFT = "#1a1a1a", "#595959"
LARGEST_POINT = 110  # pt^2
LETTERS = 13.5  # characters of a caption per inch
DPI = 110
LINE = 0.07  # height of a category, as a share of the panel width
ROW_OF_NAMES = 45  # characters


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
        self.figure_.savefig(content, format="png", dpi=DPI)
        return content.getvalue()


def draw(picture: Picture, ax: Axes | None = None) -> Drawing:
    """Draw into given axes, divided between the panels, or on a new figure."""
    if ax is None:
        return _own(picture)
    figure = ax.get_figure(root=True)
    assert figure is not None
    if len(picture.panels) == 1:
        _panel(picture.panels[0], ax)
        axes = [ax]
    else:
        ax.set_axis_off()
        axes = _divided(picture, ax)
    lines = [picture.title, picture.panels[0].title]
    axes[0].set_title(
        "\n".join(_escaped(line) for line in lines if line), loc="left", fontsize=10, color=INK
    )
    if picture.columns == 1:  # small panels have no room for a legend
        _legend(picture, axes, axes[0])
    return Drawing(figure, tuple(axes), own=False)


def _own(picture: Picture) -> Drawing:
    from matplotlib.figure import Figure

    inches = 5.2 if picture.columns == 1 else min(11.0, 3.0 * picture.columns)
    ratios = _heights(picture)
    names = len({mark.name for panel in picture.panels for mark in panel.marks} - {""})
    tall = sum(ratios) * (inches / picture.columns - 0.8) + 0.45 * len(ratios) + 0.4 + 0.2 * names
    caption = textwrap.wrap(picture.caption, int(inches * LETTERS))
    title = textwrap.wrap(picture.title, int(inches * LETTERS * 0.78))
    top = 0.12 + 0.24 * len(title) + 0.175 * len(caption)
    figure = Figure(figsize=(inches, top + tall), layout="constrained")
    places = figure.add_gridspec(2, 1, height_ratios=[top, tall])
    head, body = figure.add_subfigure(places[0]), figure.add_subfigure(places[1])
    head.text(
        0.02,
        1 - 0.08 / top,
        "\n".join(title),
        ha="left",
        va="top",
        fontsize=12,
        fontweight="bold",
        color=INK,
    )
    head.text(0.02, 0.0, "\n".join(caption), ha="left", va="bottom", fontsize=9, color=SOFT)
    spec = body.add_gridspec(len(ratios), picture.columns, height_ratios=ratios)
    axes = [
        body.add_subplot(spec[place // picture.columns, place % picture.columns])
        for place in range(len(picture.panels))
    ]
    for panel, one in zip(picture.panels, axes, strict=True):
        _panel(panel, one)
    _legend(picture, axes, body)
    return Drawing(figure, tuple(axes), own=True)


def _divided(picture: Picture, ax: Axes) -> list[Axes]:
    """Axes for each panel, in place of the given axes."""
    ratios = _heights(picture)
    place = ax.get_subplotspec()
    if place is not None and ax.figure is not None:
        spec = place.subgridspec(len(ratios), picture.columns, height_ratios=ratios)
        axes = [
            ax.figure.add_subplot(spec[k // picture.columns, k % picture.columns])
            for k in range(len(picture.panels))
        ]
    else:
        edges = np.r_[0, np.cumsum(ratios)] / sum(ratios)
        axes = []
        for k in range(len(picture.panels)):
            row, column = divmod(k, picture.columns)
            box = (
                column / picture.columns,
                1 - edges[row + 1],
                0.85 / picture.columns,
                0.8 * (edges[row + 1] - edges[row]),
            )
            axes.append(ax.inset_axes(box))
    for panel, one in zip(picture.panels, axes, strict=True):
        _panel(panel, one)
    return axes


def _heights(picture: Picture) -> list[float]:
    """The relative height of each row of panels; 1 for a square panel."""
    short = min(1.0, sum(panel.share for panel in picture.panels[:: picture.columns]))
    rows = range(0, len(picture.panels), picture.columns)
    return [
        max(_height(panel, short) for panel in picture.panels[first : first + picture.columns])
        for first in rows
    ]


def _height(panel: Panel, short: float) -> float:
    lines = 0.03 + LINE * len(panel.y.categories) if panel.y.categories else 0.0
    return lines or (1.0 if panel.square else panel.share / short * 2 / 3)


def _panel(panel: Panel, ax: Axes) -> None:
    for order, mark in enumerate(panel.marks):
        _mark(mark, panel, ax, 2 + 0.01 * order)
    ax.grid(True, color=GRID, linewidth=0.8, zorder=0)
    _axis(panel.x, ax, "x", panel.extent("x"))
    _axis(panel.y, ax, "y", panel.extent("y"))
    for side in ax.spines.values():
        side.set_color(GRID)
    ax.set_axisbelow(True)
    ax.tick_params(colors=SOFT, labelsize=8.5, length=0)
    if panel.square:
        ax.set_box_aspect(1)
    if panel.title:
        ax.set_title(panel.title, loc="left", fontsize=9.5, color=INK)


def _axis(axis: Axis, ax: Axes, side: str, ends: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    own = ax.xaxis if side == "x" else ax.yaxis
    limit, scale = (ax.set_xlim, ax.set_xscale) if side == "x" else (ax.set_ylim, ax.set_yscale)
    if axis.scale == "log":
        scale("log")
    # the first name on top
    limit(ends[::-1] if axis.categories is not None and side == "y" else ends)
    own.set_label_text(axis.title, fontsize=9.5, color=INK)
    if axis.categories is not None:
        own.set_ticks(range(len(axis.categories)), [_escaped(name) for name in axis.categories])
        own.grid(False)
        if side == "x" and sum(map(len, axis.categories)) > ROW_OF_NAMES:
            own.set_tick_params(rotation=40)
            for label in own.get_ticklabels():
                label.set_horizontalalignment("right")
        return
    if axis.scale == "linear":
        own.set_major_locator(MaxNLocator(5))
    if axis.percent:
        own.set_major_formatter(PercentFormatter(1, decimals=0 if ends[1] - ends[0] >= 0.05 else 1))
    elif axis.scale == "linear" and max(map(abs, ends)) >= 1e4:
        own.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value / 1000:,.10g}k" if value else "0")
        )


def _mark(mark: Mark, panel: Panel, ax: Axes, order: float) -> None:
    paint: dict[str, Any] = {
        "color": colour(mark.role),
        "label": _escaped(mark.name) or "_",
        "zorder": order,
    }
    if isinstance(mark, Line):
        style: dict[str, Any] = {
            "linestyle": (0, (4, 3)) if mark.dashed else "-",
            "linewidth": 1.4 if mark.dashed else 1.9,
        }
        ax.plot(
            mark.x, mark.y, drawstyle="steps-post" if mark.step else "default", **style, **paint
        )
    elif isinstance(mark, Band):
        ax.fill_between(mark.x, mark.low, mark.high, alpha=FAINT, linewidth=0, **paint)
    elif isinstance(mark, Points):
        if mark.low is not None and mark.high is not None:
            lines, fixed = (ax.hlines, mark.y) if mark.across else (ax.vlines, mark.x)
            lines(fixed, mark.low, mark.high, linewidth=1.3, color=paint["color"], zorder=order)
        size = 26.0 if mark.size is None or not len(mark.size) else _areas(mark.size)
        ax.scatter(mark.x, mark.y, s=size, linewidths=0, clip_on=not panel.contains(mark), **paint)
    elif isinstance(mark, Bars):
        height, width = mark.top - mark.bottom, mark.right - mark.left
        alpha = FAINT if mark.faint else 0.9
        ax.bar(
            mark.left, height, width, mark.bottom, align="edge", linewidth=0, alpha=alpha, **paint
        )
    elif isinstance(mark, Rule):
        style = {"linestyle": (0, (4, 3)), "linewidth": 1.1}
        if mark.x is not None:
            ax.axvline(mark.x, **style, **paint)
        elif mark.y is not None:
            ax.axhline(mark.y, **style, **paint)
        else:
            ax.plot(panel.diagonal(), panel.diagonal(), **style, **paint)
    elif isinstance(mark, Text):
        align = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
        ax.text(
            mark.x,
            mark.y,
            _escaped(mark.text),
            ha=align,
            va="center",
            fontsize=8.5,
            color=INK,
            zorder=5,
        )


def _areas(size: np.ndarray) -> np.ndarray:
    return np.asarray(LARGEST_POINT * np.asarray(size, float) / max(float(np.max(size)), 1e-300))


def _escaped(text: str) -> str:
    """Escape dollar signs, so that names are not parsed as formulas."""
    return text.replace("$", r"\$")


def _legend(picture: Picture, axes: list[Axes], place: Any) -> None:
    """One legend for all panels: below a new figure, or inside given axes."""
    found: dict[str, Any] = {}
    for ax in axes:
        handles, names = ax.get_legend_handles_labels()
        for handle, name in zip(handles, names, strict=True):
            found.setdefault(name, handle)
    order = [_escaped(mark.name) for panel in picture.panels for mark in panel.marks if mark.name]
    found = {name: found[name] for name in dict.fromkeys(order) if name in found}
    if not found:
        return
    style: dict[str, Any] = {"fontsize": 8.5, "frameon": False, "labelcolor": INK}
    if hasattr(place, "add_gridspec"):
        room, longest = (
            62 if picture.columns == 1 else 100,
            max(map(len, found)) + 8,
        )  # in characters
        style |= {"loc": "outside lower left", "ncols": max(1, min(len(found), room // longest))}
    else:
        style |= {"loc": "best"}
    legend = place.legend(list(found.values()), list(found), **style)
    legend.set_in_layout(place not in axes)
