"""Time of a whole report (audit and page), in seconds and as a multiple of scikit-learn's log loss
of the same rows, and size of the page."""

from __future__ import annotations

import time

import numpy as np

from timing import best, line


def softmax(z: np.ndarray) -> np.ndarray:
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def rows(n: int, classes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels and overconfident outputs."""
    if classes == 2:
        p = rng.beta(0.5, 0.5, n).astype(np.float32)
        return (rng.random(n) < 0.1 + 0.8 * p).astype(int), p
    z = rng.normal(0, 2, (n, classes)).astype(np.float32)
    shares = softmax(z / 1.5).cumsum(axis=1)
    return (shares < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1), softmax(z)


def run() -> None:
    from sklearn.metrics import log_loss

    import probaudit as pb

    rng = np.random.default_rng(0)
    y, p = rows(300, 3, rng)
    # A first run compiles.
    pb.audit(y, p, features=rng.normal(size=(300, 2)), repair="compare").to_html()
    for n, classes, features, goal in (
        (10_000, 10, 64, 20),
        (5_000_000, 2, 0, 60),
        (50_000, 1_000, 64, 180),
    ):
        y, p = rows(n, classes, rng)
        more = {"features": rng.normal(size=(n, features)).astype(np.float32)} if features else {}
        start, used = time.perf_counter(), time.process_time()
        audit = pb.audit(y, p, repair="compare", **more)
        audited = time.perf_counter()
        text = audit.to_html()
        done, used = time.perf_counter(), time.process_time() - used
        columns = list(range(classes))
        peer = best({"log_loss": lambda y=y, p=p, c=columns: log_loss(y, p, labels=c)}, 1.0)
        name = f"{n:,} x {classes:,}" + (f", {features} features" if features else "")
        line(f"{name}: audit, s", audited - start)
        line(f"{name}: page, s", done - audited)
        line(f"{name}: report, s", done - start, f"goal <= {goal}")
        line(f"{name}: report, CPU seconds", used)
        line(f"{name}: report / log_loss", (done - start) / peer["log_loss"])
        line(f"{name}: page, MB", len(text.encode()) / 1e6, "goal <= 3")
