"""The state of an audit: the same bytes for any cutting, order and merge tree; kept in files; rows
never counted twice."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from probaudit import Cost, InputError, Predictions
from probaudit.choices.lenses import Binary, Classwise, TopK, TopLabel
from probaudit.engines.memory import gather
from probaudit.states import COARSE_CELLS, AuditState, EventGrid, Plan, evidence, sample_size
from probaudit.states.covered import Covered
from probaudit.states.sampling import drawn, priority
from tests.conftest import softmax

N = 400
SAMPLE = 50


def make(classes=3, dtype=np.float64, kind="probs", weighted=False, bad=True, n=N) -> Predictions:
    rng = np.random.default_rng(classes)
    z = rng.normal(scale=3, size=(n, classes)).astype(dtype)
    y = rng.integers(0, classes, n)
    values = z if kind == "logits" else softmax(z.astype(np.float64)).astype(dtype)
    if kind == "log_probs":
        values = np.log(values)
    weights = rng.gamma(0.5, 100.0, n) if weighted else None
    if bad:
        values[5, 0], y[7], y[8] = np.nan, -1, classes
        if weights is not None:
            weights[9], weights[10] = -1.0, 0.0
    options = {
        "sample_weight": weights,
        "on_bad_rows": "drop",
        "tolerance": 1e-2 if dtype is np.float16 else 1e-4,
    }
    if kind == "pairs":
        return Predictions.from_confidence(values[:, 0], (y == 0).astype(int), **options)
    return Predictions(
        y,
        values,
        from_logits=kind == "logits",
        from_log_probs=kind == "log_probs",
        features=rng.normal(size=(n, 2)),
        feature_names=["a", "b"],
        columns={
            "place": np.array(["north", None, "south"], object)[rng.integers(0, 3, n)],
            "day": np.arange(n),
        },
        **options,
    )


def part(rows: Predictions, plan: Plan, first: int, size: int) -> AuditState:
    return AuditState.empty(plan, sample_rows=SAMPLE).update(
        rows.take(slice(first, first + size)), start=first
    )


CASES = [
    *itertools.product([2, 3, 40], [np.float64, np.float32], ["probs", "logits"], [False, True]),
    (2, np.float16, "probs", False),
    (5, np.float64, "log_probs", True),
    (2, np.float64, "pairs", True),
    (2, np.float32, "pairs", False),
    (300, np.float32, "probs", True),
]


@pytest.mark.parametrize(("classes", "dtype", "kind", "weighted"), CASES)
def test_same_bytes_for_any_cut_order_and_tree(classes, dtype, kind, weighted):
    rows = make(classes, dtype, kind, weighted, n=60 if classes > 100 else 150)
    n = len(rows)
    plan = Plan.of(
        rows, {} if kind == "pairs" or classes > 40 else {"mine": Cost.imbalanced(classes)}
    )
    whole = part(rows, plan, 0, n).to_bytes()
    for size in (1, 2, 3, 7) if classes == 3 else (7, 40):
        starts = list(range(0, n, size))
        shuffled = np.random.default_rng(0).permutation(starts).tolist()
        for order in (starts, starts[::-1], shuffled):
            state = AuditState.empty(plan, sample_rows=SAMPLE)
            for start in order:
                state.update(rows.take(slice(start, start + size)), start=start)
            assert state.to_bytes() == whole, (size, order[:3])
    empty = AuditState.empty(plan)
    states = [part(rows, plan, start, 20) for start in range(0, n, 20)]
    assert reduce(lambda a, b: a + b, states).to_bytes() == whole
    assert reduce(lambda a, b: b + a, [empty, *states, empty]).to_bytes() == whole
    while len(states) > 1:  # a balanced tree
        states = [reduce(AuditState.__add__, states[i : i + 2]) for i in range(0, len(states), 2)]
    assert states[0].to_bytes() == whole
    assert (empty + empty).to_bytes() == empty.to_bytes()


@pytest.mark.parametrize(("classes", "dtype", "kind", "weighted"), CASES)
def test_it_is_the_same_after_it_was_saved(tmp_path, classes, dtype, kind, weighted):
    rows = make(classes, dtype, kind, weighted)
    plan = Plan.of(rows, {} if kind == "pairs" else {"mine": Cost.imbalanced(classes)})
    state = part(rows, plan, 0, 300)
    state.save(tmp_path / "state.npz")
    again = AuditState.load(tmp_path / "state.npz")
    assert again.plan == plan
    assert again.to_bytes() == state.to_bytes()
    last = rows.take(slice(300, N))
    assert again.update(last).to_bytes() == state.update(last).to_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "state.npz"]


def test_an_empty_state_can_be_saved():
    plan = Plan.of(make())
    assert (
        AuditState.from_bytes(AuditState.empty(plan).to_bytes()).to_bytes()
        == AuditState.empty(plan).to_bytes()
    )


@pytest.mark.parametrize(("classes", "dtype", "kind", "weighted"), CASES)
def test_the_evidence_is_that_of_rows_in_memory(classes, dtype, kind, weighted):
    rows = make(classes, dtype, kind, weighted)
    plan = Plan.of(rows)
    found = part(rows, plan, 0, N).finalise()
    state = gather(rows, plan)
    assert found.fingerprint == part(rows, plan, 0, N).finalise().fingerprint
    np.testing.assert_array_equal(found.summary.grid.rows, state.finalise().grid.rows)
    good = np.setdiff1d(np.arange(N), [5, 7, 8, 9, 10] if weighted else [5, 7, 8])
    if kind == "pairs":  # an answer to a label of no class is wrong, not bad
        good = np.setdiff1d(np.arange(N), [5, 9, 10] if weighted else [5])
    probs, labels = rows.probabilities(good), rows.codes[good]
    weights = None if not weighted else plan.scaled(rows.sample_weight[good])

    def same(sums, view, cells=16_800):
        expected = EventGrid(cells, weighted=weighted).update(*view, weights).finalise()
        # the less probable of two classes is taken to have what the other leaves of 1, but for its
        # cell
        rounding = (
            min(1 / cells, np.finfo(dtype).eps)
            if classes == 2 and not weighted and kind == "probs"
            else 0
        )
        for name, values in vars(expected).items():
            slack = 1e-9 + rounding * expected.rows * (name == "outputs")
            assert (np.abs(getattr(sums, name) - values) <= slack).all(), name

    same(
        found.top,
        Binary().view(probs, labels) if kind == "pairs" else TopLabel().view(probs, labels),
    )
    assert len(found.classes) == (0 if kind == "pairs" else classes)
    for sums, view in zip(found.classes, Classwise().views(probs, labels), strict=False):
        same(sums, view, 16_800 if classes <= 16 else COARSE_CELLS)
    assert list(found.ranks) == (
        [] if kind == "pairs" else [k for k in (2, 3, 5, 10) if k < classes]
    )
    for k, sums in found.ranks.items():
        outputs, places = TopK(k).view(probs, labels)
        assert sums.rows.sum() == len(good)
        assert sums.hit_rows.sum() == (places < k).sum()
        expected = outputs[:, :-1].sum(axis=1)
        np.testing.assert_allclose(
            sums.outputs.sum(), expected.sum() if weights is None else weights @ expected, rtol=1e-9
        )


def test_the_sample_is_drawn_by_row_numbers_alone():
    rows = make(3, np.float32, weighted=True)
    found = part(rows, Plan.of(rows), 0, N).finalise()
    places = drawn(N, SAMPLE)
    assert found.sampled
    np.testing.assert_array_equal(found.places, places)
    assert len(found.sample) == SAMPLE
    expected = rows.take(places)
    for name in ("codes", "probs", "sample_weight", "features"):
        np.testing.assert_array_equal(getattr(found.sample, name), getattr(expected, name))
        assert getattr(found.sample, name).dtype == getattr(expected, name).dtype
    assert found.sample.feature_names == ("a", "b")
    assert found.sample.columns["place"].tolist() == expected.columns["place"].tolist()
    assert found.sample.columns["day"].tolist() == places.tolist()
    few = AuditState.empty(Plan.of(rows)).update(rows).finalise()
    assert not few.sampled
    assert few.places is None
    np.testing.assert_array_equal(few.sample.probs, rows.probs)


def test_priorities_are_those_of_splitmix64():
    # the first numbers of http://prng.di.unimi.it/splitmix64.c from seed 0
    assert priority(np.arange(3)).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_drawn_is_the_definition():
    for rows, size in (
        (10, 10),
        (10, 20),
        (1000, 10),
        (100_000, 20_000),
        (50_000, 49_999),
        (40_000, 1),
    ):
        expected = np.sort(np.argsort(priority(np.arange(rows)))[:size])
        np.testing.assert_array_equal(drawn(rows, size), expected)


def test_the_sample_is_no_larger_than_said(monkeypatch):
    monkeypatch.setattr(evidence, "SAMPLE_VALUES", 100)
    rows = make(3)
    found = AuditState.empty(Plan.of(rows)).update(rows).finalise()
    assert len(found.sample) == sample_size(3, features=2) == 20


def test_rows_are_never_counted_twice():
    rows = make(3)
    plan = Plan.of(rows)
    state = part(rows, plan, 100, 100)
    before = state.to_bytes()
    for first, size in ((100, 100), (0, 101), (199, 1), (150, 10), (0, N)):
        with pytest.raises(InputError, match="counted twice") as caught:
            state.update(rows.take(slice(first, first + size)), start=first)
        assert caught.value.argument == "start"
        with pytest.raises(InputError, match="counted twice"):
            state.merge(part(rows, plan, first, size))
        assert state.to_bytes() == before
    with pytest.raises(InputError, match="rows 120 to 129 are in the state already"):
        part(rows, plan, 120, 10).merge(state)
    with pytest.raises(InputError, match="row numbers"):
        state.update(rows, start=-1)


def test_rows_without_a_number_follow_the_last():
    rows = make(3)
    plan = Plan.of(rows)
    state = AuditState.empty(plan, sample_rows=SAMPLE)
    for first in range(0, N, 100):
        state.update(rows.take(slice(first, first + 100)))
    assert state.to_bytes() == part(rows, plan, 0, N).to_bytes()


def test_covered_intervals_join():
    starts = np.random.default_rng(0).permutation(range(0, 1000, 10)).tolist()
    covered = Covered((s, s + 10) for s in starts)
    assert list(covered) == [(0, 1000)]
    assert (covered.rows, covered.end) == (1000, 1000)
    for order in itertools.permutations([(0, 2), (2, 5), (7, 9), (5, 6)]):
        assert list(Covered(order)) == [(0, 6), (7, 9)]


def test_a_refused_part_leaves_no_trace():
    good = make(3, bad=False)
    spoilt = good.probs.copy()
    spoilt[250] = 0.5
    rows = Predictions(good.y, spoilt)
    plan = Plan.of(rows)
    state = part(rows, plan, 0, 200)
    before = state.to_bytes()
    with pytest.raises(InputError) as caught:
        state.update(rows.take(slice(200, 300)), start=200)
    assert caught.value.row == 250
    assert state.to_bytes() == before


ODD = {
    "no features": {"features": None, "feature_names": None},
    "other features": {"feature_names": ["a", "c"]},
    "more features": {"features": np.zeros((10, 3)), "feature_names": ["a", "b", "c"]},
    "no columns": {"columns": None},
    "another column": {"columns": {"place": np.arange(10)}},
    "text for numbers": {
        "columns": {"place": np.full(10, "x", object), "day": np.full(10, "monday")}
    },
    "dates for numbers": {
        "columns": {"place": np.full(10, "x", object), "day": np.zeros(10, "M8[D]")}
    },
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("rows_held", [1, SAMPLE])
def test_rows_with_other_parts_leave_no_trace(odd, rows_held):
    """Even if none of them would be sampled."""
    rows = make(3, bad=False)
    state = AuditState.empty(Plan.of(rows), sample_rows=rows_held).update(rows)
    before = state.to_bytes()
    few = rows.take(slice(0, 10))
    options = {"features": few.features, "feature_names": ["a", "b"], "columns": few.columns} | ODD[
        odd
    ]
    with pytest.raises(InputError):
        state.update(Predictions(few.y, few.probs, on_bad_rows="drop", tolerance=1e-4, **options))
    assert state.to_bytes() == before
    assert state.update(few).rows == N + 10


def test_rows_of_another_plan_are_refused():
    rows = make(3)
    state = AuditState.empty(Plan.of(rows))
    with pytest.raises(InputError, match="probabilities, which the state is planned for"):
        state.update(make(3, kind="logits"))
    with pytest.raises(InputError, match=r"\(0, 1, 2\), which the state is planned for"):
        state.update(make(4))
    with pytest.raises(InputError, match="weights, or none"):
        state.update(make(3, weighted=True))
    with pytest.raises(InputError, match="same plan"):
        state.merge(AuditState.empty(Plan.of(rows, reject_cost=0.2)))
    state.update(rows.take(slice(0, 10)))
    bare = Predictions(rows.y, rows.probs, on_bad_rows="drop", tolerance=1e-4)
    with pytest.raises(InputError, match="same parts"):
        state.update(bare)


def test_no_rows_are_no_evidence():
    rows = make(3)
    with pytest.raises(InputError, match="no row was given"):
        AuditState.empty(Plan.of(rows)).finalise()
    with pytest.raises(InputError, match="no row was given"):
        AuditState.empty(Plan.of(rows), sample_rows=10).finalise()
    bad = Predictions([9, 9], [[0.5, 0.5]] * 2, on_bad_rows="drop")
    with pytest.raises(InputError, match="2 rows break the rule for the label"):
        AuditState.empty(Plan.of(bad)).update(bad).finalise()


def damaged(content: bytes):
    """Bytes that are no state, by name."""
    yield "nothing", b""
    yield "text", b"hello" * 100
    yield "half", content[: len(content) // 2]
    yield "a flipped byte", content[:5000] + bytes([content[5000] ^ 255]) + content[5001:]


def test_damaged_states_are_refused(tmp_path):
    rows = make(3)
    content = part(rows, Plan.of(rows), 0, N).to_bytes()
    for name, spoilt in damaged(content):
        with pytest.raises(InputError) as caught:
            AuditState.from_bytes(spoilt)
        assert caught.value.argument == "state", name
    with pytest.raises(InputError, match="readable file"):
        AuditState.load(tmp_path / "missing.npz")
    arrays = dict(np.load(io.BytesIO(content)))

    def changed(**changes):
        np.savez(tmp_path / "x.npz", **(arrays | changes))
        return tmp_path / "x.npz"

    header = json.loads(arrays["json"].tobytes())

    def with_header(**changes):
        return changed(json=np.frombuffer(json.dumps(header | changes).encode(), np.uint8))

    assert AuditState.load(changed()).to_bytes() == content
    for path, words in (
        (
            lambda: with_header(schema="probaudit.state/99"),
            "must be in the format probaudit.state/2",
        ),
        (lambda: with_header(plan={}), "complete file"),
        (lambda: with_header(covered=[[5, 3]]), "row numbers"),
        (lambda: with_header(covered=[[0, 5], [3, 9]]), "counted twice"),
        (lambda: with_header(sample_rows=-1), "at least 1"),
        (lambda: changed(sums=np.zeros((2, 8), np.int64)), "another type or shape"),
        (lambda: changed(sums=arrays["sums"].astype(np.float64)), "another type or shape"),
        (lambda: changed(**{"sample.codes": np.zeros(3)}), "same length"),
        (lambda: changed(**{"sample.codes": np.zeros(SAMPLE)}), "labels and outputs"),
        (lambda: changed(sums=np.array([None, {}], object)), "complete file"),
        (lambda: with_header(plan=7), "complete file"),
        (lambda: with_header(plan=header["plan"] | {"kind": "guesses"}), "valid plan"),
        (lambda: with_header(plan=header["plan"] | {"tolerance": "wide"}), "valid plan"),
        (
            lambda: with_header(plan=header["plan"] | {"classes": [[0], [1], [2]]}),
            "valid plan",
        ),
        (lambda: with_header(plan=header["plan"] | {"weight_exponent": 0.5}), "complete file"),
        (lambda: with_header(covered=[3]), "complete file"),
        (lambda: with_header(sample_rows="many"), "complete file"),
        (lambda: with_header(schema=None), "complete file"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            AuditState.load(path())
        assert caught.value.argument == "state"
        assert "pickle" not in str(caught.value)
        assert "unsafe" not in str(caught.value)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("json.npy", "text")
    with pytest.raises(InputError, match="complete file"):
        AuditState.load(tmp_path / "x.npz")


def test_a_flipped_bit_is_refused_or_harmless():
    """Wherever it is in what zip and numpy say of the arrays: no error but an InputError."""
    rows = make(3, n=60)
    content = part(rows, Plan.of(rows), 0, 60).to_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        heads = [entry.header_offset for entry in archive.infolist()]
        spots = [head + k for head in heads for k in range(200)] + list(
            range(archive.start_dir, len(content))
        )
    rng = np.random.default_rng(0)
    refused = 0
    for spot in rng.choice(spots, 500):
        spoilt = bytearray(content)
        spoilt[spot] ^= 1 << int(rng.integers(8))
        try:
            AuditState.from_bytes(bytes(spoilt))
        except InputError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    "value", [{1}, frozenset("ab"), object()], ids=["set", "frozenset", "object"]
)
def test_columns_that_cannot_be_stored_are_named_before_anything_is_added(value):
    rows = Predictions([0, 1], [0.2, 0.9], columns={"odd": np.array(["x", value], object)})
    state = AuditState.empty(Plan.of(rows))
    with pytest.raises(InputError, match=f"'odd' has {type(value).__name__}"):
        state.update(rows)
    assert state.to_bytes() == AuditState.empty(Plan.of(rows)).to_bytes()


LATE = {
    "a label": lambda y, values, weights: y.__setitem__(-1, 9999),
    "a value": lambda y, values, weights: values.__setitem__((-1, 0), np.nan),
    "a weight": lambda y, values, weights: weights.__setitem__(-1, -1.0),
    "a weight beyond the plan": lambda y, values, weights: weights.__setitem__(-1, 1e9),
}
KINDS = [
    (2, "probs", False),
    (2, "logits", True),
    (3, "probs", False),
    (3, "probs", True),
    (3, "logits", False),
    (5, "log_probs", False),
    (40, "logits", False),
    (1100, "logits", True),
]


@pytest.mark.parametrize("by_column", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(
    ("classes", "kind", "weighted", "what"),
    [(*k, what) for k in KINDS for what in LATE if k[2] or "weight" not in what],
)
def test_a_bad_row_late_in_a_block_adds_nothing_of_it(
    monkeypatch, classes, kind, weighted, what, by_column
):
    """Far behind the rows that are looked at together, in the first block or a later one."""
    monkeypatch.setattr(evidence, "TILE_VALUES", 1)
    monkeypatch.setattr(evidence, "TILE_ROWS", 16)
    good = replace(
        make(classes, kind=kind, weighted=weighted, bad=False, n=100), on_bad_rows="error"
    )
    y, values = good.y.copy(), good.probs.copy()
    weights = None if good.sample_weight is None else good.sample_weight.copy()
    LATE[what](y, values, weights)
    bad = replace(
        good, y=y, probs=np.asfortranarray(values) if by_column else values, sample_weight=weights
    )
    plan = Plan.of(good, {"mine": Cost.imbalanced(classes)} if classes < 100 else {})
    state, untouched = AuditState.empty(plan), AuditState.empty(plan)
    for start in (0, 100):
        with pytest.raises(InputError):
            state.update(bad, start=start)
        assert state.to_bytes() == untouched.to_bytes()
        assert (
            state.update(good, start=start).to_bytes()
            == untouched.update(good, start=start).to_bytes()
        )
