"""What axes of matplotlib show, so that another model can be drawn over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .matplotlib_marks import move
from .overlay import placed
from .palette import FAINT
from .picture import Mark, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = "_probaudit_shown"  # attribute of axes: what they show
SEVERAL = 3  # models over each other, from which on intervals are faint


@dataclass(frozen=True, eq=False)
class Placed:
    """The artists of a mark whose place depends on the number of models."""

    mark: Mark
    panel: Panel
    place: int
    model: int
    artists: list[Any]


@dataclass(frozen=True, eq=False)
class Shown:
    """What axes show: a panel in each of `axes`, a number of `models`, their colours, the names in
    the legend that models share, artists that are shown for a single model only, intervals of
    points, and artists that move if another model comes. `own`: whether the drawer made the figure.
    `scale`: of letters and lines."""

    axes: tuple[Axes, ...]
    panels: tuple[Panel, ...]
    columns: int
    own: bool
    scale: float
    compact: bool
    models: int = 0
    colours: tuple[Any, ...] = ()
    names: frozenset[str] = frozenset()
    single: tuple[Any, ...] = ()
    intervals: tuple[Any, ...] = ()
    placed: tuple[Placed, ...] = ()

    @classmethod
    def on(cls, ax: Axes) -> Shown | None:
        """None if nothing has been drawn, or if the axes were cleared since."""
        shown: Shown | None = getattr(ax, SHOWN, None)
        if shown is None or not shown.axes[0].has_data():
            return None
        return shown if shown.axes[0] in (ax, *ax.child_axes) else None

    def settle(self) -> None:
        """Put the marks of all models beside each other, and their histograms on a common scale;
        make the intervals of several models faint."""
        for lines in self.intervals if self.models >= SEVERAL else ():
            lines.set_alpha(FAINT)
        for one in self.placed if self.models > 1 else ():
            top = max(o.panel.histogram_top for o in self.placed if o.place == one.place)
            move(one.artists, placed(one.mark, one.panel, one.model, self.models, top))
