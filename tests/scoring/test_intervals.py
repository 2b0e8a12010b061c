"""Standard errors and 95% intervals: against numerical differentiation, a bootstrap, and truths
that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

import probaudit as pb
from probaudit.choices.scores import Brier, Log
from probaudit.engines.memory import summary
from probaudit.scoring.expected_scores import (
    accuracy,
    estimate_score,
    mean_score,
    score_sums,
)
from probaudit.scoring.intervals import Z95, wilson
from probaudit.scoring.row_scores import class_sums
from probaudit.states import ClassSums, Plan
from tests.scoring.score_oracle import SCORES, estimate, row_scores, scores_for

RNG = np.random.default_rng(6)
N = 60
WORLD = {
    2: (RNG.integers(0, 2, N), RNG.dirichlet([1, 1], N)),
    3: (RNG.integers(0, 3, N), RNG.dirichlet([1, 1, 1], N)),
}
WEIGHTS = RNG.uniform(0.2, 3, N)
PRIORS = {2: np.array([0.85, 0.15]), 3: np.array([0.2, 0.1, 0.7])}
WAYS = [(n, w, p) for n in (False, True) for w in (False, True) for p in (False, True)]


def statistic(score, y, s, w, *, normalize, priors):
    """The estimate as a function of the weights of rows, in plain numpy."""
    totals = np.bincount(y, w)
    P = totals / totals.sum() if priors is None else priors
    value = P @ (np.bincount(y, w * s) / totals)
    # The best constant forecast changes with P, its decision under costs does not for a small
    # change.
    return value / (P @ score.by_class(P)) if normalize else value


def standard_error(score, y, p, w, *, normalize, priors):
    """The infinitesimal jackknife, with derivatives by central differences and n / (n - 1) in each
    stratum."""
    s = row_scores(score, y, p)
    variance = 0.0
    strata = (
        [np.arange(len(y))]
        if priors is None
        else [np.flatnonzero(y == c) for c in range(p.shape[1])]
    )
    for rows in strata:
        for i in rows:
            step = 1e-4 * w[i] * (np.arange(len(y)) == i)
            up, down = (
                statistic(score, y, s, v, normalize=normalize, priors=priors)
                for v in (w + step, w - step)
            )
            variance += ((up - down) / 2e-4) ** 2 * len(rows) / (len(rows) - 1)
    return math.sqrt(variance)


def class_sums_of(score, y, p, sample_weight=None):
    """The sums that the library gathers."""
    rows = pb.Predictions(y, p, sample_weight=sample_weight)
    if isinstance(score, pb.RiskWeighted):
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        return class_sums(score.score(p, y), y, weights)
    costs = {"costs": score} if isinstance(score, pb.Cost) else {}
    return score_sums(summary(rows, Plan.of(rows, costs)), score)


def mean_of(score, y, p, *, sample_weight=None, **choices):
    """The mean with its standard error."""
    return mean_score(class_sums_of(score, y, p, sample_weight), score, **choices)


@pytest.mark.parametrize(("normalize", "weighted", "with_priors"), WAYS)
@pytest.mark.parametrize(("classes", "name"), [(k, name) for k in (2, 3) for name in scores_for(k)])
def test_standard_error(classes, name, normalize, weighted, with_priors):
    (y, p), score = WORLD[classes], SCORES[name](classes)
    priors = PRIORS[classes] if with_priors else None
    options = {
        "normalize": normalize,
        "priors": priors,
        "sample_weight": WEIGHTS if weighted else None,
    }
    expected = standard_error(
        score, y, p, WEIGHTS if weighted else np.ones(N), normalize=normalize, priors=priors
    )
    assert mean_of(score, y, p, **options).error == pytest.approx(expected, rel=1e-6)
    found = estimate(score, y, p, **options)
    assert found.low < found < found.high


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", scores_for(3))
def test_with_many_rows_of_each_class_the_interval_is_the_linearised_one(name, normalize):
    """The skewness that separates them vanishes as 1 / sqrt(n): 3% with 30,000 rows under the most
    skewed costs here."""
    (y, p), score = WORLD[3], SCORES[name](3)
    once = class_sums_of(score, y, p)
    many = ClassSums(**{part: value * 50_000 for part, value in vars(once).items()})
    found = mean_score(many, score, normalize=normalize)
    assert (found.high - found.value) / Z95 == pytest.approx(found.error, rel=0.005)
    assert (found.value - found.low) / Z95 == pytest.approx(found.error, rel=0.005)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", ["log", "brier", "odd costs"])
def test_standard_error_against_a_bootstrap(name, normalize):
    rng = np.random.default_rng(8)
    p = rng.dirichlet([1, 1, 1], 1500)
    y = (rng.random(1500)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    score = SCORES[name](3)
    s = row_scores(score, y, p)
    repeats = rng.multinomial(1500, np.full(1500, 1 / 1500), 3000)
    values = [statistic(score, y, s, w, normalize=normalize, priors=None) for w in repeats]
    # 3,000 replicates know a standard deviation to 1.3%.
    assert mean_of(score, y, p, normalize=normalize).error == pytest.approx(
        np.std(values), rel=0.06
    )


def test_intervals_that_say_nothing():
    one = pb.log_score([1], [0.7])
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    infinite = pb.log_score([0, 1, 1], [0.0, 0.0, 0.5])
    assert infinite == math.inf
    assert math.isnan(infinite.low)
    lonely = pb.log_score([0, 1, 1], [0.2, 0.6, 0.7], priors=[0.5, 0.5])
    assert math.isnan(lonely.high)  # a single row of a class says nothing about its variation
    alone = pb.log_score([1, 1], [0.7, 0.8], normalize=True)
    assert alone == math.inf  # the best constant forecast is perfect


def test_a_constant_score_has_an_interval_without_width():
    found = pb.brier_score([0, 1] * 500, np.full(1000, 0.5))
    assert found.interval == pytest.approx((0.5, 0.5), abs=1e-7)


@pytest.mark.parametrize(
    ("name", "scale"),
    [("log", s) for s in (1e-2, 1e-4, 1e-6)] + [("brier", s) for s in (1e-1, 1e-2, 1e-3)],
)
def test_small_scores_keep_their_spread(name, scale):
    """A classifier that is nearly sure and right: the interval is narrow, but not of width zero.

    Squares are summed to 2^-44, which gives a standard deviation its third digit down to about
    1e-6.
    """
    gap = scale * np.random.default_rng(2).exponential(size=200)
    p = np.column_stack([gap, 1 - gap])
    found = estimate(SCORES[name](2), np.ones(200, int), p)
    s = row_scores(SCORES[name](2), np.ones(200, int), p)
    assert float(found) == pytest.approx(s.mean(), rel=1e-6, abs=0)
    error = mean_of(SCORES[name](2), np.ones(200, int), p).error
    assert error == pytest.approx(s.std(ddof=1) / math.sqrt(200), rel=5e-3, abs=0)
    assert found.low < found < found.high


# Newcombe 1998, Statistics in Medicine 17, Table I, method 3 (score), printed to four digits
NEWCOMBE = {
    (81, 263): (0.2553, 0.3662),
    (15, 148): (0.0624, 0.1605),
    (0, 20): (0.0, 0.1611),
    (1, 29): (0.0061, 0.1718),
}


@pytest.mark.parametrize(("hits", "n"), NEWCOMBE)
def test_wilson(hits, n):
    assert wilson(hits / n, n) == pytest.approx(NEWCOMBE[hits, n], abs=5.1e-5)
    low, high = wilson(1 - hits / n, n)
    assert (1 - high, 1 - low) == pytest.approx(NEWCOMBE[hits, n], abs=5.1e-5)
    p = np.r_[np.full(hits, 0.9), np.full(n - hits, 0.1)]
    found = pb.audit(np.ones(n, int), p)["accuracy"]
    assert (float(found), *found.interval) == pytest.approx(
        (hits / n, *wilson(hits / n, n)), rel=1e-12
    )


# the second class's share, the log-odds' deviation, overconfidence
PRIOR, WIDTH, SLOPE = 0.3, 1.5, 1.4
COSTS = pb.Cost([[0, 1, 0.65], [2, 0, 0.65]])
CLASS_WEIGHTS = np.array([0.7, 1.5])


def draw(rng, n):
    """Rows of a world in which the log-odds of a class are normal and the classifier overstates
    them."""
    y = (rng.random(n) < PRIOR).astype(int)
    z = (2 * y - 1) * WIDTH**2 / 2 + WIDTH * rng.normal(size=n)
    return y, expit(SLOPE * z - 0.8), CLASS_WEIGHTS[y] * rng.uniform(0.5, 1.5, n)


def true_means(score):
    """E S(q, c) for rows of each class, integrated over a fine grid of the normal deviate."""
    z = np.linspace(-9, 9, 200_001)
    density = np.exp(-(z**2) / 2)
    means = []
    for c in (0, 1):
        q = expit(SLOPE * ((2 * c - 1) * WIDTH**2 / 2 + WIDTH * z) - 0.8)
        means.append(np.average(score.by_class(np.column_stack([1 - q, q]))[:, c], weights=density))
    return np.array(means)


def truths():
    """The true value of every estimate of `estimates`."""
    P = np.array([1 - PRIOR, PRIOR])
    weighted, other = P * CLASS_WEIGHTS / (P @ CLASS_WEIGHTS), np.array([0.5, 0.5])
    found = {"accuracy": 1 - P @ true_means(pb.Cost.zero_one(2))}
    for score in (pb.Log(), pb.Brier(), COSTS):
        means = true_means(score)
        for way, Q in (("plain", P), ("weighted", weighted), ("priors", other)):
            found[score.name, way] = Q @ means
            found[score.name, way, "normalised"] = Q @ means / (Q @ score.by_class(Q))
    return found


def estimates(y, p, w):
    rows, weighted = pb.Predictions(y, p), pb.Predictions(y, p, sample_weight=w)
    plain, heavy = (summary(r, Plan.of(r, {"costs": COSTS}), threads=1) for r in (rows, weighted))
    found = {"accuracy": accuracy(plain)}
    for score in (pb.Log(), pb.Brier(), COSTS):
        for way, state, priors in (
            ("plain", plain, None),
            ("weighted", heavy, None),
            ("priors", plain, [0.5, 0.5]),
        ):
            found[score.name, way] = estimate_score(state, score, priors=priors)
            found[score.name, way, "normalised"] = estimate_score(
                state, score, normalize=True, priors=priors
            )
    return found


def coverage(replications, n, seed):
    rng, true = np.random.default_rng(seed), truths()
    hits = dict.fromkeys(true, 0)
    for _ in range(replications):
        for name, found in estimates(*draw(rng, n)).items():
            hits[name] += found.low <= true[name] <= found.high
    return {name: count / replications for name, count in hits.items()}


def test_coverage():
    for name, share in coverage(500, 500, seed=10).items():
        assert 0.91 <= share <= 0.98, name


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_coverage_of_larger_samples():
    for name, share in coverage(10_000, 2_000, seed=11).items():
        assert 0.939 <= share <= 0.960, name


@pytest.mark.parametrize(
    ("name", "shape"),
    [("brier", (1, 1)), ("log", (1, 1)), ("brier", (0.3, 30)), ("log", (0.3, 30))],
)
def test_intervals_of_scores_cover(name, shape):
    """Skewed scores with many rows, and calibrated risks of 1%: symmetric limits leave 7% above at
    n = 1000."""
    rng, score = np.random.default_rng(3), {"brier": Brier(), "log": Log()}[name]
    risks = np.random.default_rng(4).beta(*shape, 2_000_000)
    both = np.column_stack([1 - risks, risks])
    truth, low, high = float(score.entropy(both).mean()), 0, 0
    for _ in range(600):
        p = rng.beta(*shape, 1000)
        y = (rng.random(1000) < p).astype(int)
        s = score.score(np.column_stack([1 - p, p]), y)
        rows, total, squares = (np.bincount(y, x, minlength=2) for x in (np.ones(1000), s, s**2))
        sums = ClassSums(rows.astype(int), rows, rows, total, total, squares, np.zeros(2, int))
        found = mean_score(sums, score)
        low, high = low + (truth < found.low), high + (truth > found.high)
    assert low <= 27  # 2.5% of 600 and three standard errors
    assert high <= 27


def test_normalised_risks_of_rare_positives_do_not_seem_overconfident():
    """Calibrated risks of 1%: about ten positives in 1,000 rows, so that the risk of the best
    constant decision is uncertain too. Limits of a normal distribution are above 1 in 11% of
    samples, and 58% of intervals cover the truth."""
    costs = [[0, 1, 0.1], [1, 0, 0.1]]
    risks = np.random.default_rng(4).beta(0.3, 30, 2_000_000)
    truth, hits, above = float(np.minimum(risks, 0.1).mean() / risks.mean()), 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.3, 30, 1000)
        found = pb.bayes_risk((rng.random(1000) < p).astype(int), p, costs, normalize=True)
        hits, above = hits + (found.low <= truth <= found.high), above + (found.low > 1)
    assert hits >= 279  # 93%
    assert above <= 15  # 2.5% of 300 and three standard errors
