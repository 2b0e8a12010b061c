"""What other fields ask of the probabilities of a single event. Arrays: outputs p, labels y in {0,
1}, weights w."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..choices.scores import Score
from ..errors import InputError


@dataclass(frozen=True)
class Test:
    """A test statistic and the probability of one as extreme if the outputs were calibrated."""

    __test__ = False  # not a test case

    statistic: float
    p_value: float
    n: int
    definition: str


@dataclass(frozen=True)
class Line:
    """Cox's logistic recalibration, logit P(y = 1) = intercept + slope logit p, each with its
    standard error.

    A calibrated model has slope 1 and intercept 0; a slope below 1 is overconfidence. `offset` is
    the intercept when the slope is held at 1: calibration in the large.
    """

    slope: float
    intercept: float
    slope_error: float
    intercept_error: float
    offset: float
    offset_error: float
    converged: bool
    n: int


@dataclass(frozen=True)
class Decomposition:
    """Mean score = miscalibration - discrimination + uncertainty, by isotonic regression (CORP)."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    n: int
    definition: str


@dataclass(frozen=True)
class CumulativeDifferences:
    """The walk of sum (y - p) / n over rows in order of p: its largest distance from 0, and its
    range."""

    kolmogorov_smirnov: float
    kuiper: float
    p: np.ndarray
    walk: np.ndarray
    n: int


