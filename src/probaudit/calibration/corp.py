"""CORP: reliability by isotonic regression, without bins (Dimitriadis, Gneiting & Jordan 2021).

The regression is fitted to levels of equal output (`OutputLevels`). The miscalibration is what it
removes from a proper score. Its null distribution comes from consistency resampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import Lens, View
from ..choices.scores import Score, as_score
from ..data.inputs import RowOptions, takes_row_options
from ..kernels.twins import FEW_VALUES
from .event_measures import EventOutcomes
from .fine_grid import FineGrid
from .null import draw_hits


@dataclass(frozen=True)
class OutputLevels:
    """Levels of equal output, in increasing order: output, rows, and sums of weights, squared
    weights and hits."""

    output: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    squared: np.ndarray
    hits: np.ndarray

    @property
    def fitted(self) -> np.ndarray:
        """The isotonic regression of the event on the output, at each level."""
        return isotonic(self.hits, self.weight)

    def miscalibration(self, fitted: np.ndarray) -> float:
        """By how much the fit lowers the mean Brier score 2 (p - y)^2."""
        return float(_miscalibration(self.output, self.weight, self.hits, fitted))

    def null(self, at: np.ndarray, resamples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The null distribution: fits of calibrated models at some levels, [resamples, at], and
        their miscalibrations, [resamples]."""
        rng, p = np.random.default_rng(seed), np.clip(self.output, 0, 1)
        fits, null = np.empty((resamples, len(at))), np.empty(resamples)
        step = max(1, FEW_VALUES // len(p))
        for start in range(0, resamples, step):
            some = slice(start, min(start + step, resamples))
            hits = draw_hits(rng, self.weight, self.squared, p, some.stop - start)
            fit = isotonic(hits, self.weight)
            fits[some], null[some] = fit[:, at], _miscalibration(p, self.weight, hits, fit)
        return fits, null

    @classmethod
    def of_view(cls, view: View, weights: np.ndarray) -> OutputLevels:
        output, place = np.unique(view.outputs, return_inverse=True)
        sums = (
            np.bincount(place, values) for values in (weights, weights**2, weights * view.labels)
        )
        return cls(output, np.bincount(place), *sums)

    @classmethod
    def of_grid(cls, grid: FineGrid) -> OutputLevels:
        kept = grid.kept
        return cls(
            grid.place,
            *(field[kept] for field in (grid.rows, grid.weight, grid.weight_squared, grid.targets)),
        )


def isotonic(hits: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The isotonic regression of hits / weight, by the pool-adjacent-violators algorithm. `hits` is
    an array [m], or a matrix [r, m] with one regression per row.

    >>> isotonic(np.array([1.0, 0.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    array([0.5, 0.5, 1. ])
    """
    from ..kernels.isotonic import isotonic_levels

    rows = np.ascontiguousarray(np.atleast_2d(hits), np.float64)
    return np.asarray(isotonic_levels(rows, weight)).reshape(np.shape(hits))


def _miscalibration(
    output: np.ndarray, weight: np.ndarray, hits: np.ndarray, fitted: np.ndarray
) -> Any:
    """By how much the fit lowers the mean of 2 (p - y)^2, from sums over levels [..., m]."""
    removed = weight * (output**2 - fitted**2) - 2 * hits * (output - fitted)
    return 2 * removed.sum(axis=-1) / weight.sum()


@dataclass(frozen=True)
class Decomposition:
    """Mean score = miscalibration - discrimination + uncertainty, by isotonic regression (CORP)."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    n: int
    definition: str


@takes_row_options
def score_decomposition(
    y_true: Any,
    y_proba: Any = None,
    *,
    score: str = "brier",
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> Decomposition:
    """Miscalibration, discrimination and uncertainty by isotonic regression (CORP; Dimitriadis et
    al. 2021).

    The score is that of the event and its complement: "brier" is 2 (p - y)^2.

    >>> parts = score_decomposition([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9])
    >>> round(parts.miscalibration - parts.discrimination + parts.uncertainty - parts.score, 12)
    0.0
    """
    rule = as_score(score)
    rows = EventOutcomes.of(y_true, y_proba, lens, options)
    return _decomposition(rows.p, rows.y, rows.w, rule)


def _decomposition(p: np.ndarray, y: np.ndarray, w: np.ndarray, score: Score) -> Decomposition:
    """Dimitriadis, Gneiting & Jordan 2021, Eq. 3, with scores of the event and its complement."""
    place = np.unique(p, return_inverse=True)[1].reshape(-1)
    fitted = isotonic(np.bincount(place, w * y), np.bincount(place, w))[place]

    def mean(q: np.ndarray) -> float:
        return float((w * score.score(np.column_stack([1 - q, q]), y)).sum() / w.sum())

    raw, best, naive = (
        mean(p),
        mean(np.clip(fitted, 0, 1)),
        mean(np.full(len(p), (w * y).sum() / w.sum())),
    )
    words = f"CORP, {score.name} score"
    return Decomposition(raw, raw - best, naive - best, naive, len(p), words)
