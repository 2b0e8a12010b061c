"""The audit: its numbers, its JSON, and each rule of the verdict both firing and not firing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import probaudit as pb
from probaudit import simulate
from probaudit.audits.case import Case
from probaudit.audits.finding import Calibrate
from probaudit.audits.gate import Threshold, check_thresholds
from probaudit.audits.verdict import RULES, against_chance, hidden_groups, infinite_log_score
from probaudit.engines.memory import evidence_of
from probaudit.states import Plan


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
    assert audit["reject_risk"] == pytest.approx(
        pb.bayes_risk(world.y, world.mcs, pb.Cost.zero_one(2, reject=0.1))
    )
    assert audit["accuracy"] == np.mean(world.mcs.argmax(axis=1) == world.y)
    with pytest.raises(KeyError, match="log_score"):
        audit["nothing"]


def test_json_is_complete_and_strict(world, tmp_path):
    audit = pb.audit(world.y, world.cal, classes=[0, 1])
    text = audit.to_json(tmp_path / "audit.json")
    assert (tmp_path / "audit.json").read_text() == text
    assert list(tmp_path.iterdir()) == [tmp_path / "audit.json"]
    found = json.loads(text)
    assert found["schema"] == "probaudit.audit/6"
    assert found["rows"] == len(world.y)
    assert found["estimates"]["log_score"]["value"] == float(audit["log_score"])
    assert found["estimates"]["log_score"]["per_class"].keys() == {"0", "1"}
    keys = {"level", "rule", "text", "numbers", "advice", "actions", "reference", "rows"}
    assert found["findings"][0].keys() == keys


def test_infinite_numbers_are_null_in_json():
    audit = pb.audit([0, 1, 1], [[1.0, 0.0], [1.0, 0.0], [0.2, 0.8]])
    found = json.loads(audit.to_json())["estimates"]["log_score"]
    assert found["value"] is None
    assert found["infinite"] is True
    assert found["infinite_rows"] == 1
    assert audit.flat()["infinite_rows"] == 1


def test_flat_and_frame_have_every_number(world):
    audit = pb.audit(world.y, world.mcs)
    flat, frame = audit.flat(), audit.to_frame()
    names = {
        "ece",
        "ace",
        "smooth_ece",
        "kernel_calibration_error",
        "rms_error",
        "classwise_ece",
        "accuracy",
        "rows",
    }
    assert set(flat) >= names | {"ece.p_value", "classwise_ece.p_value", "infinite_rows"}
    assert flat["ece"] == audit.calibration.value == float(audit.errors[0].estimate)
    assert all(isinstance(value, (int, float)) for value in flat.values())
    assert list(frame.columns) == ["name", "value", "low", "high", "n", "definition"]
    assert set(frame["name"]) == set(audit.estimates) | {error.name for error in audit.errors}
    assert frame.set_index("name")["value"].to_dict() == {
        name: flat[name] for name in frame["name"]
    }
    five = pb.simulate.gaussian_posteriors(500, 7)
    assert {"topk_ece.2", "topk_ece.3", "topk_ece.5"} <= set(pb.audit(five.y, five.cal).flat())


@pytest.mark.parametrize(
    ("options", "rule"),
    [({"repair": "all"}, "compare"), ({"calibrator": "temperature"}, "fitted calibrator")],
)
def test_arguments_are_checked_before_the_pass(world, options, rule):
    with pytest.raises(pb.InputError, match=rule):
        pb.audit(world.y, world.cal, **options)


def test_the_terminal_shows_errors_groups_and_repairs(world):
    group = np.array(["left", "right"])[np.arange(len(world.y)) % 2]
    text = pb.audit(world.y, world.mcs, columns={"side": group}, repair="compare").to_text()
    for part in (
        "SmoothECE",
        "if calibrated",
        "side = left",
        "mean replacement (control)",
        "* ",
    ):
        assert part in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "…" not in text
    plain = pb.audit(world.y, world.mcs).to_text()
    assert "mean replacement" not in plain
    assert "  predicted  " not in plain


def test_names_of_groups_are_not_markup(world):
    odd = np.array(["[red]x[/red]", "[/]"])[np.arange(len(world.y)) % 2]
    found = pb.audit(world.y, world.mcs, columns={"[b]": odd}, regions=["[b]"], repair=False)
    text = found.to_text()
    assert "[b] = [red]x[/red]" in text
    assert "[b] = [/]" in text


def test_weights_of_any_size(world):
    huge = np.r_[1e300, np.full(len(world.y) - 1, 1e290)]
    found = pb.audit(world.y, world.cal, sample_weight=huge, repair=False)
    assert all(np.isfinite(error.estimate) for error in found.errors)


def test_calibration_loss_of_an_audit(world):
    audit, loss = pb.audit(world.y, world.mcs), pb.calibration_loss(world.y, world.mcs)
    assert audit["calibration_loss"] == loss.loss
    assert audit["calibration_loss.relative"] == loss.relative
    assert audit.flat()["log_score.calibrated"] == loss.calibrated
    assert "BiasCorrectedTemperature, 5 random folds" in audit.settings["calibration_loss"]
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
    assert (
        pb.audit(world.y, world.cal, repair=False).settings["calibration_loss"] == "not requested"
    )


def test_features_reveal_misjudged_regions():
    world = simulate.neural_outputs(4000, seed=1)
    audit = pb.audit(world.y, world.scores, features=world.features)
    choices = {"calibrator": "none", "score": "log"}
    budget = pb.loss_budget(world.y, world.scores, world.features, **choices)
    total = audit["log_score.normalized"]
    assert audit.recommended.name == "identity"
    assert audit["grouping_loss"] == audit.budget.grouping
    assert audit.budget.grouping == pytest.approx(budget.grouping / total.naive)
    assert audit["grouping_loss.relative"] == pytest.approx(budget.grouping / budget.total)
    assert "hidden_groups" in rules(audit)
    found = json.loads(audit.to_json())["budget"]
    assert found["total"]["value"] == float(total)
    assert found["regions"][0].keys() >= {"rule", "rows", "stated", "observed", "verdict"}
    assert "groups the model misjudges" in audit.to_text()
    plain = pb.audit(world.y, world.scores)
    assert plain.budget is None
    assert json.loads(plain.to_json())["budget"] is None
    assert "hidden_groups" not in rules(plain)


def test_misjudged_given_groups_are_reported():
    world = simulate.unfair_groups(6000)
    audit = pb.audit(world.y, world.scores, columns={"group": world.group}, regions=["group"])
    assert rules(audit)["hidden_groups"] == "warning"
    (clause,) = (one.clause for one in audit.findings if one.rule == "hidden_groups")
    assert clause == "hidden groups: same prediction, different outcomes"
    assert "group = " in audit.verdict
    fair = simulate.unfair_groups(6000, {"a": 0.0, "b": 0.0})
    calm = pb.audit(fair.y, fair.scores, columns={"group": fair.group}, regions=["group"])
    assert rules(calm)["hidden_groups"] == "note"


def test_json_needs_an_existing_folder(world, tmp_path):
    with pytest.raises(pb.InputError, match="folder must exist"):
        pb.audit(world.y, world.cal).to_json(tmp_path / "none" / "audit.json")


def test_the_fingerprint_is_of_the_rows(world):
    order = np.random.default_rng(0).permutation(len(world.y))
    audit = pb.audit(world.y, world.cal)
    assert audit.fingerprint == pb.audit(world.y[order], world.cal[order]).fingerprint
    assert audit.fingerprint != pb.audit(world.y, world.mcs).fingerprint


def test_repr_reads_like_the_terminal(world):
    found = pb.audit(world.y, world.cal)
    short, text = repr(found), found.to_text()
    assert "Better than the base-rate forecast" in text
    for shown in (short, text):
        assert found.headline in shown
        assert found.decision.sentence in " ".join(shown.split())
        assert "log loss" in shown
        assert "\x1b" not in shown
    assert len(short.splitlines()) <= 20 < len(text.splitlines())


def calibrated(world):
    return pb.audit(world.y, world.cal)


# For each rule an audit in which it must speak (with its level) and one in which it must not.
FIRING = {
    "infinite_log_score": (
        lambda w: pb.audit([0, 1, 1], [[1.0, 0.0], [1.0, 0.0], [0.2, 0.8]]),
        "bad",
        calibrated,
    ),
    "against_class_frequencies": (
        lambda w: pb.audit(w.y, 1 - w.cal),
        "bad",
        lambda w: pb.audit([1], [0.5]),
    ),
    "worse_than_constant_decision": (
        lambda w: pb.audit(w.y, 1 - w.cal, costs=[[0, 1], [1, 0]]),
        "bad",
        lambda w: pb.audit(w.y, w.cal, costs=[[0, 1], [1, 0]]),
    ),
    "good_decisions_bad_probabilities": (
        lambda w: pb.audit(*overconfident(w)),
        "warning",
        calibrated,
    ),
    "rejecting_all_is_better": (lambda w: pb.audit(w.y, 1 - w.cal), "warning", calibrated),
    "miscalibration_costs": (
        lambda w: pb.audit(w.y, w.mcs),
        "warning",
        lambda w: pb.audit(w.y, w.mcs, repair=False),
    ),
    "one_class": (lambda w: pb.audit(w.y[w.y == 0], w.cal[w.y == 0]), "warning", calibrated),
    "rows_set_aside": (
        lambda w: pb.audit([0, 1, 7], [0.1, 0.9, 0.5], on_bad_rows="drop"),
        "warning",
        calibrated,
    ),
    "only_confidence": (lambda w: confidence(w), "note", calibrated),
    # it always says something
    "against_chance": (lambda w: pb.audit(w.y, w.mcs), "warning", lambda w: None),
    "hidden_groups": (lambda w: unfair(), "warning", calibrated),
    "few_rows": (lambda w: pb.audit(w.y[:50], w.cal[:50]), "note", calibrated),
    "few_clusters": (
        lambda w: pb.audit(w.y, w.cal, clusters=np.arange(len(w.y)) % 20, repair=False),
        "note",
        calibrated,
    ),
    "few_of_a_class": (
        lambda w: pb.audit(
            np.where(np.arange(len(w.y)) < 3, 1, 0), np.full(len(w.y), 0.01), repair=False
        ),
        "note",
        calibrated,
    ),
    "absent_classes": (
        lambda w: pb.audit(w.y, np.column_stack([w.cal, np.zeros(len(w.y))]), classes=[0, 1, 2]),
        "note",
        calibrated,
    ),
    "columns_not_grouped": (
        lambda w: pb.audit(w.y, w.cal, columns={"zip": codes(w.y, 80)}, repair=False),
        "note",
        lambda w: pb.audit(w.y, w.cal, columns={"site": np.arange(len(w.y)) % 8}, repair=False),
    ),
}


def test_calibration_error_is_shown_with_the_value_expected_if_calibrated(world):
    audit = pb.audit(world.y, world.cal)
    assert audit.calibration.value == pytest.approx(
        pb.calibration_error(world.y, world.cal, lens=pb.Binary()), abs=1e-12
    )
    assert rules(audit)["against_chance"] == "good"
    assert rules(pb.audit(world.y, world.mcs))["against_chance"] == "warning"
    exact = pb.calibration_test(world.y, world.cal, lens=pb.Binary())
    assert audit.calibration.null_mean == pytest.approx(exact.null_mean, rel=0.05)
    weighted = pb.audit(world.y, world.cal, sample_weight=np.full(len(world.y), 3.0))
    assert weighted.calibration.value == pytest.approx(audit.calibration.value, rel=1e-9)
    assert weighted.calibration.null_mean == pytest.approx(exact.null_mean, rel=0.05)
    assert rules(weighted)["against_chance"] == "good"


def codes(y: np.ndarray, count: int) -> np.ndarray:
    """A column of text with so many values."""
    return np.array([f"zip {i % count}" for i in range(len(y))])


def unfair():
    world = simulate.unfair_groups(6000)
    return pb.audit(world.y, world.scores, columns={"group": world.group}, regions=["group"])


def overconfident(world):
    p = np.where(world.cal > 0.5, 1 - 1e-12, 1e-12)
    return world.y, p


def confidence(world):
    return pb.audit(
        pb.Predictions.from_confidence(world.cal.max(axis=1), world.cal.argmax(axis=1) == world.y)
    )


def test_every_function_takes_predictions(world):
    rows = pb.Predictions(world.y, np.log(world.cal), from_logits=True)
    assert (
        pb.audit(rows)["log_score"]
        == pb.log_score(rows)
        == pb.log_score(world.y, np.log(world.cal), from_logits=True)
    )
    assert pb.bayes_risk(rows, costs=[[0, 1], [5, 0]]) == pytest.approx(
        pb.bayes_risk(world.y, world.cal, [[0, 1], [5, 0]])
    )
    assert pb.calibration_error(rows) == pytest.approx(pb.calibration_error(world.y, world.cal))
    assert pb.partitioned_calibration_error(rows, partitions=pb.Whole()) < 0.1
    assert pb.cumulative_differences(rows).n == len(world.y)
    for options in (
        {"y_proba": world.cal},
        {"from_logits": True},
        {"sample_weight": np.ones(len(world.y))},
    ):
        with pytest.raises(pb.InputError, match="together with Predictions"):
            pb.log_score(rows, **options)
    with pytest.raises(pb.InputError, match="is required"):
        pb.log_score(world.y)
    with pytest.raises(pb.InputError, match="matrix"):
        pb.bayes_risk(rows)


def test_every_rule_is_tested():
    assert {rule.name for rule in RULES} == set(FIRING)


@pytest.mark.parametrize("rule", FIRING)
def test_rules_fire_and_do_not_fire(world, rule):
    fires, level, silent = FIRING[rule]
    assert rules(fires(world)).get(rule) == level
    quiet = silent(world)
    assert quiet is None or rule not in rules(quiet)


def test_few_rows_means_an_error_of_five_points_is_undetectable(world):
    text = next(
        finding.text
        for finding in pb.audit(world.y[:150], world.cal[:150]).findings
        if finding.rule == "few_rows"
    )
    assert "a calibrated model would have an error of up to" in text
    rare = np.where(np.arange(len(world.y)) < 3, 2, world.y)
    thin = pb.audit(rare, np.column_stack([world.cal * 0.998, np.full(len(world.y), 0.002)]))
    assert "1 class has fewer than 10 rows" in thin.verdict


def test_infinite_rows_are_named(world):
    outputs = np.array([0.2, 0.0, 0.7, 1.0, 0.0, 0.3])
    binary = pb.audit([0, 1, 1, 0, 0, 1], outputs)
    logits = np.log(
        np.column_stack([1 - outputs, outputs]),
        where=np.column_stack([1 - outputs, outputs]) > 0,
        out=np.full((6, 2), -np.inf),
    )
    for audit in (
        binary,
        pb.audit([0, 1, 1, 0, 0, 1], np.column_stack([1 - outputs, outputs])),
        pb.audit([0, 1, 1, 0, 0, 1], logits, from_log_probs=True),
    ):
        finding = audit.findings[0]
        assert finding.rule == "infinite_log_score"
        assert finding.rows == (1, 3)
        assert "(rows 1, 3, counted from 0)" in finding.text
    assert calibrated(world).findings[0].rows == ()


def test_many_calibrators_are_compared_if_the_log_loss_is_infinite():
    """A wrong output of 1 stays near 1 under temperature scaling, worse than the base rate."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.5, 0.7, 0.9], 1500)
    y = (rng.random(1500) < np.where(p == 0.9, 0.7, 0.4)).astype(int)
    p[7], y[7] = 1, 0
    audit = pb.audit(y, p)
    normalized = {repair.name: repair.normalized for repair in audit.repairs}
    assert normalized["isotonic"] < 1 < normalized["bias_corrected_temperature"]
    assert [one.name for one in audit.repairs if one.recommended] == ["isotonic"]
    assert "by isotonic regression makes the infinite log loss finite" in audit.verdict


