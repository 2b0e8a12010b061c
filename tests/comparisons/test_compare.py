"""Several models on the same rows: paired differences, ranks, words, and what is refused."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import probaudit as pb
from probaudit import calibrators
from probaudit.audits.decision import rates
from probaudit.calibration import paired, resampling
from probaudit.choices.lenses import View
from probaudit.cli.commands import app
from probaudit.comparisons.comparison import SCHEMA, compare
from probaudit.comparisons.same_rows import read_models
from probaudit.diagrams.aligned import AlignedReliability
from probaudit.estimate import Estimate
from probaudit.report.comparison_terminal import render
from probaudit.text import number, percent
from tests.conftest import softmax


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(2000, 3, seed=1)


@pytest.fixture(scope="module")
def found(world):
    mean = calibrators.MeanReplacement().fit(world.mcs, world.y).predict_proba(world.mcs)
    return compare({"raw": world.mcs, "cal": world.cal, "mean": mean}, world.y, resamples=300)


def rules(found):
    return {finding.rule for finding in (*found.findings, *found.notes)}


def texts(found, rule):
    every = (*found.findings, *found.notes)
    return [finding.text for finding in every if finding.rule == rule]


# --- numbers


def test_each_model_has_the_numbers_it_would_have_alone(world, found):
    alone = found["raw"]
    assert alone["log_score"] == pb.log_score(world.y, world.mcs)
    assert alone["log_score"].interval == pb.log_score(world.y, world.mcs).interval
    assert alone["brier_score.normalized"] == pb.brier_score(world.y, world.mcs, normalize=True)
    assert alone["ece"] == pb.calibration_error(world.y, world.mcs)
    assert alone["ace"] == pb.calibration_error(world.y, world.mcs, partition=pb.EqualMass(15))
    assert alone["smooth_ece"] == pb.smooth_calibration_error(world.y, world.mcs)
    loss = pb.calibration_loss(world.y, world.mcs)
    assert alone["calibration_loss"] == pytest.approx(float(loss.loss), rel=1e-12)
    assert alone["calibration_loss.relative"].interval == pytest.approx(
        loss.relative.interval, rel=1e-12
    )
    assert all(low <= x <= high for x in alone.values() for low, high in [x.interval])


def test_the_sharpness_gap_is_the_total_less_the_calibration_error(shared):
    """Chidambaram & Ge 2024, Eq. 4.7; numbers of the paper's own package
    (golden/h_sharpcal.json)."""
    golden = json.loads((shared / "golden" / "h_sharpcal.json").read_text())["cases"][
        "ferrer_iemocap_wav2vec_pt"
    ]["gauss_0.05"]
    data = np.load(shared / "data" / "ferrer_iemocap_wav2vec_pt.npz")
    p = softmax(data["logits"].astype(np.float64))
    got = compare({"a": p, "b": p[:, ::-1]}, data["labels"], repair=False, resamples=50)["a"]
    assert got["brier_score"] == pytest.approx(golden["total_brier"], rel=1e-6)
    assert got["sharpness_gap"] == pytest.approx(golden["total_brier"] - golden["cal"], rel=1e-4)


def test_differences_are_paired(world, found):
    """By hand: the mean and standard error of the row-by-row differences."""
    rows = np.arange(len(world.y))
    gap = -np.log(world.cal[rows, world.y]) + np.log(world.mcs[rows, world.y])
    got = found.differences["cal"]["log_score"]
    half = 1.959963984540054 * gap.std(ddof=1) / np.sqrt(len(gap))
    assert float(got) == pytest.approx(gap.mean(), rel=1e-9)
    assert got.interval == pytest.approx((gap.mean() - half, gap.mean() + half), rel=1e-9)
    alone = found["cal"]["log_score"], found["raw"]["log_score"]
    assert got.high - got.low < sum(x.high - x.low for x in alone)


def test_normalised_differences_against_a_bootstrap(world, found):
    """The ratio's linearisation against 2,000 resamples of rows, in which the naive score changes
    too."""
    rows, rng = np.arange(len(world.y)), np.random.default_rng(0)
    gap = -np.log(world.cal[rows, world.y]) + np.log(world.mcs[rows, world.y])
    draws = []
    for _ in range(2000):
        at = rng.integers(0, len(rows), len(rows))
        P = np.bincount(world.y[at], minlength=3) / len(at)
        draws.append(gap[at].mean() / -(P * np.log(P)).sum())
    got = found.differences["cal"]["log_score.normalized"]
    assert (got.high - got.low) / 2 == pytest.approx(1.96 * np.std(draws), rel=0.06)


def test_clusters_of_rows_widen_the_intervals(world):
    """Rows repeated four times are no more rows than they were, if clusters say so."""
    y, models = np.repeat(world.y, 4), {"raw": world.mcs, "cal": world.cal}
    options = {"repair": False, "resamples": 200}
    once = compare(models, world.y, **options)
    more = {name: np.repeat(p, 4, axis=0) for name, p in models.items()}
    grouped = compare(more, y, clusters=np.repeat(np.arange(len(world.y)), 4), **options)
    naive = compare(more, y, **options)
    for name in ("log_score", "accuracy", "brier_score.normalized"):
        width = [
            c.differences["cal"][name].high - c.differences["cal"][name].low
            for c in (once, grouped, naive)
        ]
        assert width[1] == pytest.approx(width[0], rel=1e-3)
        assert width[2] == pytest.approx(width[0] / 2, rel=1e-2)
    assert grouped["raw"]["log_score"].interval == pytest.approx(
        once["raw"]["log_score"].interval, rel=1e-3
    )
    ends = [c.differences["cal"]["kernel_calibration_error"] for c in (once, grouped)]
    assert ends[1].high - ends[1].low == pytest.approx(ends[0].high - ends[0].low, rel=0.2)


def test_weights_are_repeats(world):
    weights = np.random.default_rng(0).integers(0, 4, 600)
    y, models = world.y[:600], {"raw": world.mcs[:600], "cal": world.cal[:600]}
    weighted = compare(models, y, sample_weight=weights, repair=False, resamples=50)
    repeated = compare(
        {k: np.repeat(p, weights, axis=0) for k, p in models.items()},
        np.repeat(y, weights),
        repair=False,
    )
    for name, x in repeated.differences["cal"].items():
        if name != "ace":  # equal-mass bins count rows
            assert weighted.differences["cal"][name] == pytest.approx(
                float(x), rel=1e-6, abs=1e-9
            ), name


def test_costs_and_their_rank(world):
    costs = [[0, 1, 1], [1, 0, 1], [20, 20, 0]]
    got = compare(
        {"raw": world.mcs, "cal": world.cal}, world.y, costs=costs, repair=False, resamples=50
    )
    assert got["cal"]["cost_risk"] == pb.bayes_risk(world.y, world.cal, costs)
    gap = pb.bayes_risk(world.y, world.cal, costs) - pb.bayes_risk(world.y, world.mcs, costs)
    assert got.differences["cal"]["cost_risk"] == pytest.approx(gap)
    assert set(got.ranks) == {"log_score", "brier_score", "cost_risk"}
    assert "best_under_costs" in rules(got)


def test_logits_keep_their_digits():
    """Logits whose probability underflows: the log score is finite, and so is the difference."""
    z = np.array([[0.0, 2000.0], [3.0, 0.0], [0.0, 1.0]] * 40)
    got = compare(
        {"sure": z, "half": z / 2}, [0, 0, 1] * 40, from_logits=True, repair=False, resamples=20
    )
    value = got.differences["half"]["log_score"]
    assert float(value) == pytest.approx(-1000 / 3, rel=1e-3)
    assert np.isfinite(value.low)


def test_budgets_with_features():
    world = pb.simulate.neural_outputs(3000)
    models = {"a": world.scores, "b": world.scores**1.5}
    got = compare(models, world.y, features=world.features, resamples=50, repair=False)
    assert set(got.budgets) == {"a", "b"}
    assert got["a"]["grouping_loss"] == got.budgets["a"].grouping
    assert "grouping_loss" not in got.differences["b"]
    frame = pd.DataFrame(world.features, columns=[f"f{k}" for k in range(world.features.shape[1])])
    assert (
        compare(models, world.y, features=frame, resamples=50, repair=False)["a"]["grouping_loss"]
        == got["a"]["grouping_loss"]
    )


# --- chance


def test_coverage_of_the_difference_of_two_errors():
    """A calibrated and an overconfident model: what chance adds to the ECE of the one is allowed
    for. At 95% coverage fewer than 67 of 80 has probability below 1e-5; without that allowance
    about 20 of 80 are covered."""
    rng, covered, plain = np.random.default_rng(5), 0, 0

    def draw(n):
        c = 0.5 + 0.5 * rng.beta(3, 1, n)
        z = np.log(c / (1 - c))
        return c, 1 / (1 + np.exp(-1.5 * z)), (rng.random(n) < c).astype(np.int64)

    def error(p, hit, sample):
        drawn = paired.ResampledBins.of(View(p, hit), pb.EqualWidth(15), sample).mean()
        return paired.ResampledError.of(float(drawn[0][0]), *drawn)

    a, b, hit = draw(2_000_000)
    truth = float(
        pb.calibration_error(hit, a, lens=pb.Binary())
        - pb.calibration_error(hit, b, lens=pb.Binary())
    )
    for i in range(80):
        a, b, hit = draw(500)
        sample = paired.Resamples.draw(np.ones(500), None, 200, i)
        first, second = error(a, hit, sample), error(b, hit, sample)
        _, low, high = first.minus(second)
        covered += low <= truth <= high
        low, high = np.quantile(first.errors - second.errors, [0.025, 0.975])
        plain += low <= truth <= high
    assert covered >= 67
    assert plain < 50


def test_coverage_of_the_difference_of_scores():
    """400 worlds in which the true difference is known by a large sample; fewer than 355 has
    probability below 1e-6."""
    rng = np.random.default_rng(2)

    def gaps(n):
        p = rng.beta(2, 2, n)
        y = rng.random(n) < p
        q = 1 / (1 + np.exp(-1.7 * np.log(p / (1 - p))))
        return np.where(y, -np.log(q) + np.log(p), -np.log(1 - q) + np.log(1 - p))

    truth, covered = gaps(4_000_000).mean(), 0
    for _ in range(400):
        gap = gaps(500)
        share = np.full(500, 1 / 500)
        half = resampling.half_width(
            resampling.unit_terms(resampling.mean_influence(gap, share), share, None)
        )
        covered += abs(gap.mean() - truth) <= half
    assert 355 <= covered <= 398


def test_the_same_model_twice_is_not_distinguishable(world):
    got = compare({"a": world.cal, "b": world.cal.copy()}, world.y, repair=False, resamples=50)
    assert got.ranks["log_score"] == {"a": 1, "b": 1}
    assert all((float(x), *x.interval) == (0, 0, 0) for x in got.differences["b"].values())
    assert got.headline == "Choose either: 'a' and 'b' are identical."
    assert (got.decision.grade, got.decision.words, got.decision.sentence) == ("tied", "Tied", "")
    assert not any(line.endswith(" tied") for line in got.to_text().splitlines())
    assert rules(got) == {"best_by_score"}
    assert not any(matrix.any() for matrix in got.lower.values())


# --- ranks and words


def test_ranks_and_the_reference(world, found):
    assert found.reference == "raw"
    assert found.ranks["log_score"]["cal"] == 1
    other = compare(
        {"raw": world.mcs, "cal": world.cal}, world.y, reference="cal", repair=False, resamples=50
    )
    assert list(other.differences) == ["raw"]
    assert other.differences["raw"]["log_score"] == pytest.approx(
        -float(found.differences["cal"]["log_score"])
    )


def test_words_of_a_clear_winner(found):
    decision, gap = found.decision, found.differences["cal"]["log_score"]
    assert found.headline == decision.headline == "Use 'cal'."
    assert (decision.grade, decision.words, decision.level) == ("use", "Clear choice", "good")
    grid = found.grids["cal"]
    says, right = rates(grid.outputs.sum() / grid.weight.sum(), found["cal"]["accuracy"])
    assert decision.sentence == (
        f"Its log loss, {found['cal']['log_score']:.3f}, is "
        f"{-gap / found['raw']['log_score']:.1%} lower (by {-gap:.3f}, 95% interval "
        f"{-gap.high:.3f} to {-gap.low:.3f}) than that of 'raw'. It predicts {says} on average and "
        f"is right {right} of the time. The next best, 'mean' "
        f"({found['mean']['log_score']:.3f}), is clearly worse. After bias-corrected temperature, "
        f"'cal' and 'raw' are tied: their log loss is {found['cal']['log_score.calibrated']:.3f}."
    )
    assert texts(found, "best_by_score") == [decision.text]
    (text,) = texts(found, "against_reference")
    assert text.startswith(
        "Log loss compared with 'raw': that of 'mean' is "
    )  # the decision tells that of 'cal'
    (text,) = texts(found, "accuracy_hides_it")
    assert text.startswith("'cal' ")
    assert text.endswith("but better probabilities; the accuracy does not show this.")
    assert not rules(found) & {
        "infinite_log_score",
        "few_rows",
        "rows_set_aside",
        "only_confidence",
    }
    assert found.verdict.splitlines()[0] == found.findings[0].text


def test_words_within_chance(world):
    noise = np.random.default_rng(0).normal(0, 0.02, world.cal.shape)
    near = softmax(np.log(world.cal) + noise)
    got = compare({"a": world.cal, "b": near}, world.y, repair=False, resamples=50)
    gap = got.differences["b"]["log_score"]
    assert got.headline == "Choose either: 'a' and 'b' are tied."
    low, high = sorted([-gap.low, -gap.high] if gap < 0 else [gap.low, gap.high])
    assert got.decision.sentence == (
        "2,000 rows cannot tell them apart: the log loss of 'b' is "
        f"{percent(abs(gap) / got['a']['log_score'])} {'lower' if gap < 0 else 'higher'} "
        f"(by {number(abs(gap), 3)}, 95% interval {number(low, 3)} to {number(high, 3)}) than that "
        "of 'a'."
    )
    assert not rules(got) & {"against_reference", "accuracy_hides_it", "ece_and_score_disagree"}
    assert got.ranks["log_score"] == {"a": 1, "b": 1}


def test_ece_and_score_disagree_only_where_they_do(found, world):
    assert not any("'cal' has a lower" in text for text in texts(found, "ece_and_score_disagree"))
    two = compare({"raw": world.mcs, "cal": world.cal}, world.y, repair=False, resamples=100)
    assert "ece_and_score_disagree" not in rules(two)
    worse = np.array([[False, True], [False, False]])
    flipped = replace(two, lower={"ece": worse, "log_score": worse.T, "brier_score": worse.T})
    assert "averages over rows" in texts(flipped, "ece_and_score_disagree")[0]


def test_infinite_log_scores(world):
    zero = world.cal.copy()
    row = int(np.flatnonzero(world.y == 0)[0])
    zero[row] = [0, 0.5, 0.5]
    got = compare({"a": world.cal, "b": zero}, world.y, repair=False, resamples=50)
    assert got.findings[0].rule == "infinite_log_score"
    assert "in 1 row" in got.findings[0].text
    assert got.differences["b"]["log_score"] == np.inf
    assert got.ranks["log_score"] == {"a": 1, "b": 2}
    assert "; that of 'b' is infinite. By the Brier score, " in got.decision.sentence
    both = compare({"a": zero, "b": zero}, world.y, repair=False, resamples=50)
    assert np.isnan(both.differences["b"]["log_score"])
    assert both.decision.score == "brier_score"
    assert both.headline == "Choose either: 'a' and 'b' are identical."
    json.loads(both.to_json())


def test_an_infinite_log_score_is_worse_even_with_a_better_brier_score(world):
    """One row of probability 0 beside many that are better: ranks and words say the same, whichever
    is the reference."""
    zero = world.cal.copy()
    row = int(np.flatnonzero(world.y == 0)[0])
    zero[row] = [0, 0.5, 0.5]
    options = {"repair": False, "resamples": 50, "costs": 1 - np.eye(3)}
    sharp = softmax(2 * np.log(world.cal))
    got = compare({"sharp": sharp, "zero": zero}, world.y, **options)
    assert got.differences["zero"]["brier_score"].high < 0
    assert got.headline == "Use 'sharp'."
    words = "that of 'zero' is infinite. By the Brier score, 'sharp' is worse: "
    assert words in got.decision.sentence
    assert "accuracy_hides_it" not in rules(got)
    other = compare({"sharp": sharp, "zero": zero}, world.y, reference="zero", **options)
    # the share is that of the other model, whichever is the reference
    assert other.decision.text == got.decision.text


def test_infinite_log_scores_of_all_leave_the_brier_score(world):
    """Words name the score that was looked at, also beside costs."""
    models = {"raw": world.mcs.copy(), "cal": world.cal.copy()}
    for p in models.values():
        p[int(np.flatnonzero(world.y == 0)[0])] = [0, 0.5, 0.5]
    got = compare(models, world.y, repair=False, resamples=50, costs=1 - np.eye(3))
    assert got.decision.sentence.startswith("Its Brier score, ")
    (text,) = texts(got, "infinite_log_score")
    assert text == (
        "'raw' (1) and 'cal' (1) gave the true class probability 0 in some of 2,000 rows: their "
        "log loss is infinite."
    )
    told = replace(got, ranks=dict(got.ranks) | {"cost_risk": {"raw": 1, "cal": 2}})
    assert "It does not have the best Brier score" in texts(told, "best_under_costs")[0]


def test_the_best_is_only_said_to_be_clear_of_those_it_is_clear_of(found):
    matrix = np.array([[False, False, False], [True, False, False], [True, False, False]])
    unclear = replace(found, lower=dict(found.lower) | {"log_score": matrix})
    assert unclear.headline == "Use 'cal': no other model is clearly better."
    assert (unclear.decision.words, unclear.decision.clear) == ("Best, not clearly", False)
    assert found.decision.clear


def test_use_none_that_is_no_better_than_the_base_rate():
    y = np.repeat([0, 1], [700, 300])
    models = {"half": np.full(1000, 0.5), "upside down": np.where(y == 1, 0.3, 0.6)}
    got = compare(models, y, repair=False, resamples=20)
    assert got.headline == "Do not use any of these models."
    assert (got.decision.grade, got.decision.level) == ("do_not_use", "bad")
    ratio = float(got["half"]["log_score.normalized"])
    assert ratio == pytest.approx(np.log(2) / pb.Log().entropy(np.array([0.7, 0.3])))
    words = f"the best log loss, that of 'half', is {ratio:.2f} times as large."
    assert words in got.decision.sentence
    assert (
        "It predicts 50% on average, and the event happened in 30% of the rows."
        in got.decision.sentence
    )


def test_recalibration_may_change_the_order():
    """The model that knows more is too extreme: worse as it is, and better after recalibration."""
    rng = np.random.default_rng(0)
    known, noise = rng.normal(size=4000) * 2, rng.normal(size=4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(-known))).astype(int)
    models = {"extreme": 1 / (1 + np.exp(-4 * known)), "vague": 1 / (1 + np.exp(noise - known))}
    got = compare(models, y, resamples=20)
    assert got.ranks["log_score"] == {"extreme": 2, "vague": 1}
    assert got.headline == "Recalibrate these models before you choose one."
    assert (got.decision.grade, got.decision.models) == ("recalibrate", ("vague",))
    after = {name: number(got[name]["log_score.calibrated"], 3) for name in models}
    assert got.decision.sentence.endswith(
        f"After bias-corrected temperature, 'extreme' has the lowest log loss, {after['extreme']}, "
        f"against {after['vague']} of 'vague'."
    )
    bad = {"extreme": 1 / (1 + np.exp(-9 * known)), "flipped": 1 / (1 + np.exp(2 * known))}
    none = compare(bad, y, resamples=20).decision
    assert (none.grade, none.headline) == ("recalibrate", got.headline)
    start = "Without recalibration, none is better than the base-rate forecast: "
    assert none.sentence.startswith(start)
    one = compare({"vague": models["vague"], "worse": models["vague"] ** 3}, y).decision
    assert one.headline == "Use 'vague', and recalibrate it first."
    share = percent(got["vague"]["calibration_loss.relative"])
    after = number(got["vague"]["log_score.calibrated"], 3)
    assert one.sentence.endswith(
        f"; bias-corrected temperature removes {share} of its log loss. 'vague' is also best "
        f"after recalibration, at {after}."
    )


def test_models_that_recalibration_makes_equal():
    """A model and its own logits divided by a number differ only until they are recalibrated."""
    rng = np.random.default_rng(0)
    known = rng.normal(size=4000) * 2
    y = (rng.random(4000) < 1 / (1 + np.exp(-known))).astype(int)
    scale = {"hot": 5.0, "warm": 1.6}
    models = {name: 1 / (1 + np.exp(-by * known)) for name, by in scale.items()}
    got = compare(models, y, resamples=20)
    decision = got.decision
    assert got.ranks["log_score"] == {"hot": 2, "warm": 1}
    assert decision.headline == "Use 'warm' or 'hot' after recalibration: they are then tied."
    assert (decision.grade, decision.words) == ("tied_after", "Tied after recalibration")
    assert decision.models == ("warm", "hot")
    after = number(got["warm"]["log_score.calibrated"], 3)
    assert decision.sentence.startswith("As they are, 'warm' is best: its log loss, ")
    assert decision.sentence.endswith(f"are tied: their log loss is {after}.")
    gap = got.differences["warm"]["log_score.calibrated"]
    assert gap.low <= 0 <= gap.high
    assert abs(gap) < 1e-4
    # with a rival that stays worse, only the equal ones are named
    three = compare(models | {"noise": rng.random(4000)}, y, resamples=20).decision
    assert three.models == ("warm", "hot")


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_what_is_enough_for_an_audit_is_enough_here(n):
    """Few rows, or classes of less than five rows each: no calibrator is tried, and that is all."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), n)
    y, classes = np.arange(n) % 3, [0, 1, 2]
    why = pb.audit(y, p, classes=classes).settings["calibration_loss"]
    got = compare({"a": p, "b": p[:, ::-1]}, y, classes=classes, resamples=20)
    assert got.settings["calibration_loss"] == why
    assert why.startswith("not tried")
    assert "calibration_loss" not in got["a"]
    assert got.to_json()
    assert got.to_html()
    if n >= 5:  # folds that are asked for are tried
        asked = compare({"a": p, "b": p}, y, classes=classes, cv=5)
        assert np.isfinite(asked["a"]["calibration_loss"])
    elif n > 1:
        with pytest.raises(pb.InputError, match="number of rows"):
            compare({"a": p, "b": p}, y, classes=classes, cv=5)


