"""Venn-Abers: its definition by refitted isotonic regressions, and the numbers of venn-abers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from probaudit.calibrators import IsotonicCalibration, VennAbers, from_json, to_json
from probaudit.calibrators.venn_abers import with_one_more_hit
from probaudit.errors import InputError
from tests.conftest import softmax


def refitted(p, y, w, s):
    """(p0, p1) at s by definition: isotonic regressions with one more row."""
    found = []
    for label in (0, 1):
        fit = IsotonicRegression().fit(np.append(p, s), np.append(y, label), np.append(w, 1.0))
        found.append(float(fit.predict([s])[0]))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_intervals_are_refitted_isotonic_regressions(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    p = rng.random(n) if seed % 2 else rng.integers(0, 8, n) / 7
    y = (rng.random(n) < p).astype(int)
    y[:2] = 0, 1
    w = rng.integers(1, 4, n).astype(float) if seed % 3 else rng.random(n) + 0.5
    w *= max(1, n / w.sum())
    new = np.concatenate([p, rng.random(20), [0.0, 1.0]])
    model = VennAbers().fit(p, y, w)
    expected = np.array([refitted(p, y, w, s) for s in new])
    assert model.predict_interval(new)[:, 1] == pytest.approx(expected, abs=1e-12)
    p0, p1 = expected.T
    assert model.predict_proba(new)[:, 1] == pytest.approx(p1 / (1 - p0 + p1), abs=1e-12)


def test_one_more_hit_in_long_runs():
    """Many corners: the binary search for a tangent, and undone writings."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        m = int(rng.integers(1, 60))
        weights = rng.integers(1, 5, m).astype(float)
        hits = np.floor(rng.random(m) * (weights + 1)).clip(0, weights)
        for values, j in ((with_one_more_hit(hits, weights), j) for j in range(m)):
            h, w = hits + (np.arange(m) == j), weights + (np.arange(m) == j)
            H, W = np.append(0, h.cumsum()), np.append(0, w.cumsum())
            least = [
                min((H[r] - H[first]) / (W[r] - W[first]) for r in range(j + 1, m + 1))
                for first in range(j + 1)
            ]
            assert values[j] == pytest.approx(max(least), abs=1e-12)


def test_numbers_of_venn_abers():
    """`VennAbers().fit(p, y).predict_proba(new)` of venn-abers 1.5.4, p = [1 - x, x]; and of
    `VennAbersCV(identity, inductive=False, n_splits=2, shuffle=True, random_state=0)`."""
    x = [0.1, 0.2, 0.2, 0.35, 0.5, 0.6, 0.6, 0.8, 0.9, 0.95]
    y = [0, 0, 1, 0, 1, 0, 1, 1, 0, 1]
    new = [0.05, 0.2, 0.4, 0.6, 0.7, 0.99]
    model = VennAbers().fit(x, y)
    assert model.predict_interval(new)[:, 1] == pytest.approx(np.array(INTERVALS), abs=1e-12)
    assert model.predict_proba(new)[:, 1] == pytest.approx(POINTS, abs=1e-12)
    cross = VennAbers(folds=2).fit(x, y)
    assert cross.predict_proba(new)[:, 1] == pytest.approx(CROSS, abs=1e-12)


INTERVALS = [
    [0.0, 0.4],
    [0.25, 0.5],
    [0.25, 0.6666666666666666],
    [0.5, 0.6666666666666666],
    [0.5, 0.6666666666666666],
    [0.5714285714285714, 1.0],
]
POINTS = [0.28571428571428575, 0.4, 0.4705882352941177, 0.5714285714285715, 0.5714285714285715, 0.7]
CROSS = [
    0.3288130902060995,
    0.3874258867227931,
    0.47213595499957944,
    0.5729490168751578,
    0.5857864376269049,
    0.6666666666666666,
]


def test_classes_are_judged_one_by_one():
    rng = np.random.default_rng(3)
    z = 2 * rng.normal(size=(400, 3))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    P = softmax(z)
    model = VennAbers().fit(P, y)
    intervals = model.predict_interval(P)
    assert intervals.shape == (400, 3, 2)
    points = np.empty(P.shape)
    for k in range(3):
        one = VennAbers().fit(P[:, k], (y == k).astype(int))
        np.testing.assert_array_equal(intervals[:, k], one.predict_interval(P[:, k])[:, 1])
        points[:, k] = one.predict_proba(P[:, k])[:, 1]
    points /= points.sum(axis=1, keepdims=True)
    assert model.predict_proba(P) == pytest.approx(points, abs=1e-12)


@pytest.mark.parametrize("folds", [0, 4])
def test_intervals_hold_their_point_and_never_decrease(folds):
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = (rng.random(300) < p**2).astype(int)
    model = VennAbers(folds=folds).fit(p, y)
    grid = np.linspace(0, 1, 501)
    intervals, points = model.predict_interval(grid), model.predict_proba(grid)
    assert (intervals[:, :, 0] < points).all()
    assert (points < intervals[:, :, 1]).all()
    assert (np.diff(intervals[:, 1], axis=0) >= 0).all()
    np.testing.assert_array_equal(intervals[:, 0], 1 - intervals[:, 1, ::-1])
    plain = IsotonicCalibration(finite=False).fit(p, y).predict_proba(p)[:, 1]
    ends = model.predict_interval(p)[:, 1]
    if not folds:  # the isotonic regression without the row lies between those with it
        assert (ends[:, 0] <= plain + 1e-12).all()
        assert (plain <= ends[:, 1] + 1e-12).all()


def test_more_rows_narrow_intervals():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = (rng.random(len(p)) < p).astype(int)
    widths = [
        np.diff(VennAbers().fit(p[:n], y[:n]).predict_interval(p[:500])[:, 1], axis=1).mean()
        for n in (200, 2_000, 20_000)
    ]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_a_class_without_rows_keeps_its_probabilities():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 100)
    model = VennAbers(classes=[0, 1, 2]).fit(P, rng.integers(0, 2, 100))
    assert model.predict_proba(P)[:, 2] == pytest.approx(P[:, 2])
    np.testing.assert_allclose(model.predict_interval(P)[:, 2], P[:, [2, 2]])


def test_folds_are_saved():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 100)
    model = VennAbers(folds=3).fit(P, rng.integers(0, 3, 100))
    again = from_json(to_json(model))
    np.testing.assert_array_equal(again.predict_interval(P), model.predict_interval(P))


@pytest.mark.parametrize("folds", [1, -2, 2.5, 200])
def test_bad_folds(folds):
    with pytest.raises(InputError, match=r"folds|cv"):
        VennAbers(folds=folds).fit(np.linspace(0.1, 0.9, 20), [0, 1] * 10)
