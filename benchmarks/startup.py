"""Time of the command line on a small file, with compiled code cached and on a first run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import best, line


def shell(*command: str, **env: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=os.environ | env, check=True, capture_output=True)
    return time.perf_counter() - start


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "small.csv")
        lines = [f"{i % 2},{0.3 + 0.4 * (i % 2) + i % 7 / 100}" for i in range(200)]
        file.write_text("label,p\n" + "\n".join(lines) + "\n")
        audit = (sys.executable, "-m", "probaudit.cli.commands", "audit", str(file), "--probs", "p")
        first = shell(*audit, NUMBA_CACHE_DIR=str(Path(folder, "cache")))
        times = best(
            {
                "audit": lambda: shell(*audit),
                "sklearn": lambda: shell(sys.executable, "-c", "import sklearn.metrics"),
                "import": lambda: shell(sys.executable, "-c", "import probaudit"),
            },
            seconds=10,
        )
    line("audit of a small CSV, compiled code cached: seconds", times["audit"])
    line("import sklearn.metrics: seconds", times["sklearn"])
    line(
        "audit / (2 x import sklearn.metrics + 1 s)",
        times["audit"] / (2 * times["sklearn"] + 1),
        "goal <= 1",
    )
    line("import probaudit: seconds", times["import"], "goal <= 0.5")
    line("first run, with compilation: seconds", first)
