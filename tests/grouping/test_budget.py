"""The loss budget adds up, and its parts agree with the known truth of simulated data."""

from __future__ import annotations

import json
from types import MappingProxyType

import numpy as np
import pytest

import probaudit as pb
from probaudit import simulate
from probaudit.grouping.budget import _bound_of_whole, budget_lens, loss_budget


def parts(budget):
    return np.array([float(x) for x in (budget.calibration, budget.grouping, budget.rest)])


@pytest.mark.parametrize("score", ["brier", "log"])
@pytest.mark.parametrize("lens", [pb.Binary(), pb.TopLabel(), pb.Classwise(), None])
def test_parts_add_up_to_the_total(score, lens):
    world = simulate.neural_outputs(3000)
    found = loss_budget(world.y, world.scores, world.features, score=score, lens=lens, resamples=20)
    for budget in (found, found.after):
        assert parts(budget).sum() == pytest.approx(float(budget.total), abs=1e-12)
        assert budget.rest.low < budget.rest < budget.rest.high
    assert found.after.after is None


def test_over_all_classes_the_total_is_the_score():
    world = simulate.gaussian_posteriors(3000, 3)
    features = np.log(world.cal)
    for score, measure in (("brier", pb.brier_score), ("log", pb.log_score)):
        found = loss_budget(
            world.y, world.mcs, features, score=score, resamples=20, calibrator="none"
        )
        assert "Classwise" in found.definition
        assert float(found.total) == pytest.approx(float(measure(world.y, world.mcs)), rel=1e-9)
        assert found.total.interval == pytest.approx(measure(world.y, world.mcs).interval, rel=1e-2)
        assert found.after is None


def test_a_calibrated_world_with_grouping_loss():
    """Perez-Lebel et al. 2023, Appendix B.2: no calibration loss, and a known grouping loss."""
    world = simulate.neural_outputs(20_000, seed=1)
    found = loss_budget(
        world.y, world.scores, world.features, lens=pb.Binary(), region_ratio=12, resamples=50
    )
    assert found.grouping / world.grouping_loss == pytest.approx(0.9, abs=0.15)
    assert abs(found.calibration) < 4e-4
    noise = float((world.truth * (1 - world.truth)).mean())
    assert found.rest == pytest.approx(noise, rel=0.03)
    # no calibrator can remove it
    assert found.after.grouping == pytest.approx(found.grouping, rel=0.15)


def test_recalibration_removes_calibration_loss_but_not_grouping_loss():
    world = simulate.neural_outputs(20_000, seed=2)
    odds = world.scores / (1 - world.scores)
    sure = odds**2 / (1 + odds**2)
    found = loss_budget(
        world.y, sure, world.features, lens=pb.Binary(), region_ratio=12, resamples=50
    )
    assert found.calibration.low > 0.003
    assert abs(found.after.calibration) < 0.2 * found.calibration
    assert found.after.grouping > 0.7 * world.grouping_loss
    assert found.after.total < found.total


def shifted_world(n, seed=0):
    """Five classes; the outputs are the true probabilities with wrong priors. The truth is a
    function of the outputs."""
    rng = np.random.default_rng(seed)
    truth = np.exp(rng.normal(size=(n, 5)))
    truth /= truth.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(max=4)
    outputs = truth * np.exp([2, 1, 0, -1, -2])
    return y, outputs / outputs.sum(axis=1, keepdims=True), truth


def test_removable_miscalibration_of_several_classes_is_no_grouping_loss():
    y, outputs, truth = shifted_world(8000)
    found = loss_budget(y, outputs, np.log(outputs), resamples=50)
    known = float(((outputs - truth) ** 2).sum(axis=1).mean())
    assert found.calibrator == "BiasCorrectedTemperature"
    bound = found.found.lower_bound
    assert bound.low < 0 < bound.high  # without a correction, the budget has 0
    assert found.grouping == max(bound, 0.0)
    assert found.grouping.interval == (0, bound.high)
    assert found.calibration.low < known < found.calibration.high
    assert float(found.grouping) == float(found.after.grouping)
    assert float(found.rest) == float(found.after.rest)
    unrepaired = loss_budget(y, outputs, np.log(outputs), resamples=50, calibrator="none")
    assert unrepaired.grouping.low > 0.005  # what a budget without recalibration would claim
    assert "not recalibrated" in unrepaired.definition


