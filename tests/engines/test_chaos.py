"""What becomes of a pass when the world breaks: workers, schedulers, files and disks. Nothing lost,
nothing doubled."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit import InputError, calibrators
from probaudit.calibrators.selection import fit_calibrator
from probaudit.states import AuditState, Plan
from tests.conftest import softmax

distributed = pytest.importorskip("distributed")

from probaudit.calibrators.fitting.distributed import fit_on_cluster  # noqa: E402
from probaudit.engines import cluster as engine  # noqa: E402
from probaudit.engines.choosing import scan  # noqa: E402
from probaudit.engines.dask_rows import FileRows  # noqa: E402
from probaudit.engines.stream import stream as stream_rows  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # A client whose scheduler is killed leaves its socket to the garbage collector.
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
    ),
]

N, K, FILES = 40_000, 4, 20
SOON = 60.0  # seconds within which there is a result or an error with a name


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    rng = np.random.default_rng(3)
    z = 2 * rng.normal(size=(N, K))
    y = (z / 1.7 + rng.gumbel(size=z.shape)).argmax(axis=1)
    folder = tmp_path_factory.mktemp("rows")
    frame = pd.DataFrame(
        {"label": y, **{f"p_{k}": column for k, column in enumerate(softmax(z).T)}}
    )
    for i, part in enumerate(np.array_split(frame.index, FILES)):
        frame.loc[part].to_parquet(folder / f"{i:02}.parquet", row_group_size=500)
    return folder


@pytest.fixture(scope="module")
def expected(folder) -> bytes:
    rows = pb.read(folder)
    return AuditState.empty(Plan.of(rows)).update(rows).to_bytes()


@pytest.fixture(autouse=True)
def clean():
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def many_parts(monkeypatch):
    monkeypatch.setattr("probaudit.engines.dask_rows.PART_VALUES", 5 * N // FILES)


def local_cluster(workers: int = 2, **options):
    plain = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
        "silence_logs": 60,
    }
    return distributed.LocalCluster(n_workers=workers, **plain, **options)


def slow_down(place: str, name: str, marks: str, seconds: float) -> None:
    """On a worker: the first call of a function of a module, or "module:class", leaves a mark, then
    takes its time."""
    module, _, inner = place.partition(":")
    home = importlib.import_module(module)
    home = getattr(home, inner) if inner else home
    function = getattr(home, name)

    @wraps(function)  # a method is sent between workers by its name
    def slowed(*args, **kwargs):
        mark = Path(marks) / str(os.getpid())
        if not any(Path(marks).iterdir()):
            mark.touch()
            time.sleep(seconds)
        return function(*args, **kwargs)

    setattr(home, name, slowed)


class Killer(threading.Thread):
    """Waits for a worker's mark and kills it."""

    def __init__(self, marks: Path) -> None:
        super().__init__(daemon=True)
        self.marks, self.killed = marks, 0

    def run(self) -> None:
        while not any(self.marks.iterdir()):
            time.sleep(0.02)
        time.sleep(0.2)  # in the middle of its work
        self.killed = int(next(self.marks.iterdir()).name)
        os.kill(self.killed, signal.SIGKILL)


@pytest.mark.parametrize("phase", ["map", "merge"])
def test_a_worker_killed_in_the_middle_of_its_work(folder, expected, tmp_path, phase):
    source = scan(folder)
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        name = {"map": "_state", "merge": "_merged"}[phase]
        client.run(slow_down, "probaudit.engines.cluster", name, str(tmp_path), 20.0)
        killer, begin = Killer(tmp_path), time.monotonic()
        killer.start()
        found = engine.gather(FileRows(source), source.plan(), client=client)
        assert time.monotonic() - begin < SOON
    assert killer.killed
    assert found.to_bytes() == expected


def test_a_worker_killed_before_the_start(folder, expected):
    source = scan(folder)
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        begin = time.monotonic()
        found = engine.gather(FileRows(source), source.plan(), client=client)
        assert time.monotonic() - begin < SOON
    assert found.to_bytes() == expected


def test_a_worker_killed_with_the_result_in_its_hands(folder, expected, monkeypatch):
    source, result, killed = scan(folder), engine._Watch.result, []

    def late(watch, future):
        while not future.done():
            time.sleep(0.05)
        (holder,) = client.who_has([future])[future.key]
        killed.append(client.run(os.getpid, workers=[holder])[holder])
        os.kill(killed[-1], signal.SIGKILL)
        return result(watch, future)

    monkeypatch.setattr(engine._Watch, "result", late)
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        begin = time.monotonic()
        found = engine.gather(FileRows(source), source.plan(), client=client)
        assert time.monotonic() - begin < SOON
    assert killed
    assert found.to_bytes() == expected


@pytest.mark.parametrize("phase", ["counts_of", "scale_sums", "bias_sums"])
def test_a_worker_killed_during_a_fit(folder, tmp_path, phase):
    source, calibrator = scan(folder), calibrators.BiasCorrectedTemperature()
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.run(
            slow_down,
            "probaudit.calibrators.fitting.streaming:BlockReading",
            phase,
            str(tmp_path),
            20.0,
        )
        killer, begin = Killer(tmp_path), time.monotonic()
        killer.start()
        found = fit_on_cluster(calibrator, FileRows(source), source.plan(), client=client)
        assert time.monotonic() - begin < SOON
    inside = fit_calibrator(pb.read(folder), calibrator)
    assert killer.killed
    assert found.temperature_ == inside.temperature_
    np.testing.assert_array_equal(found.bias_, inside.bias_)


