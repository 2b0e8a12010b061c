"""Outputs in columns, wherever these are in memory: the same bytes as in rows, and a sample that is
copied in passing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import probaudit as pb
from probaudit.data.columns import Columns
from probaudit.data.predictions import Predictions
from probaudit.engines import row_source, stream
from probaudit.files.reading import read
from probaudit.files.row_files import parts_of
from probaudit.kernels import wide_columns
from probaudit.kernels.grid_cells import SLACK
from probaudit.states import AuditState, Plan, audit_state, row_sample
from probaudit.states.evidence import EvidenceState
from probaudit.states.row_sample import NUMBERS, RowSample, Seats
from probaudit.states.sampling import drawn, likely_bound, priority

TOLERANCE = 0.02
KINDS = ("plain", "sharp", "rounded", "zeros of both signs", "above one", "at edges", "bad")


def outputs(kind: str, K: int, dtype: type, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities in which tiles are plain, or have what needs a closer look."""
    rng = np.random.default_rng([seed, K, n])
    z = rng.standard_normal((n, K)) * (
        20 if kind in ("sharp", "zeros of both signs", "above one") else 2
    )
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    y = (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, K - 1)
    if kind == "rounded":  # ties, of the true class too
        p = np.round(p, 3).astype(dtype)
    if kind == "zeros of both signs":
        p[p < 1e-7] = 0.0
        p[:, ::2][p[:, ::2] == 0] = -0.0
        y[::3] = rng.integers(0, K, len(y[::3]))
    if kind == "above one":  # by more than a word of a grid has room for
        p[::7] *= dtype(1 + TOLERANCE / 2)
    # of the cells of a grid, or so near below that a sum of float64 would be on them
    if kind == "at edges":
        edges = (
            rng.integers(0, 841, p.shape) / 840 * np.where(rng.random(p.shape) < 0.5, 1, 1 - SLACK)
        )
        below = np.where(
            rng.random(p.shape) < 0.5, np.nextafter(edges.astype(dtype), dtype(0)), edges - 1e-14
        )
        p = np.clip(np.where(rng.random(p.shape) < 0.3, edges, below), 0, 1).astype(dtype)
        p[:, 1:] *= rng.random((n, K - 1)) < 1.5 / K
        p[:, 0] = np.clip(1 - p[:, 1:].sum(axis=1), 0, 1)
        p = np.where(
            np.abs(p.sum(axis=1, keepdims=True) - 1) < TOLERANCE, p, np.eye(K, dtype=dtype)[:1]
        )
    if kind == "bad":
        p[5 % n, 0], p[n // 2, 1], p[-1] = np.nan, -0.5, 1.0
        y[n // 3] = K
    return y, p


def in_columns(p: np.ndarray) -> Columns:
    """Each column in memory of its own."""
    return Columns([column.copy() for column in p.T])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 7, 33, 100, 1_005])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_add_what_rows_add(kind, K, dtype):
    for n in (1, 64, 333):
        y, p = outputs(kind, K, dtype, n)
        options = {"on_bad_rows": "drop", "tolerance": TOLERANCE}
        rows, matrix, apart = (
            Predictions(y, q, **options) for q in (p, np.asfortranarray(p), in_columns(p))
        )
        plan = Plan.of(rows)
        found = []
        for given, by_column in ((rows, False), (matrix, True), (apart, True)):
            state = EvidenceState(plan)
            for first, last in ((0, n), (n // 4, n // 2 + 1)):
                block = given.block(first, last, by_column=by_column)
                # of which some rows are put in order
                assert block.by_column == by_column or given is matrix
                state.update(block)
            found.append(state.to_bytes())
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", ["logits", "log_probabilities", "weights"])
@pytest.mark.parametrize("K", [3, 40])
def test_other_outputs_in_columns(kind, K):
    y, p = outputs("plain", K, np.float64, 300)
    options = {
        "logits": {"from_logits": True},
        "log_probabilities": {"from_log_probs": True},
        "weights": {"sample_weight": np.random.default_rng(1).random(300)},
    }[kind]
    p = p if kind == "weights" else np.log(p)
    in_rows, by_column = Predictions(y, p, **options), Predictions(y, in_columns(p), **options)
    plan = Plan.of(in_rows)
    assert plan == Plan.of(by_column)
    whole = EvidenceState(plan).update(in_rows.block(0, 300))
    assert (
        EvidenceState(plan).update(by_column.block(0, 300, by_column=True)).to_bytes()
        == whole.to_bytes()
    )


def test_the_words_of_a_grid_are_emptied_in_time(monkeypatch):
    """All rows in one cell of each class, as far from its middle as can be, for more rows than a
    word has room for."""
    n, K = wide_columns.WORD_ROWS + 1_000, 40
    p = np.zeros((n, K), np.float64)
    p[:, 0] = 1 + 2.0**-10  # in the last cell
    y = np.zeros(n, int)
    rows, apart = (Predictions(y, q, tolerance=0.01) for q in (p, in_columns(p)))
    plan = Plan.of(rows)
    whole = EvidenceState(plan).update(rows.block(0, n))
    found = EvidenceState(plan).update(apart.block(0, n, by_column=True))
    assert found.to_bytes() == whole.to_bytes()
    assert found.arrays()["events.lines"][0, -1, 0] == n
    assert not found._events.words.any()


def test_a_refused_block_leaves_no_trace_in_sums_and_grids():
    y, p = outputs("plain", 50, np.float32, 400)
    bad = p.copy()
    bad[399, 3] = 2
    plan = Plan.of(Predictions(y, p))
    state = EvidenceState(plan).update(Predictions(y, in_columns(p)).block(0, 400, by_column=True))
    before = state.to_bytes()
    with pytest.raises(pb.InputError, match=r"row 399: 2 for class 3") as caught:
        state.update(Predictions(y, in_columns(bad)).block(0, 400, by_column=True))
    assert caught.value.row == 399
    assert state.to_bytes() == before


@pytest.mark.parametrize("K", [2, 12, 60])
def test_rows_are_copied_in_passing_as_they_are(K):
    """Also bad ones, and zeros with their sign."""
    y, p = outputs("bad", K, np.float32, 500)
    p[::2][p[::2] < 1e-3] = -0.0
    rows = Predictions(y, in_columns(p), on_bad_rows="drop", tolerance=0.5)
    chosen = np.sort(np.random.default_rng(0).choice(500, 90, replace=False))
    out = np.full((90, K), 7, np.float32)
    EvidenceState(Plan.of(rows)).update(
        rows.block(0, 500, by_column=True)._replace(copied=(chosen, out))
    )
    assert out.tobytes() == p[chosen].tobytes()


def test_a_matrix_of_columns_behaves_as_one():
    p = np.random.default_rng(0).random((6, 3))
    columns = Columns([*p.T])  # strided, so they are copied
    assert (columns.shape, columns.ndim, columns.dtype, len(columns)) == ((6, 3), 2, np.float64, 6)
    np.testing.assert_array_equal(np.asarray(columns), p)
    np.testing.assert_array_equal(np.asarray(columns, np.float32), p.astype(np.float32))
    for rows in (2, slice(1, 5, 2), np.array([4, 0]), np.arange(6) > 2):
        np.testing.assert_array_equal(columns[rows], p[rows])
    np.testing.assert_array_equal(columns.part(2, 4), p[2:4])
    assert columns.part(0, 6) is columns
    rows = Predictions([0, 1, 2, 0, 1, 2], columns)
    np.testing.assert_array_equal(rows.take(slice(2)).probs, p[:2])
    np.testing.assert_array_equal(rows.block(1, 3).values, p[1:3])


def test_a_likely_bound_lets_enough_rows_in():
    for rows, size in ((10_000, 700), (10_000, 9_999), (10_000, 10_000), (50_000, 1)):
        inside = (priority(np.arange(rows)) <= likely_bound(rows, size)).sum()
        assert size <= inside <= size + 16 * size**0.5 + 200
        assert len(drawn(rows, size)) == size


def parts(rows: int, cuts: list[int]) -> list[tuple[int, Predictions]]:
    rng = np.random.default_rng(3)
    p = rng.random(rows)
    names = np.where(p > 0.9, "a long name", "b")
    count = np.arange(rows)
    found = []
    for first, last in zip([0, *cuts], [*cuts, rows], strict=True):
        part = slice(first, last)
        group = names[part] if first else names[part].astype("U1")  # a column that grows wider
        # and one that turns out to have gaps
        gap = count[part] if first else count[part].astype(float)
        columns = {"group": group, "count": gap}
        found.append((first, Predictions((p[part] > 0.5).astype(int), p[part], columns=columns)))
    return found


@pytest.mark.parametrize("size", [1, 40, 1_000, 5_000])
def test_seats_hold_the_sample_in_any_order(size):
    blocks = parts(1_000, [100, 230, 231, 700])
    plain = RowSample(size)
    for start, rows in blocks:
        plain.update(rows, start)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        seated = RowSample(size)
        seated.expect_here(1_000)
        assert (seated._seats is not None) == (row_sample.MOST_ROWS_FOR_A_SEAT * size >= 1_000)
        for i in order[:3]:
            seated.update(blocks[i][1], blocks[i][0])
        half = seated.settle()
        assert list(half) == list(plain.settle())
        assert (np.diff(half[NUMBERS]) > 0).all()
        for i in order[3:]:
            seated.update(blocks[i][1], blocks[i][0])
        for name, array in plain.settle().items():
            assert seated.settle()[name].dtype == array.dtype
            np.testing.assert_array_equal(seated.settle()[name], array)
        assert seated._seats is None  # as any other sample, to be merged with others


def test_no_seats_when_rows_are_there_already():
    (start, rows), *_ = parts(1_000, [100])
    sample = RowSample(50)
    sample.update(rows, start)
    sample.expect_here(1_000)
    assert sample._seats is None


def test_room_is_never_replaced_by_that_of_another_thread(monkeypatch):
    """A thread that found no array, and makes one while another has filled and put its own."""
    seats, like, form = Seats(100, 100), np.empty((0, 2)), {"probs": np.empty((0, 2))}
    empty = np.empty

    def slow(*shape, **kind):
        monkeypatch.setattr(np, "empty", empty)
        other = seats.room("probs", np.arange(10), like)
        other[...] = 5.0
        seats.put(np.arange(10), {"probs": other}, form)
        return empty(*shape, **kind)

    monkeypatch.setattr(np, "empty", slow)
    late = seats.room("probs", np.arange(10, 100), like)
    late[...] = 6.0
    assert not seats.all_taken
    seats.put(np.arange(10, 100), {"probs": late}, form)
    assert seats.all_taken
    assert (seats.rows(form)["probs"][:10] == 5).all()
    assert (seats.rows(form)["probs"][10:] == 6).all()


def test_a_gap_outside_the_sample_counts_for_its_type():
    """Also in what is kept of a pass that was interrupted."""
    p, count = np.full(100, 0.5), np.arange(100)
    seated = RowSample(10)
    seated.expect_here(100)
    inside = seated._seats.numbers
    outside = int(np.setdiff1d(count, inside)[0])
    first = slice(0, inside[5] + 1)
    seated.update(
        Predictions(np.ones(first.stop, int), p[first], columns={"count": count[first]}), 0
    )
    gap = Predictions([1], [0.5], columns={"count": np.array([np.nan])})
    assert outside not in inside
    seated.take(_none(gap), None)
    assert seated.settle()["column.count"].dtype == np.float64
    assert len(seated.settle()[NUMBERS]) == 6


def _none(rows: Predictions) -> dict[str, np.ndarray]:
    """The types of rows of which none is in the sample."""
    return {name: array[:0] for name, array in RowSample(1).picked(rows, 0).items()}


def test_a_sample_with_seats_can_be_merged_with_rows_beyond_them():
    blocks = parts(1_000, [500])
    plain, seated, other = RowSample(200), RowSample(200), RowSample(200)
    seated.expect_here(500)
    for sample, numbers in ((plain, (0, 1)), (seated, (0,)), (other, (1,))):
        for i in numbers:
            sample.update(blocks[i][1], blocks[i][0])
    seated.expect_here(500)  # nothing, as rows are there
    seated.merge(other)
    for name, array in plain.settle().items():
        np.testing.assert_array_equal(seated.settle()[name], array)


def test_lists_are_not_read_in_larger_batches(tmp_path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.full(4_000 * 50, 0.02)), 50)
    parquet.write_table(
        pa.table({"label": np.zeros(4_000, int), "probs": lists}), tmp_path / "x.parquet"
    )
    source = row_source.scan_files(tmp_path / "x.parquet", probs="probs")
    assert source.read_in_place(1, 1) is source


def test_a_group_without_rows_and_columns_nobody_asked_for(tmp_path):
    table = pa.table({"label": [0, 1], "p_0": [0.5, 0.5], "p_1": [0.5, 0.5]})
    parquet.write_table(table[:0], tmp_path / "a.parquet")
    parquet.write_table(table, tmp_path / "b.parquet")
    assert [len(part) for part in parts_of(tmp_path) if len(part)] == [2]
    broken = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")
    )
    rows = pa.table({"label": [0], "p_0": [0.5], "p_1": [0.5], "note": broken})
    with (
        pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, rows.schema) as writer,
    ):
        writer.write_table(rows)
    assert stream.stream(row_source.scan_files(tmp_path / "x.arrow")).rows == 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sample_rows", [100, 3_000])
