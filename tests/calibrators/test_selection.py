"""Choosing a calibrator: the one-standard-error rule, its control, and every way in which
candidates and rows come."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.model_selection import KFold

import probaudit as pb
from probaudit import calibrators, select_calibrator
from probaudit.calibrators import (
    BetaCalibration,
    Chain,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    MeanReplacement,
    TemperatureScaling,
    VectorScaling,
)
from probaudit.calibrators.one_standard_error import (
    choose_calibrator,
    corrected_gain,
    one_standard_error_rule,
)
from probaudit.calibrators.outputs import Outputs
from probaudit.calibrators.registry import METHODS, calibrator_named
from probaudit.calibrators.selection import default_candidates, fit_calibrator
from probaudit.errors import InputError
from probaudit.simulate import gaussian_posteriors
from tests.calibrators.test_calibration_loss import hidden_groups

DEFAULTS = ["identity", "temperature", "ensemble_temperature", "bias_corrected_temperature"]
DEFAULTS += ["beta", "structured_vector", "vector", "isotonic", "histogram"]
DEFAULTS += ["structured_matrix", "dirichlet", "mean_replacement"]
FEW = ["identity", "temperature", "vector", "mean_replacement"]


@pytest.fixture(scope="module")
def sharp():
    """Overconfident posteriors: a temperature is the truth."""
    return gaussian_posteriors(1500, 3, prior=0.4)


@pytest.fixture(scope="module")
def choice(sharp):
    return select_calibrator(sharp.y, sharp.mcs)


# --- the rule


def test_a_temperature_is_found_where_it_is_the_truth(sharp, choice):
    assert choice.chosen == "temperature"
    assert isinstance(choice.calibrator, TemperatureScaling)
    # logarithms were made five times too large
    assert choice.calibrator.temperature_ == pytest.approx(5, rel=0.15)
    direct = TemperatureScaling().fit(sharp.mcs, sharp.y)
    assert choice.calibrator.temperature_ == direct.temperature_
    assert choice.n == len(sharp.y)
    assert choice.score == "log"


def test_one_standard_error_by_hand(sharp, choice):
    best = min(
        (c for c in choice.candidates if c.name != "mean_replacement"), key=lambda c: c.score
    )
    assert best.worse_by == 0
    found = {
        c.name: pb.calibration_loss(sharp.y, sharp.mcs, calibrator=calibrator_named(c.name))
        for c in choice.candidates
    }
    rows = np.arange(len(sharp.y))
    with np.errstate(divide="ignore"):
        losses = {name: -np.log(one.posteriors[rows, sharp.y]) for name, one in found.items()}
    for c in choice.candidates:
        if np.isinf(losses[c.name]).any():
            assert c.score == c.worse_by == np.inf
            continue
        gap = losses[c.name] - losses[best.name]
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        assert c.score == pytest.approx(losses[c.name].mean(), abs=1e-12)
        assert c.worse_by == pytest.approx(gap.mean(), abs=1e-12)
        assert c.high - c.worse_by == pytest.approx(1.959963984540054 * error, abs=1e-9)
        assert c.tied == (gap.mean() <= error or c.name == best.name)
        assert c.ece == pytest.approx(
            float(pb.calibration_error(sharp.y, found[c.name].posteriors)), abs=1e-9
        )
    first = next(c.name for c in choice.candidates if c.tied and c.name != "mean_replacement")
    assert choice.chosen == first


def test_calibrated_posteriors_are_left_alone():
    chosen = []
    for seed in range(20):
        world = gaussian_posteriors(400, 2, seed=seed)
        chosen.append(
            select_calibrator(
                world.y, world.cal, candidates=["identity", "temperature", "platt", "beta"]
            ).chosen
        )
    assert chosen.count("identity") >= 16


def test_wrong_priors_need_a_bias():
    world = gaussian_posteriors(2000, 3)
    found = select_calibrator(
        world.y,
        world.mcp,
        candidates=["identity", "temperature", "bias_corrected_temperature", "vector"],
    )
    assert found.chosen == "bias_corrected_temperature"
    assert found.why == "bias_corrected_temperature: the best" or "simpler than vector" in found.why
    by_name = {c.name: c for c in found.candidates}
    assert by_name["temperature"].accuracy_change == pytest.approx(0)
    assert by_name["bias_corrected_temperature"].accuracy_change > 0.1


def test_of_tied_candidates_the_first_is_taken(sharp, choice):
    """From simple to flexible: the order of the candidates is the user's word for it."""
    names = [c.name for c in choice.candidates]
    tied = [c.name for c in choice.candidates if c.tied and c.name != "mean_replacement"]
    assert len(tied) > 1
    turned = select_calibrator(sharp.y, sharp.mcs, candidates=names[::-1])
    assert turned.chosen == tied[-1]
    best = min(
        (c for c in choice.candidates if c.name != "mean_replacement"), key=lambda c: c.score
    ).name
    for found in (choice, turned):
        simpler = f"{found.chosen}: simpler than {best}, and within one standard error of it"
        assert found.why == (f"{best}: the best" if found.chosen == best else simpler)


