"""MMCE and SKCE against their double sums, and the test on calibrated and miscalibrated worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import probaudit as pb


def calibrated(n, seed, classes=3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n)
    return (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1), p


def test_mmce_is_its_double_sum():
    rng = np.random.default_rng(0)
    p = rng.choice(np.linspace(0.05, 0.95, 30), 100)  # with ties
    y, w = rng.integers(0, 2, 100), rng.random(100)
    for weights in (np.ones(100), w):
        r = weights * (y - p) / weights.sum()
        expected = np.sqrt(r @ np.exp(-np.abs(p[:, None] - p) / 0.4) @ r)
        found = pb.maximum_mean_calibration_error(y, p, lens=pb.Binary(), sample_weight=weights)
        assert found == pytest.approx(expected, rel=1e-12)


def test_skce_is_its_mean_over_pairs():
    y, p = calibrated(50, 1)
    r = np.eye(3)[y] - p
    k = np.exp(-np.abs(p[:, None] - p[None]).sum(axis=2) / 2)
    terms = k * (r @ r.T)
    expected = (terms.sum() - np.trace(terms)) / (50 * 49)
    assert pb.kernel_calibration_test(y, p).value == pytest.approx(expected, rel=1e-12)


def test_skce_is_unbiased_and_its_p_values_uniform_under_calibration():
    found = [pb.kernel_calibration_test(*calibrated(200, seed)) for seed in range(200)]
    values = np.array([f.value for f in found])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))
    assert kstest([f.p_value for f in found], "uniform").pvalue > 1e-4


def test_skce_sees_miscalibration():
    y, p = calibrated(2000, 0)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    found = pb.kernel_calibration_test(y, sharp)
    assert found.p_value < 1e-4
    assert found.value > 0


def test_errors():
    y, p = calibrated(10, 0)
    with pytest.raises(pb.InputError, match="width"):
        pb.kernel_calibration_test(y, p, width=0)
    with pytest.raises(pb.InputError, match="equal weight"):
        pb.kernel_calibration_test(y, p, sample_weight=np.ones(10))
    with pytest.raises(pb.InputError, match="single event"):
        pb.maximum_mean_calibration_error(y, p, lens=pb.Full())
