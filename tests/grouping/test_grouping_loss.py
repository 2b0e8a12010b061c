from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.tree import DecisionTreeRegressor

import probaudit as pb
from probaudit.grouping.assignment import halves
from probaudit.grouping.calibration_curve import CurvePoints, local_regression, nearest_neighbours
from probaudit.grouping.features import Features
from probaudit.grouping.loss import grouping_loss, grouping_rates
from probaudit.grouping.lower_bound import (
    BRIER,
    CLASS_LOG,
    LOG,
    ClusterMoments,
    RegionCounts,
    explained_loss,
)
from probaudit.grouping.region_table import binomial_test, false_discovery
from probaudit.grouping.regions import KMeansRegions, TreeRegions
from probaudit.kernels.regions import find_leaves, grow_tree
from probaudit.scoring.intervals import clopper_pearson
from probaudit.simulate import linked_scores, neural_outputs, swapped_classes, unfair_groups

SEEDS = range(20)


def lower_bounds(worlds, **options):
    """Plugin, explained and lower bound of each world."""
    found = [
        grouping_loss(w.y, w.scores, w.features, lens=pb.Binary(), interval=None, **options)
        for w in worlds
    ]
    return np.array([(f.plugin, f.explained, f.lower_bound) for f in found])


# Figure 4 of Perez-Lebel et al. 2023


@pytest.fixture(scope="module")
def figure_4():
    return [neural_outputs(10_000, seed=seed) for seed in SEEDS]


def test_figure_4a_region_ratio(figure_4):
    truth, found = figure_4[0].grouping_loss, {}
    for ratio in (5, 12, 30, 100):
        found[ratio] = lower_bounds(figure_4, region_ratio=ratio)
    for ratio in (5, 12, 30):
        plugin, explained, lower = found[ratio].mean(axis=0)
        assert lower < truth
        assert plugin > explained > lower
    assert (found[12][:, 0] > truth).all()
    assert found[12][:, 2].mean() > 0.8 * truth
    assert found[5][:, 0].mean() > found[12][:, 0].mean() > found[30][:, 0].mean() > truth
    assert found[12][:, 2].mean() > found[30][:, 2].mean() > found[100][:, 2].mean()


def test_figure_4b_bins(figure_4):
    truth, found = figure_4[0].grouping_loss, {}
    for bins in (3, 8, 15, 30):
        found[bins] = lower_bounds(figure_4, bins=bins, region_ratio=12).mean(axis=0)
        assert found[bins][0] > truth
        assert 0.75 * truth < found[bins][2] < truth
    assert found[3][0] > found[8][0] > found[15][0]  # binning inflates the plugin
    whole = lower_bounds(figure_4[:8], bins=3, region_ratio=12, induced="bins").mean(axis=0)
    # the paper's bound is lower
    assert whole[2] < lower_bounds(figure_4[:8], bins=3, region_ratio=12).mean(axis=0)[2]


@pytest.mark.parametrize("dimension", [2, 8, 64])
def test_no_grouping_loss_is_reported_where_there_is_none(dimension):
    worlds = [
        neural_outputs(10_000, dimension, perturbation=np.zeros_like, seed=seed) for seed in SEEDS
    ]
    assert worlds[0].grouping_loss == 0
    lower = lower_bounds(worlds)[:, 2]
    assert abs(lower.mean()) < 2 * lower.std(ddof=1) / np.sqrt(len(lower))


def test_the_bound_of_the_paper_is_below_zero_without_grouping_loss():
    """It takes off all of E V[C | S_B], about 1 / (12 bins^2), and the regions explain only a part
    of it."""
    worlds = [neural_outputs(10_000, 8, perturbation=np.zeros_like, seed=seed) for seed in SEEDS]
    lower = lower_bounds(worlds, induced="bins")[:, 2]
    assert lower.mean() < -2 * lower.std(ddof=1) / np.sqrt(len(lower))
    assert lower.mean() > -1 / (4 * 15**2)


# The estimators


def test_parts_add_up():
    w = neural_outputs(3000)
    for induced in ("regions", "bins"):
        f = grouping_loss(w.y, w.scores, w.features, lens=pb.Binary(), induced=induced)
        assert f.explained == pytest.approx(f.plugin - f.bias, abs=1e-15)
        assert f.lower_bound == pytest.approx(f.explained - f.induced, abs=1e-15)
        assert f.calibration_loss == pytest.approx(
            f.binned_calibration_loss - f.calibration_bias - f.calibration_induced
        )
        assert float(f) == f.lower_bound
        assert f.lower_bound.low < f.lower_bound < f.lower_bound.high
    assert f.induced == f.induced_by_bins
    assert f.regions.share.sum() == pytest.approx(1)


def test_clusters_of_one_row_have_the_variance_of_proposition_4_3():
    rng = np.random.default_rng(0)
    cell, hits = np.repeat([0, 1, 2], [2, 7, 40]), rng.integers(0, 2, 49).astype(float)
    size, rate = np.bincount(cell), np.bincount(cell, hits) / np.bincount(cell)
    moments = ClusterMoments.of(cell, np.arange(49), np.ones(49), hits, 3)
    assert moments.variance(rate, size.astype(float)) == pytest.approx(
        rate * (1 - rate) / (size - 1), abs=1e-14
    )
    twice = ClusterMoments.of(
        np.tile(cell, 2), np.tile(np.arange(49), 2), np.ones(98), np.tile(hits, 2), 3
    )
    assert twice.variance(rate, 2.0 * size) == pytest.approx(
        rate * (1 - rate) / (size - 1), abs=1e-14
    )