# --- the control


def test_the_control_looks_perfect_and_is_never_chosen(choice):
    control = next(c for c in choice.candidates if c.name == "mean_replacement")
    chosen = next(c for c in choice.candidates if c.name == choice.chosen)
    assert control.ece < 0.01
    assert control.accuracy == pytest.approx(chosen.accuracy, abs=1e-9)
    assert control.score > chosen.score + 0.05
    assert control.remark == "control, never chosen"


def test_the_control_is_known_by_what_it_is():
    """Labels are noise: a constant is best, and still the control is not chosen, whatever it is
    called."""
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, 500), rng.dirichlet([0.3, 0.3], 500)
    found = select_calibrator(
        y, p, candidates={"constant": MeanReplacement(), "temperature": TemperatureScaling()}
    )
    by_name = {c.name: c for c in found.candidates}
    assert found.chosen == "temperature"
    assert by_name["constant"].remark == "control, never chosen"
    # a name does not make a control
    own = {"mean_replacement": TemperatureScaling(), "identity": Identity()}
    assert select_calibrator(y, p, candidates=own).chosen == "mean_replacement"


# --- the answer


def test_table_and_repr(choice):
    table = choice.table()
    assert table["name"] == [c.name for c in choice.candidates] == DEFAULTS
    assert {len(column) for column in table.values()} == {len(choice.candidates)}
    pandas = pytest.importorskip("pandas")
    assert pandas.DataFrame(table).set_index("name").loc["temperature", "worse_by"] >= 0
    lines = repr(choice).splitlines()
    assert len(lines) == len(choice.candidates) + 4  # a caption, headers and two notes
    assert [line for line in lines if line.startswith("*")] == [
        next(line for line in lines if " temperature " in line)
    ]
    assert sum("best" in line for line in lines[2:-2]) == 1
    assert lines[-2].startswith("temperature: ")
    words = (
        r"temperature removes 6\d\.\d% of the log loss \(95% interval \S+% to \S+%\), corrected"
        r" for choosing among 11"
    )
    assert re.match(words, lines[-1])
    assert all(value >= 0 for value in table["seconds"])
    naive = pb.Log().entropy(np.array([0.4, 0.3, 0.3]))
    assert table["normalized"][0] == pytest.approx(table["score"][0] / naive, rel=1e-3)


def test_every_method_has_a_name_and_a_fresh_calibrator():
    for name, (entry, _) in METHODS.items():
        one, other = calibrator_named(name), calibrator_named(name)
        assert type(one).__name__ == entry.kind
        assert one is not other
        assert type(one) is getattr(calibrators, entry.kind)
    with pytest.raises(InputError, match="`method`"):
        calibrator_named("guessing")


