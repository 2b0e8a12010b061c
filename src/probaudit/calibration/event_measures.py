"""Measures of a single event's probabilities that other fields use: cumulative differences, Cox's
calibration line, ICI, E50 and E90. For binary problems, or through any lens of one event."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import Binary, Lens, View
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..errors import InputError
from ..states import CELLS
from .fine_grid import FineGrid
from .kernel_regression import smoothed
from .views import LensRows, event_rows

# a kernel's width in cells of the grid; finer ones would not change a sixth digit
CELLS_A_WIDTH = 100


@dataclass(frozen=True)
class EventOutcomes:
    """The rows of one event: outputs p, labels y in {0, 1}, weights w."""

    p: np.ndarray
    y: np.ndarray
    w: np.ndarray
    shown: LensRows

    @property
    def order(self) -> np.ndarray:
        return self.shown.order

    @classmethod
    def of(
        cls,
        y_true: Any,
        y_proba: Any,
        lens: Lens | None,
        options: RowOptions,
        *,
        weighted: bool = True,
        independent: str = "",
    ) -> EventOutcomes:
        """The event that a lens shows. `independent` names a test or a standard error that is
        valid for independent rows only."""
        if not weighted and options.get("sample_weight") is not None:
            raise InputError("sample_weight", "this measure is defined for rows of equal weight")
        predictions = rows_of(y_true, y_proba, **options)
        if independent and predictions.cluster_numbers is not None:
            rule = f"{independent} needs independent rows; `calibration_test` takes clusters"
            raise InputError("clusters", rule)
        if not independent and options.get("clusters") is not None:
            raise InputError(
                "clusters",
                "has no effect here: this measure has no interval and no test; leave it out",
            )
        if lens is None and predictions.n_classes != 2:
            raise InputError(
                "lens", "with more than two classes, say which event: TopLabel() or OneVsRest(k)"
            )
        shown = event_rows(predictions, Binary() if lens is None else lens)
        return cls(np.clip(shown.view.outputs, 0, 1), shown.view.labels, shown.weights, shown)


@dataclass(frozen=True)
class CumulativeDifferences:
    """The walk of sum (y - p) / n over rows in order of p: its largest distance from 0, and its
    range."""

    kolmogorov_smirnov: float
    kuiper: float
    p: np.ndarray
    walk: np.ndarray
    n: int


@documents_row_options
def cumulative_differences(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> CumulativeDifferences:
    """The cumulated difference of events and probabilities (ECCE), with its Kolmogorov-Smirnov and
    Kuiper measures.

    No bins are needed (Arrieta-Ibarra et al. 2022).
    """
    rows = EventOutcomes.of(y_true, y_proba, lens, options)
    return _walk(rows.p, rows.y, rows.w, rows.order)


def _walk(p: np.ndarray, y: np.ndarray, w: np.ndarray, order: np.ndarray) -> CumulativeDifferences:
    """Equal outputs are one step of the walk, so the order of ties does not matter."""
    rising = p[order]
    new = np.r_[True, rising[1:] != rising[:-1]]
    walk = np.cumsum(np.bincount(np.cumsum(new) - 1, (w * (y - p))[order]) / w.sum())
    both = np.r_[0.0, walk]
    return CumulativeDifferences(
        float(np.abs(walk).max()), float(both.max() - both.min()), rising[new], walk, len(p)
    )


@dataclass(frozen=True)
class CalibrationLine:
    """Cox's logistic recalibration, logit P(y = 1) = intercept + slope logit p, each with its
    standard error.

    A calibrated model has slope 1 and intercept 0; a slope below 1 is overconfidence. `offset` is
    the intercept when the slope is held at 1: calibration in the large.
    """

    slope: float
    intercept: float
    slope_error: float
    intercept_error: float
    offset: float
    offset_error: float
    converged: bool
    n: int


@documents_row_options
def calibration_line(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> CalibrationLine:
    """Calibration slope and intercept (Cox 1958), and calibration in the large."""
    rows = EventOutcomes.of(
        y_true, y_proba, lens, options, independent="a standard error of the calibration line"
    )
    return _cox_line(rows.p, rows.y, rows.w)


def _cox_line(p: np.ndarray, y: np.ndarray, w: np.ndarray) -> CalibrationLine:
    """Newton's method for two coefficients, and for one."""
    if not ((p > 0) & (p < 1)).all():
        raise InputError(
            "y_proba",
            "the logistic line requires outputs inside (0, 1)",
            float(p[(p <= 0) | (p >= 1)][0]),
        )
    if y.min() == y.max():
        raise InputError("y_true", "the logistic line requires both outcomes", int(y[0]))
    z = np.log(p) - np.log1p(-p)
    features = np.stack([np.ones_like(z), z])
    with ThreadPoolExecutor(2) as pool:  # their loops do not hold the interpreter's lock
        both = pool.map(partial(_logistic, features, y, w), (2, 1))
    (line, covariance, converged), (offset, variance, settled) = both
    errors = np.sqrt(np.diag(covariance))
    return CalibrationLine(
        slope=float(line[1]),
        intercept=float(line[0]),
        slope_error=float(errors[1]),
        intercept_error=float(errors[0]),
        offset=float(offset[0]),
        offset_error=math.sqrt(float(variance[0, 0])),
        converged=converged and settled,
        n=len(p),
    )