def test_the_gain_of_a_calibrator_is_reported(world):
    plain, many = pb.audit(world.y, world.mcs), pb.audit(world.y, world.mcs, repair="compare")
    assert "by bias-corrected temperature" in plain.verdict
    best = next(repair for repair in many.repairs if repair.recommended)
    finding = next(finding for finding in many.findings if finding.rule == "miscalibration_costs")
    assert f"by {best.title}" in finding.text
    assert Calibrate() in finding.advice  # chooses the same among the same calibrators
    assert Calibrate("bias_corrected_temperature") == plain.decision.action
    assert f"{best.gain:.1%} of the log loss" in finding.text


def test_findings_have_advice_and_a_reference(world):
    audit = pb.audit(1 - world.y, world.mcs, costs=[[0, 1], [1, 0]])
    for finding in audit.findings:
        assert finding.advice or finding.level in ("good", "note")
        assert "paper" not in finding.reference.lower()  # a stranger knows authors, not our numbers
    assert audit.findings[0].reference == "Ferrer & Ramos 2025, Section 2.3.2"


@pytest.mark.parametrize(
    ("outputs", "begins"),
    [
        (lambda w: np.full(len(w.y), w.y.mean()), "Do not use these probabilities."),
        (lambda w: w.mcs, "Recalibrate before use: the probabilities are badly off."),
        (lambda w: w.cal, "Use these probabilities."),
    ],
)
def test_the_headline_is_one_plain_sentence(outputs, begins):
    world = simulate.gaussian_posteriors(8000, 2, seed=1)
    assert pb.audit(world.y, outputs(world)).headline == begins


