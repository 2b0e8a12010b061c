"""Bootstrap intervals of calibration errors: exact compression, coverage, clusters, and what they
cannot do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, ndtr

import probaudit as pb
from probaudit.calibration.cells import gather_categories, gather_cells, mean_gap
from probaudit.calibration.null import SignedClusters
from probaudit.calibration.resampling import bca, percentile
from probaudit.calibration.significance import p_value
from probaudit.choices.lenses import View


def world(n, seed, gap=0.15):
    """Five predicted probabilities, each too low by the same gap."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.3, 0.45, 0.6, 0.75], n)
    return (rng.random(n) < p + gap).astype(int), p


@pytest.mark.parametrize("d", [1, 3])
def test_categories_keep_every_cell(d):
    rng = np.random.default_rng(0)
    outputs = rng.random(200) if d == 1 else rng.dirichlet(np.ones(d), 200)
    view, cell, w = (
        View(outputs, rng.integers(0, max(2, d), 200)),
        rng.integers(0, 7, 200),
        rng.random(200),
    )
    categories = gather_categories(view, cell, w)
    rows, (found,) = gather_cells(view, cell, w), categories.resampled(categories.counts[None])
    for name in ("rows", "weight", "outputs", "targets"):
        np.testing.assert_allclose(
            getattr(found, name)[0], getattr(rows, name), rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize(
    ("distance", "debias", "truth"), [("l1", False, 0.15), ("squared", True, 0.0225)]
)
def test_intervals_cover_the_truth(distance, debias, truth):
    """200 worlds at 95%: 190 expected with a standard deviation of 3.1."""
    options = {
        "lens": pb.Binary(),
        "partition": pb.EqualWidth(20),
        "distance": distance,
        "debias": debias,
    }
    covered = 0
    for seed in range(200):
        found = pb.calibration_error(
            *world(500, seed), **options, interval=True, resamples=200, seed=seed
        )
        covered += found.low <= truth <= found.high
        assert found.low < found.debiased < found.high
    assert 178 <= covered <= 199


def softmax_world(n, K, scale, seed, sharpness=1.0):
    """Classes drawn from softmax(z), outputs softmax(scale z)."""
    rng = np.random.default_rng(seed)
    z = sharpness * rng.normal(size=(n, K))
    p, q = (np.exp(s * z) / np.exp(s * z).sum(axis=1, keepdims=True) for s in (1, scale))
    return (rng.random((n, 1)) >= np.cumsum(p, axis=1)).sum(axis=1).clip(max=K - 1), q


# Population values: errors of 400,000 rows in the same bins. Before, intervals around plain errors
# covered none of these.
@pytest.mark.parametrize(("scale", "truth"), [(1.15, 0.0089), (1.7, 0.0367)])
def test_intervals_of_classwise_errors_cover_the_truth(scale, truth):
    covered, errors, plain = 0, [], []
    for seed in range(40):
        y, q = softmax_world(300, 10, scale, seed)
        found = pb.calibration_error(
            y, q, lens=pb.Classwise(), interval=True, resamples=200, seed=seed
        )
        covered += found.low <= truth <= found.high
        errors.append(found.debiased)
        plain.append(float(found))
    assert covered >= 33  # 38 expected with a standard deviation of 1.4
    assert np.mean(plain) - truth > 0.015
    assert abs(np.mean(errors) - truth) < 0.005


def test_intervals_of_calibrated_models_begin_at_zero():
    zeros = 0
    for seed in range(40):
        y, q = softmax_world(300, 3, 1, seed)
        found = pb.calibration_error(y, q, interval=True, resamples=200)
        zeros += found.low == 0
        assert found.high > 0
    assert zeros >= 36


def test_intervals_of_sharp_calibrated_models_with_few_rows_in_a_bin_begin_at_zero():
    """With noise simulated around the observed rates alone, 8 of these 40 intervals lie above 0."""
    above = 0
    for seed in range(40):
        y, q = softmax_world(300, 10, 1, seed, sharpness=2)
        options = {"lens": pb.Classwise(), "interval": True, "resamples": 199}
        above += pb.rms_calibration_error(y, q, **options).low > 0
    assert above <= 3  # 1 expected


def test_one_interval_for_one_error():
    """`calibration_error`, the audit and `compare` say the same."""
    y, q = softmax_world(1000, 4, 1.7, 0)
    other = np.full_like(q, 0.25)
    audit, compared = (
        pb.audit(y, q, repair=False),
        pb.compare({"a": q, "b": other}, y, repair=False),
    )
    for name, audited, partition in (
        ("ece", "ece", pb.EqualWidth(15)),
        ("ace", "ace", pb.EqualMass(15)),
    ):
        alone = pb.calibration_error(y, q, partition=partition, interval=True)
        entry = next(error for error in audit.errors if error.name == audited).estimate
        assert entry.interval == alone.interval
        assert compared["a"][name].interval == alone.interval
        assert float(entry) == float(alone)


def test_the_seed_decides():
    y, p = world(300, 0)
    first, again, other = (pb.calibration_error(y, p, interval=True, seed=s) for s in (1, 1, 2))
    assert first.interval == again.interval != other.interval


def test_clusters_widen_the_interval():
    """Every row ten times over carries no more than the rows themselves."""
    y, p = world(200, 0)
    y, p, numbers = np.repeat(y, 10), np.repeat(p, 10), np.repeat(np.arange(200), 10)
    options = {"lens": pb.Binary(), "partition": pb.EqualWidth(20), "interval": True}
    rows, clusters = (
        pb.calibration_error(y, p, **options),
        pb.calibration_error(y, p, clusters=numbers, **options),
    )
    single = pb.calibration_error(y[::10], p[::10], **options)
    assert clusters.high - clusters.low > 2 * (rows.high - rows.low)
    assert clusters.high - clusters.low == pytest.approx(single.high - single.low, rel=0.15)


def dependent_labels(seed, scale=1.0):
    """100 clusters of 20 rows, whose outcomes have a common cause; the log-odds of the forecasts
    are `scale` times right."""
    rng = np.random.default_rng(seed)
    z, common = 1.2 * rng.normal(size=2000), np.repeat(rng.normal(size=100), 20)
    u = ndtr(np.sqrt(0.8) * common + np.sqrt(0.2) * rng.normal(size=2000))
    return (u < expit(z)).astype(int), expit(scale * z), np.repeat(np.arange(100), 20)


def test_the_null_of_clusters_has_its_level():
    """At 5%, 200 calibrated worlds: 10 expected with a standard deviation of 3.1. Rows taken as
    independent reject in half of them."""
    rejected = alone = 0
    for seed in range(200):
        y, p, clusters = dependent_labels(seed)
        view, cell, weights = View(p, y), pb.EqualWidth(15).cells(p), np.ones(len(y))
        value = float(mean_gap(gather_cells(view, cell, weights), pb.choices.distances.L1()))
        signed, single = (
            SignedClusters.of_view(view, cell, weights, c) for c in (clusters, np.arange(2000))
        )
        rejected += p_value(value, signed.null(pb.choices.distances.L1(), 199)) <= 0.05
        alone += p_value(value, single.null(pb.choices.distances.L1(), 199)) <= 0.05
    assert 3 <= rejected <= 20
    assert alone > 60


def test_the_test_of_clusters_has_power():
    y, p, clusters = dependent_labels(1, scale=2.5)
    assert (
        pb.calibration_test(y, p, lens=pb.Binary(), clusters=clusters, resamples=199).p_value
        == 1 / 200
    )
    calibrated = dependent_labels(1)
    found = pb.calibration_test(*calibrated[:2], lens=pb.Binary(), clusters=clusters, resamples=199)
    assert found.p_value > 0.05
    assert "cluster" in found.definition
    with pytest.raises(pb.InputError, match="two clusters"):
        pb.calibration_test(*calibrated[:2], clusters=np.zeros(2000))


def test_bca_is_the_percentile_interval_where_nothing_is_to_correct():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=20_000)
    draws = np.r_[draws, -draws]
    counts = np.array([50, 50])
    found = bca(0.0, draws, counts, lambda c: (c[:, 0] - c[:, 1]) / 100)
    assert found == pytest.approx(percentile(draws), abs=0.02)


