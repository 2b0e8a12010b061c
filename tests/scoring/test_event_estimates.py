"""AUC, average precision, decision curves and risk-coverage curves, against other programs and in
worlds with known truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import probaudit as pb
from probaudit.errors import InputError
from probaudit.scoring.clusters import Clusters
from probaudit.scoring.decision_curve import decision_curve_of
from probaudit.scoring.discrimination import auc, auc_influence, average_precision
from probaudit.scoring.events import EventTable
from probaudit.scoring.risk_coverage import risk_coverage_of
from probaudit.states.events import EventGrid


def world(n: int, seed: int, *, spread: float = 1.5, shift: float = -1.0, sharper: float = 1.3):
    """Overconfident probabilities of an event, and whether it happened."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n) * spread + shift
    p = 1 / (1 + np.exp(-sharper * z))
    return p, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)


def answers(n: int, seed: int):
    """A confidence, and whether the answer was right."""
    p, y = world(n, seed)
    return np.maximum(p, 1 - p), ((p >= 0.5) == y).astype(int)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_ranking_measures_are_those_of_scikit_learn(ties, weighted):
    p, y = world(500, 1)
    p = p.round(2) if ties else p
    w = np.random.default_rng(2).random(500) if weighted else None
    event = EventTable.of_rows(p, y, w)
    assert float(auc(event)) == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-14)
    expected = average_precision_score(y, p, sample_weight=w)
    assert float(average_precision(event)) == pytest.approx(expected, abs=1e-14)


def test_the_order_of_rows_does_not_change_a_bit():
    p, y = world(700, 3)
    w = np.random.default_rng(4).random(700)
    order = np.random.default_rng(5).permutation(700)
    one, two = EventTable.of_rows(p, y, w), EventTable.of_rows(p[order], y[order], w[order])
    for measure in (auc, average_precision):
        assert measure(one) == measure(two)
        assert measure(one).interval == measure(two).interval


def test_the_variance_of_the_auc_is_that_of_delong():
    """DeLong et al. 1988, Eq. 5, computed from all pairs."""
    p, y = world(200, 6)
    a, b = p[y == 1], p[y == 0]
    wins = (a[:, None] > b[None, :]) + 0.5 * (a[:, None] == b[None, :])
    variance = wins.mean(axis=1).var(ddof=1) / len(a) + wins.mean(axis=0).var(ddof=1) / len(b)
    event = EventTable.of_rows(p, y)
    _, influence = auc_influence(event)
    sizes = event.weight.sum(axis=0)
    each = (event.squared * influence**2).sum(axis=0) / event.n**2
    assert float((each * sizes / (sizes - 1)).sum()) == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("measure", [auc, average_precision])
def test_intervals_cover_the_population(measure):
    truth = float(measure(EventTable.of_rows(*world(400_000, 10**6))))
    held = [
        x.low <= truth <= x.high
        for x in (measure(EventTable.of_rows(*world(400, seed))) for seed in range(200))
    ]
    assert 0.90 <= np.mean(held) <= 0.985  # binomial(200, 0.95) lies there with p > 0.99


def test_an_auc_of_one_has_an_interval():
    event = EventTable.of_rows(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1]))
    assert float(auc(event)) == 1
    assert auc(event).low < 0.5
    assert auc(event).high == 1


def test_measures_without_an_event_are_unknown():
    event = EventTable.of_rows(np.array([0.1, 0.2]), np.array([0, 0]))
    assert np.isnan(auc(event))
    assert np.isnan(average_precision(event))


def test_clusters_widen_intervals():
    p, y = world(300, 7)
    p, y, number = np.repeat(p, 4), np.repeat(y, 4), np.repeat(np.arange(300), 4)
    alone = auc(EventTable.of_rows(p, y))
    together = auc(EventTable.of_rows(p, y, None, Clusters(number, np.full(1200, 1 / 1200))))
    single = auc(EventTable.of_rows(p[::4], y[::4]))
    width = [x.high - x.low for x in (alone, together, single)]
    assert width[1] == pytest.approx(width[2], rel=0.03)
    assert width[0] == pytest.approx(width[1] / 2, rel=0.05)


