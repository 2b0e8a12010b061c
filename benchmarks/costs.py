"""Time of decisions under a full K x M cost matrix, relative to the matrix product alone."""

from __future__ import annotations

import numpy as np

from probaudit import Cost, Predictions
from probaudit.engines.memory import gather
from probaudit.states import Plan
from timing import best, line
from worlds import rows


def run() -> None:
    for n, classes in ((1_000_000, 10), (50_000, 100), (5_000, 1_000)):
        y, _, p = rows(n, classes, np.float32)
        cost = Cost(np.random.default_rng(0).random((classes, classes + 1)))
        predictions = Predictions(y, p)
        plain, costly = Plan.of(predictions), Plan.of(predictions, {"costs": cost})
        times = best(
            {
                "product": lambda p=p, c=cost: (p.astype(np.float64) @ c.matrix).argmin(axis=1),
                "plain": lambda r=predictions, q=plain: gather(r, q),
                "costly": lambda r=predictions, q=costly: gather(r, q),
            },
            seconds=3,
        )
        extra = times["costly"] - times["plain"]
        line(
            f"{n:,} x {classes:,}: extra time for a cost matrix / numpy product + argmin",
            extra / times["product"],
        )
