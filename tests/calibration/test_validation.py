"""The table of clinical and credit validation, and tests of rating grades."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom
from sklearn.metrics import brier_score_loss, roc_auc_score

import probaudit as pb
from probaudit.calibration.grades import grade_table, population_stability
from probaudit.calibration.validation import large_p_value
from probaudit.data.populations import crossed, group_column, grouping_of
from probaudit.errors import InputError
from probaudit.scoring.events import EventTable


def world(n: int = 2000, seed: int = 0):
    """A risk model that is right for men and too high for women."""
    rng = np.random.default_rng(seed)
    sex, z = rng.choice(["f", "m"], n), rng.normal(size=n) - 1.5
    p, true = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-(z - 0.8 * (sex == "f"))))
    return (rng.random(n) < true).astype(int), p, sex


def test_measures_of_all_rows_are_those_of_other_functions():
    y, p, _ = world()
    one = pb.validation_table(y, p).overall
    assert one.auc == pytest.approx(roc_auc_score(y, p))
    assert one.brier == pytest.approx(brier_score_loss(y, p))
    assert one.brier == pytest.approx(pb.brier_score(y, p) / 2)
    assert one.brier_skill == pytest.approx(1 - pb.brier_score(y, p, normalize=True))
    assert one.observed_expected == pytest.approx(y.sum() / p.sum())
    line, indices = pb.calibration_line(y, p), pb.calibration_indices(y, p)
    assert (one.slope, one.intercept) == (line.slope, line.intercept)
    assert (one.ici, one.emax) == (indices.ici, indices.emax)
    for name, estimate in one.estimates():
        assert estimate.low <= estimate <= estimate.high, name


def test_groups_say_in_which_direction_the_risk_errs():
    y, p, sex = world()
    women, men = pb.validation_table(y, p, groups=sex).groups
    assert (women.value, women.verdict, men.verdict) == ("f", "predicted too high", "")
    inside = sex == "f"
    assert women.rows == inside.sum()
    assert women.observed == pytest.approx(y[inside].mean())
    assert women.predicted == pytest.approx(p[inside].mean())


def test_several_columns_and_their_combinations():
    y, p, sex = world(600)
    age = np.random.default_rng(1).integers(18, 90, 600)
    table = pb.validation_table(y, p, groups={"sex": sex, "age": age}, cross=True)
    assert [group.column for group in table.groups][:7] == ["sex"] * 2 + ["age"] * 5
    assert table.groups[-1].column == "sex*age"
    assert sum(group.rows for group in table.groups if group.column == "sex*age") == 600
    named = pb.validation_table(y, p, groups={"sex": sex, "age": age}, cross=["sex*age"])
    assert named.to_frame().equals(table.to_frame())
    assert table.to_frame().shape[0] == len(table) == 18
    assert "sex = f" in repr(table)


def test_predictions_bring_their_columns():
    y, p, sex = world(300)
    rows = pb.Predictions(y, p, columns={"sex": sex})
    assert [group.value for group in pb.validation_table(rows).groups] == ["f", "m"]


@pytest.mark.parametrize(("n", "mean"), [(200, 0.002), (500, 0.2)])
def test_p_values_of_calibrated_groups_are_not_too_small(n, mean):
    """Also of rare events, where a normal distribution would reject in 8% of tables."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(2000):
        p = rng.beta(2, 2 / mean - 2, n)
        rejected += large_p_value(EventTable.of_rows(p, rng.random(n) < p)) <= 0.05
    assert rejected <= 130  # 5% and three standard errors


def test_risks_of_zero_with_events_are_too_low():
    one = pb.validation_table([0, 1, 0, 1], np.zeros(4)).overall
    assert (one.p_value, one.verdict) == (0, "predicted too low")


