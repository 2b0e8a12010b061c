"""The k-d tree against a plain recursion."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probaudit as pb

law = settings(max_examples=100, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
splits = st.sampled_from(["mean", "median"])


def plain_cells(points, least, split):
    """The tree as one would write it; exact if the points are integers."""

    def grow(rows):
        box, n = points[rows], len(rows)
        if n < max(2, least):
            return [rows]
        whole = np.issubdtype(points.dtype, np.integer)
        spread = n * (box**2).sum(axis=0) - box.sum(axis=0) ** 2 if whole else box.var(axis=0)
        values = box[:, spread.argmax()]
        low = values * n < values.sum() if split == "mean" else values < np.median(values)
        if not low.any():
            low = values == values.min()
        return [rows] if low.all() else grow(rows[low]) + grow(rows[~low])

    found = np.empty(len(points), np.int64)
    for cell, rows in enumerate(grow(np.arange(len(points)))):
        found[rows] = cell
    return found


@law
@given(
    seeds,
    st.integers(1, 80),
    st.integers(1, 6),
    st.integers(0, 8),
    splits,
    st.sampled_from([1, 2, 3, 10]),
)
def test_ties(seed, n, d, most, split, least):
    """Multiples of 1/64 have exact sums, so that equal variances and values at the cut are the same
    for both."""
    points = np.random.default_rng(seed).integers(0, most, (n, d), endpoint=True)
    points[:, 0] = 5
    tree = pb.KDTree(min_rows=least, split=split)
    expected = plain_cells(points, least, split)
    for dtype in (np.float64, np.float32):
        np.testing.assert_array_equal(tree.cells((points / 64).astype(dtype)), expected)


@law
@given(seeds, st.integers(1, 3000), st.integers(3, 9), splits, st.sampled_from([0.01, 0.1, 1.0]))
def test_points_without_ties(seed, n, d, split, gamma):
    points = np.random.default_rng(seed).dirichlet(np.full(d, 0.5), n).astype(np.float32)
    tree = pb.KDTree(gamma, split=split)
    expected = plain_cells(points.astype(np.float64), gamma * n, split)
    np.testing.assert_array_equal(tree.cells(points), expected)
    np.testing.assert_array_equal(tree.cells(points.astype(np.float64)), expected)


@pytest.mark.parametrize("split", ["mean", "median"])
@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9])
def test_close_rows_among_distant_ones(split, scale):
    """The variances of the close rows are far below the last bit of those of all rows."""
    rng = np.random.default_rng(0)
    points = np.where(
        rng.random((4000, 1)) < 0.3, rng.random((4000, 5)), 0.5 + scale * rng.random((4000, 5))
    )
    np.testing.assert_array_equal(
        pb.KDTree(min_rows=20, split=split).cells(points), plain_cells(points, 20, split)
    )


@law
@given(seeds, st.integers(1, 60), splits)
def test_a_single_event(seed, n, split):
    outputs = np.random.default_rng(seed).integers(0, 16, n, endpoint=True)
    expected = plain_cells(np.column_stack([16 - outputs, outputs]), 2, split)
    for dtype in (np.float64, np.float32):
        np.testing.assert_array_equal(
            pb.KDTree(min_rows=2, split=split).cells((outputs / 16).astype(dtype)), expected
        )


@pytest.mark.parametrize("split", ["mean", "median"])
def test_ties_at_the_smallest_value_do_not_stop_the_median(split):
    outputs = np.column_stack([np.repeat([0.125, 0.25, 0.5], [6, 2, 2]), np.zeros(10)])
    np.testing.assert_array_equal(
        pb.KDTree(min_rows=2, split=split).cells(outputs), np.repeat([0, 1, 2], [6, 2, 2])
    )


def test_few_rows():
    tree = pb.KDTree(min_rows=1)
    assert tree.cells(np.empty((0, 3))).tolist() == []
    assert tree.cells(np.array([[0.2, 0.8]])).tolist() == [0]
    assert tree.cells(np.array([[0.75, 0.25], [0.25, 0.75]])).tolist() == [1, 0]
    assert tree.cells(np.array([0.25])).tolist() == [0]


def test_a_lopsided_tree():
    """Every split at the mean separates one row, the highest or the lowest, from all others."""
    points = 2.0 ** -np.arange(500.0)[:, None]
    np.testing.assert_array_equal(pb.KDTree(min_rows=2).cells(points), np.arange(500)[::-1])
    np.testing.assert_array_equal(pb.KDTree(min_rows=2).cells(-points), np.arange(500))


def test_layout_and_threads_do_not_matter():
    points = np.random.default_rng(0).dirichlet(np.full(20, 0.3), 5000)
    tree = pb.KDTree(2**-6)
    expected = tree.cells(points)
    np.testing.assert_array_equal(tree.cells(np.asfortranarray(points)), expected)
    np.testing.assert_array_equal(tree.cells(points.astype(">f8")), expected)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(tree.cells, [points] * 12):
            np.testing.assert_array_equal(found, expected)


def test_float32_is_summed_in_float64():
    """The second axis is the wider one, by less than float32 can tell."""
    points = np.array([[1, 1], [2**-30, 1], [1, 0], [2**-30, 0]], np.float32)
    assert pb.KDTree(min_rows=4).cells(points).tolist() == [1, 1, 0, 0]


def test_float32_is_not_copied():
    points = np.random.default_rng(0).random((5000, 50), np.float32)
    tree = pb.KDTree()
    tree.cells(points)
    tracemalloc.start()
    try:
        tree.cells(points)
        assert tracemalloc.get_traced_memory()[1] < points.nbytes / 2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(0,), (0, 2), (0, 10)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_rows(shape, dtype):
    """The root of an empty tree has no first row to read its number from."""
    none = np.empty(shape, dtype)
    for tree in (pb.KDTree(), pb.KDTree(min_rows=1, split="median")):
        cells, nodes, cuts = tree._grow_tree(none)
        assert cells.shape == (0,)
        assert (nodes.tolist(), cuts.tolist()) == ([[-1, 0]], [0.0])
        columns = 1 if none.ndim == 1 else shape[1]
        later = tree.placed(none).cells(np.full((3, columns), 0.5, dtype).squeeze())
        assert later.tolist() == [0, 0, 0]
