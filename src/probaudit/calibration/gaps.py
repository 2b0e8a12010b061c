"""Calibration error over cells: the share of each cell times the distance of its mean output and
mean target.

ECE, classwise, top-k, full and grouped ECE (Kirchenbauer et al. 2022, Eq. 3) and the partitioned
calibration error (Yang et al. 2023, Eq. 4) are this one line.
"""

from __future__ import annotations

import math

import numpy as np

from ..choices.distances import L1, TVD, Distance, Squared
from ..errors import InputError
from .cells import Cells

ONE_ROW = 1 + 1e-9
NEAR = 2**14  # numbers of which a distance and all it needs stay in the near caches


def gaps(cells: Cells, distance: Distance) -> np.ndarray:
    """The distance in each cell, in the shape of the weights."""
    event = cells.outputs.ndim == cells.weight.ndim
    shape = (-1,) if event else (-1, cells.outputs.shape[-1])
    outputs, targets = cells.outputs.reshape(shape), cells.targets.reshape(shape)
    step = max(1, NEAR // math.prod(shape[1:]))
    parts = [
        distance.between(outputs[i : i + step], targets[i : i + step])
        for i in range(0, max(1, len(outputs)), step)
    ]
    return np.concatenate(parts).reshape(cells.weight.shape)


def mean_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The mean distance over cells, one for each resample."""
    return np.asarray((cells.share * gaps(cells, distance)).sum(axis=-1))


def worst_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The largest distance of any cell that has rows."""
    return np.asarray(np.where(cells.weight > 0, gaps(cells, distance), -np.inf).max(axis=-1))


def debiased_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The mean distance less its bias due to sampling noise.

    The bias of a squared distance is t (1 - t) / (n - 1) for each target t (Kumar et al. 2019).
    That of the absolute difference g of a single event is about E|g + s Z| - g, with Z normal and
    s^2 = t (1 - t) / n: the mean of a folded normal, where Kumar et al. resample. For weighted rows
    n is the effective number, (sum w)^2 / sum w^2. Cells of one row show no variance and are left
    out.
    """
    event = cells.outputs.ndim == cells.weight.ndim
    if not (isinstance(distance, Squared) or (isinstance(distance, (L1, TVD)) and event)):
        rule = 'requires distance="squared", or "l1" and a lens of a single event (known bias)'
        raise InputError("debias", rule, repr(distance))
    enough = cells.effective > ONE_ROW
    if not enough.any():
        raise InputError("debias", "requires a cell of two rows or more; use fewer cells")
    gap, noise = gaps(cells, distance), cells.targets * (1 - cells.targets)
    size = np.where(enough, cells.effective, 2.0)
    if isinstance(distance, Squared):
        bias = (noise if event else noise.sum(axis=-1)) / (size - 1)
    else:
        bias = _folded_mean(gap, np.sqrt(noise / size)) - gap
    weight = np.where(enough, cells.weight, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weight * (gap - bias)).sum(axis=-1) / weight.sum(axis=-1))


def _folded_mean(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """E|X| for normal X."""
    from scipy.special import ndtr

    ratio = np.divide(mean, deviation, out=np.full_like(mean, 40.0), where=deviation > mean / 40)
    return deviation * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * (1 - 2 * ndtr(-ratio))


def single_row_cells(cells: Cells) -> np.ndarray:
    """Which cells have too few rows to be debiased: an effective number of one."""
    return (cells.weight > 0) & ~(cells.effective > ONE_ROW)
