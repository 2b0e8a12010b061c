"""The state is the same bytes for any block size, order, merge tree and thread count, and its
numbers are right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from probaudit import Cost, InputError, Predictions
from probaudit.engines.memory import gather
from probaudit.kernels.grid_cells import cells_of_one
from probaudit.states import CELLS, Plan, Statistics
from probaudit.states.evidence import EvidenceState
from tests.conftest import softmax

N = 1_500


def make(classes: int, dtype: type, kind: str, weighted: bool, bad: bool = False) -> Predictions:
    rng = np.random.default_rng(classes)
    z = rng.normal(scale=4, size=(N, classes)).astype(dtype)
    y = rng.integers(0, classes, N)
    weights = rng.gamma(0.5, 100.0, N) if weighted else None
    values = {"logits": z, "log_probs": np.log(softmax(z.astype(np.float64))).astype(dtype)}.get(
        kind
    )
    if values is None:
        values = softmax(z.astype(np.float64)).astype(dtype)
        values[3] = np.eye(classes)[0]
        y[3] = 1
    if bad:
        values[5, 0], y[7], y[8] = np.nan, -1, classes
        if weights is not None:
            weights[9], weights[10] = -1.0, 0.0
    return Predictions(
        y,
        values,
        from_logits=kind == "logits",
        from_log_probs=kind == "log_probs",
        sample_weight=weights,
        on_bad_rows="drop",
        tolerance=1e-4,
    )


def state_of(rows: Predictions, plan: Plan, size: int, order: str) -> Statistics:
    starts = list(range(0, len(rows), size))
    if order == "reversed":
        starts.reverse()
    elif order == "shuffled":
        starts = np.random.default_rng(0).permutation(starts).tolist()
    state = Statistics.empty(plan)
    for start in starts:
        state.update(rows.block(start, start + size))
    return state


CASES = [
    *itertools.product([2, 3, 40], [np.float64, np.float32], ["probs", "logits"], [False, True]),
    (10, np.float64, "log_probs", False),
    (40, np.float32, "log_probs", True),
    (300, np.float32, "probs", True),
    (300, np.float64, "logits", False),
]


@pytest.mark.parametrize(("classes", "dtype", "kind", "weighted"), CASES)
def test_same_bytes_for_any_cut_order_and_thread_count(classes, dtype, kind, weighted):
    rows = make(classes, dtype, kind, weighted, bad=True)
    plan = Plan.of(rows, {"imbalanced": Cost.imbalanced(classes)} if classes <= 40 else {})
    whole = state_of(rows, plan, N, "given").to_bytes()
    for size, order in itertools.product([7, 1000], ["given", "reversed", "shuffled"]):
        assert state_of(rows, plan, size, order).to_bytes() == whole, (size, order)
    few = rows.take(slice(0, 60))
    few_whole = state_of(few, plan, 60, "given").to_bytes()
    for size, order in itertools.product([1, 2, 3], ["given", "reversed", "shuffled"]):
        assert state_of(few, plan, size, order).to_bytes() == few_whole, (size, order)
    for threads in (1, 2, 8):
        assert gather(rows, plan, threads=threads, rows_per_block=100).to_bytes() == whole, threads


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [3, 300])
def test_merge_is_a_law(classes, weighted):
    rows = make(classes, np.float64, "probs", weighted, bad=True)
    plan = Plan.of(rows)
    parts = [Statistics.empty(plan).update(rows.block(i, i + 300)) for i in range(0, N, 300)]
    whole = state_of(rows, plan, N, "given").to_bytes()
    empty = Statistics.empty(plan)
    a, b, c, d, e = parts
    assert ((((a + b) + c) + d) + e).to_bytes() == whole
    assert ((a + b) + ((c + d) + e)).to_bytes() == whole
    assert (e + (d + (c + (b + a)))).to_bytes() == whole
    assert (empty + a).to_bytes() == a.to_bytes() == (a + empty).to_bytes()
    assert (empty + empty).to_bytes() == empty.to_bytes()


def test_an_empty_block_changes_nothing():
    rows = make(3, np.float64, "probs", False)
    plan = Plan.of(rows)
    state = Statistics.empty(plan).update(rows.block(0, 100))
    before = state.to_bytes()
    assert state.update(rows.block(50, 50)).to_bytes() == before


def test_states_of_different_plans_do_not_merge():
    rows = make(3, np.float64, "probs", False)
    with pytest.raises(InputError, match="same plan"):
        Statistics.empty(Plan.of(rows)).merge(Statistics.empty(Plan.of(rows, reject_cost=0.2)))


def test_a_refused_block_leaves_no_trace():
    good = make(3, np.float64, "probs", True)
    rows = Predictions(good.y, good.probs, sample_weight=good.sample_weight)
    plan = Plan.of(rows)
    state = Statistics.empty(plan).update(rows.block(0, 700))
    before = state.to_bytes()
    spoilt = good.probs.copy()
    spoilt[900] = np.nan
    bad = Predictions(good.y, spoilt, sample_weight=good.sample_weight)
    with pytest.raises(InputError) as error:
        state.update(bad.block(700, 1400))
    assert error.value.row == 900
    assert state.to_bytes() == before


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_first_bad_row_is_named_whatever_the_threads(threads):
    good = make(3, np.float64, "probs", False)
    probs = good.probs.copy()
    probs[[1400, 333, 700]] = 0.5
    rows = Predictions(good.y, probs)
    with pytest.raises(InputError) as error:
        gather(rows, Plan.of(rows), threads=threads, rows_per_block=50)
    assert error.value.row == 333
    assert (
        str(error.value)
        == "`probs`: a row must sum to 1 within 1e-05 (row 333: sums to 1.5). If rows are rounded,"
        ' raise `tolerance` or leave them out with `on_bad_rows="drop"`.'
    )


def oracle(rows: Predictions) -> tuple[np.ndarray, ...]:
    """Probabilities, labels and weights of the good rows, in plain numpy."""
    values, y = rows.probs.astype(np.float64), rows.codes
    w = np.ones(len(rows)) if rows.sample_weight is None else rows.sample_weight
    good = (y >= 0) & (y < rows.n_classes) & ~np.isnan(values).any(axis=1) & (w > 0)
    values = values[good]
    p = (
        softmax(values)
        if rows.kind == "logits"
        else np.exp(values)
        if rows.kind == "log_probabilities"
        else values
    )
    return p, y[good], w[good]


@pytest.mark.parametrize(("classes", "dtype", "kind", "weighted"), CASES)
def test_sums_agree_with_numpy(classes, dtype, kind, weighted):
    rows = make(classes, dtype, kind, weighted, bad=True)
    plan = Plan.of(rows)
    found = gather(rows, plan).finalise()
    p, y, w = oracle(rows)
    n, w = len(y), np.ldexp(w, -(plan.weight_exponent or 0))
    q, top = p[np.arange(n), y], p.max(axis=1)
    with np.errstate(divide="ignore"):
        logs = -np.log(q)
    finite = np.isfinite(logs)
    logs[~finite] = 0
    brier = ((p - np.eye(classes)[y]) ** 2).sum(axis=1)

    def by_class(x):
        return np.bincount(y, x, minlength=classes)

    close = {"rtol": 1e-10, "atol": 1e-12}
    assert found.rows == n
    assert found.bad == {"label": 2, "weight": int(weighted), "value": 1, "sum": 0}
    for sums, s in ((found.log, logs), (found.brier, brier)):
        np.testing.assert_array_equal(sums.rows, np.bincount(y, minlength=classes))
        np.testing.assert_allclose(sums.weight, by_class(w), **close)
        np.testing.assert_allclose(sums.weight_squared, by_class(w**2), **close)
        np.testing.assert_allclose(sums.score, by_class(w * s), **close)
        np.testing.assert_allclose(sums.score_cross, by_class(w**2 * s), **close)
        np.testing.assert_allclose(
            sums.score_squared, by_class((w * s) ** 2), rtol=1e-9, atol=1e-11
        )
    assert found.log.infinite.sum() == (~finite).sum() == (1 if kind == "probs" else 0)
    np.testing.assert_allclose(found.outputs, w @ p, **close)
    np.testing.assert_allclose(
        found.ranks, np.bincount((p > q[:, None]).sum(axis=1), w, minlength=classes), **close
    )
    arg = p.argmax(axis=1)
    table = np.zeros((classes, classes))
    np.add.at(table, (y, arg), w)
    np.testing.assert_allclose(found.argmax.matrix(), table, **close)
    rejecting = np.zeros((classes, classes + 1))
    np.add.at(rejecting, (y, np.where(1 - top > 0.1, classes, arg)), w)
    np.testing.assert_allclose(found.reject.matrix(), rejecting, **close)
    cell = np.minimum((top * cells_of_one(CELLS)).astype(int), CELLS - 1)
    for column, values in (
        ("weight", w),
        ("confidence", w * top),
        ("hits", w * (arg == y)),
        ("log", w * logs),
    ):
        np.testing.assert_allclose(
            getattr(found.grid, column),
            np.bincount(cell, values, minlength=CELLS),
            rtol=1e-9,
            atol=1e-9,
        )
    np.testing.assert_allclose(
        found.grid.brier, np.bincount(cell, w * brier, minlength=CELLS), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(found.grid.rows, np.bincount(cell, minlength=CELLS))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("classes", "kind"), [(2, "probs"), (3, "logits"), (40, "probs"), (40, "log_probs")]
)
def test_decisions_under_costs_agree_with_numpy(classes, kind, weighted):
    rows = make(classes, np.float64, kind, weighted, bad=True)
    cost = Cost(np.random.default_rng(0).random((classes, classes + 2)))
    plan = Plan.of(rows, {"mine": cost})
    found = gather(rows, plan).finalise().costs["mine"]
    p, y, w = oracle(rows)
    table = np.zeros((classes, classes + 2))
    np.add.at(
        table, (y, (p @ cost.matrix).argmin(axis=1)), np.ldexp(w, -(plan.weight_exponent or 0))
    )
    np.testing.assert_allclose(found.matrix(), table, rtol=1e-10, atol=1e-12)


def test_equal_values_rank_and_decide_by_the_lower_index():
    rows = Predictions([0, 1, 2, 2], np.full((4, 3), 1 / 3))
    found = gather(rows, Plan.of(rows)).finalise()
    np.testing.assert_array_equal(found.ranks, [1, 1, 2])
    np.testing.assert_array_equal(found.argmax.matrix()[:, 0], [1, 1, 2])


def test_confidence_pairs_judge_the_stated_answer():
    rows = Predictions.from_confidence([0.9, 0.3, 0.6], [True, True, False])
    found = gather(rows, Plan.of(rows)).finalise()
    assert found.argmax.matrix().tolist() == [[0, 1], [0, 2]]
    cells = np.flatnonzero(found.grid.rows)
    np.testing.assert_allclose(found.grid.confidence[cells], [0.3, 0.6, 0.9])
    np.testing.assert_array_equal(found.grid.hits[cells], [1, 0, 1])


def test_large_log_scores_keep_their_digits():
    z = np.array([[0.0, -1000.25], [0.0, -1e6], [0.5, 0.0]])
    rows = Predictions([1, 1, 0], z, from_logits=True)
    found = gather(rows, Plan.of(rows)).finalise()
    np.testing.assert_allclose(found.log.score, [np.log1p(np.exp(-0.5)), 1001000.25], rtol=1e-15)
    np.testing.assert_allclose(found.log.score_squared[1], 1000.25**2 + 1e12, rtol=1e-14)


def two_class_rows(kind, dtype, n=2_000):
    """Rows of two classes, of which tiles are plain, or have what a plain tile must not have."""
    rng = np.random.default_rng(7)
    p = (rng.random(n) if kind != "edges" else rng.integers(0, 16_801, n) / 16_800).astype(dtype)
    y = (rng.random(n) < p).astype(np.int8)
    probs = np.stack([1 - p, p])
    if kind == "ties":
        probs[:, ::3] = 0.5
    if kind == "sure":  # infinite and large log scores
        probs[:, ::50], probs[:, 1::50] = [[0], [1]], [[1e-9], [1 - 1e-9]]
    if kind == "negative zero":
        probs[:, ::100] = [[-0.0], [1.0]]
    if kind == "loose":
        probs *= 1 + 1e-6 * rng.standard_normal(n).astype(dtype)
    if kind == "bad":
        probs[1, ::500], y[3::700] = np.nan, 2
    return y, probs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kind", ["plain", "edges", "ties", "sure", "negative zero", "loose", "bad"]
)
def test_a_plain_tile_adds_what_its_rows_add_in_stages(kind, dtype):
    """Blocks of less than a tile never take the short way; labels of a byte are those of eight."""
    y, probs = two_class_rows(kind, dtype)
    rows = Predictions(y, probs.T, on_bad_rows="drop", tolerance=1e-4)
    plan = Plan.of(rows)
    whole, by_column, staged = (EvidenceState(plan) for _ in range(3))
    whole.update(rows.block(0, len(rows)))
    block = rows.block(0, len(rows), by_column=True)
    assert block.by_column
    assert block.labels.dtype == np.int8
    by_column.update(block)
    for first in range(0, len(rows), 100):
        staged.update(rows.block(first, first + 100))
    assert whole.to_bytes() == staged.to_bytes()
    assert by_column.to_bytes() == staged.to_bytes()
