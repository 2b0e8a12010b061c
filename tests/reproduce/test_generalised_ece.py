"""Paper 3: interventions under lenses, their claims on networks with known truth, and resampled
errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import probaudit as pb
from probaudit.choices.lenses import Full, TopLabel, View
from probaudit.choices.partitions import EqualWidth, KDTree, Whole
from probaudit.errors import InputError
from probaudit.reproduce import generalised_ece
from probaudit.reproduce.generalised_ece_figures import BarsByMethod
from probaudit.reproduce.generalised_ece_files import SUPERCLASSES, cifar_100
from probaudit.reproduce.generalised_ece_granularity import (
    granularity,
    resampled_errors,
    view_error,
)
from probaudit.reproduce.generalised_ece_intervals import interval_measures, interval_wise
from probaudit.reproduce.generalised_ece_lenses import (
    BY_CELLS,
    GROUPS,
    INTERVENTIONS,
    USUAL,
    group_measures,
    groups,
    histogram_bins,
    indicator,
    opposite_pairs,
    top_k,
)
from probaudit.reproduce.generalised_ece_trials import BASE, METHODS, Measured, over_trials, trials
from probaudit.reproduce.printed_values import printed_values
from probaudit.reproduce.trained import Networks

TRAINING = {"network": "mlp", "rows": 100, "epochs": 1, "seeds": 3}
SCALE = {"base": 2.5, "label smoothing": 0.8, "mix-up": 1.0, "focal loss": 0.5}


@dataclass(frozen=True)
class Simulated(Networks):
    """Logits of known quality in place of trained networks: those of mix-up are calibrated, the
    others times a factor."""

    def outputs(self, recipe, part="test", *, corruption="", severity=0):
        rng = np.random.default_rng([recipe.seed, part == "test"])
        logits = 1.5 * rng.normal(size=(2000, 10))
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        labels = (probs.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1).clip(0, 9)
        return pb.Predictions(labels, SCALE[recipe.intervention] * logits, from_logits=True)


@pytest.fixture(scope="module")
def networks():
    return Simulated(Path())


def verdicts(outcome, ending):
    """The verdict of each method on the claim with this ending."""
    return {
        claim.statement.partition(": ")[0].partition(", ")[2]: claim.holds
        for claim in outcome.claims
        if claim.statement.endswith(f": {ending}")
    }


def cells(outcome):
    return {(row.row.partition(", ")[2], row.column): row for row in outcome.rows}


def test_intervals_over_trials_are_those_of_scipy():
    values = np.array([0.1, 0.3, 0.2, 0.25, 0.4])
    expected = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert over_trials(values).interval == pytest.approx(expected)


def test_top_k_on_known_truth(networks):
    """Outputs that are too extreme improve by each recalibration. Those of label smoothing and
    focal loss are underconfident here."""
    outcome = top_k(networks, "simulated", **TRAINING)
    falls = verdicts(outcome, f"{USUAL} falls")
    assert tuple(falls) == INTERVENTIONS
    assert all(falls[method] for method in ("label smoothing", "mix-up", "TS", "BCTS", "HB"))
    assert set(verdicts(outcome, "largest probability falls").values()) == {True}
    assert set(verdicts(outcome, "entropy rises").values()) == {True}
    found = cells(outcome)
    assert found["TS", "accuracy"].ours == found[BASE, "accuracy"].ours
    assert found[BASE, "accuracy"].printed == 0.844  # Table 4, ResNet50
    assert found[BASE, "accuracy"].agrees is None  # other data
    calibrated = found["mix-up", "full ECE"].ours
    assert calibrated == pytest.approx(found["mix-up", "full ECE if calibrated"].ours, rel=0.1)
    assert found[BASE, "full ECE"].ours > 2 * found[BASE, "full ECE if calibrated"].ours


def test_the_usual_error_predicts_the_others_if_one_factor_explains_all(networks):
    outcome = indicator(networks, "simulated", **TRAINING)
    found = cells(outcome)
    assert found["top-1 ECE", "rank correlation"].ours > 0.8
    assert found["top-1 ECE", "rank correlation"].high <= 1
    lowest, highest = (
        found["top-1 ECE", f"without one method, {end}"].ours for end in ("lowest", "highest")
    )
    assert lowest < found["top-1 ECE", "rank correlation"].ours < highest
    # lower confidence raises the error of rows selected by their label
    assert found["group ECE given label", "rank correlation"].ours < 0.7


def test_opposite_pairs_need_significance():
    noise = np.array([-0.01, 0.0, 0.01])
    usual = np.stack([0.1 + noise, 0.2 - noise, 0.3 + noise], axis=1)
    other = np.stack([0.3 + noise, 0.2 - noise, 0.21 + 10 * noise], axis=1)
    found = Measured(("a", "b", "c"), (USUAL, "other"), np.stack([usual, other], axis=2))
    assert opposite_pairs(found, "other") == [("a", "b")]


def test_errors_given_a_label_are_one_less_the_confidence():
    """By plain numpy; and their expected value by labels drawn from the forecasts."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(10, 0.3), 20_000)
    y = (p.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1).clip(0, 9)
    found = group_measures(y, p)
    for name, columns in GROUPS.items():
        own = p[:, columns].sum(axis=1)[np.isin(y, columns)].mean()
        assert found[f"ECE given {name}"] == pytest.approx(1 - own, abs=1e-9)
        assert found[f"{name}, expected"] == pytest.approx(1 - own, abs=0.015)
    assert found["group ECE"] < 0.05  # calibrated: noise only


