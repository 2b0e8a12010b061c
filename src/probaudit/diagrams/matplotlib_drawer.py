"""The matplotlib drawer, for notebooks, files and papers.

Sizes, fonts, line widths and colours follow rcParams. The drawer never changes them and does not
use pyplot.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..data.extras import needed
from ..errors import Argument, InputError
from .matplotlib_frame import entitle, frame, label
from .matplotlib_legend import add_legend, check_legend
from .matplotlib_marks import check_keywords, draw_mark, keys_of
from .matplotlib_shown import SHOWN, Placed, Shown
from .matplotlib_text import escaped
from .overlay import can_move, for_one_model, over
from .palette import SERIES, colour
from .panel_grid import (
    PanelGrid,
    arranged,
    columns_of,
    common_sides,
    figure_size,
    is_outer,
    row_heights,
)
from .picture import CONTEXT, Band, Bars, Line, Mark, Picture, Points, Rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

needed("matplotlib", "Drawing", "plots")

COMPACT = 0.8  # font size and line width of a compact figure, relative to rcParams
SMALLEST, FINEST = 0.75, 0.5  # the least of either for several panels in given axes
SHARP = 2  # pixels of a PNG file per pixel of the figure
METADATA = {  # of a file: the keys of title, description and date
    "png": ("Title", "Description", None),
    "svg": ("Title", "Description", "Date"),
    "pdf": ("Title", "Subject", "CreationDate"),
}


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

    def save(self, path: Any, **options: Any) -> None:
        """Write the figure to a file of the kind that its name ends with, as `Figure.savefig`."""
        self.figure_.savefig(path, **options)

    def __repr__(self) -> str:
        width, height = self.figure_.get_size_inches()
        panels = "1 panel" if len(self.axes_) == 1 else f"{len(self.axes_)} panels"
        return f"Drawing({panels}, {width:.1f} x {height:.1f} inches); .save(path), .figure_, .ax_"

    def _repr_png_(self) -> bytes | None:
        if not self.own:  # the caller displays a figure of their own
            return None
        content = io.BytesIO()
        self.figure_.savefig(content, format="png")
        return content.getvalue()


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

    if ax is not None and not hasattr(ax, "child_axes"):
        raise InputError(
            "ax",
            "must be axes of matplotlib",
            type(ax).__name__,
            way_out=("pass one of the axes, such as `axs[0, 0]` or `figure.add_subplot()`",),
        )
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
    own, before = ax is None, None if ax is None else Shown.on(ax)
    if before is not None:
        picture, scale = over(picture, before.panels), before.scale
    else:
        scale = COMPACT if compact else 1.0 if ax is None else _scale(picture, ax)
    sizes: Any = {"font.size": SMALLEST, "lines.linewidth": FINEST, "lines.markersize": FINEST}
    with rc_context({key: max(least, scale) * rcParams[key] for key, least in sizes.items()}):
        if ax is None:
            ax = _new_axes(picture, compact)
        style = _Style.of(picture, before, name, color, keywords)
        shown_names = [
            one.get_legend_handles_labels()[1] for one in (before.axes if before else ())
        ]
        named = name is not None or any(shown_names)
        named = named or any(mark.name for panel in picture.panels for mark in panel.marks)
        check_legend(legend, keywords.get("legend_kw"), named)
        shown = style.draw(picture, before or _empty(picture, ax, own, scale, compact))
        setattr(ax, SHOWN, shown)
        figure = _resized(ax, shown)
        _lay_out(figure, shown)
        for panel, one in zip(shown.panels, shown.axes, strict=True):
            label(panel, one, len(shown.panels) > 1)
        if title is not False and (own or title is not None):
            entitle(picture, ax, title, shown.own)
        _lay_out(figure, shown)
        below = add_legend(
            ax, shown.axes, shown.panels, legend, keywords.get("legend_kw"), shown.own
        )
        _resized(ax, shown, below)
        _lay_out(figure, shown)  # one pass does not converge if square axes change their width
    return Drawing(figure, shown.axes, own)


def image(picture: Picture, kind: str, **options: Any) -> bytes:
    """The picture as a "png", "svg" or "pdf" file, with title and description as metadata. Equal
    pictures have equal bytes. A PNG file has savefig.dpi, or twice figure.dpi if that is not set.
    """
    from matplotlib import rc_context, rcParams

    figure = draw(picture, **options).figure_
    title, description, date = METADATA[kind]
    metadata: dict[str, Any] = {title: picture.title, description: picture.description}
    if date is not None:
        metadata[date] = None
    dpi = SHARP * figure.dpi if rcParams["savefig.dpi"] == "figure" else rcParams["savefig.dpi"]
    content = io.BytesIO()
    with rc_context({"svg.hashsalt": rcParams["svg.hashsalt"] or "probaudit"}):
        figure.savefig(content, format=kind, dpi=dpi, metadata=metadata)
    return content.getvalue()


def inline_image(picture: Picture) -> tuple[bytes, int]:
    """A sharp PNG image for a notebook, and the width in pixels to show it with."""
    figure, content = draw(picture).figure_, io.BytesIO()
    figure.savefig(content, format="png", dpi=SHARP * figure.dpi)
    return content.getvalue(), round(figure.get_size_inches()[0] * figure.dpi)


def _new_axes(picture: Picture, compact: bool) -> Axes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=figure_size(picture, compact))
    figure.subplots_adjust(0.1, 0.1, 0.98, 0.9)  # until the layout is computed
    ax = figure.add_subplot()
    figure.set_layout_engine("constrained")
    return ax


def _scale(picture: Picture, ax: Axes) -> float:
    """The size of given axes for several panels, relative to a figure of their own, at most 1."""
    if len(picture.panels) == 1:
        return 1.0
    width, height = _inches(ax)
    wanted = figure_size(picture, False)
    return min(1.0, width / wanted[0], height / wanted[1])


def _inches(ax: Axes) -> tuple[float, float]:
    figure, box = ax.get_figure(root=True), ax.get_window_extent()
    assert figure is not None
    return box.width / figure.dpi, box.height / figure.dpi


def _resized(ax: Axes, shown: Shown, below: float = 0.0) -> Figure:
    """The figure, if it is our own high enough for its models and for a legend `below` the axes, in
    inches."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    if shown.own:
        picture = Picture(shown.panels, "", "", columns=shown.columns)
        needed = figure_size(picture, shown.compact, shown.models)[1] + below
        width, height = figure.get_size_inches()
        height = max(height, needed)
        figure.set_size_inches(width if shown.compact else max(width, height), height)
    return figure


