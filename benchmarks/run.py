"""Run the benchmarks of speed and memory. Ratios compare two measurements of the same run.

# all parts
make bench
# one part; PARTS has their names
.venv/bin/python benchmarks/run.py passes
"""

from __future__ import annotations

import sys

import calibration
import calibrators
import costs
import dense
import families
import grouping
import grouping_loss
import growth
import memory
import multilabel
import passes
import report
import startup
import stream

PARTS = {
    "passes": passes.run,
    "calibration": calibration.run,
    "calibrators": calibrators.run,
    "families": families.run,
    "grouping": grouping.run,
    "grouping_loss": grouping_loss.run,
    "costs": costs.run,
    "memory": memory.run,
    "dense": dense.run,
    "multilabel": multilabel.run,
    "startup": startup.run,
    "report": report.run,
    "stream": stream.run,
    "growth": growth.run,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        print(f"\n## {name}\n")
        PARTS[name]()
