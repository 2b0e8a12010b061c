"""How recent rows differ from a reference: scores, calibration, confidence, class frequencies. Pure
functions of evidence.

Every measure gets a 95% interval for its change, and a p-value of "both are samples of one world".
p-values must be right far out in the tail, where alarms are decided, and losses are skewed. So the
chance of a difference of means is read from the distribution with the same mean, variance and
skewness (Pearson's type III; Hall 1983, "Chi squared approximations to the distribution of a sum of
independent random variables", Annals of Probability 11), or from the normal where that says more.
Weighted rows count as (sum w)^2 / sum w^2 rows of equal weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import draw_counts
from ..calibration.smooth import smooth_error
from ..scoring.intervals import Z95, wilson
from ..states import ClassSums, EventSums, Evidence, Grid, Summary

SMOOTH_CELLS = 420  # cells of confidence on which SmoothECE is resampled
TREND = 0.05  # width of the kernel that tells the miscalibration of a reference from its chance
NULL_DRAWS = 1000
SPREAD_DRAWS = 100
ASKED_AGAIN = 0.01
MANY_DRAWN = 2_000_000  # numbers drawn for the interval of class frequencies


@dataclass(frozen=True)
class Change:
    """A measure of recent rows against that of the reference.

    difference : recent - reference; of `smooth_ece` and `priors`, which sampling noise lifts above
        zero, what is beyond chance.
    low, high : its 95% interval, for this one look.
    p_value : how probable a difference at least so large is, either way, if nothing has changed.
    detail : of `priors`, the class whose frequency changed most surely.
    """

    measure: str
    reference: float
    recent: float
    difference: float
    low: float
    high: float
    p_value: float
    detail: str = ""


@dataclass(frozen=True)
class Moments:
    """Of something that each row has: mean, variance, third central moment, and how many rows of
    equal weight there are.

    All but the last may be arrays.
    """

    mean: Any
    variance: Any
    third: Any
    n: float

    @classmethod
    def of_share(cls, share: Any, n: float) -> Moments:
        spread = share * (1 - share)
        return cls(share, spread, spread * (1 - 2 * share), n)

    @classmethod
    def of_values(cls, values: np.ndarray, weight: np.ndarray, squared: np.ndarray) -> Moments:
        """Of values and, for each, the sums of w and w^2 over its rows."""
        mean = float(weight @ values / weight.sum())
        gap = values - mean
        return cls(
            mean,
            float(squared @ gap**2 / squared.sum()),
            float(squared @ gap**3 / squared.sum()),
            float(weight.sum() ** 2 / squared.sum()),
        )

    def pooled(self, other: Moments) -> Moments:
        """Of the rows of both."""
        n = self.n + other.n
        mean = (self.n * self.mean + other.n * other.mean) / n
        second: Any = 0.0
        third: Any = 0.0
        for part in (self, other):
            gap = part.mean - mean
            second += part.n / n * (part.variance + gap**2)
            third += part.n / n * (part.third + 3 * gap * part.variance + gap**3)
        return Moments(mean, second, third, n)


def chance(z: Any, skewness: Any) -> Any:
    """The probability of a value at least so far out on this side, of a standardised sum with this
    skewness; doubled.

    The second example: 8 events where 1 is expected, exactly 2 x 1.0e-5.

    >>> chance(1.96, 0.0).round(3), chance(7.0, 1.0).round(6)
    (np.float64(0.05), np.float64(3.5e-05))
    """
    from scipy.special import gammaincc, ndtr

    far, lean = np.abs(z), np.asarray(skewness * np.sign(z))
    heavy = lean > 1e-3  # below, the two distributions are the same
    shape = 4 / np.square(np.where(heavy, lean, 1.0))
    tail = np.maximum(
        ndtr(-far), np.where(heavy, gammaincc(shape, shape + far * np.sqrt(shape)), 0.0)
    )
    return np.minimum(1.0, 2 * tail)


def mean_p_value(recent: Moments, reference: Moments, ignored: float = 0.0) -> Any:
    """Of a difference of means, if both are samples of what they are together. Differences up to
    `ignored` are none."""
    both = recent.pooled(reference)
    variance = both.variance * (1 / recent.n + 1 / reference.n)
    beyond = _beyond(recent.mean - reference.mean, ignored)
    error = np.sqrt(np.where(variance > 0, variance, 1.0))
    p = chance(beyond / error, both.third * (recent.n**-2 - reference.n**-2) / error**3)
    return np.where(beyond == 0, 1.0, p)


def _beyond(difference: Any, ignored: float) -> Any:
    return np.copysign(np.maximum(0.0, np.abs(difference) - ignored), difference)


def mean_change(measure: str, recent: Moments, reference: Moments, ignored: float = 0.0) -> Change:
    """A change of means, with the interval of Welch."""
    difference = recent.mean - reference.mean
    half = Z95 * math.sqrt(recent.variance / recent.n + reference.variance / reference.n)
    p = float(mean_p_value(recent, reference, ignored))
    return Change(
        measure, reference.mean, recent.mean, difference, difference - half, difference + half, p
    )


def share_change(measure: str, recent: Moments, reference: Moments, ignored: float = 0.0) -> Change:
    """A change of proportions, with the interval that Newcombe (1998, method 10) makes of two by
    Wilson. Its test takes half a row off the difference (Yates), since rows are whole."""
    (low, high), (from_low, from_high) = (
        wilson(recent.mean, recent.n),
        wilson(reference.mean, reference.n),
    )
    difference = recent.mean - reference.mean
    down = math.hypot(recent.mean - low, from_high - reference.mean)
    up = math.hypot(high - recent.mean, reference.mean - from_low)
    p = float(mean_p_value(recent, reference, ignored + 0.5 / recent.n))
    return Change(
        measure, reference.mean, recent.mean, difference, difference - down, difference + up, p
    )


def score_moments(sums: ClassSums, grid: Grid, score: str) -> Moments:
    """Of a score, over the rows where it is finite. Mean and variance are exact; the skewness is
    that of its mean over rows of about the same confidence that are right, or wrong, which for two
    classes is exact too."""
    with np.errstate(invalid="ignore"):
        finite = np.where(sums.rows > 0, 1 - sums.infinite / sums.rows, 0.0)
    weight, squared = float(sums.weight @ finite), float(sums.weight_squared @ finite)
    if not weight > 0:
        return Moments(math.nan, math.nan, math.nan, 0.0)
    mean = float(sums.score.sum() / weight)
    spread = float(sums.score_squared.sum() - 2 * mean * sums.score_cross.sum() + mean**2 * squared)
    variance = max(0.0, spread / squared)
    coarse = Moments.of_values(*_losses(grid, score))
    skewness = coarse.third / coarse.variance**1.5 if coarse.variance > 0 else 0.0
    return Moments(mean, variance, skewness * variance**1.5, weight**2 / squared)


def _losses(grid: Grid, score: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean losses of the right and of the wrong rows in each cell of confidence, and their weights,
    twice."""
    kept = grid.weight > 0
    weight, hits, total = grid.weight[kept], grid.hits[kept], getattr(grid, score)[kept]
    confidence = np.clip(grid.confidence[kept] / weight, 1e-300, 1.0)
    right = -np.log(confidence) if score == "log" else 2 * (1 - confidence) ** 2
    right = np.minimum(right, np.where(hits > 0, total / np.where(hits > 0, hits, 1), 0.0))
    misses = (weight - hits) * (
        1 - grid.infinite[kept] / np.maximum(1, grid.rows[kept] - grid.hit_rows[kept])
    )
    wrong = np.where(misses > 0, (total - hits * right) / np.where(misses > 0, misses, 1), 0.0)
    weights = np.concatenate([hits, misses])
    return np.concatenate([right, wrong]), weights, weights


