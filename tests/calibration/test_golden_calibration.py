"""Calibration errors of other programs on the same rows, met by ours (papers 3, 4 and 5, and
well-known packages)."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import probaudit as pb
from probaudit.calibration.fine_grid import FineGrid
from probaudit.calibration.kernel_regression import kernel_curve
from probaudit.engines.memory import gather
from probaudit.states import Plan
from tests.conftest import softmax
from tests.scoring.test_golden_scores import FILES


def golden(shared, name):
    return json.loads((shared / "golden" / f"{name}.json").read_text())


def load(shared, name):
    with np.load(shared / "data" / f"{name}.npz") as stored:
        if "probs" in stored:
            return stored["labels"], stored["probs"].astype(np.float64)
        return stored["labels"], softmax(stored["logits"].astype(np.float64))


@pytest.fixture(scope="module")
def three(shared):
    with np.load(shared / "golden" / "d_k3.npz") as stored:
        return stored["labels"], stored["probs"]


@pytest.mark.parametrize("split", ["mean", "median"])
@pytest.mark.parametrize("least", [30, 60, 100, 150])
def test_kd_trees(shared, three, split, least):
    case = golden(shared, "d_gce_kdtree")["uu_sml"][f"DataDependent_{split}_min{least}"]
    tree = pb.KDTree(min_rows=least, split=split)
    tvd = pb.calibration_error(*three, lens=pb.Full(), partition=tree, distance="tvd")
    l2 = pb.calibration_error(*three, lens=pb.Full(), partition=tree, distance="l2")
    assert tvd == pytest.approx(case["ece_tv"], abs=1e-9)
    assert l2 == pytest.approx(case["ece_l2"], abs=1e-9)
    assert sorted(tvd.cells[0].rows) == sorted(case["leaf_sizes"])


@pytest.mark.parametrize("bins", [5, 10, 15])
def test_uniform_cells_of_the_simplex(shared, three, bins):
    case = golden(shared, "d_gce_kdtree")["uu_sml"][f"Uniform_{bins}"]
    found = pb.calibration_error(
        *three, lens=pb.Full(), partition=pb.EqualWidth(bins), distance="tvd"
    )
    assert found == pytest.approx(case["ece_tv"], abs=1e-9)
    assert len(found.cells[0].rows) == case["n_bins"]


TREE = pb.KDTree(0.1)
GCE = {
    "full_uniform15": {"lens": pb.Full()},
    "full_adaptive_0.1": {"lens": pb.Full(), "partition": TREE},
    "full_adaptive_2^-4": {"lens": pb.Full(), "partition": pb.KDTree(2**-4)},
    "top1_uniform15": {"lens": pb.TopLabel()},
    "top1_adaptive_0.1": {"lens": pb.TopLabel(), "partition": TREE},
    "top2_uniform15": {"lens": pb.TopK(2)},
    "top2_adaptive_0.1": {"lens": pb.TopK(2), "partition": TREE},
    "marginal0_uniform15": {"lens": pb.OneVsRest(0)},
    "marginal0_adaptive_0.1": {"lens": pb.OneVsRest(0), "partition": TREE},
    "group_[[0,1],[2]]_uniform15": {"lens": pb.Groups([[0, 1], [2]])},
    "group_adaptive_0.1": {"lens": pb.Groups([[0, 1], [2]]), "partition": TREE},
    "max_agg_top1": {"lens": pb.TopLabel(), "worst": True},
    "label_sel_[2]_preselect_full": {"lens": pb.Full(), "where": pb.LabelIs(2)},
    "output_sel_p1>=0.5_after_marginal0": {"lens": pb.OneVsRest(0), "where": pb.OutputIn(0.5, 1)},
    "mahalanobis_I_full_adaptive0.1": {
        "lens": pb.Full(),
        "partition": TREE,
        "distance": pb.Mahalanobis(np.eye(3)),
    },
    # The matrix is not stored with the number; this one gives it to the last digit.
    "mahalanobis_W_full_adaptive0.1": {
        "lens": pb.Full(),
        "partition": TREE,
        "distance": pb.Mahalanobis([1, 2, 5]),
    },
    "interval_tvd_[0,.33]_marginal0": {
        "lens": pb.OneVsRest(0),
        "distance": pb.IntervalTVD(0, 0.33),
    },
    "inter_interval_[0,.33]_marginal0": {
        "lens": pb.OneVsRest(0),
        "distance": pb.InterInterval(0, 0.33),
    },
}


@pytest.mark.parametrize("name", GCE)
def test_generalised_ece(shared, three, name):
    options = {"distance": "tvd"} | GCE[name]
    assert pb.calibration_error(*three, **options) == pytest.approx(
        golden(shared, "d_gce_kdtree")["gce"][name], abs=1e-9
    )


@pytest.mark.parametrize(("dataset", "system"), FILES)
def test_ece_of_table_2(shared, dataset, system):
    """Ferrer & Ramos 2025's reference computes ECEmc in float32 and in percent, with bins (low,
    high]."""
    with (shared / "golden" / "ferrer_table2.csv").open() as file:
        (row,) = [
            r
            for r in csv.DictReader(file)
            if (r["dataset"], r["system"], r["posteriors"]) == (dataset, system, "raw")
        ]
    y, p = load(shared, FILES[dataset, system])
    if dataset == "CIFAR-1vsO":
        y, p = (y == 1).astype(int), np.column_stack([1 - p[:, 1], p[:, 1]])
    bins = pb.EqualWidth(15, right=True)
    assert 100 * pb.calibration_error(y, p, partition=bins) == pytest.approx(
        float(row["rerun_ECEmc"]), abs=2e-5
    )
    if row["rerun_ECE"]:
        found = 100 * pb.calibration_error(y, p, lens=pb.Binary(), partition=bins)
        assert found == pytest.approx(float(row["rerun_ECE"]), abs=2e-5)


@pytest.mark.parametrize(
    "name",
    [
        "ferrer_sst2_gpt2",
        "ferrer_pneumoniamnist_resnet50",
        "ferrer_iemocap_wav2vec_pt",
        "kumar_cifar10_vgg16",
    ],
)
def test_verified_calibration(shared, name):
    case = golden(shared, "g_verified_calibration")["cases"][name]
    y, p = load(shared, name)
    binary = p.shape[1] == 2
    lens = pb.Binary() if binary else pb.TopLabel()
    width = case["get_ece_15_eqwidth"] if binary else case["get_ece_15_eqwidth_top"]
    mass = case["get_ece_em_15"] if binary else case["get_ece_em_15_eqmass_top"]
    plugin = case["marginal_p2_plugin"] if binary else case["top_p2_plugin"]
    debiased = (
        case["get_calibration_error_marginal_p2_debiased"] if binary else case["top_p2_debiased"]
    )
    assert pb.calibration_error(y, p, lens=lens) == pytest.approx(width, abs=1e-9)
    assert pb.calibration_error(y, p, lens=lens, partition=pb.EqualMass(15)) == pytest.approx(
        mass, abs=1e-9
    )
    assert pb.rms_calibration_error(y, p, lens=lens, debias=False) == pytest.approx(
        plugin, abs=1e-9
    )
    assert pb.rms_calibration_error(y, p, lens=lens) == pytest.approx(debiased, abs=1e-9)
    # Theirs is a mean over 1,000 normal draws per bin (seed 0), ours its expectation: four standard
    # errors apart at most.
    absolute = pb.calibration_error(y, p, lens=lens, partition=pb.EqualMass(15), debias=True)
    (cells,) = absolute.cells
    error = np.sqrt(
        (cells.share**2 * cells.targets * (1 - cells.targets) / cells.rows).sum() / 1000
    )
    assert absolute == pytest.approx(case["ece_em_debiased_seed0"], abs=4 * error)


@pytest.mark.parametrize(
    "name", ["ferrer_iemocap_wav2vec_pt", "kumar_cifar10_vgg16", "ferrer_cifar10_resnet20"]
)
def test_verified_marginal_calibration(shared, name):
    case = golden(shared, "g_verified_calibration")["cases"][name]
    y, p = load(shared, name)
    plain = pb.rms_calibration_error(y, p, lens=pb.Classwise(), debias=False)
    assert plain == pytest.approx(case["marginal_p2_plugin"], abs=1e-9)
    debiased = pb.rms_calibration_error(y, p, lens=pb.Classwise())
    assert debiased == pytest.approx(case["get_calibration_error_marginal_p2_debiased"], abs=1e-9)


def test_a_confidence_of_one_is_in_the_last_bin(shared):
    """The (low, high] bins of Guo et al.; torchmetrics puts a confidence of exactly 1 into a bin of
    its own."""
    for name, case in golden(shared, "e_torchmetrics_ece_edge").items():
        y, p = load(shared, name)
        found = pb.calibration_error(y, p, partition=pb.EqualWidth(15, right=True))
        assert found == pytest.approx(case["guo_(lo,hi]_15"], abs=1e-6)


def test_kernel_curves(shared):
    for name, case in golden(shared, "h_sharpcal")["cases"].items():
        y, p = load(shared, name)
        rows = pb.Predictions(y, p)
        grid = FineGrid.of_summary(gather(rows, Plan.of(rows)).finalise().grid)
        curve, x = case["curve_bw0.05"], np.array(case["curve_bw0.05"]["x"])
        found = kernel_curve(grid, x)
        seen = np.array(curve["kde"]) > 1e-6
        for ours, theirs in (
            (found.regression, "reg"),
            (found.density, "kde"),
            (found.loss, "pw_loss"),
            (found.sharpness_gap, "sharpness_gap"),
        ):
            np.testing.assert_allclose(
                ours[seen], np.array(curve[theirs])[seen], rtol=2e-3, err_msg=f"{name} {theirs}"
            )


def test_smooth_ece_is_exact(shared):
    for name, case in golden(shared, "a_relplot_vs_exact")["res"].items():
        y, p = load(shared, name)
        lens = pb.Binary() if p.shape[1] == 2 else pb.TopLabel()
        at = pb.smooth_calibration_error(y, p, lens=lens, sigma=0.05)
        assert at == pytest.approx(case["exact_sigma0.05"], abs=1e-4), name
        assert pb.smooth_calibration_error(y, p, lens=lens) == pytest.approx(
            case["exact_fixed_point"], abs=1e-3
        ), name


def test_kernel_calibration_error(shared):
    for name, case in golden(shared, "h_sharpcal")["cases"].items():
        y, p = load(shared, name)
        for key, options in {
            "gauss_0.05": {"bandwidth": 0.05},
            "gauss_0.1": {"bandwidth": 0.1},
            "gauss_0.01": {"bandwidth": 0.01},
            "epan_0.05": {"kernel": "epanechnikov"},
        }.items():
            assert pb.kernel_calibration_error(y, p, **options) == pytest.approx(
                case[key]["cal"], rel=1e-3
            ), (name, key)
            assert pb.brier_score(y, p) == pytest.approx(case[key]["total_brier"], abs=1e-9)
