"""Diagrams in the manner of scikit-learn's displays: `from_predictions`, `from_estimator`, `plot`,
`ax_` and `figure_`.

Each draws what a function of this package finds, and takes that function's arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..diagrams import named
from ..errors import InputError

if TYPE_CHECKING:
    from .diagram import Diagram
    from .matplotlib_drawer import Drawing


class Display:
    """A diagram that can be drawn. `diagram` holds its numbers; after `plot`, `ax_`, `axes_` and
    `figure_` say where it is."""

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
        """From labels and probabilities. `choices` are those of the function that finds the
        diagram."""
        return cls(named(cls.function)(y_true, y_proba, **choices)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **choices: Any
    ) -> Self:
        """From a fitted classifier with `predict_proba` and `classes_`, and rows that it has not
        seen."""
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


class CalibrationSharpnessDisplay(Display, function="calibration_sharpness_diagram"):
    """See `calibration_sharpness_diagram`."""


class ClasswiseDisplay(Display, function="classwise_diagram"):
    """See `classwise_diagram`."""


class DecisionRegionsDisplay(Display, function="decision_regions_diagram"):
    """See `decision_regions_diagram`."""


class GroupErrorsDisplay(Display, function="group_errors_diagram"):
    """See `group_errors_diagram`."""


class GroupingDisplay(Display, function="grouping_diagram"):
    """See `grouping_diagram`."""


class IntervalWiseDisplay(Display, function="interval_wise_diagram"):
    """See `interval_wise_diagram`."""


class LossBudgetDisplay(Display, function="loss_budget_diagram"):
    """See `loss_budget_diagram`."""


class PartitionCompositionDisplay(Display, function="partition_composition_diagram"):
    """See `partition_composition_diagram`."""


class ReliabilityDisplay(Display, function="reliability_diagram"):
    """See `reliability_diagram`."""


class RiskCurveDisplay(Display, function="risk_curve_diagram"):
    """See `risk_curve_diagram`."""


class ScoreIntervalsDisplay(Display, function="score_intervals_diagram"):
    """See `score_intervals_diagram`."""


class SmoothCalibrationDisplay(Display, function="smooth_calibration_diagram"):
    """See `smooth_calibration_diagram`."""


class SweepDisplay(Display, function="sweep_diagram"):
    """See `sweep_diagram`."""


class TopKDisplay(Display, function="top_k_diagram"):
    """See `top_k_diagram`."""
