"""Diagrams of budgets, grouping, risks, decisions, top k, groups, intervals, sweeps and learned
groups show the estimates."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import probaudit as pb
from probaudit import diagrams
from probaudit.calibration.views import diagram_grids
from probaudit.calibrators import GroupCalibration
from probaudit.diagrams.before_after import BeforeAfter
from probaudit.diagrams.decisions import decision_intervals
from probaudit.diagrams.label_nulls import draw_labels
from probaudit.diagrams.picture import Band, Bars, Line, Panel, Points, Rule, Text
from probaudit.diagrams.vega_drawer import spec
from probaudit.engines.memory import summary
from probaudit.simulate import gaussian_posteriors, neural_outputs
from probaudit.states import Plan

FEW = {"resamples": 20}


@pytest.fixture(scope="module")
def world():
    return gaussian_posteriors(2000, 4, seed=3)


@pytest.fixture(scope="module")
def binary():
    return gaussian_posteriors(2000, 2, seed=3)


@pytest.fixture(scope="module")
def grouped():
    return neural_outputs(4000, seed=1)


def marks(panel: Panel, kind: type, role: str | None = None) -> list:
    return [
        mark
        for mark in panel.marks
        if isinstance(mark, kind) and (role is None or mark.role == role)
    ]


# Loss budget


@pytest.fixture(scope="module")
def budget(grouped):
    return pb.loss_budget(grouped.y, grouped.scores, grouped.features, lens=pb.Binary(), **FEW)


def test_the_bars_of_a_budget_end_at_its_totals(budget):
    found = diagrams.LossBudget.of_budget(budget)
    rows = {row.name: row for row in found.rows}
    assert list(rows) == [
        "original",
        "removable by recalibration",
        "calibration error left",
        "hidden groups (at least)",
        "the rest",
        "recalibrated",
    ]
    estimates = (
        budget.total,
        budget.removed,
        budget.left,
        budget.grouping,
        budget.rest,
        budget.after.total,
    )
    assert [row.estimate for row in found.rows] == list(estimates)
    shown = {name: row.shown for name, row in rows.items()}
    assert shown["original"] == round(float(budget.total), 3)
    panel = found.picture().panels[0]
    bars = [bar for bar in marks(panel, Bars) if bar.detail]
    ends: dict[float, float] = {}
    for bar in bars:
        (at,), (left,), (right,) = (bar.bottom + bar.top) / 2, bar.left, bar.right
        name, text = bar.detail["part"][0].split(": ")
        assert left == pytest.approx(ends.get(at, 0.0))
        assert right - left == pytest.approx(rows[name].shown)
        assert text == rows[name].text
        ends[at] = right
    assert list(ends.values()) == pytest.approx([shown["original"], shown["recalibrated"]])
    drawn = [row for row in reversed(found.parts) if row.shown > 0]
    totals = [rows[name].text for name in ("original", "recalibrated")]
    names = [row.name.removesuffix(" by recalibration") for row in drawn]
    key = [f"{name}: {row.text} ({row.interval})" for name, row in zip(names, drawn, strict=True)]
    assert [text.text for text in marks(panel, Text)] == [*totals, *key]
    zero = [row.name for row in found.parts if not row.shown > 0]
    assert bool(zero) == bool(found.not_detected)


def test_an_infinite_budget_has_a_picture(grouped):
    scores = np.where(np.arange(4000) == 7, 1.0 - grouped.y, grouped.scores)
    found = diagrams.loss_budget_diagram(
        grouped.y, scores, grouped.features, score="log", lens=pb.Binary(), calibrator="none", **FEW
    )
    assert math.isinf(found.original.shown)
    (panel,) = found.picture().panels
    assert next(text.text for text in marks(panel, Text)) == "∞"
    assert all(np.isfinite(bar.right).all() for bar in marks(panel, Bars))


# Grouping diagram


def test_a_grouping_diagram_is_that_of_the_grouping_loss(grouped):
    choices = {
        "lens": pb.Binary(),
        "bins": 10,
        "regions": "stump",
        "split": "half",
        "interval": None,
    }
    loss = pb.grouping_loss(grouped.y, grouped.scores, grouped.features, **choices)
    built, made = (
        diagrams.GroupingDiagram.of_grouping(loss),
        diagrams.grouping_diagram(grouped.y, grouped.scores, grouped.features, lens=pb.Binary()),
    )
    plain = pb.grouping_rates(grouped.y, grouped.scores, grouped.features, lens=pb.Binary())
    for name in plain.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(built, name), getattr(plain, name))
        np.testing.assert_array_equal(getattr(made, name), getattr(plain, name))
    with pytest.raises(pb.InputError, match="single event"):
        diagrams.GroupingDiagram.of_grouping(
            pb.grouping_loss(
                grouped.y, grouped.scores, grouped.features, lens=pb.Classwise(), interval=None
            )
        )


def test_known_groups_make_up_their_bins(grouped):
    group = {"side": (grouped.features[:, 0] > 0).astype(int)}
    found = diagrams.grouping_diagram(
        grouped.y, grouped.scores, group, lens=pb.Binary(), regions=["side"]
    )
    for b in range(len(found.rows)):
        inside = found.region_bin == b
        assert found.region_rows[inside].sum() == found.rows[b]
        assert found.region_rows[inside] @ found.region_observed[inside] / found.rows[
            b
        ] == pytest.approx(found.observed[b])


@pytest.mark.parametrize(
    ("rows", "region_rows", "left_out"),
    [
        ([20, 20], [10, 10, 10, 10], ""),
        ([20, 20], [12, 8, 10, 10], "1 region"),
        ([20, 4], [11, 9, 2, 2], "1 bin and 3 regions"),
        ([9, 7], [5, 4, 4, 3], ""),  # all are thin, and all are drawn
    ],
)
def test_the_caption_of_a_grouping_diagram_counts_what_is_left_out(rows, region_rows, left_out):
    stated, counts = np.array([0.2, 0.7]), np.array(region_rows)
    region_bin, observed = np.array([0, 0, 1, 1]), np.array([0.1, 0.3, 0.6, 0.8])
    found = diagrams.GroupingDiagram(
        stated=stated,
        observed=stated,
        rows=np.array(rows),
        region_bin=region_bin,
        region_stated=stated[region_bin],
        region_observed=observed,
        region_low=observed - 0.1,
        region_high=observed + 0.1,
        region_rows=counts,
        region_differs=np.array([True, False, False, True]),
        region_rule=np.array(["a", "b", "c", "d"], object),
    )
    assert found.columns()["region"].tolist() == ["a", "d", "b", "c"]  # those that differ first
    picture = found.picture()
    drawn = [mark for mark in marks(picture.panels[0], Points) if mark.size is not None]
    missing = len(counts) - sum(len(mark.x) for mark in drawn)
    assert missing == (int(left_out.split()[-2]) if left_out else 0)
    assert len(marks(picture.panels[1], Bars)[0].left) == len(rows) - left_out.count("bin")
    assert ("Not drawn" in picture.caption) == bool(left_out)
    assert f"Not drawn: {left_out} of fewer than 10 rows." in picture.caption or not left_out
    assert ("imprecise" in picture.caption) == (max(region_rows) < 10)
    assert "Vertical lines are 95% intervals (Clopper" in picture.caption
    many = replace(
        found,
        **{
            name: np.tile(column, 20)
            for name, column in vars(found).items()
            if name.startswith("region_")
        },
    )
    assert all(mark.low is None for mark in marks(many.picture().panels[0], Points))
    assert "vertical lines" not in many.picture().caption


def test_a_grouping_diagram_shows_every_thick_region_once(grouped):
    found = diagrams.grouping_diagram(grouped.y, grouped.scores, grouped.features, lens=pb.Binary())
    above, below = found.picture().panels
    regions = [mark for mark in marks(above, Points) if mark.size is not None]
    assert sum(len(mark.x) for mark in regions) == (found.region_rows >= 10).sum() > 0
    for mark in regions:
        rows = [
            np.flatnonzero((found.region_stated == x) & (found.region_observed == y))[0]
            for x, y in zip(mark.x, mark.y, strict=True)
        ]
        np.testing.assert_array_equal(mark.size, found.region_rows[rows] / found.region_rows.max())
        np.testing.assert_array_equal(mark.low, found.region_low[rows])
        assert (found.region_differs[rows] == (mark.role != "null")).all()
        side = found.region_observed[rows] - found.observed[found.region_bin[rows]]
        assert mark.role == "null" or ((side > 0) == (mark.role == "under")).all()
    np.testing.assert_allclose(below.marks[0].top, found.rows[found.rows >= 10] / found.rows.sum())


# Risk curves


def test_risk_curves_are_those_of_the_metric(binary):
    found = diagrams.risk_curve_diagram(binary.y, binary.mcs)
    curve = pb.risk_curve(binary.y, binary.mcs, thresholds=found.thresholds)
    np.testing.assert_array_equal(found.risk[0], curve.risk)
    np.testing.assert_array_equal(found.naive, curve.naive)
    np.testing.assert_allclose(found.scores[0], pb.log_score(binary.y, binary.mcs, normalize=True))
    loss = pb.calibration_loss(binary.y, binary.mcs, interval=None)
    after = pb.risk_curve(binary.y[loss.rows], loss.posteriors, thresholds=found.thresholds)
    np.testing.assert_array_equal(found.risk[1], after.risk)
    (panel,) = found.picture().panels
    naive, raw, calibrated = marks(panel, Line)
    assert (naive.y == 1).all()
    assert naive.dashed
    np.testing.assert_allclose(raw.y, curve.risk / curve.naive)
    np.testing.assert_array_equal(raw.x, found.thresholds)
    odds = diagrams.risk_curve_diagram(binary.y, binary.mcs, against="log-odds")
    x = marks(odds.picture().panels[0], Line)[1].x
    np.testing.assert_allclose(np.exp(x) / (1 + np.exp(x)), odds.thresholds)
    assert calibrated.role == "recalibrated"


def test_figure_4_of_ferrer_and_ramos_2025():
    """Section 3.1: systems that differ by a scale of the log posteriors have the same risk at 1/2.
    Areas are scores."""
    world = gaussian_posteriors(20_000, 2, prior=0.6, variance=0.15)
    log_odds = np.log(world.cal[:, 1]) - np.log(world.cal[:, 0])
    others = {"mcs-u": 1 / (1 + np.exp(-0.48 * log_odds)), "mcs-o": 1 / (1 + np.exp(-2 * log_odds))}
    fine = (np.arange(4000) + 0.5) / 4000
    for weight, score in ((None, pb.log_score), (pb.RiskWeighted(2, 2), pb.brier_score)):
        found = diagrams.risk_curve_diagram(
            *(world.y, world.cal[:, 1]),
            calibrator="none",
            others=others,
            thresholds=np.r_[fine[:2000], 0.5, fine[2000:]],
            normalize=False,
            against="threshold",
            weight=weight,
        )
        at_half = found.risk[:, 2000]
        np.testing.assert_allclose(
            at_half, 2 * np.mean((world.cal[:, 1] > 0.5) != world.y), rtol=1e-12
        )
        areas = np.delete(found.drawn, 2000, axis=1)[:-1].mean(axis=1)
        scores = [score(world.y, p) for p in (world.cal[:, 1], *others.values())]
        # of the midpoint rule, with 1 / t at the ends
        np.testing.assert_allclose(areas, scores, rtol=2e-3)
    assert found.names == ("original", "mcs-u", "mcs-o")
    assert [line.role for line in marks(found.picture().panels[0], Line)] == [
        "reference",
        "original",
        "series 1",
        "series 2",
    ]
    assert (found.scores[1:] > 1.1 * found.scores[0]).all()


def test_invalid_risk_curves_raise(binary):
    y, p = binary.y, binary.mcs[:, 1]
    with pytest.raises(pb.InputError, match="`normalize`"):
        diagrams.risk_curve_diagram(np.ones(20, int), np.linspace(0.1, 0.9, 20), calibrator="none")
    with pytest.raises(pb.InputError, match="`weight`"):
        diagrams.risk_curve_diagram(y, p, calibrator="none", weight=pb.RiskWeighted(2, 2))
    with pytest.raises(pb.InputError, match="`against`"):
        diagrams.risk_curve_diagram(y, p, calibrator="none", against="odds")
    with pytest.raises(pb.InputError, match="`calibrator`"):
        diagrams.risk_curve_diagram(y, p, calibrator="best")
    with pytest.raises(pb.InputError, match="`others`"):
        diagrams.risk_curve_diagram(y, p, others={"original": p})
    curves = {"a": pb.risk_curve(y, p), "b": pb.risk_curve(y, p, thresholds=[0.5])}
    with pytest.raises(pb.InputError, match="`curves`"):
        diagrams.RiskCurves.of_curves(curves)
    only = diagrams.risk_curve_diagram(
        np.ones(20, int), np.linspace(0.1, 0.9, 20), calibrator="none", normalize=False
    )
    assert (only.naive == 0).all()
    assert np.isnan(only.columns()["risk / risk of the same decision for all"]).all()


# Decision regions


def test_the_costs_of_decisions_sum_to_the_bayes_risk(world):
    rng = np.random.default_rng(0)
    weights = rng.random(len(world.y))
    rows = pb.Predictions(world.y, world.mcs, sample_weight=weights)
    for costs in (
        pb.Cost.zero_one(4, reject=0.2),
        pb.Cost.imbalanced(4),
        pb.Cost(rng.random((4, 6)) - 0.2),
    ):
        found = diagrams.decision_regions_diagram(world.y, world.mcs, costs, sample_weight=weights)
        assert found.risk == pytest.approx(
            pb.bayes_risk(world.y, world.mcs, costs, sample_weight=weights), rel=1e-9
        )
        decided = costs.decide(world.mcs)
        for j in range(costs.matrix.shape[1]):
            assert found.share[:, j].sum() == pytest.approx(
                weights[decided == j].sum() / weights.sum()
            )
        counts = summary(rows, Plan.of(rows, {"costs": costs})).costs["costs"]
        counted = diagrams.DecisionRegions.of_counts(counts, costs, rows.class_order)
        np.testing.assert_allclose(counted.cost, found.cost, atol=1e-12)
        decisions, classes = found.picture().panels
        assert sum((bar.right - bar.left).sum() for bar in marks(decisions, Bars)) == pytest.approx(
            1
        )
        assert sum(np.ptp(np.r_[bar.left, bar.right]) > 0 for bar in marks(classes, Bars))


def test_decisions_change_where_expected_costs_cross():
    thresholds, regions = decision_intervals(pb.Cost([[0, 1, 0.15], [5, 0, 0.15]]))
    np.testing.assert_allclose(thresholds, [0.03, 0.85])  # 5 p = 0.15 and 1 - p = 0.15
    assert regions.tolist() == [0, 2, 1]
    # rejecting never pays
    assert decision_intervals(pb.Cost([[0, 1, 0.6], [1, 0, 0.6]]))[1].tolist() == [0, 1]
    assert decision_intervals(pb.Cost([[1], [2]]))[1].tolist() == [0]
    rng = np.random.default_rng(1)
    p = rng.random(500)
    for _ in range(20):
        costs = pb.Cost(rng.normal(size=(2, 5)))
        thresholds, regions = decision_intervals(costs)
        np.testing.assert_array_equal(
            regions[np.searchsorted(thresholds, p)], costs.decide(np.column_stack([1 - p, p]))
        )


def test_two_classes_show_intervals_and_outputs(binary):
    costs = pb.Cost([[0, 1, 0.15], [5, 0, 0.15]])
    found = diagrams.decision_regions_diagram(binary.y, binary.mcs, costs)
    intervals, decided, paid = found.picture().panels
    assert [rule.x for rule in marks(intervals, Rule)] == pytest.approx([0.03, 0.85])
    regions = [bar for bar in marks(intervals, Bars) if bar.faint]
    assert [bar.detail["decision"][0] for bar in regions] == ["0", "reject", "1"]
    assert intervals.title == "0 up to 0.03, reject up to 0.85, 1 above"
    expected = np.histogram(binary.mcs[binary.y == 1, 1], 50, (0, 1))[0] / len(binary.y)
    np.testing.assert_allclose(found.density[1], expected)
    np.testing.assert_allclose(found.density.sum(), 1)
    wrong = marks(paid, Bars, "series 1")[0]
    np.testing.assert_allclose(wrong.right - wrong.left, [found.cost[0, 1], found.cost[1, 0]])
    assert decided.y.categories == ("0", "1", "reject")


def test_decisions_have_names():
    y, p = ["sick", "well", "sick"], [0.9, 0.2, 0.6]
    named = pb.Cost([[0, 2], [9, 1]], decisions=("wait", "treat"))
    assert diagrams.decision_regions_diagram(y, p, named, classes=["well", "sick"]).decisions == (
        "wait",
        "treat",
    )
    # the first decision is best for the second class: it is not that class
    other = [[3, 0, 1], [0, 3, 1]]
    assert diagrams.decision_regions_diagram(y, p, other, classes=["well", "sick"]).decisions == (
        "decision 0",
        "decision 1",
        "reject",
    )
    with pytest.raises(pb.InputError, match="each of the 2 decisions"):
        diagrams.decision_regions_diagram(
            y, p, pb.Cost([[0, 2], [9, 1]], decisions=("wait",)), classes=["well", "sick"]
        )
    with pytest.raises(pb.InputError, match="`costs`"):
        diagrams.decision_regions_diagram(y, p, classes=["well", "sick"])


def test_the_most_costly_of_many_classes_are_shown():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(30, 0.1), 500)
    y = (rng.random((500, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=29)
    found = diagrams.decision_regions_diagram(y, p, pb.Cost.zero_one(30))
    decided, paid = found.picture().panels
    assert len(decided.y.categories) == len(paid.y.categories) == 12
    dearest = np.sort(np.argsort(-found.cost.sum(axis=1), kind="stable")[:12])
    assert paid.y.categories == tuple(f"truly {k}" for k in dearest)


# Top k


def test_top_k_confidence_and_accuracy(world):
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, len(world.y))
    found = diagrams.top_k_diagram(
        world.y, world.mcs, baseline=world.cal, sample_weight=weights, **FEW
    )
    assert found.ks.tolist() == [1, 2, 3]
    assert found.models == ("model", "baseline")
    for s, p in enumerate((world.mcs, world.cal)):
        order = np.argsort(-p, axis=1, kind="stable")
        largest = np.average(np.take_along_axis(p, order, axis=1), axis=0, weights=weights)
        np.testing.assert_allclose(found.place[s], largest[:3])
        np.testing.assert_allclose(found.confidence[s], np.cumsum(largest)[:3])
        hits = [
            np.average((order[:, :k] == world.y[:, None]).any(axis=1), weights=weights)
            for k in (1, 2, 3)
        ]
        np.testing.assert_allclose(found.accuracy[s], hits)
        choices = {"partition": pb.KDTree(2**-4), "distance": "tvd", "sample_weight": weights}
        for k in (1, 2, 3):
            error = pb.calibration_error(
                world.y, p, lens=pb.TopK(k), interval=True, **choices, **FEW
            )
            assert (
                found.error[s, k - 1],
                found.low[s, k - 1],
                found.high[s, k - 1],
            ) == error.error_bar
            test = pb.calibration_test(world.y, p, lens=pb.TopK(k), **choices, **FEW)
            assert found.null[s, k - 1] == test.null_mean
    errors, sums, changes = found.picture().panels
    np.testing.assert_array_equal(marks(errors, Points, "series 0")[0].y, found.error[0])
    np.testing.assert_array_equal(marks(sums, Line)[1].y, found.confidence[0])
    bar = marks(changes, Bars)[0]
    np.testing.assert_allclose(bar.top + bar.bottom, found.place[0] - found.place[1])


@pytest.mark.parametrize("ks", [[0], [4], [2, 2], [1.5], [], [[1]]])
def test_invalid_ks_raise(world, ks):
    with pytest.raises(pb.InputError, match="`ks`"):
        diagrams.top_k_diagram(world.y, world.mcs, ks=ks)


def test_temperature_moves_confidence_down_the_ranks(shared):
    """Kirchenbauer et al. 2022, Figure 2: calibration lowers the confidence in the first class and
    raises others; Figure 1: errors fall."""
    data = np.load(shared / "data" / "ferrer_cifar100_resnet20.npz")
    z, y = data["logits"][:4000].astype(np.float64), data["labels"][:4000]
    raw, tempered = (np.exp(x - x.max(axis=1, keepdims=True)) for x in (z, z / 1.6))
    raw, tempered = (
        raw / raw.sum(axis=1, keepdims=True),
        tempered / tempered.sum(axis=1, keepdims=True),
    )
    found = diagrams.top_k_diagram(y, tempered, baseline=raw, ks=[1, 2, 5], **FEW)
    change = found.place[0] - found.place[1]
    assert change[0] < -0.05
    assert (change[1:] > 0).all()
    assert (found.error[0] < found.error[1]).all()
    np.testing.assert_array_equal(found.accuracy[0], found.accuracy[1])


# Groups


def test_group_errors_are_the_errors_of_their_rows(world):
    group = np.array(["b", "a", "c"])[np.arange(len(world.y)) % 7 % 3]
    weights = np.random.default_rng(0).random(len(world.y))
    rows = pb.Predictions(world.y, world.mcs, sample_weight=weights, columns={"hospital": group})
    found = diagrams.group_errors_diagram(rows, by="hospital", **FEW)
    assert (np.diff(found.error - found.null) <= 0).all()
    for name, n, error, null in zip(found.name, found.rows, found.error, found.null, strict=True):
        inside = group == name
        assert n == inside.sum()
        own = {"sample_weight": weights[inside]}
        assert error == pytest.approx(
            pb.calibration_error(world.y[inside], world.mcs[inside], **own), rel=1e-9
        )
        assert null == pytest.approx(
            pb.calibration_test(world.y[inside], world.mcs[inside], **own, **FEW).null_mean,
            rel=1e-9,
        )
    assert found.overall == pytest.approx(float(pb.calibration_error(rows)), rel=1e-9)
    by_array = diagrams.group_errors_diagram(
        world.y, world.mcs, by=group, sample_weight=weights, **FEW
    )
    np.testing.assert_array_equal(by_array.error, found.error)
    (panel,) = found.picture().panels
    np.testing.assert_array_equal(marks(panel, Bars, "observed")[0].right, found.error)
    np.testing.assert_array_equal(marks(panel, Bars, "null")[0].right, found.null_high)
    assert marks(panel, Rule)[0].x == found.overall
    assert panel.y.categories[0] == f"{found.name[0]} ({found.rows[0]:,})"


def test_rows_selected_by_label_have_a_matching_null():
    """The error of the rows of one class is large. So is its null, which selects rows by labels
    drawn from the forecasts."""
    world = gaussian_posteriors(20_000, 3, seed=5)
    found = diagrams.group_errors_diagram(world.y, world.cal, lens=pb.TopLabel(), resamples=60)
    assert found.by == "true class"
    assert found.error.max() > 0.05
    np.testing.assert_allclose(found.error, found.null, atol=0.02)
    assert found.error[0] == pb.calibration_error(
        world.y, world.cal, where=pb.LabelIs(int(found.name[0]))
    )
    worse = diagrams.group_errors_diagram(world.y, world.mcs, lens=pb.TopLabel(), resamples=60)
    assert (np.abs(worse.error - worse.null) > 0.03).any()


def test_null_labels_follow_the_forecasts():
    p = np.array([[0.2, 0.0, 0.8], [0.0, 1.0, 0.0], [0.5, 0.3, 0.2]])
    drawn = draw_labels(np.random.default_rng(0), p, 20_000)
    rates = np.stack([np.bincount(column, minlength=3) for column in drawn.T]) / 20_000
    np.testing.assert_allclose(rates, p, atol=0.015)  # four standard deviations
    assert (rates[p == 0] == 0).all()
    wide = np.random.default_rng(1).dirichlet(np.full(700, 0.05), 4000)  # more than one piece
    mean = (draw_labels(np.random.default_rng(2), wide, 30) == wide.argmax(axis=1)).mean()
    assert mean == pytest.approx(wide.max(axis=1).mean(), abs=0.01)


def test_logits_with_bad_rows_and_a_column_of_cells(world):
    """Dropped rows are also dropped from groups and cells."""
    n, cells = len(world.y), np.arange(len(world.y)) % 5
    logits, group = np.log(world.mcs), np.arange(n) % 3
    logits[::10] = np.nan
    good = np.arange(n) % 10 > 0
    choices = {"partition": pb.EqualWidth(5) * pb.Column(cells), "from_logits": True}
    found = diagrams.group_errors_diagram(
        world.y, logits, by=group, on_bad_rows="drop", **choices, **FEW
    )
    for name, error in zip(found.name, found.error, strict=True):
        inside = good & (group == int(name))
        own = pb.EqualWidth(5) * pb.Column(cells[inside])
        assert error == pytest.approx(
            pb.calibration_error(world.y[inside], world.mcs[inside], partition=own), rel=1e-6
        )


def test_families_as_in_figure_3(world):
    families = pb.Groups({"left": [0, 1], "right": [2, 3]})
    choices = {"lens": families, "partition": pb.KDTree(0.1), "distance": "tvd"}
    found = diagrams.group_errors_diagram(world.y, world.mcs, by=families, **choices, **FEW)
    expected = {"left": pb.LabelIs((0, 1)), "right": pb.LabelIs((2, 3))}
    for name, error in zip(found.name, found.error, strict=True):
        assert error == pb.calibration_error(
            world.y, world.mcs, where=expected[str(name)], **choices
        )
    named = diagrams.group_errors_diagram(
        world.y, world.mcs, by=pb.Groups(("x", "x", "y", "y")), **choices, **FEW
    )
    np.testing.assert_array_equal(named.error, found.error)
    assert sorted(named.name) == ["x", "y"]


def test_the_largest_groups_are_shown(world):
    group = np.minimum(np.arange(len(world.y)) % 50, 10)
    found = diagrams.group_errors_diagram(world.y, world.mcs, by=group, most=3, **FEW)
    assert len(found.name) == 3
    assert found.groups == 11
    assert "10" in found.name
    assert "3 largest of 11" in found.picture().caption
    for bad in (
        {"by": "nowhere"},
        {"by": group[:5]},
        {"by": group, "most": 0},
        {"by": group, "resamples": 0},
    ):
        with pytest.raises(pb.InputError):
            diagrams.group_errors_diagram(world.y, world.mcs, **bad)


# Intervals


def test_interval_errors_add_up_to_the_error_of_all_rows(binary):
    weights = np.random.default_rng(0).random(len(binary.y))
    found = diagrams.interval_wise_diagram(binary.y, binary.mcs, sample_weight=weights, **FEW)
    whole = pb.calibration_error(binary.y, binary.mcs, lens=pb.Binary(), sample_weight=weights)
    # 15 bins: five in each third
    assert found.share @ found.error == pytest.approx(float(whole), abs=1e-12)
    assert found.rows.sum() == len(binary.y)
    assert found.share.sum() == pytest.approx(1)
    p = binary.mcs[:, 1]
    for start, stop, error, beyond, stated in zip(
        found.start, found.stop, found.error, found.beyond, found.stated, strict=True
    ):
        inside = (p >= start) & ((p < stop) | (stop == 1))
        own = {"lens": pb.Binary(), "sample_weight": weights[inside]}
        assert error == pytest.approx(
            pb.calibration_error(binary.y[inside], p[inside], **own), rel=1e-9
        )
        distance = pb.InterInterval(start, stop)
        assert beyond == pytest.approx(
            pb.calibration_error(binary.y[inside], p[inside], distance=distance, **own), abs=1e-12
        )
        assert stated == pytest.approx(np.average(p[inside], weights=weights[inside]))
    assert (found.beyond <= found.error + 1e-12).all()
    errors, rows = found.picture().panels
    outside, error, limit = (
        marks(errors, Points, role)[0] for role in ("calibration", "observed", "limit")
    )
    np.testing.assert_array_equal(outside.x, found.beyond)
    np.testing.assert_array_equal(error.x, found.error)
    np.testing.assert_array_equal(limit.x, found.null_high)
    assert (outside.y - error.y >= 0.25).all()  # lanes of their own
    np.testing.assert_array_equal(rows.marks[0].right, found.share)


def test_the_axis_of_sharpness_begins_at_the_lowest_confidence(binary):
    """The most probable of two classes has a probability of at least 50%."""
    found = diagrams.calibration_sharpness_diagram(binary.y, binary.mcs)
    assert [panel.extent("x") for panel in found.picture().panels] == [(0.5, 1.0)] * 2
    correct = diagrams.calibration_sharpness_diagram([1, 0, 1] * 9, [0.7, 0.8, 0.9] * 9)
    pairs = replace(correct, event="the confidence")
    assert pairs.picture().panels[0].extent("x") == (0.0, 1.0)


def test_an_output_on_an_edge_counts_once():
    y, p = np.array([1, 0, 1, 0, 1]), np.array([0.2, 0.5, 0.5, 0.5, 1.0])
    found = diagrams.interval_wise_diagram(y, p, edges=[0, 0.5, 1], names=["no", "yes"], **FEW)
    assert found.rows.tolist() == [1, 4]
    np.testing.assert_allclose(found.observed, [1, 0.5])
    # three rows state 0.5; of them a third is right
    np.testing.assert_allclose(found.beyond, [0.5, 3 / 4 * (0.5 - 1 / 3)])


def test_an_interval_without_rows_is_not_drawn(world):
    found = diagrams.interval_wise_diagram(world.y, world.mcs, edges=[0, 0.1, 0.5, 1], **FEW)
    # the top of four classes is at least 1/4
    assert found.name.tolist() == ["0.1 to 0.5", "0.5 to 1"]
    for bad in (
        {"edges": [0.1, 1]},
        {"edges": [0, 0.7, 0.3, 1]},
        {"names": ["a"]},
        {"lens": pb.Full()},
    ):
        with pytest.raises(pb.InputError):
            diagrams.interval_wise_diagram(world.y, world.mcs, **bad)


# Sweeps


def test_a_sweep_is_drawn_from_coarse_to_fine(world):
    sweep = pb.partition_sweep(world.y, world.mcs, **FEW)
    found = diagrams.PartitionSweep.of_sweep(sweep)
    assert found.name.tolist() == ["1/2", "1/4", "1/8", "1/16", "1/32", "1/64", "1/128", "1/256"]
    (panel,) = found.picture().panels
    np.testing.assert_array_equal(marks(panel, Line)[0].y, sweep.values)
    band = panel.marks[1]
    np.testing.assert_allclose(band.high - band.low, 2 * sweep.deviations)
    run = np.flatnonzero(sweep.stable)
    assert (panel.marks[0].left[0], panel.marks[0].right[0]) == (run[0] - 0.4, run[-1] + 0.4)
    bins = [pb.EqualWidth(b) for b in (2, 5, 10)]
    by_bins = diagrams.sweep_diagram(world.y, world.mcs, partitions=bins, lens=pb.TopLabel(), **FEW)
    assert by_bins.name.tolist() == ["2", "5", "10"]
    assert by_bins.axis == "equal-width bins"
    mixed = diagrams.sweep_diagram(
        world.y, world.mcs, partitions=[pb.Whole(), *bins], lens=pb.TopLabel(), **FEW
    )
    assert mixed.name[:2].tolist() == ["all rows together", "2 equal-width bins"]


# Composition


def test_groups_by_class(world):
    rng = np.random.default_rng(0)
    group, weights = rng.integers(0, 3, len(world.y)), rng.integers(0, 3, len(world.y))
    found = diagrams.partition_composition_diagram(world.y, world.mcs, group, sample_weight=weights)
    top = world.mcs.max(axis=1)
    for g, name in enumerate(found.name):
        inside = group == int(name)
        share = np.bincount(world.y[inside], weights[inside], 4) / weights[inside].sum()
        np.testing.assert_allclose(found.share[g], share)
        assert found.rows[g] == (inside & (weights > 0)).sum()
        assert found.stated[g] == pytest.approx(np.average(top[inside], weights=weights[inside]))
        hits = world.mcs[inside].argmax(axis=1) == world.y[inside]
        assert found.observed[g] == pytest.approx(np.average(hits, weights=weights[inside]))
    np.testing.assert_allclose(found.weight.sum(), 1)
    repeated = np.repeat(np.arange(len(world.y)), weights)
    again = diagrams.partition_composition_diagram(
        world.y[repeated], world.mcs[repeated], group[repeated]
    )
    np.testing.assert_allclose(again.share, found.share)
    classes, served = found.picture().panels
    bars = marks(classes, Bars)
    np.testing.assert_allclose(bars[-1].right, 1)
    np.testing.assert_allclose(
        np.stack([bar.right - bar.left for bar in bars], axis=1), found.share
    )
    np.testing.assert_array_equal(marks(served, Points)[0].x, found.observed)


def hidden_groups(n=4000):
    """Three classes; a hidden half of the rows, which the features reveal, is overconfident."""
    rng = np.random.default_rng(0)
    hidden, z = rng.integers(0, 2, n), rng.normal(0, 2, (n, 3))
    p = np.exp(z * np.where(hidden, 2.5, 0.4)[:, None])
    p /= p.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=2)
    return y, z, np.column_stack([2 * hidden - 1, rng.normal(size=n)]), hidden


def test_a_learned_partition():
    y, z, features, hidden = hidden_groups()
    model = GroupCalibration(n_partitions=2, from_logits=True).fit(z, y, features=features)
    found = diagrams.partition_composition_diagram(
        y, z, model, features=features, partition=1, from_logits=True
    )
    column = model.partitions(features)[1].values
    assert (
        found.rows.tolist()
        == np.bincount(column).tolist()
        == np.bincount(hidden)[[column[hidden == 0][0], column[hidden == 1][0]]].tolist()
    )
    expected = [model.members_[m].temperature_ for m in model.member_of_[1]]
    assert found.temperature.tolist() == expected
    assert min(expected) < 0.6 < 1.8 < max(expected)
    sure = int(np.argmax(expected))
    assert found.stated[sure] > found.high[sure]
    assert found.stated[1 - sure] < found.low[1 - sure]
    assert (
        found.picture().panels[0].y.categories[sure]
        == f"group {sure + 1}, T = {expected[sure]:.2f}"
    )
    rows = pb.Predictions(y, z, from_logits=True, features=features)
    np.testing.assert_array_equal(
        diagrams.partition_composition_diagram(rows, groups=model, partition=1).share, found.share
    )
    for bad in (
        {"partition": 2, "features": features},
        {"features": None},
        {"features": features[:9]},
        {"features": features, "most": 0},
    ):
        with pytest.raises(pb.InputError):
            diagrams.partition_composition_diagram(y, z, model, from_logits=True, **bad)


def test_a_partition_learned_from_the_outputs():
    y, z, _, _ = hidden_groups(1000)
    model = GroupCalibration(n_partitions=1, from_logits=True).fit(z, y)
    found = diagrams.partition_composition_diagram(y, z, model, from_logits=True)
    logs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    group = (logs @ model.weights_[0].T + model.intercepts_[0]).argmax(axis=1)
    assert found.rows.tolist() == np.bincount(group)[np.unique(group)].tolist()


def test_regions_of_a_grouping_loss(grouped):
    rows = pb.Predictions(grouped.y, grouped.scores, features=grouped.features)
    loss = pb.grouping_loss(rows, interval=None)
    found = diagrams.partition_composition_diagram(rows, groups=loss, most=5)
    assert found.groups == len(loss.regions)
    assert len(found.name) == 5
    for g in range(5):
        region = loss.regions[g]
        assert found.name[g] == f"{region.rule}  {region.outputs}".rstrip()
        assert found.rows[g] == region.rows
        assert (found.stated[g], found.observed[g]) == pytest.approx(
            (region.stated, region.observed)
        )
        np.testing.assert_allclose([found.low[g], found.high[g]], [region.low, region.high])
    everything = pb.grouping_loss(rows, lens=pb.Classwise(), interval=None)
    with pytest.raises(pb.InputError, match="single event"):
        diagrams.partition_composition_diagram(rows, groups=everything)
    with pytest.raises(pb.InputError, match="`groups`"):
        diagrams.partition_composition_diagram(rows)


def test_many_classes_are_shown_as_seven_and_others():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(20), 600)
    y = (rng.random((600, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=19)
    found = diagrams.partition_composition_diagram(y, p, y < 10)
    bars = marks(found.picture().panels[0], Bars)
    assert [bar.name for bar in bars][-1] == "13 others"
    assert len({bar.role for bar in bars}) == 8
    np.testing.assert_allclose(bars[-1].right, 1)


# All of them

RNG = np.random.default_rng(7)
EDGES = {
    "one row": ([1], [0.8]),
    "two rows": ([1, 0], [0.8, 0.3]),
    "ties": ([1, 0, 1, 1], [0.5, 0.5, 0.5, 0.5]),
    "one class": (np.ones(40, int), RNG.random(40)),
    "sure": (RNG.integers(0, 2, 60), RNG.integers(0, 2, 60).astype(float)),
    "three classes": (RNG.integers(0, 2, 90), RNG.dirichlet(np.ones(3), 90).astype(np.float32)),
}
MAKERS = {
    "loss_budget_diagram": lambda y, p: {
        "features": np.arange(2.0 * len(y)).reshape(-1, 2),
        "calibrator": "none",
        **FEW,
    },
    "grouping_diagram": lambda y, p: {"features": np.arange(2.0 * len(y)).reshape(-1, 2)},
    "risk_curve_diagram": lambda y, p: {"calibrator": "none", "normalize": False},
    "decision_regions_diagram": lambda y, p: {
        "costs": pb.Cost.zero_one(2 if np.ndim(p) == 1 else p.shape[1], reject=0.1)
    },
    "top_k_diagram": lambda y, p: {"baseline": p, **FEW},
    "group_errors_diagram": lambda y, p: FEW,
    "interval_wise_diagram": lambda y, p: FEW,
    "sweep_diagram": lambda y, p: FEW,
    "partition_composition_diagram": lambda y, p: {"groups": np.arange(len(y)) % 2},
}


@pytest.mark.parametrize("function", MAKERS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges(function, edge):
    y, p = EDGES[edge]
    if function == "risk_curve_diagram" and np.ndim(p) == 2:
        with pytest.raises(pb.InputError, match="two classes"):
            diagrams.named(function)(y, p, **MAKERS[function](y, p))
        return
    found = diagrams.named(function)(y, p, **MAKERS[function](y, p))
    assert len({len(column) for column in found.columns().values()}) == 1
    picture = found.picture()
    assert picture.description
    assert picture.title
    assert picture.caption
    written = json.dumps(spec(picture), allow_nan=False)
    assert "NaN" not in written
    assert len(found.plot().axes_) == len(picture.folded().panels)


@pytest.mark.parametrize(
    "function", [name for name in MAKERS if name not in ("loss_budget_diagram", "grouping_diagram")]
)
# halves, from which regions are learned, are of all rows
def test_rows_of_weight_zero_are_left_out(function):
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = (rng.random(300) < p).astype(int)
    kept, choices = rng.random(300) < 0.7, MAKERS[function](y, p)
    some = {
        name: value[kept] if isinstance(value, np.ndarray) and len(value) == 300 else value
        for name, value in choices.items()
    }
    whole = diagrams.named(function)(y, p, sample_weight=kept * 1.0, **choices)
    part = diagrams.named(function)(y[kept], p[kept], **some)
    names = {
        "share of rows",
        "predicted",
        "observed",
        "confidence",
        "accuracy",
        "Bayes risk",
        "error rate",
        "part of the risk",
        "rows",
        "calibration error",
        "threshold",
    }
    if function == "top_k_diagram":  # boxes are of all rows
        names = {"accuracy", "mean confidence"}
    for name in names & set(whole.columns()):
        np.testing.assert_allclose(
            whole.columns()[name], part.columns()[name], rtol=1e-9, atol=1e-12
        )


def test_no_curve_where_there_are_no_outputs(binary):
    """The confidence in the most probable of two classes is at least one half."""
    found = diagrams.calibration_sharpness_diagram(binary.y, binary.mcs)
    below = found.confidence < 0.495
    assert below.any()
    assert not found.rows[below].any()
    _, edge = found.density_panel().marks
    assert not edge.y[below].any()
    assert edge.y[~below].any()
    assert found.columns()["confidence"].min() > 0.49


def test_risk_curves_are_drawn_over_probabilities(binary):
    found = diagrams.risk_curve_diagram(binary.y, binary.mcs)
    panel = found.picture().panels[0]
    assert (panel.x.low, panel.x.high, panel.x.percent) == (0.0, 1.0, True)
    assert found.names == ("original", "recalibrated")


def test_a_curve_of_errors_starts_at_ten_answered_rows(binary):
    found = diagrams.risk_coverage_diagram(binary.y[:60], binary.mcs[:60])
    (panel,) = found.picture().panels
    (curve,) = (mark for mark in panel.marks if isinstance(mark, Line) and not mark.dashed)
    assert curve.x[0] == pytest.approx(0.17)
    assert found.columns()["coverage"][0] == pytest.approx(0.01)


def test_two_curves_have_intervals_and_three_have_none(binary):
    for others, bands in (({"a": binary.cal}, 2), ({"a": binary.cal, "b": binary.cal}, 0)):
        for draw in (diagrams.risk_coverage_diagram, diagrams.decision_curve_diagram):
            (panel,) = draw(binary.y, binary.mcs, others=others).picture().panels
            assert sum(isinstance(mark, Band) for mark in panel.marks) == bands


def test_lines_are_not_drawn_across_bins_that_are_left_out():
    rng = np.random.default_rng(0)
    p = np.r_[rng.uniform(0.0, 0.2, 500), rng.uniform(0.8, 1.0, 500)]
    rows = pb.Predictions((rng.random(1000) < p).astype(int), p)
    (grid,) = diagram_grids(rows, pb.Binary())
    drawn = BeforeAfter.of_grids(grid, None, event="class 1").picture()
    lines = [mark for mark in drawn.panels[0].marks if isinstance(mark, Line)]
    assert [(line.x < 0.5).all() or (line.x > 0.5).all() for line in lines] == [True, True]


def test_single_bins_are_not_judged_if_all_together_are_fine():
    """One of 15 bins is outside its range in most calibrated samples."""
    rng = np.random.default_rng(3)
    shown = []
    for _ in range(20):
        p = rng.random(600)
        found = diagrams.reliability_diagram((rng.random(600) < p).astype(int), p, resamples=99)
        outside = (found.observed < found.chance_low) | (found.observed > found.chance_high)
        if found.error <= found.null_high:
            assert not any(found.verdict)
            shown.append(bool((outside & ~found.thin).any()))
    assert any(shown)
    off = diagrams.reliability_diagram((rng.random(600) < 0.6 * p).astype(int), p, resamples=99)
    assert (off.verdict == "high").sum() > 3


@pytest.mark.parametrize(("n", "named"), [(1000, True), (12, False)])
def test_a_bin_is_named_only_if_its_interval_excludes_the_diagonal(n, named):
    p, y = np.full(n, 0.55), np.arange(n) % 3 == 0
    rows = pb.Predictions(y.astype(int), np.column_stack([1 - p, p]))
    (grid,) = diagram_grids(rows, pb.Binary())
    chosen = {"event": "class 1", "happened": "observed"}
    caption = BeforeAfter.of_grids(grid, None, **chosen).picture().caption
    assert ("At 55% predicted, 33% were observed: the largest part" in caption) == named


def test_ranges_and_intervals_have_an_outline_that_is_seen(binary):
    layers = json.dumps(diagrams.reliability_diagram(binary.y, binary.mcs).to_vega_lite())
    assert '"stroke": "#808080"' in layers


def test_lenses_are_dot_plots_with_names_in_words(world):
    models = {"original": world.mcs, "calibrated": world.cal}
    lenses = {"top 2": pb.TopK(2), "full": pb.Full()}
    found = pb.lens_table(models, world.y, lenses=lenses, resamples=5).picture()
    titles = [panel.title for panel in found.panels]
    assert titles == ["true class among the 2 most probable", "all classes together"]
    for panel in found.panels:
        dots = [mark for mark in panel.marks if isinstance(mark, Points)]
        assert [mark.role for mark in dots] == ["series 0", "series 1"]
        assert len([mark for mark in panel.marks if isinstance(mark, Text)]) == 2
