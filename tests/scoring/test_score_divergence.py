"""Forecasts against reference posteriors: closed forms, coverage, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy

import probaudit as pb

RNG = np.random.default_rng(0)
S, Q = RNG.dirichlet(np.ones(4), 300), RNG.dirichlet(np.ones(4), 300)
W = RNG.uniform(0.1, 2, 300)


@pytest.mark.parametrize("weights", [None, W])
def test_closed_forms(weights):
    """Kullback-Leibler, squared distance, and the regret of decisions."""
    found = {
        name: pb.score_divergence(S, Q, score=name, sample_weight=weights)
        for name in ("log", "brier")
    }
    assert float(found["log"]) == pytest.approx(
        np.average(entropy(S, Q, axis=1), weights=weights), rel=1e-12
    )
    assert float(found["brier"]) == pytest.approx(
        np.average(((S - Q) ** 2).sum(axis=1), weights=weights), rel=1e-12
    )
    costs = np.array([[0, 1, 2, 0.3], [4, 0, 1, 0.3], [1, 3, 0, 0.3], [1, 1, 5, 0.3]])
    regret = (S @ costs)[np.arange(300), (Q @ costs).argmin(axis=1)] - (S @ costs).min(axis=1)
    found = pb.score_divergence(S, Q, score=pb.Cost(costs), sample_weight=weights)
    assert float(found) == pytest.approx(np.average(regret, weights=weights), rel=1e-12)


def test_the_expected_score_is_divergence_and_entropy():
    """Ferrer & Ramos 2025, Eq. 25; and the mean score of labels from the reference approaches
    it."""
    expected = (S * -np.log(Q)).sum(axis=1).mean()
    assert float(pb.score_divergence(S, Q)) + entropy(S, axis=1).mean() == pytest.approx(
        expected, rel=1e-12
    )
    assert pb.score_divergence(S, S).interval == (0, 0)
    assert float(pb.score_divergence(S, S)) == pytest.approx(0, abs=1e-15)


def test_one_column_is_that_of_the_second_of_two_classes():
    s, q = S[:, 0], Q[:, 0]
    assert pb.score_divergence(s[:, None], q[:, None]) == pb.score_divergence(s, q)
    assert pb.population_stability(s[:, None], q[:, None]) == pb.population_stability(s, q)


def test_normalised_by_the_base_rates_of_the_reference():
    prior = S.mean(axis=0)
    found = pb.score_divergence(S, Q, normalize=True)
    assert found.naive == pytest.approx(entropy(prior))
    assert float(found) == pytest.approx(entropy(S, Q, axis=1).mean() / entropy(prior), rel=1e-12)
    # a forecaster of the base rates loses what the reference knows about each row
    base = pb.score_divergence(S, np.tile(prior, (300, 1)), normalize=True)
    assert float(base) == pytest.approx(1 - entropy(S, axis=1).mean() / entropy(prior), rel=1e-12)


def test_two_classes_logits_and_log_probabilities():
    s, q = RNG.random((2, 50))
    both = pb.score_divergence(np.column_stack([1 - s, s]), np.column_stack([1 - q, q]))
    assert float(pb.score_divergence(s, q)) == pytest.approx(float(both), rel=1e-12)
    assert float(pb.score_divergence(S, np.log(Q) + 3, from_logits=True)) == pytest.approx(
        float(pb.score_divergence(S, Q))
    )
    assert float(pb.score_divergence(S, np.log(Q), from_log_probs=True)) == pytest.approx(
        float(pb.score_divergence(S, Q))
    )


def test_what_the_reference_holds_possible_must_not_be_excluded():
    found = pb.score_divergence([[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])
    assert np.isinf(found)
    assert found.infinite_rows == 1
    assert float(pb.score_divergence([[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2)) == 0


def test_the_interval_covers_and_grows_with_clusters():
    rng, covered, wider = np.random.default_rng(1), 0, []
    truth = 2 / 12  # E 2 (s - q)^2 of two independent uniforms is 2 / 6 less the shift below
    for _ in range(200):
        s, q = rng.random((2, 200))
        found = pb.score_divergence(s, q, score="brier")
        covered += found.low <= 2 * truth <= found.high
        groups = pb.score_divergence(
            np.repeat(s, 5), np.repeat(q, 5), score="brier", clusters=np.repeat(np.arange(200), 5)
        )
        wider.append((groups.high - groups.low) / (found.high - found.low))
    assert 182 <= covered <= 198
    assert wider == pytest.approx(np.ones(200), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        ((S[:10], Q), {}, "reference"),
        ((S[:, :3] / S[:, :3].sum(axis=1, keepdims=True), Q), {}, "reference"),
        ((S * 2, Q), {}, "reference"),
        ((S, Q * 2), {}, "y_proba"),
        ((S, Q), {"score": "zero"}, "score"),
        ((S, Q), {"score": pb.RiskWeighted(1, 1)}, "score"),
        ((S, Q), {"score": pb.Cost.zero_one(3)}, "costs"),
        ((np.eye(4)[np.zeros(5, int)], Q[:5]), {"normalize": True}, "normalize"),
        ((S, Q), {"clusters": np.arange(3)}, "clusters"),
    ],
)
def test_refused(arguments, options, name):
    with pytest.raises(pb.InputError, match=name):
        pb.score_divergence(*arguments, **options)


def test_rows_without_weight_do_not_count():
    rng = np.random.default_rng(0)
    s, q = rng.dirichlet(np.ones(3), 40), rng.dirichlet(np.ones(3), 40)
    w = np.where(np.arange(40) % 4 == 0, 0.0, 1.0)
    clusters = np.arange(40) % 7
    found = pb.score_divergence(s, q, sample_weight=w, clusters=clusters)
    kept = w > 0
    alone = pb.score_divergence(s[kept], q[kept], clusters=clusters[kept])
    assert (float(found), *found.interval, found.n) == pytest.approx(
        (float(alone), *alone.interval, 30)
    )
