"""Calibration error and curve by kernel regression (Chidambaram & Ge 2024)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import Lens, error_lens
from ..choices.scores import NAMED
from ..data.arrays import as_numbers
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..errors import Argument, InputError
from ..estimate import Estimate
from ..scoring.clusters import clusters_unused
from .cells import Cells
from .error_intervals import Bootstrap
from .fine_grid import FineGrid, grid_sums
from .kernel_regression import (
    KernelCurve,
    kernel_curve,
    kernel_definition,
    kernel_error,
    kernel_function,
)
from .local_logistic import NARROWEST
from .log_kernel import log_calibration, log_estimate, log_sharpness
from .resampling import BOOTSTRAP_RESAMPLES, Method
from .terms import Term, terms_on_grid, whole_grid_term
from .views import grids_of

STEPS = 5  # grid cells per bandwidth, for resamples

# an error as a function of the grid's sums of weights, outputs and targets, [..., G]
GridError = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@takes_row_options
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
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean divergence of E[target | output] from the output, by kernel regression (Chidambaram
    & Ge 2024, Theorem C.4).

    score : "brier" for squared differences, by Nadaraya-Watson regression as in the authors' code.
        This error is never negative, and positive on average for a calibrated model (the audit
        prints the value expected if calibrated). Smoothing hides part of the error: if most
        outputs lie within a bandwidth of 1, the true error can be twice as large.
        "log" for the binary Kullback-Leibler divergence: the log loss of the outputs less the
        leave-one-out log loss of a local logistic regression, corrected for the noise of the fit
        (see `calibration.local_logistic`). With a Nadaraya-Watson regression, Eq. C.3 is too low by
        a quarter or more on simulated data, and the plug-in too high. This error is zero on average
        for a calibrated model, so it may be slightly negative. It is infinite if an outcome had
        probability 0.
    kernel, bandwidth : "gaussian" or "epanechnikov", and its width on the scale of the outputs.
    reflect : mirror the kernel at 0 and 1.
    interval : "percentile" or "bca", from `resamples` of rows or of whole clusters; no interval by
        default. Sampling noise raises the error by the Brier score, and raises it again in each
        resample. The limits of the interval are corrected for both; the error itself is not.

    >>> round(kernel_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    check_kernel(score, kernel, bandwidth)
    predictions = rows_of(y_true, y_proba, **options)
    lens = error_lens(predictions, lens)
    words = kernel_definition(lens, score, kernel, bandwidth) + (", reflected" if reflect else "")
    if score == "log":
        bootstrap = _bootstrap(interval, predictions, {}, resamples, seed, bias_removed=1)
        return log_estimate(
            log_calibration(predictions, lens, kernel, bandwidth, reflect=reflect),
            words,
            bootstrap,
        )
    bootstrap = _bootstrap(interval, predictions, options, resamples, seed, bias_removed=2)
    grids = grids_of(predictions, lens)
    error = partial(kernel_error, kernel=kernel, bandwidth=bandwidth, reflect=reflect)
    errors = [float(error(grid.weight, grid.outputs, grid.targets)) for grid in grids]
    value = math.fsum(errors) / len(errors)
    estimate = Estimate(value, n=max(int(grid.rows.sum()) for grid in grids), definition=words)
    if bootstrap is not None:
        cells = int(min(len(grids[0].rows), STEPS / max(bandwidth, 1e-9)))
        single = len(grids) == 1 and bootstrap.clusters is None
        coarse = grids[0].coarse(cells)
        size = len(coarse.rows)
        terms = [whole_grid_term(coarse)] if single else terms_on_grid(predictions, lens, size)
        _set_interval(estimate, terms, bootstrap, error, size)
    return estimate


def _set_interval(
    estimate: Estimate, terms: list[Term], bootstrap: Bootstrap, error: GridError, size: int
) -> None:
    """Set the interval from resamples of a grid whose `size` cells are narrow compared with the
    kernel."""

    def cells_error(cells: Cells) -> np.ndarray:
        return error(*grid_sums(cells, size))

    value = float(estimate)
    coarse = math.fsum(term.share * float(cells_error(term.cells)) for term in terms)
    low, high = bootstrap.interval(coarse, terms, cells_error)
    if math.isfinite(low):
        estimate.low = max(0.0, min(value, low + value - coarse))
        estimate.high = max(value, high + value - coarse)


@takes_row_options
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
    """The accuracy of the most probable class, and the mean loss, at each confidence, by kernel
    regression (Chidambaram & Ge 2024, Eq. 4.7).

    x : confidences at which to evaluate; 101 equal steps from 0 to 1 by default.
    score : "brier" or "log": the loss (over all classes) and the divergence. For "log", the
        sharpness gap is the regression of each row's loss less its part of
        `kernel_calibration_error`, so that it is finite and not negative (Proposition 4.8). Rows
        with an infinite loss are left out.

    >>> curve = kernel_calibration_curve([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9], x=[0.7])
    >>> curve.regression.round(3)
    array([0.213])
    """
    check_kernel(score, kernel, bandwidth)
    if options.get("clusters") is not None and score == "brier":
        raise clusters_unused("this curve, which has no interval")
    at = (
        np.linspace(0, 1, 101)
        if x is None
        else np.atleast_1d(as_numbers(x, "x")).astype(np.float64)
    )
    predictions = rows_of(y_true, y_proba, **options)
    grid = FineGrid.of_summary(survey(predictions).summary.grid, score)
    unexplained = log_sharpness(predictions, kernel, bandwidth)[1] if score == "log" else None
    return kernel_curve(grid, at, kernel=kernel, bandwidth=bandwidth, unexplained=unexplained)


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
    """The bootstrap of the interval, by clusters if there are any. Raises an error if clusters
    would have no effect."""
    if interval is None and options.get("clusters") is not None:
        raise clusters_unused("the value", "pass ", Argument("interval", '"percentile"'), ", or ")
    clusters = None if interval is None else predictions.cluster_numbers
    return Bootstrap.of(interval, clusters, resamples, seed, bias_removed=bias_removed)
