"""Measures of a single event: closed forms, other programs' numbers, and behaviour on calibrated
and miscalibrated worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import probaudit as pb


def world(n, seed=0, slope=1.0, shift=0.0):
    """Probabilities p of events whose true log-odds are shift + slope logit p."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, n)
    true = 1 / (1 + np.exp(-(shift + slope * np.log(p / (1 - p)))))
    return (rng.random(n) < true).astype(int), p


def test_spiegelhalter_by_its_formula():
    y, p = world(200)
    z = ((y - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    found = pb.spiegelhalter_test(y, p)
    assert found.statistic == pytest.approx(z)
    assert found.p_value == pytest.approx(2 * norm.sf(abs(z)))


def test_hosmer_lemeshow_by_its_formula():
    y, p = world(500)
    order = np.argsort(p)
    groups = np.array_split(order, 10)
    expected = np.array([p[g].sum() for g in groups])
    observed = np.array([y[g].sum() for g in groups])
    n = np.array([len(g) for g in groups])
    statistic = ((observed - expected) ** 2 / (expected * (1 - expected / n))).sum()
    found = pb.hosmer_lemeshow_test(y, p)
    assert found.statistic == pytest.approx(statistic)
    assert found.p_value == pytest.approx(chi2.sf(statistic, 10))


def test_an_impossible_event_makes_hosmer_lemeshow_infinite():
    found = pb.hosmer_lemeshow_test([1, 0], [0.0, 0.0], groups=1)
    assert (found.statistic, found.p_value) == (np.inf, 0)


@pytest.mark.parametrize("test", [pb.spiegelhalter_test, pb.hosmer_lemeshow_test])
def test_p_values_are_uniform_when_calibrated_and_small_when_not(test):
    values = [test(*world(400, seed)).p_value for seed in range(300)]
    assert kstest(values, "uniform").pvalue > 1e-4
    assert max(test(*world(400, seed, slope=0.3)).p_value for seed in range(20)) < 0.05


def test_cumulative_differences_by_hand():
    found = pb.cumulative_differences([1, 0, 0, 1], [0.2, 0.4, 0.4, 0.9])
    np.testing.assert_allclose(found.walk, [0.2, 0.0, 0.025])
    assert found.kolmogorov_smirnov == pytest.approx(0.2)
    assert found.kuiper == pytest.approx(0.2)
    repeated = pb.cumulative_differences([1, 0, 1], [0.2, 0.4, 0.9], sample_weight=[1, 2, 1])
    np.testing.assert_allclose(repeated.walk, found.walk, atol=1e-12)


def test_the_line_is_that_of_unpenalised_logistic_regression():
    y, p = world(2000, slope=0.6, shift=0.4)
    z = np.log(p / (1 - p))[:, None]
    w = np.random.default_rng(1).random(2000)
    for weights in (None, w):
        peer = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(
            z, y, sample_weight=weights
        )
        found = pb.calibration_line(y, p, sample_weight=weights)
        assert found.converged
        assert (found.slope, found.intercept) == pytest.approx(
            (peer.coef_[0, 0], peer.intercept_[0]), abs=1e-5
        )
    assert found.slope == pytest.approx(0.6, abs=4 * found.slope_error)


def test_the_line_covers_the_truth():
    """95% intervals of slope and offset over 300 calibrated worlds: 285 expected, with a standard
    deviation of 3.8."""
    lines = [pb.calibration_line(*world(400, seed)) for seed in range(300)]
    assert 266 <= sum(abs(line.slope - 1) < 1.96 * line.slope_error for line in lines) <= 300
    assert 266 <= sum(abs(line.offset) < 1.96 * line.offset_error for line in lines) <= 300


def test_the_line_says_when_there_is_none():
    found = pb.calibration_line([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9])
    assert found.slope > 5
    with pytest.raises(pb.InputError, match=r"inside \(0, 1\)"):
        pb.calibration_line([0, 1], [0.0, 1.0])
    with pytest.raises(pb.InputError, match="both outcomes"):
        pb.calibration_line([1, 1], [0.3, 0.5])


@pytest.mark.parametrize("score", ["brier", "log"])
def test_the_decomposition_adds_up(score):
    y, p = world(300, slope=2)
    found = pb.score_decomposition(y, p, score=score)
    whole = pb.brier_score(y, p) if score == "brier" else pb.log_score(y, p)
    assert found.score == pytest.approx(whole)
    assert found.miscalibration - found.discrimination + found.uncertainty == pytest.approx(
        found.score
    )
    assert found.miscalibration > 0
    assert found.discrimination > 0
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(p)
    if score == "brier":
        assert found.score - found.miscalibration == pytest.approx(2 * np.mean((fitted - y) ** 2))


def test_isotonic_outputs_have_no_miscalibration():
    y, p = world(300)
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(p)
    assert pb.score_decomposition(y, fitted).miscalibration == pytest.approx(0, abs=1e-12)


def test_indices_of_a_known_gap():
    """Events always happen one tenth more often than predicted."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 200_000)
    y = rng.random(len(p)) < p + 0.1
    found = pb.calibration_indices(y, p, bandwidth=0.02)
    assert found.ici == pytest.approx(0.1, abs=0.005)
    assert found.e50 == pytest.approx(0.1, abs=0.01)
    assert found.e50 <= found.e90


def test_the_sweep_stops_where_frequencies_fall():
    p = np.linspace(0.05, 0.95, 8)
    found = pb.sweep_calibration_error([0, 0, 0, 1, 0, 1, 1, 1], p)
    assert "ECE-sweep, 5 bins" in found.definition
    assert found == pytest.approx(
        pb.calibration_error(
            [0, 0, 0, 1, 0, 1, 1, 1], p, lens=pb.Binary(), partition=pb.EqualMass(5)
        )
    )


def test_more_classes_need_a_lens():
    y, p = [0, 1, 2], np.full((3, 3), 1 / 3)
    with pytest.raises(pb.InputError, match="must name a class"):
        pb.cumulative_differences(y, p)
    assert pb.cumulative_differences(y, p, lens=pb.OneVsRest(2)).kuiper == pytest.approx(
        0, abs=1e-12
    )
    with pytest.raises(pb.InputError, match="single event"):
        pb.cumulative_differences(y, p, lens=pb.Full())


def test_tests_refuse_weights():
    with pytest.raises(pb.InputError, match="equal weight"):
        pb.spiegelhalter_test([0, 1], [0.2, 0.7], sample_weight=[1, 2])


def test_hosmer_lemeshow_keeps_its_level_with_confident_outputs():
    """Most groups expect fewer than five events, and their deviations are far from normal."""
    rng, rejected, plain = np.random.default_rng(0), 0, 0
    for _ in range(300):
        p = 1 / (1 + np.exp(-rng.normal(0, 12, 400)))
        found = pb.hosmer_lemeshow_test((rng.random(400) < p).astype(int), p)
        rejected += found.p_value <= 0.01
        plain += chi2.sf(found.statistic, 10) <= 0.01
    assert rejected <= 9  # P(more) = 0.1% at level 1%
    assert plain >= 12
    assert "fewer than 5 expected events resampled" in found.definition


@pytest.mark.parametrize("measure", [pb.spiegelhalter_test, pb.hosmer_lemeshow_test])
def test_tests_of_independent_rows_refuse_clusters(measure):
    y, p = world(200)
    with pytest.raises(pb.InputError, match="needs independent rows"):
        measure(y, p, clusters=np.arange(200) // 2)
    with pytest.raises(pb.InputError, match="clusters"):
        measure(pb.Predictions(y, p, clusters=np.arange(200) // 2))


@pytest.mark.parametrize(
    "measure", [pb.cumulative_differences, pb.score_decomposition, pb.sweep_calibration_error]
)
def test_measures_without_a_test_refuse_clusters_that_have_no_effect(measure):
    y, p = world(200)
    with pytest.raises(pb.InputError, match="have no effect on this measure"):
        measure(y, p, clusters=np.arange(200) // 2)
    assert measure(pb.Predictions(y, p, clusters=np.arange(200) // 2)) is not None
