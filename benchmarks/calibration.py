"""Speed of calibration errors relative to plain numpy, one pass, and relplot if installed."""

from __future__ import annotations

import importlib.util
import time

import numpy as np

import probaudit as pb
from probaudit.engines.memory import gather
from probaudit.states import Plan
from timing import best, line
from worlds import rows


def plain_tree(points: np.ndarray, least: float) -> list[np.ndarray]:
    """A straightforward k-d tree in numpy."""
    axis = points.var(axis=0).argmax()
    low = points[:, axis] < points[:, axis].mean()
    if len(points) < least or low.all() or not low.any():
        return [points]
    return plain_tree(points[low], least) + plain_tree(points[~low], least)


def run() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.full(100, 0.3), 50_000)
    tree = pb.KDTree(2**-6)
    trees = best(
        {"ours": lambda: tree.cells(points), "plain": lambda: plain_tree(points, 50_000 / 64)},
        seconds=4,
    )
    line("50,000 x 100: plain numpy k-d tree / ours", trees["plain"] / trees["ours"], "goal >= 5")

    p = rng.beta(2, 1, 1_000_000)
    y = (rng.random(len(p)) < p**1.2).astype(np.int64)
    jobs = {"smooth": lambda: pb.smooth_calibration_error(y, p, lens=pb.Binary())}
    if importlib.util.find_spec("relplot"):
        import relplot

        jobs["relplot"] = lambda: relplot.smECE(p, y)
    if "relplot" in jobs:
        for clock, words in ((time.perf_counter, "seconds"), (time.process_time, "CPU seconds")):
            times = best(jobs, seconds=3, clock=clock)
            ratio = times["relplot"] / times["smooth"]
            line(f"n = 1,000,000: relplot / SmoothECE, {words}", ratio, "goal >= 25")
    else:
        print("SmoothECE is not compared: relplot is not installed")

    labels, _, probs = rows(1_000_000, 10, np.float32)
    plan = Plan.of(pb.Predictions(labels, probs))
    wide = best(
        {
            "pass": lambda: gather(pb.Predictions(labels, probs), plan),
            "intervals": lambda: resampled(pb.Predictions(labels, probs)),
            "exact": lambda: pb.calibration_error(pb.Predictions(labels, probs), interval=True),
        },
        seconds=4,
    )
    name = "1,000,000 x 10: ECE, SmoothECE and kernel error, 1,000 resamples each / one pass"
    line(name, wide["intervals"] / wide["pass"], "goal <= 10")
    line("the same, ECE alone, exact bins", wide["exact"] / wide["pass"])

    labels, _, probs = rows(50_000, 1_000, np.float32)
    plan = Plan.of(pb.Predictions(labels, probs))
    metrics = best(
        {
            "pass": lambda: gather(pb.Predictions(labels, probs), plan),
            "all": lambda: every_metric(pb.Predictions(labels, probs)),
            "full": lambda: pb.calibration_error(labels, probs, lens=pb.Full(), distance="tvd"),
        },
        seconds=6,
    )
    line(
        "50,000 x 1,000: eighteen metrics / one pass", metrics["all"] / metrics["pass"], "goal <= 4"
    )
    line(
        "the same, full-simplex ECE over equal-width cells alone", metrics["full"] / metrics["pass"]
    )


def resampled(p: pb.Predictions) -> None:
    pb.calibration_error(p, exact=False, interval=True)
    pb.smooth_calibration_error(p, interval=True)
    pb.kernel_calibration_error(p, interval="percentile")


def every_metric(p: pb.Predictions) -> None:
    top = pb.TopLabel()
    pb.calibration_error(p)
    pb.calibration_error(p, partition=pb.EqualMass(15))
    pb.calibration_error(p, worst=True)
    pb.rms_calibration_error(p, debias=False)
    pb.rms_calibration_error(p)
    pb.calibration_error(p, lens=pb.Classwise())
    pb.calibration_error(p, lens=pb.TopK(5), distance="tvd")
    pb.calibration_error(p, lens=pb.Groups((np.arange(1_000) % 20).tolist()), distance="tvd")
    pb.calibration_error(p, where=pb.OutputIn(0.2, 0.8))
    pb.sweep_calibration_error(p, lens=top)
    pb.calibration_line(p, lens=top)
    pb.calibration_indices(p, lens=top)
    pb.spiegelhalter_test(p, lens=top)
    pb.hosmer_lemeshow_test(p, lens=top)
    pb.cumulative_differences(p, lens=top)
    pb.maximum_mean_calibration_error(p)
    pb.kernel_calibration_test(p, lens=top, pairs="disjoint")
    pb.partitioned_calibration_error(
        p, partitions=[pb.EqualWidth(15), pb.EqualMass(15), pb.Whole()]
    )
