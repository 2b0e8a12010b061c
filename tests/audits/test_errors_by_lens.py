"""Errors by lens agree with the public functions; nulls and intervals agree with simulations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import probaudit as pb
from probaudit.audits import errors_by_lens, groups
from probaudit.audits.repairs import among
from probaudit.calibration import significance
from probaudit.calibration.fine_grid import FineGrid
from probaudit.calibration.null import BinomialNull
from probaudit.engines.memory import evidence_of
from probaudit.states import Plan
from probaudit.states import evidence as sampling


def evidence(rows: pb.Predictions):
    return evidence_of(rows, Plan.of(rows))


def by_name(audit: pb.Audit) -> dict[str, errors_by_lens.LensError]:
    return {error.name: error for error in audit.errors}


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(3000, 7, variance=0.5, seed=2)


@pytest.fixture(scope="module")
def found(world):
    return by_name(pb.audit(world.y, world.mcs, repair=False))


def test_values_are_those_of_the_functions(world, found):
    y, p = world.y, world.mcs
    expected = {
        "ece": pb.calibration_error(y, p),
        "ace": pb.calibration_error(y, p, partition=pb.EqualMass(15)),
        "smooth_ece": pb.smooth_calibration_error(y, p),
        "kernel_calibration_error": pb.kernel_calibration_error(y, p),
        "rms_error": pb.rms_calibration_error(y, p),
        "classwise_ece": pb.calibration_error(y, p, lens=pb.Classwise()),
        "topk_ece.2": pb.calibration_error(y, p, lens=among(2)),
        "topk_ece.3": pb.calibration_error(y, p, lens=among(3)),
        "topk_ece.5": pb.calibration_error(y, p, lens=among(5)),
        "full_ece": pb.calibration_error(
            y, p, lens=pb.Full(), partition=pb.KDTree(2**-4), distance="tvd"
        ),
    }
    assert list(found) == list(expected)
    for name, value in expected.items():
        # SmoothECE: its fixed point to 1e-7
        assert float(found[name].estimate) == pytest.approx(float(value), abs=2e-7), name
        assert found[name].estimate.n == len(y)
        estimate = found[name].estimate
        inside = estimate.debiased if np.isfinite(estimate.debiased) else value
        assert estimate.low <= inside <= estimate.high
        assert found[name].excess == pytest.approx(value - found[name].null_mean, abs=2e-7)
    assert found["classwise_ece"].estimate.per_class == pytest.approx(
        expected["classwise_ece"].per_class, abs=1e-12
    )


def test_definitions_of_a_sample_mention_the_grid(world, monkeypatch):
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", 500)
    audit = pb.audit(world.y, world.mcs, repair=False)
    found = {error.name: error.estimate for error in audit.errors}
    options = {"partition": pb.EqualMass(15), "exact": False}
    for name, value in (
        ("ace", pb.calibration_error(world.y, world.mcs, **options)),
        ("rms_error", pb.rms_calibration_error(world.y, world.mcs, **options)),
    ):
        assert float(found[name]) == pytest.approx(float(value), abs=1e-9)
        assert "from a grid of 16,800 cells" in found[name].definition


def test_the_definition_says_which_error_it_is(world, found):
    assert found["ece"].estimate.definition == pb.calibration_error(world.y, world.mcs).definition
    assert found["classwise_ece"].estimate.definition.startswith(
        pb.calibration_error(world.y, world.mcs, lens=pb.Classwise()).definition
    )
    assert "true class among the 5 most probable" in found["topk_ece.5"].estimate.definition
    assert len({error.title for error in found.values()}) == len(found)


def test_nulls_agree_with_labels_simulated_row_by_row(world, found):
    y, p = world.y, world.mcs
    for name, lens in (("ece", pb.TopLabel()), ("topk_ece.3", among(3))):
        exact = pb.calibration_test(y, p, lens=lens)
        assert found[name].null_mean == pytest.approx(exact.null_mean, rel=0.05)
        assert found[name].null_high == pytest.approx(exact.null_high, rel=0.08)
        assert found[name].p_value == exact.p_value
    # Classes drawn together; apart, with a doubled variance, the 95% point may only be higher.
    exact = pb.calibration_test(y, p, lens=pb.Classwise(), resamples=300)
    mine = found["classwise_ece"]
    assert mine.null_mean == pytest.approx(exact.null_mean, rel=0.03)
    assert 0.98 < mine.null_high / exact.null_high < 1.1


def test_nulls_of_errors_without_bins(world):
    rng, p, drawn = (
        np.random.default_rng(0),
        world.cal,
        {"smooth_ece": [], "kernel_calibration_error": [], "rms_error": []},
    )
    for _ in range(40):
        y = (rng.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)
        drawn["smooth_ece"].append(float(pb.smooth_calibration_error(y, p)))
        drawn["kernel_calibration_error"].append(float(pb.kernel_calibration_error(y, p)))
        drawn["rms_error"].append(float(pb.rms_calibration_error(y, p)))
    found = {
        error.name: error
        for error in errors_by_lens.event_errors(evidence(pb.Predictions(world.y, p)))
    }
    for name, values in drawn.items():
        error = np.std(values) / math.sqrt(40) + np.std(values) / math.sqrt(
            errors_by_lens.FEWER_RESAMPLES
        )
        assert abs(found[name].null_mean - np.mean(values)) < 4 * error, name


def test_the_full_error_of_a_sample_is_close_to_that_of_all_rows(monkeypatch):
    world = pb.simulate.gaussian_posteriors(6000, 3, variance=0.5, seed=0)
    order = np.argsort(world.y, kind="stable")
    whole = errors_by_lens.full_error(evidence(pb.Predictions(world.y[order], world.mcs[order])))
    monkeypatch.setattr(errors_by_lens, "FULL_ROWS", 3000)
    part = errors_by_lens.full_error(evidence(pb.Predictions(world.y[order], world.mcs[order])))
    assert part.estimate.n == 3000
    assert part.estimate.definition.endswith("on a sample of 3,000 rows")
    # the first half of the rows would be off by 0.12
    assert part.excess == pytest.approx(whole.excess, abs=0.03)


def test_two_classes_mirror_each_other():
    world = pb.simulate.gaussian_posteriors(2000, 2, seed=4)
    found = by_name(pb.audit(world.y, world.cal, repair=False))["classwise_ece"]
    exact = pb.calibration_test(world.y, world.cal, lens=pb.Binary())
    assert found.null_mean == pytest.approx(exact.null_mean, rel=0.05)
    # the widened mean of two copies of one
    assert found.null_high == pytest.approx(exact.null_high, rel=0.08)


def test_few_calibrated_models_are_rejected():
    alarms = dict.fromkeys(
        ("ece", "ace", "smooth_ece", "kernel_calibration_error", "rms_error", "classwise_ece"), 0
    )
    for seed in range(20):
        world = pb.simulate.gaussian_posteriors(600, 3, variance=0.5, seed=seed)
        sums = evidence(pb.Predictions(world.y, world.cal))
        for error in (*errors_by_lens.event_errors(sums), errors_by_lens.class_errors(sums)[0]):
            alarms[error.name] += error.p_value < 0.05
    # 20 draws at 5%: more than 6 alarms have probability 3e-5.
    assert max(alarms.values()) <= 6
    assert sum(alarms.values()) > 0


def near_certain(seed, classes=10, margin=15.0, rows=900):
    """A model that is nearly certain, and labels drawn from its probabilities."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1, (rows, classes))
    z[np.arange(rows), rng.integers(0, classes, rows)] += margin
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return (rng.random((rows, 1)) >= np.cumsum(p, axis=1)).sum(axis=1).clip(max=classes - 1), p