def test_against_class_frequencies_has_three_levels(world):
    levels = [
        rules(pb.audit(world.y, p))["against_class_frequencies"]
        for p in (world.cal, world.mcp, 1 - world.cal)
    ]
    assert levels[0] == "good"
    assert levels[2] == "bad"
    rng = np.random.default_rng(0)
    assert (
        rules(pb.audit(rng.integers(0, 2, 200), np.full(200, 0.5)))["against_class_frequencies"]
        == "warning"
    )


def test_the_most_serious_finding_comes_first():
    audit = pb.audit([0, 1, 7], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]], on_bad_rows="drop")
    assert [finding.level for finding in audit.findings] == sorted(
        (finding.level for finding in audit.findings), key=["bad", "warning", "good", "note"].index
    )
    assert audit.findings[0].text.startswith("The model gave the true class probability 0 in 1 row")


def test_absent_classes_keep_their_column():
    audit = pb.audit(["b", "a"], [[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]], classes=["a", "b", "c"])
    assert audit.to_dict()["class_rows"] == [1, 1, 0]
    assert np.isnan(audit["log_score"].per_class["c"])
    assert audit.summary.argmax.matrix().shape == (3, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("log_score=0.5", 0.5), ("accuracy=90%", 0.9), ("a.b = 1e-3", 1e-3), ("x=5 %", 0.05)],
)
def test_thresholds_are_parsed(text, expected):
    assert Threshold.parse(text, "max").bound == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["log_score", "=3", "log_score=", "log_score=high", "log_score=nan"]
)
def test_invalid_thresholds_raise(text):
    with pytest.raises(pb.InputError, match="NAME=VALUE"):
        Threshold.parse(text, "max")