def test_a_stream_of_many_classes_leaves_the_bytes_of_memory(
    tmp_path, monkeypatch, threads, sample_rows
):
    """Bad rows, a sample that leaves rows out, batches of a part of a group, several files."""
    monkeypatch.setattr(audit_state, "sample_size", lambda outputs, features=0: sample_rows)
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 130)
    for i in range(2):
        y, p = outputs("bad", 45, np.float32, 900, seed=i)
        table = pa.table({"label": y} | {f"p_{k}": p[:, k] for k in range(45)})
        parquet.write_table(table, tmp_path / f"{i}.parquet", row_group_size=400)
    options = {"on_bad_rows": "drop"}
    rows = read(tmp_path, **options)
    whole = AuditState.empty(Plan.of(rows)).update(rows).to_bytes()
    assert (
        stream.stream(row_source.scan_files(tmp_path, **options), threads=threads).to_bytes()
        == whole
    )
    with pytest.raises(pb.InputError) as caught:
        stream.stream(row_source.scan_files(tmp_path), threads=threads)
    with pytest.raises(pb.InputError) as in_memory:
        pb.audit(read(tmp_path))
    assert str(caught.value) == str(in_memory.value)


def test_columns_of_several_types_are_put_side_by_side(tmp_path):
    y, p = outputs("plain", 40, np.float32, 300)
    table = pa.table(
        {"label": y}
        | {f"p_{k}": p[:, k].astype(np.float64 if k == 7 else np.float32) for k in range(40)}
    )
    parquet.write_table(table, tmp_path / "x.parquet")
    rows = read(tmp_path / "x.parquet")
    whole = AuditState.empty(Plan.of(rows)).update(rows).to_bytes()
    assert stream.stream(row_source.scan_files(tmp_path / "x.parquet")).to_bytes() == whole


