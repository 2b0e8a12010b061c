"""Calibration errors without bins, as functions of (y_true, y_proba): SmoothECE and kernel regression, on the fine grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import numpy as np

from .arrays import as_numbers
from .errors import InputError
from .estimates.cells import Cells, gather_categories, gather_cells
from .estimates.estimate import Estimate
from .estimates.fine_grid import FineGrid
from .estimates.intervals import Method
from .estimates.kernel import KernelCurve, kernel_curve, kernel_error, kernel_function
from .estimates.smooth import smooth_error
from .lenses import Lens, TopLabel
from .metrics import RowOptions, rows_of
from .predictions import Predictions
from .resampling import Bootstrap, Term
from .scores import NAMED, Score
from .viewing import grids_of, look, survey

STEPS = 5  # cells within the width of a kernel, for resamples

GridError = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # of sums of weights, outputs and targets, [..., G]


def smooth_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    sigma: float | None = None,
    interval: Method | None = None,
    groups: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """SmoothECE: residuals smoothed by a reflected Gaussian whose width is the error itself (Blasiok & Nakkiran 2023).

    sigma : a width of your own.
    interval, groups, resamples, seed : as in `calibration_error`.

    >>> round(smooth_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    if sigma is not None and not 0 < sigma < np.inf:
        raise InputError("sigma", "must be positive and finite", sigma)
    lens = TopLabel() if lens is None else lens
    bootstrap = Bootstrap.of(interval, groups, resamples, seed, bias_removed=1 if interval == "percentile" else 0)
    predictions = rows_of(y_true, y_proba, **options)
    grids = grids_of(predictions, lens)
    found = [smooth_error((grid.targets - grid.outputs) / grid.weight.sum(), sigma) for grid in grids]
    narrowest = min(float(width) for _, width in found)

    def error(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return smooth_error((targets - outputs) / weight.sum(axis=-1, keepdims=True), sigma, precision=1e-6)[0]

    words = f"SmoothECE, {lens}, reflected Gaussian of width {'its fixed point' if sigma is None else format(sigma, 'g')}"
    return _estimate([float(value) for value, _ in found], words, predictions, lens, grids, bootstrap, error, narrowest)


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
    groups: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean divergence of E[target | output], by kernel regression, from the output (paper 5, Theorem C.4).

    score : "brier" for squared differences, "log" for the binary Kullback-Leibler divergence.
    reflect : mirror the kernel at 0 and 1.
    interval, groups, resamples, seed : as in `calibration_error`. Chance adds to this error, and adds again in each resample;
        both are taken off the ends of the interval, not off the error.

    >>> round(kernel_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    _named(score)
    if not 0 < bandwidth < np.inf:
        raise InputError("bandwidth", "must be positive and finite", bandwidth)
    kernel_function(kernel)
    lens = TopLabel() if lens is None else lens
    bootstrap = Bootstrap.of(interval, groups, resamples, seed, bias_removed=2)
    predictions = rows_of(y_true, y_proba, **options)
    grids = grids_of(predictions, lens)
    rule = _named(score).one_dimensional()
    error = partial(kernel_error, score=rule, kernel=kernel, bandwidth=bandwidth, reflect=reflect)
    found = [float(error(grid.weight, grid.outputs, grid.targets)) for grid in grids]
    words = f"kernel calibration error, {lens}, {score}, {kernel} of width {bandwidth:g}" + (", reflected" if reflect else "")
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
    """How often the most probable class is right, and the mean loss, at each confidence: kernel regression (paper 5, Eq. 4.7).

    x : confidences to look at; 101 of them from 0 to 1 unless given.
    score : "brier" or "log": the loss, over all classes, and the divergence.

    >>> curve = kernel_calibration_curve([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9], x=[0.7])
    >>> curve.regression.round(3)
    array([0.213])
    """
    _named(score)
    if not 0 < bandwidth < np.inf:
        raise InputError("bandwidth", "must be positive and finite", bandwidth)
    at = np.linspace(0, 1, 101) if x is None else np.atleast_1d(as_numbers(x, "x")).astype(np.float64)
    grid = FineGrid.of_summary(survey(rows_of(y_true, y_proba, **options)).summary.grid, score)
    return kernel_curve(grid, _named(score).one_dimensional(), at, kernel=kernel, bandwidth=bandwidth)


def _named(score: str) -> Score:
    """A score of which the grid knows the divergence and the loss."""
    if score not in NAMED:
        raise InputError("score", f"must be one of {', '.join(NAMED)}", repr(score))
    return NAMED[score]


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
    """The mean over events, with an interval from resamples of a grid whose cells are small beside the kernel's width."""
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
    found.low, found.high = max(0.0, min(value, low + value - coarse)), max(value, high + value - coarse)
    return found


def _grid_term(grid: FineGrid) -> Term:
    number = np.flatnonzero(grid.kept)
    return Term(grid.cells(number), 1.0, (partial(grid.categories, number),))


def _row_terms(predictions: Predictions, lens: Lens, size: int) -> list[Term]:
    seen, terms = look(predictions, lens), []
    for s in seen:
        number = np.minimum((np.clip(s.view.outputs, 0, 1) * size).astype(np.int64), size - 1)
        categories = partial(gather_categories, s.view, number, s.weights)
        terms.append(Term(gather_cells(s.view, number, s.weights), 1 / len(seen), (categories,), s.rows, s.total))
    return terms


def _sums(cells: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return cells.weight, cells.weight * cells.outputs, cells.weight * cells.targets


def _spread(values: np.ndarray, number: np.ndarray, size: int) -> np.ndarray:
    """Values of some cells on the whole grid."""
    found = np.zeros((*values.shape[:-1], size))
    found[..., number] = values
    return found