@pytest.mark.parametrize("name", ["ece", "accuracy.high", "groups.sex=f.gap.low", "ece.p_value"])
def test_bounds_of_shares_above_1_are_refused(name):
    with pytest.raises(pb.InputError, match=re.escape(f"at most 1 (found: '{name}=5'). Write ")):
        Threshold.parse(f"{name}=5", "max")
    for text in (f"{name}=1", f"{name}=100%", f"{name}=-2", "log_score=5", "groups.ece=1.slope=5"):
        Threshold.parse(text, "min")


def test_a_threshold_holds_at_equality_and_never_for_nan():
    values = {"a": 0.5, "b": float("nan"), "c": float("inf")}
    held = [Threshold("a", "max", 0.5), Threshold("a", "min", 0.5), Threshold("c", "min", 1)]
    broken = [
        Threshold("b", "max", 1),
        Threshold("b", "min", 0),
        Threshold("c", "max", 1e300),
        Threshold("a", "max", 0.4),
    ]
    checked = check_thresholds(values, held + broken)
    assert [one.threshold for one in checked if one.failed] == broken
    with pytest.raises(pb.InputError, match="must name one of a, b, c"):
        check_thresholds(values, [Threshold("d", "max", 1)])


def test_columns_of_many_values_are_named(world):
    audit = pb.audit(world.y, world.cal, columns={"zip": codes(world.y, 80)}, repair=False)
    assert "zip has 80 values. A column needs one value per row and at most 50" in audit.verdict


