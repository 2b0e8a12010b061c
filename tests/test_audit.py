"""The audit: its numbers, its JSON, and each rule of the verdict both firing and not firing."""

from __future__ import annotations

import json

import numpy as np
import pytest

import probaudit as pb
from probaudit import simulate
from probaudit.report.gate import Threshold, failures
from probaudit.report.verdict import RULES


def rules(audit: pb.Audit) -> dict[str, str]:
    return {finding.rule: finding.level for finding in audit.findings}


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(2000, 2, seed=3)


def test_estimates_are_those_of_the_functions(world):
    audit = pb.audit(world.y, world.mcs, costs=[[0, 1], [10, 0]])
    assert audit["log_score"] == pb.log_score(world.y, world.mcs)
    assert audit["brier_score.normalized"] == pb.brier_score(world.y, world.mcs, normalize=True)
    assert audit["cost_risk"] == pb.bayes_risk(world.y, world.mcs, [[0, 1], [10, 0]])
    assert audit["error_rate"] == pytest.approx(1 - audit["accuracy"])
    assert audit["reject_risk"] == pytest.approx(pb.bayes_risk(world.y, world.mcs, pb.Cost.zero_one(2, reject=0.1)))
    assert audit["accuracy"] == np.mean(world.mcs.argmax(axis=1) == world.y)
    with pytest.raises(KeyError, match="log_score"):
        audit["nothing"]


def test_json_is_complete_and_strict(world, tmp_path):
    audit = pb.audit(world.y, world.cal, classes=[0, 1])
    text = audit.to_json(tmp_path / "audit.json")
    assert (tmp_path / "audit.json").read_text() == text
    assert list(tmp_path.iterdir()) == [tmp_path / "audit.json"]
    found = json.loads(text)
    assert found["schema"] == "probaudit.audit/1"
    assert found["rows"] == len(world.y)
    assert found["estimates"]["log_score"]["value"] == float(audit["log_score"])
    assert found["estimates"]["log_score"]["per_class"].keys() == {"0", "1"}
    assert found["findings"][0].keys() == {"level", "rule", "text"}


def test_what_is_infinite_is_null_in_json():
    audit = pb.audit([0, 1, 1], [[1.0, 0.0], [1.0, 0.0], [0.2, 0.8]])
    found = json.loads(audit.to_json())["estimates"]["log_score"]
    assert found["value"] is None
    assert found["infinite"] is True
    assert found["infinite_rows"] == 1
    assert audit.flat()["infinite_rows"] == 1


def test_what_a_calibrator_would_gain(world):
    audit, loss = pb.audit(world.y, world.mcs), pb.calibration_loss(world.y, world.mcs)
    assert audit["calibration_loss"] == loss.loss
    assert audit["calibration_loss.relative"] == loss.relative
    assert audit.flat()["log_score.calibrated"] == loss.calibrated
    assert "BiasCorrectedTemperature, 5 folds" in audit.settings["calibration_loss"]
    assert rules(pb.audit(world.y, world.cal))["miscalibration_costs"] == "good"
    certain = world.cal.copy()
    certain[np.flatnonzero(world.y == 1)[:1]] = 1, 0
    infinite = pb.audit(world.y, certain)
    assert "calibration_loss" not in infinite.estimates
    assert np.isfinite(infinite["log_score.calibrated"])
    assert "from infinity" in infinite.verdict
    for few in (pb.audit([0, 0, 0, 0, 0, 0], [0.1] * 6), pb.audit([0, 1], [0.1, 0.8])):
        assert "calibration_loss" not in few.estimates
        assert "not tried" in few.settings["calibration_loss"]
    assert pb.audit(world.y, world.cal, repair=False).settings["calibration_loss"] == "not asked for"


def test_with_features_it_says_who_is_badly_served():
    world = simulate.neural_outputs(4000, seed=1)
    audit = pb.audit(world.y, world.scores, features=world.features)
    budget = pb.loss_budget(world.y, world.scores, world.features)
    assert float(audit.budget.grouping) == float(budget.grouping)
    assert audit["grouping_loss.relative"] == pytest.approx(budget.grouping / budget.total)
    assert "hidden_groups" in rules(audit)
    found = json.loads(audit.to_json())["budget"]
    assert found["total"]["value"] == float(budget.total)
    assert found["regions"][0].keys() >= {"rule", "rows", "stated", "observed", "verdict"}
    assert "who is badly served" in repr(audit)
    plain = pb.audit(world.y, world.scores)
    assert plain.budget is None
    assert json.loads(plain.to_json())["budget"] is None
    assert "hidden_groups" not in rules(plain)


