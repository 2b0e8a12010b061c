"""Calibration measures of a single event: cumulative differences, Cox's calibration line, ICI, E50
and E90. For binary problems, or any lens of a single event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Unpack

import numpy as np

from ..choices.distances import L1
from ..choices.lenses import Lens, View, event_lens
from ..data.inputs import RowOptions, check_equal_weights, rows_of, takes_row_options
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.clusters import clusters_unused
from ..scoring.events import EventTable
from ..scoring.intervals import Z95
from ..states import CELLS
from .cells import Cells
from .dependent_event import DependentEvent
from .error_intervals import population_of
from .fine_grid import FineGrid, grid_sums
from .kernel_regression import smoothed
from .null import BinomialNull
from .population import Population
from .resampling import FEWER_RESAMPLES
from .smooth import smooth_population
from .terms import Term
from .views import LensRows, dependent_events, event_rows

# grid cells per bandwidth; finer cells do not change the first six digits
CELLS_PER_WIDTH = 100
INTERVAL_CELLS = 60
# Cells in which labels are simulated have as many rows of the rarer outcome, on average. Most cells
# without any would have no noise around their observed rate.
ROWS_PER_CELL, LEAST_CELLS = 5, 10
INDICES = {"ici": "mean", "e50": "median", "e90": "90% quantile", "emax": "largest value"}
QUANTILES = {"e50": 0.5, "e90": 0.9}


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
        unweighted: str = "",
        independent: str = "",
    ) -> EventOutcomes:
        """The event of a lens. `unweighted`, `independent` : the name of a measure that is valid
        only for rows of equal weight, or for independent rows."""
        predictions = rows_of(y_true, y_proba, **options)
        if unweighted:
            check_equal_weights(predictions, unweighted, "`calibration_test`")
        if independent and predictions.cluster_numbers is not None:
            way_out = ("use `calibration_test` for clusters",)
            raise InputError("clusters", f"{independent} needs independent rows", way_out=way_out)
        if not independent and options.get("clusters") is not None:
            raise clusters_unused("this measure, which has no interval and no test")
        shown = event_rows(predictions, event_lens(predictions, lens))
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


@takes_row_options
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
    """Cox's logistic recalibration, logit P(y = 1) = intercept + slope logit p.

    A calibrated model has slope 1 and intercept 0; a slope below 1 is overconfidence. `offset` is
    the intercept when the slope is held at 1: calibration in the large. Each is an `Estimate` with
    a 95% interval of 1.96 standard errors, which clusters widen; `*_error` are the standard errors.

    left_out : rows with an output of exactly 0 or 1, whose log-odds are infinite. They do not enter
        the line.
    """

    slope: Estimate
    intercept: Estimate
    offset: Estimate
    slope_error: float
    intercept_error: float
    offset_error: float
    converged: bool
    left_out: int
    n: int


@takes_row_options
def calibration_line(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> CalibrationLine:
    """Calibration slope and intercept (Cox 1958), and calibration in the large.

    Rows with an output of exactly 0 or 1 are left out and counted, as in `rms::val.prob` (Harrell
    2015): no finite line passes through infinite log-odds.

    >>> line = calibration_line([0, 1, 0, 1, 1], [0.2, 0.6, 0.5, 0.7, 1.0])
    >>> line.left_out, line.slope > 1
    (1, True)
    """
    return line_of(EventTable.of(rows_of(y_true, y_proba, **options), lens))


def line_of(event: EventTable) -> CalibrationLine:
    """The calibration line of an event."""
    inside = (event.p > 0) & (event.p < 1)
    weight, p = event.weight[inside], event.p[inside]
    if not len(weight):
        raise InputError("y_proba", "the logistic line requires outputs inside (0, 1)", "none")
    if not (weight.sum(axis=0) > 0).all():
        raise InputError("y_true", "the logistic line requires both outcomes among these outputs")
    z = np.log(p) - np.log1p(-p)
    features = np.repeat(np.stack([np.ones_like(z), z]), 2, axis=1)
    happened = np.tile([0, 1], len(z))
    with ThreadPoolExecutor(2) as pool:  # the kernel releases the GIL
        both = list(pool.map(partial(_logistic, features, happened, weight.reshape(-1)), (2, 1)))
    line, large = (_LineFit(event, inside, z, *fit) for fit in both)
    left_out = int(event.count[~inside].sum())
    words = f", {left_out:,} rows with output 0 or 1 left out" if left_out else ""
    (intercept, intercept_error), (slope, slope_error) = (
        # a single output has no slope
        line.coefficient(k, name + words) if len(z) > 1 else line.unknown(name + words)
        for k, name in enumerate(("calibration intercept", "calibration slope"))
    )
    offset, offset_error = large.coefficient(0, "calibration in the large" + words)
    return CalibrationLine(
        slope=slope,
        intercept=intercept,
        offset=offset,
        slope_error=slope_error,
        intercept_error=intercept_error,
        offset_error=offset_error,
        converged=(line.converged or len(z) == 1) and large.converged,
        left_out=left_out,
        n=event.n,
    )


@dataclass(frozen=True, eq=False)
class _LineFit:
    """A logistic fit to the rows of an event whose log-odds z are finite: its coefficients, and the
    inverse Hessian of the free ones."""

    event: EventTable
    inside: np.ndarray
    z: np.ndarray
    beta: np.ndarray
    inverse: np.ndarray
    converged: bool

    def coefficient(self, which: int, words: str) -> tuple[Estimate, float]:
        """A coefficient with its 95% interval, and its standard error: that of maximum likelihood,
        or of the sandwich (Huber 1967) for weighted rows and for calibration in the large, whose
        model is wrong if the slope is not 1; widened for clusters."""
        event, value = self.event, float(self.beta[which])
        influence = np.zeros_like(event.weight)
        with np.errstate(over="ignore"):
            fitted = 1 / (1 + np.exp(-(self.beta[0] + self.beta[1] * self.z)))
        pull = self.inverse[which] @ np.stack([np.ones_like(self.z), self.z])[: len(self.inverse)]
        influence[self.inside] = pull[:, None] * (np.array([0.0, 1.0]) - fitted[:, None])
        variance = float(self.inverse[which, which])
        if event.weighted or len(self.inverse) == 1:
            variance = float((event.squared * influence**2).sum())
        error = math.sqrt(max(variance, 0.0)) * event.widening(influence)
        half = Z95 * error if math.isfinite(error) else math.nan
        words += event.words
        return Estimate(
            value, low=value - half, high=value + half, n=event.n, definition=words
        ), error

    def unknown(self, words: str) -> tuple[Estimate, float]:
        return Estimate(math.nan, n=self.event.n, definition=words + self.event.words), math.nan


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
    """ICI, E50, E90 and Emax: the mean, median, 90% quantile and largest value of |E[y | p] - p|
    over rows (Austin & Steyerberg 2019; Harrell 2015). Each is an `Estimate`; with `interval=True`,
    it has a 95% interval for the population and a debiased value."""

    ici: Estimate
    e50: Estimate
    e90: Estimate
    emax: Estimate
    n: int
    definition: str


@takes_row_options
def calibration_indices(
    y_true: Any,
    y_proba: Any = None,
    *,
    bandwidth: float = 0.05,
    lens: Lens | None = None,
    interval: bool = False,
    **options: Unpack[RowOptions],
) -> CalibrationIndices:
    """ICI, E50, E90 and Emax (Austin & Steyerberg 2019), with E[y - p | p] from a kernel regression
    on the fine grid.

    bandwidth : the standard deviation of the Gaussian kernel, over the mean of p and of the share
        of rows with a smaller p, mirrored at 0 and 1. Rows are near each other if both are close:
        a kernel over p alone would average all outputs of a rare event.
    interval : adds 95% intervals and debiased values, simulated as those of binned errors.

    The authors use loess, whose windows also have a share of the rows. Any smooth curve can be
    used, and this one does not need a sample of the rows. Smoothing y - p instead of y keeps the
    error of a calibrated model at 0 whatever the distribution of its outputs.
    """
    if options.get("clusters") is not None and not interval:
        raise clusters_unused("the indices without `interval=True`")
    predictions = rows_of(y_true, y_proba, **options)
    shown = event_lens(predictions, lens)
    view = event_rows(predictions, shown)
    grid = FineGrid.of_view(View(np.clip(view.view.outputs, 0, 1), view.view.labels), view.weights)
    events = dependent_events(predictions, shown) if interval else None
    return indices_of(
        grid, bandwidth, interval=interval, event=None if events is None else events[0]
    )


def indices_of(
    grid: FineGrid,
    bandwidth: float = 0.05,
    *,
    interval: bool = True,
    event: DependentEvent | None = None,
) -> CalibrationIndices:
    """The indices of an event on its grid; `event` : the rows, if they are in clusters."""
    found = estimated_indices(grid, tuple(INDICES), bandwidth, interval=interval, event=event)
    return CalibrationIndices(**found, n=int(grid.rows.sum()), definition=_index_words(bandwidth))


def estimated_indices(
    grid: FineGrid,
    names: Sequence[str],
    bandwidth: float = 0.05,
    *,
    interval: bool = True,
    event: DependentEvent | None = None,
) -> dict[str, Estimate]:
    """Some of the indices, by name; other arguments as in `indices_of`."""
    if not 0 < bandwidth < math.inf:
        raise InputError("bandwidth", "must be positive and finite", bandwidth)
    size = max(INTERVAL_CELLS + 1, int(min(CELLS, CELLS_PER_WIDTH / bandwidth)))
    fine = grid_sums(grid.cells(_stretched(grid, size)), size)
    words = _index_words(bandwidth)
    n, found = int(grid.rows.sum()), {}
    simulation = _Simulation.of(grid, event) if interval and n > 1 else None
    for name in names:
        value = float(_index(name, bandwidth, *fine))
        known = Population() if simulation is None else simulation.population(name, bandwidth)
        found[name] = Estimate(
            value,
            low=min(known.low, value),
            high=max(known.high, value),
            n=n,
            definition=f"{INDICES[name]} of {words}",
            debiased=known.debiased,
        )
    return found


def _index_words(bandwidth: float) -> str:
    return (
        f"|E[y - p | p]|, Gaussian kernel of width {bandwidth:g} over the mean of p and of its "
        "rank, mirrored"
    )


def _stretched(grid: FineGrid, size: int) -> np.ndarray:
    """For each kept cell of the grid, the one of `size` equal steps of (p + F(p)) / 2, where F is
    the share of rows with a smaller output, half of the own cell included."""
    share = grid.share
    rank = np.cumsum(share) - share / 2
    return np.minimum(((grid.place + rank) / 2 * size).astype(np.int64), size - 1)


def _index(
    name: str, bandwidth: float, weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """One index for grids [..., G] of sums."""
    mass, residual = _smooth_curve(np.stack([weight, targets - outputs]), bandwidth)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(weight > 0, np.abs(residual / mass), 0.0)
    share = weight / weight.sum(axis=-1, keepdims=True)
    if name == "ici":
        return np.asarray((share * gap).sum(axis=-1))
    if name == "emax":
        return np.asarray(gap.max(axis=-1))
    order = np.argsort(gap, axis=-1)
    below = np.cumsum(np.take_along_axis(share, order, -1), axis=-1)
    place = (below < QUANTILES[name] * (1 - 1e-12)).sum(axis=-1, keepdims=True)
    place = np.minimum(place, gap.shape[-1] - 1)
    return np.asarray(np.take_along_axis(np.take_along_axis(gap, order, -1), place, -1)[..., 0])


def _smooth_curve(values: np.ndarray, bandwidth: float) -> np.ndarray:
    """Values [..., G] smoothed by a mirrored Gaussian kernel."""
    if values.shape[-1] > INTERVAL_CELLS:
        return smoothed(values, "gaussian", bandwidth, reflect=True)
    # not by BLAS, whose threads cost more than such small products
    return np.einsum("...i,ij->...j", values, _smoother(values.shape[-1], bandwidth))


@lru_cache(8)
def _smoother(cells: int, bandwidth: float) -> np.ndarray:
    """The same as a matrix, which is faster for many resamples on few cells."""
    return smoothed(np.eye(cells), "gaussian", bandwidth, reflect=True)


@dataclass(frozen=True, eq=False)
class _Simulation:
    """Labels simulated in up to 60 cells, from which the indices of the population follow.

    cell : the cell of each kept cell of the grid. term : the cells of independent rows.
    """

    grid: FineGrid
    size: int
    cell: np.ndarray
    event: DependentEvent | None
    term: Term

    @classmethod
    def of(cls, grid: FineGrid, event: DependentEvent | None) -> _Simulation:
        hits = float(grid.hit_rows.sum())
        rarer = min(hits, float(grid.rows.sum()) - hits)
        size = int(np.clip(rarer / ROWS_PER_CELL, LEAST_CELLS, INTERVAL_CELLS))
        cell = _stretched(grid, size)
        null = BinomialNull.of_grid(grid, cell)  # all indices share its noise
        term = replace(Term.of_grid(grid, cell), nulls=(lambda: null,))
        return cls(grid, size, cell, event, term)

    def population(self, name: str, bandwidth: float) -> Population:
        """An index of the population."""

        def error(cells: Cells) -> np.ndarray:
            return _index(name, bandwidth, *grid_sums(cells, self.size))

        resamples = FEWER_RESAMPLES
        if self.event is None:
            return population_of(
                [self.term], L1(), clusters=None, resamples=resamples, seed=0, error=error
            )
        return smooth_population([self.grid], [self.event], error, resamples, 0, cells=[self.cell])
