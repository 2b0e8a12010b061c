"""The layout of several panels inside the area of given axes, labels included."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .matplotlib_text import LETTER, SYMBOL
from .picture import Panel, Picture, Side, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

Edges = tuple[float, float, float, float]  # left, right, below, above
COMPACT_WIDTH = 3.3  # inches, a column of a paper
COMPACT_HEIGHT = 2.5
WIDE = 1.8  # width over height of a panel that is not square
LINE = 1.9  # least height of a category, in multiples of the font size
ROOMY = 3.0  # the same in figures that are not compact
BESIDE = 1.4  # the same for each of several models
LEGEND = 1.3  # height of a row of the legend, in multiples of the font size
LABELS = 4.5  # height of the labels and the title of a panel, in multiples of the font size
LEAST = 1.1  # inches, height of a panel
AXES = 0.88  # width of the axes of a new figure, relative to the figure
NARROWEST = 0.7  # inches, width of a panel beside texts
SMALL = 0.83  # "small" letters, relative to the font size
MODEL = 12  # characters of the name of a model
GAP = 0.6  # between panels, in multiples of the font size


def columns_of(picture: Picture, width: float, height: float) -> int:
    """The number of columns for an area in inches: one row for panels of the same categories, else
    the number with the largest panels. Only a grid may have an empty place."""
    from matplotlib import rcParams

    panels = picture.panels
    count, shape = len(panels), 1.0 if panels[0].square else WIDE
    if _same_categories(panels):
        return _side_by_side(panels, width)
    usable = [c for c in range(1, count + 1) if picture.columns > 1 or count % c == 0]
    em = rcParams["font.size"] / 72
    labels, height = LABELS * em, height - (1 + _legend_rows(picture, width)) * LEGEND * em

    def size(columns: int) -> float:
        across, up = width / columns - labels, height / math.ceil(count / columns) - labels
        return min(across / shape, up)

    return max(usable, key=size)


def _side_by_side(panels: tuple[Panel, ...], width: float) -> int:
    """The number of columns of panels of the same categories: one row, if a width in inches has
    room for their marks beside the names at the left and the texts at the right of each panel."""
    from matplotlib import rcParams

    letter = LETTER * rcParams["font.size"] / 72
    beside = [
        max((len(m.text) for m in panel.marks if isinstance(m, Text) and m.x is None), default=0)
        for panel in panels
    ]
    names = max(map(len, panels[0].y.categories or ("",)))
    least = NARROWEST + SMALL * letter * max(beside)
    fitting = max(1, int((width - letter * names) / least)) if any(beside) else len(panels)
    return math.ceil(len(panels) / math.ceil(len(panels) / fitting))


def _same_categories(panels: tuple[Panel, ...]) -> bool:
    return panels[0].y.categories is not None and len({p.y.categories for p in panels}) == 1


def row_heights(picture: Picture, columns: int) -> list[float]:
    """The relative height of each row of panels."""
    panels = picture.panels
    rows = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    if all(panel.y.categories for panel in panels):
        return [max(1.0 + len(panel.y.categories or ()) for panel in row) for row in rows]
    return [max(panel.share for panel in row) for row in rows]


def arranged(picture: Picture, columns: int) -> tuple[Panel, ...]:
    """The panels, with titles of common axes only at the left and at the bottom."""
    panels = picture.panels
    found = list(panels)
    for side in common_sides(picture):
        title = "".join({getattr(panel, side).title for panel in panels})
        for k, panel in enumerate(found):
            outer = is_outer(side, k, columns, len(panels))
            axis = replace(getattr(panel, side), title=title if outer else "")
            found[k] = replace(panel, **{side: axis})
    return tuple(found)


def common_sides(picture: Picture) -> list[Side]:
    """The sides on which all panels have the same axis."""
    sides: tuple[Side, ...] = ("x", "y")
    return [
        side
        for side in sides
        if len({getattr(panel, side).title for panel in picture.panels} - {""}) <= 1
        and len({getattr(panel, side).categories for panel in picture.panels}) == 1
        and len({panel.extent(side) for panel in picture.panels}) == 1
    ]


def is_outer(side: Side, place: int, columns: int, count: int) -> bool:
    """Whether a panel is the lowest of its column (x), or the first of its row (y)."""
    return place + columns >= count if side == "x" else place % columns == 0


def figure_size(picture: Picture, compact: bool, models: int = 1) -> tuple[float, float]:
    """Width and height in inches of a figure of our own: square or landscape, from figure.figsize;
    or as wide as a column of a paper. `models`: the number drawn over each other."""
    from matplotlib import rcParams

    width, height = rcParams["figure.figsize"]
    if compact:
        width, height = COMPACT_WIDTH, COMPACT_HEIGHT
    height = min(width, height)
    panels, em = picture.panels, rcParams["font.size"] / 72
    if len(panels) == 1 and panels[0].square:
        side = width if compact else height
        return side, side
    columns = picture.columns
    if _same_categories(panels):
        columns = _side_by_side(panels, AXES * width)
    columns = min(2, columns) if compact and picture.columns > 1 else columns
    rows = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    line = max(LINE if compact else ROOMY, BESIDE * models) * em
    least = sum(max(_least_height(panel, em, line) for panel in row) for row in rows)
    if all(panel.y.categories for panel in panels):  # no higher than the names need
        height = min(height, least + LABELS * em)
    if picture.columns > 1:  # a grid of panels has the height that it needs
        height = least = max(least, len(rows) * width / columns)
    if len(panels) > 1:
        least += LINE * em * (1 + _legend_rows(picture, width, models))
    height = max(height, least)
    return (width if compact else max(width, height)), height


def _legend_rows(picture: Picture, width: float, models: int = 1) -> int:
    """The rows of a legend for all panels in a width in inches."""
    from matplotlib import rcParams

    names = {mark.name for panel in picture.panels for mark in panel.marks} - {""}
    longest = max(map(len, names), default=0) + (MODEL if models > 1 else 0) + SYMBOL
    across = max(1, int(width / (LETTER * rcParams["font.size"] / 72 * longest)))
    return math.ceil(models * len(names) / across)


def _least_height(panel: Panel, em: float, line: float) -> float:
    return LABELS * em + max(LEAST, line * len(panel.y.categories or ()))


@dataclass(frozen=True, eq=False)
class PanelGrid:
    """Locates axes in rows and columns inside the area of `host`, above its legend. It measures
    labels and titles when the figure is drawn, so that nothing overlaps in a figure of any size."""

    host: Axes
    axes: tuple[Axes, ...]
    columns: int
    heights: list[float]
    measured: dict[Axes, tuple[Any, Edges]] = field(default_factory=dict)

    def box(self, place: int, _: Axes, renderer: Any) -> Bbox:
        """The box of the axes at a place, in units of the figure."""
        from matplotlib.transforms import Bbox

        row, column = divmod(place, self.columns)
        area, gap = self.host.bbox, GAP * self._font_size()
        around = [self._around(one, renderer) for one in self.axes]
        columns, rows = range(self.columns), range(len(self.heights))
        left = [max(edge[0] for edge in around[c :: self.columns]) for c in columns]
        right = [max(edge[1] for edge in around[c :: self.columns]) for c in columns]
        in_row = [around[r * self.columns : (r + 1) * self.columns] for r in rows]
        below = [max(edge[2] for edge in edges) for edges in in_row]
        above = [max(edge[3] for edge in edges) for edges in in_row]
        legend = self.host.get_legend()
        foot = 0.0 if legend is None else legend.get_window_extent(renderer).height + gap
        free_x = area.width - sum(left) - sum(right) - gap * (len(columns) - 1)
        free_y = area.height - foot - sum(below) - sum(above) - gap * (len(rows) - 1)
        width = max(1.0, free_x / len(columns))
        unit = max(1.0, free_y) / sum(self.heights)
        x0 = area.x0 + sum(left[: column + 1]) + sum(right[:column]) + column * (width + gap)
        y1 = area.y1 - sum(above[: row + 1]) - sum(below[:row]) - row * gap
        y1 -= unit * sum(self.heights[:row])
        height = max(1.0, unit * self.heights[row])
        box = Bbox.from_bounds(x0, y1 - height, width, height)
        return box.transformed(self.host.figure.transSubfigure.inverted())

    def _around(self, ax: Axes, renderer: Any) -> Edges:
        """As `_around`, measured again only if something changed that it depends on."""
        sides = (ax.xaxis, ax.yaxis)
        state = (
            *(round(size) for size in ax.bbox.size),
            *(end for axis in sides for end in axis.get_view_interval()),
            *(
                (text.get_text(), text.get_fontsize())
                for text in (ax.title, *(axis.label for axis in sides))
            ),
            *(str(axis.get_tick_params()) for axis in sides),
            ax.figure.dpi,
        )
        if self.measured.get(ax, (None,))[0] != state:
            self.measured[ax] = (state, _around(ax, renderer))
        return self.measured[ax][1]

    def _font_size(self) -> float:
        """In pixels."""
        return float(self.host.xaxis.label.get_fontsize()) * self.host.figure.dpi / 72


def _around(ax: Axes, renderer: Any) -> Edges:
    """The space that labels and title take left, right, below and above axes, in pixels."""
    found = [axis.get_tightbbox(renderer) for axis in (ax.xaxis, ax.yaxis)]
    found += [text.get_window_extent(renderer) for text in ax.texts]
    boxes = [box for box in found if box is not None]
    frame = ax.bbox
    left = max([0.0, *(frame.x0 - box.x0 for box in boxes)])
    right = max([0.0, *(box.x1 - frame.x1 for box in boxes)])
    below = max([0.0, *(frame.y0 - box.y0 for box in boxes)])
    above = max([0.0, *(box.y1 - frame.y1 for box in boxes)])
    if ax.title.get_text():
        pad = float(ax.title.get_fontsize()) * ax.figure.dpi / 72 * 0.7
        title = ax.title.get_window_extent(renderer)
        above = max(above, title.height + pad)
        beside = (title.width - frame.width) / 2
        left, right = max(left, beside), max(right, beside)
    return left, right, below, above