def test_the_event_of_a_top_label_budget_stays_the_original_one():
    y, outputs, _ = shifted_world(2000, seed=1)
    found = loss_budget(y, outputs, np.log(outputs), lens=pb.TopLabel(), resamples=20)
    repaired = pb.calibration_loss(y, outputs)
    chosen = outputs.argmax(axis=1)
    confidence = repaired.posteriors[np.arange(len(y)), chosen]
    assert found.after.total == pytest.approx(float(((confidence - (chosen == y)) ** 2).mean()))
    with pytest.raises(pb.InputError, match="with recalibration"):
        loss_budget(
            y, outputs, np.log(outputs), lens=pb.TopK(2) | pb.Groups([[2], [0, 1]]) | pb.Binary()
        )


@pytest.mark.parametrize("score", ["log", "brier"])
def test_a_budget_of_the_whole_forecast_with_bounds_from_the_top_label(score):
    """With few rows of a class, one event shows what the whole forecast loses at least."""
    y, outputs, _ = shifted_world(2000, seed=1)
    features = np.log(outputs)
    whole, event = (
        loss_budget(y, outputs, features, score=score, lens=lens, resamples=20)
        for lens in (None, pb.TopLabel())
    )
    measure = {"log": pb.log_score, "brier": pb.brier_score}[score]
    repaired = pb.calibration_loss(y, outputs, score=score)
    assert float(whole.total) == pytest.approx(float(measure(y, outputs)))
    assert float(whole.after.total) == pytest.approx(float(repaired.calibrated))
    assert float(whole.removed) == pytest.approx(float(repaired.loss))
    assert whole.score_words() in ("log loss", "Brier score")
    factor = 1 if score == "log" else 5 / 4
    for part in ("grouping", "left"):
        assert getattr(whole, part) == pytest.approx(factor * getattr(event, part))
    assert parts(whole).sum() == pytest.approx(float(whole.total), abs=1e-12)


def test_the_loss_of_an_event_is_at_most_that_of_the_whole_forecast():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5), (2, 500))
    top = pb.TopLabel()
    for score, rule in (("log", pb.Log()), ("brier", pb.Brier())):
        event = rule.one_dimensional().divergence(p[:, 0], q[:, 0])
        assert (_bound_of_whole(score, top, 5) * event <= rule.divergence(p, q) + 1e-12).all()


def test_a_relative_budget_has_the_given_totals():
    world = simulate.neural_outputs(3000, seed=3)
    bent, choices = world.scores**2, {"score": "log", "resamples": 20}
    found = loss_budget(world.y, bent, world.features, **choices)
    total = pb.log_score(world.y, bent, normalize=True)
    own = found.relative_to(total)
    given = found.relative_to(total, pb.Estimate(0.9 * total))
    assert own.total is given.total is total
    for one in (own, given):
        assert parts(one).sum() == pytest.approx(float(total), abs=1e-12)
        assert parts(one.after).sum() == pytest.approx(float(one.after.total), abs=1e-12)
        assert one.removed + one.left == pytest.approx(float(one.calibration), abs=1e-12)
    np.testing.assert_allclose(parts(own), parts(found) / total.naive, rtol=1e-9)
    widths = [np.ptp(x.rest.interval) for x in (own, found)]
    assert widths[0] == pytest.approx(widths[1] / total.naive)
    assert float(given.removed) == pytest.approx(0.1 * total)
    assert given.grouping == own.grouping


def test_a_given_calibration_loss_is_not_fitted_again():
    y, outputs, _ = shifted_world(1500, seed=2)
    repaired = pb.calibration_loss(y, outputs, calibrator=pb.calibrators.VectorScaling())
    found = loss_budget(y, outputs, np.log(outputs), calibrator=repaired, resamples=20)
    assert found.calibrator == "VectorScaling"
    again = loss_budget(
        y, outputs, np.log(outputs), calibrator=pb.calibrators.VectorScaling(), resamples=20
    )
    assert float(found.calibration) == float(again.calibration)


