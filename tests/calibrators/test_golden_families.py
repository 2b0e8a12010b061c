"""Isotonic, binning, beta and Dirichlet calibration: the numbers of betacal, netcal, dirichletcal
and Ferrer & Ramos 2025's code."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from probaudit.calibrators.beta import BetaCalibration
from probaudit.calibrators.binning import BBQ, HistogramBinning
from probaudit.calibrators.dirichlet import DirichletCalibration
from probaudit.calibrators.isotonic import IsotonicCalibration
from tests.conftest import softmax
from tests.scoring.test_golden_scores import FILES, load, scores

BINARY = ["ferrer_sst2_gpt2", "ferrer_pneumoniamnist_resnet50"]
TABLE_2 = {"01": "NRisk_01", "01r": "NRisk_01r", "imb": "NRisk_imb", "log": "NCE", "brier": "NBS"}


def golden(shared, part):
    """Outputs of betacal 1.1.0, dirichletcal @b03f65f, netcal 1.4.0."""
    return json.loads((shared / "golden" / "f_betacal_dirichlet_netcal.json").read_text())[part]


def rows(shared, name):
    if name == "d_k3":
        with np.load(shared / "golden" / "d_k3.npz") as stored:
            return stored["labels"], stored["probs"]
    y, logits = load(shared, name)
    return y, softmax(logits.astype(np.float64))


def halves(shared, name):
    """Even rows to fit, odd rows to test."""
    y, p = rows(shared, name)
    return p[::2], y[::2], p[1::2], y[1::2]


def log_loss(q, y, clip=0.0):
    return float(-np.log(np.clip(q[np.arange(len(y)), y], clip, 1 - clip)).mean())


def table_2(shared, posteriors):
    with (shared / "golden" / "ferrer_table2.csv").open() as file:
        for row in csv.DictReader(file):
            if row["posteriors"] == posteriors and (row["dataset"], row["system"]) in FILES:
                y, p = rows(shared, FILES[row["dataset"], row["system"]])
                if row["dataset"] == "CIFAR-1vsO":  # class 1 of CIFAR-100 against all others
                    y, p = (y == 1).astype(int), np.column_stack([1 - p[:, 1], p[:, 1]])
                yield (
                    y,
                    p,
                    {name: float(row[f"rerun_{column}"]) for name, column in TABLE_2.items()},
                )


def test_table_2_pav_on_the_test_set(shared):
    seen = 0
    for y, p, expected in table_2(shared, "calp"):
        q = IsotonicCalibration(finite=False).fit(p, y).predict_proba(p)
        assert scores(y, q, normalize=True) == pytest.approx(expected, abs=2e-6)
        seen += 1
    assert seen == 5


def test_table_2_histograms(shared):
    """Ten bins, five folds. Ferrer & Ramos 2025's code gives an empty bin 0; with its own middle
    the log score need not be infinite."""
    seen = 0
    for y, p, expected in table_2(shared, "calh"):
        q = np.empty_like(p)
        for fit, test in StratifiedKFold(5, shuffle=True, random_state=0).split(p, y):
            q[test] = (
                HistogramBinning(bins=10, empty=0.0).fit(p[fit], y[fit]).predict_proba(p[test])
            )
        assert scores(y, q, normalize=True) == pytest.approx(expected, abs=2e-6)
        seen += 1
    assert seen == 5


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("key", "calibrator", "tolerance"),
    [
        ("HB10", HistogramBinning(bins=10), 1e-12),
        ("HB15", HistogramBinning(bins=15), 1e-12),
        # scikit-learn takes outputs within 1e-15 of each other for equal
        ("ISO", IsotonicCalibration(finite=False), 1e-9),
        # netcal scores histograms in float32 and leaves out those below an elbow: a few parts in
        # 10^5 of the average.
        ("BBQ_BIC", BBQ(weighting="bic", equal="width"), 1e-6),
        ("BBQ_AIC", BBQ(weighting="aic", equal="width"), 1e-4),
    ],
)
def test_netcal_binary(shared, name, key, calibrator, tolerance):
    case = golden(shared, "netcal")[f"{name}_{key}"]
    p, y, p_test, y_test = halves(shared, name)
    q = calibrator.fit(p, y).predict_proba(p_test)
    assert q[:5, 1] == pytest.approx(case["q_first5"], abs=tolerance)
    assert ((q[:, 1] - y_test) ** 2).mean() == pytest.approx(case["test_brier"], abs=tolerance)
    assert log_loss(q, y_test, 1e-6) == pytest.approx(case["test_logloss_clip1e-6"], abs=tolerance)


@pytest.mark.parametrize(
    ("key", "calibrator", "tolerance"),
    [
        ("HB15", HistogramBinning(bins=15), 1e-12),
        ("ISO", IsotonicCalibration(finite=False), 1e-8),
        ("BBQ", BBQ(weighting="bic", equal="width"), 1e-6),
    ],
)
def test_netcal_one_vs_rest(shared, key, calibrator, tolerance):
    case = golden(shared, "netcal")[f"iemocap_{key}"]
    p, y, p_test, y_test = halves(shared, "ferrer_iemocap_wav2vec_pt")
    q = calibrator.fit(p, y).predict_proba(p_test)
    assert q[:2] == pytest.approx(np.array(case["q_first2"]), abs=tolerance)
    assert log_loss(q, y_test, 1e-6) == pytest.approx(case["test_logloss_clip1e-6"], abs=tolerance)


def beta_score(p, y, a, b, c):
    margin = a * np.log(p[:, 1]) - b * np.log(p[:, 0]) + c
    return float(np.logaddexp(0, np.where(y == 1, -margin, margin)).mean())


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_betacal(shared, name, parameters):
    """betacal leaves L-BFGS early (a is 1% off on SST2). The problem is convex: ours must be lower
    and at rest."""
    case = golden(shared, "betacal")[f"{name}_{parameters}"]
    p, y, p_test, y_test = halves(shared, name)
    fit = BetaCalibration(parameters=parameters, monotone=False).fit(p, y)
    q = fit.predict_proba(p_test)
    assert log_loss(q, y_test) == pytest.approx(case["test_logloss"], abs=1e-4)
    assert q[:5, 1] == pytest.approx(case["q_first5"], abs=2e-4)
    a, b = case["map"][:2]
    c = case["intercept"][0] if parameters != "ab" else (a - b) * np.log(2)
    ours = beta_score(p, y, *fit.curves_[0])
    assert ours <= beta_score(p, y, a, b, c) + 1e-15
    rng = np.random.default_rng(0)
    for move in rng.normal(scale=1e-3, size=(20, 3)):
        if parameters == "am":
            move[1] = move[0]
        if parameters == "ab":
            move[2] = (move[0] - move[1]) * np.log(2)
        assert beta_score(p, y, *(fit.curves_[0] + move)) > ours


def test_betacal_ab_falls_where_ours_does_not(shared):
    """betacal lets a be negative for "ab" (-8.26 on SST2): its curve falls below p = 2/3. Ours must
    not."""
    a, b, _ = golden(shared, "betacal")["ferrer_sst2_gpt2_ab"]["map"]
    assert a < 0 < b
    p, y, *_ = halves(shared, "ferrer_sst2_gpt2")
    fit = BetaCalibration(parameters="ab").fit(p, y)
    grid = np.linspace(0, 1, 200)
    assert (np.diff(fit.predict_proba(np.column_stack([1 - grid, grid]))[:, 1]) >= 0).all()
    assert fit.curves_[0][0] == 0
    assert "a would be negative" in fit.fit_report_.status


def dirichlet_cases():
    penalties = ["lam0.0_muNone", "lam0.01_muNone", "lam0.01_mu0.01", "lam0.1_mu0.1"]
    keys = [f"{penalty}_refrowTrue" for penalty in penalties] + [
        f"{penalty}_refrowFalse" for penalty in penalties[2:]
    ]
    return [(name, key) for name in ("d_k3", "ferrer_iemocap_wav2vec_pt") for key in keys]


@pytest.mark.parametrize(("name", "key"), dirichlet_cases())
def test_dirichletcal(shared, name, key):
    """`reg_mu=None` is a ridge on all weights; else lambda is for W off its diagonal and mu for
    b."""
    case = golden(shared, "dirichlet")[f"{name}_{key}"]
    weights = np.array(case["weights(KxK+1)"])
    lam, mu, ref_row = key.split("_")
    choices = (
        {"l2": float(lam[3:]), "odir": 0.0}
        if mu == "muNone"
        else {"odir": (float(lam[3:]), float(mu[2:]))}
    )
    p, y, p_test, y_test = halves(shared, name)
    fit = DirichletCalibration(**choices, ref_row=ref_row == "refrowTrue").fit(p, y)
    if (name, key) == ("ferrer_iemocap_wav2vec_pt", "lam0.1_mu0.1_refrowTrue"):
        # The reference's penalty pulls so far from the identity that even the rows it was fitted to
        # lose.
        theirs = softmax(np.log(p) @ weights[:, :-1].T + weights[:, -1])
        assert log_loss(theirs, y) > log_loss(p, y)
        assert fit.fit_report_.status == "identity: no fit improves the log loss"
        assert fit.predict_proba(p_test) == pytest.approx(p_test, abs=1e-12)
        return
    assert np.column_stack([fit.weights_, fit.intercept_]) == pytest.approx(weights, abs=1e-5)
    q = fit.predict_proba(p_test)
    assert q[:2] == pytest.approx(np.array(case["q_first2"]), abs=1e-6)
    assert log_loss(q, y_test) == pytest.approx(case["test_logloss"], abs=1e-6)
