"""Kernels of softmax(beta x): the form for few classes has the same bits as the general one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from probaudit.kernels.scaled_softmax import brier_sum, narrow_brier_sum


@pytest.mark.parametrize("classes", [2, 3, 10, 33, 64])
@pytest.mark.parametrize("n", [1, 64, 1003])
def test_brier_sums_of_few_classes(classes, n):
    rng = np.random.default_rng(classes)
    scores = 4 * rng.normal(size=(n, classes))
    codes, weights = rng.integers(0, classes, n), rng.random(n)
    rows = scores, scores.max(axis=1), codes, weights
    found = narrow_brier_sum(*rows, 0.7)
    assert found == brier_sum(*rows, 0.7)
    wrong = softmax(0.7 * scores, axis=1) - np.eye(classes)[codes]
    assert found == pytest.approx(weights @ (wrong**2).sum(axis=1), rel=1e-12)