@pytest.mark.parametrize("rule", [BRIER, LOG, CLASS_LOG])
def test_debiased_on_average(rule):
    """Two level sets of known region rates; rows fall into regions by chance, as in Proposition
    4.3."""
    rng = np.random.default_rng(0)
    rates, shares = np.array([0.2, 0.4, 0.5, 0.6, 0.9]), np.array([0.15, 0.15, 0.2, 0.2, 0.3])
    level = np.array([0, 0, 1, 1, 1])
    inside = [shares[level == k] / shares[level == k].sum() for k in (0, 1)]
    truth = sum(
        shares[level == k].sum()
        * (p @ rule.value(rates[level == k]) - rule.value(np.array(p @ rates[level == k])))
        for k, p in enumerate(inside)
    )
    counts = np.stack(
        [
            np.concatenate(
                [rng.multinomial(int(n), p) for n, p in zip((60, 140), inside, strict=True)]
            )
            for _ in range(20_000)
        ]
    ).astype(float)
    hits = rng.binomial(counts.astype(int), rates).astype(float)
    found = explained_loss(RegionCounts(level, counts, hits, counts), rule)
    error = found.debiased.std() / np.sqrt(len(counts))
    excess = found.plugin.mean() - truth
    assert excess > 20 * error
    # For Brier only the chance that a region stays empty is neglected; the jackknife leaves terms
    # of order 1 / n^2.
    assert abs(found.debiased.mean() - truth) < (4 * error if rule is BRIER else 0.1 * excess)


def test_thin_regions_are_left_out_and_counted():
    rates, counts = np.array([[0.2, 0.6, 1.0]]), np.array([[10, 10, 1]])
    found = explained_loss(RegionCounts.of_counts(rates, counts), BRIER)
    without = explained_loss(RegionCounts.of_counts(rates[:, :2], counts[:, :2]), BRIER)
    assert (found.plugin, found.bias) == (without.plugin, without.bias)
    assert found.thin.tolist() == [False, False, True]
    group = np.repeat(["a", "b", "c"], [20, 20, 1])
    f = grouping_loss(
        np.tile([0, 1, 1], 14)[:41], np.full(41, 0.5), regions=pb.Column(group), lens=pb.Binary()
    )
    assert f.thin_regions == 1
    assert "1 regions of one row left out" in f.definition


def test_theorem_c1_and_its_corollaries():
    w = neural_outputs(20_000, seed=3)
    # overconfident, so that both kinds of induced loss are there
    scores = 1 / (1 + ((1 - w.scores) / w.scores) ** 2)
    f = grouping_loss(w.y, scores, w.features, lens=pb.Binary(), curve="knn")
    b = f.bounds
    assert b.induced == pytest.approx(f.calibration_induced + f.induced_by_bins, abs=1e-12)
    for low, high in (b.by_curve, b.by_rates, b.by_width):
        assert low <= b.induced <= high
    assert b.by_curve[1] <= b.by_rates[1] <= b.by_width[1]
    truth = np.mean((scores - w.truth) ** 2)
    chance = f.explained.high - f.explained
    assert b.squared_error[2] <= b.squared_error[1] <= b.squared_error[0] < truth + chance
    assert b.squared_error[0] > 0.7 * truth
    assert f.calibration_loss + f.lower_bound < truth + chance
    assert f.calibration_loss == pytest.approx(np.mean((scores - w.scores) ** 2), rel=0.15)
    assert np.isnan(
        grouping_loss(
            w.y, scores, w.features, lens=pb.Binary(), bins=pb.EqualMass(9), interval=None
        ).bounds.by_width[0]
    )


def test_induced_loss_of_a_calibrated_uniform_score():
    """E V[S | S_B] = 1 / (12 bins^2) (Lemma C.3)."""
    rng = np.random.default_rng(1)
    p = rng.random(100_000)
    f = grouping_loss(
        rng.random(100_000) < p, p, regions=pb.Whole(), lens=pb.Binary(), bins=5, interval=None
    )
    assert f.induced_by_bins == pytest.approx(1 / 300, rel=0.05)
    assert f.explained == 0
    assert abs(f.calibration_loss) < 1e-4


def test_the_curve_of_nearest_neighbours():
    rng = np.random.default_rng(0)
    x, y = rng.random(300), (rng.random(300) < 0.4).astype(float)
    near = np.argsort(np.abs(x[:, None] - x), axis=1)[:, :30]
    assert nearest_neighbours(x, y, np.ones(300)) == pytest.approx(y[near].mean(axis=1), abs=1e-12)


def test_curve_points_keep_ties_together_and_all_weight():
    rng = np.random.default_rng(0)
    outputs = np.round(rng.random(5000), 2)
    weights, hits = rng.random(5000), rng.integers(0, 2, 5000).astype(float)
    level = pb.EqualWidth(15).cells(outputs)
    points = CurvePoints.of(outputs, hits, weights, level)
    assert len(points.outputs) == len(np.unique(outputs))
    assert points.weight.sum() == pytest.approx(weights.sum())
    assert (points.level[points.of_row] == level).all()
    assert (np.diff(points.outputs) > 0).all()
    many = CurvePoints.of(rng.random(5000), hits, weights, np.zeros(5000, int))
    assert 400 < len(many.outputs) <= 512


def test_local_regression_keeps_lines_even_where_all_rows_are_equal():
    x = np.r_[np.full(3, 0.2), np.linspace(0.3, 0.9, 40)]
    smoother = local_regression(np.unique(x), np.ones(41), 0.2)
    assert smoother @ (1 - np.unique(x)) == pytest.approx(1 - np.unique(x))
    assert local_regression(np.array([0.5]), np.ones(1)) == pytest.approx(np.ones((1, 1)))


# Regions


def test_trees_are_as_good_as_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, (3000, 5))
    y = (rng.random(3000) < 0.2 + 0.6 * ((x[:, 0] > 120) ^ (x[:, 3] > 60))).astype(float)
    features, rows = Features.of(x, 3000), np.arange(3000)
    tree = grow_tree(features.codes, rows, np.ones(3000), y, 40.0, False)
    leaves = np.empty(3000, np.int64)
    find_leaves(features.codes, rows, tree, leaves)
    assert np.bincount(leaves)[np.unique(leaves)].min() >= 40
    mean = (np.bincount(leaves, y) / np.maximum(np.bincount(leaves), 1))[leaves]
    theirs = DecisionTreeRegressor(min_samples_leaf=40, random_state=0).fit(x, y).predict(x)
    assert np.mean((y - mean) ** 2) == pytest.approx(np.mean((y - theirs) ** 2), rel=0.01)


