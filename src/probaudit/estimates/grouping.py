"""Grouping loss from the counts of regions: explained, induced by binning, bounds (paper 1, Section 4 and Appendix C).

A level set is the rows of a bin (of a fold); a region is a part of one. All arrays may have resamples in front, [..., m].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..scores import Brier, Log
from .calibration_curve import Points
from .cells import effective_rows

ONE_ROW = 1 + 1e-9
Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Generator:
    """A score for one probability: its negative entropy h, the second derivative of h, its divergence d(truth, forecast)."""

    name: str
    value: Function
    curvature: Function
    divergence: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def chance(self, rate: np.ndarray, size: np.ndarray) -> np.ndarray:
        """How much h(rate) is too large on average because the rate is that of `size` rows: by the jackknife, which for
        h(x) = x^2 is the rate (1 - rate) / (size - 1) of Proposition 4.3, exactly."""
        if self.name == "brier":
            return rate * (1 - rate) / (size - 1)
        without_hit = np.clip((size * rate - 1) / (size - 1), 0, 1)
        without_miss = np.clip(size * rate / (size - 1), 0, 1)
        left_out = rate * self.value(without_hit) + (1 - rate) * self.value(without_miss)
        return np.asarray((size - 1) * (left_out - self.value(rate)))

    def moved(self, rate: np.ndarray, here: np.ndarray, mean: np.ndarray, size: np.ndarray) -> np.ndarray:
        """The rate of a level set, moved as the curve moves from its mean there to its mean `here`, in a region. For the log
        score, which must not see a probability of 0, the way is measured in log odds, and the curve keeps off 0 and 1."""
        if self.name == "brier":
            return rate + here - mean
        room = 1 / (2 * size + 2)
        here, mean = np.clip(here, room, 1 - room), np.clip(mean, room, 1 - room)
        odds = here * (1 - mean) / ((1 - here) * mean)
        return np.clip(rate * odds / (rate * odds + 1 - rate), 0, 1)


def _x_log(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log y, which is 0 where x is."""
    with np.errstate(divide="ignore"):
        return np.where(x > 0, x * np.log(np.where(x > 0, y, 1.0)), 0.0)


def _over(x: np.ndarray) -> np.ndarray:
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


BRIER = Generator("brier", lambda x: x**2, lambda x: np.full_like(x, 2.0), Brier().one_dimensional().divergence)
LOG = Generator("log", Log().one_dimensional().phi, lambda x: _over(x * (1 - x)), Log().one_dimensional().divergence)
# One of several classes (Lemma C.4). The terms y - x sum to nothing over classes.
CLASS_LOG = Generator("log", lambda x: _x_log(x, x), _over, lambda x, y: _x_log(x, x) - _x_log(x, y) + y - x)


@dataclass(frozen=True)
class RegionCounts:
    """Regions in rising order of their level sets: weight, weight of hits, and sum of squared weights, [..., m]; and, if it is
    known, the mean of the calibration curve over each, [m]."""

    level: np.ndarray
    weight: np.ndarray
    hits: np.ndarray
    squared: np.ndarray
    curve: np.ndarray | None = None

    @classmethod
    def of_counts(cls, rates: np.ndarray, counts: np.ndarray) -> RegionCounts:
        """From tables [level sets, regions] of rates and numbers of rows; no rows, no region."""
        level, region = np.nonzero(counts)
        n = counts[level, region].astype(np.float64)
        return cls(level, n, n * rates[level, region], n)


@dataclass(frozen=True)
class Explained:
    """The explained grouping loss as the plugin estimate less its bias, and what each region adds to the plugin, [..., m].

    induced : how much of it is there only because outputs differ within bins, see `explained_loss`.
    thin : regions of a single row, which are left out: one row says nothing about chance.
    """

    plugin: np.ndarray
    bias: np.ndarray
    induced: np.ndarray
    by_region: np.ndarray
    thin: np.ndarray

    @property
    def debiased(self) -> np.ndarray:
        return self.plugin - self.bias


