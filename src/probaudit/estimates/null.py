"""The top-label ECE from the grid of a pass, beside what a calibrated model with the same confidences would get."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..statistics import CELLS, Grid

STEPS = 80  # parts of a bin in which all rows count as equally confident when labels are drawn anew


@dataclass(frozen=True)
class BinnedError:
    """ECE over equal bins; its mean and 95% point if the model were calibrated, and the p-value of that."""

    value: float
    null_mean: float
    null_high: float
    p_value: float
    bins: int


def binned_error(grid: Grid, bins: int = 15, *, weighted: bool = False, resamples: int = 999, seed: int = 0) -> BinnedError:
    """Equal bins are unions of grid cells, so the error is exact but for rounding at a bin's edge.

    Under calibration the hits of equally confident rows are binomial (consistency resampling). Weighted rows have no such
    null here: its mean and p-value are NaN.
    """
    steps = STEPS if CELLS % (bins * STEPS) == 0 else 1

    def parts(values: np.ndarray) -> np.ndarray:
        return values.reshape(bins * steps, -1).sum(axis=1)

    weight, confidence, hits = parts(grid.weight), parts(grid.confidence), parts(grid.hits)

    def error(found: np.ndarray) -> np.ndarray:
        gaps = (found - confidence).reshape(*found.shape[:-1], bins, steps).sum(axis=-1)
        return np.abs(gaps).sum(axis=-1) / weight.sum()

    value = float(error(hits))
    if weighted:
        return BinnedError(value, np.nan, np.nan, np.nan, bins)
    rows = parts(grid.rows)
    mean = np.clip(confidence / np.maximum(weight, 1), 0, 1)
    full = np.flatnonzero(rows)
    drawn = np.zeros((resamples, len(rows)))
    drawn[:, full] = np.random.default_rng(seed).binomial(rows[full], mean[full], (resamples, len(full)))
    null = error(drawn)
    p_value = (1 + int((null >= value * (1 - 1e-12)).sum())) / (1 + resamples)
    return BinnedError(value, float(null.mean()), float(np.quantile(null, 0.95)), p_value, bins)
