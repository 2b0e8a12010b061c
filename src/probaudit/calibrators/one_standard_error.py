"""The one-standard-error rule: the simplest calibrator whose cross-validated loss is within one
standard error of the lowest, and how much it gains.

`select_calibrator`, the audit's table of repairs, the loss budget and `probaudit calibrate` use it,
so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..calibration.resampling import (
    draw_units,
    half_width,
    quantile,
    ratio_influence,
    sampling_units,
    unit_terms,
)
from ..scoring.intervals import Z95

RESAMPLES = 200
ROUNDING = 1e-9  # of a loss


@dataclass(frozen=True, eq=False)
class Choice:
    """The outcome of the one-standard-error rule.

    best, chosen : names of the candidate with the lowest mean loss, and of the simplest within one
        standard error of it.
    differences, errors : by name, the mean loss minus that of the best, and its standard error.
    gain : the share of the loss that the chosen candidate removes, corrected for the choice, and
        its 95% interval (see `corrected_gain`).
    """

    best: str
    chosen: str
    differences: dict[str, float]
    errors: dict[str, float]
    gain: tuple[float, float, float]

    def tied(self, name: str) -> bool:
        """Whether a candidate is within one standard error of the best."""
        return self.differences[name] <= self.errors[name]


def choose_calibrator(
    losses: Mapping[str, np.ndarray],
    before: np.ndarray,
    share: np.ndarray,
    clusters: np.ndarray | None,
    *,
    eligible: Sequence[str],
    seed: int = 0,
) -> Choice | None:
    """The simplest calibrator within one standard error of the best, and what it gains.

    losses : the out-of-fold loss of each row by calibrator, from the simplest to the most flexible.
    before : the loss of each row before calibration.
    share : the share of each row in the mean; the shares sum to 1.
    clusters : the number of each row's cluster, if rows are dependent.
    eligible : the names that may be chosen.

    Returns None if no eligible calibrator has a finite mean loss.
    """
    names, matrix = list(losses), np.column_stack(list(losses.values()))
    places = [place for place, name in enumerate(names) if name in eligible]
    ranking = one_standard_error_rule(matrix, share, clusters, places)
    if ranking is None:
        return None
    return Choice(
        best=names[ranking.best],
        chosen=names[ranking.chosen],
        differences=dict(zip(names, ranking.differences.tolist(), strict=True)),
        errors=dict(zip(names, ranking.errors.tolist(), strict=True)),
        gain=corrected_gain(matrix, before, share, clusters, places, seed=seed),
    )


@dataclass(frozen=True, eq=False)
class Ranking:
    """The columns of the best and of the chosen candidate; for each candidate its mean difference
    from the best, and the standard error of that."""

    best: int
    chosen: int
    differences: np.ndarray
    errors: np.ndarray


def one_standard_error_rule(
    losses: np.ndarray, share: np.ndarray, clusters: np.ndarray | None, eligible: Sequence[int]
) -> Ranking | None:
    """The simplest candidate within one standard error of the best (Breiman et al. 1984, section
    3.4.3).

    losses : [n, candidates], from the simplest to the most flexible; infinite losses are allowed.
    share, clusters : as in `choose_calibrator`.
    eligible : the columns that may be chosen.

    Returns None if no eligible column has a finite mean.

    In this example the second is better, but by less than its standard error:

    >>> losses = np.array([[1.0, 0.9], [1.0, 1.2], [1.0, 0.8], [1.0, 1.0]])
    >>> one_standard_error_rule(losses, np.full(4, 0.25), None, [0, 1]).chosen
    0
    """
    means = mean_losses(losses, share)
    allowed = [place for place in eligible if math.isfinite(means[place])]
    if not allowed:
        return None
    best = min(allowed, key=lambda place: means[place])
    differences, errors = means - means[best], np.zeros(len(means))
    for place in np.flatnonzero(np.isfinite(means)):
        terms = unit_terms(losses[:, place] - losses[:, best] - differences[place], share, clusters)
        width = half_width(terms) / Z95
        errors[place] = width if math.isfinite(width) else 0.0
    chosen = next(place for place in allowed if differences[place] <= errors[place])
    return Ranking(best, chosen, differences, errors)


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

    The mean loss of the best of many candidates is biased: part of its lead is noise. Bootstrap
    bias-corrected cross-validation (Tsamardinos, Greasidou & Borboudakis 2018, algorithm 3) repeats
    the choice, but no fit, on resampled rows, and scores each choice on the rows that its resample
    left out. A row's loss is its mean over the resamples that left it out, as in the leave-one-out
    bootstrap (Efron & Tibshirani 1997, section 2). If no candidate is clearly the best, the result
    averages over the candidates that resamples choose.

    The interval is as wide as that of the chosen candidate without a correction. A chosen candidate
    that changes no loss gains 0, whatever the resamples choose. The bootstrap resamples units of
    rows (see `sampling_units`), so that its cost does not grow with the number of rows.
    """
    ranking = one_standard_error_rule(losses, share, clusters, eligible)
    if ranking is None or not np.isfinite(before).all() or not (total := float(share @ before)):
        return math.nan, math.nan, math.nan
    after = losses[:, ranking.chosen]
    if np.abs(after - before).max() < ROUNDING:
        return 0.0, 0.0, 0.0
    allowed = [place for place in eligible if math.isfinite(ranking.differences[place])]
    units = sampling_units(len(losses), seed, clusters)
    sums = np.column_stack([np.bincount(units, share * losses[:, place]) for place in allowed])
    held_out = (
        _held_out_losses(sums, np.bincount(units, share), seed) if len(sums) > 1 else share @ after
    )
    value = 1 - float(held_out.sum()) / total
    half = half_width(
        unit_terms(ratio_influence(after, before, share), share, clusters), quantile(clusters)
    )
    return value, value - half, value + half


def _held_out_losses(sums: np.ndarray, weight: np.ndarray, seed: int) -> np.ndarray:
    """The mean loss of each unit under the choices of the resamples that left it out. `sums` is
    [units, candidates]."""
    size = len(weight)
    total, times = np.zeros(size), np.zeros(size)
    for counts in draw_units(size, RESAMPLES, seed):
        out = counts == 0
        total[out] += sums[out, _resampled_choice(sums, weight, counts)]
        times += out
    return np.asarray(total / np.maximum(times, 1))


def _resampled_choice(sums: np.ndarray, weight: np.ndarray, counts: np.ndarray) -> int:
    """The choice of the one-standard-error rule in a resample that has each unit `counts` times."""
    size = len(weight)
    inside = float(counts @ weight)
    if inside == 0:
        return 0
    means = counts @ sums / inside
    best = int(means.argmin())
    differences = means - means[best]
    terms = sums - sums[:, [best]] - weight[:, None] * differences
    errors = np.sqrt(counts @ terms**2 * (size / (size - 1))) / inside
    return int(np.flatnonzero(differences <= errors)[0])


def correction_words(tried: int) -> str:
    """How a gain was corrected, for its definition."""
    how = f"bootstrap bias-corrected, {RESAMPLES} resamples"
    return f"corrected for choosing among {tried} calibrators ({how})"
