"""The kernel calibration error by the log score, where the truth is known; the sharpness gap that
goes with it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import expit

import probaudit as pb
from probaudit import diagrams
from probaudit.calibration.kernel_regression import expected_if_calibrated, kernel_error
from probaudit.calibration.local_logistic import LocalLogistic, Sums
from probaudit.calibration.views import grids_of
from probaudit.text import number
from tests.calibration.test_golden_calibration import load

FILES = (
    "own_spambase_mlp_test",
    "ferrer_pneumoniamnist_resnet50",
    "ferrer_cifar10_resnet20",
    "own_digits_mlp_val",
)


def log_loss(odds, m):
    """Of outputs with these log odds, for an event of probability m."""
    return m * np.logaddexp(0, -odds) + (1 - m) * np.logaddexp(0, odds)


def error(y, odds, **options):
    logits = np.column_stack([np.zeros_like(odds), odds])
    return pb.kernel_calibration_error(
        y, logits, from_logits=True, lens=pb.Binary(), score="log", **options
    )


@pytest.mark.parametrize("variance", [0.03, 0.08, 0.15, 0.5])
@pytest.mark.parametrize("classes", [2, 5])
def test_no_error_for_a_calibrated_model(variance, classes):
    world = pb.simulate.gaussian_posteriors(6000, classes, variance=variance, seed=classes)
    found = pb.kernel_calibration_error(
        world.y, world.cal, score="log", interval="percentile", resamples=200
    )
    assert abs(found) < 0.002
    assert found.low <= 0 <= found.high


def temperature(rng, n):
    odds = rng.normal(4, 5, n)
    return odds, expit(odds / 5)


def prior(rng, n):
    odds = rng.normal(1, 3, n)
    return odds, expit(odds - 2)


def square(rng, n):
    p = rng.random(n)
    return np.log(p) - np.log1p(-p), p**2


def wave(rng, n):
    p = rng.beta(1.5, 1.5, n)
    return np.log(p) - np.log1p(-p), np.clip(p + 0.12 * np.sin(2 * np.pi * p) + 0.05, 0.0, 1.0)


@pytest.mark.parametrize("world", [temperature, prior, square, wave])
def test_known_errors(world):
    """Beside the truth of the same rows and labels, whose chance is shared, the bias of 20 worlds
    of 2,000 rows is seen."""
    gaps = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        odds, m = world(rng, 2000)
        y = (rng.random(2000) < m).astype(int)
        with np.errstate(divide="ignore"):
            known = np.mean(log_loss(odds, y) + np.log(np.where(y == 1, m, 1 - m)))
        gaps.append(float(error(y, odds)) - known)
    assert abs(np.mean(gaps)) < 0.0012
    assert np.std(gaps) < 0.004


def test_the_interval_covers():
    """40 worlds at 95%."""
    odds, m = temperature(np.random.default_rng(99), 1_000_000)
    truth, hits = float(np.mean(log_loss(odds, m) - log_loss(odds / 5, m))), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        odds, m = temperature(rng, 1000)
        found = error(
            (rng.random(1000) < m).astype(int), odds, interval="percentile", resamples=100
        )
        hits += found.low <= truth <= found.high
    assert hits >= 34


def test_losses_of_rows_left_out_are_those_of_fits_without_them():
    rng = np.random.default_rng(0)
    odds = np.sort(rng.normal(1, 2, 60))
    y = (rng.random(60) < expit(odds / 2)).astype(float)
    x = expit(odds)
    near, one = np.exp(-(((x[:, None] - x) / 0.2) ** 2) / 2), np.ones(60)
    fails, happens = LocalLogistic.fit(odds, Sums(one, y, one), near).left_out_losses(
        Sums(one, y, one)
    )
    found, exact = np.where(y == 1, happens, fails), np.empty(60)
    for i in range(60):
        rest = Sums(
            np.where(np.arange(60) == i, 1e-9, 1.0), np.where(np.arange(60) == i, 0.0, y), one
        )
        level = LocalLogistic.fit(odds, rest, near).level[i]
        exact[i] = np.logaddexp(0, (1 - 2 * y[i]) * (odds[i] + level))
    assert found == pytest.approx(exact, rel=0.15)
    assert found.mean() == pytest.approx(exact.mean(), rel=0.01)


def test_the_smallest_probabilities_count():
    """1 - p is 0 for log odds of 50; the loss of two classes is the log score to the last digit."""
    odds = np.array([50.0, 45.0, -60.0, 1.0, 2.0, -1.0] * 20)
    y = np.array([0, 1, 0, 1, 0, 0] * 20)
    logits = np.column_stack([np.zeros(120), odds])
    found = pb.kernel_calibration_error(y, logits, from_logits=True, lens=pb.Binary(), score="log")
    assert np.isfinite(found)
    assert 7 < found < float(pb.log_score(y, logits, from_logits=True))


def test_an_outcome_of_probability_0_makes_the_error_infinite():
    found = pb.kernel_calibration_error(
        [0, 1, 1], [1.0, 0.6, 0.7], score="log", interval="percentile"
    )
    assert np.isposinf(found)
    assert found.infinite_rows == 1
    assert np.isnan(found.low)


def test_copies_of_rows_count_once_if_they_are_clusters():
    rng = np.random.default_rng(3)
    odds = rng.normal(1, 2, 500)
    y = (rng.random(500) < expit(odds)).astype(int)
    alone = error(y, odds, interval="percentile", resamples=200)
    copies = {"interval": "percentile", "resamples": 200}
    again, numbers = (np.repeat(values, 5) for values in (odds, np.arange(500)))
    wrong = error(np.repeat(y, 5), again, **copies)
    right = error(np.repeat(y, 5), again, clusters=numbers, **copies)
    assert float(wrong) > float(alone) + 0.004
    assert float(right) == pytest.approx(float(alone), abs=0.002)
    assert right.high - right.low == pytest.approx(alone.high - alone.low, rel=0.3)
    assert wrong.high - wrong.low < 0.7 * (right.high - right.low)


@pytest.mark.parametrize("measure", [pb.smooth_calibration_error, pb.kernel_calibration_error])
def test_clusters_widen_intervals_and_are_refused_where_they_do_nothing(measure):
    rng = np.random.default_rng(4)
    p = rng.beta(2, 2, 200)
    p, y = np.repeat(p, 10), np.repeat(rng.random(200) < expit(3 * p - 1), 10)
    smooth = measure is pb.smooth_calibration_error
    options = {"lens": pb.Binary(), "interval": True if smooth else "percentile", "resamples": 200}
    rows = np.repeat(np.arange(200), 10)
    plain, clustered = measure(y, p, **options), measure(y, p, clusters=rows, **options)
    assert clustered.high - clustered.low > 1.5 * (plain.high - plain.low)
    with pytest.raises(pb.InputError, match="clusters"):
        measure(y, p, clusters=rows)
    with pytest.raises(TypeError, match="groups"):
        measure(y, p, groups=rows, **options)


def test_weights():
    rng = np.random.default_rng(5)
    p = rng.beta(1, 0.7, 800)
    y, w = (rng.random(800) < p**1.5).astype(int), rng.integers(0, 3, 800)
    options = {"lens": pb.Binary(), "score": "log"}
    plain = pb.kernel_calibration_error(y, p, **options)
    even = pb.kernel_calibration_error(y, p, sample_weight=np.full(800, 7.0), **options)
    assert even == pytest.approx(float(plain), rel=1e-9)
    weighted, kept = pb.kernel_calibration_error(y, p, sample_weight=w, **options), w > 0
    assert weighted == pytest.approx(
        float(pb.kernel_calibration_error(y[kept], p[kept], sample_weight=w[kept], **options)),
        rel=1e-9,
    )
    copies = np.repeat(np.arange(800), w)
    repeated = pb.kernel_calibration_error(y[copies], p[copies], clusters=copies, **options)
    assert weighted == pytest.approx(float(repeated), abs=0.003)


@pytest.mark.parametrize("reflect", [False, True])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("bandwidth", [0.02, 0.05, 0.5])
def test_kernels_and_widths(kernel, bandwidth, reflect):
    rng = np.random.default_rng(6)
    odds, m = temperature(rng, 3000)
    y = (rng.random(3000) < m).astype(int)
    known = np.mean(log_loss(odds, y) - log_loss(odds / 5, y))
    assert error(y, odds, kernel=kernel, bandwidth=bandwidth, reflect=reflect) == pytest.approx(
        known, abs=0.012
    )


def test_classes_in_turn():
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.ones(3), 600)
    y = rng.integers(0, 3, 600)
    options = {"score": "log", "interval": "percentile", "resamples": 100}
    each = pb.kernel_calibration_error(y, p, lens=pb.Classwise(), **options)
    single = [
        float(pb.kernel_calibration_error(y, p, lens=pb.OneVsRest(k), score="log"))
        for k in range(3)
    ]
    assert each == pytest.approx(np.mean(single), rel=1e-12)
    assert each.low < each < each.high
    with pytest.raises(pb.InputError, match="single event"):
        pb.kernel_calibration_error(y, p, lens=pb.Full(), score="log")
    with pytest.raises(pb.InputError, match=r"at least 0.01 for score=\"log\""):
        pb.kernel_calibration_error(y, p, bandwidth=0.005, score="log")


@pytest.mark.parametrize("name", FILES)
def test_the_sharpness_gap_is_finite_and_not_negative(shared, name):
    """Proposition 4.8; the gap and the calibration error share the loss between them."""
    y, p = load(shared, name)
    found = diagrams.calibration_sharpness_diagram(y, p, score="log")
    assert (found.sharpness_gap >= 0).all()
    assert np.isfinite(found.sharpness_gap).all()
    assert 0 < found.calibration < found.total
    assert found.low <= found.calibration <= found.high
    curve = pb.kernel_calibration_curve(y, p, x=np.linspace(-0.5, 1.5, 2001), score="log")
    assert np.nansum(curve.sharpness_gap) / 1000 == pytest.approx(
        found.total - found.calibration, abs=1e-3
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_squared_error_expected_of_a_calibrated_model(weighted):
    rng = np.random.default_rng(8)
    p = rng.beta(4, 1, 500)
    w = rng.uniform(0.2, 1, 500) if weighted else None
    drawn = []
    for _ in range(100):
        grid = grids_of(pb.Predictions(rng.random(500) < p, p, sample_weight=w), pb.Binary())[0]
        drawn.append(float(kernel_error(grid.weight, grid.outputs, grid.targets)))
    assert expected_if_calibrated(grid) == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 10)
    assert np.std(drawn) / 10 < 0.1 * np.mean(drawn)


def test_captions_show_what_a_calibrated_model_would_get():
    world = pb.simulate.gaussian_posteriors(3000, 3, seed=2)
    log = diagrams.calibration_sharpness_diagram(world.y, world.cal, score="log")
    assert log.low <= 0 <= log.high
    assert "By the log loss, the calibration error (CAL)" in log.picture().caption
    assert "(95% interval −" in log.picture().caption
    assert "a calibrated model would have a CAL of 0.000" in log.picture().caption
    for weight in (None, np.random.default_rng(0).uniform(0.2, 1, len(world.y))):
        brier = diagrams.calibration_sharpness_diagram(world.y, world.cal, sample_weight=weight)
        expected = f"a calibrated model would have a CAL of {number(brier.expected, 3)}"
        assert expected in brier.picture().caption
        assert brier.expected / 3 < brier.calibration < 3 * brier.expected


def test_a_page_of_a_calibrated_model_shows_no_error_by_the_log_loss():
    world = pb.simulate.gaussian_posteriors(3000, 2, variance=0.08, seed=1)
    page = pb.audit(world.y, world.cal).to_html()
    words = page[page.index("By the log loss, the calibration error (CAL)") :][:200]
    assert re.search(r"95% interval (\\u003e )?(−|\\u2212)", words)