def explained_loss(counts: RegionCounts, rule: Generator) -> Explained:
    """The h-variance of region rates within level sets, and its finite-sample bias (Theorem 4.1, Proposition 4.3).

    If regions of a level set differ in their outputs, they should differ in their rates as well, as the calibration curve says.
    Taken around what it says, the divergence of region rates bounds the grouping loss from below: E d(Q, C) >= E d(E[Q | R],
    E[C | R]) by Jensen's inequality, as d is convex in both. It falls short of the plugin by `induced`. The paper takes off
    the whole variance of the curve within bins, also what the regions do not see, so that without any grouping loss its bound
    lies below 0 by that much.

    >>> rates, counts = np.array([[0.2, 0.6]]), np.array([[10, 10]])
    >>> found = explained_loss(RegionCounts.of_counts(rates, counts), BRIER)
    >>> float(found.plugin.round(6)), float(found.bias.round(6))
    (0.04, 0.009591)
    """
    starts = np.flatnonzero(np.r_[True, np.diff(counts.level) > 0])
    spans = np.diff(np.r_[starts, len(counts.level)])

    def total(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, starts, axis=-1)

    rows = effective_rows(counts.weight, counts.squared)
    kept = rows > ONE_ROW
    weight, hits, squared = (np.where(kept, part, 0.0) for part in (counts.weight, counts.hits, counts.squared))
    level_weight, level_hits = total(weight), total(hits)
    level_size = np.where(level_weight > 0, effective_rows(level_weight, total(squared)), 2.0)
    rate = np.clip(hits / np.where(kept, weight, 1.0), 0, 1)
    level_rate = np.clip(level_hits / np.where(level_weight > 0, level_weight, 1.0), 0, 1)
    around = np.repeat(level_rate, spans, axis=-1)
    whole = np.maximum(level_weight.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    # Within a level set the terms that tell a divergence from an h-variance cancel.
    by_region = weight * rule.divergence(rate, np.where(kept, around, rate)) / whole
    induced = np.zeros(whole.shape[:-1])
    if counts.curve is not None:
        level_curve = total(weight * counts.curve) / np.where(level_weight > 0, level_weight, 1.0)
        moved = rule.moved(around, counts.curve, np.repeat(level_curve, spans, axis=-1), np.repeat(level_size, spans, axis=-1))
        induced = (
            by_region.sum(axis=-1) - (weight * rule.divergence(rate, np.where(kept, moved, rate))).sum(axis=-1) / whole[..., 0]
        )
    chance = weight * rule.chance(rate, np.where(kept, rows, 2.0))
    bias = (total(chance) - level_weight * rule.chance(level_rate, level_size)).sum(axis=-1) / whole[..., 0]
    return Explained(by_region.sum(axis=-1), bias, induced, by_region, (counts.weight > 0) & ~kept)


class Averages:
    """Weighted means over level sets, and the share of each."""

    def __init__(self, level: np.ndarray, weight: np.ndarray) -> None:
        self.number = np.unique(level, return_inverse=True)[1].reshape(-1)
        self.weight, self.total = weight, np.bincount(self.number, weight)
        self.share = self.total / self.total.sum()

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """[..., n] to [..., level sets]."""
        return self.sums(self.weight * values) / self.total

    def sums(self, values: np.ndarray) -> np.ndarray:
        size = len(self.total)
        found = [np.bincount(self.number, row, minlength=size) for row in values.reshape(-1, values.shape[-1])]
        return np.reshape(found, (*values.shape[:-1], size))

    def overall(self, values: np.ndarray) -> np.ndarray:
        return np.asarray((values * self.share).sum(axis=-1))


def induced_losses(
    curve: np.ndarray, outputs: np.ndarray, averages: Averages, rule: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What binning adds to the grouping loss, E V_h[C | S_B] (Proposition C.1), and to the calibration loss, CL(S_B) - CL(S),
    which for Brier is - E V[S - C | S_B] (Proposition C.2).

    curve : calibrated outputs of rows or points, perhaps resamples of them, [..., n].
    """
    binned = np.clip(averages(curve), 0, 1)
    grouping = averages.overall(averages(rule.value(curve)) - rule.value(binned))
    gap = rule.divergence(binned, _inside(averages(outputs))) - averages(rule.divergence(curve, outputs))
    return grouping, averages.overall(gap)


def curve_noise(curve: np.ndarray, points: Points, rule: Generator) -> float:
    """How much of the curve's h-variance within level sets is chance: to second order, which for Brier is all (but for the
    cutting of the curve at 0 and 1)."""
    averages = Averages(points.level, points.weight)
    noise = curve * (1 - curve) / points.effective

    def variance_times_curvature(weights: np.ndarray, curve: np.ndarray) -> np.ndarray:
        squares = weights**2
        room = np.minimum(squares @ (1 / points.effective) / 2, 0.5)  # half a row: rates nearer to 0 or 1 cannot be told
        return rule.curvature(np.clip(curve, room, 1 - room)) * (squares @ noise)

    of_points = averages(variance_times_curvature(points.smoother, curve))
    of_means = variance_times_curvature(averages(points.smoother.T).T, averages(curve))
    return float(averages.overall(of_points - of_means) / 2)


def binned_calibration_loss(
    rates: np.ndarray, stated: np.ndarray, size: np.ndarray, share: np.ndarray, rule: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """CL(S_B), the mean divergence of rates from mean outputs over bins, and its finite-sample bias (Broecker 2012)."""
    enough = size > ONE_ROW
    bias = np.where(enough, rule.chance(rates, np.where(enough, size, 2.0)), 0.0)
    return (share * rule.divergence(rates, _inside(stated))).sum(axis=-1), (share * bias).sum(axis=-1)


def _inside(means: np.ndarray) -> np.ndarray:
    """Mean outputs, which rounding must not put on 0 or 1: rows that are there themselves count one by one."""
    return np.clip(means, np.finfo(float).tiny, np.nextafter(1, 0))


@dataclass(frozen=True)
class Bounds:
    """CL_induced + GL_induced of the Brier score, and ends between which it lies (Theorem C.1): from the curve, from rates
    alone (Corollary C.1), and from the number of equal bins; and what the mean squared error of the outputs must be at
    least, by each of these (Corollary C.2)."""

    induced: float
    by_curve: tuple[float, float]
    by_rates: tuple[float, float]
    by_width: tuple[float, float]
    squared_error: tuple[float, float, float]


def induced_bounds(curve: np.ndarray, outputs: np.ndarray, averages: Averages, binned: float, width: float) -> Bounds:
    """binned : CL(S_B) + the explained grouping loss. width : of equal bins, NaN if they are not equal."""

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return averages(a * b) - averages(a) * averages(b)

    spread = np.sqrt(np.maximum(covariance(outputs, outputs), 0))
    rate = np.clip(averages(curve), 0, 1)
    most = np.sqrt(rate * (1 - rate))

    def ends(deviation: np.ndarray) -> tuple[float, float]:
        low, high = -spread * (2 * deviation + spread), spread * (2 * deviation - spread)
        return float(averages.overall(low)), float(averages.overall(high))

    by_curve, by_rates = ends(np.sqrt(np.maximum(covariance(curve, curve), 0))), ends(most)
    reach = width * float(averages.overall(most))
    by_width = (-reach - width**2 / 4, reach)
    induced = float(averages.overall(2 * covariance(outputs, curve) - spread**2))
    least = (binned - by_curve[1], binned - by_rates[1], binned - by_width[1])
    return Bounds(induced, by_curve, by_rates, by_width, least)