def test_cells_do_not_change_errors_given_a_label(networks):
    outcome = groups(networks, "simulated", **TRAINING)
    assert set(verdicts(outcome, BY_CELLS).values()) == {False}
    rises = {
        method: holds
        for claim, holds in [(c.statement, c.holds) for c in outcome.claims]
        if " given " in claim and claim.endswith(" rises")
        for method in [claim.partition(": ")[0].partition(", ")[2]]
    }
    assert rises["focal loss"] is True
    assert len(rises) == len(INTERVENTIONS)


def test_intervals(networks):
    outcome = interval_wise(networks, "simulated", **TRAINING)
    more = verdicts(outcome, "more rows in the medium interval")
    assert more["mix-up"] is more["TS"] is True
    found = cells(outcome)
    for method in METHODS:
        shares = [found[method, f"{one}, share"].ours for one in ("low", "medium", "high")]
        assert sum(shares) == pytest.approx(1)
    assert found[BASE, "high, TVD"].ours > found["mix-up", "high, TVD"].ours


def test_intervals_without_rows_have_no_error():
    y, p = np.array([0, 1, 0, 0]), np.array([0.1, 0.2, 0.15, 0.05])
    found = interval_measures(y, np.stack([1 - p, p], axis=1))
    assert (found["low, share"], found["high, share"]) == (1.0, 0.0)
    assert math.isnan(found["high, outside"])
    assert found["outside, all rows"] == found["low, outside"]


def test_histogram_binning_has_all_kinds(networks):
    found = cells(histogram_bins(networks, "simulated", [5, 15], **TRAINING))
    methods = {method for method, _ in found}
    assert methods == {BASE} | {
        f"HB, {bins} of equal {equal}" for bins in (5, 15) for equal in ("width", "mass")
    }


def test_post_hoc_methods_of_groups_are_fitted_to_groups(networks):
    (one, *_) = trials(networks, **TRAINING, groups={"a": (0, 1, 2), "b": tuple(range(3, 10))})
    assert {p.shape for p in one.probs.values()} == {(2000, 2)}
    assert set(np.unique(one.labels)) == {0, 1}
    ece = {m: pb.calibration_error(one.labels, p, lens=pb.Binary()) for m, p in one.probs.items()}
    assert ece["TS"] < ece[BASE] / 2


def test_errors_of_views_are_calibration_errors():
    world = pb.simulate.gaussian_posteriors(1000, 4, seed=0)
    for lens, partition in ((Full(), KDTree(2.0**-4)), (TopLabel(), EqualWidth(15))):
        expected = pb.calibration_error(
            world.y, world.mcs, lens=lens, partition=partition, distance="tvd"
        )
        assert view_error(lens.view(world.mcs, world.y), partition) == pytest.approx(expected)


