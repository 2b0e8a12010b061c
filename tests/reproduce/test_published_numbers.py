"""The numbers of the papers: printed, or from their authors' codes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import probaudit as pb
from probaudit.reproduce import proper_scores, sharpness
from probaudit.reproduce.data_folder import DataFolder
from probaudit.reproduce.printed_values import printed_values
from probaudit.reproduce.proper_scores_real import better_though_miscalibrated
from probaudit.reproduce.proper_scores_simulated import SYSTEMS, figure_7, table_1
from probaudit.reproduce.proper_scores_world import published_world
from probaudit.reproduce.sharpness_tables import METHODS, recalibrated

REAL = [one for one in proper_scores.PAPER.experiments if one.run is proper_scores.table_2]
NETWORKS = [one for one in sharpness.PAPER.experiments if one.run is sharpness.table]


@pytest.fixture(scope="module")
def data(shared):
    return DataFolder.of(shared / "data")


def outcome_of(experiment, data):
    if data.missing(experiment.files):
        pytest.skip(f"no predictions for {experiment.title}")
    return experiment.run(*map(data.rows, experiment.files), **experiment.quick)


@pytest.mark.parametrize(
    ("name", "classes", "n", "variance"),
    [("K2_N400", 2, 400, 0.15), ("K2_N2000", 2, 2000, 0.15), ("K10_N2000", 10, 2000, 0.08)],
)
def test_the_samples_of_the_paper_are_drawn_again(shared, name, classes, n, variance):
    world = published_world(n, classes, variance=variance)
    with np.load(shared / "golden" / f"ferrer_sim_{name}.npz") as stored:
        np.testing.assert_array_equal(world.sample.y, stored["targets"])
        for system in SYSTEMS:
            theirs = np.exp(stored[system])
            np.testing.assert_allclose(world.system(system), theirs, atol=1e-12)


def test_the_folds_of_the_paper_are_made_again(shared):
    """Within a fold, direction-preserving calibration is one affine map of log-odds."""
    world = published_world(400)
    with np.load(shared / "golden" / "ferrer_sim_K2_N400.npz") as stored:
        for system in SYSTEMS:
            for method, short in (("D", "aff"), ("T", "tem")):
                before, after = (
                    np.diff(stored[key])[:, 0] for key in (system, f"{system}-{short}calxv")
                )
                folds = world.folds[system, method]
                for fold in range(5):
                    x, z = before[folds == fold], after[folds == fold]
                    line = np.polynomial.Polynomial.fit(x, z, 1)
                    np.testing.assert_allclose(line(x), z, atol=1e-4 * np.ptp(z))


def test_table_1_has_the_printed_integers():
    """With the normalisers of the authors' code, for 200 and 2,000 rows; and by the caption, where
    column T is 0 because the temperature is a stationary point."""
    printed = table_1([200, 2000], by_caption=False).rows
    assert len(printed) == 4 * 2 * 7
    assert [row for row in printed if round(row.ours) != row.printed] == []
    plain = table_1([200], by_caption=True)
    assert {row.agrees for row in plain.rows} == {None}
    values = {(row.row, row.column): row for row in plain.rows}
    row = values["Ttt", "mcp, N = 200"]
    assert (abs(row.ours) < 1e-6, row.printed) == (True, 29)
    assert values["Htt", "mcs, N = 200"].ours == pytest.approx(-153.0, abs=0.1)
    assert plain.claims[0].holds is True


@pytest.mark.parametrize("experiment", REAL, ids=lambda one: one.name)
def test_table_2(data, experiment):
    """Within 0.002 of NCE and 0.5 points of RCL, for raw and all calibrated posteriors."""
    rows = outcome_of(experiment, data).rows
    kinds = {row.row.rpartition(", ")[2] for row in rows}
    assert {"raw", "cal", "calt"} <= kinds
    for column, tolerance in (("NCE", 0.002), ("RCL", 0.5)):
        found = [row for row in rows if row.column == column]
        assert len(found) == len(kinds)
        assert max(abs(row.ours - row.printed) for row in found) <= tolerance
    assert [row for row in rows if row.agrees is not True] == []


def test_two_systems_of_table_2(data):
    names = ("ferrer_cifar10_resnet20", "ferrer_cifar10_repvgg_a2")
    found = better_though_miscalibrated(*map(data.rows, names))
    assert found.claims[0].holds is True
    # Table 2: NCE 0.092 and 0.101, times the entropy of ten equal classes
    assert found.claims[1].value == pytest.approx((0.092 - 0.101) * math.log(10), abs=0.003)


def test_figure_7_knows_a_proper_divergence():
    claims = figure_7(points=99).claims
    assert [claim.holds for claim in claims] == [True] * 4
    assert [claim.value < 0.01 for claim in claims] == [False, False, True, True]


@pytest.mark.parametrize("experiment", NETWORKS, ids=lambda one: one.name)
def test_mean_replacement(data, experiment):
    """On CIFAR, calibration errors fall and both proper scores rise with 95% confidence; two of
    the binary networks have an original log loss above that of mean replacement."""
    claims = {one.statement.partition(": ")[2]: one for one in outcome_of(experiment, data).claims}
    assert claims["ECE falls"].value < 0
    assert claims["ACE falls"].value < 0
    assert claims["Brier score rises"].holds is True
    if "cifar" in experiment.name:
        assert claims["log loss rises"].holds is True
        assert claims["log loss is above that of temperature scaling"].holds is True
    if experiment.name in ("table-own_spambase_mlp_test", "table-ferrer_pneumoniamnist_resnet50"):
        assert claims["log loss rises"].holds is False


def test_the_methods_of_table_1_in_paper_5():
    world = pb.simulate.gaussian_posteriors(1000, 4, seed=3)
    rows = pb.Predictions(world.y, np.log(world.mcs + 1e-12), from_logits=True)
    y, found = recalibrated(rows, 0.2)
    assert len(y) == len(world.y) - round(0.2 * len(world.y))
    assert tuple(found) == METHODS
    accuracy = {name: (p.argmax(axis=1) == y).mean() for name, p in found.items()}
    assert accuracy["baseline"] == accuracy["TS"] == accuracy["MRR"]
    assert len(np.unique(found["MRR"].max(axis=1))) == 1


def test_printed_values_are_complete():
    papers = {"proper_scores": 582, "sharpness": 180}
    assert {name: len(printed_values(name)) for name in papers} == papers
    assert printed_values("sharpness")["Table 6", "HB", "NLL"] == math.inf
    assert printed_values("sharpness")["Table 1", "MRR", "ECE"] == 0.18


def test_kernel_errors_of_the_authors_code(shared, data):
    """Appendix H uses the confidence as the probability of a correct prediction."""
    cases = json.loads((shared / "golden" / "h_sharpcal.json").read_text())["cases"]
    rows = data.rows("own_digits_mlp_test")
    p = np.exp(rows.probs - rows.probs.max(axis=1, keepdims=True)).astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    right = (p.argmax(axis=1) == rows.codes).astype(int)
    for kernel, width, key in (
        ("gaussian", 0.05, "gauss_0.05"),
        ("epanechnikov", 0.05, "epan_0.05"),
    ):
        found = pb.kernel_calibration_error(
            right, p.max(axis=1), lens=pb.Binary(), kernel=kernel, bandwidth=width
        )
        assert found == pytest.approx(cases["own_digits_mlp_test"][key]["cal"], rel=0.01)
