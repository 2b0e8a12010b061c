"""Calibrators over repeated random splits, and the corrected resampled t-test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

import probaudit as pb
from probaudit.calibrators import GroupCalibration, PerGroup, TemperatureScaling
from probaudit.errors import InputError
from probaudit.simulate import gaussian_posteriors


def test_tests_are_the_paired_one_and_its_correction() -> None:
    """The paired t-test of scipy; and Nadeau & Bengio 2003: s^2 (1 / R + n2 / n1), by hand."""
    a, b = np.random.default_rng(0).normal(size=(2, 15))
    found = pb.resampled_t_test(a - b, 0.25)
    plain = ttest_rel(a, b)
    assert found.naive_t == pytest.approx(plain.statistic)
    assert found.naive_p == pytest.approx(plain.pvalue)
    assert found.t == pytest.approx((a - b).mean() / np.sqrt((1 / 15 + 0.25) * (a - b).var(ddof=1)))
    half = 2.1447867 * (found.value / found.t)  # the 0.975 quantile of t with 14 degrees of freedom
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))


@pytest.mark.parametrize(
    ("values", "p"), [(np.zeros(5), 1.0), (np.full(5, 0.1), 0.0), (np.array([0.1, np.nan]), np.nan)]
)
def test_differences_without_variance_or_values(values: np.ndarray, p: float) -> None:
    found = pb.resampled_t_test(values, 1.0)
    assert (found.p, found.naive_p) == pytest.approx((p, p), nan_ok=True)


def false_alarms(share: float, worlds: int, splits: int) -> tuple[float, float]:
    """How often the corrected and the naive test find a difference at 5% between two forecasts of
    equal expected score: the truth plus noise, of two independent draws."""
    corrected = naive = 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.2, 0.8, 300)
        noisy = {name: np.clip(p + rng.normal(0, 0.1, 300), 0.01, 0.99) for name in "ab"}
        place = np.arange(300.0)[:, None]

        def method(name: str, forecasts: dict[str, np.ndarray] = noisy):
            def procedure(train: pb.Predictions, test: pb.Predictions) -> np.ndarray:
                q = forecasts[name][np.asarray(test.features)[:, 0].astype(int)]
                return np.column_stack([1 - q, q])

            return procedure

        found = pb.repeated_splits(
            (rng.random(300) < p).astype(int),
            p,
            features=place,
            methods={"a": method("a"), "b": method("b")},
            metrics={"Brier": lambda rows: np.mean((rows.probs[:, 1] - rows.y) ** 2)},
            splits=splits,
            share=share,
        ).difference("b", "Brier")
        corrected += found.p < 0.05
        naive += found.naive_p < 0.05
    return corrected / worlds, naive / worlds


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_false_alarms_are_nominal_only_with_the_correction(share: float) -> None:
    """5% of 200 worlds: the 99.9% limits of the binomial distribution are 0.5% and 11%."""
    corrected, naive = false_alarms(share, worlds=200, splits=20)
    assert 0.005 <= corrected <= 0.11
    assert naive > 0.4


def test_values_are_those_of_each_split_by_hand() -> None:
    world = gaussian_posteriors(400, 3)
    found = pb.repeated_splits(
        world.y, world.mcs, methods=["identity", "temperature"], splits=4, share=0.25, seed=3
    )
    assert found.methods == ("identity", "temperature")
    assert found.values.shape == (2, 3, 4)
    assert (found.train_rows, found.test_rows, found.test_to_train) == (100, 300, 3.0)
    codes = np.asarray(world.y)
    for split in range(4):
        order = np.random.default_rng((3, split + 1)).permutation(len(codes))
        train, test = np.sort(order[:100]), np.sort(order[100:])
        fit = TemperatureScaling().fit(world.mcs[train], codes[train])
        p = fit.predict_proba(world.mcs[test])
        assert found.of("temperature", "log loss")[split] == pytest.approx(
            float(pb.log_score(codes[test], p))
        )
        assert found.of("identity", "ECE")[split] == pytest.approx(
            float(pb.calibration_error(codes[test], world.mcs[test]))
        )
    table = found.to_frame()
    assert table.columns.tolist() == [
        *("metric", "method", "mean", "sd", "difference", "low", "high", "p", "naive_p")
    ]
    row = table[(table.metric == "Brier score") & (table.method == "temperature")].iloc[0]
    against = found.difference("temperature", "Brier score")
    assert (row.difference, row.p) == (against.value, against.p)
    assert row.difference == pytest.approx(
        (found.of("temperature", "Brier score") - found.of("identity", "Brier score")).mean()
    )
    assert "minus identity" in repr(found)
    assert "4 random splits: 100 rows for calibration, 300 rows for tests" in repr(found)


def test_splits_keep_clusters_whole_and_pass_features() -> None:
    world = gaussian_posteriors(300, 2)
    clusters = np.repeat(np.arange(60), 5)[: len(world.y)]
    features = np.column_stack([np.arange(len(world.y))])
    seen = []

    def method(train: pb.Predictions, test: pb.Predictions) -> np.ndarray:
        seen.append((set(train.clusters.tolist()), set(test.clusters.tolist())))
        assert train.features.shape == (len(train), 1)
        return test.probabilities()

    found = pb.repeated_splits(
        world.y,
        world.cal,
        features=features,
        clusters=clusters,
        methods={"own": method, "groups": GroupCalibration(n_partitions=2)},
        baseline="groups",
        splits=3,
    )
    assert all(not (train & test) for train, test in seen)
    assert found.test_to_train == 1.0
    assert found.baseline == "groups"


def test_an_infinite_metric_has_no_test() -> None:
    y, p = np.array([0, 1] * 20), np.full(40, 0.5)

    def sure(train: pb.Predictions, test: pb.Predictions) -> np.ndarray:
        return np.tile([1.0, 0.0], (len(test), 1))

    found = pb.repeated_splits(y, p, methods={"half": lambda _, t: t.probabilities(), "sure": sure})
    assert found.to_frame()["mean"][1] == np.inf
    assert np.isnan(found.difference("sure", "log loss").p)
    assert found.difference("sure", "Brier score").p < 0.05
    assert "∞" in repr(found) or "inf" in repr(found)


def test_bad_choices_are_named() -> None:
    y, p = np.array([0, 1] * 20), np.linspace(0.1, 0.9, 40)

    def call(**choices: object) -> object:
        return pb.repeated_splits(y, p, **({"methods": ["temperature"]} | choices))

    for choices, words in (
        ({"methods": []}, "`methods`: must be names"),
        ({"methods": "temperature"}, "`methods`: must be names"),
        ({"methods": ["none such"]}, "`methods`: must be a list of"),
        ({"methods": {"a": 3}}, "`methods`"),
        ({"methods": {"a": lambda _, test: np.ones(3)}}, r"`methods`: .*\[20, 2\]"),
        ({"methods": {"a": PerGroup()}}, "`groups`"),
        ({"baseline": "other"}, "`baseline`: must be one of temperature"),
        ({"splits": 1}, "`splits`"),
        ({"share": 1.0}, "`share`"),
        ({"share": 0.001}, "`share`: must leave rows on both sides"),
        ({"metrics": {}}, "`metrics`"),
        ({"features": np.ones((40, 1))}, "`features`: must be used"),
    ):
        with pytest.raises(InputError, match=words):
            call(**choices)
    found = call(splits=2)
    with pytest.raises(InputError, match="`metric`: must be one of log loss"):
        found.of("temperature", "none")
    for values, ratio in (([1.0], 1.0), ([1.0, 2.0], 0.0)):
        with pytest.raises(InputError):
            pb.resampled_t_test(values, ratio)