def test_p_value_where_more_events_happen_than_the_binomial_allows():
    # two rows, p = 0.9 and 0.1: both events happen with probability 0.09; two-sided 0.18
    event = EventTable.of_rows(np.array([0.9, 0.1]), np.array([1, 1]))
    none = EventTable.of_rows(np.array([0.9, 0.1]), np.array([0, 0]))
    assert large_p_value(event) == pytest.approx(large_p_value(none), rel=1e-12)
    assert 0.15 < large_p_value(event) < 0.3
    always = EventTable.of_rows(np.linspace(0.1, 0.9, 100), np.ones(100, int))
    assert large_p_value(always) < 1e-9


def test_outputs_of_zero_and_one_are_left_out_of_the_line():
    y, p, _ = world(400)
    p[:3], p[3] = 0.0, 1.0
    line = pb.calibration_line(y, p)
    inside = (p > 0) & (p < 1)
    assert line.left_out == 4
    assert line.slope == pytest.approx(float(pb.calibration_line(y[inside], p[inside]).slope))
    assert "left out" in line.slope.definition
    assert pb.validation_table(y, p).overall.left_out == 4


def test_measures_that_the_rows_do_not_determine_are_unknown():
    table = pb.validation_table([0, 0, 0], [0.1, 0.5, 0.9])
    assert np.isnan(table.overall.auc)
    assert np.isnan(table.overall.slope)
    assert table.overall.observed_expected == 0
    assert table.overall.observed_expected.high > 0
    assert "–" in repr(table)


@pytest.mark.parametrize("bad", [[1, 2], {"a": [1, 2, 3]}])
def test_groups_have_one_value_per_row(bad):
    with pytest.raises(InputError, match="one value per row"):
        pb.validation_table([0, 1], [0.2, 0.8], groups={"a": [1, 2, 3]})