def test_error_rate_and_accuracy_have_one_interval(world):
    for y, p in ((world.y, world.mcs), ([1, 0, 1, 1], [0.2, 0.9, 0.1, 0.4])):
        audit = pb.audit(y, p, repair=False, costs=[[0, 1], [1, 0]])
        right, wrong = audit["accuracy"], audit["error_rate"]
        assert wrong == pytest.approx(1 - right)
        assert wrong.interval == pytest.approx((1 - right.high, 1 - right.low))
        for name in ("reject_risk", "cost_risk"):
            assert 0 <= audit[name].low <= audit[name] <= audit[name].high <= 1


def test_one_class_has_no_normalised_score():
    audit = pb.audit([0] * 20, np.linspace(0.1, 0.6, 20))
    for name in ("log_score", "brier_score", "error_rate"):
        assert np.isnan(audit[f"{name}.normalized"])
        assert np.isfinite(audit[name])


def test_a_test_without_power_is_not_good_news(world):
    few = next(
        f for f in pb.audit(world.y[:60], world.cal[:60]).findings if f.rule == "against_chance"
    )
    assert few.level == "note"
    assert "Too few rows to detect miscalibration" in few.text
    found = pb.audit(world.y, world.cal, repair=False)
    ece = found.errors[0]
    ece = replace(ece, test=replace(ece.test, p_value=0.03, null_mean=0.0))
    one = Case(found.evidence, found.estimates, (ece,))
    (perhaps,) = against_chance(one)
    assert perhaps.level == "note"
    assert perhaps.text.startswith("Possibly miscalibrated")