def test_the_best_calibrator():
    world = simulate.neural_outputs(3000, seed=3)
    bent = world.scores**2
    usual, best = (
        loss_budget(
            world.y, bent, world.features, lens=pb.Binary(), resamples=10, calibrator=choice
        )
        for choice in (None, "best")
    )
    assert best.after.total <= usual.after.total + 1e-3
    assert float(best.total) == float(usual.total)


def test_groups_as_regions():
    world = simulate.unfair_groups(6000)
    rows = pb.Predictions(world.y, world.scores, columns={"group": world.group})
    found = loss_budget(rows, regions=["group"], lens=pb.Binary(), resamples=50)
    assert found.grouping.low < world.grouping_loss < found.grouping.high
    assert found.after.grouping == pytest.approx(float(found.grouping), rel=0.2)


def test_default_lens():
    few, many = simulate.gaussian_posteriors(300, 3), simulate.gaussian_posteriors(3000, 3)
    assert budget_lens(pb.Predictions(few.y, few.cal)) == pb.TopLabel()
    assert budget_lens(pb.Predictions(many.y, many.cal)) == pb.Classwise()
    pairs = pb.Predictions.from_confidence(many.cal.max(axis=1), many.y == 0)
    assert budget_lens(pairs) == pb.TopLabel()


def test_repr_and_to_dict():
    world = simulate.neural_outputs(2000)
    found = loss_budget(world.y, world.scores, world.features, resamples=20)
    text = repr(found)
    assert "after calibration" in text
    assert "100.0%" in text
    assert text.startswith("Loss budget of the Brier score")
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["total"]["value"] == float(found.total)
    assert plain["after"]["after"] is None


def test_dropped_rows_and_weights():
    world = simulate.neural_outputs(2000)
    scores = np.r_[world.scores, np.nan]
    y, features, w = (
        np.r_[world.y, 0],
        np.vstack([world.features, [0, 0]]),
        np.r_[np.full(2000, 2.0), 1.0],
    )
    found = loss_budget(y, scores, features, sample_weight=w, on_bad_rows="drop", resamples=20)
    plain = loss_budget(world.y, world.scores, world.features, resamples=20)
    # halves of rows fall otherwise
    np.testing.assert_allclose(parts(found), parts(plain), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "l1"}, "`score`"),
        ({"calibrator": "some"}, "`calibrator`"),
        ({"features": None}, "`features`"),
    ],
)
def test_invalid_arguments_raise(options, words):
    world = simulate.neural_outputs(200)
    with pytest.raises(pb.InputError, match=words):
        loss_budget(world.y, world.scores, **({"features": world.features} | options))


def test_a_calibrator_that_takes_features_is_refused():
    world = pb.simulate.neural_outputs(1000)
    with pytest.raises(pb.InputError, match="must not use features"):
        pb.loss_budget(
            world.y, world.scores, world.features, calibrator=pb.calibrators.GroupCalibration()
        )
    rows = pb.Predictions(world.y, world.scores, features=world.features)
    apart = pb.loss_budget(world.y, world.scores, world.features, calibrator="best", resamples=20)
    assert (
        pb.loss_budget(rows, calibrator="best", resamples=20).calibrator
        == apart.calibrator
        != "GroupCalibration"
    )


def test_features_of_any_type():
    import pyarrow as pa

    world = pb.simulate.neural_outputs(1000)
    columns = {f"f{k}": column for k, column in enumerate(world.features.T)}
    found = [
        pb.loss_budget(world.y, world.scores, features, resamples=20)
        for features in (
            world.features,
            world.features.tolist(),
            pa.table(columns),
            MappingProxyType(columns),
            columns,
        )
    ]
    assert len({float(one.grouping) for one in found}) == 1


def test_an_audit_without_loss_has_no_budget():
    y = np.arange(400) % 2
    found = pb.audit(y, y.astype(float), features=np.arange(400.0)[:, None], repair=False)
    assert found.budget is None
    assert "grouping_loss" not in found.estimates
    found.to_html()