def _logistic(
    features: np.ndarray, y: np.ndarray, w: np.ndarray, free: int
) -> tuple[np.ndarray, np.ndarray, bool]:
    """(intercept, slope) of a logistic regression, the first so many of them free and the rest held
    at (0, 1); the covariance of the free ones, and whether Newton's method converged.

    The loss is convex; a step that would raise it is halved. Outcomes that the outputs separate
    have no finite solution.
    """
    from ..kernels.logistic import logistic_sums

    def sums(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        loss, gradient, hessian = logistic_sums(features, y, w, beta)
        return loss, gradient[:free], hessian[:free, :free]

    start = np.array([0.0, 1.0])
    beta, (loss, gradient, hessian), converged = start, sums(start), False
    for _ in range(100):
        step = np.zeros(2)
        step[:free] = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        trial = sums(beta + step)
        while np.abs(step).max() > 1e-10 and trial[0] > loss + 1e-13 * abs(loss):
            step = step / 2
            trial = sums(beta + step)
        beta, (loss, gradient, hessian) = beta + step, trial
        converged = bool(np.abs(step).max() <= 1e-10)
        if converged:
            break
    return beta, np.linalg.pinv(hessian), converged


@dataclass(frozen=True)
class CalibrationIndices:
    """Mean, median and 90% point of |E[y | p] - p| over rows: ICI, E50 and E90 (Austin & Steyerberg
    2019)."""

    ici: float
    e50: float
    e90: float
    n: int
    definition: str


@documents_row_options
def calibration_indices(
    y_true: Any,
    y_proba: Any = None,
    *,
    bandwidth: float = 0.05,
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> CalibrationIndices:
    """ICI, E50 and E90, with E[y | p] by kernel regression on the fine grid, mirrored at 0 and 1.

    The authors use a loess curve; any smooth curve serves, and this one needs no sample of the
    rows.
    """
    rows = EventOutcomes.of(y_true, y_proba, lens, options)
    grid = FineGrid.of_view(View(rows.p, rows.y), rows.w).coarse(
        int(min(CELLS, CELLS_A_WIDTH / bandwidth))
    )
    kept = grid.kept
    mass, hits = smoothed(
        np.stack([grid.weight, grid.targets]), "gaussian", bandwidth, reflect=True
    )[:, kept]
    gap = np.abs(hits / mass - grid.place)
    order = np.argsort(gap)
    below = np.cumsum(grid.share[order])
    half, most = (float(gap[order][np.searchsorted(below, q * (1 - 1e-12))]) for q in (0.5, 0.9))
    words = f"|E[y | p] - p|, Gaussian kernel of width {bandwidth:g}, mirrored"
    return CalibrationIndices(float((grid.share * gap).sum()), half, most, len(rows.p), words)
