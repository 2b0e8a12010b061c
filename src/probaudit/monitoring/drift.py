"""How recent rows differ from a reference in scores, calibration, confidence and class frequencies.
Pure functions of evidence.

Every measure has a 95% interval for its change, and a p-value for the hypothesis that both samples
come from one population.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import draw_counts
from ..calibration.smooth import smooth_error
from ..scoring.intervals import Z95, wilson
from ..states import EventSums, Evidence, Summary
from ..text import percent
from .moments import Moments, beyond, mean_p_value, measure_moments, two_sided_p

SMOOTH_CELLS = 420  # cells of confidence on which SmoothECE is resampled
# Width of the kernel that smooths the calibration curve of a population: miscalibration is kept,
# most of the sampling noise is not.
TREND = 0.05
NULL_DRAWS = 1000
SPREAD_DRAWS = 100
RETESTED = 0.01  # p-values of SmoothECE below this are computed again from the pooled rows
MOST_DRAWN = 2_000_000  # numbers drawn for the interval of class frequencies


@dataclass(frozen=True)
class Change:
    """A measure of recent rows against that of the reference.

    difference : recent - reference. Sampling noise makes `smooth_ece` and `priors` positive; their
        difference is what exceeds its expected value.
    low, high : the 95% interval of the difference, for a single check.
    p_value : the probability of a difference at least this large, in either direction, if nothing
        has changed.
    detail : for `priors`, the class with the strongest evidence of a change.
    """

    measure: str
    reference: float
    recent: float
    difference: float
    low: float
    high: float
    p_value: float
    detail: str = ""


def mean_change(measure: str, recent: Moments, reference: Moments, ignored: float = 0.0) -> Change:
    """A change of means, with Welch's interval."""
    difference = recent.mean - reference.mean
    half = Z95 * math.sqrt(recent.variance / recent.n + reference.variance / reference.n)
    p = float(mean_p_value(recent, reference, ignored))
    return Change(
        measure=measure,
        reference=reference.mean,
        recent=recent.mean,
        difference=difference,
        low=difference - half,
        high=difference + half,
        p_value=p,
    )


def share_change(measure: str, recent: Moments, reference: Moments, ignored: float = 0.0) -> Change:
    """A change of proportions, with the interval of Newcombe (1998, method 10), which combines two
    Wilson intervals. The test has Yates's continuity correction."""
    (low, high), (from_low, from_high) = (
        wilson(recent.mean, recent.n),
        wilson(reference.mean, reference.n),
    )
    difference = recent.mean - reference.mean
    down = math.hypot(recent.mean - low, from_high - reference.mean)
    up = math.hypot(high - recent.mean, reference.mean - from_low)
    p = float(mean_p_value(recent, reference, ignored + 0.5 / recent.n))
    return Change(
        measure=measure,
        reference=reference.mean,
        recent=recent.mean,
        difference=difference,
        low=difference - down,
        high=difference + up,
        p_value=p,
    )


