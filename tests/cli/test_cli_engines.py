"""Commands on files that stay where they are: the same output as in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit import calibrators
from probaudit.cli.commands import app
from probaudit.states import evidence


def without_advice(text: str) -> dict[str, Any]:
    """An audit's JSON without commands, which name the file."""
    found: dict[str, Any] = json.loads(text)
    for finding in found["findings"]:
        del finding["advice"]
    return found


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three days of rows in a folder, and all of them in one file beside it."""
    world = pb.simulate.gaussian_posteriors(3000, 3, seed=1)
    frame = pd.DataFrame({"label": world.y} | {f"p_{k}": world.mcs[:, k] for k in range(3)})
    frame = frame.assign(
        f_0=np.arange(3000) % 7, site=np.array(["north", "south"])[np.arange(3000) % 2]
    )
    days = tmp_path / "days"
    days.mkdir()
    for day, part in enumerate(np.array_split(np.arange(3000), 3)):
        frame.iloc[part].to_parquet(days / f"day-{day}.parquet")
    frame.to_parquet(tmp_path / "all.parquet")
    return days


@pytest.mark.parametrize("more", [[], ["--features", "f_*"], ["--groups", "site"]])
def test_an_audit_says_the_same_of_a_stream(folder, more):
    in_memory = run(
        "audit", folder.parent / "all.parquet", "--engine", "memory", "--json", "-", *more
    )
    streamed = run("audit", folder, "--json", "-", *more)
    assert in_memory.exit_code == streamed.exit_code == 0, streamed.output
    assert without_advice(in_memory.output) == without_advice(streamed.output)


def test_a_report_of_a_stream(folder, tmp_path):
    found = run(
        "audit", folder / "day-*.parquet", "--engine", "stream", "--html", tmp_path / "report.html"
    )
    assert found.exit_code == 0, found.output
    assert "day-*.parquet" in (tmp_path / "report.html").read_text()


def test_a_check_of_a_stream(folder):
    assert run("check", folder, "--min", "accuracy=10%").exit_code == 0
    assert run("check", folder, "--min", "accuracy=100%").exit_code == 1


def test_a_comparison_of_streams(two):
    streamed, in_memory = (
        run("compare", *two, "--engine", engine, "--json", "-") for engine in ("stream", "memory")
    )
    assert streamed.exit_code == 0, streamed.output
    assert json.loads(streamed.output) == json.loads(in_memory.output)


@pytest.fixture
def small_samples(monkeypatch):
    """Samples of few rows, so that they leave some out."""
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 500)


def test_many_rows_are_compared_on_a_sample_that_is_said(folder, tmp_path, small_samples):
    files = (tmp_path / "all.parquet", tmp_path / "all.parquet")
    found = run("compare", *files, "--engine", "stream", "--name", "a", "--name", "b")
    assert found.exit_code == 0, found.output
    assert "sample of 500 of 3,000 rows" in found.output


def test_a_temperature_is_fitted_to_all_rows(folder, tmp_path, small_samples):
    for engine, file in (("stream", folder), ("memory", tmp_path / "all.parquet")):
        done = run(
            "calibrate",
            file,
            "--engine",
            engine,
            "--method",
            "temperature",
            "-o",
            tmp_path / f"{engine}.json",
        )
        assert done.exit_code == 0, done.output
    streamed, in_memory = (
        calibrators.load(tmp_path / f"{engine}.json") for engine in ("stream", "memory")
    )
    assert streamed.temperature_ == pytest.approx(in_memory.temperature_, rel=1e-10)
    assert streamed.fit_report_.n == 3000


def test_a_calibrator_is_applied_file_by_file(folder, tmp_path):
    assert (
        run(
            "calibrate",
            tmp_path / "all.parquet",
            "--method",
            "temperature",
            "-o",
            tmp_path / "c.json",
        ).exit_code
        == 0
    )
    for source, name in ((folder, "many"), (tmp_path / "all.parquet", "one")):
        done = run("apply", tmp_path / "c.json", source, "-o", tmp_path / f"{name}.parquet")
        assert done.exit_code == 0, done.output
        assert "3,000 rows" in done.output
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "many.parquet"), pd.read_parquet(tmp_path / "one.parquet")
    )


def test_nothing_is_written_if_a_later_file_is_broken(folder, tmp_path):
    assert (
        run(
            "calibrate",
            tmp_path / "all.parquet",
            "--method",
            "temperature",
            "-o",
            tmp_path / "c.json",
        ).exit_code
        == 0
    )
    whole = (folder / "day-2.parquet").read_bytes()
    (folder / "day-2.parquet").write_bytes(whole[: len(whole) // 2])
    before = set(tmp_path.iterdir())
    done = run("apply", tmp_path / "c.json", folder, "-o", tmp_path / "out.parquet")
    assert done.exit_code == 2
    assert "day-2.parquet" in done.output
    assert set(tmp_path.iterdir()) == before
    assert run("audit", folder).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "memory", "--checkpoint", "x"], "checkpoint"),
        (["--engine", "stream", "--scheduler", "tcp://nowhere:1"], "scheduler"),
        (["--engine", "stream", "--resume"], "resume"),
        (["--engine", "stream", "--checkpoint", "no/such/folder/x"], "folder"),
        (["--threads", "0"], "threads"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, arguments, said):
    done = run("audit", folder, *arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_an_npz_file_is_read_whole(tmp_path):
    np.savez(tmp_path / "rows.npz", label=[0, 1, 1], p_0=[0.5, 0.4, 0.1], p_1=[0.5, 0.6, 0.9])
    assert run("audit", tmp_path / "rows.npz").exit_code == 0
    done = run("audit", tmp_path / "rows.npz", "--engine", "stream")
    assert done.exit_code == 2
    assert "npz" in done.output


def test_a_cluster_says_the_same(folder):
    done = run("audit", folder, "--engine", "dask", "--json", "-")
    assert done.exit_code == 0, done.output
    in_memory = run("audit", folder.parent / "all.parquet", "--json", "-")
    assert without_advice(done.output) == without_advice(in_memory.output)


def test_files_of_one_model_may_be_many(folder, tmp_path, small_samples):
    # the folder is streamed, so the file must be too
    done = run("compare", tmp_path / "all.parquet", folder)
    assert done.exit_code == 0, done.output
    assert "sample of 500 of 3,000 rows" in done.output


@pytest.fixture
def two(folder, tmp_path) -> list[Path]:
    """The outputs of two models on the same rows."""
    other = pd.read_parquet(tmp_path / "all.parquet")
    other[["p_0", "p_1", "p_2"]] = other[["p_0", "p_1", "p_2"]] * 0.5 + 1 / 6
    other.to_parquet(tmp_path / "tempered.parquet")
    return [tmp_path / "all.parquet", tmp_path / "tempered.parquet"]


def test_a_comparison_on_a_cluster_at_an_address(two, monkeypatch):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        found = run(
            "compare",
            *two,
            "--engine",
            "dask",
            "--scheduler",
            cluster.scheduler_address,
            "--json",
            "-",
        )
    assert found.exit_code == 0, found.output
    assert json.loads(found.output) == json.loads(
        run("compare", *two, "--engine", "memory", "--json", "-").output
    )
    monkeypatch.setattr("probaudit.engines.cluster.CONNECT_TIMEOUT", 0.5)
    gone = run("compare", *two, "--scheduler", "tcp://127.0.0.1:1", "--engine", "dask")
    assert gone.exit_code == 2
    assert "scheduler" in gone.output


def test_all_models_are_read_by_one_cluster(two, monkeypatch):
    from probaudit.engines import cluster

    begun, connected = [], cluster.connected

    def counted(client=None, **options):
        begun.append(client)
        return connected(client, **({} if client else {"workers": 1}))

    monkeypatch.setattr(cluster, "connected", counted)
    assert run("compare", *two, "--engine", "dask").exit_code == 0
    assert begun[0] is None
    assert None not in begun[1:]


@pytest.mark.parametrize("second", [False, True], ids=["the first model", "the second model"])
def test_an_interrupted_comparison_goes_on(two, tmp_path, monkeypatch, second):
    """With what is known of the models before, which are not read again."""
    from probaudit.engines.row_source import RowSource

    arguments = [
        "compare",
        *two,
        "--checkpoint",
        tmp_path / "state",
        "--threads",
        "1",
        "--json",
        "-",
    ]
    monkeypatch.setattr("probaudit.engines.row_source.MOST_ROWS", 1000)
    monkeypatch.setattr("probaudit.engines.row_source.LEAST_ROWS", 1000)
    predictions, read = RowSource.predictions, []

    def interrupting(self, batch, **options):
        read.append(str(self.files[0].path))
        if read.count(str(two[second])) == 4:  # two looks at the first rows, then a thousand
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return predictions(self, batch, **options)

    with monkeypatch.context() as patch:
        patch.setattr(RowSource, "predictions", interrupting)
        interrupted = run(*arguments)
    assert interrupted.exit_code == 130
    assert f"state.{2 if second else 1}: repeat the command with --resume" in interrupted.output
    left = {path.name for path in tmp_path.glob("state*")}
    assert left == ({"state.1", "state.2"} if second else {"state.1"})
    read.clear()

    def noting(self, batch, **options):
        read.append(self.files[0].path)
        return predictions(self, batch, **options)

    with monkeypatch.context() as patch:
        patch.setattr(RowSource, "predictions", noting)
        resumed = run(*arguments, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert not second or read.count(two[0]) == 1  # the first rows
    assert json.loads(resumed.output) == json.loads(
        run("compare", *two, "--engine", "memory", "--json", "-").output
    )
    assert not list(tmp_path.glob("state*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "memory", "--checkpoint", "x"], "checkpoint"),
        (["--engine", "dask", "--checkpoint", "x"], "checkpoint"),
        (["--scheduler", "tcp://nowhere:1"], "scheduler"),
        (["--resume"], "resume"),
        (["--checkpoint", "no/such/folder/x"], "folder"),
    ],
)
def test_what_a_comparison_refuses(two, arguments, said):
    done = run("compare", *two, *arguments)
    assert done.exit_code == 2
    assert said in done.output


INTERRUPTED = """
import os, signal, sys, time
from probaudit.engines.row_source import RowSource
from probaudit.cli.commands import app
wait, plain = float(sys.argv.pop(1)), RowSource.predictions
def slow(self, batch, **options):
    time.sleep(wait)
    print("batch", file=sys.stderr, flush=True)
    return plain(self, batch, **options)
