"""Speed and memory as ratios, both sides measured in one run, best of several.

make bench                          all of it
.venv/bin/python benchmarks/run.py passes        one part: passes, calibration, costs, memory, startup
"""

from __future__ import annotations

import sys

import calibration
import costs
import memory
import passes
import startup

PARTS = {"passes": passes.run, "calibration": calibration.run, "costs": costs.run, "memory": memory.run, "startup": startup.run}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        print(f"\n## {name}\n")
        PARTS[name]()