def test_folds_that_leave_one_class_to_learn_from_are_not_tried():
    p, y = np.random.default_rng(0).random(12), np.r_[np.ones(1, int), np.zeros(11, int)]
    clusters = np.arange(12)
    got = compare({"a": p, "b": 1 - p}, y, classes=[0, 1], clusters=clusters, resamples=20)
    assert got.settings["calibration_loss"].startswith("not tried: ")
    asked = compare({"a": p, "b": 1 - p}, y, classes=[0, 1], cv=np.arange(12), resamples=20)
    # the fold of the only positive keeps its output
    assert np.isfinite(asked["a"]["calibration_loss"])
    with pytest.raises(pb.InputError, match="two classes"):
        compare({"a": p, "b": 1 - p}, y, classes=[0, 1], cv=y, resamples=20)


def test_few_rows_and_accuracy(world):
    got = compare({"a": world.cal[:50], "b": world.mcs[:50]}, world.y[:50], resamples=50)
    assert "few_rows" in rules(got)
    clear = Estimate(-0.1, low=-0.2, high=-0.05)
    better = replace(
        got, differences={"b": dict(got.differences["b"]) | {"accuracy": clear, "log_score": clear}}
    )
    assert "accuracy_hides_it" not in rules(better)


def test_stated_confidences_are_judged_by_their_own_answers():
    rng = np.random.default_rng(0)
    a, b = rng.random(300), rng.random(300)
    models = {
        "a": pb.Predictions.from_confidence(a, rng.random(300) < a),
        "b": pb.Predictions.from_confidence(b, rng.random(300) < b**3),
    }
    got = compare(models, resamples=50)
    assert "only_confidence" in rules(got)
    assert got["b"]["accuracy"] == pytest.approx(float(models["b"].y.mean()))


