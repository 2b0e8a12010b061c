"""Time and memory by rows, classes, files and workers, and a projection to 10^10 rows on a cluster.

    python benchmarks/growth.py [FACTOR]

takes about three minutes on two cores. FACTOR multiplies the number of rows.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stream import write

ROWS = 2_000_000
GROUP = 250_000
PASS = """
import re, sys, time
from probaudit.engines.choosing import scan
from probaudit.engines.stream import stream

stream(scan(sys.argv[1]), threads=int(sys.argv[2]), progress=False)  # loads the kernels
begin = time.perf_counter()
stream(scan(sys.argv[1]), threads=int(sys.argv[2]), progress=False)
seconds = time.perf_counter() - begin
print(seconds, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


@dataclass(frozen=True)
class Rates:
    """Measured here: rows per second and core, seconds to merge a state, its size."""

    rows_per_second: float
    merge_seconds: float
    state_bytes: int


def projected_seconds(
    rows: float,
    cores: int,
    rates: Rates,
    *,
    part_rows: float = 2.8e6,
    fan_in: int = 8,
    start: float = 10.0,
) -> float:
    """Projected time of a pass on `cores` cores:

        start + rows / (cores x rate) + levels x fan_in x merge, levels = log(parts) / log(fan_in)

    Parts are read in parallel, while a merge waits for those below it. Disks and network must
    deliver rows x bytes per row / seconds.

    >>> rates = Rates(rows_per_second=10e6, merge_seconds=0.02, state_bytes=2_500_000)
    >>> round(projected_seconds(1e10, 100, rates), 1)  # 10 + 10 + 4 levels of 8 merges
    20.6
    """
    parts = max(1.0, rows / part_rows)
    levels = math.ceil(math.log(parts) / math.log(fan_in)) if parts > 1 else 0
    return start + rows / (cores * rates.rows_per_second) + levels * fan_in * rates.merge_seconds


def streamed(path: Path, threads: int = 1) -> tuple[float, float]:
    """Seconds of a pass, and peak memory of its process in MiB."""
    run = subprocess.run(
        [sys.executable, "-c", PASS, str(path), str(threads)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, peak = map(float, run.stdout.split())
    return seconds, peak


def on_cluster(path: Path, workers: int) -> float:
    """Seconds of a pass on a local cluster of processes, after one pass to warm up."""
    from probaudit.engines.choosing import scan
    from probaudit.engines.cluster import connected, gather
    from probaudit.engines.dask_rows import FileRows

    source = scan(path)
    with connected(workers=workers) as client:
        gather(FileRows(source), source.plan(), client=client, progress=False)
        begin = time.perf_counter()
        gather(FileRows(source), source.plan(), client=client, progress=False)
        return time.perf_counter() - begin


def merge_cost(path: Path) -> tuple[float, int]:
    """The least time to read, merge and write a state, in seconds, and its size in bytes."""
    from probaudit.engines.choosing import scan
    from probaudit.engines.cluster import _merged
    from probaudit.states import AuditState

    source = scan(path)
    states = []
    for _, block in zip(range(2), source.blocks(100_000), strict=False):
        states.append(AuditState.empty(source.plan()).update(block[1], start=block[0]).to_bytes())
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        _merged(*states)
        times.append(time.perf_counter() - begin)
    return min(times), len(states[-1])


def row(name: str, seconds: float, rows: int, peak: float | None = None) -> None:
    memory = "" if peak is None else f"{peak:9.0f} MiB"
    print(
        f"{name:44} {seconds:8.2f} s {rows / seconds / 1e6:8.2f} million rows/s {memory}",
        flush=True,
    )


def split(folder: Path, files: int, n: int) -> Path:
    """Write n rows in `files` files."""
    inside = folder / f"{files}-files"
    inside.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    import pyarrow as pa
    from pyarrow import parquet

    for i in range(files):
        p = rng.random(n // files, dtype=np.float32)
        table = pa.table(
            {"label": (rng.random(len(p)) < p).astype(np.int8), "p_0": 1 - p, "p_1": p}
        )
        parquet.write_table(table, inside / f"{i:04}.parquet", row_group_size=GROUP)
    return inside


def run(factor: float = 1.0) -> None:
    n = int(ROWS * factor)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("one thread, Parquet")
        for times in (1, 2, 4):
            path = write(folder / f"rows-{times}.parquet", times * n, 2, GROUP)
            seconds, peak = streamed(path)
            row(f"{times * n:,} x 2", seconds, times * n, peak)
        rate = times * n / seconds
        for classes in (10, 30, 100):
            group = 1_000_000 // classes
            count = max(1, 6 * n // 1_000_000) * group
            path = write(folder / f"classes-{classes}.parquet", count, classes, group)
            row(f"{count:,} x {classes}", *_with_rows(streamed(path), count))
        for files in (1, 10, 100):
            row(f"{n:,} x 2 in {files} files", *_with_rows(streamed(split(folder, files, n)), n))
        big = folder / "rows-4.parquet"
        print("processes of a local cluster")
        for workers in (1, 2):
            row(f"{4 * n:,} x 2, {workers} workers", on_cluster(big, workers), 4 * n)
        merge, size = merge_cost(big)
        rates = Rates(rate, merge, size)
        print(
            f"a core: {rate:,.0f} rows/s; a merge: {1000 * merge:.0f} ms; a state:"
            f" {size / 1e6:.1f} MB"
        )
        for cores in (16, 128, 1024):
            seconds = projected_seconds(1e10, cores, rates)
            print(
                f"10^10 x 2 rows on {cores:5} cores: {seconds:8.0f} s, {cores * seconds / 3600:.2f}"
                " core hours"
            )


def _with_rows(measured: tuple[float, float], rows: int) -> tuple[float, int, float]:
    return measured[0], rows, measured[1]


if __name__ == "__main__":
    run(*map(float, sys.argv[1:]))