def test_more_than_two_classes_need_an_event():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 500)
    y = (rng.random((500, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    with pytest.raises(InputError, match="must name a class"):
        pb.validation_table(y, p)
    found = pb.validation_table(y, p, event=2)
    alone = pb.validation_table((y == 2).astype(int), p[:, 2])
    assert found.event == 2
    assert found.to_frame().equals(alone.to_frame())


def test_the_event_may_be_the_first_class():
    y, p = np.array(["no", "yes", "no", "yes"] * 25), np.linspace(0.05, 0.95, 100)
    found = pb.validation_table(y, p, classes=["no", "yes"], event="no")
    assert found.event == "no"
    swapped = pb.validation_table(y == "no", 1 - p).overall
    for name, x in swapped.estimates():
        assert float(getattr(found.overall, name)) == pytest.approx(float(x), abs=1e-12), name
    with pytest.raises(InputError, match="must be one of the classes"):
        pb.validation_table(y, p, classes=["no", "yes"], event="maybe")
    with pytest.raises(InputError, match="confidence and correctness"):
        pb.Predictions.from_confidence([0.5], [True], event=True)


def test_clusters_widen_the_intervals():
    y, p, _ = world(300)
    y, p, who = np.repeat(y, 5), np.repeat(p, 5), np.repeat(np.arange(300), 5)
    alone, together = (
        pb.validation_table(y, p, **options).overall for options in ({}, {"clusters": who})
    )
    for name in ("observed", "observed_expected", "slope", "auc", "brier"):
        width = [getattr(one, name).high - getattr(one, name).low for one in (alone, together)]
        assert 1.9 < width[1] / width[0] < 2.6, name


def test_numbers_are_cut_into_ranges_and_missing_values_kept_apart():
    values = np.r_[np.arange(100.0), np.nan]
    found = group_column("age", values)
    assert found.cut
    assert found.values[-1] == "(missing)"
    assert np.bincount(found.number).tolist() == [20, 20, 20, 20, 20, 1]
    assert group_column("grade", np.array([10, 9, 2])).values == ("2", "9", "10")
    many = {"id": np.array([f"row {i}" for i in range(60)]), "two": np.zeros((60, 2))}
    assert grouping_of(many).columns == ()
    assert set(grouping_of(many).left_out) == {"id", "two"}
    for cross in (True, ["b*a"], [("a", "b")], ["a"], [("a", "a")]):
        with pytest.raises(InputError, match="must cross two or more columns of a"):
            grouping_of({"a": np.arange(2)}, cross)
    both = crossed(
        [group_column("a", np.array([0, 0, 1])), group_column("b", np.array(["x", "y", "x"]))]
    )
    assert both.values == ("0, x", "0, y", "1, x")


def test_grades_are_tested_by_binomial_and_beta_tails():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 20, 3000)
    y = (rng.random(3000) < np.minimum(2 * p, 1)).astype(int)  # twice the predicted risk
    table = grade_table(y, p, scale=[0.02, 0.05])
    for grade, inside in zip(table, (p < 0.02, (p >= 0.02) & (p < 0.05), p >= 0.05), strict=True):
        n, k, mean = inside.sum(), y[inside].sum(), p[inside].mean()
        assert (grade.rows, grade.events) == (n, k)
        assert grade.predicted == pytest.approx(mean)
        assert grade.binomial == pytest.approx(binom.sf(k - 1, n, mean))
        assert grade.too_high == pytest.approx(binom.cdf(k, n, mean))
        assert grade.jeffreys == pytest.approx(beta.cdf(mean, k + 0.5, n - k + 0.5))
        assert grade.verdict == "predicted too low"
    assert table.to_frame().shape == (3, 12)
    same = grade_table(y, p, grades=np.digitize(p, [0.02, 0.05]))
    assert [grade.rows for grade in same] == [grade.rows for grade in table]


def test_grade_tables_refuse_what_they_cannot_use():
    y, p = [0, 1], [0.2, 0.8]
    with pytest.raises(InputError, match="either"):
        grade_table(y, p)
    with pytest.raises(InputError, match="rising limits"):
        grade_table(y, p, scale=[0.5, 0.2])
    with pytest.raises(InputError, match="rows of equal weight"):
        grade_table(y, p, scale=[0.5], sample_weight=[1, 2])


def test_population_stability_by_its_definition():
    rng = np.random.default_rng(0)
    one, two = rng.beta(2, 5, 4000), rng.beta(2.5, 5, 3000)
    limits = np.quantile(one, np.arange(1, 10) / 10)
    e, a = (
        np.bincount(np.searchsorted(limits, x, "right"), minlength=10) / len(x) for x in (one, two)
    )
    found = population_stability(one, two)
    assert found == pytest.approx(((a - e) * np.log(a / e)).sum())
    assert found.low < found < found.high
    assert population_stability(one, one) == 0


def test_a_constant_output_has_no_slope():
    line = pb.calibration_line([0, 1, 1], [0.3, 0.3, 0.3])
    assert np.isnan(line.slope)
    assert line.offset == pytest.approx(np.log(2) - np.log(0.3 / 0.7))


def test_the_scale_of_weights_does_not_change_the_error_of_the_slope():
    y, p, _ = world(1000)
    once, twice = (pb.calibration_line(y, p, sample_weight=np.r_[w, np.ones(999)]) for w in (1, 5))
    assert twice.slope_error == pytest.approx(once.slope_error, rel=0.1)


def test_stability_of_grades_and_bad_columns():
    grades, moved = [1, 2, 2, 3, 3, 3] * 50, [1, 2, 2, 3, 4, 4] * 50
    as_text = population_stability([str(x) for x in grades], [str(x) for x in moved])
    assert population_stability(grades, moved) == as_text > 1
    for bad in ({"bins": 1}, {"bins": [0.5, 0.2]}):
        with pytest.raises(InputError, match="bins"):
            population_stability(np.linspace(0, 1, 99), np.linspace(0, 1, 50), **bad)
    with pytest.raises(InputError, match="finite"):
        population_stability([0.1, np.nan], [0.1, 0.2])


def test_grades_follow_dropped_rows():
    y, p = np.array([0, 1, 0, 1]), np.array([0.1, np.nan, 0.3, 0.7])
    table = grade_table(y, p, grades=["a", "a", "b", "b"], on_bad_rows="drop")
    assert [(grade.name, grade.rows, grade.events) for grade in table] == [("a", 1, 0), ("b", 2, 1)]
