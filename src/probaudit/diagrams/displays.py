"""Displays with the interface of scikit-learn: `from_predictions`, `from_estimator`, `plot`, `ax_`
and `figure_`.

Each display draws the result of one diagram function and takes the arguments of that function.
"""

from __future__ import annotations

from functools import cache
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..diagrams import named
from ..errors import InputError

if TYPE_CHECKING:
    from .diagram import Diagram
    from .matplotlib_drawer import Drawing


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
        cls, y_true: Any, y_proba: Any = None, *, ax: Any = None, **choices: Any
    ) -> Self:
        """From labels and probabilities. `choices` are arguments of the diagram function."""
        return cls(named(cls.function)(y_true, y_proba, **choices)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **choices: Any
    ) -> Self:
        """From a fitted classifier with `predict_proba` and `classes_`, and rows that were not used
        for training."""
        for name in ("predict_proba", "classes_"):
            if not hasattr(estimator, name):
                raise InputError(
                    "estimator",
                    f"must be a fitted classifier with `{name}`",
                    type(estimator).__name__,
                )
        order = {} if "classes" in choices else {"classes": estimator.classes_}
        return cls.from_predictions(y, estimator.predict_proba(X), ax=ax, **order, **choices)

    def plot(self, ax: Any = None) -> Self:
        self.drawing = self.diagram.plot(ax)
        self.ax_, self.axes_, self.figure_ = (
            self.drawing.ax_,
            self.drawing.axes_,
            self.drawing.figure_,
        )
        return self

    def _repr_png_(self) -> bytes | None:
        return self.drawing._repr_png_() if hasattr(self, "drawing") else None


@cache
def display_class(name: str, function: str) -> type[Display]:
    """The display of a diagram, by the function that computes it."""
    body = {"__doc__": f"See `{function}`.", "__module__": "probaudit.diagrams"}
    return new_class(name, (Display,), {"function": function}, lambda space: space.update(body))