def test_class_errors_that_cancel_in_the_top_label_are_reported():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.9, 4000)
    found = next(
        f
        for f in pb.audit(rng.random(4000) < p + 0.05, p, repair=False).findings
        if f.rule == "against_chance"
    )
    assert found.level == "warning"
    assert found.text.startswith(
        "Miscalibrated: the probability of class True has a calibration error of 0.0"
    )


def test_two_rows_are_undecided():
    assert pb.audit([0, 1], [0.2, 0.8]).grade == "cannot_tell"
    y, p = np.repeat([0, 1, 0, 1], [27, 3, 3, 27]), np.repeat([0.1, 0.9], 30)
    found = pb.audit(y, p, repair=False)
    assert rules(found)["against_class_frequencies"] == "good"
    assert found.grade == "cannot_tell"
    assert (
        "60 rows are too few to tell whether recalibration would help (by 1%"
        in found.decision.sentence
    )


def test_the_headline_uses_every_test(world):
    """Errors that cancel in the most probable class: probability is wrongly divided between the
    second and third class."""
    rng = np.random.default_rng(0)
    top = rng.uniform(0.5, 0.95, 6000)
    y = np.where(rng.random(6000) < top, 0, 1 + (rng.random(6000) < 0.5))
    p = np.column_stack([top, 0.62 * (1 - top), 0.38 * (1 - top)])
    found = pb.audit(y, p, repair=False)
    assert found.errors[0].p_value > 0.05
    assert rules(found)["against_chance"] == "warning"
    assert found.grade == "recalibrate"
    assert found.decision.sentence.endswith("No calibrator was tried.")