def test_given_groups_are_found_to_be_badly_served():
    world = simulate.unfair_groups(6000)
    audit = pb.audit(world.y, world.scores, columns={"group": world.group}, regions=["group"])
    assert rules(audit)["hidden_groups"] == "warning"
    assert "group = " in audit.verdict
    fair = simulate.unfair_groups(6000, {"a": 0.0, "b": 0.0})
    calm = pb.audit(fair.y, fair.scores, columns={"group": fair.group}, regions=["group"])
    assert rules(calm)["hidden_groups"] == "good"


def test_json_needs_an_existing_folder(world, tmp_path):
    with pytest.raises(pb.InputError, match="folder must exist"):
        pb.audit(world.y, world.cal).to_json(tmp_path / "none" / "audit.json")


def test_the_fingerprint_is_of_the_rows(world):
    order = np.random.default_rng(0).permutation(len(world.y))
    audit = pb.audit(world.y, world.cal)
    assert audit.fingerprint == pb.audit(world.y[order], world.cal[order]).fingerprint
    assert audit.fingerprint != pb.audit(world.y, world.mcs).fingerprint


def test_repr_reads_like_the_terminal(world):
    text = repr(pb.audit(world.y, world.cal))
    assert "Better than always forecasting the class frequencies" in text
    assert "log score" in text
    assert "\x1b" not in text


def calibrated(world):
    return pb.audit(world.y, world.cal)


# For each rule an audit in which it must speak (with its level) and one in which it must not.
FIRING = {
    "infinite_log_score": (lambda w: pb.audit([0, 1, 1], [[1.0, 0.0], [1.0, 0.0], [0.2, 0.8]]), "bad", calibrated),
    "against_class_frequencies": (lambda w: pb.audit(w.y, 1 - w.cal), "bad", lambda w: pb.audit([1], [0.5])),
    "worse_than_constant_decision": (
        lambda w: pb.audit(w.y, 1 - w.cal, costs=[[0, 1], [1, 0]]),
        "bad",
        lambda w: pb.audit(w.y, w.cal, costs=[[0, 1], [1, 0]]),
    ),
    "good_decisions_bad_probabilities": (lambda w: pb.audit(*overconfident(w)), "warning", calibrated),
    "rejecting_all_is_better": (lambda w: pb.audit(w.y, 1 - w.cal), "warning", calibrated),
    "miscalibration_costs": (lambda w: pb.audit(w.y, w.mcs), "warning", lambda w: pb.audit(w.y, w.mcs, repair=False)),
    "one_class": (lambda w: pb.audit(w.y[w.y == 0], w.cal[w.y == 0]), "warning", calibrated),
    "rows_set_aside": (lambda w: pb.audit([0, 1, 7], [0.1, 0.9, 0.5], on_bad_rows="drop"), "warning", calibrated),
    "only_confidence": (lambda w: confidence(w), "note", calibrated),
    "few_rows": (lambda w: pb.audit(w.y[:50], w.cal[:50]), "note", calibrated),
    "absent_classes": (
        lambda w: pb.audit(w.y, np.column_stack([w.cal, np.zeros(len(w.y))]), classes=[0, 1, 2]),
        "note",
        calibrated,
    ),
}


def test_calibration_error_is_shown_beside_chance(world):
    audit = pb.audit(world.y, world.cal)
    assert audit.calibration.value == pytest.approx(pb.calibration_error(world.y, world.cal), abs=1e-12)
    assert rules(audit)["against_chance"] == "good"
    assert rules(pb.audit(world.y, world.mcs))["against_chance"] == "warning"
    exact = pb.calibration_test(world.y, world.cal)
    assert audit.calibration.null_mean == pytest.approx(exact.null_mean, rel=0.05)
    weighted = pb.audit(world.y, world.cal, sample_weight=np.full(len(world.y), 3.0))
    assert weighted.calibration.value == pytest.approx(audit.calibration.value, rel=1e-9)
    assert weighted.calibration.null_mean == pytest.approx(exact.null_mean, rel=0.05)
    assert rules(weighted)["against_chance"] == "good"