def test_batches_of_a_group_are_few_and_equal(tmp_path, monkeypatch):
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 90)
    table = pa.table(
        {"label": np.zeros(250, int), "p_0": np.full(250, 0.5), "p_1": np.full(250, 0.5)}
    )
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=200)
    source = row_source.scan_files(tmp_path / "x.parquet")
    assert [len(rows) for _, rows in source.blocks()] == [67, 67, 66, 50]
    assert source.read_in_place(2, 2).batch_rows == 90


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("reader_bytes", [0, 2**40], ids=["shared", "each its own"])
def test_threads_that_share_a_reader_tell_the_first_bad_row(
    tmp_path, monkeypatch, threads, reader_bytes
):
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 20)
    monkeypatch.setattr(stream, "READERS_BYTES", reader_bytes)
    y, p = outputs("plain", 3, np.float64, 600)
    good = pa.table({"label": y} | {f"p_{k}": p[:, k] for k in range(3)})
    for group in (600, 90):
        parquet.write_table(good, tmp_path / "x.parquet", row_group_size=group)
        rows = read(tmp_path / "x.parquet")
        whole = AuditState.empty(Plan.of(rows)).update(rows).to_bytes()
        assert (
            stream.stream(row_source.scan_files(tmp_path / "x.parquet"), threads=threads).to_bytes()
            == whole
        )
        for bad in ([599], [0, 21], [130, 155, 300], list(range(77, 600, 20))):
            y_bad = y.copy()
            y_bad[bad] = 7
            table = good.set_column(0, "label", pa.array(y_bad))
            parquet.write_table(table, tmp_path / "x.parquet", row_group_size=group)
            with pytest.raises(pb.InputError) as caught:
                stream.stream(row_source.scan_files(tmp_path / "x.parquet"), threads=threads)
            assert caught.value.row == bad[0]