def test_the_grid_of_a_stream_gives_nearly_the_same():
    p, y = world(20_000, 8)
    rows, grid = EventTable.of_rows(p, y), EventTable.of_sums(EventGrid().update(p, y).finalise())
    assert auc(grid) == pytest.approx(auc(rows), abs=1e-5)
    assert auc(grid).low == pytest.approx(auc(rows).low, abs=1e-5)
    assert grid.predicted == pytest.approx(rows.predicted, abs=1e-12)
    curves = [decision_curve_of(event, [0.1, 0.3]) for event in (rows, grid)]
    assert curves[1].net_benefit == pytest.approx(curves[0].net_benefit, abs=1e-3)


def test_net_benefit_by_its_definition():
    """Vickers & Elkin 2006. dcurves 1.1.7 gives the same to 1e-15."""
    p, y = world(600, 9)
    t = np.array([0.1, 0.25, 0.6])
    curve = pb.decision_curve(y, p, thresholds=t)
    expected = [
        (y[p >= x].sum() - (1 - y[p >= x]).sum() * x / (1 - x)) / len(y) for x in t.tolist()
    ]
    assert curve.net_benefit == pytest.approx(expected, abs=1e-14)
    assert curve.treat_all == pytest.approx(y.mean() - (1 - y.mean()) * t / (1 - t), abs=1e-14)
    assert (curve.treat_none == 0).all()
    assert len(pb.decision_curve(y, p).thresholds) == 99


def test_net_benefit_counts_weights_as_repetitions():
    p, y = world(200, 11)
    w = np.random.default_rng(0).integers(1, 4, 200)
    once = pb.decision_curve(y, p, sample_weight=w)
    often = pb.decision_curve(np.repeat(y, w), np.repeat(p, w))
    assert once.net_benefit == pytest.approx(often.net_benefit, abs=1e-13)


def test_intervals_of_net_benefit_cover_the_population():
    t = [0.1, 0.3, 0.7]
    p, y = world(400_000, 10**6)
    truth = pb.decision_curve(y, p, thresholds=t).net_benefit
    held = np.zeros(3)
    for seed in range(200):
        p, y = world(300, seed)
        curve = pb.decision_curve(y, p, thresholds=t)
        held += (curve.low <= truth) & (truth <= curve.high)
    assert (held >= 180).all()


def test_paired_differences_of_net_benefit():
    p, y = world(2000, 12)
    other = np.clip(p + np.random.default_rng(1).normal(0, 0.15, 2000), 0.001, 0.999)
    one, two = pb.decision_curve(y, p), pb.decision_curve(y, other)
    difference = one.minus(two)
    assert difference.value == pytest.approx(one.net_benefit - two.net_benefit)
    assert (difference.low <= difference.value).all()
    paired, unpaired = difference.high - difference.low, one.high - one.low + two.high - two.low
    assert np.mean(paired < unpaired) > 0.95
    assert not one.minus(one).value.any()
    with pytest.raises(InputError, match="same rows"):
        one.minus(pb.decision_curve(1 - y, p))


@pytest.mark.parametrize("thresholds", [[0.0], [1.0], [np.nan], []])
def test_thresholds_lie_inside(thresholds):
    with pytest.raises(InputError, match="inside"):
        pb.decision_curve([0, 1], [0.2, 0.8], thresholds=thresholds)


def test_decision_curves_need_an_event():
    with pytest.raises(InputError, match="name a class"):
        pb.decision_curve([0, 1, 2], np.full((3, 3), 1 / 3))