@pytest.mark.parametrize(
    ("low", "share", "high", "searched", "level", "words"),
    [
        (
            -0.459,
            -0.226,
            -0.051,
            1.0,
            "note",
            "No hidden groups are detected with these features: their estimated cost is 0.0%",
        ),
        (
            -0.1,
            0.01,
            0.2,
            1.0,
            "note",
            "of the Brier score (95% interval −10.0% to 20.0%). Groups that these features do not",
        ),
        (-0.01, -0.001, 0.01, 1.0, "note", "No hidden groups are detected with these features"),
        (0.001, 0.002, 0.01, 1.0, "note", "Hidden groups cost little with these features"),
        (-0.01, -0.001, 0.01, 1.0, "note", "not ruled out"),
        (-0.01, 0.001, 0.01, 0.4, "note", "Only 40.0% of the rows were searched"),
        (0.0, 0.0, 0.0, 0.0, "note", "Too few rows to search for hidden groups."),
        (0.02, 0.05, 0.08, 1.0, "warning", "at least 5.0% of the Brier score"),
    ],
)
def test_a_lower_bound_is_never_good_news(low, share, high, searched, level, words):
    budget = SimpleNamespace(
        total=1.0, grouping=pb.Estimate(share, low=low, high=high), misjudged=lambda n: ()
    )
    budget.score_words = lambda pairs: "Brier score"
    budget.found = SimpleNamespace(given_groups=False, searched=searched)
    budget.calibrator = ""
    case = SimpleNamespace(budget=budget, pairs=False, compared=False, repair_of_groups=None)
    (finding,) = hidden_groups(case)
    assert finding.level == level
    assert words in finding.text
    assert "up to" not in finding.text


def test_small_bins_are_searched_and_no_search_is_not_good_news():
    """One hidden group costs half of the Brier score; bins of 100 rows are too small for regions of
    30 rows."""
    world = simulate.linked_scores(1500, lambda s: np.minimum(1, 2 * s), seed=11)
    assert (
        rules(pb.audit(world.y, world.scores, features=world.features, repair=False))[
            "hidden_groups"
        ]
        == "warning"
    )
    few = pb.audit(world.y[:60], world.scores[:60], features=world.features[:60], repair=False)
    assert few.budget.found.searched == 0
    assert "Too few rows to search for hidden groups" in few.verdict