def binned_errors(rows):
    sums = evidence(rows)
    classwise, classes = errors_by_lens.class_errors(sums)
    top = errors_by_lens.binned_error("ece", FineGrid.of_event(sums.top), errors_by_lens.WIDTH, "")
    return {
        error.name: error.p_value
        for error in (top, classwise, *errors_by_lens.rank_errors(sums), *classes)
    }


@pytest.mark.parametrize("seed", [0, 23])
@pytest.mark.parametrize("logits", [False, True])
def test_an_error_of_nearly_all_calibrated_models_has_a_p_value_near_one(seed, logits):
    """0.007 of 900 rows are expected to be wrong, and none is. 99% of calibrated models have this
    error."""
    y, p = near_certain(seed)
    assert (p.argmax(axis=1) == y).all()
    found = pb.audit(y, np.log(p) if logits else p, from_logits=logits, repair=False)
    small = {
        error.name: error.p_value
        for error in (*found.errors, *found.class_errors)
        if error.p_value < 0.9
    }
    assert small == {}
    assert "Miscalibrated" not in found.verdict


@pytest.mark.parametrize(
    ("classes", "margin", "weighted"), [(2, 8.0, False), (3, 8.0, True), (10, 9.5, False)]
)
def test_p_values_of_near_certain_models_are_not_small(classes, margin, weighted):
    """A few rows are wrong. Ties may make p-values larger than uniform ones."""
    found = {}
    for seed in range(40):
        y, p = near_certain(seed, classes, margin)
        w = np.random.default_rng(seed).exponential(size=len(y)) if weighted else None
        for name, p_value in binned_errors(pb.Predictions(y, p, sample_weight=w)).items():
            found.setdefault(name, []).append(p_value)
    shares = {name: float(np.mean(np.array(values) < 0.05)) for name, values in found.items()}
    assert {name: share for name, share in shares.items() if share > 0.1} == {}
    assert min(found["classwise_ece"]) < 0.3