def test_the_deviation_of_resamples_is_that_of_a_mean():
    """In one cell, the error is the absolute mean of output less target."""
    rng = np.random.default_rng(0)
    p = np.full(4000, 0.8)
    view = View(p, (rng.random(4000) < 0.5).astype(np.int64))
    for size in (400, 4000):
        errors = resampled_errors(view, Whole(), size, 1000)
        assert errors.std() == pytest.approx(0.5 / math.sqrt(size), rel=0.08)
        assert errors.mean() == pytest.approx(0.3, abs=0.02)


def test_granularity():
    world = pb.simulate.gaussian_posteriors(3000, 4, seed=0)
    rows = pb.Predictions(world.y, world.mcs)
    outcome = granularity(rows, "simulated", 6, [2, 4], [0.1, 1.0], resamples=60)
    assert outcome.claims[1].holds is True
    assert 2 < outcome.claims[1].value < 4  # the square root of ten
    found = cells(outcome)
    sizes = [found[f"gamma 1/{2**k}", "rows per cell, most"].ours for k in range(1, 7)]
    assert all(size < 3000 / 2**k for k, size in enumerate(sizes, 1))  # split from there on
    assert found["gamma 1/64", "full ECE"].ours > found["gamma 1/2", "full ECE"].ours
    assert found["summary", "range over gamma"].printed == 0.08
    deviations = outcome.figures["deviations"].columns()
    assert len(deviations["sd"]) == 2 * 2 * 2


def test_superclasses():
    assert np.bincount(SUPERCLASSES).tolist() == [5] * 20
    world = pb.simulate.gaussian_posteriors(100, 4, seed=0)
    with pytest.raises(InputError, match="requires the 100 classes of CIFAR-100"):
        cifar_100(pb.Predictions(world.y, world.mcs), "other", 5)


def test_most_confusions_are_within_superclasses_as_far_as_known(shared):
    """Chance is 4 of 99: the classes of the files are in the order of the superclasses here."""
    member = np.array(SUPERCLASSES)
    for _, file in generalised_ece.CIFAR_100:
        with np.load(shared / "data" / f"{file}.npz") as stored:
            outputs = stored["logits" if "logits" in stored else "probs"]
            labels, found = stored["labels"], outputs.argmax(axis=1)
        wrong = found != labels
        assert (member[found] == member[labels])[wrong].mean() > 0.3


def test_cifar_100_methods():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 100, 3000)
    logits = 6 * (np.eye(100)[labels] + rng.normal(0, 0.5, (3000, 100)))
    outcome = cifar_100(pb.Predictions(labels, logits, from_logits=True), "simulated", 20)
    found = cells(outcome)
    assert found[BASE, "accuracy"].printed == 0.739  # Table 1, ResNet50
    assert found["TS", USUAL].ours < found[BASE, USUAL].ours
    assert verdicts(outcome, "top-1 ECE falls")["TS"] is True


def test_bars_show_changes_below_zero_and_errors_from_zero():
    values = np.array([[[0.2], [0.1]], [[0.3], [0.1]]])
    found = Measured((BASE, "TS"), ("ECE",), values)
    bars = BarsByMethod.of(found, {"ECE": "error"}, "title", "y")
    points = [mark for mark in bars.picture().panels[0].marks if hasattr(mark, "low")]
    assert float(points[0].low[0]) == 0.0  # of two trials, Student's interval begins below zero
    change = BarsByMethod.of(found, {"ECE": "error"}, "title", "y", change=True, without=(BASE,))
    assert change.columns()["value"].tolist() == pytest.approx([-0.15])
    assert change.columns()["method"].tolist() == ["TS"]


def test_printed_accuracies():
    printed = printed_values("generalised_ece")
    assert len(printed) == 24
    assert printed["Table 6", "mix-up", "accuracy"] == 0.828
    tables = {part for part, _, _ in printed if part.startswith("Table")}
    assert {(part, m, "accuracy") for part in tables for m in METHODS} <= set(printed)


def test_without_outcomes_nothing_is_found():
    assert generalised_ece.findings({}) == []