def test_every_bin_is_split_into_halves():
    bins = np.random.default_rng(0).integers(0, 7, 1001)
    half = halves(bins, 3)
    for number in range(7):
        first, second = np.bincount(half[bins == number], minlength=2)
        assert first - second in (0, 1)


def obeys(rule, columns):
    """The rows that a rule in words describes."""
    found = np.ones(len(next(iter(columns.values()))), bool)
    for part in rule.split(" and "):
        if part == "all":
            continue
        between = re.fullmatch(r"(\S+) < (\S+) <= (\S+)", part)
        if between:
            low, name, high = between.groups()
            found &= (columns[name] > float(low)) & (columns[name] <= float(high))
            continue
        name, sign, value = part.split(" ")
        if sign in ("=", "!="):
            found &= (columns[name] == value) == (sign == "=")
        else:
            found &= columns[name] <= float(value) if sign == "<=" else columns[name] > float(value)
    return found


def test_rules_describe_their_regions():
    rng = np.random.default_rng(0)
    columns = {
        "size": rng.integers(0, 50, 4000).astype(float),
        "colour": rng.choice(["red", "green", "blue"], 4000),
        "shape": rng.choice(["round", "square"], 4000),
    }
    y = rng.random(4000) < np.where(columns["colour"] == "red", 0.9, 0.3 + 0.004 * columns["size"])
    f = grouping_loss(y, np.full(4000, 0.5), columns, lens=pb.Binary(), interval=None)
    assert any("colour" in region.rule for region in f.regions)
    for region in f.regions:
        rows = f.region_of == region.number
        assert rows.sum() == region.rows
        assert obeys(region.rule, columns)[rows].all()
        assert region.observed == pytest.approx(y[rows].mean())
        assert region.outputs == "predicted 0.5 to 0.5"
    assert (np.diff(f.regions.share) <= 0).all()


def test_features_of_any_type():
    w = neural_outputs(2000, 3)
    x = w.features.astype(np.float16)

    def found(features, **options):
        return grouping_loss(
            w.y, w.scores, features, lens=pb.Binary(), interval=None, **options
        ).plugin

    expected = found(x.astype(np.float64))
    names = ["f_0", "f_1", "f_2"]
    assert found(x) == expected
    assert found(np.asfortranarray(x.astype(np.float32))) == expected
    assert found(x.tolist()) == expected
    assert found(dict(zip(names, x.T, strict=True))) == expected
    assert found(pd.DataFrame(x.astype(np.float32), columns=names)) == expected
    assert found(pl.DataFrame(x.astype(np.float32), schema=names)) == expected
    rows = pb.Predictions(w.y, w.scores, features=x)
    assert grouping_loss(rows, lens=pb.Binary(), interval=None).plugin == expected
    missing = x.astype(np.float32)
    missing[::7, 0], missing[::11, 1] = np.nan, np.inf
    assert np.isfinite(found(missing))
    frame = pd.DataFrame(
        {"a": x[:, 0].astype(np.float32), "b": pd.Categorical(np.where(x[:, 1] > 0, "u", "v"))}
    )
    frame.loc[0, "b"] = None
    assert np.isfinite(found(frame))


def test_columns_partitions_and_clusters():
    w = unfair_groups(6000, seed=2)
    lens = pb.Binary()
    by_name = grouping_loss(
        w.y, w.scores, {"group": w.group, "x": w.features[:, 1]}, regions=["group"], lens=lens
    )
    rows = pb.Predictions(w.y, w.scores, columns={"group": w.group})
    assert grouping_loss(rows, regions=["group"], lens=lens).lower_bound == by_name.lower_bound
    assert (
        grouping_loss(w.y, w.scores, regions=pb.Column(w.group), lens=lens).lower_bound
        == by_name.lower_bound
    )
    assert by_name.lower_bound.low < w.grouping_loss < by_name.lower_bound.high
    assert {r.rule: r.verdict for r in by_name.regions} == {
        "group = a": "under-confident",
        "group = b": "",
        "group = c": "over-confident",
    }
    assert sum(r.rows for r in by_name.regions) == 6000
    assert len(by_name.diagram.region_rows) == 45
    clusters = grouping_loss(w.y, w.scores, w.features[:, :1], regions=KMeansRegions(3), lens=lens)
    assert clusters.lower_bound == pytest.approx(by_name.lower_bound, rel=0.25)
    learned = grouping_loss(w.y, w.scores, w.features, lens=lens)
    assert 0.7 * w.grouping_loss < learned.lower_bound < 1.1 * w.grouping_loss
    product = pb.Column(w.group) * pb.Column(w.features[:, 1] > 0)
    assert len(grouping_loss(w.y, w.scores, regions=product, lens=lens, interval=None).regions) == 6


# Groups the model misjudges


def test_exact_intervals_and_tests():
    """R: binom.test(3, 40, 0.2)$conf.int = 0.01574, 0.20386; twice the smaller tail, 2 * pbinom(3,
    40, 0.2) = 0.05689."""
    low, high = clopper_pearson(np.array([0.075, 0.0, 1.0]), np.array([40, 10, 10]))
    assert low == pytest.approx([0.0157, 0, 1 - 0.3085], abs=1e-4)
    assert high == pytest.approx([0.2039, 0.3085, 1], abs=1e-4)
    assert binomial_test(np.array([0.075]), np.array([40]), np.array([0.2])) == pytest.approx(
        [0.0569], abs=1e-4
    )


def test_false_discoveries_are_controlled():
    rng = np.random.default_rng(0)
    stated = rng.uniform(0.2, 0.8, (1000, 30))
    q = [
        false_discovery(binomial_test(rng.binomial(50, s) / 50, np.full(30, 50.0), s))
        for s in stated
    ]
    assert (np.array(q) <= 0.05).any(axis=1).mean() < 0.05 + 3 * np.sqrt(0.05 / 1000)
    shifted = np.clip(stated + 0.25, 0, 1)
    q = [
        false_discovery(binomial_test(rng.binomial(50, t) / 50, np.full(30, 50.0), s))
        for s, t in zip(stated, shifted, strict=True)
    ]
    assert (np.array(q) <= 0.05).mean() > 0.7


