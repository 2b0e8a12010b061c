"""Calibration errors against a plain recursion, against a pass, and (where it is installed) against relplot."""

from __future__ import annotations

import importlib.util

import numpy as np

import probaudit as pb
from probaudit.engines.memory import gather
from probaudit.statistics import Plan
from timing import best, line
from worlds import rows


def plain_tree(points: np.ndarray, least: float) -> list[np.ndarray]:
    """The k-d tree as one would write it in numpy."""
    axis = points.var(axis=0).argmax()
    low = points[:, axis] < points[:, axis].mean()
    if len(points) < least or low.all() or not low.any():
        return [points]
    return plain_tree(points[low], least) + plain_tree(points[~low], least)


def run() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.full(100, 0.3), 50_000)
    tree = pb.KDTree(2**-6)
    found = best({"ours": lambda: tree.cells(points), "plain": lambda: plain_tree(points, 50_000 / 64)}, seconds=4)
    line("50,000 x 100: plain numpy k-d tree / ours", found["plain"] / found["ours"], "goal >= 5")

    p = rng.beta(2, 1, 1_000_000)
    y = (rng.random(len(p)) < p**1.2).astype(np.int64)
    jobs = {"smooth": lambda: pb.smooth_calibration_error(y, p, lens=pb.Binary())}
    if importlib.util.find_spec("relplot"):
        import relplot

        jobs["relplot"] = lambda: relplot.smECE(p, y)
    times = best(jobs, seconds=3)
    if "relplot" in times:
        line("n = 1,000,000: relplot / SmoothECE", times["relplot"] / times["smooth"], "goal >= 10")
    else:
        print("relplot is not installed: SmoothECE is not compared")

    labels, _, probs = rows(1_000_000, 10, np.float32)
    predictions = pb.Predictions(labels, probs)
    plan = Plan.of(predictions)
    wide = best(
        {
            "pass": lambda: gather(predictions, plan),
            "interval": lambda: pb.calibration_error(predictions, interval="percentile", resamples=1000),
        },
        seconds=3,
    )
    line("1,000,000 x 10: ECE with 1,000 resamples / one pass", wide["interval"] / wide["pass"], "goal <= 10")
