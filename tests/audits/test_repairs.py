"""Repairs: out-of-fold comparison, the rule of select_calibrator, and the pattern of Chidambaram &
Ge 2024, Tables 5 and 6."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import probaudit as pb
from probaudit.audits.repairs import among, candidates, compare_repairs, group_columns_of
from probaudit.calibrators.outputs import Outputs
from probaudit.calibrators.registry import CONTROL, METHODS, calibrator_named
from probaudit.engines.memory import evidence_of
from probaudit.states import Plan
from tests.calibrators.test_calibration_loss import hidden_groups


def compared(rows: pb.Predictions):
    return {repair.name: repair for repair in compare_repairs(evidence_of(rows, Plan.of(rows)))}


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(2000, 3, seed=3)


@pytest.fixture(scope="module")
def found(world):
    return compared(pb.Predictions(world.y, world.mcs))


def test_repairs_agree_with_calibration_loss(world, found):
    for name in ("temperature", "bias_corrected_temperature", "vector", CONTROL):
        loss = pb.calibration_loss(world.y, world.mcs, calibrator=calibrator_named(name))
        repair = found[name]
        # a clear choice, of which there is little to correct
        assert repair.selected == (name == "temperature")
        _check_log_score(repair, found, float(loss.calibrated))
        assert repair.gain == pytest.approx(
            loss.relative, abs=1e-3 if repair.recommended else 1e-12
        )
        half = loss.relative.high - loss.relative
        assert repair.gain.interval == pytest.approx((repair.gain - half, repair.gain + half))
        after = pb.Predictions(world.y, loss.posteriors)
        assert repair.brier_score == pytest.approx(pb.brier_score(after))
        assert repair.brier_score.interval == pytest.approx(
            pb.brier_score(after).interval, rel=1e-3
        )
        assert repair.accuracy == pytest.approx(np.mean(loss.posteriors.argmax(axis=1) == world.y))
        assert repair.ece == pytest.approx(float(pb.calibration_error(after)), abs=1e-9)
        assert repair.classwise_ece == pytest.approx(
            float(pb.calibration_error(after, lens=pb.Classwise()))
        )
        assert repair.topk_ece == pytest.approx(
            float(pb.calibration_error(after, lens=among(2))), abs=1e-9
        )


def _check_log_score(repair, repairs, out_of_fold):
    """That of the rows out of fold; that of the selected one agrees with its corrected gain."""
    if repair.selected and repair.name != "identity":
        out_of_fold = float(repairs["identity"].log_score) * (1 - float(repair.gain))
    assert float(repair.log_score) == pytest.approx(out_of_fold, rel=1e-9)


def test_brier_scores_are_compared_row_by_row(world, found):
    """Paired differences, as in `compare`, are far more precise than two separate intervals."""
    for name in ("temperature", "histogram", CONTROL):
        after = pb.calibration_loss(
            world.y, world.mcs, calibrator=calibrator_named(name)
        ).posteriors
        exact = pb.compare(
            {"raw": world.mcs, "after": after}, world.y, repair=False, resamples=2
        ).differences["after"]
        assert found[name].brier_change == pytest.approx(exact["brier_score"])
        assert found[name].brier_change.interval == pytest.approx(exact["brier_score"].interval)
    width = found["temperature"].brier_score.high - found["temperature"].brier_score.low
    assert (
        found["temperature"].brier_change.high - found["temperature"].brier_change.low < 0.7 * width
    )


def test_identity_keeps_the_original_outputs(world, found):
    raw = found["identity"]
    assert raw.log_score == pytest.approx(pb.log_score(world.y, world.mcs))
    assert (raw.gain, *raw.gain.interval) == (0, 0, 0)
    assert (raw.brier_change, *raw.brier_change.interval) == (0, 0, 0)
    assert raw.title == "original (uncalibrated)"


@pytest.mark.parametrize("outputs", ["cal", "mcs", "mcp", "mcps"])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_recommendation_is_that_of_select_calibrator(outputs, classes):
    world = pb.simulate.gaussian_posteriors(800, classes, seed=classes)
    rows = pb.Predictions(world.y, getattr(world, outputs))
    repairs = compared(rows)
    names = [name for name in repairs if METHODS[name][1].role != "comparison"]
    choice = pb.select_calibrator(rows, candidates=names)
    assert [name for name, repair in repairs.items() if repair.recommended] == [choice.chosen]
    recommended = repairs[choice.chosen]
    assert float(recommended.gain) == pytest.approx(choice.gain, abs=1e-9)
    assert recommended.gain.interval == pytest.approx(choice.gain.interval, abs=1e-9)
    if choice.chosen != "identity":
        assert f"removed by {recommended.title}" in recommended.gain.definition
        assert (
            f"corrected for choosing among {len(names) - 1} calibrators"
            in recommended.gain.definition
        )
    for candidate in choice.candidates:
        repair = repairs[candidate.name]
        _check_log_score(repair, repairs, candidate.score)
        assert float(repair.worse_by) == pytest.approx(candidate.worse_by, abs=1e-9)
        assert repair.ece == pytest.approx(candidate.ece, abs=1e-9)


def test_the_control_is_never_recommended():
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.7).astype(int)
    # says nothing about the rows: one confidence for all is the best there is
    noise = rng.random(600) * 0.5 + 0.5
    repairs = compared(pb.Predictions(y, noise))
    control = repairs[CONTROL]
    assert control.log_score < repairs["identity"].log_score
    assert control.control
    assert not control.recommended
    assert "never recommended" in control.words
    assert sum(repair.recommended for repair in repairs.values()) == 1


def outputs_of(classes: int) -> Outputs:
    return Outputs.of(pb.Predictions(np.arange(classes), np.full((classes, classes), 1 / classes)))


def test_slow_candidates_are_left_out_with_many_classes():
    few, some, many = (list(candidates(outputs_of(classes))) for classes in (5, 100, 1000))
    assert set(many) < set(some) < set(few)
    for names in (few, some, many):
        assert names[0] == "identity"
        assert names[-1] == CONTROL
        known = [name for name in names if name != "isotonic_plain"]
        # from simple to flexible, as the rule needs
        assert known == sorted(known, key=list(METHODS).index)


def test_a_fitted_candidate_is_not_fitted_again(world, monkeypatch):
    from probaudit.audits import audit, repairs

    calls = []

    def counted(rows, calibrator=None, **options):
        calls.append(type(calibrator).__name__)
        return pb.calibration_loss(rows, calibrator=calibrator, **options)

    for module in (audit, repairs):
        monkeypatch.setattr(module, "calibration_loss", counted)
    found = pb.audit(world.y, world.mcs, repair="compare")
    assert len(calls) == len(found.repairs)
    assert "BiasCorrectedTemperature" not in calls
    names = [repair.name for repair in found.repairs]
    assert (
        found["calibration_loss.relative"]
        == found.repairs[names.index("bias_corrected_temperature")].gain
    )


def test_weights_count(world):
    weights = np.random.default_rng(0).random(len(world.y))
    repairs = compared(pb.Predictions(world.y, world.mcs, sample_weight=weights))
    loss = pb.calibration_loss(
        world.y, world.mcs, sample_weight=weights, calibrator=calibrator_named("temperature")
    )
    _check_log_score(repairs["temperature"], repairs, float(loss.calibrated))
    after = pb.Predictions(world.y, loss.posteriors, sample_weight=weights)
    assert repairs["temperature"].brier_score == pytest.approx(pb.brier_score(after))
    assert repairs["temperature"].ece == pytest.approx(float(pb.calibration_error(after)), abs=1e-9)


def test_bad_rows_are_left_out():
    world = pb.simulate.gaussian_posteriors(500, 2, seed=0)
    labels = world.y.copy()
    labels[::9] = 5
    dropped = compared(pb.Predictions(labels, world.mcs, on_bad_rows="drop"))
    kept = labels < 5
    assert dropped["temperature"].log_score.n == kept.sum()
    assert (
        dropped["temperature"].log_score
        == compared(pb.Predictions(world.y[kept], world.mcs[kept]))["temperature"].log_score
    )


@pytest.mark.parametrize(
    "name",
    ["ferrer_cifar10_resnet20", pytest.param("ferrer_cifar100_resnet20", marks=pytest.mark.slow)],
)
def test_the_pattern_of_chidambaram_and_ge_2024(shared, name):
    """Chidambaram & Ge 2024, Tables 5 (CIFAR-10) and 6 (CIFAR-100), of ResNet-32; here ResNet-20,
    and five folds in place of one split.

    In both, MRR has the lowest ECE, but the worst finite NLL and the worst Brier score. HB and IR
    have infinite NLL. TS has the best NLL and, among the five methods of the paper, the best Brier
    score, and keeps the accuracy. HB loses accuracy.
    """
    data = np.load(shared / "data" / f"{name}.npz")
    audit = pb.audit(data["labels"], data["logits"], from_logits=True, repair="compare")
    repairs = {repair.name: repair for repair in audit.repairs}
    names = ("identity", "temperature", "histogram", "isotonic_plain", CONTROL)
    paper = {repair: repairs[repair] for repair in names}
    assert min(paper, key=lambda repair: paper[repair].ece) == CONTROL
    finite = [repair for repair in paper if math.isfinite(paper[repair].log_score)]
    assert set(paper) - set(finite) == {"histogram", "isotonic_plain"}
    assert max(finite, key=lambda repair: paper[repair].log_score) == CONTROL
    assert max(paper, key=lambda repair: paper[repair].brier_score) == CONTROL
    assert min(finite, key=lambda repair: paper[repair].log_score) == "temperature"
    assert min(paper, key=lambda repair: paper[repair].brier_score) == "temperature"
    for same in ("temperature", CONTROL):
        assert paper[same].accuracy == pytest.approx(audit["accuracy"], abs=1e-12)
    assert paper["histogram"].accuracy < audit["accuracy"]
    assert paper["identity"].ece > 3 * paper["temperature"].ece
    findings = {finding.rule: finding for finding in audit.findings}
    trap = findings["better_error_worse_score"]
    assert "mean replacement (control): ECE 0.000 instead of" in trap.text
    assert "isotonic regression: ECE" in trap.text.replace("Isotonic", "isotonic")
    assert trap.text.count("an infinite log loss") == 2
    assert "proper score" in trap.advice[0]
    assert findings["miscalibration_costs"].level == "warning"
    recommended = next(repair for repair in audit.repairs if repair.recommended)
    assert recommended.title in findings["miscalibration_costs"].text
    assert recommended.log_score <= paper["temperature"].log_score


def test_repairs_of_confidence_and_correctness():
    """A confidence below one half is still that of the given answer."""
    rng = np.random.default_rng(0)
    confidence = rng.random(600) ** 2
    right = rng.random(600) < confidence**0.5
    audit = pb.audit(pb.Predictions.from_confidence(confidence, right), repair="compare")
    repairs = {repair.name: repair for repair in audit.repairs}
    raw = repairs["identity"]
    for name in ("accuracy", "log_score", "brier_score"):
        assert getattr(raw, name) == pytest.approx(audit[name], rel=1e-9)
    assert raw.accuracy.interval == pytest.approx(audit["accuracy"].interval)
    assert raw.ece == pytest.approx(audit.calibration.value, abs=1e-9)
    assert "stated correct" in raw.accuracy.definition
    assert all(math.isnan(repair.classwise_ece) for repair in audit.repairs)
    assert {float(repair.accuracy) for repair in audit.repairs} == {float(raw.accuracy)}
    control, folds = repairs[CONTROL], pb.calibration_loss(right.astype(int), confidence).folds
    # what the other folds tell everybody
    share = np.array([right[folds != number].mean() for number in range(5)])[folds]
    assert control.log_score == pytest.approx(
        -np.log(np.where(right, share, 1 - share)).mean(), abs=1e-9
    )
    assert control.control
    assert not control.recommended
    assert candidates(outputs_of(2))[CONTROL].__class__.__name__ == "MeanReplacement"


def test_words_are_those_of_the_table():
    world = pb.simulate.gaussian_posteriors(200, 2, seed=0)
    words = [repair.words for repair in compared(pb.Predictions(world.y, world.mcs)).values()]
    assert not any("_" in one for one in words)


def test_features_and_groups_add_candidates():
    y, p, features, hidden = hidden_groups(2000)
    rows = pb.Predictions(y, p, features=features, columns={"hidden": hidden})
    found = compared(rows)
    assert list(found)[-5:] == [
        "per_group",
        "per_group_bias",
        "group_calibration",
        "multicalibration",
        CONTROL,
    ]
    assert found["multicalibration"].gain.low > 0.1
    assert found["per_group"].recommended
    assert found["per_group"].gain.low > 0.1
    assert found["group_calibration"].gain.low > 0.1
    assert found["bias_corrected_temperature"].gain.high < 0.05
    assert (
        group_columns_of(rows)
        == group_columns_of(rows, "hidden")
        == group_columns_of(rows, ["hidden"])
        == "hidden"
    )
    two = replace(rows, columns={"hidden": hidden, "other": hidden})
    assert group_columns_of(two) == group_columns_of(two, pb.Whole()) == ("hidden", "other")
    assert group_columns_of(two, ["other"]) == "other"
    assert group_columns_of(two, ["other", "absent"]) is None
    odd = {
        "hidden": hidden,
        "id": np.arange(2000).astype(str),
        "gap": np.where(hidden, np.nan, 1.0),
    }
    assert group_columns_of(replace(rows, columns=odd)) == "hidden"


def test_columns_of_groups_that_overlap_add_multicalibration():
    rng = np.random.default_rng(0)
    old, rural = rng.integers(0, 2, (2, 4000))
    x = rng.normal(size=4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(-x - old + rural))).astype(int)
    rows = pb.Predictions(y, 1 / (1 + np.exp(-x)), columns={"old": old, "rural": rural})
    found = compared(rows)
    assert "per_group" not in found
    assert found["multicalibration"].recommended
    assert found["multicalibration"].gain.low > 0.02
    audit = pb.audit(rows, repair="compare")
    advice = [line.advice for line in audit.findings if line.advice]
    calls = [part for one in advice for part in one if getattr(part, "method", "") != ""]
    # one command, which chooses it again
    assert [(part.method, part.uses, part.columns) for part in calls] == [
        ("auto", "groups", ("old", "rural"))
    ]


def test_clusters_widen_every_interval(world):
    y, p = np.repeat(world.y[:300], 4), np.repeat(world.mcs[:300], 4, axis=0)
    alone = compared(pb.Predictions(y, p))
    together = compared(pb.Predictions(y, p, clusters=np.repeat(np.arange(300), 4)))
    assert "out of fold (5 random folds)" in alone["vector"].gain.definition
    assert "out of fold (5 folds of whole clusters)" in together["vector"].gain.definition
    for name in ("log_score", "brier_score", "gain", "brier_change", "accuracy"):
        one, other = (getattr(found["vector"], name) for found in (alone, together))
        assert other.high - other.low == pytest.approx(2 * (one.high - one.low), rel=0.25), name