def overconfident(world):
    p = np.where(world.cal > 0.5, 1 - 1e-12, 1e-12)
    return world.y, p


def confidence(world):
    return pb.audit(pb.Predictions.from_confidence(world.cal.max(axis=1), world.cal.argmax(axis=1) == world.y))


def test_every_function_takes_predictions(world):
    rows = pb.Predictions(world.y, np.log(world.cal), from_logits=True)
    assert pb.audit(rows)["log_score"] == pb.log_score(rows) == pb.log_score(world.y, np.log(world.cal), from_logits=True)
    assert pb.bayes_risk(rows, costs=[[0, 1], [5, 0]]) == pytest.approx(pb.bayes_risk(world.y, world.cal, [[0, 1], [5, 0]]))
    assert pb.calibration_error(rows) == pytest.approx(pb.calibration_error(world.y, world.cal))
    assert pb.partitioned_calibration_error(rows, partitions=pb.Whole()) < 0.1
    assert pb.cumulative_differences(rows).n == len(world.y)
    for options in ({"y_proba": world.cal}, {"from_logits": True}, {"sample_weight": np.ones(len(world.y))}):
        with pytest.raises(pb.InputError, match="beside rows"):
            pb.log_score(rows, **options)
    with pytest.raises(pb.InputError, match="is needed"):
        pb.log_score(world.y)
    with pytest.raises(pb.InputError, match="matrix"):
        pb.bayes_risk(rows)


def test_every_rule_is_tested():
    assert {rule.__name__ for rule in RULES} == set(FIRING)


@pytest.mark.parametrize("rule", FIRING)
def test_rules_fire_and_do_not_fire(world, rule):
    fires, level, silent = FIRING[rule]
    assert rules(fires(world)).get(rule) == level
    assert rule not in rules(silent(world))


def test_against_class_frequencies_has_three_levels(world):
    levels = [rules(pb.audit(world.y, p))["against_class_frequencies"] for p in (world.cal, world.mcp, 1 - world.cal)]
    assert levels[0] == "good"
    assert levels[2] == "bad"
    rng = np.random.default_rng(0)
    assert rules(pb.audit(rng.integers(0, 2, 200), np.full(200, 0.5)))["against_class_frequencies"] == "warning"


def test_the_gravest_finding_comes_first():
    audit = pb.audit([0, 1, 7], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]], on_bad_rows="drop")
    assert [finding.level for finding in audit.findings] == sorted(
        (finding.level for finding in audit.findings), key=["bad", "warning", "good", "note"].index
    )
    assert audit.verdict.startswith("In 1 row of 2 the true class was given probability 0")


def test_absent_classes_keep_their_column():
    audit = pb.audit(["b", "a"], [[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]], classes=["a", "b", "c"])
    assert audit.to_dict()["class_rows"] == [1, 1, 0]
    assert np.isnan(audit["log_score"].per_class["c"])
    assert audit.summary.argmax.matrix().shape == (3, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("log_score=0.5", 0.5), ("accuracy=90%", 0.9), ("a.b = 1e-3", 1e-3), ("x=5 %", 0.05)],
)
def test_thresholds_are_read(text, expected):
    assert Threshold.parse(text, "max").bound == pytest.approx(expected)


@pytest.mark.parametrize("text", ["log_score", "=3", "log_score=", "log_score=high", "log_score=nan"])
def test_thresholds_that_cannot_be_read(text):
    with pytest.raises(pb.InputError, match="NAME=VALUE"):
        Threshold.parse(text, "max")


def test_a_bound_holds_at_equality_and_never_for_what_is_no_number():
    values = {"a": 0.5, "b": float("nan"), "c": float("inf")}
    held = [Threshold("a", "max", 0.5), Threshold("a", "min", 0.5), Threshold("c", "min", 1)]
    broken = [Threshold("b", "max", 1), Threshold("b", "min", 0), Threshold("c", "max", 1e300), Threshold("a", "max", 0.4)]
    assert failures(values, held + broken) == broken
    with pytest.raises(pb.InputError, match="must name one of a, b, c"):
        failures(values, [Threshold("d", "max", 1)])
