"""Calibration measures of a single event: cumulative differences, Cox's calibration line, ICI, E50
and E90. For binary problems, or any lens of a single event."""

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
from ..scoring.clusters import clusters_unused
from ..states import CELLS
from .fine_grid import FineGrid
from .kernel_regression import smoothed
from .views import LensRows, event_rows

# grid cells per bandwidth; finer cells do not change the first six digits
CELLS_PER_WIDTH = 100


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
        """The event of a lens. `independent` : the name of a test or standard error that is valid
        for independent rows only."""
        if not weighted and options.get("sample_weight") is not None:
            raise InputError("sample_weight", "this measure is defined for rows of equal weight")
        predictions = rows_of(y_true, y_proba, **options)
        if independent and predictions.cluster_numbers is not None:
            way_out = ("use `calibration_test` for clusters",)
            raise InputError("clusters", f"{independent} needs independent rows", way_out=way_out)
        if not independent and options.get("clusters") is not None:
            raise clusters_unused("this measure, which has no interval and no test")
        if lens is None and predictions.n_classes != 2:
            raise InputError(
                "lens",
                "must name an event if there are more than two classes",
                way_out=("pass TopLabel() or OneVsRest(k)",),
            )
        shown = event_rows(predictions, Binary() if lens is None else lens)
        return cls(np.clip(shown.view.outputs, 0, 1), shown.view.labels, shown.weights, shown)


@dataclass(frozen=True)
class CumulativeDifferences:
    """Cumulative sums of (y - p) / n over rows in order of p (`walk`): the largest distance from 0
    (Kolmogorov-Smirnov) and the range (Kuiper)."""

    kolmogorov_smirnov: float
    kuiper: float
    p: np.ndarray
    walk: np.ndarray
    n: int


@documents_row_options
def cumulative_differences(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> CumulativeDifferences:
    """Cumulative differences between events and probabilities (ECCE), with their Kolmogorov-Smirnov
    and Kuiper statistics, without bins (Arrieta-Ibarra et al. 2022)."""
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
    """Fits of both coefficients, and of the intercept only."""
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
    with ThreadPoolExecutor(2) as pool:  # the kernel releases the GIL
        both = pool.map(partial(_logistic, features, y, w), (2, 1))
    (line, covariance, converged), (offset, variance, offset_converged) = both
    errors = np.sqrt(np.diag(covariance))
    return CalibrationLine(
        slope=float(line[1]),
        intercept=float(line[0]),
        slope_error=float(errors[1]),
        intercept_error=float(errors[0]),
        offset=float(offset[0]),
        offset_error=math.sqrt(float(variance[0, 0])),
        converged=converged and offset_converged,
        n=len(p),
    )


def _logistic(
    features: np.ndarray, y: np.ndarray, w: np.ndarray, free: int
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Logistic regression by Newton's method: (intercept, slope), the covariance of the free
    coefficients, and whether it converged. The first `free` coefficients are fitted, the others
    fixed at (0, 1).

    The loss is convex; a step that raises it is halved. If the outputs separate the outcomes, there
    is no finite solution.
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
    """ICI, E50 and E90: the mean, median and 90% quantile of |E[y | p] - p| over rows (Austin &
    Steyerberg 2019)."""

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
    """ICI, E50 and E90 (Austin & Steyerberg 2019), with E[y | p] from a kernel regression on the
    fine grid, mirrored at 0 and 1.

    The authors use loess. Any smooth curve can be used, and this one does not need a sample of the
    rows.
    """
    rows = EventOutcomes.of(y_true, y_proba, lens, options)
    grid = FineGrid.of_view(View(rows.p, rows.y), rows.w).coarse(
        int(min(CELLS, CELLS_PER_WIDTH / bandwidth))
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