@pytest.fixture(scope="module")
def wavy():
    """Outputs that are alternately too low and too high, which no temperature repairs."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 6000)
    y = rng.random(6000) < np.clip(p + 0.15 * np.sin(8 * np.pi * p), 0, 1)
    return y.astype(int), p


def test_one_calibrator_without_gain_does_not_rule_out_others(wavy, world):
    y, p = wavy
    alone = pb.audit(y, p)  # the error is clear, so that others are tried
    assert alone.grade == "recalibrate"
    assert alone.recommended.name not in ("identity", "bias_corrected_temperature")
    assert "No recalibration needed" not in alone.verdict
    compared = pb.audit(y, p, repair="compare")
    assert compared.to_dict() == alone.to_dict()
    said = next(finding for finding in compared.findings if finding.rule == "miscalibration_costs")
    assert said.text.startswith("Miscalibration costs")
    assert (
        f"by {alone.recommended.title} in cross-validation; see below for other calibrators"
        in " ".join(compared.to_text().split())
    )
    found = pb.audit(world.y, world.cal)
    assert [repair.name for repair in found.repairs] == ["identity", "bias_corrected_temperature"]
    assert "see below" not in " ".join(found.to_text().split())
    fine = next(f for f in found.findings if f.rule == "miscalibration_costs")
    assert fine.level == "good"
    assert fine.text.startswith("Bias-corrected temperature does not help: it ")


@pytest.mark.parametrize("rows", [700, 1200])  # a budget of the top label, and one of all classes
def test_a_bin_of_outputs_is_not_reported_as_a_misjudged_group(rows):
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, rows), rng.random(rows)
    noise = np.where(np.abs(p - 0.5) > 0.25, rng.random(rows), 0)  # constant in the bins between
    found = pb.loss_budget(y, p, {"noise": noise}, calibrator="none")
    table = found.found.regions
    whole = [region for region in table.misjudged() if region.rule.endswith("all")]
    assert whole  # bins that are wrong, and that no feature splits
    assert found.misjudged(len(table))
    assert all("noise" in region.rule for region in found.misjudged(len(table)))


def test_a_share_lies_within_its_interval():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    found = pb.audit(y, np.abs(y - rng.uniform(0, 0.001, 3000)), repair=False)
    shown = re.search(r"is ([\d.]+)% lower \(95% interval ([\d.]+)% to ([\d.]+)%\)", found.verdict)
    share, low, high = map(float, shown.groups())
    assert 99 < low <= share <= high < 100.05


def test_groups_keep_the_names_the_caller_gave(world):
    pd = pytest.importorskip("pandas")
    n = len(world.y)
    columns = pd.DataFrame(
        {
            "site": pd.array(np.resize([1, 2, None], n), "Int64"),
            "size": np.resize([1.0, 2.0, np.nan], n),
            "kind": np.resize(np.array(["a", "1.0", None], object), n),
            "half": np.resize([0.5, 1.0, -3.0], n),
        }
    )
    found = pb.audit(world.y, world.cal, columns=columns, repair=False)
    named = {
        name: [group.value for group in found.groups if group.column == name] for name in columns
    }
    assert named == {
        "site": ["1", "2", "(missing)"],
        "size": ["1", "2", "(missing)"],
        "kind": ["1.0", "a", "(missing)"],
        "half": ["-3", "0.5", "1"],
    }
    regions = pb.grouping_loss(world.y, world.cal, columns, regions=["site"]).regions
    assert {regions.origin(number).rule for number in regions.number} == {
        "site = (missing)",
        "site = 1",
        "site = 2",
    }
    drawn = pb.diagrams.group_errors_diagram(world.y, world.cal, by=columns["size"], resamples=5)
    assert set(drawn.name) == {"(missing)", "1", "2"}


def test_words_for_stated_confidences(world):
    rows = pb.Predictions.from_confidence(
        world.cal.max(axis=1), world.cal.argmax(axis=1) == world.y
    )
    wrong = pb.Predictions.from_confidence(
        1 - world.cal.max(axis=1), world.cal.argmax(axis=1) == world.y
    )
    for audit in (pb.audit(rows), pb.audit(wrong), pb.audit(rows.take(np.arange(90)))):
        assert "the base-rate forecast" in audit.verdict
        assert "most probable class" not in audit.verdict
        assert "class frequencies" not in audit.verdict
    assert "the confidence" in pb.audit(wrong).verdict
    assert (
        "All answers are right"
        in pb.audit(pb.Predictions.from_confidence([0.7, 0.9], [1, 1])).verdict
    )


def test_few_rows_do_not_show_that_a_model_is_hardly_better(world):
    rng = np.random.default_rng(0)
    few = pb.audit(world.y[:12], np.clip(world.cal[:12, 1] + rng.normal(0, 0.4, 12), 0.05, 0.95))
    assert few.grade == "cannot_tell"
    assert few.decision.sentence.endswith("are better than the base-rate forecast.")
    many = pb.audit(rng.integers(0, 2, 5000), np.full(5000, 0.5) + rng.normal(0, 0.01, 5000))
    assert many.grade == "do_not_use"
    assert "No better than the base-rate forecast" in many.decision.sentence
    assert "Only 1 row:" in pb.audit([1], [0.4]).verdict


def test_no_calibrator_is_recommended_where_none_helps():
    world = simulate.gaussian_posteriors(800, 2, seed=1)
    audit = pb.audit(world.y, world.cal, repair="compare")
    assert audit.selected.name == "identity"
    assert audit.recommended is None or audit.recommended.name == "identity"
    finding = next(finding for finding in audit.findings if finding.rule == "miscalibration_costs")
    assert finding.level in ("good", "note")
    assert "calibrators helps. The best, " in finding.text
    assert "original" not in finding.text
    assert not finding.advice


def test_rows_of_a_sample_are_reported_as_a_sample():
    rows = pb.Predictions([0, 1, 1, 0, 0, 1], np.array([0.2, 0.0, 0.7, 1.0, 0.0, 0.3]))
    whole = evidence_of(rows, Plan.of(rows))
    part = replace(whole, sample=rows.take(np.array([0, 3])), places=np.array([0, 3]))
    (finding,) = infinite_log_score(Case(part, {}, ()))
    assert "(the first of the sample: row 3, counted from 0)" in finding.text
    assert finding.rows == (3,)


def test_the_printed_next_step_has_the_options_of_the_rows(world):
    audit = pb.audit(world.y, 3 * np.log(world.cal), from_logits=True)
    call = "pb.select_calibrator(y_true, y_proba, from_logits=True,"
    assert call in repr(audit)
    assert call in audit.to_text()