def test_the_best_threshold_costs_least():
    p, y = world(500, 13)
    costs = np.array([[0.0, 1.0], [4.0, 0.0]])
    found = pb.best_threshold(y, p, costs)

    def cost(t):
        return costs[y, (p >= t).astype(int)].mean()

    every = [cost(t) for t in np.r_[p, 1.1]]
    assert found.cost == pytest.approx(min(every), abs=1e-12)
    assert cost(float(found.threshold)) == pytest.approx(found.cost, abs=1e-12)
    assert found.bayes_threshold == pytest.approx(0.2)
    assert found.bayes_cost == pytest.approx(cost(0.2), abs=1e-12)
    assert found.threshold.low <= found.threshold <= found.threshold.high
    with pytest.raises(InputError, match="wrong decision must cost more"):
        pb.best_threshold(y, p, [[1, 0], [0, 1]])


def test_the_area_under_the_risk_coverage_curve_by_hand():
    """Confidences 0.9 (right), 0.8 (right), 0.7 (wrong), 0.6 (right): the error enters between
    coverage 1/2 and 3/4 and adds -(1/4) x mean of log c there."""
    found = pb.risk_coverage([1, 0, 1, 1], [0.9, 0.4, 0.3, 0.8])
    mean = 4 * ((0.75 * np.log(0.75) - 0.75) - (0.5 * np.log(0.5) - 0.5))
    assert float(found.aurc) == pytest.approx(-mean / 4, abs=1e-14)
    assert float(found.error_rate) == 0.25


def test_aurc_tends_to_the_mean_of_selective_risks():
    """Geifman et al. 2019 average errors among the first k rows over k = 1, ..., n. That sum is a
    Riemann sum of the integral, with a difference of about (error rate) / 2n."""
    for n in (500, 5000):
        confidence, right = answers(n, 14)
        order = np.argsort(-confidence)
        discrete = np.mean(np.cumsum(1 - right[order]) / np.arange(1, n + 1))
        found = risk_coverage_of(EventTable.of_rows(confidence, right))
        assert float(found.aurc) == pytest.approx(discrete, abs=1 / n)


def test_equal_confidences_enter_together():
    confidence = np.array([0.9, 0.7, 0.7, 0.7, 0.6])
    orders = []
    for right in ([1, 0, 1, 1, 0], [1, 1, 1, 0, 0]):
        event = EventTable.of_rows(confidence, np.array(right))
        orders.append(risk_coverage_of(event))
    assert orders[0].aurc == orders[1].aurc
    assert np.array_equal(orders[0].curve.risk, orders[1].curve.risk)


def test_perfect_confidence_has_no_excess():
    confidence, right = np.linspace(0.99, 0.5, 200), (np.arange(200) < 150).astype(int)
    found = risk_coverage_of(EventTable.of_rows(confidence, right))
    assert float(found.excess_aurc) == pytest.approx(0, abs=1e-3)
    assert float(found.auroc) == 1
    assert float(found.accuracy_at(0.75)) == 1
    assert float(found.coverage_at(0.0)) == pytest.approx(0.75)


def test_intervals_of_risk_coverage_cover_the_population():
    truth = risk_coverage_of(EventTable.of_rows(*answers(400_000, 10**6)))
    held = np.zeros(3)
    for seed in range(200):
        found = risk_coverage_of(EventTable.of_rows(*answers(400, seed)))
        half, known = found.accuracy_at(0.5), float(truth.accuracy_at(0.5))
        held += [
            found.aurc.low <= truth.aurc <= found.aurc.high,
            found.excess_aurc.low <= truth.excess_aurc <= found.excess_aurc.high,
            half.low <= known <= half.high,
        ]
    assert (held >= 178).all()


def test_pairs_of_confidence_and_correctness():
    confidence, right = answers(300, 15)
    rows = pb.Predictions.from_confidence(confidence, right)
    found = pb.risk_coverage(rows)
    assert float(found.error_rate) == pytest.approx(1 - right.mean())
    assert found.to_frame().shape == (100, 4)


def test_default_thresholds_are_the_decimals_people_write():
    curve = pb.decision_curve([1, 0], [0.06, 0.001])
    assert curve.net_benefit[5] == 0.5


