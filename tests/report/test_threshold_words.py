"""What happens at a threshold, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from probaudit.report.threshold_words import Acting, Answering, table_rows
from probaudit.scoring.events import EventTable
from probaudit.scoring.operating_points import OperatingPoints

T = np.array([0.2, 0.5, 0.8])


def points(p: list[float], happened: list[int]) -> OperatingPoints:
    return OperatingPoints.of(EventTable.of_rows(np.array(p), np.array(happened)), T)


BEFORE = points([0.1, 0.2, 0.2, 0.6, 0.9], [0, 0, 1, 0, 1])
AFTER = points([0.1, 0.1, 0.4, 0.4, 0.9], [0, 0, 1, 0, 1])


def test_acting_on_an_event():
    found = Acting({"original": BEFORE}, "class 1")
    assert found.ratio(0) == 4
    assert found.label(0) == (
        "Act if the probability of class 1 is at least 20%: a miss costs 4 times a false alarm."
    )
    assert found.label(1).endswith("at least 50%: a miss and a false alarm cost the same.")
    assert found.label(2).endswith("at least 80%: a false alarm costs 4 times a miss.")
    # (2 hits, 1.9 predicted, 2 false alarms, 0 misses) of 5 rows
    assert found.cells(BEFORE, 0) == ["800", "400", "380", "400", "0", "400", "0.667"]
    assert found.words(0) == (
        "The cost is 400 per 1,000 rows. That is 33% less than acting on all rows (600), which may "
        "be chance."
    )
    assert found.words(2) == (
        "The cost is 200 per 1,000 rows. That is 50% less than acting on none (400), which may be "
        "chance."
    )


def test_acting_before_and_after_recalibration():
    found = Acting({"original": BEFORE, "recalibrated": AFTER}, "class 1")
    assert found.words(0) == (
        "Recalibrating cuts the cost by 50%, from 400 to 200 per 1,000 rows, which may be chance. "
        "Recalibrated outputs cost 67% less than acting on all rows (600), which may be chance."
    )
    assert found.words(2).startswith("Recalibrating does not change the cost: 200 per 1,000 rows. ")
    free = Acting({"original": points([0.9, 0.1], [1, 0]), "recalibrated": BEFORE}, "class 1")
    assert free.words(1).startswith("Recalibrating raises the cost from 0 to 400 per 1,000 rows,")
    worse = Acting({"original": AFTER, "recalibrated": BEFORE}, "class 1")
    assert worse.words(0).startswith("Recalibrating raises the cost by 100%, from 200 to 400 per ")
    assert table_rows(found, [0, 2]) == [
        ("20%", "4", "original", *found.cells(BEFORE, 0)),
        ("20%", "4", "recalibrated", *found.cells(AFTER, 0)),
        ("80%", "0.25", "original", *found.cells(BEFORE, 2)),
        ("80%", "0.25", "recalibrated", *found.cells(AFTER, 2)),
    ]


def test_answering_confident_rows():
    """At 0.5, two rows are answered, one of them right; their confidences predict 0.5 errors. Three
    reviews cost 0.5 each."""
    found = Answering({"original": BEFORE})
    assert [found.ratio(k) for k in range(3)] == [80, 50, 20]
    assert found.label(2) == (
        "Answer if the predicted probability is at least 80%, and let a person review the rest: an "
        "error costs 5 times a review."
    )
    cells = dict(zip(found.names, found.cells(BEFORE, 1), strict=True))
    assert cells == {
        "answered": "400",
        "right": "200",
        "errors": "200",
        "errors predicted": "100",
        "accuracy of answers": "50.0%",
        "reviewed": "600",
        "cost of errors and reviews": "500",
        "relative cost": "1.000",
    }
    assert (
        found.words(1) == "The cost is 500 per 1,000 rows. This is the cost of reviewing all rows."
    )


def test_answering_none():
    none = points([0.1, 0.3], [0, 1])
    found = Answering({"original": none})
    assert found.cells(none, 2)[:5] == ["0", "0", "0", "0", "–"]
    assert (
        found.words(2) == "The cost is 200 per 1,000 rows. This is the cost of reviewing all rows."
    )


def test_rare_events_are_counted_in_more_rows():
    rare = points([0.9] + [0.1] * 499, [1] + [0] * 499)
    found = Acting({"original": rare}, "class 1")
    assert found.rows_words == "of 100,000 rows"
    assert found.cells(rare, 0)[:5] == ["200", "200", "180", "0", "0"]


def test_probabilities_that_cost_more_than_one_decision_for_all():
    wrong = points([0.9, 0.9, 0.9, 0.1], [0, 0, 0, 1])
    found = Acting({"original": wrong}, "class 1")
    assert found.words(1) == (
        "Acting on none is cheapest: 250 per 1,000 rows. These probabilities cost 1,000 (300% "
        "more)."
    )
    better = points([0.9, 0.9, 0.1, 0.1], [0, 0, 0, 1])
    both = Acting({"original": wrong, "recalibrated": better}, "class 1")
    assert both.words(1) == (
        "Acting on none is cheapest: 250 per 1,000 rows. These probabilities cost 1,000 (300% "
        "more), and recalibrated 750 (200% more)."
    )


def test_a_decision_for_all_that_costs_nothing_is_not_compared():
    sure = points([0.9, 0.1], [0, 0])
    assert Acting({"original": sure}, "class 1").words(1) == "The cost is 50,000 per 100,000 rows."


@pytest.mark.parametrize("t", [0.2, 0.5, 0.8])
def test_a_difference_has_the_noise_of_its_rows(t):
    """The half-width from shares equals 1.96 standard errors of the differences of single rows."""
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    event = EventTable.of_rows(p, y)
    one, act = OperatingPoints.of(event, np.array([t])), p >= t
    costs = np.where(act, (1 - y) * t, y * (1 - t)) / min(t, 1 - t)
    constants = {
        "acting on all rows": (1 - y) * t / min(t, 1 - t),
        "acting on none": y * (1 - t) / min(t, 1 - t),
    }
    reviewed = np.where(act, 1 - y, 1 - t)
    answers = {"answering all rows": 1 - y, "reviewing all rows": np.full(400, 1 - t)}
    for how, own, others in (
        (Acting({"original": one}, "class 1"), costs, constants),
        (Answering({"original": one}), reviewed, answers),
    ):
        for decision, other in others.items():
            expected = 1.96 * np.std(own - other) / np.sqrt(400)
            assert how.noise(one, 0, decision) == pytest.approx(expected, rel=1e-3)


def test_a_clear_difference_is_not_called_chance():
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    event = EventTable.of_rows(p, (rng.random(4000) < p).astype(int))
    found = Acting({"original": OperatingPoints.of(event, np.array([0.5]))}, "class 1")
    assert "less than" in found.words(0)
    assert "chance" not in found.words(0)


def test_a_change_has_the_noise_of_independent_rows():
    rng = np.random.default_rng(1)
    p, happened, t = rng.random(400), rng.random(400), 0.2
    y = (happened < p).astype(int)
    costs, points_of = [], []
    for q in (p, p**2):
        act = q >= t
        costs.append(np.where(act, (1 - y) * t, y * (1 - t)) / t)
        points_of.append(OperatingPoints.of(EventTable.of_rows(q, y), np.array([t])))
    how = Acting({"original": points_of[0], "recalibrated": points_of[1]}, "class 1")
    expected = 1.96 * np.sqrt(sum(np.var(cost) for cost in costs) / 400)
    assert how.change_noise(*points_of, 0) == pytest.approx(expected, rel=1e-3)
