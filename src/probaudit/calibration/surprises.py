"""Surprises: labels other than the most probable class, drawn from the forecasts for all classes at
once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..choices.partitions import EqualWidth
from .null import p_value


@dataclass(frozen=True)
class ClasswiseChance:
    """Classwise errors (L1) of a calibrated model with the same outputs, and how probable one as
    large as the rows' own is."""

    errors: np.ndarray
    p_value: float


def classwise_chance(
    probs: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    bins: EqualWidth,
    resamples: int,
    seed: int = 0,
) -> ClasswiseChance:
    """Each row gets one label, so that a class gains what another loses. The cost grows with the
    surprises, not with the rows: a row is surprised with probability 1 - p(top), as a Poisson
    process of rate -log p(top) has events there."""
    rng, (n, K) = np.random.default_rng(seed), probs.shape
    cell = np.arange(K) * bins.bins + bins.cells(probs.reshape(-1)).reshape(n, K)
    expected = np.bincount(cell.reshape(-1), (weights[:, None] * probs).reshape(-1), K * bins.bins)
    row, top, others = np.arange(n), probs.argmax(axis=1), probs.astype(np.float64)
    others[row, top] = 0

    rate = np.cumsum(np.log1p(others.sum(axis=1) / probs[row, top]))
    events = rng.random(rng.poisson(resamples * rate[-1])) * resamples
    resample = np.minimum(events.astype(np.int64), resamples - 1)
    place = np.minimum(np.searchsorted(rate, (events - resample) * rate[-1], side="right"), n - 1)
    resample, place = np.divmod(np.unique(resample * n + place), n)
    edges = np.cumsum(others[place], axis=1)
    drawn = (rng.random((len(place), 1)) * edges[:, -1:] >= edges).sum(axis=1).clip(max=K - 1)

    def hits(
        rows: np.ndarray, classes: np.ndarray, of: np.ndarray | int = 0, count: int = 1
    ) -> np.ndarray:
        codes = of * expected.size + cell[rows, classes]
        return np.bincount(codes, weights[rows], count * expected.size).reshape(count, -1)

    def error(hits: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(hits - expected).sum(axis=1) / (K * weights.sum()))

    moved = hits(place, drawn, resample, resamples) - hits(place, top[place], resample, resamples)
    errors = error(hits(row, top) + moved)
    return ClasswiseChance(errors, p_value(float(error(hits(row, labels))[0]), errors))
