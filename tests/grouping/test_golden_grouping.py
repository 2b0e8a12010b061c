"""Grouping loss against the paper's own code: golden/b_*, produced by
aperezlebel/beyond_calibration@ba1303a."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

from probaudit import Binary, Edges, EqualWidth, TopLabel
from probaudit.grouping.loss import grouping_loss
from probaudit.grouping.lower_bound import BRIER, RegionCounts, explained_loss
from probaudit.grouping.regions import BalancedStump, Division, Regions
from tests.conftest import softmax

# The region counts of `fig4_seed0_uniform15_kmeans2` are not stored and k-means does not come out
# the same; see below.
TREES = [
    *(f"fig4_seed{seed}_uniform15_nspcb{ratio}" for seed in range(3) for ratio in (30, 100)),
    "fig4_seed0_quantile15_nspcb30",
    "fig4_seed0_uniform15_tree_maxclusters2",
    "own_spambase_mlp_test_toplabel_feat_nspcb30",
    "own_digits_mlp_test_toplabel_feat_nspcb30",
]


class ReferenceTree(Regions):
    """The tree of the paper's code: scikit-learn's, with `clusters` regions or one for `ratio` test
    rows."""

    def __init__(self, labels, ratio=30, clusters=None):
        self.labels, self.ratio, self.clusters = labels, ratio, clusters

    def divide(self, features, level):
        clusters = self.clusters or max(1, len(level.test) // self.ratio)
        tree = DecisionTreeRegressor(min_samples_leaf=len(level.train) // clusters, random_state=0)
        tree.fit(features.values[level.train], self.labels[level.train])
        return Division(tree.apply(features.values[level.test]), str)


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "golden" / "b_grouping_loss.json").read_text())


def case(shared, name):
    """Labels, outputs, features and lens of a case."""
    if name.startswith("fig4"):
        rows = np.load(shared / "golden" / f"b_{name[:10]}.npz")
        return rows["y"], rows["scores"], rows["X"], Binary()
    rows = np.load(shared / "data" / f"{name.split('_toplabel')[0]}.npz")
    return rows["labels"], softmax(rows["logits"].astype(np.float64)), rows["features"], TopLabel()


def bins_of(name, outputs):
    return (
        Edges(np.quantile(outputs, np.linspace(0, 1, 16))) if "quantile" in name else EqualWidth(15)
    )


def reference_split(bins):
    """Half of each bin, as the paper's code draws it; `test_idx` of the stored cases."""
    test = np.zeros(len(bins), bool)
    for number in np.flatnonzero(np.bincount(bins) > 1):
        test[train_test_split(np.flatnonzero(bins == number), test_size=0.5, random_state=0)[1]] = (
            True
        )
    return test


@pytest.mark.parametrize("seed", range(3))
def test_stored_region_counts(shared, golden, seed):
    rows, expected = (
        np.load(shared / "golden" / f"b_fig4_seed{seed}.npz"),
        golden["cases"][f"fig4_seed{seed}_uniform15_nspcb30"],
    )
    found = explained_loss(RegionCounts.of_counts(rows["frac_pos"], rows["counts"]), BRIER)
    assert found.plugin == pytest.approx(expected["LB_biased"], abs=1e-15)
    assert found.bias == pytest.approx(expected["bias"], abs=1e-15)
    assert found.thin.sum() == expected["n_size_one"]


@pytest.mark.parametrize("seed", range(3))
def test_the_reference_split_is_the_stored_one(shared, seed):
    rows = np.load(shared / "golden" / f"b_fig4_seed{seed}.npz")
    assert np.array_equal(
        np.flatnonzero(reference_split(EqualWidth(15).cells(rows["scores"]))),
        np.sort(rows["test_idx"]),
    )


