"""Time of the fused pass, relative to summing the array, to scikit-learn, and from logits."""

from __future__ import annotations

import warnings

import numpy as np

from probaudit import Predictions
from probaudit.engines.memory import gather
from probaudit.states import Plan
from timing import best, line
from worlds import SHAPES, rows

GOALS = {"50,000 x 1,000 float32": 3, "1,000,000 x 10 float32": 6, "5,000,000 x 2 float64": 8}


def run() -> None:
    from sklearn.metrics import brier_score_loss, log_loss

    warnings.simplefilter("ignore")
    for name, (n, classes, dtype) in SHAPES.items():
        y, z, p = rows(n, classes, dtype)
        probabilities, logits = Predictions(y, p), Predictions(y, z, from_logits=True)
        plan, logit_plan = Plan.of(probabilities), Plan.of(logits)
        labels = np.arange(classes)
        found = best(
            {
                "sum": lambda p=p: p.sum(),
                "pass": lambda r=probabilities, q=plan: gather(r, q),
                "logits": lambda r=logits, q=logit_plan: gather(r, q),
            }
        )
        peer = best(
            {
                "sklearn": lambda y=y, p=p, k=labels: (
                    log_loss(y, p, labels=k),
                    brier_score_loss(y, p, labels=k),
                )
            },
            seconds=0,
            at_least=1,
        )
        line(f"{name}: pass / p.sum()", found["pass"] / found["sum"], f"goal <= {GOALS[name]}")
        line(
            f"{name}: scikit-learn log_loss + brier_score_loss / pass",
            peer["sklearn"] / found["pass"],
            "goal >= 25",
        )
        line(f"{name}: from logits / pass", found["logits"] / found["pass"], "goal <= 3")
