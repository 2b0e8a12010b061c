"""Partitions and selections: which rows are judged, and which of them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probaudit as pb
from probaudit.calibration.cells import gather_cells
from probaudit.choices.lenses import View
from probaudit.choices.partitions import Product, rising_order

law = settings(max_examples=50, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def same_cells(found, expected):
    """Whether two numberings put the same rows together."""
    found, expected = np.asarray(found), np.asarray(expected)
    return bool(((found[:, None] == found) == (expected[:, None] == expected)).all())


BY_HAND = [
    (pb.EqualWidth(4), [0, 0.1, 0.25, 0.5, 0.75, 0.99, 1], [0, 0, 1, 2, 3, 3, 3]),
    (pb.EqualWidth(4, right=True), [0, 0.1, 0.25, 0.5, 0.75, 0.99, 1], [0, 0, 0, 1, 2, 3, 3]),
    (pb.EqualWidth(1), [0, 0.3, 1], [0, 0, 0]),
    (pb.EqualWidth(15), [0, 1, 0.5], [0, 14, 7]),
    (pb.Edges([0, 0.1, 1]), [0, 0.1, 0.05, 1], [0, 1, 0, 1]),
    (pb.Edges([0, 0.1, 1], right=True), [0, 0.1, 0.05, 1], [0, 0, 0, 1]),
    (pb.Edges([0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], [0, 1, 1]),
    (pb.EqualMass(2), [0.4, 0.1, 0.2, 0.3], [1, 0, 0, 1]),
    (pb.EqualMass(2), [0.1, 0.1, 0.1, 0.2], [0, 0, 0, 1]),
    (pb.EqualMass(2), [0.1, 0.2, 0.2, 0.2], [0, 0, 0, 0]),
    (pb.EqualMass(3), [0.5, 0.5, 0.5], [0, 0, 0]),
    (pb.EqualMass(5), [0.3, 0.1], [1, 0]),
    (pb.Column(["b", "a", "b"]), [0.1, 0.2, 0.3], [1, 0, 1]),
    (pb.Whole(), [0.1, 0.2, 0.3], [0, 0, 0]),
    (pb.Each(), [0.1, 0.1, 0.3], [0, 1, 2]),
    (pb.EqualWidth(2) * pb.Column([7, 7, 8, 8]), [0.1, 0.9, 0.2, 0.3], [0, 1, 2, 2]),
    (pb.Whole() * pb.Each(), [0.1, 0.1], [0, 1]),
]


@pytest.mark.parametrize(
    ("partition", "outputs", "cells"),
    BY_HAND,
    ids=lambda x: repr(x) if isinstance(x, pb.Partition) else "",
)
def test_by_hand(partition, outputs, cells):
    found = partition.cells(np.array(outputs, float))
    assert same_cells(found, cells)
    if not isinstance(partition, Product):
        np.testing.assert_array_equal(found, cells)


def test_several_outputs_are_cut_along_all_but_the_last():
    outputs = np.array([[0.1, 0.1, 0.8], [0.1, 0.6, 0.3], [0.6, 0.1, 0.3], [0.2, 0.2, 0.6]])
    assert same_cells(pb.EqualWidth(2).cells(outputs), [0, 1, 2, 0])
    assert same_cells(pb.EqualWidth(1).cells(outputs), [0, 0, 0, 0])


@law
@given(seeds, st.integers(1, 60), st.integers(1, 20))
def test_equal_mass_is_nearly_equal_without_ties(seed, n, bins):
    outputs = np.random.default_rng(seed).permutation(n) / n
    counts = np.bincount(pb.EqualMass(bins).cells(outputs))
    assert len(counts) == min(bins, n)
    assert counts.max() - counts.min() <= 1


@law
@given(seeds, st.integers(1, 60), st.integers(1, 20))
def test_equal_mass_never_parts_ties_and_keeps_order(seed, n, bins):
    rng = np.random.default_rng(seed)
    outputs = rng.integers(0, 6, n) / 7
    cells = pb.EqualMass(bins).cells(outputs)
    assert all(len(np.unique(cells[outputs == value])) == 1 for value in np.unique(outputs))
    order = np.argsort(outputs, kind="stable")
    assert (np.diff(cells[order]) >= 0).all()
    assert set(cells) == set(range(cells.max() + 1))


def test_fewer_bins_are_said():
    y, p = [1, 0, 1, 0], [0.3, 0.3, 0.3, 0.8]
    tied = pb.calibration_error(y, p, lens=pb.Binary(), partition=pb.EqualMass(3))
    assert "leave 2 bins" in tied.definition
    free = pb.calibration_error(
        y, [0.1, 0.2, 0.3, 0.4], lens=pb.Binary(), partition=pb.EqualMass(3)
    )
    assert "leave" not in free.definition


REFUSED = {
    "no bins": (lambda: pb.EqualWidth(0), "bins"),
    "no mass": (lambda: pb.EqualMass(0), "bins"),
    "one edge": (lambda: pb.Edges([0.5]), "edges"),
    "edges fall": (lambda: pb.Edges([0, 0.6, 0.5, 1]), "edges"),
    "edges repeat": (lambda: pb.Edges([0, 0.5, 0.5, 1]), "edges"),
    "edges not numbers": (lambda: pb.Edges(["a", "b"]), "edges"),
    "edges NaN": (lambda: pb.Edges([0, np.nan, 1]), "edges"),
    "edges in two dimensions": (lambda: pb.Edges([[0, 1]]), "edges"),
    "edges too narrow below": (
        lambda: pb.Edges([0.2, 1]).cells(np.array([0.1, 0.5])),
        "span all outputs",
    ),
    "edges too narrow above": (
        lambda: pb.Edges([0, 0.5]).cells(np.array([0.1, 0.6])),
        "span all outputs",
    ),
    "edges of several outputs": (
        lambda: pb.Edges([0, 1]).cells(np.full((2, 2), 0.5)),
        "single event",
    ),
    "mass of several outputs": (
        lambda: pb.EqualMass(2).cells(np.full((2, 2), 0.5)),
        "single event",
    ),
    "split": (lambda: pb.KDTree(split="mode"), "split"),
    "gamma 0": (lambda: pb.KDTree(0.0), "gamma"),
    "gamma above 1": (lambda: pb.KDTree(1.5), "gamma"),
    "short column": (lambda: pb.Column([1, 2]).cells(np.zeros(3)), "one value per row"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(pb.InputError, match=message):
        make()


@law
@given(
    seeds,
    st.integers(1, 200),
    st.integers(2, 5),
    st.sampled_from(["mean", "median"]),
    st.sampled_from([0.05, 0.1, 0.5, 1.0]),
)
def test_leaves_are_below_the_limit(seed, n, d, split, gamma):
    points = np.random.default_rng(seed).dirichlet(np.ones(d), n)
    counts = np.bincount(pb.KDTree(gamma, split=split).cells(points))
    assert counts.sum() == n
    assert counts.min() > 0
    assert counts.max() < max(2, gamma * n)
    fixed = np.bincount(pb.KDTree(min_rows=7, split=split).cells(points))
    assert fixed.max() < 7
    if n >= 7:
        assert len(fixed) > 1


@pytest.mark.parametrize("split", ["mean", "median"])
def test_a_tree_ends_at_equal_points(split):
    constant = np.tile([0.2, 0.3, 0.5], (50, 1))
    assert set(pb.KDTree(min_rows=2, split=split).cells(constant)) == {0}
    assert same_cells(
        pb.KDTree(min_rows=2, split=split).cells(np.repeat([0.1, 0.9], 20)), np.repeat([0, 1], 20)
    )


def test_a_tree_splits_the_axis_of_largest_variance_at_its_mean_or_median():
    points = np.array([[0.0, 0.5, 0.5], [0.1, 0.45, 0.45], [0.2, 0.4, 0.4], [0.9, 0.05, 0.05]])
    assert same_cells(pb.KDTree(1.0).cells(points), [0, 0, 0, 1])
    assert same_cells(pb.KDTree(1.0, split="median").cells(points), [0, 0, 1, 1])


def test_a_tree_of_a_single_event_is_that_of_both_classes():
    outputs = np.random.default_rng(0).random(100)
    both = np.column_stack([1 - outputs, outputs])
    assert same_cells(pb.KDTree(0.1).cells(outputs), pb.KDTree(0.1).cells(both))


def test_columns_follow_their_rows():
    rows, column = np.array([3, 1]), pb.Column(["a", "b", "a", "a"])
    np.testing.assert_array_equal(column.select(rows, 4).values, ["a", "b"])
    product = (pb.EqualWidth(2) * column).select(rows, 4)
    assert same_cells(product.cells(np.array([0.1, 0.2])), [0, 1])
    assert pb.Whole().select(rows, 4) == pb.Whole()
    for length in (3, 5):
        with pytest.raises(pb.InputError, match=f"one value per row \\({length}\\)"):
            column.select(np.arange(3), length)


Y, P, GROUP = [0, 1, 1, 0, 1], [0.2, 0.7, 0.6, 0.4, 0.9], np.array(["x", "x", "y", "y", "y"])
LEFT_OUT = {
    "weight 0": ({"sample_weight": [0, 1, 1, 1, 1]}, Y, P),
    "bad label": ({"on_bad_rows": "drop"}, [9, 1, 1, 0, 1], P),
    "bad probability": ({"on_bad_rows": "drop"}, Y, [np.nan, 0.7, 0.6, 0.4, 0.9]),
    "mask": ({"where": [False, True, True, True, True]}, Y, P),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_columns_and_masks_count_all_rows_even_those_left_out(name):
    options, y, p = LEFT_OUT[name]
    found = pb.calibration_error(y, p, lens=pb.Binary(), partition=pb.Column(GROUP), **options)
    assert found == pytest.approx((0.3 + abs(1.9 - 2)) / 4)
    np.testing.assert_array_equal(found.cells[0].rows, [1, 3])
    if "where" not in options:
        masked = pb.calibration_error(
            y, p, lens=pb.Binary(), partition=pb.Whole(), where=list(GROUP == "x"), **options
        )
        assert masked == pytest.approx(0.3)


@pytest.mark.parametrize("length", [4, 6])
def test_a_column_needs_as_many_values_as_there_are_rows(length):
    with pytest.raises(pb.InputError, match=r"one value per row \(5\)"):
        pb.calibration_error(Y, P, partition=pb.Column(np.zeros(length)))


@law
@given(seeds, st.sampled_from([None, 2, 3]))
def test_cells_are_weighted_means(seed, d):
    rng = np.random.default_rng(seed)
    n = 30
    outputs = rng.random(n) if d is None else rng.dirichlet(np.ones(d), n)
    labels = rng.integers(0, d or 2, n)
    cell, weights = rng.integers(0, 6, n) * 2, rng.random(n)
    weights[cell == 4] = 0
    found = gather_cells(View(outputs, labels), cell, weights)
    used = [c for c in np.unique(cell) if c != 4]
    targets = labels if d is None else np.eye(d)[labels]
    for i, c in enumerate(used):
        rows = cell == c
        assert found.rows[i] == rows.sum()
        assert found.weight[i] == pytest.approx(weights[rows].sum())
        np.testing.assert_allclose(
            found.outputs[i], np.average(outputs[rows], axis=0, weights=weights[rows])
        )
        np.testing.assert_allclose(
            found.targets[i], np.average(targets[rows], axis=0, weights=weights[rows]), atol=1e-15
        )
        assert found.effective[i] == pytest.approx(
            weights[rows].sum() ** 2 / (weights[rows] ** 2).sum()
        )
    assert len(found.rows) == len(used)
    assert found.share.sum() == pytest.approx(1)


P3 = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.4, 0.2]])
Y3 = [0, 2, 2, 1]
SELECTED = {
    "label": (pb.LabelIs(2), pb.TopLabel(), [1, 2]),
    "labels": (pb.LabelIs((0, 1)), pb.TopLabel(), [0, 3]),
    "label through groups": (pb.LabelIs(2), pb.Groups([[0, 1], [2]]), [1, 2]),
    "predicted, lower class of ties": (pb.PredictedIs(0), pb.TopLabel(), [0, 3]),
    "predicted of several": (pb.PredictedIs((1, 2)), pb.Full(), [1, 2]),
    "output after top label": (pb.OutputIn(0.5, 0.6), pb.TopLabel(), [0, 1]),
    "output after one class": (pb.OutputIn(high=0.2), pb.OneVsRest(2), [0, 3]),
    "mask": (np.array([True, False, True, False]), pb.TopLabel(), [0, 2]),
    "Mask": (pb.Mask([True, False, True, False]), pb.TopLabel(), [0, 2]),
}


@pytest.mark.parametrize("name", SELECTED)
def test_selected_rows_are_as_if_alone(name):
    where, lens, rows = SELECTED[name]
    found = pb.calibration_error(Y3, P3, lens=lens, partition=pb.Each(), where=where)
    alone = pb.calibration_error(np.array(Y3)[rows], P3[rows], lens=lens, partition=pb.Each())
    assert found == pytest.approx(alone, abs=1e-15)
    assert found.n == len(rows)
    assert "where" in found.definition
    np.testing.assert_array_equal(found.cells[0].outputs, alone.cells[0].outputs)


NOT_SELECTED = {
    "too short": ([True, False, True], pb.TopLabel(), "one boolean per row"),
    "two dimensions": (np.ones((4, 1), bool), pb.TopLabel(), "one boolean per row"),
    "numbers": ([1, 0, 1, 1], pb.TopLabel(), "one boolean per row"),
    "nothing left": ([False] * 4, pb.TopLabel(), "at least one good row"),
    "no such label": (pb.LabelIs(7), pb.Full(), "at least one good row"),
    "no such output": (pb.OutputIn(0.9), pb.TopLabel(), "at least one good row"),
    "output of several": (pb.OutputIn(0.1), pb.Full(), "requires `index`"),
}


@pytest.mark.parametrize("name", NOT_SELECTED)
def test_selections_refused(name):
    where, lens, message = NOT_SELECTED[name]
    with pytest.raises(pb.InputError, match=message) as raised:
        pb.calibration_error(Y3, P3, lens=lens, where=where)
    assert raised.value.argument == "where"


@pytest.mark.parametrize(
    "values",
    [[], [0.5], [0.0, -0.0, 5e-324, -5e-324], [1.0, 1 + 2**-52, 1.0, -1e-17, 0.3, 0.3], "many"],
)
def test_rising_order_is_stable(values):
    rng = np.random.default_rng(0)
    values = (
        np.r_[rng.random(2000), rng.integers(0, 5, 2000), -rng.random(50)]
        if values == "many"
        else np.array(values, float)
    )
    for dtype in (np.float32, np.float64):
        np.testing.assert_array_equal(
            rising_order(values.astype(dtype)), np.argsort(values.astype(dtype), kind="stable")
        )


def test_cells_of_several_outputs_are_those_of_their_bins():
    p = np.random.default_rng(0).dirichlet(np.full(70, 0.2), 3000)
    for d in (3, 64, 65, 66, 70):
        bins = np.minimum((p[:, : d - 1] * 4).astype(int), 3)
        same_cells(
            pb.EqualWidth(4).cells(np.ascontiguousarray(p[:, :d])),
            np.unique(bins, axis=0, return_inverse=True)[1],
        )


def test_cells_are_kept_for_the_measures_that_share_them():
    """A second measure over the same cells, or with an interval, is as if it had come first."""
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 500), rng.integers(0, 4, 500)
    rows = pb.Predictions(y, p)
    for partition in (pb.EqualMass(7), pb.EqualWidth(7), pb.EqualMass(9)):
        for options in (
            {},
            {"worst": True},
            {"interval": True, "resamples": 50},
            {"lens": pb.OneVsRest(1)},
        ):
            shared = pb.calibration_error(rows, partition=partition, **options)
            alone = pb.calibration_error(y, p, partition=partition, **options)
            assert (float(shared), *shared.interval) == pytest.approx(
                (float(alone), *alone.interval), abs=0, nan_ok=True
            )
