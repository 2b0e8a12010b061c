"""The edge list, over every score, against scores computed a row at a time in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

import probaudit as pb
from tests.scoring.score_oracle import (
    SCORES,
    estimate,
    mean_score,
    row_scores,
    scores_for,
    two_columns,
)

TINY, BELOW_ONE = 5e-324, 1 - 2**-53
RNG = np.random.default_rng(20)
P2 = RNG.dirichlet([1, 1], 40)
P3 = RNG.dirichlet([0.3, 1, 2], 40)
Y2, Y3 = RNG.integers(0, 2, 40), RNG.integers(0, 3, 40)
W = RNG.exponential(size=40)
WIDE = RNG.dirichlet(np.full(10_000, 0.1), 6)
WIDE_Y = np.array([0, 9_999, 7, int(WIDE[3].argmax()), 5_000, 7])


def thirds(total):
    """Rows of three classes that sum to this much."""
    return np.array([[0.2, 0.3, total - 0.5], [total - 0.3, 0.1, 0.2]])


def halves(total):
    return np.array([[0.3, total - 0.3], [total - 0.25, 0.25]])


# name: labels, probabilities, weights
CASES = {
    "0 and 1, right": ([0, 1], [[1.0, 0.0], [0.0, 1.0]], None),
    "0 and 1, right, one dimension": ([0, 1], [0.0, 1.0], None),
    "0 and 1, one wrong": ([0, 1, 1], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], None),
    "0 and 1, one wrong, one dimension": ([0, 1, 0], [0.0, 1.0, 1.0], None),
    "0 and 1, all wrong": ([1, 0], [[1.0, 0.0], [0.0, 1.0]], None),
    "0 and 1, three classes": ([0, 2, 1], [[1.0, 0, 0], [0, 0, 1], [0, 1, 0]], None),
    "0 and 1, three classes, wrong": ([1, 2, 1], [[1.0, 0, 0], [0, 0, 1], [0, 1, 0]], None),
    "least number, wrong": ([0, 1], [[TINY, 1.0], [1.0, TINY]], None),
    "least number, right": ([1, 0], [[TINY, 1.0], [1.0, TINY]], None),
    "least number, one dimension": ([0, 1], [TINY, TINY], None),
    "least number, three classes": ([1, 2], [[1.0, TINY, 0], [0, 1.0, TINY]], None),
    "just below 1, right": ([1, 0], [[2**-53, BELOW_ONE], [BELOW_ONE, 2**-53]], None),
    "just below 1, wrong": ([0, 1], [[2**-53, BELOW_ONE], [BELOW_ONE, 2**-53]], None),
    "just below 1, one dimension": ([0, 1], [BELOW_ONE, BELOW_ONE], None),
    "1e-20, wrong": ([0, 1], [[1e-20, 1.0], [1.0, 1e-20]], None),
    "one row": ([1], [[0.3, 0.7]], None),
    "one row, one dimension": ([0], [0.7], None),
    "two rows": ([1, 1], [[0.3, 0.7], [0.9, 0.1]], None),
    "two equal rows": ([1, 1], [[0.3, 0.7], [0.3, 0.7]], None),
    "constant, both classes": ([0, 1] * 3000, np.full(6000, 0.3), None),
    "a tie": ([0, 1], [[0.5, 0.5], [0.5, 0.5]], None),
    "first class absent": (np.ones(40, int), P2, None),
    "last class absent": (Y3 % 2, P3, None),
    "sum 1 + 1e-6": ([0, 1], halves(1 + 1e-6), None),
    "sum 1 - 1e-6": ([0, 1], halves(1 - 1e-6), None),
    "sum 1 + 1e-6, three classes": ([0, 1], thirds(1 + 1e-6), None),
    "sum 1 - 1e-6, three classes": ([0, 1], thirds(1 - 1e-6), None),
    "ten thousand classes": (WIDE_Y, WIDE, None),
    "ten thousand classes, certain": (
        [0, 9_999],
        csr_array(([0.75, 0.25] * 2, ([0, 0, 1, 1], [0, 1, 0, 9_999]))).toarray(),
        None,
    ),
    "weights": (Y3, P3, W),
    "weights, two classes": (Y2, P2, W),
    "some weights zero": (Y2, P2, W * (W > 1)),
    "huge weights": (Y2, P2, W * 1e300),
    "subnormal weights": (Y2, P2, np.full(40, 1e-320)),
    "integer weights": (Y3, P3, np.arange(40)),
}


# Sums are kept to 2^-58 of the largest weight: what weighs less cannot show in a mean over all
# rows, nor be seen alone.
UNEVEN = {
    "weights far apart": (Y2, P2, np.where(np.arange(40) % 2, 1e300, 1e-320)),
    "one class weighs little": (Y2, P2, np.where(Y2, 1e-9, 1.0)),
    "one class weighs next to nothing": (Y2, P2, np.where(Y2, 1e-25, 1.0)),
    "an infinite row weighs next to nothing": ([0, 1], [[0.8, 0.2], [1.0, 0.0]], [1.0, 1e-25]),
}


def both(p):
    return two_columns(p) if np.ndim(p) == 1 else np.asarray(p)


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case, (_, p, _) in CASES.items() for name in scores_for(both(p).shape[1])],
)
def test_value(case, name):
    y, p, w = CASES[case]
    q = both(p)
    score = SCORES[name](q.shape[1])
    found = estimate(score, y, p, sample_weight=w)
    s = row_scores(score, y, q)
    counted = np.ones(len(s), bool) if w is None else np.asarray(w) > 0
    # A sum of rows is exact to 2^-50 a row, which is what a value near zero can be held to.
    assert float(found) == pytest.approx(mean_score(score, y, q, w), rel=1e-12, abs=2**-50)
    assert found.infinite_rows == np.isinf(s[counted]).sum()
    assert found.n == counted.sum()
    classes = range(q.shape[1])
    rows_of = {c: counted & (np.asarray(y) == c) for c in classes[:3]}
    for c, rows in rows_of.items():
        if rows.any():
            expected = mean_score(
                score, np.asarray(y)[rows], q[rows], None if w is None else np.asarray(w)[rows]
            )
            assert found.per_class[c] == pytest.approx(expected, rel=1e-12, abs=2**-50)
        else:
            assert math.isnan(found.per_class[c])


@pytest.mark.parametrize("name", scores_for(2))
@pytest.mark.parametrize("case", UNEVEN)
def test_weights_of_very_different_size(case, name):
    y, p, w = UNEVEN[case]
    score = SCORES[name](2)
    found = estimate(score, y, p, sample_weight=w)
    assert float(found) == pytest.approx(mean_score(score, y, p, w), rel=1e-12, abs=2**-50)


def test_a_prior_for_a_class_of_no_weight_is_refused():
    y, p, w = UNEVEN["one class weighs next to nothing"]
    with pytest.raises(pb.InputError, match="must have rows"):
        pb.log_score(y, p, sample_weight=w, priors=[0.5, 0.5])


EXACT = RNG.multinomial(1024, [0.2, 0.8], 30) / 1024  # the same numbers in all three formats
EXACT[:3] = [[1, 2**-24], [1, 2**-24], [1, 0]]
EXACT_Y = np.r_[1, 0, 0, RNG.integers(0, 2, 27)]


@pytest.mark.parametrize("name", scores_for(2))
@pytest.mark.parametrize("wrong", [False, True], ids=["finite", "a zero"])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_format_changes_nothing_that_it_can_hold(name, wrong, columns):
    y = np.r_[EXACT_Y, [1] * wrong].astype(int)
    p = np.vstack([EXACT, [[1.0, 0.0]]]) if wrong else EXACT
    p = p if columns == 2 else p[:, 1]
    score = SCORES[name](2)
    found = [
        estimate(score, y, p.astype(dtype), tolerance=1e-5)
        for dtype in (np.float64, np.float32, np.float16)
    ]
    assert found[0] == pytest.approx(mean_score(score, y, both(p)), rel=1e-12, abs=2**-50)
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert [x.infinite_rows for x in found] == [
        wrong * (score.by_class(np.array([1.0, 0.0]))[1] == math.inf)
    ] * 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f4", ">f2"])
@pytest.mark.parametrize(
    ("name", "columns"), [(n, k) for k in (1, 2, 3) for n in scores_for(max(k, 2))]
)
def test_a_coarse_format_is_taken_at_its_word(name, dtype, columns):
    y, p = (Y3, P3) if columns == 3 else (Y2, P2)
    p = (p[:, 1] if columns == 1 else p).astype(dtype)
    q = both(p).astype(np.float64)
    score = SCORES[name](q.shape[1])
    assert float(estimate(score, y, p)) == pytest.approx(mean_score(score, y, q), rel=1e-12)


def with_row(p, row, values):
    p = p.copy()
    p[row] = values
    return p


def with_value(a, row, value):
    a = np.array(a, np.float64)
    a[row] = value
    return a


NAN, INF = math.nan, math.inf
# name: argument at fault, row at fault, labels, probabilities, weights
BAD_ROWS = {
    "NaN in p": ("y_proba", 3, Y2, with_row(P2, 3, [NAN, 0.5]), None),
    "NaN in p, one dimension": ("y_proba", 3, Y2, with_row(P2[:, 1], 3, NAN), None),
    "inf in p": ("y_proba", 0, Y2, with_row(P2, 0, [INF, 0.5]), None),
    "inf and -inf in p": ("y_proba", 39, Y2, with_row(P2, 39, [INF, -INF]), None),
    "negative p": ("y_proba", 3, Y2, with_row(P2, 3, [-1e-3, 1 + 1e-3]), None),
    "p above 1, one dimension": ("y_proba", 3, Y2, with_row(P2[:, 1], 3, 1.1), None),
    "float32 NaN": ("y_proba", 3, Y2, with_row(P2.astype("f4"), 3, [NAN, NAN]), None),
    "sum .94": ("y_proba", 3, Y2, with_row(P2, 3, [0.5, 0.44]), None),
    "sum .94 in float16": ("y_proba", 3, Y2, with_row(P2.astype("f2"), 3, [0.5, 0.44]), None),
    "sum 1 + 1e-3": ("y_proba", 3, Y2, with_row(P2, 3, [0.5, 0.501]), None),
    "sum 1 - 1e-3": ("y_proba", 3, Y2, with_row(P2, 3, [0.5, 0.499]), None),
    "sum 1 - 1e-3 in float32": ("y_proba", 3, Y2, with_row(P2.astype("f4"), 3, [0.5, 0.499]), None),
    "NaN in y": ("y_true", 5, with_value(Y2, 5, NAN), P2, None),
    "inf in y": ("y_true", 5, with_value(Y2, 5, INF), P2, None),
    "half in y": ("y_true", 5, with_value(Y2, 5, 0.5), P2, None),
    "label K": ("y_true", 5, with_value(Y2, 5, 2).astype(np.uint8), P2, None),
    "label -1": ("y_true", 5, with_value(Y2, 5, -1).astype(np.int8), P2, None),
    "label 2^64 - 1": (
        "y_true",
        0,
        np.r_[np.uint64(2**64 - 1), Y2[1:].astype(np.uint64)],
        P2,
        None,
    ),
    "NaN in w": ("sample_weight", 7, Y2, P2, with_value(W, 7, NAN)),
    "inf in w": ("sample_weight", 7, Y2, P2, with_value(W, 7, INF)),
    "negative w": ("sample_weight", 7, Y2, P2, with_value(W, 7, -1)),
    "huge negative w among tiny": (
        "sample_weight",
        7,
        Y2,
        P2,
        with_value(np.full(40, 1e-320), 7, -1e300),
    ),
    "three classes, NaN": ("y_proba", 3, Y3, with_row(P3, 3, [NAN, 0.5, 0.5]), None),
    "three classes, sum .94": ("y_proba", 3, Y3, with_row(P3, 3, [0.5, 0.4, 0.04]), None),
    "ten thousand classes, NaN": ("y_proba", 2, WIDE_Y, with_row(WIDE, (2, 8_000), NAN), None),
    "ten thousand classes, sum 1 + 1e-3": (
        "y_proba",
        2,
        WIDE_Y,
        with_row(WIDE, (2, 8_000), WIDE[2, 8_000] + 1e-3),
        None,
    ),
}


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case, bad in BAD_ROWS.items() for name in scores_for(both(bad[3]).shape[1])],
)
def test_a_bad_row_is_named_or_dropped(case, name):
    argument, row, y, p, w = BAD_ROWS[case]
    score = SCORES[name](both(p).shape[1])
    with pytest.raises(pb.InputError) as caught:
        estimate(score, y, p, sample_weight=w)
    assert (caught.value.argument, caught.value.row) == (argument, row)
    found = estimate(score, y, p, sample_weight=w, on_bad_rows="drop")
    rest = np.arange(len(y)) != row
    expected = estimate(score, y[rest], p[rest], sample_weight=None if w is None else w[rest])
    assert (found, found.n) == (expected, len(y) - 1)


# name: argument at fault, labels, probabilities, options
REFUSED = {
    "no rows": ("y_proba", np.empty(0, int), np.empty((0, 2)), {}),
    "no rows, one dimension": ("y_proba", [], [], {}),
    "all weights zero": ("y_proba", [0, 1], [0.5, 0.5], {"sample_weight": [0, 0]}),
    "too few labels": ("y_true", [0], [0.5, 0.5], {}),
    "too many weights": ("sample_weight", [0, 1], [0.5, 0.5], {"sample_weight": [1, 1, 1]}),
    "words without `classes`": ("y_true", ["a", "b"], [0.5, 0.5], {}),
    "a class twice": ("classes", ["a", "b"], [0.5, 0.5], {"classes": ["a", "a"]}),
    "a class too many": ("classes", ["a", "b"], [0.5, 0.5], {"classes": ["a", "b", "c"]}),
    "every row bad": ("y_proba", [0, 1], [NAN, NAN], {"on_bad_rows": "drop"}),
    "a prior for an absent class": ("priors", [0, 0], [0.5, 0.5], {"priors": [0.5, 0.5]}),
    "priors that sum to .9": ("priors", [0, 1], [0.5, 0.5], {"priors": [0.5, 0.4]}),
    "negative prior": ("priors", [0, 1], [0.5, 0.5], {"priors": [-0.5, 1.5]}),
    "NaN prior": ("priors", [0, 1], [0.5, 0.5], {"priors": [NAN, 0.5]}),
    "a prior too many": ("priors", [0, 1], [0.5, 0.5], {"priors": [0.5, 0.25, 0.25]}),
}


@pytest.mark.parametrize("name", scores_for(2))
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, name):
    argument, y, p, options = REFUSED[case]
    with pytest.raises(pb.InputError) as caught:
        estimate(SCORES[name](2), y, p, **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    "costs",
    [[1, 2], [[0, 1]], [[], []], [[0, NAN], [1, 0]], [[0, INF], [1, 0]], np.zeros((3, 3)), "01"],
)
def test_costs_that_are_none(costs):
    with pytest.raises(pb.InputError) as caught:
        pb.bayes_risk([0, 1], [0.5, 0.5], costs)
    assert caught.value.argument == "costs"


@pytest.mark.parametrize("parameters", [{"a": 0}, {"b": -1}, {"a": NAN}, {"b": INF}])
def test_weights_of_thresholds_that_are_none(parameters):
    with pytest.raises(pb.InputError) as caught:
        pb.risk_weighted_score([0, 1], [0.5, 0.5], **parameters)
    assert caught.value.argument in parameters


def memory_mapped(a, folder):
    target = np.memmap(
        folder / f"{a.dtype.str[1:]}{a.ndim}{len(list(folder.iterdir()))}",
        a.dtype,
        "w+",
        shape=a.shape,
    )
    target[...] = a
    target.flush()
    return np.memmap(target.filename, a.dtype, "r", shape=a.shape)


def read_only(a, _):
    a = a.copy()
    a.flags.writeable = False
    return a


def strided(a, _):
    wide = np.zeros([2 * size for size in a.shape], a.dtype)
    part = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    part[...] = a
    return part


LAYOUTS = {
    "read-only": read_only,
    "Fortran": lambda a, _: np.asfortranarray(a),
    "big-endian": lambda a, _: a.astype(a.dtype.newbyteorder(">")),
    "memory-mapped": memory_mapped,
    "strided": strided,
    "backwards": lambda a, _: a[::-1].copy()[::-1],
    "lists": lambda a, _: a.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("classes", "name"), [(k, name) for k in (2, 3) for name in scores_for(k)])
def test_layout_changes_nothing(layout, classes, name, tmp_path):
    y, p = (Y2, P2) if classes == 2 else (Y3, P3)
    score = SCORES[name](classes)
    expected = estimate(score, y, p, sample_weight=W)
    y, p, w = (LAYOUTS[layout](a, tmp_path) for a in (y, p, W))
    found = estimate(score, y, p, sample_weight=w)
    assert (found, found.interval, found.per_class) == (
        expected,
        expected.interval,
        expected.per_class,
    )


# name: labels made of the column numbers, and `classes`
LABELS = {
    "int8": (lambda y: y.astype(np.int8), None),
    "uint8": (lambda y: y.astype(np.uint8), None),
    "big-endian int16": (lambda y: y.astype(">i2"), None),
    "whole floats": (lambda y: y.astype(np.float32), None),
    "bool": (lambda y: y.astype(bool), None),
    "bool in other order": (lambda y: ~y.astype(bool), [True, False]),
    "str": (lambda y: np.array(["no", "yes"])[y], ["no", "yes"]),
    "str, unsorted": (lambda y: np.array(["z", "a"])[y], ["z", "a"]),
    "str of unlike length": (lambda y: np.array(["a", "abc"])[y], ["a", "abc"]),
    "str as objects": (lambda y: np.array(["z", "a"], object)[y], ["z", "a"]),
    "int, unsorted": (lambda y: np.array([7, -3])[y], [7, -3]),
    "uint8 up to 255": (lambda y: np.array([255, 0], np.uint8)[y], [255, 0]),
    "one column": (lambda y: y[:, None], None),
}


@pytest.mark.parametrize("name", scores_for(2))
@pytest.mark.parametrize("case", LABELS)
def test_label_types(case, name):
    make, labels = LABELS[case]
    score = SCORES[name](2)
    expected, found = estimate(score, Y2, P2), estimate(score, make(Y2), P2, classes=labels)
    assert (found, list(found.per_class.values())) == (expected, list(expected.per_class.values()))
    if labels is not None:
        assert list(found.per_class) == labels


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
@pytest.mark.parametrize("name", scores_for(256))
def test_small_integers_count_256_classes(name, dtype):
    y = np.r_[255, 128, 127, 0].astype(dtype)
    p = np.full((4, 256), 0.5 / 255)
    p[[0, 1, 2, 3], [255, 128, 127, 1]] = 0.5
    score = SCORES[name](256)
    assert float(estimate(score, y, p)) == pytest.approx(
        mean_score(score, y.astype(int), p), rel=1e-12
    )