# --- rows that must agree


def test_class_orders_and_kinds_are_brought_together():
    world = pb.simulate.gaussian_posteriors(400, 3)
    names = np.array(["x", "y", "z"])
    labels = names[world.y]
    models = {
        "a": pb.Predictions(labels, world.cal, classes=["x", "y", "z"]),
        "b": pb.Predictions(
            labels, np.log(world.cal[:, [2, 0, 1]]) + 3, classes=["z", "x", "y"], from_logits=True
        ),
        "c": pb.Predictions(
            labels, np.log(world.cal[:, [1, 2, 0]]), classes=["y", "z", "x"], from_log_probs=True
        ),
    }
    got = compare(models, resamples=50, repair=False)
    for name in ("b", "c"):
        assert all(abs(float(x)) < 1e-9 for x in got.differences[name].values())
    assert got.summaries["b"].plan.classes == ("x", "y", "z")


@pytest.mark.parametrize("kind", [{}, {"from_logits": True}, {"from_log_probs": True}])
def test_one_column_of_the_other_class(kind):
    p = np.random.default_rng(0).random(200)
    y = np.where(np.random.default_rng(1).random(200) < p, "yes", "no")
    other = 1 - p if not kind else np.log((1 - p) / p) if "from_logits" in kind else np.log(1 - p)
    models = {
        "a": pb.Predictions(y, p, classes=["no", "yes"]),
        "b": pb.Predictions(y, other, classes=["yes", "no"], **kind),
    }
    got = compare(models, resamples=50, repair=False)
    assert all(abs(float(x)) < 1e-9 for x in got.differences["b"].values())


