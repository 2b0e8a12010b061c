"""Columns that are read side by side: every row whole, once and in order, whatever the threads
do."""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import probaudit as pb
from probaudit.engines import row_source, stream
from probaudit.engines.column_readers import ColumnReaders
from probaudit.files.reading import read
from probaudit.states import AuditState, Plan

ROWS = 1_000


def reader(name, sizes, *, fails_at=None, seed=0):
    """A column whose values are the numbers of rows, in batches of these sizes, in uneven time."""
    rng, start = np.random.default_rng(seed), 0
    for size in sizes:
        if start == fails_at:
            return
        time.sleep(rng.random() / 2_000)
        yield start, pa.record_batch([pa.array(np.arange(start, start + size))], names=[name])
        start += size


def joined(readers, names, threads):
    """What threads got of them: whole rows, by their number."""
    schema = pa.schema([(name, pa.int64()) for name in names])
    batches, found = ColumnReaders(readers, schema, lambda start, batch: [(start, batch)]), []

    def take():
        for start, batch in batches:
            found.append((start, batch))

    workers = [threading.Thread(target=take, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
        assert not worker.is_alive()
    return sorted(found, key=lambda entry: entry[0])


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "cuts",
    [[[100] * 10] * 3, [[100] * 10, [250] * 4, [1] * 10 + [495] * 2]],
    ids=["alike", "not alike"],
)
def test_every_row_is_joined_once(threads, cuts):
    readers = [reader(f"c{i}", sizes, seed=i) for i, sizes in enumerate(cuts)]
    found = joined(readers, ["c0", "c1", "c2"], threads)
    assert [start for start, _ in found] == np.cumsum([0, *(batch.num_rows for _, batch in found)])[
        :-1
    ].tolist()
    table = pa.Table.from_batches([batch for _, batch in found])
    assert table.column_names == ["c0", "c1", "c2"]
    for column in table.columns:
        assert column.to_pylist() == list(range(ROWS))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("broken", [0, 1])
@pytest.mark.parametrize("fails_at", [0, 300, 900])
def test_rows_before_the_end_of_a_side_are_handed_out(threads, broken, fails_at):
    readers = [
        reader(f"c{i}", [100] * 10, fails_at=fails_at if i == broken else None) for i in range(2)
    ]
    found = joined(readers, ["c0", "c1"], threads)
    assert sum(batch.num_rows for _, batch in found) == fails_at


def test_rows_of_different_numbers_are_never_joined():
    late = ((start + 100, batch) for start, batch in reader("b", [100] * 3))
    batches = ColumnReaders(
        [reader("a", [100] * 3), late],
        pa.schema([("a", pa.int64()), ("b", pa.int64())]),
        lambda *rows: [rows],
    )
    with pytest.raises(RuntimeError, match="same rows"):
        list(batches)


@pytest.mark.parametrize("columns", [2, 3, 40])
@pytest.mark.parametrize("threads", [2, 5])
def test_labels_of_other_batches_than_outputs(tmp_path, monkeypatch, columns, threads):
    """Text as a dictionary that is left for plain values in the middle of a row group."""
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 70)
    monkeypatch.setattr(stream, "READERS_BYTES", 0)
    rng = np.random.default_rng(columns)
    p = rng.dirichlet(np.ones(columns), 500).astype(np.float32)
    label = pa.array([f"class {k}" for k in rng.integers(0, columns, 500)]).dictionary_encode()
    table = pa.table({"label": label} | {f"p_class {k}": p[:, k] for k in range(columns)})
    parquet.write_table(
        table,
        tmp_path / "x.parquet",
        row_group_size=300,
        dictionary_pagesize_limit=64,
        data_page_size=256,
    )
    rows = read(tmp_path / "x.parquet")
    whole = AuditState.empty(Plan.of(rows)).update(rows).to_bytes()
    assert (
        stream.stream(row_source.scan_files(tmp_path / "x.parquet"), threads=threads).to_bytes()
        == whole
    )


@pytest.mark.parametrize("damaged", ["p_0", "p_39"])
def test_a_bad_row_before_a_damaged_column_is_told_first(tmp_path, monkeypatch, damaged):
    """Whichever reader has the damage; and the damage, if there is no bad row before."""
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 20)
    monkeypatch.setattr(stream, "READERS_BYTES", 0)
    p = np.full((600, 40), 1 / 40)
    batches = row_source.RowSource.batches

    def broken(self, piece, columns=None):
        for start, batch in batches(self, piece, columns):
            if columns and damaged in columns and start >= 200:
                raise pb.InputError("source", "must be whole", "it is not")
            yield start, batch

    for bad, told in (([60, 450], 60), ([450], None)):
        y = np.zeros(600, int)
        y[bad] = 77
        table = pa.table({"label": y} | {f"p_{k}": p[:, k] for k in range(40)})
        parquet.write_table(table, tmp_path / "x.parquet", row_group_size=90)
        source = row_source.scan_files(tmp_path / "x.parquet")
        with monkeypatch.context() as patch:
            patch.setattr(row_source.RowSource, "batches", broken)
            with pytest.raises(pb.InputError) as caught:
                stream.stream(source, threads=4)
        assert caught.value.row == told


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_what_fails_between_rows_is_told(tmp_path, monkeypatch, threads):
    """And no thread waits for ever."""
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 50)
    monkeypatch.setattr(stream, "READERS_BYTES", 0)
    parquet.write_table(
        pa.table({"label": np.zeros(600, int), "p_0": np.full(600, 0.5), "p_1": np.full(600, 0.5)}),
        tmp_path / "x.parquet",
    )
    source, join, calls = row_source.scan_files(tmp_path / "x.parquet"), ColumnReaders._join, []

    def failing(self):
        calls.append(1)
        if len(calls) == 5:
            raise MemoryError("no room to join")
        join(self)

    monkeypatch.setattr(ColumnReaders, "_join", failing)
    with pytest.raises(MemoryError, match="no room"):
        stream.stream(source, threads=threads)
