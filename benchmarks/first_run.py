"""CPU seconds of first and later runs on 2,000 rows, for the table of docs/first-run.md.

Run it with the Python of this repository, and name the Python of each fresh environment in which a
wheel is installed: `benchmarks/first_run.py pure/bin/python platform/bin/python`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LATER = 3  # runs, of which the fastest counts
SCORE = (
    "import numpy as np, probaudit as pb; "
    "p = np.random.default_rng(0).dirichlet([1, 1], 2000); "
    "pb.log_score(np.arange(2000) % 2, p)"
)


def write(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, classes in {"two": 2, "ten": 10, "hundred": 100}.items():
        p = rng.dirichlet(np.full(classes, 0.5), 2000)
        y = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
        head = ",".join(["label", *(f"p_{k}" for k in range(classes))])
        np.savetxt(folder / f"{name}.csv", np.c_[y, p], "%.17g", ",", header=head, comments="")
        if classes == 2:
            np.savez(folder / "single.npz", label=y, p=p.astype(np.float32))
            np.savez(folder / "logits.npz", label=y, z=np.log(np.maximum(p, 1e-300)))


SINGLE, LOGITS = ("single.npz", "--probs", "p"), ("logits.npz", "--logits", "z")
ROWS = {"": ("two.csv",), ", float32": SINGLE, ", logits": LOGITS}
ROWS |= {", 10 classes": ("ten.csv",), ", 100 classes": ("hundred.csv",)}
COMMANDS = {
    "check": ("check", "--max", "ece=1"),
    "audit": ("audit",),
    "audit --html": ("audit", "--html", "page.html"),
}


def jobs(python: str) -> dict[str, tuple[str, ...]]:
    found = {"`import` and `log_score`": (python, "-c", SCORE)}
    for command, (name, *options) in COMMANDS.items():
        for kind, rows in ROWS.items():
            job = (python, "-m", "probaudit", name, *rows, *options)
            found[f"`probaudit {command}`{kind}"] = job
    return found


def seconds(job: tuple[str, ...], folder: Path, cache: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    settings = os.environ | {"NUMBA_CACHE_DIR": cache}
    settings.pop("PYTHONPATH", None)
    subprocess.run(job, cwd=folder, env=settings, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def run(pythons: list[str]) -> None:
    pythons = [os.path.abspath(python) for python in pythons]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder)
        for name in jobs(""):
            cells = []
            for python in pythons:
                job = jobs(python)[name]
                with tempfile.TemporaryDirectory() as cache:
                    first = seconds(job, folder, cache)
                    later = min(seconds(job, folder, cache) for _ in range(LATER))
                cells += [f"{first:.1f}", f"{later:.1f}"]
            print("|", name, "|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    run(sys.argv[1:])
