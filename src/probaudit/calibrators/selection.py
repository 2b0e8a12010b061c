"""Choosing among candidates by paired losses, and what the choice gains on rows that did not make
it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..calibration.paired import half_width, quantile, ratio_influence, unit_terms
from ..calibration.resampling import draw_units, sampling_units
from ..scoring.intervals import Z95

RESAMPLES = 200
ROUNDING = 1e-9  # of a loss


@dataclass(frozen=True, eq=False)
class Choice:
    """Places of the best candidate and of the chosen one; by how much each is worse than the best,
    with standard errors."""

    best: int
    chosen: int
    gaps: np.ndarray
    errors: np.ndarray

    @property
    def tied(self) -> np.ndarray:
        """Whether a candidate is within one standard error of the best."""
        return self.gaps <= self.errors


def choose(
    losses: np.ndarray, share: np.ndarray, clusters: np.ndarray | None, eligible: Sequence[int]
) -> Choice | None:
    """The simplest candidate within one standard error of the best (Breiman et al. 1984, section
    3.4.3).

    losses : [n, candidates], from the simplest to the most flexible; infinite ones are allowed.
    share : of each row in the mean, of sum 1. clusters : the number of each row's cluster, if rows
        are dependent.
    eligible : the candidates that may be chosen. None of them has a finite mean: None.

    >>> losses = np.array([[1.0, 0.9], [1.0, 1.2], [1.0, 0.8], [1.0, 1.0]])
    >>> choose(losses, np.full(4, 0.25), None, [0, 1]).chosen  # the second is better, but by less than its standard error
    0
    """
    means = mean_losses(losses, share)
    allowed = [place for place in eligible if math.isfinite(means[place])]
    if not allowed:
        return None
    best = min(allowed, key=lambda place: means[place])
    gaps, errors = means - means[best], np.zeros(len(means))
    for place in np.flatnonzero(np.isfinite(means)):
        terms = unit_terms(losses[:, place] - losses[:, best] - gaps[place], share, clusters)
        width = half_width(terms) / Z95
        errors[place] = width if math.isfinite(width) else 0.0
    return Choice(
        best, next(place for place in allowed if gaps[place] <= errors[place]), gaps, errors
    )


def mean_losses(losses: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The mean of each column; infinite if one of its losses is."""
    finite = np.isfinite(losses).all(axis=0)
    return np.where(finite, share @ np.where(finite, losses, 0.0), np.inf)


def corrected_gain(
    losses: np.ndarray,
    before: np.ndarray,
    share: np.ndarray,
    clusters: np.ndarray | None,
    eligible: Sequence[int],
    *,
    seed: int = 0,
) -> tuple[float, float, float]:
    """The share of the loss `before` that the chosen candidate removes, corrected for the choice,
    with a 95% interval.

    The candidate that does best on some rows owes part of its lead to these very rows. Bootstrap
    bias-corrected cross-validation (Tsamardinos, Greasidou & Borboudakis 2018, algorithm 3) repeats
    the choice, but no fit, on resampled rows, and judges each choice on the rows that its resample
    left out. A row's loss is its mean over the resamples that left it out, as in the leave-one-out
    bootstrap (Efron & Tibshirani 1997, section 2). Where no candidate is clearly the best, the
    result is a mean over the candidates that rows like these would choose.

    The interval is as wide as that of the chosen candidate without a correction. A chosen candidate
    that leaves every loss as it was gains 0, whatever other rows would have chosen. Units of rows
    are resampled (see `sampling_units`), so that the cost does not grow with the rows.
    """
    found = choose(losses, share, clusters, eligible)
    if found is None or not np.isfinite(before).all() or not (total := float(share @ before)):
        return math.nan, math.nan, math.nan
    after = losses[:, found.chosen]
    if np.abs(after - before).max() < ROUNDING:
        return 0.0, 0.0, 0.0
    allowed = [place for place in eligible if math.isfinite(found.gaps[place])]
    units = sampling_units(len(losses), seed, clusters)
    sums = np.column_stack([np.bincount(units, share * losses[:, place]) for place in allowed])
    judged = (
        _left_out_losses(sums, np.bincount(units, share), seed) if len(sums) > 1 else share @ after
    )
    value = 1 - float(judged.sum()) / total
    half = half_width(
        unit_terms(ratio_influence(after, before, share), share, clusters), quantile(clusters)
    )
    return value, value - half, value + half


def _left_out_losses(sums: np.ndarray, weight: np.ndarray, seed: int) -> np.ndarray:
    """Each unit's loss by the candidates that resamples without it choose, on average. `sums` are
    [units, candidates]."""
    size = len(weight)
    total, times = np.zeros(size), np.zeros(size)
    for counts in draw_units(size, RESAMPLES, seed):
        out = counts == 0
        total[out] += sums[out, _chosen(sums, weight, counts)]
        times += out
    return np.asarray(total / np.maximum(times, 1))


def _chosen(sums: np.ndarray, weight: np.ndarray, counts: np.ndarray) -> int:
    """The place that `choose` would find if each unit occurred so often."""
    size = len(weight)
    inside = float(counts @ weight)
    if inside == 0:
        return 0
    means = counts @ sums / inside
    best = int(means.argmin())
    gaps = means - means[best]
    terms = sums - sums[:, [best]] - weight[:, None] * gaps
    errors = np.sqrt(counts @ terms**2 * (size / (size - 1))) / inside
    return int(np.flatnonzero(gaps <= errors)[0])