def test_intervals_cover():
    """Known groups explain all of the grouping loss, so that the truth is what the interval should
    cover."""
    inside = 0
    for seed in range(100):
        w = unfair_groups(1500, seed=seed)
        f = grouping_loss(
            w.y, w.scores, regions=pb.Column(w.group), lens=pb.Binary(), bins=8, resamples=100
        )
        inside += f.lower_bound.low <= w.grouping_loss <= f.lower_bound.high
    assert inside / 100 > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 100)
    assert inside < 100


def test_copies_of_rows_in_clusters_count_once():
    w = unfair_groups(500, seed=0)
    rows = np.repeat(np.arange(500), 8)
    lens, bins = pb.Binary(), 5
    once = grouping_loss(w.y, w.scores, regions=pb.Column(w.group), lens=lens, bins=bins)
    copies = w.y[rows], w.scores[rows]
    alone, together = (
        grouping_loss(
            *copies, regions=pb.Column(w.group[rows]), lens=lens, bins=bins, clusters=clusters
        )
        for clusters in (None, rows)
    )
    assert together.plugin == pytest.approx(once.plugin)
    assert together.bias == pytest.approx(once.bias)
    assert together.calibration_bias == pytest.approx(once.calibration_bias)
    assert together.calibration_induced == pytest.approx(once.calibration_induced, rel=0.05)
    for one, other in zip(together.regions, once.regions, strict=True):
        assert (one.low, one.high, one.q_value) == pytest.approx(
            (other.low, other.high, other.q_value), abs=0.01
        )
    assert alone.bias < 0.2 * once.bias
    width, expected = (f.lower_bound.high - f.lower_bound.low for f in (together, once))
    assert width == pytest.approx(expected, rel=0.25)
    assert width > 1.8 * (alone.lower_bound.high - alone.lower_bound.low)