@pytest.mark.parametrize("name", TREES)
def test_every_case_with_the_reference_split_and_tree(shared, golden, name):
    y, outputs, features, lens = case(shared, name)
    expected = golden["cases"][name]
    view = lens.view(outputs if outputs.ndim == 2 else np.column_stack([1 - outputs, outputs]), y)
    bins = bins_of(name, outputs)
    tree = ReferenceTree(
        view.labels, 100 if "nspcb100" in name else 30, 2 if "maxclusters2" in name else None
    )
    found = grouping_loss(
        y,
        outputs,
        features,
        lens=lens,
        bins=bins,
        regions=tree,
        split=reference_split(bins.cells(view.outputs)),
        curve="knn",
        induced="bins",
        interval=None,
    )
    assert found.plugin == pytest.approx(expected["LB_biased"], abs=1e-9)
    assert found.bias == pytest.approx(expected["bias"], abs=1e-9)
    assert found.explained == pytest.approx(expected["LB_debiased"], abs=1e-9)
    assert found.induced == pytest.approx(expected["GL_ind"], abs=1e-9)
    assert found.calibration_induced == pytest.approx(expected["CL_ind"], abs=1e-9)
    assert found.lower_bound == pytest.approx(expected["LB_final"], abs=1e-9)
    assert len(found.regions) == expected["n_clusters"]
    assert found.thin_regions == expected["n_size_one"]


@pytest.mark.parametrize("regions", ["balanced_stump", BalancedStump()])
def test_the_balanced_stump_of_the_paper(shared, golden, regions):
    """Halves at the median: the bound is 0.00397."""
    y, outputs, features, lens = case(shared, "fig4_seed0")
    expected = golden["cases"]["fig4_seed0_uniform15_tree_maxclusters2"]
    split = reference_split(EqualWidth(15).cells(outputs))
    options = {"split": split, "curve": "knn", "induced": "bins", "interval": None}
    found = grouping_loss(y, outputs, features, lens=lens, regions=regions, **options)
    assert found.plugin == pytest.approx(expected["LB_biased"], abs=1e-9)
    assert found.bias == pytest.approx(expected["bias"], abs=1e-9)
    assert found.lower_bound == pytest.approx(expected["LB_final"], abs=1e-9)
    assert len(found.regions) == expected["n_clusters"]
    assert "f_" in found.regions[0].rule


@pytest.mark.parametrize("name", [name for name in TREES if name.endswith("nspcb30")])
def test_cross_fitting_agrees_within_sampling_error(shared, golden, name):
    """The reference rates with half our rows, and has about twice our variance; three standard
    errors of the difference."""
    y, outputs, features, lens = case(shared, name)
    expected = golden["cases"][name]
    found = grouping_loss(y, outputs, features, lens=lens, bins=bins_of(name, outputs))
    for ours, theirs in (
        (found.plugin, "LB_biased"),
        (found.explained, "LB_debiased"),
        (found.lower_bound, "LB_final"),
    ):
        error = (ours.high - ours.low) / 3.92
        assert abs(ours - expected[theirs]) < 3 * np.sqrt(3) * error, (ours, expected[theirs])
    error = (found.induced.high - found.induced.low) / 3.92
    assert abs(found.induced_by_bins - expected["GL_ind"]) < 0.35 * expected["GL_ind"] + 3 * error


def test_two_clusters_agree_within_sampling_error(shared, golden):
    y, outputs, features, lens = case(shared, "fig4_seed0")
    expected = golden["cases"]["fig4_seed0_uniform15_kmeans2"]
    found = grouping_loss(y, outputs, features, lens=lens, regions="kmeans")
    assert abs(found.explained - expected["LB_debiased"]) < (
        found.explained.high - found.explained.low
    ) / 3.92 * 3 * np.sqrt(3)
    assert found.bias == pytest.approx(expected["bias"], rel=0.1)


def test_the_true_loss_of_the_simulation(golden):
    """`fig4_true_GL_N1e7_seed0` is a mean over ten million rows; ours an integral. Var[(Q - S)^2]
    is about (0.011)^2."""
    from probaudit.simulate import neural_outputs

    assert neural_outputs(10).grouping_loss == pytest.approx(
        golden["fig4_true_GL_N1e7_seed0"], abs=4 * 0.011 / np.sqrt(1e7)
    )
