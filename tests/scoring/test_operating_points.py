"""Hits, false alarms, misses and costs at each threshold."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.scoring.events import EventTable
from probaudit.scoring.operating_points import OperatingPoints

P = np.array([0.1, 0.2, 0.2, 0.6, 0.9])
HAPPENED = np.array([0, 0, 1, 0, 1])


def test_by_hand():
    """At 0.2, four rows are acted on; at 0.5, the last two. A miss costs 4 false alarms at 0.2, and
    a false alarm 4 misses at 0.8."""
    found = OperatingPoints.of(EventTable.of_rows(P, HAPPENED), np.array([0.2, 0.5, 0.8]))
    assert found.rate == pytest.approx(0.4)
    assert found.acted == pytest.approx([0.8, 0.4, 0.2])
    assert found.hits == pytest.approx([0.4, 0.2, 0.2])
    assert found.false_alarms == pytest.approx([0.4, 0.2, 0.0])
    assert found.misses == pytest.approx([0.0, 0.2, 0.2])
    assert found.predicted_hits == pytest.approx([1.9 / 5, 1.5 / 5, 0.9 / 5])
    assert found.cost == pytest.approx([0.4, 0.4, 0.2])
    assert found.cost_all == pytest.approx([0.6, 0.6, 2.4])
    assert found.cost_none == pytest.approx([1.6, 0.4, 0.4])
    assert found.relative_cost == pytest.approx([0.4 / 0.6, 1.0, 0.5])
    # an error costs 1, a review 1 - t
    assert found.review_cost == pytest.approx([0.4 + 0.8 * 0.2, 0.2 + 0.5 * 0.6, 0.2 * 0.8])


def test_a_weight_counts_as_that_many_rows():
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    t = np.array([0.15, 0.5])
    weighted = OperatingPoints.of(EventTable.of_rows(P, HAPPENED, weights), t)
    place = np.repeat(np.arange(5), weights.astype(int))
    repeated = OperatingPoints.of(EventTable.of_rows(P[place], HAPPENED[place]), t)
    for name in ("hits", "false_alarms", "predicted_hits", "rate", "cost"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))


def test_net_benefit_and_bayes_risk_are_the_same_numbers():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**1.5).astype(int)
    curve, risk = pb.decision_curve(y, p), pb.risk_curve(y, p)
    found = OperatingPoints.of(curve.event, curve.thresholds)
    odds = curve.thresholds / (1 - curve.thresholds)
    np.testing.assert_array_equal(found.hits - odds * found.false_alarms, curve.net_benefit)
    mine = found.risk_curve(500)
    np.testing.assert_allclose(mine.risk, risk.risk, rtol=1e-9)  # no output equals a threshold
    np.testing.assert_allclose(mine.naive, risk.naive, rtol=1e-9)
    np.testing.assert_allclose(found.relative_cost, risk.risk / risk.naive, rtol=1e-9)


def test_without_events_a_relative_cost_is_unknown():
    found = OperatingPoints.of(EventTable.of_rows(P, np.zeros(5, int)), np.array([0.5]))
    assert np.isnan(found.relative_cost).all()
    assert found.cost == pytest.approx([0.4])
