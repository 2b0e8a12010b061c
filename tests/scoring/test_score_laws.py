"""Laws that every score obeys, and the identities between scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import probaudit as pb
from tests.conftest import softmax
from tests.scoring.score_oracle import SCORES, estimate, row_scores, scores_for

law = settings(max_examples=25, deadline=None, derandomize=True)
every_score = pytest.mark.parametrize("name", SCORES)
seeds = st.integers(0, 2**32 - 1)
close = {"rel": 1e-12, "abs": 1e-12}


@st.composite
def worlds(draw, name, zeros=False):
    """A score with rows, weights and a generator; every class is present; with `zeros`, some
    probabilities are 0."""
    rng = np.random.default_rng(draw(seeds))
    classes = 2 if name.startswith("Beta") else draw(st.integers(2, 4))
    n = draw(st.integers(classes, 12))
    p = rng.dirichlet(np.full(classes, draw(st.sampled_from([0.3, 1.0, 5.0]))), n)
    p = np.maximum(p, 1e-3)
    p /= p.sum(axis=1, keepdims=True)
    if zeros:
        p[rng.random(n) < 0.2] = np.eye(classes)[0]
    y = rng.permutation(np.r_[np.arange(classes), rng.integers(0, classes, n - classes)])
    return SCORES[name](classes), y, p, rng.uniform(0.1, 2, n), rng


def everything(x):
    """All numbers of an estimate, as text, so that NaN equals NaN."""
    return repr((float(x), x.interval, x.n, x.naive, x.per_class, x.infinite_rows))


@every_score
@law
@given(st.data())
def test_the_order_of_rows_does_not_matter(name, data):
    score, y, p, w, rng = data.draw(worlds(name, zeros=True))
    order = rng.permutation(len(y))
    for weights in (None, w):
        found = estimate(
            score, y[order], p[order], sample_weight=None if weights is None else w[order]
        )
        assert everything(found) == everything(estimate(score, y, p, sample_weight=weights))


@every_score
@law
@given(st.data())
def test_weights_are_repeats_and_zero_is_absence(name, data):
    score, y, p, _, rng = data.draw(worlds(name, zeros=True))
    times = rng.integers(0, 4, len(y))
    times[0] += 1
    weighted = estimate(score, y, p, sample_weight=times)
    repeated = estimate(score, np.repeat(y, times), np.repeat(p, times, axis=0))
    kept = estimate(score, y[times > 0], p[times > 0], sample_weight=times[times > 0])
    assert everything(weighted) == everything(kept)
    assert float(weighted) == pytest.approx(float(repeated), **close)
    assert weighted.naive == pytest.approx(repeated.naive, **close)
    assert weighted.per_class == pytest.approx(repeated.per_class, nan_ok=True, **close)


@every_score
@law
@given(st.data(), st.integers(-900, 900), st.floats(1e-300, 1e300))
def test_the_scale_of_weights_does_not_matter(name, data, power, factor):
    score, y, p, w, _ = data.draw(worlds(name))
    expected = estimate(score, y, p, sample_weight=w)
    assert everything(estimate(score, y, p, sample_weight=np.ldexp(w, power))) == everything(
        expected
    )
    pairs = [
        (expected, estimate(score, y, p, sample_weight=w * factor)),
        (estimate(score, y, p), estimate(score, y, p, sample_weight=np.full(len(y), factor))),
    ]
    for before, after in pairs:
        assert float(after) == pytest.approx(float(before), **close)
        # A spread is a difference of sums: where it is zero, its root is only zero to 1e-8 or so.
        assert after.interval == pytest.approx(before.interval, rel=1e-9, abs=1e-6)


def permuted(score, order):
    """The same score for the same classes in another order."""
    match score:
        case pb.Cost():
            return pb.Cost(score.matrix[order])
        case pb.RiskWeighted(a=a, b=b):
            return pb.RiskWeighted(a, b) if order[0] == 0 else pb.RiskWeighted(b, a)
    return score


@every_score
@law
@given(st.data())
def test_names_and_order_of_classes_do_not_matter(name, data):
    score, y, p, w, rng = data.draw(worlds(name))
    names = np.array(["pear", "fig", "apple", "lime"])[: p.shape[1]]
    expected = estimate(score, y, p, sample_weight=w)
    named = estimate(score, names[y], p, sample_weight=w, classes=names)
    assert (float(named), named.interval) == (float(expected), expected.interval)
    assert named.per_class == dict(zip(names.tolist(), expected.per_class.values(), strict=True))
    order = rng.permutation(p.shape[1])
    found = estimate(
        permuted(score, order), names[y], p[:, order], sample_weight=w, classes=names[order]
    )
    assert float(found) == pytest.approx(float(expected), **close)
    assert found.per_class == pytest.approx(named.per_class, **close)


@every_score
@law
@given(st.data(), st.floats(0.1, 30))
def test_logits_and_log_probabilities_stand_for_their_probabilities(name, data, spread):
    score, y, p, w, rng = data.draw(worlds(name))
    z = spread * rng.normal(size=p.shape) + rng.normal(size=(len(p), 1)) * 100
    q = softmax(z)
    expected = row_scores(score, y, q)
    expected = float(np.sum(w * expected) / np.sum(w))
    # These two have a fractional power of 1 - q, which rounding q to a probability blurs.
    near = pytest.approx(
        expected, rel=1e-9, abs=1e-8 if name in ("Beta(.5,1.5)", "Beta(3,.7)") else 1e-12
    )
    assert float(estimate(score, y, z, sample_weight=w, from_logits=True)) == near
    logs = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    assert float(estimate(score, y, logs, sample_weight=w, from_log_probs=True)) == near
    if p.shape[1] == 2:
        assert (
            float(estimate(score, y, z[:, 1] - z[:, 0], sample_weight=w, from_logits=True)) == near
        )


@every_score
@law
@given(st.data())
def test_values_under_priors_normalised_and_per_class(name, data):
    score, y, p, w, rng = data.draw(worlds(name))
    s = row_scores(score, y, p)
    classes = range(p.shape[1])
    for weights, options in ((np.ones(len(y)), {}), (w, {"sample_weight": w})):
        means = np.array([np.average(s[y == c], weights=weights[y == c]) for c in classes])
        frequencies = np.array([weights[y == c].sum() for c in classes]) / weights.sum()
        found = estimate(score, y, p, **options)
        assert list(found.per_class) == list(classes)
        assert list(found.per_class.values()) == pytest.approx(means, **close)
        assert float(found) == pytest.approx(np.average(s, weights=weights), **close)
        same = estimate(score, y, p, priors=frequencies, **options)
        assert (float(same), same.naive) == pytest.approx((float(found), found.naive), **close)
        priors = rng.dirichlet(np.ones(p.shape[1]))
        for P, given_priors in ((frequencies, None), (priors, priors)):
            # Ferrer & Ramos 2025, Eq. 36-37: every row counts P_h / N_h.
            expected = (P[y] * weights / np.bincount(y, weights)[y] * s).sum()
            naive = P @ row_scores(score, classes, np.tile(P, (p.shape[1], 1)))
            plain = estimate(score, y, p, priors=given_priors, **options)
            ratio = estimate(score, y, p, priors=given_priors, normalize=True, **options)
            assert (float(plain), plain.naive) == pytest.approx((expected, naive), **close)
            assert float(ratio) == pytest.approx(expected / naive, **close)


def test_the_naive_scores_of_paper_2():
    """Sections 2.3.1 to 2.3.3: min_d sum_i c_id P_i, the entropy, and sum P (1 - P) (there divided
    by K)."""
    y, p = [0, 0, 0, 1, 2], np.full((5, 3), 1 / 3)
    P, costs = np.array([0.6, 0.2, 0.2]), np.array([[0, 1, 3, 0.5], [1, 0, 1, 0.5], [2, 4, 0, 0.5]])
    assert pb.log_score(y, p).naive == pytest.approx(-(P * np.log(P)).sum(), **close)
    assert pb.brier_score(y, p).naive == pytest.approx((P * (1 - P)).sum(), **close)
    assert pb.bayes_risk(y, p, costs).naive == pytest.approx((P @ costs).min(), **close)
    assert pb.bayes_risk(y, np.tile(P, (5, 1)), costs, normalize=True) == pytest.approx(1, **close)


@every_score
@law
@given(st.data())
def test_a_score_is_proper(name, data):
    """The expected score under p is least at q = p; the divergence is what is lost at any other
    q."""
    score, _, forecasts, _, rng = data.draw(worlds(name))
    p, q = rng.dirichlet(np.ones(forecasts.shape[1])), forecasts
    expected = np.array(
        [sum(p[c] * row_scores(score, [c], [f])[0] for c in range(len(p))) for f in (p, *q)]
    )
    assert score.entropy(p) == pytest.approx(expected[0], rel=1e-10)
    assert (expected[1:] >= expected[0] - 1e-12).all()
    assert score.divergence(p, q) == pytest.approx(expected[1:] - expected[0], rel=1e-9, abs=1e-12)
    assert (score.divergence(p, q) >= -1e-14).all()
    assert score.divergence(p, p) == pytest.approx(0, abs=1e-14)
    # not strictly proper: many forecasts lead to the same decision
    if not isinstance(score, pb.Cost):
        far = np.abs(q - p).max(axis=1) > 1e-3
        assert (score.divergence(p, q)[far] > 0).all()
    naive = score.naive(p)
    assert score.entropy(p) == pytest.approx(
        sum(p[c] * score.score([naive], [c])[0] for c in range(len(p))), rel=1e-12
    )


@every_score
@law
@given(st.data())
def test_expected_divergence_splits_at_the_mean(name, data):
    """Chidambaram & Ge 2024, Lemma 4.1: E d(Z, q) = E d(Z, E Z) + d(E Z, q) for Z around a mean."""
    score, _, z, w, rng = data.draw(worlds(name))
    w, q = w / w.sum(), rng.dirichlet(np.ones(z.shape[1]))
    mean = w @ z
    found = w @ score.divergence(z, mean) + score.divergence(mean, q)
    assert w @ score.divergence(z, q) == pytest.approx(found, rel=1e-9, abs=1e-12)


def test_scores_of_what_cannot_happen():
    certain, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert pb.Log().divergence(certain, other) == math.inf
    assert pb.Log().divergence(certain, certain) == pb.Log().entropy(certain) == 0
    assert pb.Brier().divergence(certain, other) == 2


unit = st.floats(0, 1)


@law
@given(unit, unit)
def test_one_dimensional_counterparts(x, y):
    def term(a, b):
        return 0.0 if a == 0 else math.inf if b == 0 else a * (math.log(a) - math.log(b))

    log, brier = pb.Log().one_dimensional(), pb.Brier().one_dimensional()
    assert float(log.divergence(x, y)) == pytest.approx(
        term(x, y) + term(1 - x, 1 - y), rel=1e-9, abs=1e-12
    )
    assert float(brier.divergence(x, y)) == pytest.approx((x - y) ** 2, **close)
    costs = pb.Cost([[0, 1], [3, 0]])
    risk = costs.one_dimensional()
    assert float(risk.phi(np.float64(x))) == pytest.approx(-min(1 - x, 3 * x), **close)
    assert float(risk.divergence(x, y)) == pytest.approx(
        float(costs.divergence([1 - x, x], [1 - y, y])), **close
    )


@pytest.mark.parametrize("name", ["log", "brier"])
@law
@given(st.data())
def test_the_full_divergence_is_no_less_than_that_of_one_class(name, data):
    """The condition of Chidambaram & Ge 2024, Lemma 4.6, in every coordinate."""
    score, _, x, _, rng = data.draw(worlds(name))
    y, one = rng.permutation(x), score.one_dimensional()
    full = score.divergence(x, y)[:, None]
    assert (full >= one.divergence(x, y) - 1e-12).all()
    slope = (one.phi(y + 1e-6) - one.phi(y - 1e-6)) / 2e-6
    assert one.divergence(x, y) == pytest.approx(
        one.phi(x) - one.phi(y) - slope * (x - y), abs=1e-5
    )


@pytest.mark.parametrize("score", [pb.Cost.zero_one(3), pb.RiskWeighted(2, 3)])
def test_no_counterpart_where_the_bound_fails(score):
    with pytest.raises(pb.InputError, match="must be Log, Brier"):
        score.one_dimensional()


GRID = np.r_[
    1e-300, 1e-100, 1e-20, 1e-12, 1e-6, np.linspace(0.01, 0.99, 50), 1 - 1e-6, 1 - 1e-12, 1
]


@pytest.mark.parametrize(("parameters", "same"), [((1, 1), pb.Log()), ((2, 2), pb.Brier())])
def test_beta_weights_that_give_known_scores(parameters, same):
    """Ferrer & Ramos 2025, Section 2.3.4, at probabilities down to 1e-300."""
    for forecast in (np.column_stack([1 - GRID, GRID]), np.column_stack([GRID, 1 - GRID])):
        found, expected = pb.RiskWeighted(*parameters).by_class(forecast), same.by_class(forecast)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1), (2, 2), (0.5, 0.5), (0.2, 3), (3, 0.2), (1, 2.5), (7, 4), (1.5, 1), (0.05, 0.9)],
)
@pytest.mark.parametrize("q", [0.001, 0.2, 0.5, 0.77, 0.999])
def test_risk_weighted_is_an_integral_over_thresholds(a, b, q):
    """Eq. 10-12 and 34: a miss costs 1 / t where q < t, a false alarm 1 / (1 - t) where q >= t."""
    score = pb.RiskWeighted(a, b)

    def weight(t):
        return (2 * t) ** (a - 1) * (2 * (1 - t)) ** (b - 1)

    assert float(score.weight(q)) == pytest.approx(weight(q), **close)
    # The powers at the ends of the interval go to quad as its `alg` weight: (x - low)^alpha (high -
    # x)^beta.
    miss = quad(
        lambda t: 2 ** (a + b - 2) * t ** (a - 2),
        q,
        1,
        weight="alg",
        wvar=(0, b - 1),
        epsabs=0,
        epsrel=1e-12,
    )[0]
    alarm = quad(
        lambda t: 2 ** (a + b - 2) * (1 - t) ** (b - 2),
        0,
        q,
        weight="alg",
        wvar=(a - 1, 0),
        epsabs=0,
        epsrel=1e-12,
    )[0]
    assert score.by_class(np.array([1 - q, q])) == pytest.approx([alarm, miss], rel=1e-9)
    assert pb.risk_weighted_score([0, 1], [q, q], a=a, b=b) == pytest.approx(
        (alarm + miss) / 2, rel=1e-9
    )


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 2), (2, 5), (1.5, 3)])
def test_the_area_under_the_weighted_risk_curve_is_the_score(a, b):
    rng = np.random.default_rng(3)
    p, w = rng.uniform(0.05, 0.95, 30), rng.exponential(size=30)
    y = (rng.random(30) < p).astype(int)
    score = pb.RiskWeighted(a, b)
    # The curve jumps at every p and is smooth between two, so Gauss-Legendre converges there.
    edges = np.sort(np.r_[1e-9, p, 1 - 1e-9])
    nodes, shares = np.polynomial.legendre.leggauss(30)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    t = (middle[:, None] + half[:, None] * nodes).ravel()
    curve = pb.risk_curve(y, p, thresholds=t, sample_weight=w)
    area = ((half[:, None] * shares).ravel() * curve.risk * score.weight(t)).sum()
    assert area == pytest.approx(float(estimate(score, y, p, sample_weight=w)), rel=1e-6)
    assert curve.n == 30


@law
@given(seeds, st.floats(0.01, 0.99))
def test_the_risk_curve_is_a_bayes_risk_at_every_threshold(seed, t):
    rng = np.random.default_rng(seed)
    y, p, w = rng.integers(0, 2, 10), rng.random(10), rng.exponential(size=10)
    costs = [[0, 1 / (1 - t)], [1 / t, 0]]
    risk = pb.bayes_risk(y, p, costs, sample_weight=w)
    curve = pb.risk_curve(y, p, thresholds=[t], sample_weight=w)
    assert (curve.risk[0], curve.naive[0]) == pytest.approx((float(risk), risk.naive), **close)


@pytest.mark.parametrize("thresholds", [[0.0], [1.0], [0.5, math.nan], [-1], [2]])
def test_thresholds_lie_inside(thresholds):
    with pytest.raises(pb.InputError, match="inside"):
        pb.risk_curve([0, 1], [0.5, 0.5], thresholds=thresholds)


def test_every_score_has_rows_of_its_kind():
    assert scores_for(2) == list(SCORES)
    with pytest.raises(pb.InputError, match="two classes"):
        pb.risk_weighted_score([0, 1, 2], np.full((3, 3), 1 / 3))
    with pytest.raises(pb.InputError, match="two classes"):
        pb.risk_curve([0, 1, 2], np.full((3, 3), 1 / 3))