def test_a_near_certain_model_that_is_wrong_too_often_is_detected():
    y, p = near_certain(0)
    wrong = np.arange(900) % 60 == 0  # 15 rows, where 0.007 are expected
    y = np.where(wrong, (y + 1) % 10, y)
    found = pb.audit(y, p, repair=False)
    assert "Miscalibrated" in found.verdict
    assert {error.name for error in found.errors if error.p_value > 0.01} <= {
        "topk_ece.2",
        "topk_ece.3",
        "topk_ece.5",
    }


@pytest.mark.parametrize(("classes", "margin"), [(2, 3.0), (4, 3.0), (4, 9.0)])
def test_labels_of_all_classes_are_simulated_jointly(classes, margin, monkeypatch):
    """The null agrees with labels simulated row by row, and roughly so if only sums are known."""
    y, p = near_certain(1, classes, margin)
    exact = pb.calibration_test(y, p, lens=pb.Classwise(), resamples=999)
    joint = errors_by_lens.class_errors(evidence(pb.Predictions(y, p)))[0]
    assert joint.null_mean == pytest.approx(exact.null_mean, rel=0.05)
    assert joint.null_high == pytest.approx(exact.null_high, rel=0.15)
    assert joint.p_value == pytest.approx(exact.p_value, abs=0.1)
    monkeypatch.setattr(errors_by_lens, "SURPRISES", 0)
    apart = errors_by_lens.class_errors(evidence(pb.Predictions(y, p)))[0]
    assert apart.null_mean == pytest.approx(exact.null_mean, rel=0.1)
    assert apart.p_value == pytest.approx(exact.p_value, abs=0.2)


def test_an_error_below_its_null_mean_is_not_reported(found):
    ece = found["ece"]
    rare = replace(ece, test=replace(ece.test, p_value=0.001, null_mean=1.0))
    assert not rare.miscalibrated
    larger = replace(rare, test=replace(rare.test, null_mean=0.0))
    assert larger.miscalibrated
    assert not replace(larger, adjusted=0.02).miscalibrated


def test_intervals_agree_with_resampled_rows(world, found):
    rng, y, p = np.random.default_rng(1), world.y, world.mcs
    draws = [rng.integers(0, len(y), len(y)) for _ in range(150)]
    for name, error in (
        ("ece", lambda r: pb.calibration_error(y[r], p[r])),
        ("smooth_ece", lambda r: pb.smooth_calibration_error(y[r], p[r])),
        ("classwise_ece", lambda r: pb.calibration_error(y[r], p[r], lens=pb.Classwise())),
    ):
        spread = 2 * 1.96 * np.std([float(error(r)) for r in draws])
        width = found[name].estimate.high - found[name].estimate.low
        # classes: widened by design
        assert 0.8 * spread < width < (1.25 if name != "classwise_ece" else 1.9) * spread, name


