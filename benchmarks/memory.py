"""Peak memory of a pass beyond its input, measured in a separate process for each shape."""

from __future__ import annotations

import subprocess
import sys

from timing import line

CODE = """
import resource, sys
sys.path.insert(0, {folder!r})
import numpy as np
from worlds import SHAPES, rows
from probaudit import Predictions
from probaudit.engines.memory import gather
from probaudit.states import Plan
n, classes, dtype = SHAPES[{name!r}]
small = Predictions(*rows(100, classes, dtype)[0::2])
gather(small, Plan.of(small))  # loads the compiled code, so that it is not counted
y, z, p = rows(n, classes, dtype)
del z
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
filler = np.ones(max(0, peak - {resident}()), np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
r = Predictions(y, p)
gather(r, Plan.of(r))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""

RESIDENT = "(lambda: int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize())"


def run() -> None:
    import pathlib

    from worlds import SHAPES

    folder = str(pathlib.Path(__file__).parent)
    for name in SHAPES:
        code = CODE.format(folder=folder, name=name, resident=RESIDENT)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        line(f"{name}: MiB beyond the input", float(done.stdout), "goal <= 64")