def test_never_to_act_is_an_infinite_threshold():
    found = pb.best_threshold([0, 0, 0], [1.0, 1.0, 1.0], [[0, 1], [1, 0]])
    assert (float(found.threshold), found.cost) == (np.inf, 0)


def test_coverage_is_not_lost_to_rounding():
    rows = pb.Predictions.from_confidence(
        np.linspace(0.95, 0.5, 10), np.r_[np.ones(7), np.zeros(3)]
    )
    assert pb.risk_coverage(rows).coverage_at(0.3) == 1


@pytest.mark.parametrize("lens", [pb.Cumulative(), pb.Classwise(), pb.Full(), pb.TopK(2)])
def test_a_line_needs_a_single_event(lens):
    with pytest.raises(InputError, match="single event"):
        pb.calibration_line([0, 1, 2], np.full((3, 3), 1 / 3), lens=lens)


def test_costs_of_given_decisions_by_hand():
    costs = [[0, 1], [5, 0]]
    assert pb.decision_cost([1, 0, 1], [1, 1, 0], costs) == pytest.approx(2)
    named = pb.decision_cost([1, 0, 1], ["b", "b", "a"], costs, names=["a", "b"])
    assert named == pytest.approx(2)
    assert pb.decision_cost([1, 0, 1], [1, 1, 0], costs, normalize=True) == pytest.approx(6)
    for bad, words in (([1, 1, 2], "column numbers"), ([1, 1], "one entry per row")):
        with pytest.raises(InputError, match=words):
            pb.decision_cost([1, 0, 1], bad, costs)
    with pytest.raises(InputError, match="different names"):
        pb.decision_cost([1, 0, 1], ["a", "a", "a"], costs, names=["a", "a"])


def test_risk_integrals_are_known_scores():
    p, y = world(500, 16, sharper=1.0, spread=0.8)
    assert pb.risk_integral(y, p) == pytest.approx(pb.log_score(y, p), rel=2e-3)
    brier = pb.risk_integral(y, p, weight=lambda t: 4 * t * (1 - t), normalize=True)
    assert brier == pytest.approx(pb.brier_score(y, p, normalize=True), rel=2e-3)
    q = np.random.default_rng(0).dirichlet([1, 1, 1], 300)
    zero_one = 1 - np.eye(3)
    constant = pb.risk_integral(q.argmax(axis=1), q, [zero_one, zero_one])
    assert constant == pb.bayes_risk(q.argmax(axis=1), q, zero_one)
    with pytest.raises(InputError, match="more than two classes"):
        pb.risk_integral(q.argmax(axis=1), q)
    with pytest.raises(InputError, match="function of t"):
        pb.risk_integral(y, p, weight=3)


def test_the_ranked_probability_score_by_hand():
    q = np.random.default_rng(1).dirichlet([1, 1, 1, 1], 200)
    y = np.random.default_rng(2).integers(0, 4, 200)
    up_to = np.cumsum(q, axis=1)[:, :-1]
    by_hand = ((up_to - (y[:, None] <= np.arange(3))) ** 2).sum(axis=1).mean()
    found = pb.ranked_probability_score(y, q)
    assert found == pytest.approx(by_hand, abs=1e-14)
    assert found.low < found < found.high <= 3
    p, events = world(100, 3)
    assert pb.ranked_probability_score(events, p) == pytest.approx(pb.brier_score(events, p) / 2)


def test_cumulative_errors_are_means_over_ordered_events():
    q = np.random.default_rng(1).dirichlet([1, 1, 1, 1], 400)
    y = np.random.default_rng(2).integers(0, 4, 400)
    each = [
        pb.calibration_error((y <= k).astype(int), q[:, : k + 1].sum(axis=1), lens=pb.Binary())
        for k in range(3)
    ]
    assert pb.calibration_error(y, q, lens=pb.Cumulative()) == pytest.approx(np.mean(each))