def test_weights_count():
    world = pb.simulate.gaussian_posteriors(1500, 3, seed=1)
    twice = np.random.default_rng(0).integers(1, 3, len(world.y))
    weighted = by_name(pb.audit(world.y, world.mcs, sample_weight=twice * 1.0, repair=False))
    repeated = by_name(
        pb.audit(np.repeat(world.y, twice), np.repeat(world.mcs, twice, axis=0), repair=False)
    )
    for name in ("ece", "smooth_ece", "kernel_calibration_error", "classwise_ece", "topk_ece.2"):
        assert float(weighted[name].estimate) == pytest.approx(
            float(repeated[name].estimate), abs=3e-7
        ), name
        assert weighted[name].null_mean > repeated[name].null_mean, name  # fewer rows, more chance


def test_a_stated_confidence_has_no_classes():
    world = pb.simulate.gaussian_posteriors(500, 3, seed=1)
    rows = pb.Predictions.from_confidence(
        world.cal.max(axis=1), world.cal.argmax(axis=1) == world.y
    )
    found = pb.audit(rows)
    assert [error.name for error in found.errors] == [
        "ece",
        "ace",
        "smooth_ece",
        "kernel_calibration_error",
        "rms_error",
    ]
    assert found.class_errors == ()
    assert all(error.title.startswith("confidence, ") for error in found.errors)
    assert not any("top label" in error["title"] for error in found.to_dict()["errors"])