def test_a_row_that_is_bad_for_one_is_left_out_for_all(world):
    bad = world.mcs.copy()
    bad[3] = [0.5, 0.4, 0.4]
    features = pd.DataFrame({"f": np.arange(2000.0)})
    options = {"on_bad_rows": "drop", "repair": False, "resamples": 50}
    got = compare(
        {"a": world.cal, "b": bad}, world.y, features=features, clusters=np.arange(2000), **options
    )
    assert got.rows == 1999
    assert got.dropped == {"a": {}, "b": {"sum": 1}}
    assert texts(got, "rows_set_aside")
    keep = np.arange(2000) != 3
    assert got["a"]["log_score"] == pb.log_score(world.y[keep], world.cal[keep])
    with pytest.raises(pb.InputError, match="row 3"):
        compare({"a": world.cal, "b": bad}, world.y)


P, Y = np.full((6, 2), 0.5), np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("models", "options", "words"),
    [
        ({"a": P}, {"y_true": Y}, "at least two models"),
        ([P, P], {"y_true": Y}, "must map the names of at least two models to outputs"),
        ({"a": P, 2: P}, {"y_true": Y}, "names must be non-empty strings"),
        (
            {"a": P, "b": P},
            {},
            "`y_true`: is required, unless all models are Predictions (found: 'a' is not)",
        ),
        ({"a": P, "b": P[:5]}, {"y_true": Y}, "needs one label per row"),
        ({"a": P, "b": P}, {"y_true": Y, "reference": "c"}, "must name one of the models"),
        ({"a": P, "b": P}, {"y_true": Y, "score": "ece"}, 'must be "log" or "brier"'),
        ({"a": P, "b": P}, {"y_true": Y, "clusters": [1, 2]}, "needs one value per row"),
        ({"a": P, "b": P}, {"y_true": Y, "features": P[:2]}, "must have one value per row"),
        ({"a": P, "b": P}, {"y_true": Y, "costs": np.eye(3)}, "one row for each of the 2 classes"),
        ({"a": P, "b": P}, {"y_true": Y, "resamples": 1}, "at least 2"),
        ({"a": P, "b": P}, {"y_true": Y, "cv": 9}, "at most the number of rows"),
        (
            {"a": pb.Predictions(Y, P), "b": pb.Predictions(Y, P)},
            {"y_true": Y},
            "must not be given",
        ),
        (
            {"a": pb.Predictions(Y, P), "b": pb.Predictions(1 - Y, P)},
            {},
            "labels must equal those of 'a' (row 0: 1, not 0; 6 rows differ)",
        ),
        (
            {"a": pb.Predictions(Y, P), "b": pb.Predictions(Y, P, sample_weight=Y)},
            {},
            "must have weights",
        ),
        ({"a": pb.Predictions(Y, P), "b": pb.Predictions(Y[:5], P[:5])}, {}, "as many rows"),
        (
            {"a": pb.Predictions(Y, P), "b": pb.Predictions(Y, P, classes=[0, 7])},
            {},
            "not in both: 1, 7",
        ),
        (
            {"a": pb.Predictions(Y, P), "b": pb.Predictions.from_confidence(P[:, 0], Y)},
            {},
            "must be a confidence if and only if",
        ),
    ],
)
def test_what_is_refused(models, options, words):
    with pytest.raises(pb.InputError) as problem:
        compare(models, **options)
    assert words in str(problem.value)