def patients(seed, number=40, visits=20):
    """Calibrated on average over patients, each with an effect of its own; features are noise that
    stays with the patient."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(number), visits)
    scores = rng.random(number * visits)
    effect = rng.choice([-0.9, 0.9], number)[patient]
    y = rng.random(len(scores)) < scores + effect * np.minimum(scores, 1 - scores)
    return y.astype(int), scores, rng.standard_normal((number, 3))[patient], patient


@pytest.mark.parametrize("score", ["brier", "log"])
def test_clusters_are_not_reported_as_hidden_groups(score):
    found = {name: [] for name in ("alone", "together")}
    for seed in range(30):
        y, p, x, patient = patients(seed)
        for name, clusters in (("alone", None), ("together", patient)):
            options = {
                "lens": pb.Binary(),
                "bins": 5,
                "score": score,
                "clusters": clusters,
                "resamples": 60,
            }
            found[name].append(grouping_loss(y, p, x, **options).lower_bound)
    lower = np.array(found["together"], float)
    assert lower.mean() < 2 * lower.std(ddof=1) / np.sqrt(len(lower))
    assert np.mean([bound.low > 0 for bound in found["together"]]) <= 0.1
    # rows of a patient are in both halves, and agree by more than chance
    alone = np.array(found["alone"], float)
    assert alone.mean() > 3 * alone.std(ddof=1) / np.sqrt(len(alone))


def test_clusters_stay_whole():
    y, p, x, patient = patients(0)
    half = halves(np.zeros(len(y), int), 0, patient)
    assert all(len(np.unique(half[patient == number])) == 1 for number in range(40))
    assert half.mean() == 0.5
    with pytest.raises(pb.InputError, match="clusters whole"):
        grouping_loss(y, p, x, lens=pb.Binary(), clusters=patient, split=np.arange(len(y)) % 2 == 0)
    grouping_loss(
        y, p, x, lens=pb.Binary(), clusters=patient, split=patient % 2 == 0, interval=None
    )
    with pytest.raises(pb.InputError, match="two or more"):
        grouping_loss(y, p, x, lens=pb.Binary(), clusters=np.zeros(len(y)))


# Scores, lenses, weights


def test_log_score_of_known_groups():
    w = unfair_groups(20_000, {"a": 0.8, "b": -0.8}, seed=1)
    f = grouping_loss(w.y, w.scores, regions=pb.Column(w.group), lens=pb.Binary(), score="log")
    assert f.lower_bound.low < w.log_grouping_loss < f.lower_bound.high
    assert f.plugin > f.explained
    assert f.bounds is None
    same = grouping_loss(
        w.y, w.scores, regions=pb.Column(w.group), lens=pb.Binary(), score=pb.Log(), interval=None
    )
    assert same.lower_bound == f.lower_bound


def test_no_grouping_loss_by_the_log_score_where_there_is_none():
    worlds = [
        neural_outputs(10_000, 4, perturbation=np.zeros_like, spread=1.0, seed=seed)
        for seed in SEEDS
    ]
    lower = lower_bounds(worlds, score="log")[:, 2]
    assert abs(lower.mean()) < 2 * lower.std(ddof=1) / np.sqrt(len(lower))


def test_classwise_sums_over_classes():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 3000)
    y = (rng.random((3000, 1)) > probs.cumsum(axis=1)).sum(axis=1)
    x = rng.standard_normal((3000, 4))
    f = grouping_loss(y, probs, x, lens=pb.Classwise())
    single = [grouping_loss(y, probs, x, lens=pb.OneVsRest(k)) for k in range(3)]
    assert f.plugin == pytest.approx(sum(s.plugin for s in single))
    assert f.calibration_loss == pytest.approx(sum(s.calibration_loss for s in single))
    assert list(f.lower_bound.per_class) == [0, 1, 2]
    assert sum(f.lower_bound.per_class.values()) == pytest.approx(f.lower_bound)
    assert f.region_of.shape == (3000, 3)
    assert f.regions[0].rule.startswith("class ")
    assert f.diagram is None
    with pytest.raises(pb.InputError, match="single event"):
        grouping_rates(y, probs, x, lens=pb.Classwise())
    # Two classes as a pair: the Brier score counts each event twice, the log score h_1 + h_2 is
    # that of the event (C.9).
    p = probs[:, 0] / (probs[:, 0] + probs[:, 1])
    both, groups = np.column_stack([1 - p, p]), pb.Column(rng.integers(0, 4, 3000))
    hit = (y == 0).astype(int)
    for score, times in (("brier", 2), ("log", 1)):
        one = grouping_loss(hit, p, regions=groups, lens=pb.Binary(), score=score, interval=None)
        two = grouping_loss(
            hit, both, regions=groups, lens=pb.Classwise(), score=score, interval=None
        )
        assert two.plugin == pytest.approx(times * one.plugin, rel=1e-9)
        assert two.bias == pytest.approx(times * one.bias, rel=1e-9)
        assert two.binned_calibration_loss == pytest.approx(
            times * one.binned_calibration_loss, rel=1e-9
        )


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def labels_of(rng, truth):
    return np.minimum(
        (rng.random((len(truth), 1)) > truth.cumsum(axis=1)).sum(axis=1), truth.shape[1] - 1
    )


def test_joint_loss_of_swapped_classes():
    """The top label does not show it; boxes of all outputs show more than bins of each output."""
    w = swapped_classes(6000, effect=0.8544)
    assert w.grouping_loss == pytest.approx(0.0270, abs=1e-4)
    assert np.mean(((w.truth - w.scores) ** 2).sum(axis=1)) == pytest.approx(
        w.grouping_loss, rel=0.05
    )
    joint = grouping_loss(w.y, w.scores, w.features, lens=pb.Full())
    top = grouping_loss(w.y, w.scores, w.features)
    assert 0.4 * w.grouping_loss < joint.lower_bound < w.grouping_loss
    assert joint.lower_bound.low > 0.008 > 0.002 > top.lower_bound
    assert joint.lower_bound.low < joint.lower_bound < joint.lower_bound.high
    assert sum(joint.lower_bound.per_class.values()) == pytest.approx(joint.lower_bound)
    assert joint.lower_bound == pytest.approx(joint.explained - joint.induced)
    assert abs(joint.calibration_loss) < 0.005
    assert "KDTree" in joint.definition
    assert joint.regions[0].rule.startswith("class ")
    assert joint.region_of.shape == (6000, 3)
    assert any("f_0" in region.rule for region in joint.regions)
    named = grouping_loss(
        w.y, w.scores, {"group": w.group}, regions=["group"], lens=pb.Full(), interval=None
    )
    assert 0.5 * w.grouping_loss < named.lower_bound < 1.1 * w.grouping_loss


@pytest.mark.parametrize("kind", ["noise", "outputs", "shifted"])
def test_joint_loss_is_not_above_zero_without_grouping_loss(kind):
    """Noise features; features that tell the outputs; and outputs with a shift, of which the truth
    is a function."""
    found, calibration = [], []
    shift = np.array([1, 0, -1]) * (kind == "shifted")
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = softmax(1.5 * rng.standard_normal((2000, 3)))
        scores = softmax(np.log(truth) + shift)
        features = rng.standard_normal((2000, 3)) if kind == "noise" else np.log(scores)
        one = grouping_loss(labels_of(rng, truth), scores, features, lens=pb.Full(), interval=None)
        found.append(float(one.lower_bound))
        calibration.append(one.calibration_loss - np.mean(((truth - scores) ** 2).sum(axis=1)))
    assert np.mean(found) < 2.5 * np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(calibration)) < 0.003  # where the outputs are shifted, it is 0.12


def test_joint_loss_with_weights_clusters_and_other_regions():
    w = swapped_classes(1500, effect=0.8, seed=1)
    rows = np.repeat(np.arange(1500), 2)
    once = grouping_loss(w.y, w.scores, regions=pb.Column(w.group), lens=pb.Full(), interval=None)
    double = w.y[rows], w.scores[rows]
    tree = pb.KDTree(1 / 15, split="median")
    twice = grouping_loss(
        *double,
        regions=pb.Column(w.group[rows]),
        lens=pb.Full(),
        bins=tree,
        clusters=rows,
        interval=None,
    )
    assert twice.plugin == pytest.approx(once.plugin)
    assert twice.bias == pytest.approx(once.bias)
    assert twice.induced == pytest.approx(once.induced, abs=1e-5)
    weighted = grouping_loss(
        w.y,
        w.scores,
        regions=pb.Column(w.group),
        lens=pb.Full(),
        interval=None,
        sample_weight=np.full(1500, 3.0),
    )
    assert weighted.lower_bound == pytest.approx(once.lower_bound)
    for regions in ("stump", "balanced_stump", "kmeans", pb.Whole()):
        found = grouping_loss(
            w.y, w.scores, w.features, lens=pb.Full(), regions=regions, induced="bins", resamples=20
        )
        assert np.isfinite([found.lower_bound, found.lower_bound.low, found.calibration_loss]).all()
    tiny = grouping_loss([0, 1, 2], np.eye(3) * 0.4 + 0.2, np.ones((3, 1)), lens=pb.Full())
    assert tiny.lower_bound == pytest.approx(0)
    assert tiny.searched == 0
    for options, words in (
        ({"score": "log"}, "Classwise"),
        ({"curve": "knn"}, "local"),
        ({"recalibrate": True}, "must be False"),
        ({"bins": pb.EqualWidth(5)}, "KDTree"),
        ({"bins": 0}, "at least 1"),
    ):
        with pytest.raises(pb.InputError, match=words):
            grouping_loss(w.y, w.scores, w.features, lens=pb.Full(), **options)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_log_score_of_several_classes_is_not_above_zero_where_there_is_no_loss(classes):
    """Rare classes, where the jackknife leaves half of the bias."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        probs = softmax(rng.standard_normal((600, classes)) + np.r_[3, np.zeros(classes - 1)])
        features, y = rng.standard_normal((600, 3)), labels_of(rng, probs)
        f = grouping_loss(
            y,
            probs,
            features,
            lens=pb.Classwise(),
            score="log",
            bins=5,
            region_ratio=10,
            interval=None,
        )
        found.append(float(f.lower_bound))
    assert np.mean(found) < 2 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_small_bins_are_split_once_and_counted_as_searched():
    w = linked_scores(1500, lambda s: np.minimum(1, 2 * s), seed=11)
    found = grouping_loss(w.y, w.scores, w.features, lens=pb.Binary())
    assert found.searched == 1
    assert 0.06 < found.lower_bound.low < w.grouping_loss
    part = grouping_loss(
        w.y[:250], w.scores[:250], w.features[:250], lens=pb.Binary(), interval=None
    )
    assert 0 < part.searched < 1
    assert f"{part.searched:.0%} of the rows searched" in part.definition
    few = grouping_loss(w.y[:60], w.scores[:60], w.features[:60], lens=pb.Binary())
    assert few.searched == 0
    assert "Too few rows" in repr(few)
    none = grouping_loss(
        w.y, w.scores, regions=pb.Column(np.zeros(1500)), lens=pb.Binary(), interval=None
    )
    assert none.searched == 0


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_a_small_group_is_detected_by_a_rare_binary_feature(share):
    """A group of a tenth or a fifth of the rows, told by a column of 0 and 1: no bin was split, and
    0 reported."""

    def bound(n, seed, strength, **options):
        rng = np.random.default_rng(seed)
        scores, group = rng.uniform(0.2, 0.8, n), rng.random(n) < share
        shift = np.minimum(scores, 1 - scores) * np.where(group, -1, share / (1 - share))
        y = rng.random(n) < scores + strength * shift
        found = grouping_loss(y, scores, group[:, None], lens=pb.Binary(), resamples=50, **options)
        return found, strength**2 * (shift**2).mean()

    found, truth = bound(1500, 0, 1)
    assert found.searched > 0.9
    assert 0.5 * truth < found.lower_bound.low < truth
    nothing = np.array([bound(1500, seed, 0)[0].lower_bound for seed in range(20)], float)
    assert abs(nothing.mean()) < 3 * nothing.std(ddof=1) / np.sqrt(20)
    for regions in ("stump", "balanced_stump"):  # ask for regions that these features do not have
        none = bound(1500, 0, 1, regions=regions)[0]
        assert none.searched == 0
        assert "Too few rows" in repr(none)