@dataclass(frozen=True)
class Confidences:
    """Confidence in the most probable class, on a coarse grid.

    share, place, rate : share of the weight, mean confidence and accuracy of each cell.
    n : the effective number of rows.
    """

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
        """Of the rows of both samples."""
        n = self.n + other.n
        mine, theirs = self.share * self.n / n, other.share * other.n / n
        share = mine + theirs
        whole = np.where(share > 0, share, 1)
        place = np.where(share > 0, (mine * self.place + theirs * other.place) / whole, self.place)
        return Confidences(
            share, place, np.clip((mine * self.rate + theirs * other.rate) / whole, 0, 1), n
        )

    def trend(self) -> Confidences:
        """The same, with a calibration curve smoothed by a Gaussian kernel of width TREND."""
        from scipy.fft import dct, idct

        def smooth(values: np.ndarray) -> np.ndarray:
            damping = np.exp(-((np.pi * np.arange(len(values)) * TREND) ** 2) / 2)
            return np.asarray(idct(dct(values, norm="ortho") * damping, norm="ortho"))

        weight = smooth(self.share)
        gap = smooth(self.share * (self.rate - self.place)) / np.maximum(weight, 1e-12)
        return Confidences(self.share, self.place, np.clip(self.place + gap, 0, 1), self.n)

    def drawn(self, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
        """SmoothECE of `draws` samples of n rows."""
        some = np.flatnonzero(self.share)
        rows = draw_counts(n, self.share[some] / self.share.sum(), draws, rng)
        residual = np.zeros((draws, len(self.share)))
        residual[:, some] = (rng.binomial(rows, self.rate[some]) - rows * self.place[some]) / n
        return np.asarray(smooth_error(residual, precision=1e-5)[0])


@dataclass(frozen=True)
class SmoothNull:
    """The null distribution of the difference between the SmoothECE of recent rows and of a
    reference, if both are samples of one population: mean, standard deviation and skewness; and the
    standard deviation of the SmoothECE of the reference."""

    mean: float
    spread: float
    skewness: float
    reference_spread: float

    @classmethod
    def of(cls, population: Confidences, recent: int, reference: int, seed: int = 0) -> SmoothNull:
        """By a parametric bootstrap: both samples, of the given numbers of rows, are drawn from the
        smoothed population."""
        rng, smooth = np.random.default_rng(seed), population.trend()
        against = smooth.drawn(reference, NULL_DRAWS, rng)
        draws = smooth.drawn(recent, NULL_DRAWS, rng) - against
        spread = float(draws.std(ddof=1))
        skewness = float(((draws - draws.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0
        return cls(float(draws.mean()), spread, skewness, float(against.std(ddof=1)))

    def p_value(self, difference: float, ignored: float) -> float:
        excess = beyond(difference - self.mean, ignored)
        if excess == 0 or not self.spread > 0:
            return 1.0
        return float(two_sided_p(excess / self.spread, self.skewness))


@dataclass(frozen=True)
class Reference:
    """The evidence that recent rows are compared with. The null distribution of SmoothECE is
    computed once for each number of recent rows."""

    evidence: Evidence
    _nulls: dict[int, SmoothNull] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def confidences(self) -> Confidences:
        return Confidences.of(self.evidence.top)

    def null(self, n: int) -> SmoothNull:
        if n not in self._nulls:
            self._nulls.clear()  # windows have the same size each time, or a new one each time
            self._nulls[n] = SmoothNull.of(self.confidences, n, self.confidences.n)
        return self._nulls[n]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures that are compared."""
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

    ignored : by measure, the largest difference that does not count as a change.
    """
    ignored = ignored or {}
    now, then = recent.summary, reference.evidence.summary
    found = []
    for measure in reference.measures:
        skip = ignored.get(measure, 0.0)
        if measure == "smooth_ece":
            found.append(smooth_change(reference, recent, skip))
        elif measure == "priors":
            found.append(priors_change(now, then, skip))
        elif measure == "bad_rows":
            found.append(bad_rows_change(now, then, skip))
        else:
            compare = share_change if measure in ("accuracy", "infinite_rows") else mean_change
            a, b = measure_moments(measure, recent), measure_moments(measure, reference.evidence)
            found.append(
                compare(measure, a, b, skip) if a.n > 0 and b.n > 0 else _unknown(measure, a, b)
            )
    return tuple(found)


def _unknown(measure: str, recent: Moments, reference: Moments) -> Change:
    """The change of a measure that has no rows to compare."""
    return Change(measure, reference.mean, recent.mean, math.nan, math.nan, math.nan, 1.0)


def bad_rows_change(recent: Summary, reference: Summary, ignored: float = 0.0) -> Change:
    """The change of the share of invalid rows, which were dropped."""
    counts = [(s.dropped, s.rows + s.dropped) for s in (recent, reference)]
    now, then = (Moments.of_share(bad / n, n) for bad, n in counts)
    return share_change("bad_rows", now, then, ignored)


def smooth_change(reference: Reference, recent: Evidence, ignored: float = 0.0) -> Change:
    """The change of SmoothECE of the most probable class, with a bootstrap interval.

    The SmoothECE of a reference may by chance be lower than that of its population. A small p-value
    is therefore computed again for the population of the pooled rows, as in the tests of means.
    """
    now, then = Confidences.of(recent.top), reference.confidences
    null = reference.null(now.n)
    value, before = now.smooth_ece(), then.smooth_ece()
    p = null.p_value(value - before, ignored)
    if p < RETESTED:
        p = max(p, SmoothNull.of(now.pooled(then), now.n, then.n).p_value(value - before, ignored))
    spread = float(now.drawn(now.n, SPREAD_DRAWS, np.random.default_rng(0)).std(ddof=1))
    half, excess = Z95 * math.hypot(spread, null.reference_spread), value - before - null.mean
    return Change(
        measure="smooth_ece",
        reference=before,
        recent=value,
        difference=excess,
        low=excess - half,
        high=excess + half,
        p_value=p,
    )


def priors_change(recent: Summary, reference: Summary, ignored: float = 0.0) -> Change:
    """The total variation distance between class frequencies; `reference` is its expected value if
    nothing has changed. Each class is tested, with Bonferroni's correction for K tests (two classes
    are one test). `ignored` is a change of the frequency of one class."""
    now, then = recent.priors, reference.priors
    n, m = (
        float(s.log.weight.sum() ** 2 / s.log.weight_squared.sum()) for s in (recent, reference)
    )
    tests = mean_p_value(Moments.of_share(now, n), Moments.of_share(then, m), ignored + 0.5 / n)
    least = int(np.argmin(tests))
    p = min(1.0, float(tests[least]) * (1 if len(tests) == 2 else len(tests)))
    both = (n * now + m * then) / (n + m)
    expected = float(np.sqrt(2 / np.pi * both * (1 - both) * (1 / n + 1 / m)).sum() / 2)
    value = float(np.abs(now - then).sum() / 2)
    rng, draws = np.random.default_rng(0), max(100, min(1000, MOST_DRAWN // len(now)))
    a = draw_counts(round(n), now / now.sum(), draws, rng) / round(n)
    b = draw_counts(round(m), then / then.sum(), draws, rng) / round(m)
    half = Z95 * float((np.abs(a - b).sum(axis=1) / 2).std(ddof=1))
    excess = value - expected
    moved = f"{percent(then[least])} to {percent(now[least])}"
    return Change(
        measure="priors",
        reference=expected,
        recent=value,
        difference=excess,
        low=excess - half,
        high=excess + half,
        p_value=p,
        detail=f"class {recent.plan.classes[least]!r}: {moved}",
    )