@contextmanager
def lonely_cluster(folder: Path):
    """A scheduler, its only worker, which does not come back, and a client; the worker will sleep
    over its first part."""
    address, marks = folder / "scheduler.json", folder / "marks"
    marks.mkdir()
    worker_options = "--no-nanny", "--nthreads", "1", "--no-dashboard"
    with (
        dask_process(
            "scheduler", "--scheduler-file", address, "--port", "0", "--no-dashboard"
        ) as scheduler,
        dask_process("worker", "--scheduler-file", address, *worker_options) as worker,
        engine.connected(scheduler=scheduler_at(address)) as client,
    ):
        client.wait_for_workers(1, timeout=30)
        client.run(slow_down, "probaudit.engines.cluster", "_state", str(marks), 60.0)
        yield scheduler, worker, client


def test_all_workers_lost(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "PATIENCE", 10.0)
    source = scan(folder)
    with lonely_cluster(tmp_path) as (_, worker, client):
        threading.Timer(1.0, worker.kill).start()
        begin = time.monotonic()
        with pytest.raises(engine.ClusterError, match="no worker for 10 seconds"):
            engine.gather(FileRows(source), source.plan(), client=client)
        assert time.monotonic() - begin < SOON


def test_the_scheduler_lost(folder, tmp_path):
    source = scan(folder)
    with lonely_cluster(tmp_path) as (scheduler, _, client):
        threading.Timer(1.0, scheduler.kill).start()
        begin = time.monotonic()
        with pytest.raises(engine.ClusterError, match="the cluster was lost"):
            engine.gather(FileRows(source), source.plan(), client=client)
        assert time.monotonic() - begin < SOON


def _deadly(reader, content, start):
    if start == N // 2:
        os.kill(os.getpid(), signal.SIGKILL)
    yield from reader(content, start)


class Deadly:
    """A part in the middle that no worker survives."""

    def __init__(self, rows: FileRows) -> None:
        self.parts, self.reader = rows.parts, partial(_deadly, rows.reader)


def test_rows_that_no_worker_survives(folder):
    source = scan(folder)
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        begin = time.monotonic()
        with pytest.raises(engine.ClusterError, match="workers died repeatedly"):
            engine.gather(Deadly(FileRows(source)), source.plan(), client=client)
        assert time.monotonic() - begin < SOON


def scheduler_at(address: Path) -> str:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(address.read_text())["address"]
        time.sleep(0.1)
    raise TimeoutError("the scheduler did not start")


@contextmanager
def dask_process(*arguments: object):
    """A process of dask's own command line, killed at the end."""
    # workers must find what this file sends them
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": os.environ | {"PYTHONPATH": paths},
    }
    process = subprocess.Popen([sys.executable, "-m", "dask", *map(str, arguments)], **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_file_cut_short_between_scan_and_pass(folder, tmp_path):
    copy = tmp_path / "rows"
    shutil.copytree(folder, copy)
    source = scan(copy)
    plan, victim = source.plan(), copy / "07.parquet"
    with victim.open("r+b") as stream:
        stream.truncate(victim.stat().st_size // 2)
    with pytest.raises(InputError, match=r"07\.parquet"):
        stream_rows(source)
    with engine.connected(workers=1) as client, pytest.raises(InputError, match=r"07\.parquet"):
        engine.gather(FileRows(source), plan, client=client)
    with pytest.raises(InputError, match=r"07\.parquet"):
        scan(copy)


FULL_DISK = """
import resource, sys
from pathlib import Path
from probaudit import InputError
from probaudit.states import AuditState

folder = Path(sys.argv[1])
state = AuditState.load(folder / "state.npz")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    state.save(folder / "state.npz")
except InputError as problem:
    print(problem)
"""


def test_a_disk_that_is_full_leaves_the_old_file(expected, tmp_path):
    AuditState.from_bytes(expected).save(tmp_path / "state.npz")
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "File too large" in run.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]
    assert AuditState.load(tmp_path / "state.npz").to_bytes() == expected


INTERRUPTED = """
import sys, time
from pathlib import Path
from probaudit.engines.choosing import scan
from probaudit.engines.row_source import RowSource
from probaudit.engines.stream import stream

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
predictions = RowSource.predictions

def slowly(source, batch, **options):
    print("at work", flush=True)
    time.sleep(0.05)
    return predictions(source, batch, **options)

source = scan(folder)
source.plan()  # which reads the first rows
RowSource.predictions = slowly
stream(source, checkpoint=out / "checkpoint", resume=True, threads=2).save(out / "state.npz")
"""


def test_interrupts_and_resuming_lose_and_double_nothing(folder, expected, tmp_path):
    command, interrupted = [sys.executable, "-c", INTERRUPTED, str(folder), str(tmp_path)], 0
    for seconds in (0.1, 0.4, 0.0, 0.2, 60.0):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
            assert run.stdout.readline().startswith(b"at work")
            threading.Timer(seconds, run.send_signal, [signal.SIGINT]).start()
            run.communicate()
        if run.returncode == 0:
            break
        interrupted += (tmp_path / "checkpoint").exists()
    assert interrupted
    assert AuditState.load(tmp_path / "state.npz").to_bytes() == expected
