"""The kernel calibration error by log loss, from local logistic regression (`local_logistic`)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..choices.lenses import Binary, Classwise, Lens, OneVsRest, TopLabel, View
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from ..states import CELLS
from .cells import Cells, gather_categories, gather_cells
from .error_intervals import Bootstrap
from .fine_grid import FineGrid
from .kernel_regression import kernel_definition, kernel_function
from .local_logistic import EventOdds, LogCalibration
from .resampling import BOOTSTRAP_RESAMPLES, Method
from .terms import Term
from .views import lens_of, lens_rows

CHUNK_VALUES = 2**20  # probabilities copied at a time


def log_sharpness(
    predictions: Predictions,
    kernel: str,
    bandwidth: float,
    *,
    interval: Method | None = None,
    resamples: int = BOOTSTRAP_RESAMPLES,
) -> tuple[Estimate, FineGrid]:
    """The calibration error of the most probable class by log loss, and the rest of each row's loss
    on the grid of confidences: the loss of the recalibrated confidence plus the loss among the
    other classes."""
    (event,) = log_calibration(predictions, TopLabel(), kernel, bandwidth)
    bootstrap = Bootstrap.of(
        interval,
        None if interval is None else predictions.cluster_numbers,
        resamples,
        seed=0,
        bias_removed=1,
    )
    words = kernel_definition(TopLabel(), "log", kernel, bandwidth)
    return log_estimate([event], words, bootstrap), _unexplained_loss(predictions, event)


def log_calibration(
    predictions: Predictions,
    lens: Lens,
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    *,
    reflect: bool = False,
) -> list[LogCalibration]:
    """The calibration error of each event of a lens by log loss."""
    function, clusters = kernel_function(kernel), predictions.cluster_numbers
    return [
        LogCalibration.of(odds, function, bandwidth, reflect=reflect, clusters=clusters)
        for odds in _event_odds(predictions, lens)
    ]


def _unexplained_loss(predictions: Predictions, event: LogCalibration) -> FineGrid:
    """The log loss of each row over all classes, less its part of the calibration error of the most
    probable class."""
    from ..kernels.grid_cells import cells_of_one

    rows = GoodRows.of(predictions)
    place = np.searchsorted(rows.places, event.odds.places)
    with np.errstate(divide="ignore"):
        loss = -np.log(rows.probs[place, rows.labels[place]].astype(np.float64))
    some, weights, top = np.isfinite(loss), event.odds.weights, event.odds.outputs
    rest = np.where(some, loss - np.where(some, event.odds.loss, 0.0), 0.0) + event.refined
    cell = np.minimum((np.clip(top, 0, 1) * cells_of_one(CELLS)).astype(np.int64), CELLS - 1)[some]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(cell, values[some], minlength=CELLS)

    none = np.zeros(CELLS)
    count = total(np.ones(len(loss)))
    return FineGrid(
        count, none, total(weights), none, total(weights * top), none, total(weights * rest)
    )


def _event_odds(predictions: Predictions, lens: Lens) -> list[EventOdds]:
    """The rows of each event of a lens, with their log odds."""
    lens, rows = lens_of(predictions, lens), GoodRows.of(predictions)
    if not len(rows.labels) or not rows.weights.any():
        raise InputError(predictions.name("probs"), "no row is left to judge")
    events = []
    for number, shown in enumerate(lens_rows(predictions, lens)):
        outputs = shown.view.outputs
        if outputs.ndim != 1:
            raise InputError("lens", "must show a single event", repr(lens))
        others = _complement(rows.probs, lens, number, outputs)
        events.append(
            EventOdds.of(outputs, others, shown.view.labels, shown.weights, shown.rows, shown.total)
        )
    return events


def _complement(probs: np.ndarray, lens: Lens, number: int, outputs: np.ndarray) -> np.ndarray:
    """The probability that an event does not happen: the sum over the other classes if they are
    known, because 1 - p loses small probabilities."""
    if type(lens) not in (TopLabel, Binary, OneVsRest, Classwise):
        return np.clip(1 - outputs, 0, 1)
    column = {Binary: 1, Classwise: number}.get(type(lens), getattr(lens, "index", None))
    rest, step = np.empty(len(probs)), max(1, CHUNK_VALUES // probs.shape[1])
    for first in range(0, len(probs), step):
        some = probs[first : first + step].astype(np.float64)
        some[np.arange(len(some)), some.argmax(axis=1) if column is None else column] = 0.0
        rest[first : first + step] = some.sum(axis=1)
    return rest


def log_estimate(events: list[LogCalibration], words: str, bootstrap: Bootstrap | None) -> Estimate:
    """The mean over events, with an interval from resamples of the cells of log odds."""
    value = math.fsum(event.value for event in events) / len(events)
    n = max(len(event.cell) for event in events)
    infinite = max(event.odds.infinite_rows for event in events)
    words += ", local logistic regression, debiased"
    estimate = Estimate(value, n=n, definition=words, infinite_rows=infinite)
    if bootstrap is None or infinite:
        return estimate
    # cells are numbered consecutively across events, so that a cell identifies its event
    starts = np.cumsum([0] + [int(event.cell.max()) + 1 for event in events])
    terms = [
        _odds_term(event, int(start), 1 / len(events))
        for event, start in zip(events, starts, strict=False)
    ]

    def error(cells: Cells) -> np.ndarray:
        return events[int(np.searchsorted(starts, cells.number[0], "right")) - 1].of_resample(cells)

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
