"""SmoothECE (Blasiok & Nakkiran 2023): a calibration error without bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition
from ..choices.distances import L1
from ..choices.lenses import Lens, error_lens
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import Argument, InputError, not_a_truth_value
from ..estimate import Estimate
from ..scoring.clusters import clusters_unused
from .cells import CellError, Cells
from .dependent_event import DependentEvent
from .error_intervals import population_of
from .fine_grid import FineGrid, grid_sums
from .null import BinomialNull
from .population import ErrorPart, Population, population_error
from .resampling import FEWER_RESAMPLES, check_resamples
from .terms import terms_on_grid, whole_grid_term
from .views import dependent_events, grids_of, lens_of

SMOOTH_CELLS, SMOOTH_PRECISION = 420, 1e-5  # grid and bandwidth precision of intervals


@takes_row_options
def smooth_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    sigma: float | None = None,
    interval: bool = False,
    resamples: int = FEWER_RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """SmoothECE: the mean absolute residual after smoothing with a reflected Gaussian whose width
    equals the error itself (Blasiok & Nakkiran 2023).

    lens : `TopLabel()` by default.
    sigma : the width of the Gaussian; the fixed point by default.
    interval : if True, compute a 95% interval for the error of the population and a bias-corrected
        estimate in `debiased`, as in `calibration_error`, on a grid of 420 cells.
    resamples, seed : of the interval.

    >>> round(smooth_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    if sigma is not None and not 0 < sigma < np.inf:
        raise InputError("sigma", "must be positive and finite", sigma)
    predictions = rows_of(y_true, y_proba, **options)
    lens = error_lens(predictions, lens)
    if not isinstance(interval, bool):
        raise not_a_truth_value("interval", interval)
    check_resamples(resamples)
    if options.get("clusters") is not None and not interval:
        raise clusters_unused("the value", "pass ", Argument("interval", "True"), ", or ")
    grids = grids_of(predictions, lens)
    errors = [
        smooth_error((grid.targets - grid.outputs) / grid.weight.sum(), sigma)[0] for grid in grids
    ]
    width = "its fixed point" if sigma is None else format(sigma, "g")
    estimate = Estimate(
        math.fsum(float(error) for error in errors) / len(errors),
        n=max(int(grid.rows.sum()) for grid in grids),
        definition=Definition("SmoothECE", lens, f"reflected Gaussian of width {width}"),
    )
    if interval:
        known = _population(predictions, lens, grids, sigma, resamples, seed)
        estimate.debiased, estimate.low, estimate.high = known.debiased, known.low, known.high
    return estimate


def _population(
    predictions: Predictions,
    lens: Lens,
    grids: Sequence[FineGrid],
    sigma: float | None,
    resamples: int,
    seed: int,
) -> Population:
    """The error of the population, on coarser grids."""
    error = partial(smooth_cells_error, sigma=sigma)
    coarse = [grid.coarse(SMOOTH_CELLS) for grid in grids]
    events = dependent_events(predictions, lens_of(predictions, lens))
    if events is not None:
        return smooth_population(coarse, events, error, resamples, seed)
    terms = (
        [whole_grid_term(coarse[0])]
        if len(grids) == 1
        else terms_on_grid(predictions, lens, SMOOTH_CELLS)
    )
    return population_of(terms, L1(), clusters=None, resamples=resamples, seed=seed, error=error)


def smooth_population(
    grids: Sequence[FineGrid],
    events: Sequence[DependentEvent],
    error: CellError,
    resamples: int,
    seed: int,
    cells: Sequence[np.ndarray] | None = None,
) -> Population:
    """The error of the population for rows in clusters, by simulating labels and the noise that
    clusters share. `cells` : the cell of each kept cell of each grid; itself by default."""
    parts, widened = [], 1.0
    cells = [np.flatnonzero(grid.kept) for grid in grids] if cells is None else cells
    for grid, event, cell in zip(grids, events, cells, strict=True):
        around, steps = event.noise(grid, cell), BinomialNull.of_grid(grid, cell)
        noise = partial(steps.noise, resamples=resamples, seed=seed, shared=around.observed)
        parts.append(ErrorPart(event.thinned(grid).cells(cell), 1 / len(grids), noise))
        widened = around.widened
    return population_error(parts, L1(), error=error, widened=widened, seed=seed)


def smooth_cells_error(cells: Cells, sigma: float | None = None) -> np.ndarray:
    """SmoothECE on a grid of 420 cells, given those that have rows."""
    weight, outputs, targets = grid_sums(cells, SMOOTH_CELLS)
    return smooth_error(
        (targets - outputs) / weight.sum(axis=-1, keepdims=True), sigma, precision=SMOOTH_PRECISION
    )[0]


def smooth_error(
    residual: np.ndarray, sigma: float | None = None, *, precision: float = 1e-10
) -> tuple[np.ndarray, np.ndarray]:
    """SmoothECE and its bandwidth, for residuals [..., G]: the sum of target - output in each cell,
    divided by the weight of all rows.

    Residuals are smoothed with a Gaussian reflected at 0 and 1. On a grid of cell midpoints this
    multiplies the cosine transform by exp(-(pi k sigma)^2 / 2). The authors' implementation halves
    the mass in the end cells, and so exceeds the binned error on confident models; this one does
    not. The default bandwidth is the fixed point sigma = smECE(sigma), to the given precision.
    """
    from scipy.fft import dct, idct

    waves = dct(residual, type=2, norm="ortho")
    frequency = np.pi * np.arange(residual.shape[-1])

    def error(width: np.ndarray) -> np.ndarray:
        damped = frequency * width[..., None]
        damped *= damped
        damped *= -0.5
        np.exp(damped, out=damped)
        damped *= waves
        smoothed = idct(damped, type=2, norm="ortho", overwrite_x=True)
        return np.asarray(np.abs(smoothed, out=smoothed).sum(axis=-1))

    if sigma is not None:
        width = np.full(residual.shape[:-1], sigma)
        return error(width), width
    # error(width) - width decreases from error(0) at 0 to a value of at most 0 at error(0): regula
    # falsi with the Illinois modification, which halves the value at an end that stays.
    low, high = np.zeros(residual.shape[:-1]), error(np.zeros(residual.shape[:-1]))
    above, below = high.copy(), error(high) - high
    width, side = high, np.zeros(residual.shape[:-1])
    for _ in range(100):
        gap = above - below
        width = np.where(gap > 0, (above * high - below * low) / np.where(gap > 0, gap, 1), high)
        found = error(width)
        excess = found - width
        up = excess > 0
        low, high = np.where(up, width, low), np.where(up, high, width)
        below = np.where(up, np.where(side > 0, below / 2, below), excess)
        above = np.where(up, excess, np.where(side < 0, above / 2, above))
        side = np.where(up, 1, -1)
        if (np.abs(excess) <= precision).all():
            break
    return found, width