def test_all_methods_run_together():
    world = gaussian_posteriors(200, 3, prior=0.4)
    groups = np.arange(200) % 2
    found = select_calibrator(world.y, world.mcs, candidates=list(METHODS), cv=2, groups=groups)
    assert [c.name for c in found.candidates] == list(METHODS)
    assert all(np.isfinite(c.ece) for c in found.candidates)


def test_many_classes_leave_out_what_learns_a_curve_for_each():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 30))
    found = select_calibrator(rng.integers(0, 30, 300), z, from_logits=True, cv=2)
    slow = {"beta", "vector", "dirichlet", "structured_matrix"}
    assert {c.name for c in found.candidates} == {*DEFAULTS} - slow


# --- ways in


def test_calibrators_of_ones_own(sharp):
    own = {
        "nothing": Identity(),
        "chain": Chain([TemperatureScaling(), VectorScaling()]),
        "fine": HistogramBinning(bins=30),
        "beta": BetaCalibration(parameters="am"),
    }
    found = select_calibrator(sharp.y, sharp.mcs, candidates=own)
    assert [c.name for c in found.candidates] == list(own)
    assert found.chosen in ("chain", "beta")
    assert not hasattr(own["chain"], "members_")  # copies are fitted


def test_infinite_scores_are_shown_and_not_chosen():
    rng = np.random.default_rng(0)
    p = rng.random(60)
    y = (rng.random(60) < p).astype(int)
    own = {"steps": IsotonicCalibration(finite=False), "temperature": TemperatureScaling()}
    found = select_calibrator(y, p, candidates=own)
    steps = found.candidates[0]
    assert steps.score == np.inf
    assert steps.worse_by == np.inf
    assert not steps.tied
    assert steps.remark == "1 row with an infinite score"
    assert found.chosen == "temperature"
    assert "∞" in repr(found)
    finite = select_calibrator(y, p, candidates=own, score="brier")
    assert np.isfinite(finite.candidates[0].score)
    with pytest.raises(InputError, match=r"`candidates`.*finite"):
        select_calibrator(
            y,
            p,
            candidates={"steps": IsotonicCalibration(finite=False), "control": MeanReplacement()},
        )


def test_clusters_weights_and_other_scores(sharp):
    y, p = np.repeat(sharp.y[:300], 5), np.repeat(sharp.mcs[:300], 5, axis=0)
    clusters = np.repeat(np.arange(300), 5)
    alone, together = (
        select_calibrator(y, p, candidates=FEW, clusters=c) for c in (None, clusters)
    )
    width = [found.candidates[0].high - found.candidates[0].low for found in (alone, together)]
    assert width[1] == pytest.approx(np.sqrt(5) * width[0], rel=0.15)
    w, folds = np.random.default_rng(0).integers(0, 3, len(sharp.y)), np.arange(len(sharp.y)) % 5
    rows = np.repeat(np.arange(len(w)), w)
    weighted = select_calibrator(sharp.y, sharp.mcs, candidates=FEW, sample_weight=w, cv=folds)
    repeated = select_calibrator(sharp.y[rows], sharp.mcs[rows], candidates=FEW, cv=folds[rows])
    for one, other in zip(weighted.candidates, repeated.candidates, strict=True):
        for field in (
            "score",
            "normalized",
            "worse_by",
            "ece",
            "classwise_ece",
            "accuracy",
            "accuracy_change",
        ):
            assert getattr(one, field) == pytest.approx(getattr(other, field), abs=1e-6), field
    assert weighted.calibrator.temperature_ == pytest.approx(
        repeated.calibrator.temperature_, rel=1e-6
    )
    cost = select_calibrator(
        sharp.y, sharp.mcs, candidates=FEW, score=pb.Cost.zero_one(3, reject=0.1)
    )
    assert cost.score == "zero_one_reject"
    assert cost.chosen == "temperature"
    assert select_calibrator(sharp.y, sharp.mcs, candidates=FEW, score="brier").score == "brier"