def test_a_weight_that_differs_is_named():
    other = np.array([1, 1, 2, 1, 1, 1])
    models = {
        "a": pb.Predictions(Y, P, sample_weight=np.ones(6)),
        "b": pb.Predictions(Y, P, sample_weight=other),
    }
    with pytest.raises(pb.InputError, match=r"row 2: 2\.0, not 1\.0"):
        compare(models)


# --- shown, written, read


def test_text_json_flat_and_frame(found, tmp_path):
    text = found.to_text()
    for words in (
        "3 models, 2,000 rows, 3 classes",
        "SmoothECE",
        "sharpness gap",
        "cal minus raw",
        "better",
        "rank",
    ):
        assert words in text
    short = " ".join(repr(found).split())
    assert found.headline in short
    assert found.decision.sentence in short
    assert len(repr(found).splitlines()) <= 20
    assert max(map(len, [*text.splitlines(), *repr(found).splitlines()])) <= 100
    assert json.loads(found.to_json())["headline"] == found.headline
    plain = json.loads(found.to_json(tmp_path / "out.json"))
    assert plain == json.loads((tmp_path / "out.json").read_text())
    assert plain["schema"] == SCHEMA == "probaudit.comparison/2"
    assert plain["models"]["cal"]["estimates"]["ece"]["value"] == float(found["cal"]["ece"])
    assert plain["models"]["cal"]["ranks"]["log_score"] == 1
    assert plain["differences"]["cal"]["log_score"]["high"] < 0
    flat = found.flat()
    assert flat["cal/log_score"] == float(found["cal"]["log_score"])
    assert flat["cal - raw/log_score"] == float(found.differences["cal"]["log_score"])
    assert flat["cal/rank"] == 1
    frame = found.to_frame()
    line = frame.query("model == 'cal' and less == 'raw' and name == 'ece'")
    assert line.value.item() == float(found.differences["cal"]["ece"])
    with pytest.raises(KeyError, match="the models are raw, cal, mean"):
        found["nobody"]


