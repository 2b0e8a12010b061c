"""The calibration-sharpness diagram (paper 5, Section 4.2, Figures 1-2): the calibration curve, with what is lost besides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..errors import InputError
from ..estimates.fine_grid import FineGrid
from ..estimates.kernel import kernel_curve, kernel_error, kernel_function
from ..metrics import RowOptions, rows_of
from ..scores import NAMED
from ..statistics import Grid
from ..viewing import survey
from ..words import counted
from .diagram import Diagram, number
from .picture import Axis, Band, Line, Panel, Picture, Rule

POINTS = 101
NAMES = {"brier": "Brier", "log": "log"}
FEWEST = 0.5  # rows under the kernel, for a curve to be drawn


@dataclass(frozen=True, eq=False)
class CalibrationSharpness(Diagram):
    """At each confidence, by kernel regression: how often the most probable class is right, the density of confidences, and the
    pointwise sharpness gap times that density (Eq. 4.7, scaled as Appendix D does).

    calibration : the calibration error by kernel regression, CAL. total : the mean score over all classes, TOT; infinite if
        `infinite_rows` gave their true class probability 0, which are then left out of the gap.
    rows : how many rows the kernel covers at each confidence, each counting as much as it is near.
    event : what is right or not, in words.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    density: np.ndarray
    sharpness_gap: np.ndarray
    rows: np.ndarray
    calibration: float
    total: float
    infinite_rows: int
    n: int
    score: str
    kernel: str
    event: str = "the most probable class"

    @classmethod
    def of_grid(
        cls,
        grid: Grid,
        *,
        score: str = "brier",
        kernel: str = "gaussian",
        bandwidth: float = 0.05,
        event: str = "the most probable class",
    ) -> CalibrationSharpness:
        """From the grid of confidences that a pass leaves behind."""
        if score not in NAMED:
            raise InputError("score", f"must be one of {', '.join(NAMED)}", repr(score))
        if not 0 < bandwidth < np.inf:
            raise InputError("bandwidth", "must be positive and finite", bandwidth)
        rule, fine = NAMED[score].one_dimensional(), FineGrid.of_summary(grid, score)
        infinite = int(grid.infinite.sum()) if score == "log" else 0
        curve = kernel_curve(fine, rule, np.linspace(0, 1, POINTS), kernel=kernel, bandwidth=bandwidth)
        error = kernel_error(fine.weight, fine.outputs, fine.targets, rule, kernel=kernel, bandwidth=bandwidth)
        n = int(grid.rows.sum())
        return cls(
            curve.x,
            curve.regression,
            curve.density,
            curve.sharpness_gap,
            curve.density * bandwidth * n / float(kernel_function(kernel)(np.zeros(1))[0]),
            float(error),
            math.inf if infinite else float(fine.loss.sum() / fine.weight.sum()),
            infinite,
            n,
            score,
            f"{kernel} kernel of width {bandwidth:g}",
            event,
        )

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """The sharpness gap as a band of that width around the curve, cut off at 0 (Appendix D)."""
        return np.maximum(0.0, self.accuracy - self.sharpness_gap / 2), self.accuracy + self.sharpness_gap / 2

    def columns(self) -> dict[str, np.ndarray]:
        names = ("confidence", "accuracy", "density", "sharpness_gap", "rows")
        return {name: getattr(self, name) for name in names}

    def picture(self) -> Picture:
        seen = self.rows >= FEWEST
        x, accuracy = self.confidence, np.where(seen, self.accuracy, np.nan)
        low, high = (np.where(seen, edge, np.nan) for edge in self.band)
        top = max(1.0, float(np.nanmax(np.r_[high, 0.0])))
        detail = {"confidence": x, "right": accuracy, "sharpness gap": self.sharpness_gap, "rows nearby": np.rint(self.rows)}
        curve = Line(x, accuracy, role="observed", name=f"how often {self.event} is right", detail=detail)
        gap = Band(x, low, high, role="over", name="sharpness gap x density: wider is worse")
        above = Panel((gap, Rule(role="reference"), curve), Axis("", 0, 1), Axis("how often right", 0, top))
        filled = Band(x, np.zeros(len(x)), self.density, role="density")
        edge = Line(x, self.density, role="density", detail={"confidence": x, "density": self.density})
        below = Panel((filled, edge), Axis(f"confidence in {self.event}", 0, 1), Axis("density", low=0), share=0.35)
        return Picture((above, below), "Calibration and sharpness", self._description(), self._caption())

    def _caption(self) -> str:
        words = f"{NAMES[self.score]} score: calibration error (CAL) {number(self.calibration)}"
        if self.infinite_rows:
            rows = counted(self.infinite_rows)
            words += f"; the total loss (TOT) is infinite, as {rows} gave the true class probability 0"
        else:
            words += f" of a total loss (TOT) of {number(self.total)}; the rest is for lack of sharpness"
        return f"{words[0].upper()}{words[1:]}. {self.kernel.capitalize()}, {self.n:,} rows."

    def _description(self) -> str:
        peak = int(np.argmax(self.density))
        return (
            f"Calibration-sharpness diagram. {self._caption()} Confidences are densest near {self.confidence[peak]:.2f}, where "
            f"{self.event} is right {self.accuracy[peak]:.1%} of the time."
        )


def calibration_sharpness_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    score: str = "brier",
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    **options: Unpack[RowOptions],
) -> CalibrationSharpness:
    """How often the most probable class is right at each confidence, in a band as wide as the loss that calibration cannot
    explain (paper 5, Figures 1-2).

    score, kernel, bandwidth : as in `kernel_calibration_curve`.

    >>> found = calibration_sharpness_diagram([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9])
    >>> round(found.total, 4), len(found.confidence)
    (0.35, 101)
    """
    predictions = rows_of(y_true, y_proba, **options)
    grid = survey(predictions).summary.grid
    if not grid.rows.any():
        raise InputError(predictions.name("probs"), "no row is left to judge")
    event = "the stated answer" if predictions.pairs else "the most probable class"
    return CalibrationSharpness.of_grid(grid, score=score, kernel=kernel, bandwidth=bandwidth, event=event)