RowSource.predictions = slow
app()
"""


def test_an_interrupted_command_can_go_on(folder, tmp_path):
    arguments = [
        "audit",
        folder,
        "--engine",
        "stream",
        "--threads",
        "1",
        "--checkpoint",
        tmp_path / "state",
        "--json",
        "-",
    ]
    command = [sys.executable, "-c", INTERRUPTED, "0.4", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3):  # two looks at the first rows, then those of the first file
        assert process.stderr.readline() == "batch\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "--resume" in said
    assert (tmp_path / "state").exists()
    resumed = run(*arguments, "--resume")
    assert resumed.exit_code == 0, resumed.output
    whole = run("audit", tmp_path / "all.parquet", "--json", "-")
    assert without_advice(resumed.output) == without_advice(whole.output)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("option", ["--json", "--html", "--checkpoint"])
def test_outputs_are_checked_before_any_work(folder, tmp_path, option):
    for path in (tmp_path, tmp_path / "no" / "file"):
        done = run("audit", folder, "--engine", "stream", option, path)
        assert done.exit_code == 2
        assert option.strip("-") in done.output


def test_thresholds_are_checked_before_any_work(tmp_path):
    done = run("check", tmp_path / "missing.parquet", "--max", "nonsense")
    assert done.exit_code == 2
    assert "NAME=VALUE" in done.output