def test_small_bins_show_no_grouping_loss_where_there_is_none():
    worlds = [linked_scores(600, lambda s: s, dimension=3, seed=seed) for seed in range(40)]
    found = [
        grouping_loss(w.y, w.scores, w.features, lens=pb.Binary(), resamples=50).lower_bound
        for w in worlds
    ]
    lower = np.array(found, float)
    assert abs(lower.mean()) < 2.5 * lower.std(ddof=1) / np.sqrt(len(lower))
    assert np.mean([bound.low > 0 for bound in found]) <= 0.05


def test_weights():
    w = unfair_groups(2000, seed=4)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, 2000).astype(float)

    def found(y, p, group, **options):
        return grouping_loss(
            y, p, regions=pb.Column(group), lens=pb.Binary(), interval=None, **options
        )

    weighted = found(w.y, w.scores, w.group, sample_weight=weight)
    rows = np.repeat(np.arange(2000), weight.astype(int))
    repeated = found(w.y[rows], w.scores[rows], w.group[rows])
    # a bias depends on how many rows are different
    assert weighted.plugin == pytest.approx(repeated.plugin, rel=1e-12)
    assert weighted.binned_calibration_loss == pytest.approx(
        repeated.binned_calibration_loss, rel=1e-12
    )
    kept = weight > 0
    removed = found(w.y[kept], w.scores[kept], w.group[kept], sample_weight=weight[kept])
    scaled = found(w.y, w.scores, w.group, sample_weight=7e200 * weight)
    for part in ("lower_bound", "explained", "plugin", "bias", "induced", "calibration_loss"):
        assert getattr(removed, part) == pytest.approx(getattr(weighted, part), rel=1e-9)
        assert getattr(scaled, part) == pytest.approx(getattr(weighted, part), rel=1e-9)
    assert (weighted.region_of[~kept] == -1).all()
    x = w.features
    a = grouping_loss(w.y, w.scores, x, lens=pb.Binary(), sample_weight=weight)
    b = grouping_loss(w.y, w.scores, x, lens=pb.Binary(), sample_weight=weight / 16)
    assert (a.lower_bound, a.lower_bound.interval) == (b.lower_bound, b.lower_bound.interval)
    assert a.lower_bound.low < w.grouping_loss


def test_the_same_seed_gives_the_same_result():
    w = neural_outputs(2000)
    first, again, other = (
        grouping_loss(w.y, w.scores, w.features, lens=pb.Binary(), seed=seed) for seed in (0, 0, 1)
    )
    assert (first.lower_bound, first.lower_bound.interval) == (
        again.lower_bound,
        again.lower_bound.interval,
    )
    assert first.lower_bound != other.lower_bound


def test_half_split_and_cross_fitting():
    w = neural_outputs(4000)
    lens = pb.Binary()
    half = grouping_loss(w.y, w.scores, w.features, lens=lens, split="half")
    both = grouping_loss(w.y, w.scores, w.features, lens=lens)
    mask = half.region_of >= 0
    given = grouping_loss(w.y, w.scores, w.features, lens=lens, split=mask)
    assert abs(mask.sum() - 2000) <= 15
    assert (half.lower_bound.n, half.calibration_loss.n) == (mask.sum(), 4000)
    assert "half" in half.definition
    assert "given split" in given.definition
    assert (both.region_of >= 0).all()
    assert given.lower_bound == half.lower_bound
    assert half.lower_bound.high - half.lower_bound.low > 1.1 * (
        both.lower_bound.high - both.lower_bound.low
    )


