"""The calibration-sharpness diagram (Chidambaram & Ge 2024, Section 4.2, Figures 1-2): the
calibration curve with the sharpness gap."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.kernel import check_kernel
from ..calibration.kernel_regression import (
    KernelCurve,
    expected_if_calibrated,
    kernel_curve,
    kernel_error,
    kernel_function,
)
from ..calibration.log_kernel import log_sharpness
from ..calibration.views import diagram_grids
from ..choices.lenses import TopLabel
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..errors import InputError
from ..states import Grid
from ..text import capitalised, counted, number, percent, significant
from .diagram import Diagram
from .picture import Axis, Band, Line, Panel, Picture, Rule

TITLE = "Calibration and sharpness"
TOP = "the most probable class"
POINTS = 101
NAMES = {"brier": "Brier score", "log": "log loss"}
GAP = "right and wrong not separated (narrower is better)"
HOW_TO_READ = (
    "The line is how often answers of each confidence are right. The wider the coloured area, the "
    "less the confidence separates right from wrong answers, weighted by how many rows there are; "
    "recalibration cannot remove this loss."
)
RESAMPLES = 499
FEWEST = 0.5  # effective rows under the kernel; the curve is not drawn below


@dataclass(frozen=True, eq=False)
class CalibrationSharpness(Diagram):
    """Kernel regression on the confidence: accuracy, density, and the pointwise sharpness gap times
    the density (Eq. 4.7, scaled as in Appendix D).

    calibration : the calibration error by kernel regression, CAL (see `kernel_calibration_error`);
        low, high : its 95% interval, for the log loss. expected : its mean if the model is
        calibrated; NaN if unknown.
    total : the mean score over all classes, TOT; infinite if `infinite_rows` gave their true class
        probability 0, which are then left out of the gap.
    rows : effective number of rows under the kernel at each confidence.
    sampled : the number of rows used for CAL and the gap, if a sample; else 0.
    event : the name of the event.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    density: np.ndarray
    sharpness_gap: np.ndarray
    rows: np.ndarray
    calibration: float
    low: float
    high: float
    expected: float
    total: float
    infinite_rows: int
    n: int
    score: str
    kernel: str
    event: str = TOP
    sampled: int = 0

    @classmethod
    def of_grid(
        cls,
        grid: Grid,
        *,
        squared: np.ndarray | None = None,
        kernel: str = "gaussian",
        bandwidth: float = 0.05,
        event: str = TOP,
    ) -> CalibrationSharpness:
        """For the Brier score, from the grid of confidences of a pass over the rows.

        squared : sums of squared weights of the cells, which the grid of weighted rows lacks.
        """
        fine = FineGrid.of_summary(grid)
        fine = fine if squared is None else replace(fine, weight_squared=squared)
        options: dict[str, Any] = {"kernel": kernel, "bandwidth": bandwidth}
        calibration = float(kernel_error(fine.weight, fine.outputs, fine.targets, **options))
        expected = expected_if_calibrated(fine, **options)
        curve = kernel_curve(fine, np.linspace(0, 1, POINTS), **options)
        fields = {
            "calibration": calibration,
            "low": math.nan,
            "high": math.nan,
            "expected": expected,
        }
        fields |= {"total": float(fine.loss.sum() / fine.weight.sum()), "infinite_rows": 0}
        return cls._of_curve(curve, grid, kernel, bandwidth, score="brier", event=event, **fields)

    @classmethod
    def of_rows(
        cls,
        grid: Grid,
        rows: Predictions,
        *,
        kernel: str = "gaussian",
        bandwidth: float = 0.05,
        event: str = TOP,
    ) -> CalibrationSharpness:
        """For the log loss. CAL and the gap are computed from rows or a sample of them: grid cells
        are too wide for losses of outputs near 1."""
        fine, infinite = FineGrid.of_summary(grid, "log"), int(grid.infinite.sum())
        error, unexplained = log_sharpness(
            rows, kernel, bandwidth, interval="percentile", resamples=RESAMPLES
        )
        x = np.linspace(0, 1, POINTS)
        curve = kernel_curve(fine, x, kernel=kernel, bandwidth=bandwidth, unexplained=unexplained)
        total = math.inf if infinite else float(fine.loss.sum() / fine.weight.sum())
        fields = {
            "calibration": float(error),
            "low": error.low,
            "high": error.high,
            "expected": 0.0,
        }
        fields |= {"total": total, "infinite_rows": infinite}
        fields |= {"sampled": error.n if error.n < grid.rows.sum() else 0}
        return cls._of_curve(curve, grid, kernel, bandwidth, score="log", event=event, **fields)

    @classmethod
    def _of_curve(
        cls, curve: KernelCurve, grid: Grid, kernel: str, bandwidth: float, **fields: Any
    ) -> CalibrationSharpness:
        n = int(grid.rows.sum())
        near = curve.density * bandwidth * n / float(kernel_function(kernel)(np.zeros(1))[0])
        # no curve where there are no outputs, as below 0.5 for the top label of two classes
        first, last = np.flatnonzero(grid.rows)[[0, -1]] / len(grid.rows)
        step = 0.5 / (len(curve.x) - 1)
        inside = (curve.x >= first - step) & (curve.x <= last + 1 / len(grid.rows) + step)
        near = np.where(inside, near, 0.0)
        columns = (curve.x, curve.regression, curve.density, curve.sharpness_gap, near)
        return cls(
            *columns, n=n, kernel=f"{kernel} kernel of width {significant(bandwidth)}", **fields
        )

    @property
    def lowest(self) -> float:
        """The start of the axis of confidences: the lowest one, rounded down to 10%; 0 for rows
        that have a confidence only. That of the most probable of K classes is at least 1/K."""
        if self.event != TOP:
            return 0.0
        tenths = math.floor(10 * self.confidence[self.rows > 0].min() + 1e-9)
        return min(tenths, 9) / 10

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """The sharpness gap as a band around the curve, cut off at 0 (Appendix D)."""
        half = self.sharpness_gap / 2
        return np.maximum(0.0, self.accuracy - half), self.accuracy + half

    def columns(self) -> dict[str, np.ndarray]:
        """Where the curve is drawn."""
        columns = {
            "confidence": self.confidence,
            "accuracy": self.accuracy,
            "rows nearby": np.rint(self.rows),
            "density": self.density,
            "sharpness gap x density": self.sharpness_gap,
        }
        return {name: column[self.rows >= FEWEST] for name, column in columns.items()}

    def picture(self) -> Picture:
        panels = (self.curve_panel(), self.density_panel())
        return Picture(panels, TITLE, self._description(), self._caption())

    def curve_panel(self, title: str = "") -> Panel:
        """The accuracy at each confidence, in the band of the sharpness gap."""
        enough = self.rows >= FEWEST
        x, accuracy = self.confidence, np.where(enough, self.accuracy, np.nan)
        low, high = (np.where(enough, np.minimum(edge, 1.0), np.nan) for edge in self.band)
        detail = {
            "confidence": x,
            "right": accuracy,
            "sharpness gap": self.sharpness_gap,
            "rows nearby": np.rint(self.rows),
        }
        curve = Line(x, accuracy, role="observed", name=f"accuracy of {self.event}", detail=detail)
        gap = Band(x, low, high, role="sharpness", name=GAP)
        marks = (gap, Rule(role="reference"), curve)
        across, up = Axis("", self.lowest, 1, percent=True), Axis("accuracy", 0, 1, percent=True)
        return Panel(marks, across, up, title)

    def density_panel(self) -> Panel:
        """The density of confidences, where there are any."""
        x, density = self.confidence, np.where(self.rows > 0, self.density, 0.0)
        filled = Band(x, np.zeros(len(x)), density, role="density")
        edge = Line(x, density, role="density", detail={"confidence": x, "density": density})
        what = self.event if self.event == "the confidence" else f"confidence in {self.event}"
        across = Axis(what.removeprefix("the "), self.lowest, 1, percent=True)
        return Panel((filled, edge), across, Axis("density", low=0), share=0.35, histogram=True)

    def _caption(self) -> str:
        words = HOW_TO_READ + f" By the {NAMES[self.score]}, the calibration error (CAL) is"
        words += f" {number(self.calibration, 3)}"
        if math.isfinite(self.low):
            words += f" (95% interval {number(self.low, 3)} to {number(self.high, 3)})"
        if self.infinite_rows:
            rows = counted(self.infinite_rows)
            words += (
                f"; the total loss (TOT) is infinite, as {rows} gave the true class probability 0"
            )
        else:
            words += f", and the loss of all classes (TOT) is {number(self.total, 3)}"
        if math.isfinite(self.expected):
            words += f"; a calibrated model would have a CAL of {number(self.expected, 3)}"
        if self.sampled:
            words += f". CAL and the gap are from a sample of {self.sampled:,} rows"
        return f"{capitalised(words)}. {capitalised(self.kernel)}, {self.n:,} rows."

    def _description(self) -> str:
        peak = int(np.argmax(self.density))
        return (
            f"Calibration-sharpness diagram. {self._caption()}"
            f" Confidences are densest near {percent(self.confidence[peak])}, where"
            f" {self.event} is right {percent(self.accuracy[peak])} of the time."
        )


@takes_row_options
def calibration_sharpness_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    score: str = "brier",
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    **options: Unpack[RowOptions],
) -> CalibrationSharpness:
    """Accuracy at each confidence, in a band as wide as the loss that calibration does not explain
    (Chidambaram & Ge 2024, Figures 1-2).

    score, kernel, bandwidth : as in `kernel_calibration_curve`.

    >>> found = calibration_sharpness_diagram([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9])
    >>> round(found.total, 4), len(found.confidence)
    (0.35, 101)
    """
    check_kernel(score, kernel, bandwidth)
    predictions = rows_of(y_true, y_proba, **options)
    grid = survey(predictions).summary.grid
    if not grid.rows.any():
        raise InputError(predictions.name("probs"), "must have at least one valid row")
    event = "the confidence" if predictions.pairs else TOP
    if score == "log":
        return CalibrationSharpness.of_rows(
            grid, predictions, kernel=kernel, bandwidth=bandwidth, event=event
        )
    squared = diagram_grids(predictions, TopLabel())[0].weight_squared
    return CalibrationSharpness.of_grid(
        grid, squared=squared, kernel=kernel, bandwidth=bandwidth, event=event
    )