def test_names_and_titles_are_whole_in_80_columns():
    world = pb.simulate.neural_outputs(1000)
    names = ["threshold_model", "gradient_boosting_machine"]
    models = dict(zip(names, (world.scores, world.scores**1.5), strict=True))
    got = compare(models, world.y, features=world.features, costs=[[0, 1], [5, 0]], resamples=20)
    console = Console(file=io.StringIO(), width=80, no_color=True)
    console.print(render(got))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    for title in (
        "SmoothECE",
        "calibration",
        "log loss",
        "sharpness",
        "hidden",
        "(at least)",
        "costs",
        "rank",
    ):
        assert any(title in line for line in lines), title
    assert sum(line.startswith("threshold_model ") for line in lines) >= 3
    assert sum(line.startswith("gradient_boosting_machine ") for line in lines) >= 3


def test_a_plot_has_a_panel_for_each_model_with_its_ece(found):
    from matplotlib.figure import Figure

    own, each = found.plot(), AlignedReliability.of_grids(found.grids).each
    for name, one, ax in zip(found.names, each, own.axes_, strict=True):
        assert one.error == pytest.approx(float(found[name]["ece"]), abs=1e-6)
        assert f"{name}, error {number(one.error, 3)}" in (
            ax.get_title(loc="left") or ax.get_title()
        )
    assert len(found.plot(Figure().add_subplot()).axes_) == len(found.names)


