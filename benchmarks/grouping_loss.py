"""Speed of the grouping loss relative to glest on the same rows, and its peak memory."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time

import numpy as np

from probaudit import Binary
from probaudit.grouping.loss import grouping_loss
from probaudit.simulate import neural_outputs
from timing import best, line

CODE = """
import resource, sys
import numpy as np
from probaudit import Binary
from probaudit.grouping.loss import grouping_loss
rng = np.random.default_rng(0)

def rows(n):
    x = rng.standard_normal((n, 64), dtype=np.float32).astype(np.{dtype})
    p = 1 / (1 + np.exp(-2 * x[:, 0].astype(np.float64)))
    return (rng.random(n) < p).astype(np.int64), p, x

# Load the compiled code first, so that it is not counted.
grouping_loss(*rows(20_000), lens=Binary(), recalibrate=True)
y, p, x = rows(1_000_000)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
filler = np.ones(max(0, peak - before), np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
grouping_loss(y, p, x, lens=Binary())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(1 + (after - before) / x.nbytes)
"""


def reference(world):
    """The work of glest: half of the rows, trees of depth 10 in bins, a nearest-neighbour curve."""
    try:
        from glest import GLEstimator
    except ImportError:
        return lambda: _like_glest(world)
    return lambda: GLEstimator(world.scores, partitioner="decision_tree", random_state=0).fit(
        world.features, world.y
    )


def _like_glest(world) -> float:
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.tree import DecisionTreeRegressor

    half = np.random.default_rng(0).permutation(len(world.y)) % 2 == 0
    bins, total = np.minimum((world.scores * 15).astype(int), 14), 0.0
    for number in np.unique(bins):
        train, test = (
            np.flatnonzero((bins == number) & half),
            np.flatnonzero((bins == number) & ~half),
        )
        tree = DecisionTreeRegressor(max_depth=10, random_state=0).fit(
            world.features[train], world.y[train]
        )
        leaf = np.unique(tree.apply(world.features[test]), return_inverse=True)[1]
        rate = np.bincount(leaf, world.y[test]) / np.bincount(leaf)
        total += ((rate[leaf] - world.y[test].mean()) ** 2).sum()
    s, y = world.scores[~half, None], world.y[~half]
    curve = KNeighborsRegressor(min(2000, len(y) // 10)).fit(s, y).predict(s)
    return total / len(y) - float(np.var(curve))


def run() -> None:
    world = neural_outputs(50_000, 64)

    def ours(**options):
        return lambda: grouping_loss(
            world.y, world.scores, world.features, lens=Binary(), **options
        )

    jobs = {
        "glest": reference(world),
        "ours": ours(),
        "one split, no interval": ours(split="half", interval=None),
    }
    times = best(jobs, seconds=10.0)
    line(
        "50,000 x 64: glest / ours (cross-fitted, with intervals)",
        times["glest"] / times["ours"],
        "goal >= 5",
    )
    line(
        "50,000 x 64: glest / ours (one split, no intervals, as glest)",
        times["glest"] / times["one split, no interval"],
    )
    line("50,000 x 64: seconds", times["ours"])
    durations = []
    for n in (100_000, 400_000):
        world = neural_outputs(n, 64)
        start = time.perf_counter()
        ours()()
        durations.append(time.perf_counter() - start)
    line("400,000 rows / 100,000 rows, time", durations[1] / durations[0], "linear is 4")
    root = str(pathlib.Path(__file__).parents[1])
    for dtype, goal in (("float32", "goal <= 2"), ("float16", "")):
        code = CODE.format(dtype=dtype)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
        )
        line(
            f"1,000,000 x 64 {dtype}: peak memory / memory of the features",
            float(done.stdout),
            goal,
        )


if __name__ == "__main__":
    run()
