"""Multilabel tables: time for 100,000 x 50, coverage of macro and micro intervals, and false
alarms, in a world whose labels are dependent given their probabilities."""

from __future__ import annotations

import time

import numpy as np

import probaudit as pb
from timing import line

RUNS, ROWS, LABELS, TRUE_ROWS = 300, 300, 8, 400_000
MEASURES = ("observed", "predicted", "slope", "brier", "log_loss", "auc", "average_precision")


def world(
    n: int, labels: int, rng: np.random.Generator, power: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Labels whose outcomes have a normal copula with correlation 0.6; the log-odds of the model
    are `power` times the true ones."""
    from scipy.special import expit, ndtr

    common = rng.normal(size=(n, 1))
    log_odds = 1.2 * rng.normal(size=(n, labels)) + common - np.linspace(0, 1.5, labels)
    noise = 0.6**0.5 * rng.normal(size=(n, 1)) + 0.4**0.5 * rng.normal(size=(n, labels))
    return (ndtr(noise) < expit(log_odds)).astype(np.int8), expit(power * log_odds)


def run() -> None:
    rng = np.random.default_rng(0)
    y, p = world(100_000, 50, rng)
    start = time.perf_counter()
    pb.multilabel_table(y, p)
    line("multilabel 100,000 x 50: seconds", time.perf_counter() - start, "goal <= 60")
    for power in (1.0, 1.5):
        truth = pb.multilabel_table(*world(TRUE_ROWS, LABELS, rng, power))
        inside = {kind: dict.fromkeys(MEASURES, 0) for kind in ("macro", "micro")}
        alarms = 0
        for _ in range(RUNS):
            found = pb.multilabel_table(*world(ROWS, LABELS, rng, power))
            alarms += any(one.verdict for one in found)
            for kind, counts in inside.items():
                for name in counts:
                    x, true = (getattr(getattr(t, kind), name) for t in (found, truth))
                    counts[name] += x.low <= true <= x.high
        for kind, counts in inside.items():
            for name, count in counts.items():
                line(f"power {power}: coverage of {kind} {name}", count / RUNS, "goal 0.95")
        line(f"power {power}: runs with a significant label", alarms / RUNS)