def test_grids_for_diagrams_hold_the_loss(found):
    for name in found.names:
        grid = found.grids[name]
        assert grid.loss.sum() / grid.weight.sum() == pytest.approx(
            float(found[name]["brier_score"]), rel=1e-9
        )


def run(*arguments):
    return CliRunner().invoke(app, ["compare", *(str(a) for a in arguments)])


@pytest.fixture
def files(world, tmp_path):
    found = []
    for name, p in (("first", world.mcs[:300]), ("second", world.cal[:300])):
        columns = {"label": world.y[:300]} | {f"p_{k}": p[:, k] for k in range(3)}
        found.append(tmp_path / f"{name}.csv")
        pd.DataFrame(columns).to_csv(found[-1], index=False)
    return found


def test_files_with_one_model_each(files, tmp_path):
    result = run(*files, "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    assert "'second'" in result.output
    assert list(json.loads((tmp_path / "out.json").read_text())["models"]) == ["first", "second"]


def test_one_file_with_several_models(world, tmp_path):
    path = tmp_path / "both.parquet"
    columns = {f"a_{k}": world.mcs[:300, k] for k in range(3)} | {
        f"b_{k}": np.log(world.cal[:300, k]) for k in range(3)
    }
    pd.DataFrame({"label": world.y[:300]} | columns).to_parquet(path)
    models = ("--probs", "a_*", "--logits", "b_*")
    result = run(path, *models, "--full")
    assert result.exit_code == 0, result.output
    assert "b minus a" in result.output
    named = run(path, *models, "--name", "old", "--name", "new", "--full")
    assert "new minus old" in named.output
    assert "minus" not in run(path, *models).output


def test_models_are_taken_in_the_order_of_the_command_line(world, tmp_path):
    path, out = tmp_path / "three.parquet", tmp_path / "out.json"
    columns = {
        "a": np.log(world.cal[:300]),
        "b": np.full((300, 3), 1 / 3),
        "c": np.log(world.mcs[:300]),
    }
    named = {f"{name}_{k}": values[:, k] for name, values in columns.items() for k in range(3)}
    pd.DataFrame({"label": world.y[:300]} | named).to_parquet(path)
    options = ["--no-repair", "--json", out]
    for given, order in (
        (["--logits", "a_*", "--probs", "b_*", "--logits", "c_*"], "abc"),
        (["--logits=c_*", "--probs=b_*", "--logits=a_*"], "cba"),
        (["--probs", "b_*", "--logits", "c_*", "--log-probs", "a_*"], "bca"),
    ):
        names = [word for name in order for word in ("--name", f"model {name}")]
        result = run(*given[:2], *names[:2], path, *given[2:], *names[2:], *options)
        assert result.exit_code == 0, result.output
        found = json.loads(out.read_text())
        assert list(found["models"]) == [f"model {name}" for name in order]
        assert found["reference"] == f"model {order[0]}"
        uniform = found["models"]["model b"]["estimates"]["log_score"]["value"]
        assert uniform == pytest.approx(np.log(3))


def test_columns_of_each_file(files, world, tmp_path):
    other = tmp_path / "other.csv"
    logits = {f"z_{k}": np.log(world.cal[:300, k]) for k in range(3)}
    pd.DataFrame({"label": world.y[:300]} | logits).to_csv(other, index=False)
    out = tmp_path / "out.json"
    result = run(other, files[0], "--logits", "z_*", "--probs", "p_*", "--json", out)
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())["models"]
    assert list(found) == ["other", "first"]
    expected = pb.log_score(world.y[:300], world.cal[:300])
    assert found["other"]["estimates"]["log_score"]["value"] == pytest.approx(float(expected))
    # the other way round
    assert run(other, files[0], "--probs", "p_*", "--logits", "z_*").exit_code == 2