@dataclass(frozen=True)
class Confidences:
    """The most probable class on a coarse grid: share of the weight, mean confidence and accuracy
    of each cell; rows."""

    share: np.ndarray
    place: np.ndarray
    rate: np.ndarray
    n: int

    @classmethod
    def of(cls, top: EventSums) -> Confidences:
        grid = FineGrid.of_event(top).coarse(SMOOTH_CELLS)
        weight = np.where(grid.weight > 0, grid.weight, 1)
        middle = (np.arange(len(weight)) + 0.5) / len(weight)
        place = np.where(grid.weight > 0, grid.outputs / weight, middle)
        n = grid.weight.sum() ** 2 / grid.weight_squared.sum()
        return cls(
            grid.weight / grid.weight.sum(),
            place,
            np.clip(grid.targets / weight, 0, 1),
            max(1, round(n)),
        )

    def smooth_ece(self) -> float:
        return float(smooth_error(self.share * (self.rate - self.place), precision=1e-5)[0])

    def pooled(self, other: Confidences) -> Confidences:
        """Of the rows of both."""
        n = self.n + other.n
        mine, theirs = self.share * self.n / n, other.share * other.n / n
        share = mine + theirs
        whole = np.where(share > 0, share, 1)
        place = np.where(share > 0, (mine * self.place + theirs * other.place) / whole, self.place)
        return Confidences(
            share, place, np.clip((mine * self.rate + theirs * other.rate) / whole, 0, 1), n
        )

    def trend(self) -> Confidences:
        """The same with the accuracy that a kernel of width TREND sees: its miscalibration, without
        most of its chance."""
        from scipy.fft import dct, idct

        def smooth(values: np.ndarray) -> np.ndarray:
            damping = np.exp(-((np.pi * np.arange(len(values)) * TREND) ** 2) / 2)
            return np.asarray(idct(dct(values, norm="ortho") * damping, norm="ortho"))

        weight = smooth(self.share)
        gap = smooth(self.share * (self.rate - self.place)) / np.maximum(weight, 1e-12)
        return Confidences(self.share, self.place, np.clip(self.place + gap, 0, 1), self.n)

    def drawn(self, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
        """SmoothECE of samples of n rows."""
        some = np.flatnonzero(self.share)
        rows = draw_counts(n, self.share[some] / self.share.sum(), draws, rng)
        residual = np.zeros((draws, len(self.share)))
        residual[:, some] = (rng.binomial(rows, self.rate[some]) - rows * self.place[some]) / n
        return np.asarray(smooth_error(residual, precision=1e-5)[0])


@dataclass(frozen=True)
class SmoothNull:
    """What SmoothECE of recent rows minus that of a reference is by chance, if both are samples of
    one world: mean, spread and skewness; and the spread of the reference's own."""

    mean: float
    spread: float
    skewness: float
    reference_spread: float

    @classmethod
    def of(cls, world: Confidences, recent: int, reference: int, seed: int = 0) -> SmoothNull:
        """By drawing so many recent rows and so many of the reference from a world, smoothed (a
        parametric bootstrap)."""
        rng, smooth = np.random.default_rng(seed), world.trend()
        against = smooth.drawn(reference, NULL_DRAWS, rng)
        draws = smooth.drawn(recent, NULL_DRAWS, rng) - against
        spread = float(draws.std(ddof=1))
        skewness = float(((draws - draws.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0
        return cls(float(draws.mean()), spread, skewness, float(against.std(ddof=1)))

    def p_value(self, difference: float, ignored: float) -> float:
        beyond = _beyond(difference - self.mean, ignored)
        return (
            1.0
            if beyond == 0 or not self.spread > 0
            else float(chance(beyond / self.spread, self.skewness))
        )


@dataclass(frozen=True)
class Reference:
    """What recent rows are held against. What chance makes of SmoothECE is found once for each
    number of rows."""

    evidence: Evidence
    _nulls: dict[int, SmoothNull] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def confidences(self) -> Confidences:
        return Confidences.of(self.evidence.top)

    def null(self, n: int) -> SmoothNull:
        if n not in self._nulls:
            self._nulls.clear()  # windows are of one size, or of ever new ones
            self._nulls[n] = SmoothNull.of(self.confidences, n, self.confidences.n)
        return self._nulls[n]

    @property
    def measures(self) -> tuple[str, ...]:
        """What is compared."""
        plan = self.evidence.summary.plan
        found = [
            "log_score",
            "brier_score",
            "accuracy",
            "confidence",
            "overconfidence",
            "smooth_ece",
            "infinite_rows",
        ]
        found += [] if plan.kind == "pairs" else ["priors"]
        return tuple(found + (["bad_rows"] if plan.on_bad_rows == "drop" else []))


def changes(
    reference: Reference, recent: Evidence, ignored: Mapping[str, float] | None = None
) -> tuple[Change, ...]:
    """Every measure of recent rows against the reference.

    ignored : by measure, differences up to which nothing counts as changed.
    """
    none = dict(ignored or {})
    now, then = recent.summary, reference.evidence.summary
    found = []
    for measure in reference.measures:
        skip = none.get(measure, 0.0)
        if measure == "smooth_ece":
            found.append(smooth_change(reference, recent, skip))
        elif measure == "priors":
            found.append(priors_change(now, then, skip))
        elif measure == "bad_rows":
            found.append(bad_rows_change(now, then, skip))
        else:
            compare = share_change if measure in ("accuracy", "infinite_rows") else mean_change
            a, b = _moments(measure, recent), _moments(measure, reference.evidence)
            found.append(
                compare(measure, a, b, skip) if a.n > 0 and b.n > 0 else _unknown(measure, a, b)
            )
    return tuple(found)


def _unknown(measure: str, recent: Moments, reference: Moments) -> Change:
    return Change(measure, reference.mean, recent.mean, math.nan, math.nan, math.nan, 1.0)


def _moments(measure: str, evidence: Evidence) -> Moments:
    summary, top = evidence.summary, evidence.top
    if measure in ("log_score", "brier_score"):
        sums, name = (summary.log, "log") if measure == "log_score" else (summary.brier, "brier")
        return score_moments(sums, summary.grid, name)
    if measure == "infinite_rows":
        return Moments.of_share(float(summary.log.infinite.sum() / summary.rows), summary.rows)
    kept = top.weight > 0
    weight, squared = top.weight[kept], top.weight_squared[kept]
    confidence, rate = top.outputs[kept] / weight, np.clip(top.hits[kept] / weight, 0, 1)
    if measure == "confidence":
        return Moments.of_values(confidence, weight, squared)
    if measure == "accuracy":
        return Moments.of_share(
            float(weight @ rate / weight.sum()), float(weight.sum() ** 2 / squared.sum())
        )
    return Moments.of_values(
        np.concatenate([confidence - 1, confidence]),
        np.concatenate([weight * rate, weight * (1 - rate)]),
        np.concatenate([squared * rate, squared * (1 - rate)]),
    )


def bad_rows_change(recent: Summary, reference: Summary, ignored: float = 0.0) -> Change:
    """The share of rows that break a rule and were dropped."""
    counts = [(s.dropped, s.rows + s.dropped) for s in (recent, reference)]
    now, then = (Moments.of_share(bad / n, n) for bad, n in counts)
    return share_change("bad_rows", now, then, ignored)


def smooth_change(reference: Reference, recent: Evidence, ignored: float = 0.0) -> Change:
    """SmoothECE of the most probable class; its interval from resampled rows on both sides.

    By chance a reference may look better than its world. So what seems improbable in the world of
    the reference is asked again in that of the reference and the recent rows together, as the tests
    of means do.
    """
    now, then = Confidences.of(recent.top), reference.confidences
    null = reference.null(now.n)
    value, before = now.smooth_ece(), then.smooth_ece()
    p = null.p_value(value - before, ignored)
    if p < ASKED_AGAIN:
        p = max(p, SmoothNull.of(now.pooled(then), now.n, then.n).p_value(value - before, ignored))
    spread = float(now.drawn(now.n, SPREAD_DRAWS, np.random.default_rng(0)).std(ddof=1))
    half, excess = Z95 * math.hypot(spread, null.reference_spread), value - before - null.mean
    return Change("smooth_ece", before, value, excess, excess - half, excess + half, p)


def priors_change(recent: Summary, reference: Summary, ignored: float = 0.0) -> Change:
    """The total variation between class frequencies, and that which chance gives. Each class is
    tested by itself, at a K-th of the level (two classes are one). `ignored` is a change of the
    frequency of one class."""
    now, then = recent.priors, reference.priors
    n, m = (
        float(s.log.weight.sum() ** 2 / s.log.weight_squared.sum()) for s in (recent, reference)
    )
    tests = mean_p_value(Moments.of_share(now, n), Moments.of_share(then, m), ignored + 0.5 / n)
    least = int(np.argmin(tests))
    p = min(1.0, float(tests[least]) * (1 if len(tests) == 2 else len(tests)))
    both = (n * now + m * then) / (n + m)
    by_chance = float(np.sqrt(2 / np.pi * both * (1 - both) * (1 / n + 1 / m)).sum() / 2)
    value = float(np.abs(now - then).sum() / 2)
    rng, draws = np.random.default_rng(0), max(100, min(1000, MANY_DRAWN // len(now)))
    a = draw_counts(round(n), now / now.sum(), draws, rng) / round(n)
    b = draw_counts(round(m), then / then.sum(), draws, rng) / round(m)
    half = Z95 * float((np.abs(a - b).sum(axis=1) / 2).std(ddof=1))
    excess = value - by_chance
    detail = f"class {recent.plan.classes[least]!r}: {then[least]:.1%} to {now[least]:.1%}"
    return Change("priors", by_chance, value, excess, excess - half, excess + half, p, detail)
