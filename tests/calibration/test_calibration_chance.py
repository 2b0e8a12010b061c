"""What chance adds to a calibration error, and the estimates by kernels against direct sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import probaudit as pb
from probaudit.calibration import null as nulls
from probaudit.calibration.fine_grid import FineGrid
from probaudit.calibration.null import KEPT_DRAWS, BinomialNull
from probaudit.calibration.views import grids_of
from probaudit.engines.memory import summary
from probaudit.states import CELLS, Plan
from tests.calibration.grid_tests import grid_test

law = settings(max_examples=50, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def events(seed, n=60, *, middles=True):
    """Outputs of a single event, at the middles of the fine grid's cells unless told otherwise, and
    labels."""
    rng = np.random.default_rng(seed)
    p = rng.beta(*rng.uniform(0.3, 3, 2), n)
    p = (np.minimum((p * CELLS).astype(int), CELLS - 1) + 0.5) / CELLS if middles else p
    return rng, (rng.random(n) < p ** rng.uniform(0.3, 3)).astype(int), p


def calibrated(rng, n, levels, classes):
    """Forecasts of a few kinds, and labels drawn from them."""
    p = levels[rng.integers(0, len(levels), n)]
    return (rng.random((n, 1)) >= np.cumsum(p, axis=1)).sum(axis=1).clip(max=classes - 1), p


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_debiased_error_of_calibrated_forecasts_is_zero_on_average(classes, weighted):
    """Forecasts are equal within cells: of forecasts that vary within a cell the formula takes off
    a little too much."""
    rng = np.random.default_rng(classes)
    levels = rng.dirichlet(np.full(classes, 2.0), 4)
    lens = pb.Binary() if classes == 2 else pb.Full()
    plain, debiased = [], []
    for _ in range(250):
        y, p = calibrated(rng, 30, levels, classes)
        w = rng.exponential(size=30) ** 2 if weighted else None
        options = {
            "lens": lens,
            "partition": pb.Column(p[:, 0]),
            "distance": "squared",
            "sample_weight": w,
        }
        plain.append(pb.calibration_error(y, p, **options))
        debiased.append(pb.calibration_error(y, p, debias=True, **options))
    error = np.std(debiased) / len(debiased) ** 0.5
    assert abs(np.mean(debiased)) < 4 * error
    assert np.mean(plain) > 10 * error
    assert min(debiased) < 0


@pytest.mark.parametrize("lens", [pb.Binary(), pb.Classwise(), pb.Full(), pb.TopK(2)], ids=repr)
def test_p_values_of_calibrated_forecasts_are_uniform(lens):
    classes = 2 if isinstance(lens, pb.Binary | pb.Classwise) else 3
    found = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.ones(classes), 80)
        y = (rng.random((80, 1)) >= np.cumsum(p, axis=1)).sum(axis=1).clip(max=classes - 1)
        test = pb.calibration_test(
            y, p, lens=lens, partition=pb.EqualWidth(5), resamples=99, seed=seed
        )
        found.append(test.p_value)
    # A p-value is a multiple of 1/100; half a step makes it comparable with the continuous law.
    assert kstest(np.array(found) - 0.005, "uniform").pvalue > 0.01


def test_both_of_two_classes_are_drawn_together():
    """The error of the one is that of the other, so that the mean of the two varies as much as
    either."""
    _, y, p = events(0, 300)
    cells = pb.Column(np.arange(300) % 10)
    one = pb.calibration_test(y, p, lens=pb.Binary(), partition=cells, resamples=999)
    both = pb.calibration_test(y, p, lens=pb.Classwise(), partition=cells, resamples=999)
    assert both.value == pytest.approx(one.value)
    assert both.null_mean == pytest.approx(one.null_mean, rel=0.03)
    assert both.null_high - both.null_mean == pytest.approx(one.null_high - one.null_mean, rel=0.15)


def test_miscalibrated_forecasts_have_small_p_values():
    world = pb.simulate.gaussian_posteriors(600, 3, seed=1)
    for lens in (pb.TopLabel(), pb.Classwise(), pb.Full()):
        bad = pb.calibration_test(world.y, world.mcps, lens=lens, resamples=99)
        assert bad.p_value == 0.01
        assert bad.value > bad.null_high > bad.null_mean
        assert bad.excess == pytest.approx(bad.value - bad.null_mean)
        assert bad.value == pb.calibration_error(world.y, world.mcps, lens=lens)
    again = [pb.calibration_test(world.y, world.cal, resamples=20, seed=seed) for seed in (3, 3, 4)]
    assert again[0] == again[1] != again[2]


def heat(x, p, sigma):
    """The Gaussian reflected at 0 and 1 as a sum of its images, [x, p]."""
    total = np.zeros((len(x), len(p)))
    for k in range(-8, 9):
        for centre in (p + 2 * k, 2 * k - p):
            total += np.exp(-(((x[:, None] - centre) / sigma) ** 2) / 2)
    return total / (sigma * np.sqrt(2 * np.pi))


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_smooth_error_against_a_direct_sum(sigma, seed):
    rng, y, p = events(seed)
    x = (np.arange(2100) + 0.5) / 2100
    for w in (np.ones(60), rng.uniform(0.1, 2, 60)):
        direct = np.abs(heat(x, p, sigma) @ (w * (y - p)) / w.sum()).mean()
        found = pb.smooth_calibration_error(y, p, lens=pb.Binary(), sigma=sigma, sample_weight=w)
        assert found == pytest.approx(direct, abs=2e-5)


@law
@given(seeds, st.floats(0.01, 0.5), st.integers(1, 30))
def test_smooth_error_is_bounded_by_the_binned_error(seed, sigma, bins):
    """To move a residual within its bin changes its smoothed image by at most the way times sqrt(2
    / pi) / sigma."""
    _, y, p = events(seed)
    options = {"lens": pb.Binary()}
    smooth = pb.smooth_calibration_error(y, p, sigma=sigma, **options)
    binned = pb.calibration_error(y, p, partition=pb.EqualWidth(bins), **options)
    assert smooth <= binned + np.abs(y - p).mean() / (2 * bins) * np.sqrt(2 / np.pi) / sigma + 1e-6
    assert smooth >= abs((y - p).mean()) - 1e-9
    assert smooth >= pb.smooth_calibration_error(y, p, sigma=sigma * 1.5, **options) - 1e-9
    fixed = pb.smooth_calibration_error(y, p, **options)
    assert pb.smooth_calibration_error(y, p, sigma=float(fixed), **options) == pytest.approx(
        fixed, abs=1e-9
    )


def test_no_residual_no_smooth_error():
    sure = pb.smooth_calibration_error([0, 1, 1], [0.0, 1.0, 1.0], lens=pb.Binary())
    even = pb.smooth_calibration_error([0, 1, 0, 1], [0.5] * 4, lens=pb.Binary())
    assert sure == pytest.approx(0, abs=1e-12)
    assert even == pytest.approx(0, abs=1e-12)
    wrong = pb.smooth_calibration_error([1, 1], [0.0, 0.0], lens=pb.Binary())
    assert wrong == pytest.approx(1, abs=1e-9)


def kernel_by_hand(y, p, w, kernel, bandwidth, reflect):
    u = [(p[:, None] - centre) / bandwidth for centre in ([p, -p, 2 - p] if reflect else [p])]
    shape = (
        (lambda v: np.exp(-(v**2) / 2))
        if kernel == "gaussian"
        else (lambda v: np.maximum(0, 1 - v**2))
    )
    weights = sum(shape(v) for v in u) * w
    return np.average((weights @ y / weights.sum(axis=1) - p) ** 2, weights=w)


@pytest.mark.parametrize("reflect", [False, True])
@pytest.mark.parametrize("bandwidth", [0.02, 0.1, 0.8])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_kernel_error_against_a_direct_sum(kernel, bandwidth, reflect):
    for seed in range(3):
        rng, y, p = events(seed)
        for w in (np.ones(60), rng.uniform(0.1, 2, 60)):
            options = {"kernel": kernel, "bandwidth": bandwidth, "reflect": reflect}
            found = pb.kernel_calibration_error(y, p, lens=pb.Binary(), sample_weight=w, **options)
            assert found == pytest.approx(kernel_by_hand(y, p, w, **options), rel=1e-9, abs=1e-12)
            assert found >= 0


@pytest.mark.parametrize("estimate", [pb.smooth_calibration_error, pb.kernel_calibration_error])
def test_outputs_between_the_middles_move_little(estimate):
    _, y, p = events(5, 400, middles=False)
    rounded = (np.minimum((p * CELLS).astype(int), CELLS - 1) + 0.5) / CELLS
    assert estimate(y, p, lens=pb.Binary()) == pytest.approx(
        estimate(y, rounded, lens=pb.Binary()), abs=1e-4
    )


def test_estimates_of_classwise_are_means_over_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 100)
    y = rng.integers(0, 3, 100)
    for estimate in (pb.smooth_calibration_error, pb.kernel_calibration_error):
        single = [estimate(y, p, lens=pb.OneVsRest(k)) for k in range(3)]
        assert estimate(y, p, lens=pb.Classwise()) == pytest.approx(np.mean(single), abs=1e-12)


@pytest.mark.parametrize("score", ["brier", "log"])
@pytest.mark.parametrize("reflect", [False, True])
def test_kernel_error_of_much_calibrated_data_is_near_zero(score, reflect):
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 300_000)
    y, options = (
        rng.random(len(p)) < p,
        {"score": score, "bandwidth": 0.02, "reflect": reflect, "lens": pb.Binary()},
    )
    good = pb.kernel_calibration_error(y, p, **options)
    bad = pb.kernel_calibration_error(y, p**2, **options)
    assert abs(good) < 3e-4
    assert bad > 0.01


@pytest.mark.parametrize("bins", [10, 15, 20])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_error_of_a_pass_is_the_binned_error(bins, classes):
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.ones(classes), 3000)
    y = rng.integers(0, classes, 3000)
    for w in (None, rng.uniform(0.1, 2, 3000)):
        rows = pb.Predictions(y, p, sample_weight=w)
        found = grid_test(*grids_of(rows, pb.TopLabel()), pb.EqualWidth(bins))
        expected = pb.calibration_error(y, p, partition=pb.EqualWidth(bins), sample_weight=w)
        # A row within rounding of an edge would make a difference of 1/3000.
        assert found.value == pytest.approx(expected, abs=1e-9)
        assert found.null_mean < found.value


def test_the_null_of_a_pass_is_that_of_the_test():
    world = pb.simulate.gaussian_posteriors(2000, 3, seed=2)
    for p in (world.cal, world.mcs):
        rows = pb.Predictions(world.y, p)
        found = grid_test(FineGrid.of_summary(summary(rows, Plan.of(rows)).grid))
        test = pb.calibration_test(world.y, p)
        assert found.null_mean == pytest.approx(test.null_mean, rel=0.05)
        assert found.null_high == pytest.approx(test.null_high, rel=0.05)
        assert found.p_value == pytest.approx(test.p_value, abs=0.06)


def test_a_null_simulates_the_same_labels_once_and_forgets_old_ones(monkeypatch):
    cell, rows, mean = np.array([0, 0, 1]), np.array([40, 60, 50]), np.array([0.2, 0.4, 0.8])
    weight = rows * 1.0
    draws, draw_hits = [], nulls.draw_hits

    def counted(*arguments):
        draws.append(1)
        return draw_hits(*arguments)

    monkeypatch.setattr(nulls, "draw_hits", counted)
    kept = BinomialNull(cell, rows, weight, weight, mean)
    gaps = np.array([0.1, -0.1])
    found = [kept.noise(np.zeros(2), 50, 0), kept.noise(gaps, 50, 0)]
    calibrated = kept.calibrated(50, 0)
    assert len(draws) == KEPT_DRAWS == 2
    gap = calibrated.outputs - calibrated.targets
    np.testing.assert_allclose(gap, found[0], atol=1e-12)
    for seed in range(3):
        kept.noise(gaps, 50, seed)
    assert len(kept.memo) == KEPT_DRAWS
    np.testing.assert_array_equal(kept.noise(gaps, 50, 0), found[1])