def test_bad_files_end_with_code_2(files, tmp_path):
    frame = pd.read_csv(files[1])
    frame.loc[17, "label"] = (frame.label[17] + 1) % 3
    frame.to_csv(tmp_path / "other.csv", index=False)
    for arguments, words in (
        ([files[0], tmp_path / "other.csv"], "labels must equal those of 'first' (row 17"),
        ([files[0]], "must be given twice or more for one file"),
        ([*files, "--probs", "p_*", "--probs", "q_*"], "no column matches 'q_*'"),
        (
            [*files, *files[:1], "--probs", "p_*", "--probs", "p_*"],
            "`--probs`: must be one set of columns",
        ),
        ([*files, "--name", "one"], "must name each of the"),
        ([*files, "--name", "one", "--name", "one"], "must differ between models"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert words in " ".join(result.output.split())


def test_files_of_the_same_name_are_called_by_their_paths(files, tmp_path):
    (tmp_path / "new").mkdir()
    twin = tmp_path / "new" / files[0].name
    twin.write_bytes(files[0].read_bytes())
    assert list(read_models([files[0], twin])) == [str(files[0]), str(twin)]


# --- Chidambaram & Ge 2024, Tables 5 and 6


@pytest.mark.parametrize("name", ["ferrer_cifar10_resnet20", "ferrer_cifar100_resnet20"])
def test_the_pattern_of_paper_5(shared, name):
    """Chidambaram & Ge 2024, Tables 5 (CIFAR-10) and 6 (CIFAR-100), with a fifth of the rows for
    calibration as there: mean replacement has the lowest calibration errors, histogram binning and
    isotonic regression an infinite log score, temperature the best scores, and mean replacement the
    worst of both. The models are others (ResNet-20), so that the pattern is the same, not the
    numbers.
    """
    data = np.load(shared / "data" / f"{name}.npz")
    p, y = softmax(data["logits"].astype(np.float64)), data["labels"]
    fit = np.arange(len(y)) < len(y) // 5
    repairs = {
        "TS": calibrators.TemperatureScaling(),
        "HB": calibrators.HistogramBinning(),
        "IR": calibrators.IsotonicCalibration(finite=False),
        "MRR": calibrators.MeanReplacement(),
    }
    models = {"raw": p[~fit]} | {
        key: c.fit(p[fit], y[fit]).predict_proba(p[~fit]) for key, c in repairs.items()
    }
    got = compare(models, y[~fit], repair=False, resamples=200)
    column = {key: {m: float(got[m][key]) for m in got.names} for key in got["raw"]}
    for error in ("ece", "ace", "smooth_ece"):
        assert min(column[error], key=column[error].get) == "MRR"
    assert column["accuracy"]["raw"] == column["accuracy"]["TS"] == column["accuracy"]["MRR"]
    assert [m for m in got.names if np.isinf(column["log_score"][m])] == ["HB", "IR"]
    finite = {m: column["log_score"][m] for m in ("raw", "TS", "MRR")}
    assert sorted(finite, key=finite.get) == ["TS", "raw", "MRR"]
    for score in ("brier_score", "sharpness_gap"):
        assert min(column[score], key=column[score].get) == "TS"
        assert max(column[score], key=column[score].get) == "MRR"
    assert got.ranks["log_score"]["TS"] == got.ranks["brier_score"]["TS"] == 1
    assert got.ranks["brier_score"]["MRR"] == 5
    fooled = [text for text in texts(got, "ece_and_score_disagree") if text.startswith("'MRR'")]
    assert "gives every row the same confidence" in fooled[0]
    assert "'raw'" in fooled[0]