def spiegelhalter(p: np.ndarray, y: np.ndarray) -> Test:
    """Spiegelhalter's Z (1986): the Brier score against its expectation if p were true."""
    variance = float(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    excess = float(((y - p) * (1 - 2 * p)).sum())
    if variance <= 0:
        raise InputError("y_proba", "Spiegelhalter's test needs outputs other than 0, 1/2 and 1")
    z = excess / math.sqrt(variance)
    return Test(z, math.erfc(abs(z) / math.sqrt(2)), len(p), "Spiegelhalter's Z, two-sided")


# events, and non-events, of a group whose squared deviation counts as chi-squared
FEWEST_EXPECTED = 5
RARE_RESAMPLES = 9_999
RARE_COUNTS = 64  # counts of fewer than five expected events hardly ever reach this


def hosmer_lemeshow(p: np.ndarray, y: np.ndarray, cell: np.ndarray, *, seed: int = 0) -> Test:
    """Sum over groups of (observed - expected)^2 / (expected (1 - expected / n)), chi-squared with
    as many degrees of freedom as groups: the outputs were not fitted to these rows.

    In a group with fewer than five expected events, or non-events, the deviation is far from
    normal: confident outputs of a calibrated model (log-odds of standard deviation 5, n = 1000)
    would be rejected in 7.5% of tests at level 1%. The counts of such groups are resampled from
    their exact distribution (Hong 2013), and the other groups are chi-squared given these.
    """
    from scipy.special import chdtrc

    n, expected, observed = (np.bincount(cell, v) for v in (np.ones(len(p)), p, y))
    variance = expected * (1 - expected / n)
    impossible = (variance <= 0) & (observed != expected)
    terms = np.where(
        variance > 0, (observed - expected) ** 2 / np.where(variance > 0, variance, 1), 0.0
    )
    statistic = math.inf if impossible.any() else float(terms.sum())
    groups, words = len(n), f"Hosmer-Lemeshow, {len(n)} groups"
    rare = np.flatnonzero(np.minimum(expected, n - expected) < FEWEST_EXPECTED)
    if not len(rare) or math.isinf(statistic):
        return Test(statistic, float(chdtrc(groups, statistic)), len(p), words)
    rng, drawn = np.random.default_rng(seed), np.zeros(RARE_RESAMPLES)
    for group in rare[variance[rare] > 0].tolist():
        outputs = p[cell == group]
        outputs = outputs if 2 * expected[group] <= n[group] else 1 - outputs
        chances = _rare_counts(outputs)
        counts = rng.choice(RARE_COUNTS, RARE_RESAMPLES, p=chances / chances.sum())
        drawn += (counts - outputs.sum()) ** 2 / variance[group]
    left, rest = groups - len(rare), statistic * (1 - 1e-12) - drawn
    tails = chdtrc(left, np.maximum(rest, 0.0)) if left else (rest <= 0) * 1.0
    words += f", {len(rare)} with fewer than {FEWEST_EXPECTED} expected events resampled"
    return Test(statistic, float((1 + tails.sum()) / (1 + RARE_RESAMPLES)), len(p), words)


def _rare_counts(p: np.ndarray) -> np.ndarray:
    """The probabilities of 0, 1, ... events among independent rows with few of them expected, from
    the characteristic function.

    >>> _rare_counts(np.array([0.5, 0.5]))[:3].round(6)
    array([0.25, 0.5 , 0.25])
    """
    turn = np.exp(-2j * np.pi * np.arange(RARE_COUNTS // 2 + 1) / RARE_COUNTS) - 1
    product = np.ones(len(turn), complex)
    for first in range(0, len(p), 2**14):
        product *= np.prod(1 + p[first : first + 2**14, None] * turn, axis=0)
    return np.maximum(np.fft.irfft(product, RARE_COUNTS), 0.0)


def cumulative_differences(
    p: np.ndarray, y: np.ndarray, w: np.ndarray, order: np.ndarray
) -> CumulativeDifferences:
    """Equal outputs are one step of the walk, so that the order of ties does not matter."""
    rising = p[order]
    new = np.r_[True, rising[1:] != rising[:-1]]
    walk = np.cumsum(np.bincount(np.cumsum(new) - 1, (w * (y - p))[order]) / w.sum())
    both = np.r_[0.0, walk]
    return CumulativeDifferences(
        float(np.abs(walk).max()), float(both.max() - both.min()), rising[new], walk, len(p)
    )


def calibration_line(p: np.ndarray, y: np.ndarray, w: np.ndarray) -> Line:
    """Newton's method for two coefficients, and for one."""
    if not ((p > 0) & (p < 1)).all():
        raise InputError(
            "y_proba",
            "the logistic line needs outputs inside (0, 1)",
            float(p[(p <= 0) | (p >= 1)][0]),
        )
    if y.min() == y.max():
        raise InputError("y_true", "the logistic line needs both outcomes", int(y[0]))
    z = np.log(p) - np.log1p(-p)
    features = np.stack([np.ones_like(z), z])
    with ThreadPoolExecutor(2) as pool:  # their loops do not hold the interpreter's lock
        both = pool.map(partial(_logistic, features, y, w), (2, 1))
    (line, covariance, converged), (offset, variance, settled) = both
    errors = np.sqrt(np.diag(covariance))
    return Line(
        slope=float(line[1]),
        intercept=float(line[0]),
        slope_error=float(errors[1]),
        intercept_error=float(errors[0]),
        offset=float(offset[0]),
        offset_error=math.sqrt(float(variance[0, 0])),
        converged=converged and settled,
        n=len(p),
    )


def _logistic(
    features: np.ndarray, y: np.ndarray, w: np.ndarray, free: int
) -> tuple[np.ndarray, np.ndarray, bool]:
    """(intercept, slope) of a logistic regression, the first so many of them free and the rest held
    at (0, 1); the covariance of the free ones, and whether Newton's steps came to rest.

    The loss is convex; a step that would raise it is halved. Outcomes that the outputs separate
    have no finite solution.
    """
    from ..kernels.logistic import logistic_sums

    def sums(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        loss, gradient, hessian = logistic_sums(features, y, w, beta)
        return loss, gradient[:free], hessian[:free, :free]

    start = np.array([0.0, 1.0])
    beta, (loss, gradient, hessian), converged = start, sums(start), False
    for _ in range(100):
        step = np.zeros(2)
        step[:free] = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        trial = sums(beta + step)
        while np.abs(step).max() > 1e-10 and trial[0] > loss + 1e-13 * abs(loss):
            step = step / 2
            trial = sums(beta + step)
        beta, (loss, gradient, hessian) = beta + step, trial
        converged = bool(np.abs(step).max() <= 1e-10)
        if converged:
            break
    return beta, np.linalg.pinv(hessian), converged


def corp(p: np.ndarray, y: np.ndarray, w: np.ndarray, score: Score) -> Decomposition:
    """The decomposition of Dimitriadis, Gneiting & Jordan (2021), with scores of the event and its
    complement."""
    from sklearn.isotonic import isotonic_regression

    place = np.unique(p, return_inverse=True)[1].reshape(-1)
    weight = np.bincount(place, w)
    fitted = isotonic_regression(np.bincount(place, w * y) / weight, sample_weight=weight)[place]

    def mean(q: np.ndarray) -> float:
        return float((w * score.score(np.column_stack([1 - q, q]), y)).sum() / w.sum())

    raw, best, naive = (
        mean(p),
        mean(np.clip(fitted, 0, 1)),
        mean(np.full(len(p), (w * y).sum() / w.sum())),
    )
    words = f"CORP, {score.name} score"
    return Decomposition(raw, raw - best, naive - best, naive, len(p), words)


def sweep_bins(y: np.ndarray, order: np.ndarray) -> int:
    """The largest number of equal-mass bins up to which observed frequencies rise from bin to bin
    (Roelofs et al. 2022)."""
    hits = np.r_[0, np.cumsum(y[order])]
    bins = 1
    for b in range(2, len(y) + 1):
        # as EqualMass cuts
        edges = np.arange(b + 1) * (len(y) // b) + np.minimum(np.arange(b + 1), len(y) % b)
        rates = np.diff(hits[edges]) / np.diff(edges)
        if (np.diff(rates) < 0).any():
            break
        bins = b
    return bins
