"""The legend: inside the axes where it hides nothing, else below them, or shorter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Argument, InputError
from .matplotlib_marks import areas
from .matplotlib_text import LETTER, escaped, font_points
from .picture import Band, Bars, Line, Mark, Panel, Points, Rule, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

PLACES = {  # in order of preference, with the corner or edge as shares of the axes
    "upper left": (0.0, 1.0),
    "upper right": (1.0, 1.0),
    "lower right": (1.0, 0.0),
    "lower left": (0.0, 0.0),
    "center left": (0.0, 0.5),
    "center right": (1.0, 0.5),
    "upper center": (0.5, 1.0),
    "lower center": (0.5, 0.0),
    "center": (0.5, 0.5),
}
SHRINKING = 1.3  # of axes in a grid, by the layout of the figure
MOST = 0.9  # of the width of a figure that a legend takes
STEPS = 200  # pieces of a line or band
POINT = 0.6  # diameter of a point in the legend, in multiples of the font size
SMALL = 0.75  # size of letters in small axes, relative to rcParams
TIGHT = {"handlelength": 1.2, "handletextpad": 0.5, "labelspacing": 0.3, "borderpad": 0.3}
GAP = 0.5  # between labels and a legend below them, in multiples of the font size


def check_legend(legend: bool | None, keywords: dict[str, Any] | None, named: bool) -> None:
    """Refuse options of a legend that will not be drawn. `named`: whether any mark has a name."""
    if legend is not False and named:
        return
    if keywords is not None:
        raise InputError("legend_kw", "must be None without a legend", keywords)
    if legend:
        raise InputError(
            "legend",
            "must be None or False for a diagram without names",
            legend,
            way_out=("use ", Argument("name")),
        )


def add_legend(
    ax: Axes,
    axes: tuple[Axes, ...],
    panels: tuple[Panel, ...],
    legend: bool | None,
    keywords: dict[str, Any] | None,
    own: bool,
) -> float:
    """One legend for all panels, inside the given axes.

    If the legend of a single panel would hide marks, it stands below the panel in a figure of our
    own. In other figures, it gets small letters and then, unless `legend` is True, leaves out the
    names of ranges. Returns the height in inches that it needs below, else 0.
    """
    named: dict[str, list[Any]] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            named.setdefault(label, []).append(handle)
    # one entry for the line and the points of a model
    handles = [tuple(each) if len(each) > 1 else each[0] for each in named.values()]
    found: dict[str, list[Any]] = {"handles": handles, "labels": list(named)}
    if legend is False or not found["labels"]:
        return 0.0
    given, height = keywords or {}, 0.0
    if axes[0] is not ax:
        tight = {"loc": "lower center"} | ({} if own else TIGHT)
        drawn = _rows(ax, found, ax.get_window_extent().width, tight | given)
    elif {"loc", "bbox_to_anchor"} & set(given):
        drawn = ax.legend(**found, **given)
    else:
        drawn, free = _placed(ax, found, panels[0], given)
        if own and not free:
            below = {"loc": "upper center"} | _below(ax) | given
            drawn = _rows(ax, found, MOST * ax.figure.bbox.width, below)
            height = drawn.get_window_extent().height / ax.figure.dpi
        elif not free:
            drawn = _shortened(ax, found, panels[0], given, legend is True)
    _even_symbols(drawn, found["handles"])
    return height


def _rows(ax: Axes, found: dict[str, list[Any]], width: float, given: dict[str, Any]) -> Legend:
    """A legend without a frame, in as few rows as fit into a width in pixels."""
    count = len(found["labels"])
    for rows in range(1, count + 1):
        columns = math.ceil(count / rows)
        options = {"ncols": columns, "borderaxespad": 0, "frameon": False} | given
        drawn = ax.legend(**found, **options)
        if "ncols" in given or drawn.get_window_extent().width <= width:
            break
    return drawn


def _placed(
    ax: Axes, found: dict[str, list[Any]], panel: Panel, options: dict[str, Any]
) -> tuple[Legend, bool]:
    """A legend where it hides least, and whether it hides nothing there."""
    drawn = ax.legend(**found, **{"loc": "upper left"} | options)
    place, free = _best_place(drawn, ax, panel)
    drawn.set_loc(place)
    return drawn, free


def _shortened(
    ax: Axes, found: dict[str, list[Any]], panel: Panel, given: dict[str, Any], complete: bool
) -> Legend:
    """A legend with small letters, and with all names only if it is `complete` or hides nothing."""
    small = TIGHT | {"fontsize": SMALL * font_points("legend.fontsize")} | given
    drawn, free = _placed(ax, found, panel, small)
    context = {escaped(mark.name) for mark in panel.marks if _is_range(mark)}
    kept = [k for k, name in enumerate(found["labels"]) if name not in context]
    if not free and not complete and kept:
        shorter = {key: [values[k] for k in kept] for key, values in found.items()}
        drawn, _ = _placed(ax, shorter, panel, small)
    return drawn


def _below(ax: Axes) -> dict[str, Any]:
    """An anchor below the labels of the x axis, which keeps its distance if the axes shrink."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    labels = ax.xaxis.get_tightbbox()
    depth = 0.0 if labels is None else max(0.0, ax.bbox.y0 - labels.y0) / figure.dpi
    depth += GAP * font_points("legend.fontsize") / 72
    down = ScaledTranslation(0, -depth, figure.dpi_scale_trans)
    return {"bbox_to_anchor": (0.5, 0), "bbox_transform": ax.transAxes + down}


