"""The frame of a panel in matplotlib: limits, ticks, labels and titles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .matplotlib_text import escaped, font_points, letters, wrapped
from .picture import Axis, Panel, Picture, Side

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_OF_NAMES = 45  # characters
STEPS, FINE_STEPS = [1, 2, 5, 10], [1, 2, 2.5, 5, 10]  # of ticks
FEW = 4  # intervals between ticks
MOST = 0.94  # of the width of a figure that a title takes
THOUSANDS = 1e4  # from here on, ticks are in thousands


def frame(panel: Panel, ax: Axes, limits: tuple[tuple[float, float], ...] | None) -> None:
    """Axes for a panel. `limits` of x and y: those that other models need."""
    for k, side in enumerate(("x", "y")):
        axis = panel.x if side == "x" else panel.y
        ends = panel.extent("x" if side == "x" else "y")
        if limits is not None:
            ends = min(*ends, *limits[k]), max(*ends, *limits[k])
        _axis(axis, ax, "x" if side == "x" else "y", ends)
    if panel.square:
        ax.set_box_aspect(1)


def label(panel: Panel, ax: Axes, several: bool) -> None:
    """Titles of the axes, and of one of several panels, wrapped to the present size of the axes."""
    box = ax.get_window_extent()
    for own, axis, room in ((ax.xaxis, panel.x, box.width), (ax.yaxis, panel.y, box.height)):
        own.set_label_text(wrapped(axis.title, room, float(own.label.get_fontsize()), ax))
    _thin_out(panel, ax, box.width)
    if several and panel.title:
        size = float(ax.xaxis.label.get_fontsize())
        ax.set_title(wrapped(panel.title, box.width, size, ax), fontsize=size)


def _thin_out(panel: Panel, ax: Axes, width: float) -> None:
    """Fewer ticks on the x axis if their numbers would overlap."""
    from matplotlib.ticker import MaxNLocator

    if panel.x.categories is not None or panel.x.scale != "linear":
        return
    low, high = ax.get_xlim()
    room = letters(ax, width, font_points("xtick.labelsize"))
    for most in (None, *range(FEW, 0, -1)):
        if most is not None:
            ax.xaxis.set_major_locator(MaxNLocator(most, steps=FINE_STEPS, min_n_ticks=1))
        ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
        longest = max(map(len, ax.xaxis.get_major_formatter().format_ticks(ticks)), default=0)
        if len(ticks) < 2 or (ticks[1] - ticks[0]) / (high - low) * room >= longest:
            return


def entitle(picture: Picture, ax: Axes, title: str | bool | None, own: bool) -> None:
    """The title of the axes; of a picture of one panel, also that of the panel. It may be as wide
    as an own figure, or as given axes."""
    lines = [picture.title] if title in (None, True) else [str(title)]
    if len(picture.panels) == 1 and title in (None, True) and picture.panels[0].title:
        lines.append(picture.panels[0].title)
    box, figure = ax.get_window_extent(), ax.get_figure(root=True)
    assert figure is not None
    middle = (box.x0 + box.x1) / 2
    wide = MOST * 2 * min(middle, figure.bbox.width - middle) if own else box.width
    size = float(ax.title.get_fontsize())
    ax.set_title("\n".join(wrapped(line, wide, size, ax) for line in lines))


def _axis(axis: Axis, ax: Axes, side: Side, ends: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    own = ax.xaxis if side == "x" else ax.yaxis
    limit, scale = (ax.set_xlim, ax.set_xscale) if side == "x" else (ax.set_ylim, ax.set_yscale)
    if axis.scale == "log":
        scale("log")
    # the first name on top
    limit(ends[::-1] if axis.categories is not None and side == "y" else ends)
    # Ticks are created later, when rcParams may differ.
    own.set_tick_params(labelsize=font_points(f"{side}tick.labelsize"))
    if axis.categories is not None:
        own.set_ticks(range(len(axis.categories)), [escaped(name) for name in axis.categories])
        if side == "x" and sum(map(len, axis.categories)) > ROW_OF_NAMES:
            own.set_tick_params(rotation=40)
            for text in own.get_ticklabels():
                text.set_horizontalalignment("right")
        return
    if axis.scale == "linear":
        own.set_major_locator(MaxNLocator("auto", steps=STEPS if axis.percent else FINE_STEPS))
    if axis.percent:
        own.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g}%"))
    elif axis.scale == "linear" and max(map(abs, ends)) >= THOUSANDS:
        own.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value / 1000:,.10g}k" if value else "0")
        )
