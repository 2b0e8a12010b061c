"""The steps under "What to do": one for each grade, then those of the findings; commands run."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.audits.finding import ApplyCalibrator, Calls, CheckNewRows, Commands, JudgeCalibrated
from probaudit.cli.commands import app
from probaudit.report.audit_page import audit_page
from probaudit.report.decision_section import decision_section
from probaudit.report.next_steps import next_steps
from probaudit.report.page import StepList, ThresholdSlider
from probaudit.simulate import gaussian_posteriors


def overconfident(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    return y, 1 / (1 + np.exp(-3 * z))


def calibrated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    return (rng.random(n) < p).astype(int), p


def advice(audit: pb.Audit) -> list[str]:
    return [step.advice_text(audit.spelling) for step in next_steps(audit)]


def test_recalibrate_names_the_calibrator_and_how_to_judge_it():
    first, second, *_ = advice(pb.audit(*overconfident()))
    assert "bias-corrected temperature" in first
    assert "did not fit the calibrator: `pb.audit(new_y, calibrator.predict_proba" in second


def test_use_bounds_the_loss_of_later_rows():
    audit = pb.audit(*calibrated(20_000))
    assert audit.grade == "use"
    first, second = advice(audit)
    assert first == "Use the probabilities without recalibration."
    limit = float(second.split("<= ")[1].strip("`"))
    high = audit["log_score.normalized"].high
    assert high <= limit < high + 0.001


def test_cannot_tell_asks_for_the_rows_of_the_verdict():
    audit = pb.audit(*calibrated(60))
    assert audit.grade == "cannot_tell"
    first, second = next_steps(audit)
    needed = audit.decision.sentence.split("about ")[1].split(" are needed")[0]
    assert f"about {needed} in all" in first.advice_text(audit.spelling)
    assert f"{float(audit['ece']):.3f}" in second.text


def test_a_constant_is_not_called_better_than_the_base_rate():
    y = (np.random.default_rng(0).random(2000) < 0.3).astype(int)
    audit = pb.audit(y, np.full(2000, 0.3), repair="compare")
    assert audit.grade == "do_not_use"
    assert advice(audit) == ["Check that these are the model's own outputs, and audit those."]
    said = {one.words for one in audit.repairs if not one.control and not one.selected}
    assert all(
        words == "tied with the original" or words.startswith("the same as ") for words in said
    )


def test_probabilities_of_noise_end_at_the_base_rate():
    rng = np.random.default_rng(1)
    y, p = (rng.random(4000) < 0.2).astype(int), rng.uniform(0.05, 0.35, 4000)
    audit = pb.audit(y, p)
    assert audit.grade == "do_not_use"
    rate = f"{100 * y.mean():.0f}%"
    assert f"Until then, predict {rate} for class 1 in every row." in advice(audit)


def test_costs_for_which_all_rows_are_reviewed():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 0.95, 3000)
    right = rng.random(3000) < 0.5 * sure + 0.2
    audit = pb.audit(pb.Predictions.from_confidence(sure, right))
    (slider,) = (
        block for block in decision_section(audit).blocks if isinstance(block, ThresholdSlider)
    )
    (steps,) = (
        block
        for section in audit_page(audit).sections
        for block in section.blocks
        if isinstance(block, StepList)
    )
    last = steps.steps[-1]
    assert last.advice == ("If a review costs 10% of an error, review all rows.",)
    assert last.text == slider.positions[slider.start - slider.low].words
    assert "eviewing all rows" in last.text


def run(command: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("sep", [",", ";"])
@pytest.mark.parametrize("kind", ["p", "z"])
def test_commands_run_as_written(
    kind: str, sep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("rows.csv", "NEW_ROWS.csv")):
        world = gaussian_posteriors(600, 3, seed=seed)
        outputs = world.mcs if kind == "p" else np.log(world.mcs) + 1
        columns = {f"{kind}_{k}": outputs[:, k] for k in range(3)}
        pd.DataFrame({"y": world.y} | columns).to_csv(name, index=False, sep=sep)
    outputs_given = ("--logits", "z_*") if kind == "z" else ()
    outputs_given += ("--sep", sep) if sep == ";" else ()
    flag = ("--drop-bad-rows",)
    spell = Commands("rows.csv", ("--label", "y", *flag, *outputs_given), outputs_given)
    logits = {"logits": "z_*"} if kind == "z" else {}
    audit = pb.audit(pb.read("rows.csv", label="y", sep=sep, **logits))
    assert audit.decision.action is not None
    run(spell(audit.decision.action))
    run(spell(ApplyCalibrator()))
    run(spell(JudgeCalibrated()))
    run(spell(CheckNewRows(9.5)))


def test_commands_for_confidences_run_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("rows.csv", "NEW_ROWS.csv"):
        sure = rng.uniform(0.3, 0.99, 1500)
        right = np.where(rng.random(1500) < 0.7 * sure, "yes", "no")
        pd.DataFrame({"sure": sure, "right": right}).to_csv(name, index=False)
    result = CliRunner().invoke(
        app, ["audit", "rows.csv", "--confidence", "sure", "--correct", "right"]
    )
    assert "probaudit calibrate rows.csv --confidence sure --correct right" in result.output
    spell = Commands(
        "rows.csv", ("--confidence", "sure", "--correct", "right"), ("--probs", "sure")
    )
    audit = pb.audit(pb.read("rows.csv", confidence="sure", correct="right"))
    assert audit.decision.action is not None
    run(spell(audit.decision.action))
    run(spell(ApplyCalibrator()))
    judging = next_steps(audit)[1].advice[1]
    assert judging == JudgeCalibrated(pairs=True)
    run(spell(judging))
    assert (
        pb.audit(pb.read("calibrated.parquet", confidence="p_True", correct="right"))["ece"] < 0.08
    )
    names = {"pb": pb, "rows": pb.read("rows.csv", confidence="sure", correct="right")}
    new = pd.read_csv("NEW_ROWS.csv")
    names |= {"new_proba": new["sure"].to_numpy(), "new_correct": new["right"].to_numpy() == "yes"}
    calls = Calls.of(("rows",), {})
    exec(calls(audit.decision.action), names)
    assert eval(calls(judging), names)["ece"] < 0.08


@pytest.mark.parametrize("files", [1, 2])
def test_a_comparison_prints_commands_that_run(files, tmp_path, monkeypatch):
    """One file for each model, or one with a set of columns for each."""
    monkeypatch.chdir(tmp_path)
    y, p = overconfident()
    best, worse = {"a_0": 1 - p, "a_1": p}, {"b_0": p * 0 + 0.6, "b_1": p * 0 + 0.4}
    frames = [{"y": y} | best | worse] if files == 1 else [{"y": y} | best, {"y": y} | worse]
    names = ["all.csv"] if files == 1 else ["a.csv", "b.csv"]
    for name, frame in zip(names, frames, strict=True):
        pd.DataFrame(frame).to_csv(name, index=False)
    patterns = ["--probs", "a_*", "--probs", "b_*"]
    page = ["--html", "page.html"]
    shown = CliRunner().invoke(app, ["compare", *names, "--label", "y", *patterns, *page])
    assert shown.exit_code == 0, shown.output
    line = next(line for line in shown.output.splitlines() if line.startswith("→ "))
    assert line == f"→ probaudit calibrate {names[0]} --label y --probs 'a_*' -o calibrator.json"
    run(line.removeprefix("→ "))
    apply = "probaudit apply calibrator.json NEW_ROWS.csv --probs 'a_*' -o calibrated.parquet"
    assert " ".join(apply.split()[:4]) in Path("page.html").read_text()
    run(apply.replace("NEW_ROWS.csv", names[0]))


def test_useless_probabilities_are_not_recalibrated():
    rng = np.random.default_rng(1)
    y, p = (rng.random(4000) < 0.2).astype(int), rng.uniform(0.05, 0.95, 4000)
    audit = pb.audit(y, p, repair="compare")
    assert audit.grade == "do_not_use"
    assert not any("probaudit" in finding.advice_text(Commands()) for finding in audit.findings)
    ratio = float(audit["log_score.normalized"])
    (reason,) = (step.text for step in next_steps(audit) if "Until then" in str(step.advice))
    assert reason == f"The log loss of this base-rate forecast is {1 - 1 / ratio:.1%} lower."


def test_what_is_left_by_group_and_without_columns():
    """Recalibration that ignores groups leaves two of them off in opposite directions."""
    rng = np.random.default_rng(0)
    p, site = rng.uniform(0.1, 0.9, 6000), np.arange(6000) % 2
    y = (rng.random(6000) < np.where(site == 1, 0.7 * p, p**0.6)).astype(int)
    audit = pb.audit(y, p, columns={"site": site}, repair="compare", regions=["site"])
    assert audit.decision.action.needs == "the column 'site'"
    assert "Without the column 'site', " in next_steps(audit)[0].text
    plain = pb.audit(y, np.clip(1.4 * p, 0.02, 0.98), columns={"site": site}, regions=["site"])
    (worst,) = (one for one in plain.findings if one.rule == "miscalibrated_group")
    assert "Bias-corrected temperature leaves 2 of 2 groups off: site = " in worst.text


def test_an_error_that_is_left_names_what_leaves_less():
    """Temperature scaling leaves many classes underconfident; a mixture with others does not."""
    rng = np.random.default_rng(0)
    n, classes = 4000, 40
    y, z = rng.integers(0, classes, n), rng.normal(size=(n, classes))
    z[np.arange(n), y] += rng.normal(4, 2, n)
    audit = pb.audit(y, 1.5 * z, from_logits=True, repair="compare")
    best = audit.recommended
    assert "The model is then still underconfident by" in audit.decision.sentence
    step = next(one for one in next_steps(audit) if "error that is left" in str(one.advice))
    other = next(one for one in audit.repairs if one.title in str(step.advice))
    assert other.ece < 0.75 * best.ece
    assert f"an ECE of {other.ece:.3f} instead of {best.ece:.3f}" in step.text
    plain = pb.audit(*overconfident(20_000), repair="compare")
    assert not any("error that is left" in str(one.advice) for one in next_steps(plain))


def test_calls_run_as_written():
    y_true, y_proba = overconfident()
    spell = Calls()
    audit = pb.audit(y_true, y_proba)
    assert audit.decision.action is not None
    names = {"pb": pb, "y_true": y_true, "y_proba": y_proba}
    names["new_y"], names["new_proba"] = overconfident(seed=1)
    exec(spell(audit.decision.action), names)
    judged = eval(spell(JudgeCalibrated()), names)
    assert judged["log_score"] < audit["log_score"]
    exec(spell(CheckNewRows(9.5)), names)
    with pytest.raises(AssertionError):
        exec(spell(CheckNewRows(0.001)), names)