def test_rows_of_any_kind():
    w = neural_outputs(3000, seed=5)
    lens, x = pb.Binary(), w.features
    plain = grouping_loss(w.y, w.scores, x, lens=lens, interval=None)
    names = np.array(["no", "yes"])[w.y]
    assert (
        grouping_loss(names, w.scores, x, lens=lens, classes=["no", "yes"], interval=None).plugin
        == plain.plugin
    )
    pairs = pb.Predictions.from_confidence(w.scores, w.y, features=x)
    assert grouping_loss(pairs, interval=None).plugin == plain.plugin  # the answer is the top label
    y, p = np.r_[w.y[:100], 0, w.y[100:]], np.r_[w.scores[:100], np.nan, w.scores[100:]]
    dropped = grouping_loss(
        y, p, np.insert(x, 100, 99.0, axis=0), lens=lens, on_bad_rows="drop", interval=None
    )
    assert dropped.region_of[100] == -1
    assert dropped.lower_bound.n == 3000
    # one value more among those that trees may cut at
    assert dropped.plugin == pytest.approx(plain.plugin, rel=0.05)


# The diagram


def test_grouping_rates():
    w = neural_outputs(6000)
    d = grouping_rates(w.y, w.scores, w.features, lens=pb.Binary())
    bins = pb.EqualWidth(10).cells(w.scores)
    assert d.rows.tolist() == np.bincount(bins).tolist()
    assert d.stated == pytest.approx(np.bincount(bins, w.scores) / d.rows)
    assert d.observed == pytest.approx(np.bincount(bins, w.y) / d.rows)
    assert d.region_bin.tolist() == np.repeat(np.arange(10), 2).tolist()
    pairs = d.region_rows.reshape(10, 2)
    assert (pairs.sum(axis=1) == (d.rows + 1) // 2).all()
    assert (pairs.min(axis=1) > 0.3 * pairs.sum(axis=1)).all()
    assert ((d.region_low <= d.region_observed) & (d.region_observed <= d.region_high)).all()
    assert d.region_differs[6:14].any()
    none = neural_outputs(6000, perturbation=np.zeros_like, seed=1)
    assert (
        grouping_rates(none.y, none.scores, none.features, lens=pb.Binary())
        .region_differs[4:16]
        .mean()
        < 0.2
    )


# Worlds


def uneven(n):
    """Figure 10, right: the truth is 1/2, or 0 or 1 with the decision of the score."""
    return linked_scores(n, lambda s: np.full_like(s, 0.5), other=lambda s: (s > 0.5) * 1.0)


@pytest.mark.parametrize(
    "world",
    [
        linked_scores(200_000),
        linked_scores(200_000, lambda s: np.minimum(1, 2 * s), dimension=3),
        uneven(200_000),
        neural_outputs(200_000),
        neural_outputs(200_000, 5, accurate=True, perturbation=np.sign, spread=4.0),
        unfair_groups(200_000, {"x": 0.3, "y": -0.9}, shares=[0.75, 0.25]),
    ],
)
def test_simulated_worlds_are_calibrated_and_have_the_loss_they_state(world):
    squares = (world.truth - world.scores) ** 2
    assert squares.mean() == pytest.approx(
        world.grouping_loss, abs=4 * squares.std() / np.sqrt(len(squares))
    )
    log = LOG.divergence(world.truth, world.scores)
    assert log.mean() == pytest.approx(
        world.log_grouping_loss, abs=4 * log.std() / np.sqrt(len(log))
    )
    assert ((world.truth >= 0) & (world.truth <= 1)).all()
    bins = pb.EqualMass(20).cells(world.scores)
    for value in (world.truth, world.y):
        gap = np.bincount(bins, value - world.scores) / np.bincount(bins)
        assert np.abs(gap).max() < 5 * 0.5 / np.sqrt(len(bins) / 20)


def test_accurate_worlds_decide_as_the_truth_does():
    for world in (linked_scores(5000), neural_outputs(5000, accurate=True)):
        assert ((world.scores > 0.5) == (world.truth > 0.5)).all()
        assert world.grouping_loss > 0.001


def test_uneven_sides_keep_scores_calibrated():
    """With s < 1/2, the truth is 1/2 with probability 2s, else 0: its variance is s (1/2 - s), and
    the mean over uniform scores is 1/24."""
    world = uneven(200_000)
    assert world.grouping_loss == pytest.approx(1 / 24, abs=1e-9)
    assert ((world.truth - world.scores) ** 2).mean() == pytest.approx(1 / 24, abs=5e-4)
    np.testing.assert_array_equal(world.truth == 0.5, world.features[:, 0] > 0)
    decided = world.truth != 0.5
    assert ((world.scores > 0.5) == (world.truth > 0.5))[decided].all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linked_scores(10, lambda s: np.ones_like(s)), "link"),
        (lambda: linked_scores(10, lambda s: s[:5]), "link"),
        (lambda: linked_scores(10, lambda s: s, other=lambda s: 2 * s), "other"),
        (lambda: linked_scores(10, lambda s: s / 2, other=lambda s: s / 4), "other"),
        (lambda: neural_outputs(10, 1), "dimension"),
        (lambda: neural_outputs(10, perturbation=np.abs), "perturbation"),
        (lambda: neural_outputs(10, spread=0), "spread"),
        (lambda: unfair_groups(10, {"a": 1.0, "b": -2.0}), "effects"),
        (lambda: unfair_groups(10, shares=[1.0]), "shares"),
        (lambda: swapped_classes(10, 1), "classes"),
        (lambda: swapped_classes(10, effect=2), "effect"),
    ],
)
def test_simulated_worlds_check_their_arguments(call, words):
    with pytest.raises(pb.InputError, match=words):
        call()


