"""Multicalibration: steps against derivatives, overlapping groups, hidden regions, false alarms."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

import probaudit as pb
from probaudit.calibrators import (
    GroupCalibration,
    MultiCalibration,
    PerGroup,
    TemperatureScaling,
    from_json,
    to_json,
)
from probaudit.calibrators.folds import fold_numbers, out_of_fold
from probaudit.calibrators.outputs import Outputs
from probaudit.calibrators.region_boosting import (
    BINS,
    BinnedColumns,
    Booster,
    Learning,
    RegionRows,
    _cell_matrix,
    near,
    quantile_edges,
)
from probaudit.errors import InputError
from tests.conftest import softmax


def drawn(true: np.ndarray, seed: int) -> np.ndarray:
    """Classes from logits."""
    return (true + np.random.default_rng(seed).gumbel(size=true.shape)).argmax(axis=1)


def two_columns(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of two classes, and two binary columns of groups."""
    rng = np.random.default_rng(seed)
    x = 1.5 * rng.normal(size=n)
    return np.column_stack([np.zeros(n), x]), rng.integers(0, 2, (n, 2))


def shifted(z: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return z + np.column_stack([np.zeros(len(z)), shift])


def group_gaps(p: np.ndarray, q: np.ndarray, groups: np.ndarray) -> float:
    """The largest |mean output - mean of the true probability| of a group or an intersection."""
    a, b = groups.T
    masks = [a == 0, a == 1, b == 0, b == 1]
    masks += [(a == v) & (b == w) for v in (0, 1) for w in (0, 1)]
    return max(float(np.abs((p[m] - q[m]).mean(axis=0)).max()) for m in masks)


def repaired(model, z, y, **sides) -> np.ndarray:
    """Out-of-fold probabilities."""
    rows = pb.Predictions(y, z, from_logits=True, features=sides.get("features"))
    outputs = Outputs.of(rows, sides.get("groups"))
    return out_of_fold(outputs, fold_numbers(5, outputs.codes, None, seed=0), model)


# --- the steps


@pytest.mark.parametrize("classes", [2, 4])
def test_statistics_are_derivatives_of_the_log_loss(classes):
    rng = np.random.default_rng(0)
    logs = log_softmax(rng.normal(size=(50, classes)), axis=1)
    codes, weights = rng.integers(0, classes, 50), rng.random(50) + 0.5
    rows = RegionRows(logs, np.empty((50, 0)), np.zeros((50, 1), np.int64))
    booster = Booster(rows, codes, weights, [1], Learning(1, 1.0, 1))
    booster.shift[:] = 0.3 * rng.normal(size=(1, classes + 1))

    def likelihood(step: np.ndarray) -> float:
        bias = step[:-1] if classes > 2 else np.array([0.0, step[0]])
        z = rows.moved(booster.shift) + bias + step[-1] * booster.direction
        return float(weights @ log_softmax(z, axis=1)[np.arange(50), codes])

    size = classes + 1 if classes > 2 else 2
    found = booster._statistics().sum(axis=0)
    np.testing.assert_allclose(
        found[:size], approx_fprime(np.zeros(size), likelihood, 1e-7), atol=1e-4
    )
    for k in range(size):
        h = 1e-3 * np.eye(size)[k]
        second = (likelihood(h) - 2 * likelihood(np.zeros(size)) + likelihood(-h)) / 1e-6
        assert found[size + k] == pytest.approx(-second, rel=1e-3)
    assert found[-1] == pytest.approx(weights.sum())


def test_many_rounds_in_groups_reach_the_logistic_regression():
    """A bias and a slope for each group: the maximum likelihood fit of scikit-learn, up to the
    violations that count as noise."""
    n = 20000
    z, groups = two_columns(n, 0)
    group = groups[:, 0]
    y = drawn(shifted(z, np.where(group, 1.0 + z[:, 1], -0.5)), 1)
    model = MultiCalibration(rounds=60, from_logits=True).fit(z, y, groups=group)
    p = model.predict_proba(z, groups=group)[:, 1]
    for value in (0, 1):
        mask = group == value
        exact = LogisticRegression(C=np.inf).fit(z[mask, 1:], y[mask])
        np.testing.assert_allclose(p[mask], exact.predict_proba(z[mask, 1:])[:, 1], atol=0.03)


def test_trees_find_the_best_split():
    """Against a search by brute force over all thresholds and columns."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 3))
    logs = np.log(np.full((400, 2), 0.5))
    codes = (rng.random(400) < np.where(points[:, 1] > 0.7, 0.9, 0.45)).astype(int)
    rows = RegionRows(logs, points, np.empty((400, 0), np.int64))
    step = Booster(rows, codes, np.ones(400), [], Learning(1, 1.0, 20)).step()
    residual, best = codes - 0.5, (-1.0, -1, np.nan)
    for column in range(3):
        for edge in quantile_edges(points[:, column]):
            sides = [points[:, column] <= edge, points[:, column] > edge]
            gain = sum(
                max(0.5 * residual[m].sum() ** 2 / (m.sum() / 4 + 1) - 2, 0)
                for m in sides
                if m.sum() >= 20
            )
            best = max(best, (gain, column, edge))
    assert (step.columns[0], step.thresholds[0]) == best[1:]
    assert step.columns[0] == 1


def test_bins_agree_with_thresholds():
    values = np.random.default_rng(0).integers(0, 50, 1000) / 7
    binned = BinnedColumns.of(values[:, None])
    assert binned.numbers.max() < BINS
    for b in range(BINS - 1):
        np.testing.assert_array_equal(binned.numbers[:, 0] > b, values > binned.edges[0, b])
    assert quantile_edges(np.full(9, 2.0)).size == 0


def test_far_log_probabilities_are_capped():
    assert near(np.array([[-700.0, -1e-9, -30.0]])).tolist() == [[-20 - 1e-9, -1e-9, -20 - 1e-9]]


# --- worlds with known truth


@pytest.mark.parametrize("seed", [0, 1])
def test_overlapping_groups_with_opposite_biases(seed):
    z, groups = two_columns(8000, seed)
    true = shifted(z, 0.8 * groups[:, 0] - 0.8 * groups[:, 1])
    y, q = drawn(true, seed), softmax(true)
    before = group_gaps(softmax(z), q, groups)
    one_column = group_gaps(repaired(PerGroup(), z, y, groups=groups[:, 0]), q, groups)
    after = group_gaps(repaired(MultiCalibration(), z, y, groups=groups), q, groups)
    assert before > 0.12
    assert one_column > 0.12  # a temperature for each group cannot remove it
    assert after < 0.025


@pytest.mark.parametrize("classes", [2, 3])
def test_an_intersection_that_no_single_group_shows(classes):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, (8000, 2))
    z = 1.5 * rng.normal(size=(8000, classes))
    sign = np.where(groups[:, 0] == groups[:, 1], 0.8, -0.8)
    true = z + np.outer(sign, np.eye(classes)[0])
    y, q = drawn(true, 1), softmax(true)
    for column in groups.T:  # no margin shows it
        assert (
            max(
                np.abs((softmax(z)[column == v] - q[column == v]).mean(axis=0)).max()
                for v in (0, 1)
            )
            < 0.02
        )
    after = group_gaps(repaired(MultiCalibration(), z, y, groups=groups), q, groups)
    assert group_gaps(softmax(z), q, groups) > 0.1
    assert after < 0.025


def test_a_hidden_region_of_features():
    rng = np.random.default_rng(0)
    z, _ = two_columns(8000, 0)
    features = rng.normal(size=(8000, 10))
    region = (features[:, 0] > 0.5) & (features[:, 1] > 0)
    true = shifted(z, 1.2 * region)
    y, q = drawn(true, 1), softmax(true)

    def gap(p: np.ndarray) -> float:
        return float(abs((p - q)[region, 1].mean()))

    others = (TemperatureScaling(), GroupCalibration(n_partitions=5))
    assert all(gap(repaired(model, z, y, features=features)) > 0.15 for model in others)
    assert gap(repaired(MultiCalibration(), z, y, features=features)) < 0.03


def test_false_alarms():
    """In calibrated worlds no region helps: 0 rounds, and the shared calibrator remains."""
    rounds, excess = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = 1.5 * rng.normal(size=(3000, 3))
        y = drawn(z, 100 + seed)
        sides = {"features": rng.normal(size=(3000, 8)), "groups": rng.integers(0, 8, (3000, 2))}
        model = MultiCalibration(from_logits=True)
        model.fit(z[:1000], y[:1000], **{k: v[:1000] for k, v in sides.items()})
        rounds.append(model.rounds_)
        new, rest = z[1000:], {k: v[1000:] for k, v in sides.items()}
        shared = model.whole_.predict_proba(new)
        calibrated = model.predict_proba(new, **rest)
        if model.rounds_ == 0:
            np.testing.assert_array_equal(calibrated, shared)
        own, base = (-np.log(p[np.arange(2000), y[1000:]]).mean() for p in (calibrated, shared))
        excess.append(own - base)
    assert np.mean(np.array(rounds) == 0) >= 0.9
    assert np.mean(excess) < 0.002


def test_dependent_rows_share_an_inner_fold():
    """200 clusters of 20 rows with one outcome: their features identify them, so that regions of
    noise look real unless clusters stay whole."""
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(200), 20)
    features = rng.normal(size=(200, 3))[cluster]
    z = 0.1 * rng.normal(size=(4000, 2))
    y = rng.integers(0, 2, 200)[cluster]
    model = MultiCalibration(from_logits=True)
    assert model.fit(z, y, features=features).rounds_ > 0
    assert model.fit(z, y, features=features, clusters=cluster).rounds_ == 0
    rows = pb.Predictions(y, z, from_logits=True, features=features, clusters=cluster)
    assert Outputs.of(rows).fitted(MultiCalibration()).rounds_ == 0


def test_speed():
    rng = np.random.default_rng(0)
    z, _ = two_columns(50_000, 0)
    features = rng.normal(size=(50_000, 10))
    y = drawn(shifted(z, 1.0 * (features[:, 0] > 1)), 0)
    start = time.perf_counter()
    model = MultiCalibration(from_logits=True).fit(z, y, features=features)
    assert model.rounds_ > 0
    assert time.perf_counter() - start < 20  # measured: 1.3 s


# --- the contract


@pytest.fixture(scope="module")
def both() -> tuple[MultiCalibration, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    z, groups = two_columns(4000, 3)
    features = rng.normal(size=(4000, 4))
    y = drawn(shifted(z, 1.0 * groups[:, 0] + 1.5 * (features[:, 2] > 0.5)), 4)
    names = np.array(["a", "b"])[groups]
    model = MultiCalibration(from_logits=True).fit(z, y, features=features, groups=names)
    return model, z, {"features": features, "groups": names}


def test_features_and_groups_together(both):
    model, z, sides = both
    assert any(table.any() for table in model.tables_)
    assert len(model.leaves_)
    again = from_json(to_json(model))
    np.testing.assert_array_equal(again.predict_proba(z, **sides), model.predict_proba(z, **sides))
    assert model.fitted_with == ("features", "groups")
    with pytest.raises(InputError, match="`groups`: must be given"):
        model.predict_proba(z, features=sides["features"])
    with pytest.raises(InputError, match="`groups`: must have the 2 columns"):
        model.predict_proba(z, sides["features"], sides["groups"][:, 0])
    with pytest.raises(InputError, match="`features`: must have the 4 columns"):
        model.predict_proba(z, sides["features"][:, :2], sides["groups"])


@pytest.mark.parametrize("numbers", [False, True])
def test_onnx_with_features_and_groups(both, numbers):
    pytest.importorskip("onnxruntime")
    from probaudit.calibrators import to_onnx
    from tests.calibrators.test_onnx import ran

    model, z, sides = both
    groups = sides["groups"]
    if numbers:
        groups = (groups == "b").astype(np.int64)
        y = drawn(shifted(z, 1.0 * groups[:, 0]), 0)
        model = MultiCalibration(from_logits=True).fit(z, y, **sides | {"groups": groups})
    groups = groups.copy()
    groups[:5, 1] = 7 if numbers else "unseen"
    graph = to_onnx(model, check=(z, sides["features"], groups))
    fed = groups if numbers else groups.astype(object)
    found, _ = ran(graph, z, features=sides["features"], groups=fed)
    expected = model.predict_proba(z, sides["features"], groups)
    assert np.abs(found - expected).max() < 1e-12
    with pytest.raises(InputError, match=r"a tuple \(P, features, groups\)"):
        to_onnx(model, check=z)
    with pytest.raises(InputError, match="its groups must have 2 columns"):
        to_onnx(model, check=(z, sides["features"], groups[:, 0]))


def test_groups_of_different_types_are_not_exported():
    pytest.importorskip("onnx")
    from probaudit.calibrators import to_onnx

    z, groups = two_columns(300, 0)
    mixed = np.column_stack([groups[:, 0].astype(object), np.array(["a", "b"])[groups[:, 1]]])
    model = MultiCalibration(rounds=3, from_logits=True).fit(z, drawn(z, 0), groups=mixed)
    assert [known.dtype.kind for known in model.groups_] == ["i", "U"]
    with pytest.raises(InputError, match="columns of groups of one type"):
        to_onnx(model)


def test_unseen_groups_keep_the_shared_calibrator():
    z, groups = two_columns(4000, 0)
    y = drawn(shifted(z, 1.0 * groups[:, 0]), 0)
    model = MultiCalibration(from_logits=True).fit(z, y, groups=groups[:, 0])
    assert model.rounds_ > 0
    new = model.predict_proba(z[:9], groups=np.full(9, 5))
    np.testing.assert_allclose(new, model.whole_.predict_proba(z[:9]), atol=1e-12)


def test_order_and_weights_with_groups_and_features():
    rng = np.random.default_rng(0)
    z, groups = two_columns(1500, 0)
    features = rng.normal(size=(1500, 2))
    y = drawn(shifted(z, 1.5 * groups[:, 0] + (features[:, 0] > 0)), 0)
    w = rng.integers(0, 3, 1500)

    def fitted(rows, weights=None) -> np.ndarray:
        model = MultiCalibration(from_logits=True)
        model.fit(z[rows], y[rows], weights, features=features[rows], groups=groups[rows])
        assert model.rounds_ > 0
        return model.predict_proba(z, features=features, groups=groups)

    every = np.arange(1500)
    np.testing.assert_allclose(fitted(rng.permutation(every)), fitted(every), atol=1e-6)
    np.testing.assert_allclose(fitted(np.repeat(every, w)), fitted(every, w), atol=1e-6)


def test_small_groups_and_few_rows():
    z, groups = two_columns(60, 0)
    y = drawn(z, 0)
    model = MultiCalibration(rounds=5, from_logits=True).fit(z, y, groups=np.arange(60))
    assert not np.any([table.any() for table in model.tables_])  # no group has min_rows rows
    one = MultiCalibration(from_logits=True).fit(z, y, groups=groups, clusters=np.zeros(60))
    assert one.rounds_ == 0
    assert "too few rows" in one.fit_report_.status


def test_one_round_is_singular():
    z, groups = two_columns(4000, 0)
    y = drawn(shifted(z, 2.0 * groups[:, 0]), 0)
    model = MultiCalibration(max_rounds=1, from_logits=True).fit(z, y, groups=groups)
    assert model.fit_report_.status.startswith("1 round: the held-out log loss falls by")


@pytest.mark.parametrize(
    "choice", [{"rounds": -1}, {"max_rounds": 1.5}, {"depth": 0}, {"min_rows": 0}, {"rate": 0.0}]
)
def test_bad_choices(choice):
    z, _ = two_columns(60, 0)
    with pytest.raises(InputError, match=f"`{next(iter(choice))}`"):
        MultiCalibration(from_logits=True, **choice).fit(z, drawn(z, 0))


def test_bad_groups():
    z, groups = two_columns(60, 0)
    y = drawn(z, 0)
    for wrong in (groups[:30], groups[:, :, None], np.full(60, np.nan), np.empty((60, 0))):
        with pytest.raises(InputError, match="`groups`"):
            MultiCalibration(from_logits=True).fit(z, y, groups=wrong)
    with pytest.raises(InputError, match="`clusters`"):
        MultiCalibration(from_logits=True).fit(z, y, clusters=np.arange(30))


def test_selection_judges_groups_that_overlap():
    z, groups = two_columns(5000, 0)
    y = drawn(shifted(z, 0.8 * groups[:, 0] - 0.8 * groups[:, 1]), 0)
    rows = pb.Predictions(
        y, z, from_logits=True, columns={"old": groups[:, 0], "rural": groups[:, 1]}
    )
    choice = pb.select_calibrator(rows, groups=("old", "rural"))
    assert choice.chosen == "multicalibration"
    assert choice.gain.low > 0.02
    assert choice.calibrator.group_columns == 2
    assert pb.select_calibrator(y, z, from_logits=True, groups=groups).chosen == choice.chosen
    with pytest.raises(InputError, match="`groups`: must be one column"):
        pb.calibration_loss(rows, calibrator=PerGroup(), groups=("old", "rural"))
    with pytest.raises(InputError, match=r"`groups`.*one of the columns"):
        pb.calibration_loss(rows, calibrator=MultiCalibration(), groups=("old", "absent"))


def test_sums_by_cell_leave_out_rows_without_one():
    rng = np.random.default_rng(0)
    sizes, values = [3, 5], rng.normal(size=(200, 4))
    cells = np.column_stack([rng.integers(-1, size, 200) for size in sizes])
    direct = [
        values[cells[:, k] == cell].sum(axis=0)
        for k, size in enumerate(sizes)
        for cell in range(size)
    ]
    np.testing.assert_allclose(_cell_matrix(cells, sizes) @ values, direct, rtol=1e-12)
