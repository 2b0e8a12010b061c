"""Streaming from files: speed relative to pyarrow's bare scan, peak memory, growth with the rows.

    python benchmarks/stream.py [FOLDER]

writes about 3.3 GB of Parquet to FOLDER on the first run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from timing import line

SHAPES = {  # rows, classes, rows per row group
    "100,000,000 x 2": (100_000_000, 2, 1_000_000),
    "10,000,000 x 2": (10_000_000, 2, 1_000_000),
    "2,000,000 x 100": (2_000_000, 100, 100_000),
    # Too many distinct values for a dictionary, so the bare scan is faster.
    "2,000,000 x 100, large groups": (2_000_000, 100, 1_000_000),
}
PEAK = """
import re, sys
from probaudit.engines.choosing import scan
from probaudit.engines.stream import stream
stream(scan(sys.argv[1]), progress=False).finalise()
status = open("/proc/self/status").read()  # ru_maxrss would include the parent process
print(int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) / 1024)
"""


def write(path: Path, n: int, classes: int, group: int) -> Path:
    """Write labels (int8) and probabilities (float32) of an overconfident classifier, with the
    defaults of pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.exists():
        return path
    rng = np.random.default_rng(0)
    columns = [f"p_{k}" for k in range(classes)]
    schema = pa.schema([("label", pa.int8()), *((name, pa.float32()) for name in columns)])
    temporary = path.with_suffix(".part")
    with parquet.ParquetWriter(temporary, schema) as writer:
        for _ in range(0, n, group):
            z = rng.standard_normal((classes, group), dtype=np.float32) * 2
            p = np.exp(z)
            p /= p.sum(axis=0)
            tempered = np.exp(z / 1.3)
            shares = np.cumsum(tempered, axis=0)
            y = (
                (shares < rng.random(group, dtype=np.float32) * shares[-1])
                .sum(axis=0)
                .clip(0, classes - 1)
            )
            table = pa.table([y.astype(np.int8), *p], schema=schema)
            writer.write_table(table, row_group_size=group)
    temporary.rename(path)
    return path


def bare_scan(path: Path) -> int:
    from pyarrow import dataset

    return sum(batch.num_rows for batch in dataset.dataset(path).scanner().to_batches())


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def run(folder: Path | None = None, rounds: int = 5) -> None:
    from probaudit.engines.choosing import scan
    from probaudit.engines.stream import stream

    folder = Path(tempfile.gettempdir()) if folder is None else folder
    times = {}
    for name, (n, classes, group) in SHAPES.items():
        path = write(folder / f"probaudit-{n}-{classes}-{group}.parquet", n, classes, group)
        bare, ours = [], []
        source = scan(path)
        # Alternate, so that noise of the machine affects both. The first round warms up.
        for _ in range(rounds + 1):
            bare.append(seconds(lambda p=path: bare_scan(p)))
            ours.append(seconds(lambda s=source: stream(s, progress=False)))
        times[name] = min(ours[1:])
        line(f"{name}: pyarrow's bare scan, s", min(bare[1:]))
        line(f"{name}: stream, s", times[name])
        line(
            f"{name}: speed of the stream / speed of the scan, best of {rounds}",
            min(bare[1:]) / times[name],
            "goal >= 0.50",
        )
        line(f"{name}: the same, medians", median(bare[1:]) / median(ours[1:]))
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True
        )
        line(f"{name}: peak memory of the process, MiB", float(done.stdout), "goal <= 1024")
    line(
        "10 times the rows: time", times["100,000,000 x 2"] / times["10,000,000 x 2"], "goal <= 11"
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