def test_each_of_many_classes_has_an_error():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(30, 0.2), 4000)
    y = (rng.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(max=29)
    wrong = p.copy()
    wrong[:, 7] = np.minimum(0.9, 3 * wrong[:, 7])
    wrong /= wrong.sum(axis=1, keepdims=True)
    found = pb.audit(y, wrong, repair=False)
    assert len(found.class_errors) == 30
    assert max(found.class_errors, key=lambda error: error.excess).name == "class_ece.7"
    exact = pb.calibration_error(y, wrong, lens=pb.OneVsRest(7))
    assert float(found.class_errors[7].estimate) == pytest.approx(float(exact), abs=1e-9)
    assert found.class_errors[7].miscalibrated
    assert not any(error.miscalibrated for error in pb.audit(y, p, repair=False).class_errors)
    assert "full_ece" not in by_name(found)


def test_the_cost_does_not_grow_with_the_rows():
    world = pb.simulate.gaussian_posteriors(20_000, 2, seed=0)
    small = evidence(pb.Predictions(world.y, world.mcs))
    large = evidence(pb.Predictions(np.tile(world.y, 20), np.tile(world.mcs, (20, 1))))
    mine, theirs = (errors_by_lens.event_errors(one) for one in (large, small))
    for one, other in zip(mine[:4], theirs[:4], strict=True):
        assert float(one.estimate) == pytest.approx(float(other.estimate), rel=0.01)
    assert mine[0].null_mean == pytest.approx(theirs[0].null_mean / math.sqrt(20), rel=0.1)


@pytest.mark.parametrize("n", [1, 2, 3, 29])
def test_few_rows(n):
    found = pb.audit(np.arange(n) % 2, np.linspace(0.1, 0.8, n))
    assert all(math.isfinite(error.estimate) and 0 < error.p_value <= 1 for error in found.errors)
    # with a row a bin, nothing is known about chance
    assert ("rms_error" in by_name(found)) == (n == 29)


def test_groups_have_a_verdict():
    world = pb.simulate.unfair_groups(6000)
    names = np.array([f"row {i}" for i in range(6000)])
    columns = {"group": world.group, "name": names, "pair": np.zeros((6000, 2))}
    found = pb.audit(world.y, world.scores, columns=columns, repair=False)
    # others have too many values, or are no column of values
    assert {group.column for group in found.groups} == {"group"}
    assert sum(group.rows for group in found.groups) == 6000
    for group in found.groups:
        mine = world.group == group.value
        assert group.predicted == pytest.approx(world.scores[mine].mean())
        assert group.observed == pytest.approx(world.y[mine].mean())
        exact = pb.calibration_error(world.y[mine], world.scores[mine], lens=pb.Binary())
        assert float(group.error.estimate) == pytest.approx(float(exact), abs=1e-9)
    assert any(group.error.miscalibrated for group in found.groups)
    # not of the top label
    assert {group.error.title for group in found.groups} == {"class 1, 15 equal bins (ECE)"}


def test_groups_of_many_classes_use_the_most_probable_class(world):
    half = np.arange(len(world.y)) % 2 == 0
    mixed = np.where(half[:, None], world.cal, world.mcs)
    groups = {
        group.value: group
        for group in pb.audit(world.y, mixed, columns={"half": half}, repair=False).groups
    }
    assert groups["True"].verdict == ""
    assert groups["False"].verdict == "overconfident"
    exact = pb.calibration_test(world.y[~half], mixed[~half])
    assert float(groups["False"].error.estimate) == pytest.approx(exact.value)
    assert groups["False"].error.null_mean == pytest.approx(exact.null_mean, rel=0.1)


def calibrated_classes(n: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts with many rare classes, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.3 if classes < 10 else 0.1), n)
    return (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(max=classes - 1), p


@pytest.mark.parametrize(("n", "classes", "worlds"), [(30, 3, 40), (200, 3, 40), (500, 30, 15)])
def test_calibrated_classes_are_not_rejected(n, classes, worlds):
    """At a level of 1% for all classes together, 3 or more alarms in 40 worlds have probability
    0.7%."""
    alarms = 0
    for seed in range(worlds):
        y, p = calibrated_classes(n, classes, seed)
        _, errors = errors_by_lens.class_errors(evidence(pb.Predictions(y, p)))
        alarms += any(error.miscalibrated for error in errors)
    assert alarms <= 2


def test_one_miscalibrated_class_is_detected_among_many():
    seen = 0
    for seed in range(10):
        y, p = calibrated_classes(1000, 30, seed)
        stated = p.copy()
        stated[:, 4] = np.minimum(0.9, stated[:, 4] + 0.05)  # 50 rows that are not there
        stated /= stated.sum(axis=1, keepdims=True)
        _, errors = errors_by_lens.class_errors(evidence(pb.Predictions(y, stated)))
        wrong = [error.name for error in errors if error.miscalibrated]
        assert set(wrong) <= {"class_ece.4"}
        seen += bool(wrong)
    assert seen == 10


def test_no_cap_on_the_number_of_miscalibrated_classes():
    """Sharpened forecasts: every class is wrong, and the p-value of each is far below what 199
    resamples can show."""
    y, p = calibrated_classes(4000, 12, 1)
    sure = p**2 / (p**2).sum(axis=1, keepdims=True)
    _, errors = errors_by_lens.class_errors(evidence(pb.Predictions(y, sure)))
    assert sum(error.miscalibrated for error in errors) == 12
    assert max(error.adjusted for error in errors) < 1e-4


def test_exact_tails_agree_with_simulation():
    y, p = calibrated_classes(500, 5, 3)
    found = evidence(pb.Predictions(y, p))
    for k, sums in enumerate(found.classes):
        chance = errors_by_lens.NullModel.of_coarse_grid(errors_by_lens.FineGrid.of_event(sums))
        draws = chance.errors(20_000, k)
        for share in (0.5, 0.9, 0.99):
            value = np.quantile(draws, share)
            exact, counted = (
                significance.exceedance([chance.binomial], [value])[0],
                (draws >= value).mean(),
            )
            # rounded up to the grid, never down
            assert (
                -4 * np.sqrt(counted / 20_000)
                < exact - counted
                < 0.15 * counted + 4 * np.sqrt(counted / 20_000)
            )


def test_tails_of_few_counts():
    """By hand: two bins of one row each, and counts too large to be enumerated."""
    ones = np.ones(2)
    steps = BinomialNull(np.arange(2), ones.astype(int), ones, ones, np.array([0.2, 0.9]))
    assert significance.exceedance([steps] * 4, [0.0, 0.15, 0.5, 0.85]) == pytest.approx(
        [1, 1, 0.1, 0.02]
    )
    many = BinomialNull(
        np.zeros(1, int), np.array([10**7]), np.array([1e7]), np.array([1e7]), np.array([0.3])
    )
    sd = np.sqrt(0.3 * 0.7 / 1e7)
    near = 1 - 1 / significance.TAIL_STEPS  # gaps are rounded up to the grid
    low, high = (2 * norm.sf(np.array([2, 5]) * factor) for factor in (1, near))
    found = significance.exceedance([many] * 2, [2 * sd, 5 * sd])
    assert (found >= low * (1 - 1e-6)).all()
    assert (found <= high * (1 + 1e-6)).all()


def test_tables_and_findings_of_groups_share_one_decision():
    """1% of calibrated tables of eight groups flag a group; plain 95% intervals would flag one in
    29% of them. Two of six tables: 0.15%."""
    raw = alarms = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p, group = rng.random(2000), rng.integers(0, 8, 2000)
        found = pb.audit(
            (rng.random(2000) < p).astype(int), p, columns={"group": group}, repair=False
        )
        alarms += any(one.verdict for one in found.groups)
        raw += sum(not one.gap.low <= 0 <= one.gap.high for one in found.groups)
        wrong = pb.audit(
            (rng.random(2000) < np.where(group == 3, p**3, p)).astype(int),
            p,
            columns={"group": group},
            repair=False,
        )
        assert next(one.verdict for one in wrong.groups if one.value == "3") in (
            "predicted too high",
            "miscalibrated",
        )
        assert "group = 3" in next(
            f.text for f in wrong.findings if f.rule == "miscalibrated_group"
        )
    assert alarms <= 1 <= raw


def test_a_class_without_rows_is_not_the_worst():
    y, p = calibrated_classes(400, 3, 0)
    absent = np.column_stack([p * 0.9, np.full(400, 0.1)])
    _, errors = errors_by_lens.class_errors(
        evidence(pb.Predictions(y, absent, classes=[0, 1, 2, 3]))
    )
    assert errors[3].excess == max(error.excess for error in errors)
    assert not errors[3].miscalibrated


def test_a_single_row_has_no_interval():
    for error in pb.audit([1], [0.3]).errors:
        assert math.isnan(error.estimate.low)
        assert math.isnan(error.estimate.high)


def test_columns_that_cannot_be_groups_are_reported_with_the_reason():
    world = pb.simulate.gaussian_posteriors(400, 2, seed=0)
    numbers = np.arange(400)
    columns = {
        "zip": np.array([f"zip {i % 80}" for i in range(400)]),
        "site": np.array([f"site {i % 50}" for i in range(400)]),
        "age": numbers,
        "place": np.zeros((400, 2)),
    }
    sums = evidence(pb.Predictions(world.y, world.cal, columns=columns))
    found = groups.group_errors(sums)
    assert found.left_out == {"zip": "has 80 values", "place": "has 2 values in each row"}
    assert (len(found), found.cut) == (50 + 5, ("age",))


def test_a_two_dimensional_column_is_reported():
    world = pb.simulate.gaussian_posteriors(400, 2, seed=0)
    audit = pb.audit(world.y, world.cal, columns={"place": np.zeros((400, 2))}, repair=False)
    (finding,) = (finding for finding in audit.findings if finding.rule == "columns_not_grouped")
    assert "place has 2 values in each row" in finding.text
    assert len(audit.groups) == 0


def test_groups_of_values_that_are_lists():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    tags = np.empty(400, object)
    tags[:] = [["a", "b"] if i % 2 else ["c"] for i in range(400)]
    found = pb.audit((rng.random(400) < p).astype(int), p, columns={"tags": tags}, repair=False)
    assert sorted(group.value for group in found.groups) == ["['a', 'b']", "['c']"]