def test_logits_names_pairs_and_one_column(sharp):
    plain = select_calibrator(sharp.y, sharp.mcs, candidates=FEW)
    logits = select_calibrator(sharp.y, np.log(sharp.mcs) - 2, candidates=FEW, from_logits=True)
    assert logits.chosen == plain.chosen
    assert logits.calibrator.from_logits
    assert logits.calibrator.predict_proba(np.log(sharp.mcs)) == pytest.approx(
        plain.calibrator.predict_proba(sharp.mcs), abs=1e-7
    )
    names = np.array(["c", "a", "b"])
    named = select_calibrator(names[sharp.y], sharp.mcs, candidates=FEW, classes=names.tolist())
    assert named.calibrator.classes_.tolist() == ["c", "a", "b"]
    np.testing.assert_array_equal(
        named.calibrator.predict(sharp.mcs), names[plain.calibrator.predict(sharp.mcs)]
    )
    two = gaussian_posteriors(600, 2)
    column = select_calibrator(two.y.astype(bool), two.mcs[:, 1], candidates=FEW)
    assert column.chosen == "temperature"
    assert column.calibrator.classes_.tolist() == [False, True]
    pairs = pb.Predictions.from_confidence(two.mcs[:, 1], two.y)
    assert select_calibrator(pairs, candidates=FEW).chosen == "temperature"
    fitted = fit_calibrator(
        pb.Predictions(names[sharp.y], sharp.mcs, classes=names.tolist()), TemperatureScaling()
    )
    assert fitted.temperature_ == plain.calibrator.temperature_


def test_the_answer_does_not_depend_on_the_moment(sharp):
    one, other = (select_calibrator(sharp.y, sharp.mcs, candidates=FEW) for _ in range(2))
    assert [c.score for c in one.candidates] == [c.score for c in other.candidates]
    assert (
        select_calibrator(sharp.y, sharp.mcs, candidates=FEW, seed=1).candidates[1].score
        != one.candidates[1].score
    )


def test_bad_input_is_named(sharp):
    cases = [
        ({"candidates": ["guessing"]}, "`candidates`.*'guessing'"),
        ({"candidates": "temperature"}, "`candidates`"),
        ({"candidates": []}, "`candidates`"),
        ({"candidates": ["mean_replacement"]}, "`candidates`.*besides the control"),
        ({"candidates": {"mine": "temperature"}}, "`candidates`"),
        ({"candidates": {"mine": TemperatureScaling}}, "`candidates`"),
        ({"score": "accuracy"}, "`score`"),
        ({"score": pb.Cost.zero_one(2)}, "`costs`"),
        ({"cv": 1}, "`cv`"),
        ({"groups": [1, 2]}, "`groups`"),
        ({"clusters": [1, 2]}, "`clusters`"),
        ({"cv": KFold(3), "stratify": True}, "`stratify`"),
        (
            {"candidates": FEW, "groups": np.zeros(1500)},
            "`groups`.*must be used by one of the candidates",
        ),
        (
            {"candidates": FEW, "features": np.zeros((1500, 2))},
            "`features`.*must be used by one of the candidates",
        ),
        ({"candidates": [*FEW, "per_group"]}, "`groups`.*PerGroup needs"),
        ({"features": np.full((1500, 1), "x", object)}, "`features`.*numbers"),
    ]
    for options, words in cases:
        with pytest.raises(InputError, match=words):
            select_calibrator(sharp.y, sharp.mcs, **options)


def test_a_comparison_is_shown_and_never_chosen(sharp):
    names = ["identity", "isotonic_plain"]
    found = select_calibrator(sharp.y, sharp.mcs, candidates=names, score="brier")
    assert found.candidates[1].score < found.candidates[0].score
    assert found.chosen == "identity"
    assert "choosing among 1 calibrators" in found.gain.definition