def _best_place(legend: Legend, ax: Axes, panel: Panel) -> tuple[Any, bool]:
    """The place where the legend hides least, and whether it hides no mark of a model there."""
    area, growth = ax.get_window_extent(), _growth(ax)
    size = legend.get_window_extent().expanded(growth, growth)
    pad = font_points("legend.fontsize") * legend.borderaxespad * ax.figure.dpi / 72
    marks = [(_context(mark), _boxes(mark, ax)) for mark in panel.marks]
    hidden = {}
    for place, (right, up) in PLACES.items():
        x = area.x0 + pad + right * (area.width - size.width - 2 * pad)
        y = area.y0 + pad + up * (area.height - size.height - 2 * pad)
        box = np.array([x, y, x + size.width, y + size.height])
        cost = [0, 0]
        for context, boxes in marks:
            apart = (boxes[:, :2] > box[2:]).any(axis=1) | (boxes[:, 2:] < box[:2]).any(axis=1)
            cost[context] += int((~apart & np.isfinite(boxes).all(axis=1)).sum())
        hidden[place] = tuple(cost)
    best = min(hidden, key=lambda place: hidden[place])
    fits = size.width + 2 * pad <= area.width and size.height + 2 * pad <= area.height
    return best, fits and hidden[best][0] == 0


def _growth(ax: Axes) -> float:
    """How much larger a legend may be, relative to its axes, when the figure is drawn: an engine
    then makes room for the labels of all axes."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    laid_out = len(figure.axes) > 1 and figure.get_layout_engine() is not None
    return SHRINKING if laid_out else 1.0


def _is_range(mark: Mark) -> bool:
    return isinstance(mark, Band) or (mark.role == "null" and not isinstance(mark, Points))


def _context(mark: Mark) -> bool:
    """Whether a legend may cover the mark."""
    return isinstance(mark, Rule) or (mark.role == "reference" and isinstance(mark, Line))


def _boxes(mark: Mark, ax: Axes) -> np.ndarray:
    """Boxes that cover a mark [k, (x0, y0, x1, y1)], in pixels."""
    from matplotlib import rcParams

    dots = ax.figure.dpi / 72
    lows, highs, pad = _corners(mark, ax)
    grow = np.zeros(4)
    if pad:
        half = np.sqrt(areas(mark.size if isinstance(mark, Points) else None)) * dots / 2
        grow = np.reshape(half, (-1, 1)) * np.array([-1.0, -1, 1, 1])
    if isinstance(mark, Text):
        lines, em = mark.text.split("\n"), rcParams["font.size"] * dots
        wide, high = LETTER * em * max(map(len, lines)), em * len(lines)
        start = {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor]
        grow = np.array([-start * wide, -high / 2, (1 - start) * wide, high / 2])
    ends = ax.transData.transform(lows), ax.transData.transform(highs)
    return np.hstack([np.minimum(*ends), np.maximum(*ends)]) + grow


def _corners(mark: Mark, ax: Axes) -> tuple[np.ndarray, np.ndarray, bool]:
    """Opposite corners of boxes that cover a mark in units of the data, and whether they are
    points, which need a margin."""
    if isinstance(mark, Line):
        x, y = _dense(mark.x, mark.y)
        return np.column_stack([x[:-1], y[:-1]]), np.column_stack([x[1:], y[1:]]), False
    if isinstance(mark, Band):
        x, low, high = _dense(mark.x, mark.low, mark.high)
        return np.column_stack([x, low]), np.column_stack([x, high]), False
    if isinstance(mark, Bars):
        lows = np.column_stack([mark.left, mark.bottom])
        return lows, np.column_stack([mark.right, mark.top]), False
    if isinstance(mark, Points):
        low = high = np.column_stack([mark.x, mark.y]).astype(float)
        if mark.low is not None and mark.high is not None:
            low, high = low.copy(), high.copy()
            along = 0 if mark.across else 1
            low[:, along], high[:, along] = mark.low, mark.high
        return low, high, True
    if isinstance(mark, Text):
        at = np.array([[ax.get_xlim()[1] if mark.x is None else mark.x, mark.y]])
        return at, at, False
    assert isinstance(mark, Rule)
    (left, right), (down, up) = ax.get_xlim(), ax.get_ylim()
    if mark.x is not None:
        return np.array([[mark.x, down]]), np.array([[mark.x, up]]), False
    if mark.y is not None:
        return np.array([[left, mark.y]]), np.array([[right, mark.y]]), False
    x, y = _dense(np.array([left, right]), np.array([down, up]))
    return np.column_stack([x, y]), np.column_stack([x, y]), False


def _dense(*columns: np.ndarray) -> list[np.ndarray]:
    """Columns at more places, interpolated."""
    count = len(columns[0])
    at = np.linspace(0, count - 1, max(count, STEPS))
    return [np.interp(at, np.arange(count), np.asarray(column, float)) for column in columns]


def _even_symbols(legend: Legend, handles: list[Any]) -> None:
    """Points of the same size in the legend if those of the picture have many sizes."""
    from matplotlib.collections import PathCollection

    points = [handle for handle in handles if isinstance(handle, PathCollection)]
    if any(len(np.unique(handle.get_sizes())) > 1 for handle in points):
        for symbol in legend.legend_handles:
            if isinstance(symbol, PathCollection):
                symbol.set_sizes([(POINT * font_points("legend.fontsize")) ** 2])