def test_more_resamples_do_not_look_at_more_rows():
    y, p = world(100_000, 1)
    found = pb.calibration_error(y, p, lens=pb.Binary(), interval=True, resamples=300)
    assert found.low < 0.15 < found.high


def test_rows_by_themselves_say_nothing_about_chance():
    found = pb.calibration_error(*world(50, 0), partition=pb.Each(), interval=True)
    assert np.isnan([found.low, found.high, found.debiased]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval": "bca"}, "True or False"),
        ({"interval": True, "resamples": 0}, "at least 1"),
        ({"interval": True, "clusters": [1, 2]}, "one value per row"),
        ({"interval": True, "lens": pb.Classwise(), "exact": False}, "several events"),
        ({"interval": True, "clusters": np.arange(50), "exact": False}, "in clusters"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(pb.InputError, match=words):
        pb.calibration_error(*world(50, 0), **options)


@pytest.mark.parametrize(("scale", "truth"), [(1.0, 0.0), (1.15, 0.0213)])
def test_intervals_of_smooth_errors_cover_the_truth(scale, truth):
    """Errors of resamples lie above that of the rows, and these above the truth: such intervals
    covered 0% and 62%."""
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = 1.5 * rng.normal(size=600)
        found = pb.smooth_calibration_error(
            rng.random(600) < expit(z), expit(scale * z), interval=True
        )
        covered += found.low <= truth <= found.high
    assert covered >= 33  # 38 expected with a standard deviation of 1.4
