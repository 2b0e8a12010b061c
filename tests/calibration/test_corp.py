"""Isotonic regression by pooling adjacent violators, against scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression as by_scipy
from sklearn.isotonic import isotonic_regression as by_sklearn

from probaudit.calibration.corp import OutputLevels, isotonic
from probaudit.choices.lenses import View


@pytest.mark.parametrize("levels", [1, 2, 7, 400])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_isotonic_regression_agrees_with_scipy_and_scikit_learn(levels, weighted, seed):
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=levels) + 0.01 if weighted else rng.integers(1, 9, levels) * 1.0
    rate = np.clip(np.linspace(0, 1, levels) + rng.normal(0, 0.3, levels), 0, 1)
    found = isotonic(rate * weight, weight)
    assert (np.diff(found) >= 0).all()
    assert found == pytest.approx(by_scipy(rate, weights=weight).x, abs=1e-12)
    assert found == pytest.approx(by_sklearn(rate, sample_weight=weight), abs=1e-12)


def test_rates_of_zero_and_one_are_kept():
    found = isotonic(np.array([0.0, 0.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    assert found.tolist() == [0.0, 0.0, 1.0]


def test_the_null_is_calibrated():
    rng = np.random.default_rng(0)
    p = rng.integers(0, 21, 3000) / 20
    levels = OutputLevels.of_view(View(p, (rng.random(3000) < p).astype(np.int64)), np.ones(3000))
    fits, null = levels.null(np.arange(len(levels.output)), 200, 0)
    assert fits.mean(axis=0) == pytest.approx(levels.output, abs=0.02)
    assert levels.miscalibration(levels.fitted) < 3 * null.max()