def _lay_out(figure: Figure, shown: Shown) -> None:
    """Compute the size of axes in a figure of our own."""
    engine = figure.get_layout_engine()
    if shown.own and engine is not None:
        engine.execute(figure)


def _empty(picture: Picture, ax: Axes, own: bool, scale: float, compact: bool) -> Shown:
    """Axes for each panel: the given ones, or several inside their area."""
    made: dict[str, Any] = {"columns": picture.columns, "own": own, "scale": scale}
    made["compact"] = compact
    if len(picture.panels) == 1:
        return Shown((ax,), picture.panels, **made)
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
    return Shown(axes, arranged(picture, columns), **made)


@dataclass(frozen=True, eq=False)
class _Style:
    """How the marks of one model are drawn. `colours`: by series, of a model that is named, has a
    given colour or is drawn over another one; otherwise each role has its own."""

    name: str | None
    colours: dict[str, Any]
    keywords: dict[str, Any]
    single: bool
    cycle: tuple[str, ...]
    first: str

    @classmethod
    def of(
        cls,
        picture: Picture,
        before: Shown | None,
        name: str | None,
        color: Any,
        keywords: dict[str, Any],
    ) -> _Style:
        single = picture.one_colour
        marks = [mark for panel in picture.panels for mark in panel.marks]
        check_keywords(marks, keywords)
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
        free = [each for each in cycle if each not in used]
        curves = 1 if single else len(picture.series)
        if before is not None and color is None and len(free) < curves:
            raise InputError(
                "ax",
                f"needs {curves} of the {len(cycle)} colours of `axes.prop_cycle` for each model",
                f"{before.models + 1} models",
                way_out=("draw it in other axes, or set `axes.prop_cycle` to more colours",),
            )
        free = free or list(cycle)
        colours: dict[str, Any] = {}
        if single and (color is not None or name is not None or before is not None):
            colours = dict.fromkeys(picture.series, free[0] if color is None else color)
        elif before is not None:
            colours = {key: free[k % len(free)] for k, key in enumerate(picture.series)}
        return cls(name, colours, keywords, single, cycle, next(iter(picture.series), ""))

    def draw(self, picture: Picture, shown: Shown) -> Shown:
        """Draw all panels; returns what the axes show then."""
        names, single, moving = set(shown.names), [], list(shown.placed)
        intervals = list(shown.intervals)
        panels, over = [], shown.models > 0
        for artist in shown.single if over else ():
            artist.remove()
        for k, (place, panel, ax) in enumerate(
            zip(shown.panels, picture.panels, shown.axes, strict=True)
        ):
            limits = (ax.get_xlim(), ax.get_ylim()) if ax.has_data() else None
            for order, mark in enumerate(panel.marks):
                paint = self._paint(mark, names, order, over)
                artists = draw_mark(mark, panel, ax, paint, self._own(mark))
                single += artists if for_one_model(mark) else []
                if isinstance(mark, Points) and "alpha" not in (
                    self.keywords.get("interval_kw") or {}
                ):
                    intervals += artists[:-1]
                if can_move(mark, panel):
                    moving.append(Placed(mark, panel, k, shown.models, artists))
            frame(panel, ax, limits)
            kept = [mark for mark in place.marks if not for_one_model(mark)] if over else []
            panels.append(replace(place, marks=(*kept, *panel.marks), title=panel.title))
        marks = [mark for panel in picture.panels for mark in panel.marks]
        common = {escaped(m.name) for m in marks if not m.series or isinstance(m, Band)}
        painted = [self._colour(mark, over) for mark in marks if mark.series]
        found = replace(
            shown,
            panels=tuple(panels),
            models=shown.models + 1,
            colours=(*shown.colours, *painted),
            names=shown.names | common,
            single=tuple(single),
            intervals=tuple(intervals),
            placed=tuple(one for one in moving if not (over and for_one_model(one.mark))),
        )
        found.settle()
        return found

    def _colour(self, mark: Mark, over: bool) -> Any:
        """References and remainders are grey, unless they distinguish models."""
        series = mark.series or next(iter(self.colours), "")
        references = over and mark.role == "reference" and isinstance(mark, (Line, Rule))
        parts = self.single and isinstance(mark, Bars) and not mark.faint
        if series in self.colours and (
            mark.role not in CONTEXT or mark.role == "density" or references or parts
        ):
            return self.colours[series]
        named = self.name is not None and mark.role == "density"
        return colour(self.first if named and self.first else mark.role, self.cycle)

    def _own(self, mark: Mark) -> dict[str, Any]:
        """The keywords for the artist of a mark, and for its intervals."""
        return {key: self.keywords.get(key) or {} for key in keys_of(mark)}

    def _paint(self, mark: Mark, names: set[str], order: int, over: bool) -> dict[str, Any]:
        name = mark.name
        if self.name is not None and mark.series and not isinstance(mark, Band):
            name = self.name if self.single else name and f"{self.name}: {name}"
        text = escaped(name)
        if text in names:
            text = ""
        names.add(text)
        zorder = 2 + 0.01 * order
        return {"color": self._colour(mark, over), "label": text or "_", "zorder": zorder}


def _cycle() -> tuple[str, ...]:
    """The colours of axes.prop_cycle if it was changed, else the palette."""
    from matplotlib import rcParams, rcParamsDefault

    cycle = rcParams["axes.prop_cycle"]
    if cycle == rcParamsDefault["axes.prop_cycle"]:
        return SERIES
    return tuple(cycle.by_key().get("color", SERIES))
