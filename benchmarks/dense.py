"""Dense outputs, 100 x 19 x 256 x 512 float32 (1 GB): time relative to summing the array, and peak
memory beyond the input, measured in a separate process for each function."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from timing import line

CODE = """
import resource, sys, time
import numpy as np
import probaudit as pb
shape = (100, 19, 256, 512)

def maps(n, k, *size):
    rng = np.random.default_rng(0)
    p, y = np.empty((n, k, *size), np.float32), np.empty((n, *size), np.uint8)
    for image in range(n):
        e = np.exp(2 * rng.standard_normal((k, *size), np.float32))
        p[image] = e / e.sum(axis=0)
        cut = rng.random(size, np.float32)
        y[image] = np.minimum((p[image].cumsum(axis=0) < cut).sum(axis=0), k - 1)
        y[image, : max(1, size[0] // 32)] = 255
    return y, p

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

jobs = {{
    "log_score": lambda y, p: pb.log_score(y, p, ignore_label=255),
    "audit": lambda y, p: pb.audit(y, p, ignore_label=255, repair=False),
    "calibration_error": lambda y, p: pb.calibration_error(y, p, ignore_label=255),
}}
job = jobs[{name!r}]
job(*maps(40, 19, 8, 16))  # loads the compiled code, so that it is not counted
y, p = maps(*shape)
start = time.perf_counter()
p.sum()
reading = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
filler = np.ones(max(0, peak - resident()), np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
job(y, p)
took = time.perf_counter() - start
more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(took / reading, more / p.nbytes, took)
"""


def run() -> None:
    # an error in exact bins keeps several numbers per pixel, as for other rows
    for name, goal in {"log_score": 0.25, "audit": 0.25, "calibration_error": 1}.items():
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(name=name)],
            capture_output=True,
            text=True,
            check=True,
            cwd=pathlib.Path(__file__).parent,
        )
        time, memory, seconds = map(float, done.stdout.split())
        line(f"dense {name}: time / p.sum()", time, f"{seconds:.1f} s")
        line(f"dense {name}: memory beyond the input / input", memory, f"goal <= {goal}")