def test_a_bad_row_before_damage_is_told_first(tmp_path, monkeypatch):
    """And the damage, if there is none."""
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 20)
    y, p = outputs("plain", 3, np.float64, 600)
    table = pa.table({"label": y} | {f"p_{k}": p[:, k] for k in range(3)})
    batches = row_source.RowSource.batches

    def damaged(self, piece, columns=None):
        for start, batch in batches(self, piece, columns):
            if start >= 200:
                raise pb.InputError("source", "must be a readable parquet file", "damaged")
            yield start, batch

    for bad in (None, 150):
        y_bad = y.copy()
        if bad is not None:
            y_bad[bad] = 7
        parquet.write_table(table.set_column(0, "label", pa.array(y_bad)), tmp_path / "x.parquet")
        source = row_source.scan_files(tmp_path / "x.parquet")
        source.plan()
        with monkeypatch.context() as patch:
            patch.setattr(row_source.RowSource, "batches", damaged)
            with pytest.raises(pb.InputError) as caught:
                stream.stream(source, threads=2)
        assert (caught.value.row, caught.value.value == "damaged") == (bad, bad is None)


def test_readers_of_many_columns_are_heavy(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table(
        {"label": np.zeros(300_000, int), "note": rng.random(300_000)}
        | {"p_0": rng.random(300_000)}
    )
    parquet.write_table(table.append_column("p_1", table["p_0"]), tmp_path / "x.parquet")
    source = row_source.scan_files(tmp_path / "x.parquet", tolerance=0.999)
    # two columns of 2.4 MB, and labels that take next to nothing
    assert 4 * 2**20 < source.held_bytes < 5 * 2**20
    assert (
        row_source.scan_files(tmp_path / "x.parquet", probs="p_1", classes=[0, 1]).held_bytes
        < 2.5 * 2**20
    )


@pytest.mark.parametrize("second", [0.0, -0.0])
def test_a_sum_at_the_tolerance_is_judged_alike_with_a_zero_of_either_sign(second):
    p = np.zeros((1, 40))
    p[0, :2] = 1.02, second
    states = []
    for rows, by_column in ((p, False), (in_columns(p), True)):
        given = Predictions([0], rows, tolerance=0.02, on_bad_rows="drop")
        state = EvidenceState(Plan.of(given))
        state.update(given.block(0, 1, by_column=by_column))
        states.append({name: array.tolist() for name, array in state.arrays().items()})
    assert states[0] == states[1]
    assert sum(states[0]["ranks"]) == 1


def test_many_rows_far_above_one_do_not_overflow():
    """The sums of their offsets are the largest."""
    n = 700_000
    p = np.zeros((n, 4), np.float32)
    p[:, 0], p[:, 1] = 0.95, 0.94
    rows = Predictions(np.arange(n) % 4, p, tolerance=0.9)
    state = EvidenceState(Plan.of(rows))
    state.update(rows.block(0, n))
    outputs = state._events.finalise()[1][2].outputs
    assert outputs[-1] == pytest.approx(n * 1.89, rel=1e-6)
