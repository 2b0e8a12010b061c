"""The lower bound of the grouping loss from the counts of regions: explained loss, its bias, and
what binning induces (Perez-Lebel et al. 2023, Section 4 and Appendix C).

A level set is the rows of a bin (of a fold); a region is a part of one. All arrays may have
resamples in front, [..., m].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..calibration.resampling import effective_rows
from ..choices.scores import Brier, Log
from .calibration_curve import CurvePoints
from .sampling_bias import Convex, Function, observed_rate_excess, shared_rate_excess

ONE_ROW = 1 + 1e-9


@dataclass(frozen=True)
class Generator:
    """A score of one probability: its negative entropy h, and its divergence d(truth, forecast)."""

    name: str
    h: Convex
    divergence: Callable[[np.ndarray, np.ndarray], np.ndarray]

    @property
    def value(self) -> Function:
        return self.h.value

    @property
    def curvature(self) -> Function:
        return self.h.second

    def moved(
        self, rate: np.ndarray, here: np.ndarray, mean: np.ndarray, size: np.ndarray
    ) -> np.ndarray:
        """The rate of a level set, shifted by the difference between the mean of the curve in a
        region (`here`) and in the level set (`mean`). For the log loss the shift is in log odds,
        and the curve is kept away from 0 and 1."""
        if self.name == "brier":
            return rate + here - mean
        room = 1 / (2 * size + 2)
        here, mean = np.clip(here, room, 1 - room), np.clip(mean, room, 1 - room)
        odds = here * (1 - mean) / ((1 - here) * mean)
        return np.clip(rate * odds / (rate * odds + 1 - rate), 0, 1)


def _x_log(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log y; 0 if x is 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > 0, x * np.log(np.where(x > 0, y, 1.0)), 0.0)


def _over(x: np.ndarray) -> np.ndarray:
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


def _both(side: Callable[[np.ndarray], np.ndarray], sign: int) -> Function:
    """A derivative of x log x + (1 - x) log (1 - x), from that of x log x."""
    return lambda x: side(x) + sign * side(1 - x)


_SQUARE = Convex(lambda x: x**2, lambda x: np.full_like(x, 2.0), np.zeros_like, np.zeros_like)
_X_LOG_X = Convex(
    lambda x: _x_log(x, x), _over, lambda x: -(_over(x) ** 2), lambda x: 2 * _over(x) ** 3
)
_ENTROPY = Convex(
    Log().one_dimensional().phi,
    lambda x: _over(x * (1 - x)),
    _both(_X_LOG_X.third, -1),
    _both(_X_LOG_X.fourth, 1),
    both_ends=True,
)
BRIER = Generator("brier", _SQUARE, Brier().one_dimensional().divergence)
LOG = Generator("log", _ENTROPY, Log().one_dimensional().divergence)
# One of several classes (Lemma C.4). The terms y - x sum to 0 over classes.
CLASS_LOG = Generator("log", _X_LOG_X, lambda x, y: _x_log(x, x) - _x_log(x, y) + y - x)


@dataclass(frozen=True)
class ClusterMoments:
    """Sums over the clusters of each cell, [m], of products of the cluster's weight and its weight
    of hits in the cell."""

    hit_hit: np.ndarray
    hit_weight: np.ndarray
    weight_weight: np.ndarray
    weight_cubed: np.ndarray

    @classmethod
    def of(
        cls,
        cell: np.ndarray,
        cluster: np.ndarray,
        weights: np.ndarray,
        hits: np.ndarray,
        cells: int,
    ) -> ClusterMoments:
        """From the cell, cluster, weight and hit of each row; rows of cell -1 are ignored."""
        inside = cell >= 0
        cell, cluster, w, h = (part[inside] for part in (cell, cluster, weights, hits))
        pair, place = np.unique(
            cell * (int(cluster.max(initial=0)) + 1) + cluster, return_inverse=True
        )
        own = pair // (int(cluster.max(initial=0)) + 1)
        weight, hit = (np.bincount(place.reshape(-1), part, len(pair)) for part in (w, w * h))
        products = (hit * hit, hit * weight, weight**2, weight**3)
        return cls(*(np.bincount(own, part, cells) for part in products))

    def clusters(self, weight: np.ndarray) -> np.ndarray:
        """The effective number of clusters."""
        return effective_rows(weight, self.weight_weight)

    def variance(self, rate: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The variance of the rate of each cell: squared residual sums of clusters (Liang & Zeger
        1986), scaled to be unbiased if the rows of a cluster agree, and conservative if they do
        not. If each row is a cluster, it is rate (1 - rate) / (rows - 1). It is 0 for a cell of
        one cluster."""
        squares = self.hit_hit - 2 * rate * self.hit_weight + rate**2 * self.weight_weight
        some = np.where(weight > 0, weight, 1.0)
        left = self.weight_weight - 2 * self.weight_cubed / some + (self.weight_weight / some) ** 2
        several = self.clusters(weight) > ONE_ROW
        scale = self.weight_weight / np.where(several & (left > 0), left, 1.0)
        return np.where(several, np.maximum(squares, 0) * scale / some**2, 0.0)

    def size(self, rate: np.ndarray, weight: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The effective number of independent rows: between the numbers of clusters and of rows."""
        variance, clusters = self.variance(rate, weight), self.clusters(weight)
        known = (variance > 0) & (rate > 0) & (rate < 1)
        size = 1 + rate * (1 - rate) / np.where(known, variance, 1.0)
        return np.where(known, np.clip(size, np.minimum(clusters, rows), rows), clusters)

    def tested_size(self, rate: np.ndarray, weight: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The size for an exact interval. Few clusters leave the variance uncertain, so the size is
        reduced by the squared ratio of the t quantiles for the numbers of rows and of clusters
        (Korn & Graubard 1998). At least 1."""
        from scipy.special import stdtrit

        freedom = np.maximum(np.stack([rows, self.clusters(weight)]) - 1, 0.5)
        quantile = stdtrit(freedom, 0.975)
        return np.maximum(self.size(rate, weight, rows) * (quantile[0] / quantile[1]) ** 2, 1.0)


@dataclass(frozen=True)
class RegionCounts:
    """Regions in rising order of their level sets: weight, weight of hits, and sum of squared
    weights, [..., m].

    curve : the mean of the calibration curve over each region, [m], if known.
    moments : those of regions, and of level sets without regions of one cluster, if rows are
        dependent.
    """

    level: np.ndarray
    weight: np.ndarray
    hits: np.ndarray
    squared: np.ndarray
    curve: np.ndarray | None = None
    moments: tuple[ClusterMoments, ClusterMoments] | None = None

    @classmethod
    def of_counts(cls, rates: np.ndarray, counts: np.ndarray) -> RegionCounts:
        """From tables [level sets, regions] of rates and numbers of rows. A region has rows."""
        level, region = np.nonzero(counts)
        n = counts[level, region].astype(np.float64)
        return cls(level, n, n * rates[level, region], n)


@dataclass(frozen=True)
class Explained:
    """The explained grouping loss: the plugin estimate, its bias, and the contribution of each
    region to the plugin, [..., m].

    induced : the part due to outputs that differ within bins, see `explained_loss`.
    thin : regions of a single row (or cluster). They are left out, as one row has no variance.
    """

    plugin: np.ndarray
    bias: np.ndarray
    induced: np.ndarray
    by_region: np.ndarray
    thin: np.ndarray

    @property
    def debiased(self) -> np.ndarray:
        return self.plugin - self.bias


def explained_loss(
    counts: RegionCounts, rule: Generator, bias: np.ndarray | None = None
) -> Explained:
    """The h-variance of region rates within level sets, and its finite-sample bias (Theorem 4.1,
    Proposition 4.3).

    bias : if already known, as for resamples; else computed by `_between_bias`.

    If regions of a level set differ in their outputs, the calibration curve implies that they
    differ in their rates as well. The divergence of region rates from the curve is a lower bound of
    the grouping loss: E d(Q, C) >= E d(E[Q | R], E[C | R]) by Jensen's inequality, as d is jointly
    convex. It is smaller than the plugin by `induced`. Perez-Lebel et al. 2023 subtract the whole
    variance of the curve within bins, including the part that the regions do not explain. Without
    any grouping loss, their bound is negative by that part.

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
    kept = (rows if counts.moments is None else counts.moments[0].clusters(counts.weight)) > ONE_ROW
    weight, hits, squared = (
        np.where(kept, part, 0.0) for part in (counts.weight, counts.hits, counts.squared)
    )
    level_weight, level_hits = total(weight), total(hits)
    level_size = np.where(level_weight > 0, effective_rows(level_weight, total(squared)), 2.0)
    rate = np.clip(hits / np.where(kept, weight, 1.0), 0, 1)
    level_rate = np.clip(level_hits / np.where(level_weight > 0, level_weight, 1.0), 0, 1)
    around = np.repeat(level_rate, spans, axis=-1)
    whole = np.maximum(level_weight.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    # Summed over a level set, divergences equal the h-variance.
    by_region = weight * rule.divergence(rate, np.where(kept, around, rate)) / whole
    induced = np.zeros(whole.shape[:-1])
    if counts.curve is not None:
        level_curve = total(weight * counts.curve) / np.where(level_weight > 0, level_weight, 1.0)
        moved = rule.moved(
            around,
            counts.curve,
            np.repeat(level_curve, spans, axis=-1),
            np.repeat(level_size, spans, axis=-1),
        )
        induced = (
            by_region.sum(axis=-1)
            - (weight * rule.divergence(rate, np.where(kept, moved, rate))).sum(axis=-1)
            / whole[..., 0]
        )
    if bias is None:
        sizes = np.where(kept, rows, 2.0), level_size
        by_level = _between_bias(
            rule,
            weight=(weight, level_weight),
            rate=(rate, level_rate),
            size=sizes,
            moments=counts.moments,
            spans=spans,
        )
        bias = by_level.sum(axis=-1) / whole[..., 0]
    return Explained(by_region.sum(axis=-1), bias, induced, by_region, (counts.weight > 0) & ~kept)


Pair = tuple[np.ndarray, np.ndarray]  # values of regions, and of level sets


def _between_bias(
    rule: Generator,
    *,
    weight: Pair,
    rate: Pair,
    size: Pair,
    moments: tuple[ClusterMoments, ClusterMoments] | None,
    spans: np.ndarray,
) -> np.ndarray:
    """The sampling bias of weight times the h-variance of region rates, by level set.

    Brier score: weight times the variance of each region's rate, minus that of the level set's rate
    (Proposition 4.3). This is exact whether regions differ or not. With clusters, the variances are
    those of `ClusterMoments`.

    Log loss: the mean of the plugin over all ways to distribute the hits of the level set among its
    regions. Regions that do not differ then contribute 0 on average, however rare the event. The
    excess is nearly concave in the rate, so it is conservative if regions differ. With clusters,
    sizes are divided by the design effect, the ratio of the two Brier biases.
    """

    starts = np.cumsum(spans) - spans

    def total(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, starts, axis=-1)

    def squares(variance: Pair) -> np.ndarray:
        return total(weight[0] * variance[0]) - weight[1] * variance[1]

    alone = squares(
        (rate[0] * (1 - rate[0]) / (size[0] - 1), rate[1] * (1 - rate[1]) / (size[1] - 1))
    )
    within = alone
    if moments is not None:
        within = squares(
            (moments[0].variance(rate[0], weight[0]), moments[1].variance(rate[1], weight[1]))
        )
    if rule.name == "brier":
        return within
    rows, level_rows = size
    if moments is not None:
        most = np.maximum(1.0, level_rows / np.maximum(moments[1].clusters(weight[1]), 1.0))
        effect = np.clip(
            np.where(alone > 0, within / np.where(alone > 0, alone, 1.0), most), 1.0, most
        )
        rows, level_rows = np.maximum(rows / np.repeat(effect, spans), 1.0), level_rows / effect
    whole, shared = (np.repeat(part, spans, axis=-1) for part in (level_rows, rate[1]))
    return total(
        weight[0] * shared_rate_excess(rule.h, whole, whole * shared, rows).reshape(rows.shape)
    )


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
        found = [
            np.bincount(self.number, row, minlength=size)
            for row in values.reshape(-1, values.shape[-1])
        ]
        return np.reshape(found, (*values.shape[:-1], size))

    def overall(self, values: np.ndarray) -> np.ndarray:
        return np.asarray((values * self.share).sum(axis=-1))


def induced_losses(
    curve: np.ndarray, outputs: np.ndarray, averages: Averages, rule: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What binning adds to the grouping loss, E V_h[C | S_B] (Proposition C.1), and to the
    calibration loss, CL(S_B) - CL(S), which for Brier is - E V[S - C | S_B] (Proposition C.2).

    curve : calibrated outputs of rows or points; [..., n] with resamples in front.
    """
    binned = np.clip(averages(curve), 0, 1)
    grouping = averages.overall(averages(rule.value(curve)) - rule.value(binned))
    gap = rule.divergence(binned, _off_the_ends(averages(outputs))) - averages(
        rule.divergence(curve, outputs)
    )
    return grouping, averages.overall(gap)


def curve_noise(
    curve: np.ndarray, points: CurvePoints, rule: Generator, residuals: np.ndarray | None = None
) -> float:
    """The part of the curve's h-variance within level sets that is noise.

    For the Brier score it is the variance of the curve (ignoring its clipping at 0 and 1). For the
    log loss, each value counts as the rate of as many rows as give that variance.

    residuals : of the rates from the curve, by independent units of rows, [points, units], if rows
        are dependent.
    """
    averages = Averages(points.level, points.weight)
    noise = curve * (1 - curve) / points.effective

    def excess(weights: np.ndarray, curve: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        variance = (
            weights**2 @ noise if residuals is None else ((weights @ residuals) ** 2).sum(axis=1)
        )
        if rule.name == "brier":
            return variance
        rows = 1 / (weights**2 @ (1 / points.effective))
        if residuals is not None:
            rows = np.minimum(rows, curve * (1 - curve) / np.where(variance > 0, variance, np.inf))
        return observed_rate_excess(
            rule.h, np.clip(curve, 0, 1), np.maximum(rows, 1.0), np.clip(outputs, 0, 1)
        )

    of_points = averages(excess(points.smoother, curve, points.outputs))
    of_means = excess(averages(points.smoother.T).T, averages(curve), averages(points.outputs))
    return float(averages.overall(of_points - of_means))


def binned_calibration_loss(
    rates: np.ndarray,
    predicted: np.ndarray,
    size: np.ndarray,
    share: np.ndarray,
    rule: Generator,
    bias: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """CL(S_B), the mean divergence of rates from mean outputs over bins, and its finite-sample
    bias: for the Brier score that of Broecker (2012), for the log loss its expectation if bins are
    calibrated (`observed_rate_excess`).

    bias : if already known, as for resamples.
    """
    predicted = _off_the_ends(predicted)
    loss = (share * rule.divergence(rates, predicted)).sum(axis=-1)
    if bias is not None:
        return loss, bias
    if rule.name != "brier":
        return loss, (
            share * observed_rate_excess(rule.h, rates, np.maximum(size, 1.0), predicted)
        ).sum(axis=-1)
    # a single row has no sample variance: use that of a calibrated row
    enough = size > ONE_ROW
    excess = np.where(
        enough, rates * (1 - rates) / (np.where(enough, size, 2.0) - 1), predicted * (1 - predicted)
    )
    return loss, (share * excess).sum(axis=-1)


def _off_the_ends(means: np.ndarray) -> np.ndarray:
    """Mean outputs, kept from rounding to 0 or 1. Outputs of exactly 0 and 1 are points of their
    own."""
    return np.clip(means, np.finfo(float).tiny, np.nextafter(1, 0))


@dataclass(frozen=True)
class Bounds:
    """CL_induced + GL_induced of the Brier score, and intervals that contain it (Theorem C.1).

    by_curve, by_rates, by_width : the intervals from the curve, from rates alone (Corollary C.1),
        and from the number of equal bins.
    squared_error : a lower bound of the mean squared error of the outputs by each of the three
        (Corollary C.2).
    """

    induced: float
    by_curve: tuple[float, float]
    by_rates: tuple[float, float]
    by_width: tuple[float, float]
    squared_error: tuple[float, float, float]


def induced_bounds(
    curve: np.ndarray, outputs: np.ndarray, averages: Averages, binned: float, width: float
) -> Bounds:
    """binned : CL(S_B) + the explained grouping loss. width : of equal bins, NaN if they are not
    equal."""

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