def test_the_choice_by_name_is_the_rule_by_column():
    rng = np.random.default_rng(1)
    before = rng.gamma(2, size=200)
    losses = {"identity": before, "control": 0 * before, "own": before + rng.normal(-0.5, 0.3, 200)}
    share = np.full(200, 1 / 200)
    found = choose_calibrator(losses, before, share, None, eligible=["identity", "own"])
    columns = np.column_stack(list(losses.values()))
    by_column = one_standard_error_rule(columns, share, None, [0, 2])
    assert (found.best, found.chosen) == ("own", "own")
    assert (by_column.best, by_column.chosen) == (2, 2)
    assert list(found.differences.values()) == by_column.differences.tolist()
    assert found.gain == corrected_gain(columns, before, share, None, [0, 2])
    assert [found.tied(name) for name in losses] == [False, True, True]
    infinite = {"identity": np.full(200, np.inf)}
    assert choose_calibrator(infinite, before, share, None, eligible=["identity"]) is None


def test_audit_budget_and_selection_agree():
    """One list of candidates, one rule: the recommended repair is what `calibrate` fits, and what
    the loss budget takes off."""
    for outputs, seed in (("cal", 0), ("mcs", 1), ("mcp", 2), ("mcps", 3)):
        world = gaussian_posteriors(600, 3, seed=seed)
        rows = pb.Predictions(world.y, getattr(world, outputs))
        choice = select_calibrator(rows)
        audit = pb.audit(rows, repair="compare")
        (repair,) = [repair for repair in audit.repairs if repair.selected]
        assert repair.name == choice.chosen
        assert float(repair.gain) == pytest.approx(float(choice.gain), abs=1e-9)
        assert repair.title == choice.calibrator.words()
        shown = [repair.name for repair in audit.repairs if repair.name != "isotonic_plain"]
        assert shown == [candidate.name for candidate in choice.candidates]
        world = gaussian_posteriors(1500, 3, seed=seed)
        rows = pb.Predictions(world.y, getattr(world, outputs), features=world.mcs)
        budget = pb.loss_budget(rows, calibrator="best", score="log", resamples=2)
        plain = pb.Predictions(world.y, getattr(world, outputs))
        assert budget.calibrator == type(select_calibrator(plain).calibrator).__name__


# --- features and groups


def test_what_uses_features_and_groups_is_offered_and_priced():
    y, p, features, hidden = hidden_groups(1500)
    plain = select_calibrator(y, p)
    assert not {"per_group", "per_group_bias", "group_calibration", "multicalibration"} & {
        c.name for c in plain.candidates
    }
    grouped = select_calibrator(y, p, groups=hidden)
    names = [c.name for c in grouped.candidates]
    assert names[-4:] == ["per_group", "per_group_bias", "multicalibration", "mean_replacement"]
    assert grouped.chosen == "per_group"
    assert grouped.gain.low > 0.1
    assert grouped.calibrator.predict_proba(
        np.column_stack([1 - p, p])[:3], groups=hidden[:3]
    ).shape == (3, 2)
    rows = pb.Predictions(y, p, features=features, columns={"hidden": hidden})
    few = ["identity", "temperature", "group_calibration"]
    seen = select_calibrator(rows, candidates=few)
    assert seen.chosen == "group_calibration"
    assert seen.calibrator.grouped_by_ == "features"
    assert seen.gain.low > 0.1
    assert default_candidates(Outputs.of(rows, "hidden"))[-5:] == [
        "per_group",
        "per_group_bias",
        "group_calibration",
        "multicalibration",
        "mean_replacement",
    ]
    texts = pb.Predictions(y, p, features=np.array(["a", "b"], object)[hidden][:, None])
    # not usable, and not asked for
    assert "group_calibration" not in default_candidates(Outputs.of(texts))
    assert "multicalibration" not in default_candidates(Outputs.of(texts, hidden))
    # only multicalibration takes groups that overlap
    two = default_candidates(Outputs.of(pb.Predictions(y, p), np.column_stack([hidden, y])))
    assert two[-2:] == ["multicalibration", "mean_replacement"]
    assert "per_group" not in two


# --- the optimism of choosing