# Edges


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("score", ["brier", "log"])
@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([1], [0.5]),
        ([0, 1], [0.5, 0.5]),
        ([0, 1, 1], [0.0, 1.0, 1.0]),
        ([1, 0, 1, 1] * 10, [0.0, 1.0, 1.0, 0.3] * 10),
        ([1] * 50, [0.9] * 50),
        ([0, 1] * 40, np.linspace(0, 1, 80)),
        ([0, 1] * 40, np.repeat([5e-324, 1 - 2.0**-53], 40)),
    ],
)
def test_edges(y, p, score):
    x = np.random.default_rng(0).standard_normal((len(y), 3))
    for regions in ("tree", "stump", "kmeans", pb.Whole(), TreeRegions(2)):
        for curve in ("local", "knn"):
            f = grouping_loss(
                y,
                p,
                x,
                lens=pb.Binary(),
                score=score,
                regions=regions,
                curve=curve,
                recalibrate=len(y) > 1,
            )
            assert np.isfinite([f.plugin, f.bias, f.explained, f.induced, f.lower_bound]).all()
            assert not np.isnan(f.calibration_loss)
            assert f.plugin >= -1e-12
            assert np.isfinite(f.calibration_loss) or score == "log"
            assert repr(f)
            assert repr(f.regions)
            assert len(f.regions.to_dict()["rule"]) == len(f.regions)


def test_a_certain_error_is_infinite_only_by_the_log_score():
    y, p = [1, 0, 1, 1] * 10, [0.0, 1.0, 1.0, 0.3] * 10
    assert (
        grouping_loss(y, p, regions=pb.Whole(), lens=pb.Binary(), score="log").calibration_loss
        == np.inf
    )
    right = grouping_loss(
        [0, 1] * 20, [0.0, 1.0] * 20, regions=pb.Whole(), lens=pb.Binary(), score="log"
    )
    assert right.calibration_loss == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "sphere"}, "score"),
        ({"bins": 0}, "bins"),
        ({"bins": pb.KDTree()}, "bins"),
        ({"regions": "forest"}, "regions"),
        ({"regions": ["colour"]}, "regions"),
        ({"regions": []}, "regions"),
        ({"region_ratio": 1}, "region_ratio"),
        ({"split": "third"}, "split"),
        ({"split": np.ones(4)}, "split"),
        ({"split": np.ones(4, bool)}, "split"),
        ({"curve": "spline"}, "curve"),
        ({"induced": "all"}, "induced"),
        ({"interval": "bca"}, "interval"),
        ({"resamples": 0}, "resamples"),
        ({"clusters": [1, 2]}, "clusters"),
        ({"features": None}, "features"),
        ({"features": np.ones((3, 2))}, "features"),
        ({"features": np.ones(4)}, "features"),
        ({"features": {"a": [1.0, 2.0]}}, "features"),
        ({"regions": pb.Column([1, 2])}, "values"),
    ],
)
def test_invalid_arguments_raise(options, words):
    given = {"features": np.ones((4, 2))} | options
    with pytest.raises(pb.InputError, match=words):
        grouping_loss([0, 1, 0, 1], [0.2, 0.8, 0.3, 0.6], **given)


# Real predictions


def real(shared, name, **options):
    rows = np.load(shared / "data" / f"{name}.npz")
    return grouping_loss(
        rows["labels"],
        rows["logits"],
        rows["features"],
        from_logits=True,
        recalibrate=True,
        **options,
    )


def test_grouping_loss_grows_under_shift(shared):
    test, shift = real(shared, "fashion_cnn_test"), real(shared, "fashion_cnn_shift")
    for at_home, abroad in ((test, shift), (test.recalibrated, shift.recalibrated)):
        assert abroad.lower_bound.low > 5 * at_home.lower_bound.high
    # Recalibration removes the calibration part, and leaves the grouping part.
    for found in (test, shift):
        assert found.calibration_loss.low > 0.005
        assert (
            found.recalibrated.calibration_loss.low < 0 < found.recalibrated.calibration_loss.high
        )
        assert abs(found.recalibrated.calibration_loss) < 0.02 * found.calibration_loss
    assert shift.recalibrated.lower_bound > 0.6 * shift.lower_bound
    assert "isotonic" in shift.recalibrated.definition


@pytest.mark.parametrize("name", ["own_spambase_mlp_test", "own_digits_mlp_test"])
def test_small_data_sets_without_shift_show_no_clear_grouping_loss(shared, name):
    found = real(shared, name)
    for each in (found, found.recalibrated):
        assert each.lower_bound.low < 0.0005
        assert each.lower_bound.high < 0.005


def test_the_table_of_regions_detects_corruptions(shared):
    """Accuracy less confidence is -.41 for noise, -.34 for rotation, -.22 for blur, -.07 for
    darkening. The tree saw features of the network only."""
    rows = np.load(shared / "data" / "fashion_cnn_shift.npz")
    names = np.array(["rotation", "noise", "darkened", "blur"])[rows["corruption"]]
    found = grouping_loss(
        rows["labels"], rows["logits"], rows["features"], from_logits=True, interval=None
    )
    table = found.regions
    worse, better = (
        table.number[table.differs & (sign * (table.observed - table.expected) > 0)]
        for sign in (-1, 1)
    )
    share = {
        name: [
            np.mean(names[np.isin(found.region_of, regions)] == name) for regions in (worse, better)
        ]
        for name in np.unique(names)
    }
    assert share["noise"][0] > 0.45 > 0.1 > share["noise"][1]
    assert share["darkened"][1] > 0.4 > 0.15 > share["darkened"][0]
    assert len(table.misjudged()) > 100
    known = grouping_loss(
        rows["labels"],
        rows["logits"],
        {"corruption": names},
        regions=["corruption"],
        from_logits=True,
    )
    assert known.lower_bound.low > 0.01
    assert all(region.verdict == "over-confident" for region in known.regions)
    gap = {region.rule: region.observed - region.stated for region in known.regions}
    assert min(gap, key=gap.get) == "corruption = noise"
    assert max(gap, key=gap.get) == "corruption = darkened"


def test_groups_must_be_single_values():
    rows = pb.Predictions(
        [0, 1] * 20, [0.2, 0.7] * 20, columns={"who": np.array([{"a": 1}] * 40, object)}
    )
    with pytest.raises(pb.InputError, match="single values"):
        grouping_loss(rows, regions=["who"])
