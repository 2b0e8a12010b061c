"""Calibration errors without bins, as functions of (y_true, y_proba): SmoothECE and kernel
regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition
from ..choices.distances import L1
from ..choices.lenses import Binary, Classwise, Lens, OneVsRest, TopLabel, View
from ..choices.scores import NAMED, as_score
from ..data.arrays import as_numbers
from ..data.inputs import RowOptions, rows_of
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows, survey
from ..errors import InputError
from ..estimate import Estimate
from ..states import CELLS
from .bootstrap import Method
from .cells import Cells, gather_categories, gather_cells
from .dependent_event import DependentEvent
from .fine_grid import FineGrid
from .kernel_regression import KernelCurve, kernel_curve, kernel_error, kernel_function
from .local_logistic import NARROWEST, EventOdds, LogCalibration
from .null import Steps
from .population import CellError, Part, Population, population_error
from .resampling import Bootstrap, Term, check_resamples, population_of
from .smooth_error import smooth_error
from .views import dependent_events, grids_of, lens_of, look

STEPS = 5  # cells within the width of a kernel, for resamples
SMOOTH_CELLS, SMOOTH_RESAMPLES, SMOOTH_PRECISION = 420, 199, 1e-5  # of SmoothECE, for its interval
CHUNK_VALUES = 2**20  # probabilities copied at a time

# of sums of weights, outputs and targets, [..., G]
GridError = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def smooth_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    sigma: float | None = None,
    interval: bool = False,
    resamples: int = SMOOTH_RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """SmoothECE: residuals smoothed by a reflected Gaussian whose width is the error itself
    (Blasiok & Nakkiran 2023).

    sigma : a width of your own.
    interval : with True, a 95% interval for the error of a very large sample, and in `debiased` an
        estimate of it, as in `calibration_error`. Rows then count on a grid of 420 cells.

    >>> round(smooth_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    if sigma is not None and not 0 < sigma < np.inf:
        raise InputError("sigma", "must be positive and finite", sigma)
    lens = TopLabel() if lens is None else lens
    predictions = rows_of(y_true, y_proba, **options)
    if not isinstance(interval, bool):
        raise InputError("interval", "must be True or False", repr(interval))
    check_resamples(resamples)
    if options.get("clusters") is not None and not interval:
        raise InputError(
            "clusters", "have no effect on the value; add `interval=True`, or leave them out"
        )
    grids = grids_of(predictions, lens)
    found = [
        smooth_error((grid.targets - grid.outputs) / grid.weight.sum(), sigma) for grid in grids
    ]
    width = "its fixed point" if sigma is None else format(sigma, "g")
    words = Definition("SmoothECE", lens, f"reflected Gaussian of width {width}")
    n = max(int(grid.rows.sum()) for grid in grids)
    estimate = Estimate(
        math.fsum(float(value) for value, _ in found) / len(found), n=n, definition=words
    )
    if interval:
        error, events = (
            partial(smooth_cells_error, sigma=sigma),
            dependent_events(predictions, lens_of(predictions, lens)),
        )
        coarse = [grid.coarse(SMOOTH_CELLS) for grid in grids]
        if events is not None:
            known = smooth_population(coarse, events, error, resamples, seed)
        else:
            terms = (
                [_grid_term(coarse[0])]
                if len(grids) == 1
                else _row_terms(predictions, lens, SMOOTH_CELLS)
            )
            known = population_of(
                terms, L1(), clusters=None, resamples=resamples, seed=seed, error=error
            )
        estimate.debiased, estimate.low, estimate.high = known.debiased, known.low, known.high
    return estimate


def smooth_population(
    grids: Sequence[FineGrid],
    events: Sequence[DependentEvent],
    error: CellError,
    resamples: int,
    seed: int,
) -> Population:
    """Of rows in clusters: labels are simulated, and what clusters share is added."""
    parts, widened = [], 1.0
    for grid, event in zip(grids, events, strict=True):
        cell = np.flatnonzero(grid.kept)
        around, steps = event.noise(grid, cell), Steps.of_grid(grid, cell)
        noise = partial(steps.noise, resamples=resamples, seed=seed, shared=around.observed)
        parts.append(Part(event.thinned(grid).cells(cell), 1 / len(grids), noise))
        widened = around.widened
    return population_error(parts, L1(), error=error, widened=widened, seed=seed)


def smooth_cells_error(cells: Cells, sigma: float | None = None) -> np.ndarray:
    """SmoothECE of rows on a grid of 420 cells, some of which are given."""
    weight, outputs, targets = (_spread(part, cells.number, SMOOTH_CELLS) for part in _sums(cells))
    return smooth_error(
        (targets - outputs) / weight.sum(axis=-1, keepdims=True), sigma, precision=SMOOTH_PRECISION
    )[0]


def kernel_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    score: str = "brier",
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    lens: Lens | None = None,
    reflect: bool = False,
    interval: Method | None = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean divergence of E[target | output] from the output, by kernel regression (Chidambaram
    & Ge 2024, Theorem C.4).

    score : "brier" for squared differences, by Nadaraya-Watson regression as in the paper's
        reference: never negative, and above zero by chance (the audit prints the value expected if
        calibrated beside it). It is the error of outputs and targets smoothed by the kernel; that
        of models whose outputs mostly lie within a bandwidth of 1 can be twice as large. "log" for
        the binary Kullback-Leibler divergence: log loss of the outputs less that of a local
        logistic regression, for rows left out of its fit, with the noise of the fit removed (see
        `estimates.local_logistic`). Eq. C.3 with a Nadaraya-Watson regression is too low by a
        quarter or more in worlds of known truth, and its plug-in too high; the reference has no log
        score that runs. The error is zero on average for a calibrated model, so that it may be
        slightly negative, and infinite if an outcome was given probability 0.
    kernel, bandwidth : of the window, on the scale of the outputs.
    reflect : mirror the kernel at 0 and 1.
    interval : "percentile" or "bca", from `resamples` of the rows, or of whole clusters; none
        unless given. Chance adds to the error by the Brier score, and adds again in each resample;
        both are taken off the ends of the interval, not off the error.

    >>> round(kernel_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    check_kernel(score, kernel, bandwidth)
    lens = TopLabel() if lens is None else lens
    predictions = rows_of(y_true, y_proba, **options)
    words = kernel_definition(lens, score, kernel, bandwidth) + (", reflected" if reflect else "")
    if score == "log":
        bootstrap = _bootstrap(interval, predictions, {}, resamples, seed, bias_removed=1)
        return _log_estimate(
            _log_calibration(predictions, lens, kernel, bandwidth, reflect=reflect),
            words,
            bootstrap,
        )
    bootstrap = _bootstrap(interval, predictions, options, resamples, seed, bias_removed=2)
    grids = grids_of(predictions, lens)
    error = partial(kernel_error, kernel=kernel, bandwidth=bandwidth, reflect=reflect)
    found = [float(error(grid.weight, grid.outputs, grid.targets)) for grid in grids]
    return _estimate(found, words, predictions, lens, grids, bootstrap, error, bandwidth)


def kernel_calibration_curve(
    y_true: Any,
    y_proba: Any = None,
    *,
    x: Any = None,
    score: str = "brier",
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    **options: Unpack[RowOptions],
) -> KernelCurve:
    """How often the most probable class is right, and the mean loss, at each confidence: kernel
    regression (Chidambaram & Ge 2024, Eq. 4.7).

    x : confidences to look at; 101 of them from 0 to 1 unless given.
    score : "brier" or "log": the loss, over all classes, and the divergence. The sharpness gap by
        the log score is the regression of the loss of each row less its part of
        `kernel_calibration_error`, so that it is finite and not negative (Proposition 4.8); rows
        with an infinite loss are left out.

    >>> curve = kernel_calibration_curve([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9], x=[0.7])
    >>> curve.regression.round(3)
    array([0.213])
    """
    check_kernel(score, kernel, bandwidth)
    if options.get("clusters") is not None and score == "brier":
        rule = "have no effect on this curve, which has no interval; leave them out"
        raise InputError("clusters", rule)
    at = (
        np.linspace(0, 1, 101)
        if x is None
        else np.atleast_1d(as_numbers(x, "x")).astype(np.float64)
    )
    predictions = rows_of(y_true, y_proba, **options)
    grid = FineGrid.of_summary(survey(predictions).summary.grid, score)
    unexplained = log_sharpness(predictions, kernel, bandwidth)[1] if score == "log" else None
    return kernel_curve(grid, at, kernel=kernel, bandwidth=bandwidth, unexplained=unexplained)


def log_sharpness(
    predictions: Predictions,
    kernel: str,
    bandwidth: float,
    *,
    interval: Method | None = None,
    resamples: int = 1000,
) -> tuple[Estimate, FineGrid]:
    """The calibration error of the most probable class by the log score, and on the grid of
    confidences what it leaves of the loss of each row: what the recalibrated confidence loses, and
    what is lost among the other classes."""
    (found,) = _log_calibration(predictions, TopLabel(), kernel, bandwidth)
    bootstrap = _bootstrap(interval, predictions, {}, resamples, 0, bias_removed=1)
    words = kernel_definition(TopLabel(), "log", kernel, bandwidth)
    return _log_estimate([found], words, bootstrap), _unexplained_loss(predictions, found)


def _log_calibration(
    predictions: Predictions,
    lens: Lens,
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    *,
    reflect: bool = False,
) -> list[LogCalibration]:
    """The calibration error by the log score of each event that a lens shows."""
    function, clusters = kernel_function(kernel), predictions.cluster_numbers
    return [
        LogCalibration.of(odds, function, bandwidth, reflect=reflect, clusters=clusters)
        for odds in _event_odds(predictions, lens)
    ]


def _unexplained_loss(predictions: Predictions, found: LogCalibration) -> FineGrid:
    """The log loss of each row over all classes, less its part of the calibration error of the most
    probable class."""
    from ..kernels.gridding import cells_of_one

    rows = GoodRows.of(predictions)
    place = np.searchsorted(rows.places, found.odds.places)
    with np.errstate(divide="ignore"):
        loss = -np.log(rows.probs[place, rows.labels[place]].astype(np.float64))
    some, weights, top = np.isfinite(loss), found.odds.weights, found.odds.outputs
    rest = np.where(some, loss - np.where(some, found.odds.loss, 0.0), 0.0) + found.refined
    cell = np.minimum((np.clip(top, 0, 1) * cells_of_one(CELLS)).astype(np.int64), CELLS - 1)[some]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(cell, values[some], minlength=CELLS)

    none = np.zeros(CELLS)
    count = total(np.ones(len(loss)))
    return FineGrid(
        count, none, total(weights), none, total(weights * top), none, total(weights * rest)
    )


def check_kernel(score: str, kernel: str, bandwidth: float) -> None:
    if score not in NAMED:
        raise InputError("score", f"must be one of {', '.join(NAMED)}", repr(score))
    if not 0 < bandwidth < np.inf:
        raise InputError("bandwidth", "must be positive and finite", bandwidth)
    if score == "log" and bandwidth < NARROWEST:
        raise InputError("bandwidth", f'must be at least {NARROWEST:g} for score="log"', bandwidth)
    kernel_function(kernel)


def _bootstrap(
    interval: Any,
    predictions: Predictions,
    options: Any,
    resamples: int,
    seed: int,
    *,
    bias_removed: int,
) -> Bootstrap | None:
    """How the interval is found, by the rows' clusters; clusters that would have no effect are
    refused."""
    if interval is None and options.get("clusters") is not None:
        raise InputError("clusters", 'needs interval="percentile" or "bca"')
    clusters = None if interval is None else predictions.cluster_numbers
    return Bootstrap.of(interval, clusters, resamples, seed, bias_removed=bias_removed)


def _event_odds(predictions: Predictions, lens: Lens) -> list[EventOdds]:
    """Rows of each event with the odds that they were given."""
    lens, rows = lens_of(predictions, lens), GoodRows.of(predictions)
    if not len(rows.labels) or not rows.weights.any():
        raise InputError(predictions.name("probs"), "no row is left to judge")
    found = []
    for number, seen in enumerate(look(predictions, lens)):
        outputs = seen.view.outputs
        if outputs.ndim != 1:
            raise InputError("lens", "must show a single event", repr(lens))
        others = _others(rows.probs, lens, number, outputs)
        found.append(
            EventOdds.of(outputs, others, seen.view.labels, seen.weights, seen.rows, seen.total)
        )
    return found


def _others(probs: np.ndarray, lens: Lens, number: int, outputs: np.ndarray) -> np.ndarray:
    """The probability that an event does not happen: the sum of the other classes where they are
    known, as 1 - p loses the smallest probabilities."""
    if type(lens) not in (TopLabel, Binary, OneVsRest, Classwise):
        return np.clip(1 - outputs, 0, 1)
    column = {Binary: 1, Classwise: number}.get(type(lens), getattr(lens, "index", None))
    found, step = np.empty(len(probs)), max(1, CHUNK_VALUES // probs.shape[1])
    for first in range(0, len(probs), step):
        some = probs[first : first + step].astype(np.float64)
        some[np.arange(len(some)), some.argmax(axis=1) if column is None else column] = 0.0
        found[first : first + step] = some.sum(axis=1)
    return found


def kernel_definition(lens: Lens, score: str, kernel: str, bandwidth: float) -> Definition:
    """The definition of a kernel calibration error."""
    width = f"{kernel.capitalize()} kernel of width {bandwidth:g}"
    return Definition("kernel calibration error", lens, as_score(score).words(), width)


def _log_estimate(found: list[LogCalibration], words: str, bootstrap: Bootstrap | None) -> Estimate:
    """The mean over events; its interval from resamples of the cells of log odds."""
    value = math.fsum(event.value for event in found) / len(found)
    n, infinite = (
        max(len(event.cell) for event in found),
        max(event.odds.infinite_rows for event in found),
    )
    words += ", local logistic regression, debiased"
    estimate = Estimate(value, n=n, definition=words, infinite_rows=infinite)
    if bootstrap is None or infinite:
        return estimate
    # cells of all events are numbered on
    starts = np.cumsum([0] + [int(event.cell.max()) + 1 for event in found])
    terms = [
        _odds_term(event, int(start), 1 / len(found))
        for event, start in zip(found, starts, strict=False)
    ]

    def error(cells: Cells) -> np.ndarray:
        return found[int(np.searchsorted(starts, cells.number[0], "right")) - 1].of_resample(cells)

    noisy = math.fsum(term.share * float(error(term.cells)) for term in terms)
    low, high = bootstrap.interval(noisy, terms, error)
    if math.isfinite(low):
        estimate.low, estimate.high = (
            min(value, low + value - noisy),
            max(value, high + value - noisy),
        )
    return estimate


def _odds_term(event: LogCalibration, start: int, share: float) -> Term:
    odds, cell = event.odds, event.cell + start
    view = View(odds.log_odds, odds.labels)
    categories = partial(gather_categories, view, cell, odds.weights)
    return Term(
        gather_cells(view, cell, odds.weights), share, (categories,), odds.places, odds.total
    )


def _estimate(
    values: list[float],
    words: str,
    predictions: Predictions,
    lens: Lens,
    grids: list[FineGrid],
    bootstrap: Bootstrap | None,
    error: GridError,
    width: float,
) -> Estimate:
    """The mean over events, with an interval from resamples of a grid whose cells are small beside
    the kernel's width."""
    value = math.fsum(values) / len(values)
    found = Estimate(value, n=max(int(grid.rows.sum()) for grid in grids), definition=words)
    if bootstrap is None:
        return found
    least = int(min(len(grids[0].rows), STEPS / max(width, 1e-9)))
    size = len(grids[0].coarse(least).rows)
    single = len(grids) == 1 and bootstrap.clusters is None
    terms = [_grid_term(grids[0].coarse(least))] if single else _row_terms(predictions, lens, size)

    def cells_error(cells: Cells) -> np.ndarray:
        return error(*(_spread(part, cells.number, size) for part in _sums(cells)))

    coarse = math.fsum(term.share * float(cells_error(term.cells)) for term in terms)
    low, high = bootstrap.interval(coarse, terms, cells_error)
    if math.isfinite(low):
        found.low, found.high = (
            max(0.0, min(value, low + value - coarse)),
            max(value, high + value - coarse),
        )
    return found


def _grid_term(grid: FineGrid) -> Term:
    number = np.flatnonzero(grid.kept)
    steps = partial(Steps.of_grid, grid, number)
    return Term(grid.cells(number), 1.0, (partial(grid.categories, number),), steps=(steps,))


def _row_terms(predictions: Predictions, lens: Lens, size: int) -> list[Term]:
    seen, terms = look(predictions, lens), []
    for s in seen:
        number = np.minimum((np.clip(s.view.outputs, 0, 1) * size).astype(np.int64), size - 1)
        categories = partial(gather_categories, s.view, number, s.weights)
        steps = partial(Steps.of_view, s.view, number, s.weights)
        terms.append(
            Term(
                gather_cells(s.view, number, s.weights),
                1 / len(seen),
                (categories,),
                s.rows,
                s.total,
                steps=(steps,),
            )
        )
    return terms


def _sums(cells: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return cells.weight, cells.weight * cells.outputs, cells.weight * cells.targets


def _spread(values: np.ndarray, number: np.ndarray, size: int) -> np.ndarray:
    """Values of some cells on the whole grid."""
    found = np.zeros((*values.shape[:-1], size))
    found[..., number] = values
    return found