def test_a_corrected_gain_by_hand():
    """Every unit is judged by the choices of resamples that left it out."""
    rng = np.random.default_rng(0)
    before = rng.gamma(2, size=80)
    losses = np.column_stack(
        [before, before + rng.normal(-0.05, 0.3, 80), before + rng.normal(-0.06, 0.3, 80)]
    )
    share = np.full(80, 1 / 80)
    sums, times = np.zeros(80), np.zeros(80)
    for counts in np.random.default_rng(0).multinomial(80, share, 200):
        drawn = np.repeat(np.arange(80), counts)
        gap = losses[drawn] - losses[drawn][:, [losses[drawn].mean(axis=0).argmin()]]
        error = gap.std(axis=0, ddof=1) / np.sqrt(80)
        pick = next(k for k in range(3) if gap[:, k].mean() <= error[k])
        out = counts == 0
        sums[out] += losses[out, pick]
        times += out
    value, low, high = corrected_gain(losses, before, share, None, range(3))
    if one_standard_error_rule(losses, share, None, range(3)).chosen == 0:
        pytest.fail("the test needs a choice other than the first")
    assert value == pytest.approx(1 - (sums / times).mean() / before.mean(), abs=1e-12)
    assert value < 1 - losses.mean(axis=0).min() / before.mean()
    assert high - value == pytest.approx(value - low)


def test_a_clear_choice_needs_no_correction(sharp):
    found = select_calibrator(sharp.y, sharp.mcs, candidates=["identity", "temperature"])
    plain = pb.calibration_loss(sharp.y, sharp.mcs, calibrator=TemperatureScaling())
    assert found.gain == pytest.approx(float(plain.relative), abs=1e-12)
    assert found.gain.interval == pytest.approx(plain.relative.interval, abs=1e-9)
    assert (
        "removed by temperature, 5 random folds, corrected for choosing among 2"
        in found.gain.definition
    )
    clustered = select_calibrator(
        np.repeat(sharp.y, 4),
        np.repeat(sharp.mcs, 4, axis=0),
        candidates=FEW,
        clusters=np.repeat(np.arange(1500), 4),
    )
    width = [one.gain.high - one.gain.low for one in (found, clustered)]
    assert width[1] == pytest.approx(width[0], rel=0.1)


def test_the_gain_of_noise_is_corrected():
    """Thirty candidates that differ from the original by noise: the best seems to gain, and the
    corrected gain does not."""
    naive, corrected = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        before = rng.gamma(2, size=300)
        losses = np.column_stack([before, before[:, None] + rng.normal(0, 0.5, (300, 30))])
        share = np.full(300, 1 / 300)
        # to leave the outputs alone is not among the choices, so that one of them must be taken
        others = range(1, 31)
        place = one_standard_error_rule(losses, share, None, others).chosen
        naive.append(1 - losses[:, place].mean() / before.mean())
        corrected.append(corrected_gain(losses, before, share, None, others)[0])
    error = np.std(corrected, ddof=1) / np.sqrt(60)
    assert np.mean(naive) > 4 * error
    assert abs(np.mean(corrected)) < 3 * error


def test_leaving_outputs_alone_gains_nothing():
    world = gaussian_posteriors(400, 2, seed=0)
    found = select_calibrator(
        world.y, world.cal, candidates=["identity", "temperature", "platt", "beta"]
    )
    assert found.chosen == "identity"
    assert (float(found.gain), *found.gain.interval) == (0, 0, 0)


def test_many_classes_and_few_rows_are_left_alone():
    """With stratified folds the biases seem to help in every such world; they cost 1% on fresh
    rows."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        z = 0.5 * rng.normal(size=(1000, 100))
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        y = (rng.random((1000, 1)) > p.cumsum(axis=1)).sum(axis=1)
        few = ["identity", "temperature", "bias_corrected_temperature"]
        assert select_calibrator(y, p, candidates=few).chosen == "identity"
        assert (
            select_calibrator(y, p, candidates=few, stratify=True).chosen
            == "bias_corrected_temperature"
        )
