"""Rows in files: a stream of them leaves the same bytes as the same rows in memory, and goes on
after an interrupt."""

from __future__ import annotations

import datetime
import decimal
import io
import os
import re
import signal
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from rich.console import Console

import probaudit as pb
from probaudit import Cost, InputError, calibrators, read
from probaudit.calibrators.fitting.streaming import fit_stream
from probaudit.calibrators.selection import fit_calibrator
from probaudit.data.work import Progress
from probaudit.engines import row_source
from probaudit.engines import stream as engine
from probaudit.engines.choosing import scan
from probaudit.engines.row_source import RowSource
from probaudit.engines.stream import stream
from probaudit.files.row_files import parts_of
from probaudit.states import AuditState, Plan, evidence
from probaudit.states.storing import pack, unpack
from tests.conftest import softmax

N = 1000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches and samples so small that there are many of them."""
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 150)
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 100)


def table(classes=3, dtype=np.float64, logits=False, names=None, n=N) -> pa.Table:
    rng = np.random.default_rng(classes)
    z = rng.normal(scale=2, size=(n, classes)).astype(dtype)
    p = z if logits else softmax(z.astype(np.float64)).astype(dtype)
    names = list(range(classes)) if names is None else names
    y = np.array(names, object)[rng.integers(0, classes, n)]
    found = {"label": pa.array(y.tolist()), "other": pa.array(rng.random(n))}
    found |= {f"p_{name}": pa.array(p[:, k]) for k, name in enumerate(names)}
    found |= {
        "w": pa.array(rng.gamma(0.5, 100, n)),
        "f_1": pa.array(rng.normal(size=n)),
        "f_2": pa.array(rng.integers(0, 9, n)),
    }
    return pa.table(
        found | {"group": pa.array(np.array(["a", "b", None], object)[rng.integers(0, 3, n)])}
    )


def write_stream(rows, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=170)


WRITERS = {
    "x.parquet": lambda rows, path: parquet.write_table(rows, path, row_group_size=333),
    "one group.parquet": parquet.write_table,
    "many groups.pq": lambda rows, path: parquet.write_table(rows, path, row_group_size=7),
    "x.csv": csv.write_csv,
    "x.arrow": lambda rows, path: feather.write_feather(rows, path, chunksize=170),
    "plain.feather": lambda rows, path: feather.write_feather(
        rows, path, compression="uncompressed"
    ),
    "stream.arrow": write_stream,
}


def written(rows, path):
    WRITERS[path.name](rows, path)
    return path


def in_memory(source, costs=None, **options) -> bytes:
    rows = read(source, **options)
    return AuditState.empty(Plan.of(rows, costs)).update(rows).to_bytes()


@pytest.mark.parametrize("name", WRITERS)
def test_a_stream_leaves_the_bytes_of_memory(tmp_path, name):
    path = written(table(), tmp_path / name)
    options = {"weight": "w", "features": "f_*", "columns": "group"}
    assert stream(scan(path)).to_bytes() == in_memory(path)
    source = scan(path, **options)
    assert (len(source), source.classes) == (N, (0, 1, 2))
    for threads in (1, 3):
        assert stream(source, threads=threads).to_bytes() == in_memory(path, **options)


def test_the_first_rows_of_a_scan_are_decoded_once(tmp_path, monkeypatch):
    decoded, decode = [], RowSource.predictions

    def counted(source, batch, **options):
        decoded.append(len(batch))
        return decode(source, batch, **options)

    monkeypatch.setattr(RowSource, "predictions", counted)
    source = scan(written(table(), tmp_path / "x.parquet"))
    source.plan()
    first = source.read_in_place(2, 2).first_rows
    assert decoded == [len(first)]
    assert source.first_rows is first
    decoded.clear()
    stream(source)
    assert sum(decoded) == N


@pytest.mark.parametrize("name", WRITERS)
def test_features_may_be_text(tmp_path, name):
    """Text with gaps, late text, nothing but gaps, and truth values with gaps."""
    rows = table()
    late = pa.array([None] * (N - 1) + ["late"])
    none = pa.nulls(N, pa.string())
    ill = pa.array(np.array([True, False, None], object)[np.arange(N) % 3])
    rows = rows.append_column("late", late).append_column("none", none).append_column("ill", ill)
    path = written(rows, tmp_path / name)
    for features in ("group", "f_1,group,late,none,ill", "ill", "none,f_1"):
        source = scan(path, features=features)
        for threads in (1, 3):
            assert stream(source, threads=threads).to_bytes() == in_memory(path, features=features)
    found, memory = (
        pb.audit(scan(path, features="f_1,group"), repair=False),
        pb.audit(read(path, features="f_1,group"), repair=False),
    )
    assert found.to_json() == memory.to_json()


KINDS = {
    "float32": (table(4, np.float32), {}),
    "float16": (table(2, np.float16), {}),
    "two classes": (table(2), {}),
    "two classes of float32": (table(2, np.float32), {}),
    "many classes": (table(40, np.float32), {}),
    "many weighted": (table(40), {"weight": "w"}),
    "logits": (table(3, np.float32, logits=True), {"logits": "p_*"}),
    "logits of two": (table(2, logits=True), {"logits": "p_*"}),
    "weighted logits": (table(3, logits=True), {"logits": "p_*", "weight": "w"}),
    "many logits": (table(40, logits=True), {"logits": "p_*"}),
    "one column": (table(2), {"probs": "p_1"}),
    "one logit": (table(2, logits=True), {"logits": "p_1"}),
    "text": (table(3, names=["dog", "cat", "émeu"]), {}),
    "order of classes": (table(3, names=["dog", "cat", "cow"]), {"classes": ["cow", "cat", "dog"]}),
    "truth values": (table(2, names=[False, True]), {}),
    "pairs": (
        table(2).append_column("ok", pa.array(np.arange(N) % 3 > 0)),
        {"confidence": "p_1", "correct": "ok", "weight": "w"},
    ),
    "tolerance": (table(3, np.float32), {"tolerance": 0.01}),
}


@pytest.mark.parametrize(("rows", "options"), KINDS.values(), ids=KINDS)
def test_every_kind_of_rows(tmp_path, rows, options):
    path = tmp_path / "x.parquet"
    parquet.write_table(rows, path, row_group_size=333)
    assert stream(scan(path, **options)).to_bytes() == in_memory(path, **options)


def with_column(rows, name, values):
    return rows.set_column(rows.column_names.index(name), name, values)


def spoilt(rows):
    """Gaps, labels of no class, sums off 1 and weights that are none."""
    n = np.arange(N)
    rows = with_column(
        rows,
        "label",
        pa.array([None if i % 50 == 3 else 9 if i % 50 == 7 else i % 3 for i in range(N)]),
    )
    rows = with_column(
        rows, "w", pa.array(np.where(n % 70 == 1, -1.0, np.where(n % 70 == 2, 0.0, 1.5)))
    )
    return with_column(
        rows, "p_0", pa.array(np.where(n % 90 == 5, 0.9, rows["p_0"].to_numpy()), mask=n % 90 == 6)
    )


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.arrow"])
def test_bad_rows_are_dropped_alike(tmp_path, name):
    path = written(spoilt(table()), tmp_path / name)
    options = {"weight": "w", "on_bad_rows": "drop"}
    found = stream(scan(path, **options))
    assert found.to_bytes() == in_memory(path, **options)
    assert found.finalise().summary.dropped > 40


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_bad_row_is_named(tmp_path, threads):
    rows = table()
    values = rows["p_1"].to_numpy().copy()
    values[[950, 412, 640]] = 2.0
    path = written(with_column(rows, "p_1", pa.array(values)), tmp_path / "many groups.pq")
    with pytest.raises(InputError) as caught:
        stream(scan(path), threads=threads)
    assert caught.value.row == 412


def test_a_dictionary_column_and_lists(tmp_path):
    rows = table(3, np.float32, names=["a", "b", "c"])
    coded = with_column(rows, "label", rows["label"].dictionary_encode())
    path = tmp_path / "x.parquet"
    parquet.write_table(coded, path, row_group_size=100)
    assert stream(scan(path)).to_bytes() == in_memory(path)
    matrix = np.column_stack([rows[f"p_{c}"].to_numpy() for c in "abc"])
    lists = pa.table(
        {"label": rows["label"], "p_all": pa.FixedSizeListArray.from_arrays(matrix.reshape(-1), 3)}
    )
    parquet.write_table(lists, path, row_group_size=100)
    options = {"probs": "p_all", "classes": ["a", "b", "c"]}
    assert stream(scan(path, **options)).to_bytes() == in_memory(path, **options)


def test_folders_patterns_and_lists(tmp_path):
    whole = table()
    expected = in_memory(whole)
    folder = tmp_path / "data"
    (folder / "day=2").mkdir(parents=True)
    written(whole.slice(0, 300), folder / "day=2" / "x.parquet")
    paths = [folder / "day=2" / "x.parquet"]
    for i, (first, size) in enumerate(((300, 1), (301, 399), (700, 300))):
        paths.append(folder / "day=2" / f"x{i}.parquet")
        parquet.write_table(whole.slice(first, size), paths[-1])
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").write_text("not parquet")
    for source in (
        folder,
        str(folder),
        paths,
        paths[::-1],
        folder / "day=2" / "x*.parquet",
        [folder, *paths[:2]],
    ):
        assert in_memory(source) == expected
        assert stream(scan(source)).to_bytes() == expected
    csv.write_csv(whole.slice(0, 300), tmp_path / "a.csv")
    parquet.write_table(whole.slice(300), tmp_path / "b.parquet")
    assert stream(scan(tmp_path / "[ab].*")).to_bytes() == in_memory(tmp_path / "[ab].*")
    assert scan(paths).read().probs.shape == (N, 3)
    assert repr(scan(paths)) == "RowSource(4 files, 1,000 rows, 3 classes)"


def test_types_of_csv_columns_are_those_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("probaudit.files.csv_files.BLOCK_BYTES", 200)
    n = 60
    late = [str(i % 2) for i in range(n - 1)] + ["1.0"]
    for labels, last in ((late, None), ([*late[:-1], "x"], "x")):
        lines = [f"{y},{1 - i % 2},{i % 2}" for i, y in enumerate(labels)]
        (tmp_path / "x.csv").write_text(
            "label,p_0,p_1\n" + "\n".join(lines[:-1]) + f"\n{labels[-1]},0.25,0.75\n"
        )
        options = {"on_bad_rows": "drop"}
        assert stream(scan(tmp_path / "x.csv", **options)).to_bytes() == in_memory(
            tmp_path / "x.csv", **options
        ), last


def test_costs_and_blocks(tmp_path):
    path = written(table(), tmp_path / "x.parquet")
    costs = {"mine": Cost.imbalanced(3)}
    assert stream(scan(path), costs=costs).to_bytes() == in_memory(path, costs)
    rows, source = read(path), scan(path)
    for size in (None, 1, 64, 333, 5000):
        blocks = list(source.blocks(size))
        assert [start for start, _ in blocks] == np.cumsum([0, *(len(b) for _, b in blocks)])[
            :-1
        ].tolist()
        assert size is None or {len(b) for _, b in blocks[:-1]} <= {size}
        np.testing.assert_array_equal(np.concatenate([b.probs for _, b in blocks]), rows.probs)


class Interrupted(engine.EvidenceState):
    """A state that is interrupted, as by Ctrl-C, while it adds its k-th block."""

    left = 0

    def update(self, block):
        Interrupted.left -= 1
        if Interrupted.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return super().update(block)


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_an_interrupted_pass_goes_on_where_it_was(tmp_path, monkeypatch, name):
    path, kept = written(table(), tmp_path / name), tmp_path / "kept.npz"
    monkeypatch.setattr(engine, "EvidenceState", Interrupted)
    options = {"weight": "w", "features": "f_*"}
    expected = in_memory(path, **options)
    for block in range(1, 8):
        Interrupted.left = block
        with pytest.raises(KeyboardInterrupt):
            stream(scan(path, **options), threads=1, checkpoint=kept)
        Interrupted.left = 3  # and once more on the way
        try:
            stream(scan(path, **options), threads=2, checkpoint=kept, resume=True)
        except KeyboardInterrupt:
            assert kept.exists()
        Interrupted.left = 0
        assert (
            stream(scan(path, **options), threads=2, checkpoint=kept, resume=True).to_bytes()
            == expected
        )
        kept.unlink()


def test_an_interrupt_while_rows_are_half_added_waits_for_them(tmp_path, monkeypatch):
    """`Thread.join` does not: Python 3.11 returns from it once an interrupt has come."""
    path, kept = written(table(), tmp_path / "x.parquet"), tmp_path / "kept"
    note, calls = AuditState.note, []

    def slow(self, picked, rows, start):
        calls.append(start)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        note(self, picked, rows, start)

    monkeypatch.setattr(AuditState, "note", slow)
    with pytest.raises(KeyboardInterrupt):
        stream(scan(path), threads=1, checkpoint=kept)
    found = stream(scan(path), checkpoint=kept, resume=True)
    assert found.finalise().summary.rows == N
    assert found.to_bytes() == in_memory(path)


def test_the_checkpoint_of_a_whole_pass_is_all_that_is_read(tmp_path, monkeypatch):
    path, kept = written(table(), tmp_path / "x.parquet"), tmp_path / "kept.npz"
    expected = stream(scan(path), checkpoint=kept).to_bytes()
    source = scan(path)
    source.plan()  # which looks at the first rows
    monkeypatch.setattr(row_source.RowSource, "batches", None)
    assert stream(source, checkpoint=kept, resume=True).to_bytes() == expected


@pytest.mark.parametrize("name", ["many groups.pq", "x.csv", "x.arrow"])
def test_checkpoints_in_between(tmp_path, monkeypatch, name):
    """Each is of whole blocks, can be gone on from, and no row is decoded again to make it."""
    monkeypatch.setattr(engine, "WAKE_EVERY", 0.001)
    path, kept = written(table(), tmp_path / name), tmp_path / "kept.npz"
    source, saved, decoded = scan(path), [], []
    source.plan()  # which looks at the first rows
    save, decode = engine.checkpoints.save, row_source.RowSource.batches

    def saving(to, state, identity):
        save(to, state, identity)
        saved.append((state.rows, to.read_bytes()))

    def decoding(self, piece, columns=None):
        for start, batch in decode(self, piece, columns):
            decoded.append(batch.num_rows)
            time.sleep(0.002)
            yield start, batch

    monkeypatch.setattr(engine.checkpoints, "save", saving)
    monkeypatch.setattr(row_source.RowSource, "batches", decoding)
    expected = stream(source, threads=2, checkpoint=kept, save_every=0.001).to_bytes()
    assert sum(decoded) == N
    assert expected == in_memory(path)
    rows = [count for count, _ in saved]
    assert rows == sorted(rows)
    assert rows[-1] == N
    assert any(0 < count < N for count in rows)
    for _, content in saved[:: max(1, len(saved) // 3)]:
        kept.write_bytes(content)
        assert stream(scan(path), checkpoint=kept, resume=True).to_bytes() == expected


@pytest.mark.parametrize("save_every", [60, 0.001])
def test_a_file_that_changes_during_the_pass_leaves_no_checkpoint_of_both(
    tmp_path, monkeypatch, capsys, save_every
):
    path, kept = written(table(), tmp_path / "x.parquet"), tmp_path / "kept.npz"
    source = scan(path)
    predictions, seen = row_source.RowSource.predictions, []

    def changing(self, batch, **options):
        seen.append(batch)
        if len(seen) == 3:
            os.utime(path, ns=(1, 1))
            if save_every == 60:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return predictions(self, batch, **options)

    source.plan()
    monkeypatch.setattr(row_source.RowSource, "predictions", changing)
    with pytest.raises(KeyboardInterrupt if save_every == 60 else InputError) as caught:
        stream(source, threads=1, checkpoint=kept, save_every=save_every)
    if save_every == 60:
        assert "must not change while it is read" in str(caught.value.__cause__)
        assert "must not change while it is read" in capsys.readouterr().err
        assert not kept.exists()
    else:
        assert "must not change while it is read" in str(caught.value)


def test_a_file_that_changed_is_told_at_the_end(tmp_path):
    path = written(table(), tmp_path / "x.parquet")
    source = scan(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(InputError, match="must not change while it is read"):
        stream(source)


def test_a_checkpoint_that_cannot_be_written_does_not_hide_the_interrupt(
    tmp_path, monkeypatch, capsys
):
    path, kept = written(table(), tmp_path / "x.parquet"), tmp_path / "kept.npz"
    monkeypatch.setattr(engine, "EvidenceState", Interrupted)

    def full(temporary, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    Interrupted.left = 2
    with pytest.raises(KeyboardInterrupt) as caught:
        stream(scan(path), threads=1, checkpoint=kept)
    assert caught.value.__cause__.argument == "checkpoint"
    assert "No space left on device" in capsys.readouterr().err
    Interrupted.left = 0
    with pytest.raises(InputError, match="No space left on device"):
        stream(scan(path), checkpoint=kept)


def test_a_checkpoint_that_would_be_read_as_rows_is_refused(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    path = written(table(), folder / "x.parquet")
    for source, kept in (
        (folder, folder / "c.npz"),
        (path, path),
        (folder / "*.parquet", folder / "c.parquet"),
    ):
        with pytest.raises(InputError, match="must not be one of the files") as caught:
            stream(scan(source), checkpoint=kept)
        assert caught.value.argument == "checkpoint"
    for source, kept in (
        (folder, folder / "c.state"),
        (path, folder / "c.npz"),
        (folder, tmp_path / "c.npz"),
    ):
        assert stream(scan(source), checkpoint=kept).rows == N
        kept.unlink()
    assert path.stat().st_size > 0


def test_columns_of_other_values_are_kept_as_text(tmp_path, monkeypatch):
    """As reports show them; lists of one length as they are."""
    rows = table(2)
    odd = {
        "price": pa.array(
            [None if i % 7 == 0 else decimal.Decimal("1.50") + i % 3 for i in range(N)]
        ),
        "hour": pa.array([datetime.time(i % 24, 5) for i in range(N)]),
        "key": pa.array([b"ab" if i % 2 else b"c" for i in range(N)]),
        "record": pa.array([None if i % 7 == 0 else {"at": [i % 2], "by": "x"} for i in range(N)]),
        "map": pa.array([[("k", i % 2)] for i in range(N)], pa.map_(pa.string(), pa.int64())),
    }
    lists = {
        "tags": pa.array([["a", None], ["b", "c"]] * (N // 2)),
        "pair": pa.array([[i % 2, 1] for i in range(N)]),
    }
    for name, column in (odd | lists).items():
        rows = rows.append_column(name, column)
    path, kept = tmp_path / "x.parquet", tmp_path / "kept"
    parquet.write_table(rows, path, row_group_size=333)
    options = {"columns": [*odd, *lists]}
    monkeypatch.setattr(engine, "EvidenceState", Interrupted)
    Interrupted.left = 2
    with pytest.raises(KeyboardInterrupt):
        stream(scan(path, **options), threads=1, checkpoint=kept)
    Interrupted.left = 0
    found = stream(scan(path, **options), checkpoint=kept, resume=True)
    assert found.to_bytes() == in_memory(path, **options)
    sample, places, whole = found.finalise().sample, found.sample.numbers, read(path, **options)
    for name in odd:  # as a report says the values of rows in memory
        assert [str(v) for v in sample.columns[name]] == [
            str(v) for v in whole.columns[name][places]
        ]
    again = AuditState.from_bytes(found.to_bytes()).finalise().sample
    for name in lists:
        np.testing.assert_array_equal(again.columns[name], whole.columns[name][places])


def test_records_are_groups_as_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 200_000)
    path, kept = tmp_path / "x.parquet", tmp_path / "kept"
    record = pa.array([{"site": "north" if i % 2 else "south"} for i in range(N)])
    parquet.write_table(table(2).append_column("record", record), path, row_group_size=333)
    streamed = pb.audit(stream(scan(path, columns="record"), checkpoint=kept), repair=False)
    assert "{'site': 'north'}" in streamed.to_json()
    assert streamed.to_dict() == pb.audit(read(path, columns="record"), repair=False).to_dict()


def test_a_gap_in_a_row_that_is_not_sampled_still_makes_the_type_of_a_column(tmp_path):
    out = next(
        i
        for i in range(N)
        if i not in set(stream(scan(written(table(), tmp_path / "x.csv"))).sample.numbers.tolist())
    )
    rows = table().append_column("g", pa.array([None if i == out else i % 3 for i in range(N)]))
    rows = rows.append_column("b", pa.array([None if i == out else i % 3 == 0 for i in range(N)]))
    path = tmp_path / "x.parquet"
    parquet.write_table(rows, path, row_group_size=1)
    found = stream(scan(path, columns=["g", "b"]))
    assert found.to_bytes() == in_memory(path, columns=["g", "b"])
    assert found.finalise().sample.columns["g"].dtype == np.float64


def test_damaged_checkpoints_are_refused(tmp_path):
    path, kept = written(table(), tmp_path / "x.parquet"), tmp_path / "kept"
    stream(scan(path), checkpoint=kept)
    header, arrays = unpack(kept.read_bytes(), engine.checkpoints.SCHEMA)
    assert header["version"] == pb.__version__
    identity = header["identity"]
    for changed, words in (
        ({"version": "0.0"}, "version 0.0"),
        ({"version": None}, "version None"),
        ({"identity": None}, "(whole|complete) file"),
        ({"identity": identity | {"files": 3}}, "(whole|complete) file"),
        ({"identity": identity | {"files": [["x"]]}}, "(whole|complete) file"),
        ({"identity": identity | {"rows": "many"}}, "(whole|complete) file"),
        ({"schema": 3}, "(whole|complete) file"),
        ({"schema": "probaudit.state/1"}, "must be (of|in) the form"),
    ):
        kept.write_bytes(pack(header | changed, arrays))
        with pytest.raises(InputError, match=words):
            stream(scan(path), checkpoint=kept, resume=True)
    for spoilt in ({}, {"state": np.zeros(9, np.uint8)}):
        kept.write_bytes(pack(header, spoilt))
        with pytest.raises(InputError, match=r"(whole|complete) file"):
            stream(scan(path), checkpoint=kept, resume=True)


class Watched(Progress):
    """A bar that notes how far it came."""

    seen: list[tuple[str, int, list[int]]]

    def __init__(self, total, *rest, **options):
        super().__init__(total, *rest, **options)
        self.seen.append((self._work, total, []))

    def _note(self, done):
        super()._note(done)
        self.seen[-1][2].append(self._done)


@pytest.mark.parametrize("name", ["x.csv", "x.arrow", "stream.arrow"])
def test_the_first_look_at_all_rows_shows_how_far_it_is(tmp_path, monkeypatch, name):
    monkeypatch.setattr("probaudit.files.csv_files.BLOCK_BYTES", 20_000)
    monkeypatch.setattr("probaudit.files.row_files.Progress", Watched)
    monkeypatch.setattr(row_source, "Progress", Watched)
    Watched.seen = []
    folder = tmp_path / "rows"
    for part in ("a", "b"):
        (folder / part).mkdir(parents=True)
        written(table(), folder / part / name)
    scan(folder, weight="w").plan()
    total = sum(path.stat().st_size for path in folder.rglob("*.*"))
    counted = next(
        done
        for work, all_bytes, done in Watched.seen[::-1]
        if (work, all_bytes) == ("counting rows", total)
    )
    assert counted == sorted(counted)
    assert counted[-1] == total
    assert len(set(counted)) >= 12  # six batches or more of each
    assert Watched.seen[-1][:2] == ("reading weights", 2 * N)
    assert Watched.seen[-1][2][-1] == 2 * N


def test_a_bar_of_bytes_in_words():
    with Progress(10**7, False, unit="bytes", work="counting rows") as bar:
        bar._open()
        bar._bar.stop()
        bar._start -= 2
        bar.reach(5 * 10**6)
        console = Console(file=io.StringIO(), width=200)
        console.print(bar._bar.get_renderable())
    shown = console.file.getvalue()
    assert "counting rows" in shown
    assert "5.0/10.0 MB" in shown
    assert re.search("[23] MB/s", shown)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_arrow_file_is_shared_out_by_its_batches(tmp_path, monkeypatch, threads):
    path = written(table(), tmp_path / "x.arrow")
    assert [piece.rows for piece in scan(path).pieces] == [N]  # few rows are one group
    monkeypatch.setattr("probaudit.files.row_files.GROUP_VALUES", 400 * len(table().column_names))
    options = {"weight": "w", "features": "f_*", "columns": "group"}
    source = scan(path, **options)
    assert [tuple(piece) for piece in source.pieces] == [
        (0, 0, 0, 340),
        (0, 1, 340, 340),
        (0, 2, 680, 320),
    ]
    assert stream(source, threads=threads).to_bytes() == in_memory(path, **options)
    last = source.pieces[-1]
    assert [(start, batch.num_rows) for start, batch in source.batches(last, ["w"])] == [
        (680, 150), (830, 20), (850, 150)
    ]  # fmt: skip
    assert len(scan(written(table(), tmp_path / "stream.arrow")).pieces) == 1  # has no index
    assert sum(len(part) for part in parts_of(path)) == N


def test_columns_of_csv_files_must_be_of_one_kind(tmp_path):
    """As in memory, so that no label is text in one engine and a number in the other."""
    for name, labels in (("a", "01"), ("b", "xy")):
        (tmp_path / f"{name}.csv").write_text(
            "label,p_0,p_1\n" + "".join(f"{y},0.5,0.5\n" for y in labels)
        )
    for way in (read, scan):
        with pytest.raises(InputError, match="columns of the same types"):
            way(tmp_path, on_bad_rows="drop")


def test_a_bar_does_not_open_after_the_end():
    with Progress(10, True) as bar:
        pass
    bar._open()  # as the timer does that had gone off before the end
    assert bar._bar is None


def test_a_checkpoint_of_other_rows_is_refused(tmp_path, monkeypatch):
    path, kept = written(table(), tmp_path / "x.parquet"), tmp_path / "kept.npz"
    monkeypatch.setattr(engine, "EvidenceState", Interrupted)
    Interrupted.left = 2
    with pytest.raises(KeyboardInterrupt):
        stream(scan(path), threads=1, checkpoint=kept)

    def refused(words, source, **options):
        with pytest.raises(InputError, match=words) as caught:
            stream(source, checkpoint=kept, resume=True, **options)
        assert caught.value.argument in ("resume", "state")

    refused("same columns, classes and choices", scan(path, weight="w"))
    refused("same columns, classes and choices", scan(path), reject_cost=0.3)
    refused("same columns, classes and choices", scan(path), costs={"c": Cost.zero_one(3)})
    other = tmp_path / "y.parquet"
    parquet.write_table(table(), other)
    refused("it is of .*x.parquet", scan(other))
    refused("it is of 1,000 rows", scan([path, other]))
    os.utime(path, ns=(0, 0))
    refused("has changed since", scan(path))
    content = kept.read_bytes()
    kept.write_bytes(content[:-100])
    refused("must be (a .* file )?(of|in) the form", scan(path))
    with pytest.raises(InputError, match=r"requires a checkpoint\. Pass `checkpoint`"):
        stream(scan(path), resume=True)
    with pytest.raises(InputError, match="folder must exist"):
        stream(scan(path), checkpoint=tmp_path / "none" / "x.npz")
    kept.unlink()
    # nothing to go on from: from the start
    assert stream(scan(path), checkpoint=kept, resume=True).rows == N


def test_a_file_that_changes_under_the_pass_is_told(tmp_path):
    path = written(table(), tmp_path / "x.csv")
    source = scan(path)
    csv.write_csv(table().slice(0, 500), path)
    with pytest.raises(InputError, match="has fewer"):
        stream(source)
    csv.write_csv(pa.concat_tables([table()] * 2), path)
    with pytest.raises(InputError, match="more rows than before"):
        stream(source)


def test_rows_are_in_one_pass_of_memory_that_does_not_grow(tmp_path):
    """No more than a few batches are decoded at a time."""
    path = written(table(), tmp_path / "many groups.pq")
    source = scan(path)
    alive, most = 0, 0

    class Counted:
        def __init__(self, batch):
            nonlocal alive, most
            self.batch = batch
            alive += 1
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= 1

    for _, batch in (part for piece in source.pieces for part in source.batches(piece)):
        Counted(batch)
    assert most == 1


FITS = {
    "probabilities": (table(3), {}),
    "float32": (table(5, np.float32), {}),
    "logits": (table(3, logits=True), {"logits": "p_*"}),
    "weights": (table(3), {"weight": "w"}),
    "one column": (table(2), {"probs": "p_1"}),
    "many classes": (table(40, logits=True), {"logits": "p_*"}),
    "dropped": (spoilt(table(3)), {"on_bad_rows": "drop", "weight": "w"}),
}


@pytest.mark.parametrize(
    "method", [calibrators.TemperatureScaling, calibrators.BiasCorrectedTemperature]
)
@pytest.mark.parametrize(("rows", "options"), FITS.values(), ids=FITS)
def test_a_temperature_fitted_to_a_stream_is_that_of_memory(
    tmp_path, monkeypatch, method, rows, options
):
    monkeypatch.setattr("probaudit.calibrators.fitting.softmax_sums.BLOCK_VALUES", 400)
    path = tmp_path / "x.parquet"
    parquet.write_table(rows, path, row_group_size=333)
    found = fit_stream(method(), scan(path, **options))
    expected = fit_calibrator(read(path, **options), method())
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-10)
    if method is calibrators.BiasCorrectedTemperature:
        np.testing.assert_allclose(found.bias_, expected.bias_, rtol=0, atol=1e-10)
    assert found.fit_report_.n == expected.fit_report_.n
    assert found.fit_report_.score_before == pytest.approx(
        expected.fit_report_.score_before, abs=1e-12
    )
    assert found.fit_report_.score_after == pytest.approx(
        expected.fit_report_.score_after, abs=1e-12
    )
    probe = np.full((1, len(found.classes_)), 1 / len(found.classes_))
    np.testing.assert_allclose(
        found.predict_proba(probe), expected.predict_proba(probe), atol=1e-10
    )


def test_fits_that_a_stream_does_not_allow(tmp_path):
    path = written(table(), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="to be fitted to a stream"):
        fit_stream(calibrators.IsotonicCalibration(), scan(path))
    parquet.write_table(pa.table({"label": [0, 0], "p_0": [0.5, 0.4], "p_1": [0.5, 0.6]}), path)
    with pytest.raises(InputError, match="two classes or more"):
        fit_stream(calibrators.TemperatureScaling(), scan(path))


def test_options_that_are_refused(tmp_path):
    path = written(table(), tmp_path / "x.parquet")
    for call, words in (
        (lambda: scan(path, label="none"), "no column 'none'"),
        (lambda: scan(path, probs="q_*"), "no column matches"),
        (lambda: scan(path, weight="none"), "no column 'none'"),
        (lambda: scan(path, probs="p_*", logits="p_*"), "one kind of output"),
        (lambda: scan(42), "path or a list"),
        (lambda: scan([]), "path or a list"),
        (lambda: stream(scan(path), threads=0), "at least 1"),
        (lambda: stream(scan(path), reject_cost=1), "reject_cost"),
        (lambda: stream(scan(path), save_every=0), "save_every"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    assert pb.read(path).probs.shape == (N, 3)
