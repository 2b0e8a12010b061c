"""A real cluster of processes: the same bytes as in memory, whatever the workers and the cutting of
the rows."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit import InputError, Predictions, calibrators
from probaudit.calibrators.selection import fit_calibrator
from probaudit.states import AuditState, Plan
from tests.conftest import softmax

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from dask import delayed  # noqa: E402

from probaudit.audits.audit import audit_evidence, audit_rows  # noqa: E402
from probaudit.calibrators.fitting.distributed import fit_on_cluster  # noqa: E402
from probaudit.calibrators.fitting.softmax_sums import sample_numbers  # noqa: E402
from probaudit.calibrators.fitting.streaming import fit_stream  # noqa: E402
from probaudit.engines import cluster as engine  # noqa: E402
from probaudit.engines.choosing import scan  # noqa: E402
from probaudit.engines.dask_rows import DaskRows, FileRows  # noqa: E402
from probaudit.engines.stream import stream  # noqa: E402

N, K = 3_000, 3


@pytest.fixture(scope="module")
def local():
    options = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
        "silence_logs": 50,
    }
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        yield cluster


@pytest.fixture
def client(local):
    with distributed.Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    z = 2 * rng.normal(size=(N, K))
    y = (z / 1.6 + rng.gumbel(size=z.shape) + [0.0, 0.6, -0.4]).argmax(axis=1)
    names = np.array(["ash", "elm", "oak"])
    probs = {f"p_{name}": column for name, column in zip(names, softmax(z).T, strict=True)}
    logits = {f"z_{name}": column for name, column in zip(names, z.T, strict=True)}
    features = {"f_1": rng.normal(size=N), "f_2": rng.normal(size=N)}
    return pd.DataFrame(
        {
            "label": names[y],
            **probs,
            **logits,
            **features,
            "w": rng.exponential(size=N),
            "ward": y % 2,
        }
    )


def in_memory(rows: Predictions, costs: object = None) -> AuditState:
    return AuditState.empty(Plan.of(rows, costs)).update(rows)


OPTIONS = {"probs": "p_*", "weight": "w", "features": "f_*", "columns": "ward"}


def test_the_same_audit_in_numbers(client, frame):
    expected = in_memory(pb.read(frame, **OPTIONS)).finalise()
    rows = DaskRows.of_frame(dd.from_pandas(frame, npartitions=4), client=client, **OPTIONS)
    found = engine.gather(rows, rows.plan(), client=client).finalise()
    assert found.fingerprint == expected.fingerprint
    assert found.summary.rows == N
    np.testing.assert_array_equal(found.sample.probs, expected.sample.probs)
    np.testing.assert_array_equal(found.sample.features, expected.sample.features)


@pytest.mark.parametrize("options", [OPTIONS, {"logits": "z_*"}], ids=["weights", "logits"])
def test_one_audit_from_memory_stream_and_cluster(client, frame, tmp_path, options):
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    source = scan(tmp_path / "rows.parquet", **options)
    rows = DaskRows.of_frame(dd.from_pandas(frame, npartitions=4), client=client, **options)
    states = [
        in_memory(pb.read(frame, **options)),
        stream(source),
        engine.gather(FileRows(source), source.plan(), client=client),
        engine.gather(rows, rows.plan(), client=client),
    ]
    expected = audit_rows(pb.read(frame, **options)).to_json()
    for state in states:
        assert audit_evidence(state.finalise()).to_json() == expected


def test_columns_of_folders_and_features_of_text(client, frame, tmp_path):
    rows = frame.assign(
        day=np.arange(N) // 1000, site=np.array(["north", "south", None], object)[np.arange(N) % 3]
    )
    rows.to_parquet(tmp_path, partition_cols=["day"])
    source = scan(tmp_path, features="site,day,f_1", columns="day")
    expected = in_memory(source.read()).to_bytes()
    assert (
        engine.gather(FileRows(source), source.plan(), client=client).to_bytes()
        == expected
        == stream(source).to_bytes()
    )


def test_names_of_columns_that_are_numbers(client, frame):
    rows = frame[["label", "p_ash", "p_elm", "p_oak"]].set_axis(["label", 0, 1, 2], axis=1)
    options = {"probs": [0, 1, 2], "classes": ["ash", "elm", "oak"]}
    found = DaskRows.of_frame(dd.from_pandas(rows, npartitions=3), client=client, **options)
    assert (
        engine.gather(found, found.plan(), client=client).to_bytes()
        == in_memory(pb.read(rows, **options)).to_bytes()
    )


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_other_files(client, frame, tmp_path, form):
    for i in range(3):
        part = frame.iloc[1000 * i : 1000 * (i + 1)].reset_index(drop=True)
        if form == "csv":
            part.to_csv(tmp_path / f"{i}.csv", index=False)
        else:
            part.to_feather(tmp_path / f"{i}.arrow")
    source = scan(tmp_path, **OPTIONS)
    expected = in_memory(source.read())
    assert (
        engine.gather(FileRows(source), source.plan(), client=client).to_bytes()
        == expected.to_bytes()
    )


def test_parts_of_files_hold_whole_groups(frame, tmp_path, monkeypatch):
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    rows = FileRows(scan(tmp_path / "rows.parquet"))
    assert [tuple(part)[:2] for part in rows.parts] == [(0, N)]
    monkeypatch.setattr("probaudit.engines.dask_rows.PART_VALUES", 4 * 250)
    assert [tuple(part)[:2] for part in rows.parts] == [(first, 200) for first in range(0, N, 200)]


def test_an_arrow_file_is_read_in_parts(client, frame, tmp_path, monkeypatch):
    frame.to_feather(tmp_path / "rows.arrow", chunksize=250)
    monkeypatch.setattr("probaudit.files.row_files.GROUP_VALUES", 500 * len(frame.columns))
    monkeypatch.setattr("probaudit.engines.dask_rows.PART_VALUES", 1)
    source = scan(tmp_path / "rows.arrow", **OPTIONS)
    rows = FileRows(source)
    assert [tuple(part)[:2] for part in rows.parts] == [(first, 500) for first in range(0, N, 500)]
    assert (
        engine.gather(rows, source.plan(), client=client).to_bytes()
        == in_memory(source.read()).to_bytes()
    )


@pytest.mark.parametrize("kind", ["probabilities", "logits", "one column", "pairs", "float32"])
def test_arrays_of_every_kind(client, frame, kind):
    p, z = frame.filter(like="p_").to_numpy(), frame.filter(like="z_").to_numpy()
    y = frame["label"].map({"ash": 0, "elm": 1, "oak": 2}).to_numpy()
    outputs, labels, options = {
        "probabilities": (p, y, {}),
        "logits": (z, y, {"from_logits": True}),
        "one column": (p[:, 0], y == 0, {}),
        "pairs": (p.max(axis=1), p.argmax(axis=1) == y, {"pairs": True}),
        "float32": (p.astype(np.float32), y, {}),
    }[kind]
    chunks = (1100,) if outputs.ndim == 1 else (1100, 1)
    rows = DaskRows.of_arrays(
        da.from_array(labels, 700), da.from_array(outputs, chunks), client=client, **options
    )
    expected = in_memory(Predictions(labels, outputs, **options))
    assert rows.classes == expected.plan.classes
    assert engine.gather(rows, rows.plan(), client=client).to_bytes() == expected.to_bytes()


def test_costs_travel_with_the_plan(client, frame):
    costs = {"asking": pb.Cost([[0, 1, 2, 0.3], [1, 0, 1, 0.3], [4, 1, 0, 0.3]])}
    rows = DaskRows.of_frame(dd.from_pandas(frame, npartitions=3), client=client)
    found = engine.gather(rows, rows.plan(costs), client=client)
    assert found.to_bytes() == in_memory(pb.read(frame), costs).to_bytes()


def test_chunks_of_unknown_length_and_empty_partitions(client, frame):
    p, y = (
        da.from_array(frame.filter(like="p_").to_numpy(), (500, K)),
        da.from_array(np.arange(N) % K, 500),
    )
    keep = (da.arange(N, chunks=500) < 700) | (da.arange(N, chunks=500) >= 1600)
    rows = DaskRows.of_arrays(y[keep], p[keep], client=client)
    chosen = np.r_[0:700, 1600:N]
    expected = in_memory(Predictions(chosen % K, frame.filter(like="p_").to_numpy()[chosen]))
    assert [part.rows for part in rows.parts] == [500, 200, 0, 400, 500, 500]
    assert engine.gather(rows, rows.plan(), client=client).to_bytes() == expected.to_bytes()


def test_labels_that_are_missing_at_first(client, frame):
    gaps = frame.assign(label=frame["label"].astype(object).where(np.arange(N) >= 1200, None))
    options = {"probs": "p_*", "on_bad_rows": "drop"}
    rows = DaskRows.of_frame(dd.from_pandas(gaps, npartitions=5), client=client, **options)
    found = engine.gather(rows, rows.plan(), client=client).finalise().summary
    assert (found.rows, found.dropped) == (N - 1200, 1200)


def test_the_first_bad_row_is_the_one_that_is_told(client, frame):
    bad = frame.assign(p_elm=frame["p_elm"].where(~frame.index.isin([1111, 2999]), 7.0))
    rows = DaskRows.of_frame(dd.from_pandas(bad, npartitions=6), client=client, probs="p_*")
    with pytest.raises(InputError, match="row 1111: 7 for class 'elm'"):
        engine.gather(rows, rows.plan(), client=client)
    rows = DaskRows.of_frame(
        dd.from_pandas(bad, npartitions=6), client=client, probs="p_*", on_bad_rows="drop"
    )
    expected = in_memory(pb.read(bad, probs="p_*", on_bad_rows="drop"))
    assert engine.gather(rows, rows.plan(), client=client).to_bytes() == expected.to_bytes()


class Overlapping:
    """Parts that share row 10."""

    def __init__(self) -> None:
        rows = [Predictions([0, 1] * 5 + [0], np.linspace(0, 1, 11)) for _ in range(2)]
        self.parts = [engine.RowPart(10 * i, 11, delayed(part)) for i, part in enumerate(rows)]
        self.reader = partial(_given)
        self.plan = Plan.of(rows[0])


def _given(content, start):
    yield start, content


def test_no_row_is_counted_twice(client):
    source = Overlapping()
    with pytest.raises(InputError, match="rows 10 to 10 are in the state already"):
        engine.gather(source, source.plan, client=client)


def test_no_row_is_left_out(client):
    source = Overlapping()
    source.parts = [source.parts[0], source.parts[1]._replace(start=20)]
    with pytest.raises(
        engine.ClusterError, match=r"covers rows \[\(0, 11\), \(20, 31\)\], not 0 to 30"
    ):
        engine.gather(source, source.plan, client=client)


def test_a_file_that_shrinks_is_noticed(client, frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    source = scan(tmp_path / "rows.parquet")
    plan = source.plan()
    frame.iloc[:100].to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="source"):
        engine.gather(FileRows(source), plan, client=client)


@pytest.mark.parametrize("method", ["TemperatureScaling", "BiasCorrectedTemperature"])
@pytest.mark.parametrize("outputs", ["probs", "logits"])
def test_temperatures_fitted_on_the_cluster_are_those_of_memory(
    client, frame, tmp_path, monkeypatch, method, outputs
):
    sums = "probaudit.calibrators.fitting.softmax_sums"
    monkeypatch.setattr(f"{sums}.BLOCK_VALUES", 1000 * K)
    monkeypatch.setattr(f"{sums}.LEAST_SAMPLE", 16)
    assert len(sample_numbers(len(frame), K)) >= 16
    calibrator, options = (
        getattr(calibrators, method)(),
        {outputs: f"{'p' if outputs == 'probs' else 'z'}_*"},
    )
    expected = fit_calibrator(pb.read(frame, **options), calibrator)
    rows = DaskRows.of_frame(dd.from_pandas(frame, npartitions=4), client=client, **options)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    source = scan(tmp_path / "rows.parquet", **options)
    for found in (
        fit_on_cluster(calibrator, rows, rows.plan(), client=client),
        fit_on_cluster(calibrator, FileRows(source), source.plan(), client=client),
        fit_stream(calibrator, source),
    ):
        assert found.temperature_ == expected.temperature_
        assert calibrators.to_json(found) == calibrators.to_json(expected) or outputs == "probs"
        assert found.fit_report_.score_before == pytest.approx(
            expected.fit_report_.score_before, rel=1e-14
        )
        np.testing.assert_array_equal(getattr(found, "bias_", 0), getattr(expected, "bias_", 0))


def test_temperatures_with_weights_and_rows_left_out(client, frame):
    bad = frame.assign(
        p_elm=frame["p_elm"].where(frame.index % 500 > 0, 7.0),
        w=frame["w"].where(frame.index % 7 > 0, 0.0),
    )
    options = {"probs": "p_*", "weight": "w", "on_bad_rows": "drop"}
    rows = DaskRows.of_frame(dd.from_pandas(bad, npartitions=4), client=client, **options)
    calibrator = calibrators.BiasCorrectedTemperature()
    expected = fit_calibrator(pb.read(bad, **options), calibrator)
    found = fit_on_cluster(calibrator, rows, rows.plan(), client=client)
    assert found.fit_report_.n == expected.fit_report_.n
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    np.testing.assert_allclose(found.bias_, expected.bias_, rtol=1e-10)


@pytest.mark.parametrize(
    "method",
    ["VectorScaling", "MatrixScaling", "PlattScaling", "BetaCalibration", "DirichletCalibration"],
)
def test_sums_of_the_cluster_teach_what_memory_does(client, frame, tmp_path, monkeypatch, method):
    monkeypatch.setattr("probaudit.calibrators.fitting.softmax_sums.BLOCK_VALUES", 1000 * K)
    calibrator, options = getattr(calibrators, method)(), {"probs": "p_*"}
    expected = fit_calibrator(pb.read(frame, **options), calibrator)
    rows = DaskRows.of_frame(dd.from_pandas(frame, npartitions=3), client=client, **options)
    found = fit_on_cluster(calibrator, rows, rows.plan(), client=client)
    P = frame[["p_ash", "p_elm", "p_oak"]].to_numpy()
    np.testing.assert_allclose(
        found.predict_proba(P), expected.predict_proba(P), rtol=0, atol=1e-12
    )
    assert (found.fit_report_.status, found.fit_report_.n) == (expected.fit_report_.status, N)
    assert found.fit_report_.score_after == pytest.approx(
        expected.fit_report_.score_after, rel=1e-12
    )


def test_logits_of_minus_infinity_make_probabilities(frame, tmp_path):
    low = frame.copy()
    low.loc[40, ["label", "z_elm"]] = "ash", -np.inf
    low.to_parquet(tmp_path / "rows.parquet")
    calibrator = calibrators.TemperatureScaling()
    expected = fit_calibrator(pb.read(low, logits="z_*"), calibrator)
    found = fit_stream(calibrator, scan(tmp_path / "rows.parquet", logits="z_*"))
    assert not found.from_logits
    assert found.temperature_ == expected.temperature_


def test_only_temperatures_are_fitted_in_passes(frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="IsotonicCalibration"):
        fit_stream(calibrators.IsotonicCalibration(), scan(tmp_path / "rows.parquet"))


def test_arrays_must_fit_together(client):
    with pytest.raises(InputError, match=r"`y`: needs one entry per row .*\(found: 3\)"):
        DaskRows.of_arrays(da.zeros(3, chunks=3), da.full((4, 2), 0.5, chunks=2), client=client)
    with pytest.raises(InputError, match="no column matches"):
        DaskRows.of_frame(
            dd.from_pandas(pd.DataFrame({"label": [1]}), npartitions=1), client=client
        )


def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(engine, "CONNECT_TIMEOUT", 1.0)
    with (
        pytest.raises(InputError, match="scheduler"),
        engine.connected(scheduler="tcp://127.0.0.1:1"),
    ):
        pass


def test_a_worker_of_another_version_is_refused(client, frame, monkeypatch):
    rows = DaskRows.of_frame(dd.from_pandas(frame, npartitions=1), client=client)
    monkeypatch.setattr(engine, "__version__", "0.0.0")
    with pytest.raises(engine.ClusterError, match=r"the client has 0\.0\.0"):
        engine.gather(rows, rows.plan(), client=client)


@pytest.mark.slow
def test_the_code_of_the_document_runs(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "large-data.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "code.py").write_text("\n".join(blocks))
    subprocess.run([sys.executable, "-W", "error", tmp_path / "code.py"], check=True, timeout=100)


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_memory_and_cluster_agree_for_any_number_of_workers(frame, tmp_path, workers):
    expected = in_memory(pb.read(frame, **OPTIONS)).to_bytes()
    for i, (first, end) in enumerate([(0, 700), (700, 701), (701, N)]):
        frame.iloc[first:end].to_parquet(
            tmp_path / f"part-{i}.parquet", row_group_size=500 * (i + 1)
        )
    source = scan(tmp_path, **OPTIONS)
    with engine.connected(workers=workers) as client:
        client.wait_for_workers(workers, timeout=60)
        for partitions in (3, engine.FAN_IN + 1):
            rows = DaskRows.of_frame(
                dd.from_pandas(frame, npartitions=partitions), client=client, **OPTIONS
            )
            assert engine.gather(rows, rows.plan(), client=client).to_bytes() == expected
        assert engine.gather(FileRows(source), source.plan(), client=client).to_bytes() == expected


def test_dask_collections_are_audited_as_they_are(client, frame):
    parts = dd.from_pandas(frame, npartitions=3)
    expected = pb.audit(pb.read(frame), repair=False).to_dict()
    with client.as_current():
        assert pb.audit(pb.scan(parts), repair=False).to_dict() == expected
        names = ["p_ash", "p_elm", "p_oak"]
        y = da.from_array(np.array(frame["label"].tolist()), chunks=900)
        p = da.from_array(frame[names].to_numpy(), chunks=(900, 3))
        assert pb.audit(y, p, repair=False, classes=["ash", "elm", "oak"]).to_dict() == expected
        with pytest.raises(InputError, match="must be passed alone"):
            pb.audit(pb.scan(parts), p)
