"""Displays with the interface of scikit-learn: `from_predictions`, `from_estimator`, `plot`, `ax_`
and `figure_`.

Each display draws the result of one diagram function and takes the arguments of that function.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..data.row_index import common_index
from ..diagrams import named
from ..errors import InputError

if TYPE_CHECKING:
    from .diagram import Diagram
    from .matplotlib_drawer import Drawing

OPTIONS = ("ax", "name", "color", "legend", "title", "hist", "compact")  # of `Display.plot`


class Display:
    """A diagram with the interface of a scikit-learn display. `diagram` has the numbers.
    `plot` sets `ax_`, `axes_` and `figure_`."""

    function: ClassVar[str]
    drawing: Drawing

    def __init_subclass__(cls, *, function: str) -> None:
        cls.function = function

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_proba: Any = None, *, ax: Any = None, name: Any = None, **choices: Any
    ) -> Self:
        """From labels and probabilities. `choices` are arguments of the diagram function and of
        `plot`."""
        options, choices = _split(choices)
        return cls(named(cls.function)(y_true, y_proba, **choices)).plot(ax, name=name, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, name: Any = None, **choices: Any
    ) -> Self:
        """From a fitted classifier with `predict_proba` and `classes_`, and rows that were not used
        for training."""
        for needed in ("predict_proba", "classes_"):
            if not hasattr(estimator, needed):
                raise InputError(
                    "estimator",
                    f"must be a fitted classifier with `{needed}`",
                    type(estimator).__name__,
                )
        common_index({"X": X, "y": y})
        order = {} if "classes" in choices else {"classes": estimator.classes_}
        y_proba = estimator.predict_proba(X)
        return cls.from_predictions(y, y_proba, ax=ax, name=name, **order, **choices)

    @classmethod
    def from_folds(
        cls,
        folds: Iterable[tuple[Any, Any]],
        *,
        ax: Any = None,
        name: Any = None,
        **choices: Any,
    ) -> Self:
        """The mean curve of several folds, in a band of one standard deviation.

        folds : pairs (y_true, y_proba), one per fold.
        choices : as in `from_predictions`, the same for all folds.
        """
        from .folds import FoldCurves

        options, choices = _split(choices)
        for key in ("sample_weight", "clusters"):
            if choices.get(key) is not None:
                raise InputError(
                    key,
                    "must be None, as each fold has rows of its own",
                    way_out=("pass a list of diagrams to `FoldCurves.of_diagrams`",),
                )
        function = named(cls.function)
        each = [function(y_true, y_proba, **choices) for y_true, y_proba in folds]
        return cls(FoldCurves.of_diagrams(each)).plot(ax, name=name, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        color: Any = None,
        legend: bool | None = None,
        title: str | bool | None = None,
        hist: bool | None = None,
        compact: bool = False,
        **keywords: Any,
    ) -> Self:
        """Draw with matplotlib. Fonts, line widths and colours follow rcParams.

        Called again with the same `ax`, it draws another model over the first, in the next colour
        and with its own entry in the legend. Bars and points of a category stand side by side, and
        histograms have a common scale. Values written beside marks, and ranges behind them, are
        shown for a single model only, and intervals of points are faint from three models on.
        More models than `axes.prop_cycle` has colours, decision regions and compositions, whose
        stacked bars would hide each other, and diagrams with other panels or categories raise
        `InputError`.

        ax : axes to draw in. Several panels share their area. By default a new figure, with the
            legend below the axes where it would hide marks. In given axes, such a legend gets small
            letters and leaves out ranges. `plt.subplots(2, 2, layout="constrained")` keeps the
            labels of axes apart.
        name : of the model, in the legend.
        color : of the model. By default each kind of mark has its own colour; a model that has a
            name, or is drawn over another one, has the next colour of `axes.prop_cycle` (unless
            set, of the palette of Okabe & Ito).
        legend : False for none, True for one with all names. By default there is one if marks
            have names.
        title : text, True for the title of the diagram, or False for none. By default new figures
            have a title, and given axes have none.
        hist : False leaves out the histogram of outputs along the bottom, scaled to a fixed height.
        compact : a new figure 3.3 inches wide, for one column of a paper, with smaller letters.
        keywords : properties of artists, each a dictionary: `line_kw`, `marker_kw`, `interval_kw`,
            `band_kw`, `bar_kw`, `reference_kw`, `hist_kw`, `text_kw`, `legend_kw`.

        An option that the diagram cannot use raises `InputError`.
        """
        options: dict[str, Any] = {"name": name, "color": color, "legend": legend, "title": title}
        options |= {"hist": hist, "compact": compact}
        self.drawing = self.diagram.plot(ax, **options, **keywords)
        self.ax_, self.axes_, self.figure_ = (
            self.drawing.ax_,
            self.drawing.axes_,
            self.drawing.figure_,
        )
        return self

    def _repr_png_(self) -> bytes | None:
        return self.drawing._repr_png_() if hasattr(self, "drawing") else None


def _split(choices: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of `plot`, and the arguments of the diagram function."""
    if "label" in choices:  # as in other functions that draw
        found = choices["label"]
        raise TypeError(f"a display has no argument `label` (found: {found!r}). Use `name`.")
    options = {key for key in choices if key in OPTIONS or key.endswith("_kw")}
    return (
        {key: choices[key] for key in choices if key in options},
        {key: choices[key] for key in choices if key not in options},
    )


@cache
def display_class(name: str, function: str) -> type[Display]:
    """The display of a diagram, by the function that computes it."""
    body = {"__doc__": f"See `{function}`.", "__module__": "probaudit.diagrams"}
    return new_class(name, (Display,), {"function": function}, lambda space: space.update(body))
