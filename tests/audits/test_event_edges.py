"""Events at the edges: tiny probabilities, single outcomes, thresholds on an output, named events,
tied columns and single clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import probaudit as pb
from probaudit.audits.finding import COMMANDS
from probaudit.calibrators import MultiCalibration, PerGroup, from_json, to_json
from probaudit.cli.commands import app
from probaudit.data.populations import Ranges, group_column
from probaudit.errors import InputError

RNG = np.random.default_rng(0)


def event_world(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(int), p


@pytest.mark.parametrize("p", [1e-20, 1e-200])
def test_tiny_probabilities_have_poisson_p_values(p):
    y = np.tile([0, 0, 0, 1], 25)
    found = pb.validation_table(y, np.full(100, p)).overall
    assert found.p_value == 0
    assert pb.validation_table(np.zeros(100, int), np.full(100, p)).overall.p_value == 1
    assert pb.audit(y, np.full(100, p), repair=False)["auc"] == 0.5


def test_the_p_value_of_equal_probabilities_is_binomial():
    for happened in (0, 3, 9, 20):
        y = (np.arange(20) < happened).astype(int)
        tails = [stats.binom.sf(happened - 1, 20, 0.3), stats.binom.cdf(happened, 20, 0.3)]
        found = pb.validation_table(y, np.full(20, 0.3)).overall.p_value
        assert found == pytest.approx(min(1, 2 * min(tails)), rel=1e-9)


def test_a_group_in_which_the_event_never_happens_is_misjudged():
    y, p = event_world(600)
    group = np.where(y == 0, "never", "always")
    always, never = pb.audit(y, p, columns={"g": group}, repair=False).groups
    assert (always.verdict, never.verdict) == ("predicted too low", "predicted too high")
    assert max(always.q_value, never.q_value) < 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_intervals_where_the_event_always_happens(seed):
    p = np.random.default_rng(seed).random(255)
    found = pb.validation_table(np.ones(255, int), p).overall
    assert found.observed == 1
    assert found.gap.low == pytest.approx(found.gap)
    assert found.gap.high < found.gap + 0.02
    assert 0.98 < found.observed_expected.low / found.observed_expected <= 1
    errors = pb.risk_coverage(np.ones(255, int), 0.5 + p / 2).error_rate
    assert errors == 0
    assert 0.005 < errors.high < 0.02


@pytest.mark.parametrize("digits", [1, 2])
def test_net_benefit_of_a_grid_counts_outputs_on_a_threshold(digits):
    y, p = event_world(250_000)
    p = np.clip(np.round(p, digits), 0.1, 0.9)
    found = pb.audit(y, p, repair=False)
    assert found.evidence.sampled
    exact = pb.decision_curve(y, p)
    assert np.allclose(found.decision_curve.net_benefit, exact.net_benefit, atol=1e-12)


def test_outputs_of_0_do_not_enter_the_line_of_a_large_audit():
    y, p = event_world(250_000)
    p[:50_000], y[:50_000] = 0, RNG.random(50_000) < 0.02
    found, exact = pb.audit(y, p, repair=False).validation, pb.validation_table(y, p).overall
    assert found.left_out == pytest.approx(50_000 * 200 / 250, rel=0.02)  # of the sample
    assert found.slope.low <= exact.slope <= found.slope.high


def test_a_grid_of_equal_weights_has_the_p_value_of_rows():
    y, p = event_world(250_000)
    p = 0.01 + 0.98 * p
    found, exact = pb.audit(y, p, repair=False).validation, pb.validation_table(y, p).overall
    assert found.p_value == pytest.approx(exact.p_value, rel=1e-3)
    assert found.slope.low == pytest.approx(exact.slope.low, abs=1e-4)


def test_a_named_event_is_what_calibration_errors_judge():
    rng = np.random.default_rng(1)
    p = rng.beta(1, 3, 2000)
    y = (rng.random(2000) < np.clip(1.5 * p, 0, 1)).astype(int)
    found = pb.audit(y, p, repair=False)
    named, top = pb.calibration_error(y, p, event=1), pb.calibration_error(y, p)
    assert named == pytest.approx(found["ece"], abs=1e-12)
    assert top == pytest.approx(found["top_label.ece"], abs=1e-12)
    assert named != top
    three = rng.dirichlet(np.ones(3), 500)
    label = rng.integers(0, 3, 500)
    for function in (
        pb.calibration_error,
        pb.smooth_calibration_error,
        pb.rms_calibration_error,
        pb.average_calibration_error,
        pb.kernel_calibration_error,
        pb.maximum_mean_calibration_error,
        pb.sweep_calibration_error,
    ):
        found = function(label, three, event=2)
        assert found == function(label, three, lens=pb.OneVsRest(2)), function
    test = pb.calibration_test(label, three, event=2)
    assert test.value == pb.calibration_test(label, three, lens=pb.OneVsRest(2)).value


def test_the_best_threshold_of_the_first_class():
    y, p = event_world(500)
    costs = [[0, 1], [5, 0]]
    second, first = (pb.best_threshold(y, p, costs, event=event) for event in (1, 0))
    assert first.bayes_threshold == pytest.approx(1 - second.bayes_threshold)
    assert first.bayes_cost == pytest.approx(second.bayes_cost)
    assert first.cost == pytest.approx(second.cost)


def test_multilabel_refuses_an_event_and_half_a_pattern(tmp_path):
    y, p = event_world(60)
    with pytest.raises(InputError, match="`event`: must not be given"):
        pb.multilabel_table(y.reshape(-1, 2), p.reshape(-1, 2), event=0)
    path = tmp_path / "rows.csv"
    rows = ["y_a,y_b,p_b,p_a", *(f"{k % 2},{k % 3 // 2},0.3,0.6" for k in range(40))]
    path.write_text("\n".join(rows))
    command = ["multilabel", str(path), "--labels", "y_a,y_b", "--probs", "p_*"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "`--labels`: must be a pattern" in refused.output


def test_a_gate_on_an_unknown_interval_fails(tmp_path):
    y, p = event_world(300)
    group = np.where(np.arange(300) < 20, "none", "some")
    y[:20] = 0
    path = tmp_path / "rows.csv"
    lines = ["label,p,g", *(f"{a},{b},{c}" for a, b, c in zip(y, p, group, strict=True))]
    path.write_text("\n".join(lines))
    command = ["check", str(path), "--probs", "p", "--groups", "g", "--no-repair"]
    for name in ("auc", "auc.low"):
        done = CliRunner().invoke(app, [*command, "--min", f"groups.*.{name}=0.1"])
        assert done.exit_code == 1, done.output
        assert "1 of 2 fail" in done.output


def test_nearly_constant_numbers_are_cut_at_the_constant():
    zeros = np.r_[np.zeros(570), np.arange(1.0, 31.0)]
    found = group_column("gain", zeros)
    assert found.values == ("0 to 1", "1 to 30")
    assert [len(found.rows(k)) for k in (0, 1)] == [570, 30]
    high = group_column("gain", -zeros)
    assert [len(high.rows(k)) for k in (0, 1)] == [30, 570]
    assert Ranges.of(np.array(["a", "b"])) is None
    assert Ranges.of(np.arange(20)) is None


def test_calibration_in_the_large_covers_where_the_slope_is_wrong():
    inside, runs = 0, 400
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        z = 2 * rng.normal(size=300)
        y = rng.random(300) < 1 / (1 + np.exp(-0.3 * z))  # in the large: 0 by symmetry
        offset = pb.calibration_line(y, 1 / (1 + np.exp(-z))).offset
        inside += offset.low <= 0 <= offset.high
    assert inside / runs > 0.93


def test_a_single_image_has_a_page_and_no_slope():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 400).T.reshape(1, 3, 20, 20)
    y = rng.integers(0, 3, (1, 20, 20))
    assert "<html" in pb.audit(y, p, repair=False).to_html()
    micro = pb.multilabel_table([[0, 0, 1, 1, 0, 1]], [[0.1, 0.2, 0.8, 0.9, 0.3, 0.7]]).micro
    assert math.isnan(micro.slope)
    assert math.isnan(micro.auc.low)


@pytest.mark.parametrize("kind", [PerGroup, MultiCalibration])
def test_calibrators_cut_numbers_into_ranges(kind):
    rng = np.random.default_rng(0)
    age, z = rng.integers(20, 90, 6000), rng.normal(size=6000)
    shift = np.where(age < 40, -1.5, 0)
    y = (rng.random(6000) < 1 / (1 + np.exp(-z - shift))).astype(int)
    base = pb.calibrators.BiasCorrectedTemperature()
    p = 1 / (1 + np.exp(-z))
    model = from_json(to_json(kind(base).fit(p, y, groups=age)))
    calibrated = model.predict_proba(p, groups=age)[:, 1]
    young = age < 34
    assert abs(p[young].mean() - y[young].mean()) > 0.2
    assert abs(calibrated[young].mean() - y[young].mean()) < 0.05
    oldest = model.predict_proba(p[:3], groups=[200, 89, 89])  # beyond the ages of the fit
    assert np.isfinite(oldest).all()
    with pytest.raises(InputError, match="must be numbers, as in the fit"):
        model.predict_proba(p[:2], groups=["old", "young"])


def test_numbers_as_groups_are_repaired_and_found_in_the_budget():
    rng = np.random.default_rng(0)
    area, score = rng.lognormal(7, 1.2, 6000), rng.beta(3, 1.5, 6000)
    right = rng.random(6000) < np.clip(score - 0.3 * (area < 600), 0, 1)
    rows = pb.Predictions.from_confidence(score, right, columns={"area": area})
    found = pb.audit(rows, regions=["area"], repair="compare")
    best = next(repair for repair in found.repairs if repair.selected)
    assert "group" in best.title or best.name == "multicalibration"
    assert best.gain.low > 0.03
    # the repair removes what differs between groups; without it, the budget finds them
    assert found.budget.grouping.low < 0.001
    plain = pb.audit(rows, regions=["area"], repair=False)
    assert plain.budget.grouping.low > 0
    (advice,) = (f.advice_text(COMMANDS) for f in plain.findings if f.rule == "miscalibrated_group")
    assert "--groups area" in advice


def test_measures_of_a_constant_output_are_exact_or_undefined():
    y = np.random.default_rng(0).random(400) < 0.3
    found = pb.validation_table(y, np.full(400, 0.25)).overall
    assert found.predicted.interval == (0.25, 0.25)
    assert found.auc.interval == (0.5, 0.5)
    assert np.isnan(found.slope)
    assert found.gap.low < found.gap < found.gap.high
    few = pb.validation_table(y[:20], np.full(20, 0.25)).overall
    assert few.predicted.low < 0.25 < few.predicted.high
    shown = " ".join(pb.audit(y, np.full(400, 0.25)).to_text().split())
    assert "mean predicted probability 0.2500 exact" in shown
    assert "the AUC is 0.5 by definition, and slope and intercept are undefined" in shown
    varied = np.where(np.arange(400) % 2, 0.2, 0.4)
    assert "by definition" not in pb.audit(y, varied, repair=False).to_text()
