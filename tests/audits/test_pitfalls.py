"""Each pitfall, on data that have it and on data that do not."""

from __future__ import annotations

import functools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import probaudit as pb
from probaudit import calibrators, simulate
from probaudit.audits.finding import COMMANDS, Finding
from probaudit.audits.pitfalls import (
    PITFALLS,
    better_error_worse_score,
    low_error_high_loss,
    top_better_rest_worse,
)


def drawn(p: np.ndarray, seed: int = 0) -> np.ndarray:
    """Labels drawn from a calibrated forecast."""
    rng = np.random.default_rng(seed)
    if p.ndim == 1:
        return (rng.random(len(p)) < p).astype(int)
    return (rng.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def own_rows() -> pb.Audit:
    world = simulate.gaussian_posteriors(600, 3, seed=1)
    fitted = calibrators.TemperatureScaling().fit(world.mcs, world.y)
    loaded = calibrators.from_json(calibrators.to_json(fitted))
    return pb.audit(
        world.y,
        loaded.predict_proba(world.mcs).astype(np.float32),
        calibrator=loaded,
        tolerance=1e-5,
    )


def other_rows() -> pb.Audit:
    world = simulate.gaussian_posteriors(600, 3, seed=1)
    fitted = calibrators.TemperatureScaling().fit(world.mcs, world.y)
    fresh = simulate.gaussian_posteriors(600, 3, seed=2)
    assert len(fresh.y) == fitted.fit_report_.n
    return pb.audit(fresh.y, fitted.predict_proba(fresh.mcs), calibrator=fitted)


def unequal() -> pb.Audit:
    world = simulate.neural_outputs(8000, seed=1)
    return pb.audit(world.y, world.scores, features=world.features, repair=False)


def equal() -> pb.Audit:
    world = simulate.unfair_groups(6000, {"a": 0.0, "b": 0.0})
    return pb.audit(
        world.y, world.scores, columns={"group": world.group}, regions=["group"], repair=False
    )


def cancelling(shift: float) -> pb.Audit:
    """Wrong class frequencies: too low for one class and too high for the other, which cancels in
    the top label. The third class is rare."""
    z = 2 * np.random.default_rng(0).standard_normal(20_000)

    def three(p: np.ndarray) -> np.ndarray:
        return np.column_stack([0.999 * (1 - p), 0.999 * p, np.full(len(p), 0.001)])

    return pb.audit(drawn(three(sigmoid(z + shift))), three(sigmoid(z)))


@functools.cache
def compared(outputs: str) -> pb.Audit:
    world = simulate.gaussian_posteriors(3000, 3, seed=0)
    return pb.audit(world.y, getattr(world, outputs), repair="compare")


def without_knowledge() -> pb.Audit:
    """Two uninformative outputs: one confidence for all rows is better, and so is any repair."""
    p = np.where(np.arange(2000) % 2, 0.6, 0.9)
    return pb.audit(drawn(np.full(2000, 0.7)), p, repair="compare")


def replaced() -> pb.Audit:
    world = simulate.gaussian_posteriors(1000, 3, seed=0)
    return pb.audit(
        world.y, calibrators.MeanReplacement().fit(world.mcs, world.y).predict_proba(world.mcs)
    )


def continuous() -> pb.Audit:
    world = simulate.gaussian_posteriors(1000, 3, seed=0)
    return pb.audit(world.y, world.cal)


def groups(offset: float) -> pb.Audit:
    world = simulate.unfair_groups(6000, {"a": -offset, "b": offset})
    return pb.audit(world.y, world.scores, columns={"group": world.group}, repair=False)


def classes(wrong: bool) -> pb.Audit:
    p = np.random.default_rng(0).dirichlet(np.full(30, 0.2), 4000)
    stated = p.copy()
    if wrong:
        stated[:, 7] = np.minimum(0.9, 3 * stated[:, 7])
        stated /= stated.sum(axis=1, keepdims=True)
    return pb.audit(drawn(p), stated, repair=False)


def short_list() -> pb.Audit:
    """Two classes have nearly all probability, the first too much of it. A temperature repairs that
    and makes the other classes too probable."""
    rng = np.random.default_rng(0)
    true, stated = np.full((4000, 10), 1e-7), np.full((4000, 10), 1e-7)
    first = rng.permuted(np.tile(np.arange(10), (4000, 1)), axis=1)[:, :2]
    likely = rng.uniform(0.55, 0.75, 4000)
    rows = np.arange(4000)
    true[rows, first[:, 0]], true[rows, first[:, 1]] = likely, 1 - likely
    sure = sigmoid(3 * np.log(likely / (1 - likely)))
    stated[rows, first[:, 0]], stated[rows, first[:, 1]] = sure, 1 - sure
    true, stated = (p / p.sum(axis=1, keepdims=True) for p in (true, stated))
    return pb.audit(drawn(true), stated, repair="compare")


# For each pitfall: an audit that has it, at which level, and one that has not.
CASES = {
    "judged_on_its_own_rows": (own_rows, "bad", other_rows),
    "calibrated_but_not_for_all": (unequal, "warning", equal),
    "low_error_high_loss": (lambda: cancelling(0.5), "warning", lambda: cancelling(0.0)),
    "blind_temperature": (lambda: compared("mcp"), "note", lambda: compared("mcs")),
    "few_confidences": (replaced, "warning", continuous),
    "miscalibrated_group": (lambda: groups(0.15), "warning", lambda: groups(0.0)),
    "miscalibrated_class": (lambda: classes(True), "warning", lambda: classes(False)),
    "better_error_worse_score": (lambda: compared("mcs"), "note", without_knowledge),
    "top_better_rest_worse": (short_list, "note", lambda: compared("mcs")),
}


def found(audit: pb.Audit) -> dict[str, Finding]:
    return {finding.rule: finding for finding in audit.findings}


@pytest.mark.parametrize("rule", CASES)
def test_pitfalls_are_reported_only_where_they_are(rule):
    has, level, has_not = CASES[rule]
    finding = found(has())[rule]
    assert finding.level == level
    assert finding.advice
    assert finding.reference
    assert rule not in found(has_not())


def test_every_pitfall_is_tested_and_described():
    assert [rule.name for rule in PITFALLS] == list(CASES)
    assert all(rule.looks_for and rule.reference for rule in PITFALLS)
    assert continuous().pitfall_rules == {rule.name: rule.looks_for for rule in PITFALLS}


def test_words():
    few = found(replaced())["few_confidences"].text
    assert few.startswith("Every row has the same confidence")
    blind = found(compared("mcp"))["blind_temperature"]
    assert ", bias correction 0." in blind.text
    assert "correct for them (calibrators.PriorCorrection)" in blind.advice_text(COMMANDS)
    assert (
        "Mean replacement (control): ECE 0.000 instead of"
        in found(compared("cal"))["better_error_worse_score"].text
    )
    assert "The worst group is group = " in found(groups(0.15))["miscalibrated_group"].text
    assert "miscalibrated, class 7: " in found(classes(True))["miscalibrated_class"].text


def test_few_confidences_of_histogram_binning():
    world = simulate.gaussian_posteriors(1000, 2, seed=0)
    binned = calibrators.HistogramBinning(bins=8).fit(world.mcs, world.y).predict_proba(world.mcs)
    finding = found(pb.audit(world.y, binned))["few_confidences"]
    assert finding.level == "note"
    assert (
        f"Only {len(np.unique(binned[:, 1].astype(np.float32)))} different probabilities of class 1"
        in finding.text
    )
    # too few rows to tell
    assert "few_confidences" not in found(pb.audit(world.y[:90], binned[:90]))


def test_decisions_are_not_probabilities():
    y = np.arange(200) % 2
    finding = found(pb.audit(y, np.where(np.arange(200) < 20, 1 - y, y) * 1.0))["few_confidences"]
    assert finding.text.startswith("Every probability of class 1 is 0 or 1: these are decisions")
    rows = pb.Predictions.from_confidence(np.ones(200), y == 1)
    assert found(pb.audit(rows))["few_confidences"].text.startswith(
        "Every confidence is 1: these are decisions"
    )


def test_grouping_loss_of_a_miscalibrated_model_is_not_this_pitfall():
    world = simulate.neural_outputs(8000, seed=1)
    sure = sigmoid(3 * np.log(world.scores / (1 - world.scores)))
    rules = found(pb.audit(world.y, sure, features=world.features, repair=False))
    assert "calibrated_but_not_for_all" not in rules
    assert rules["against_chance"].level == "warning"


def test_original_outputs_of_the_fitted_rows_are_no_pitfall():
    world = simulate.gaussian_posteriors(600, 3, seed=1)
    fitted = calibrators.TemperatureScaling().fit(world.mcs, world.y)
    assert "judged_on_its_own_rows" not in found(pb.audit(world.y, world.mcs, calibrator=fitted))


def test_one_confidence_for_all_that_is_not_the_accuracy():
    y = np.arange(300) % 2
    finding = found(pb.audit(y, np.full(300, 0.8), repair=False))["few_confidences"]
    assert "It is also wrong: class 1 happened in 50.0% of the rows" in finding.text
    honest = found(pb.audit((np.arange(300) % 5 > 0).astype(int), np.full(300, 0.8), repair=False))[
        "few_confidences"
    ]
    assert "A calibration error cannot detect that" in honest.text


def test_a_large_error_is_not_called_small():
    audit = cancelling(0.5)
    assert "The ECE is small" in found(audit)["low_error_high_loss"].text
    few = SimpleNamespace(
        ece=SimpleNamespace(estimate=0.09, p_value=0.3),
        selected=SimpleNamespace(title="x", gain=pb.Estimate(0.1, low=0.05, high=0.15)),
        pairs=False,
        event=None,
    )
    (finding,) = low_error_high_loss(few)
    assert "is not larger than expected if calibrated (0.090)" in finding.text
    few.ece.p_value = 0.001
    assert not low_error_high_loss(few)


def test_changes_within_noise_are_not_reported():
    """An error that fell by less than half a point, or a top-k error whose interval contains the
    original error."""
    audit = short_list()
    raw = next(repair for repair in audit.repairs if repair.name == "identity")
    told = next(
        repair
        for repair in audit.repairs
        if repair.title in found(audit)["top_better_rest_worse"].text.lower()
    )
    rest = {"repair": lambda name: raw, "summary": audit.summary}
    loud = SimpleNamespace(repairs=(told,), **rest)
    assert top_better_rest_worse(loud)
    wide = replace(told, topk_ece=pb.Estimate(told.topk_ece, low=float(raw.topk_ece) / 2, high=0.9))
    near = replace(told, ece=pb.Estimate(raw.ece - 0.001))
    assert not top_better_rest_worse(SimpleNamespace(repairs=(wide, near), **rest))
    worse = replace(
        told,
        gain=pb.Estimate(-0.1, low=-0.2, high=-0.05),
        log_score=pb.Estimate(raw.log_score * 1.1),
    )
    assert better_error_worse_score(SimpleNamespace(repairs=(worse,), **rest))
    hardly = replace(
        worse, gain=pb.Estimate(-0.1, low=-0.2, high=-0.001), brier_change=raw.brier_change
    )
    near = replace(worse, ece=pb.Estimate(raw.ece - 0.001))
    assert not better_error_worse_score(SimpleNamespace(repairs=(hardly, near), **rest))


def test_a_brier_score_that_is_worse_in_paired_rows_is_reported():
    """Its interval overlaps with that of the original outputs, because rows are hard or easy for
    both."""
    raw, temperature = (
        next(r for r in compared("mcs").repairs if r.name == name)
        for name in ("identity", "temperature")
    )
    higher = 1.02 * float(raw.brier_score)
    score = pb.Estimate(higher, low=raw.brier_score.low, high=1.1 * raw.brier_score.high)
    sure, unsure = (
        pb.Estimate(higher - raw.brier_score, low=low, high=1.0)
        for low in (0.01 * raw.brier_score, -0.001)
    )
    none = pb.Estimate(0.0, low=-0.01, high=0.01)
    for change, told in ((sure, True), (unsure, False)):
        repair = replace(temperature, brier_score=score, gain=none, brier_change=change)
        case = SimpleNamespace(repairs=(repair,), repair=lambda name: raw)
        findings = better_error_worse_score(case)
        assert bool(findings) == told
        assert all("a Brier score 2.0% higher" in finding.text for finding in findings)
