"""Write src/probaudit/kernels/signatures.json: the signatures of kernels in ordinary use.

Run it after a change of a kernel's arguments. Wheels and `probaudit warm-up` compile them ahead.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import probaudit as pb
from probaudit.kernels import signatures, twins


def rows(n: int, classes: int, dtype: Any = np.float64, **options: Any) -> pb.Predictions:
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(n, classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (rng.random(n)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(0, classes - 1)
    features = {"x": rng.normal(size=n), "group": rng.choice(["a", "b"], n)}
    outputs = logits if options.get("from_logits") else probs
    return pb.Predictions(
        labels, outputs.astype(dtype, order=options.pop("order", "C")), features=features, **options
    )


def command(*words: str) -> None:
    """Run a command of probaudit, without its output."""
    from probaudit.cli.commands import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(words)


def ordinary_use() -> None:
    """What most users run: scores, errors, audits, repairs and reports."""
    kinds = [
        {},
        {"from_logits": True},
        {"dtype": np.float32},
        {"dtype": np.float32, "from_logits": True},
        {"order": "F"},
        {"order": "F", "from_logits": True},
        {"order": "F", "dtype": np.float32},
        {"sample_weight": np.linspace(0.5, 1.5, 2000)},
        {"sample_weight": np.linspace(0.5, 1.5, 2000), "from_logits": True},
    ]
    for classes in (2, 5, 100):  # 100 classes are read row by row
        costs = 1 - np.eye(classes)
        for kind in kinds:
            given = rows(2000, classes, **kind)
            pb.log_score(given)
            pb.bayes_risk(given, costs=costs)
            if classes < 100 or "order" not in kind:
                pb.audit(rows(2000, classes, **kind))  # with a pass of its own
        for dtype in (np.float64, np.float32):
            given = rows(2000, classes, dtype)
            pb.calibration_error(given.y, given.probs)
            pb.calibration_error(given.y, given.probs, exact=False)
            pb.calibration_error(given.y, given.probs, lens=pb.TopK(min(2, classes - 1)))
            pb.select_calibrator(given.y, given.probs)
            pb.calibrators.EnsembleTemperature().fit(given.probs, given.y)
            points = np.random.default_rng(1).normal(size=(2000, 2)).astype(dtype)
            pb.grouping_loss(given.y, given.probs, points, interval=None)
    binary = rows(2000, 2)
    pb.log_score(binary.y, binary.probs[:, 1])
    pb.brier_score(binary.y, binary.probs)
    pb.smooth_calibration_error(binary.y, binary.probs)
    pb.maximum_mean_calibration_error(binary.y, binary.probs)
    pb.kernel_calibration_test(binary.y, binary.probs)
    pb.calibrators.GroupCalibration().fit(binary.probs, binary.y, features=binary.probs)
    pb.audit(rows(250_000, 2))  # more than a sample
    pb.validation_table(binary.y, binary.probs[:, 1])
    for classes in (2, 5):
        files(rows(2000, classes))


def files(given: pb.Predictions) -> None:
    """Commands that read a file."""
    names = [*(f"p_{k}" for k in range(given.n_classes)), "label"]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "rows.csv")
        content = np.column_stack([given.probs, given.y])
        np.savetxt(table, content, "%.9g", ",", header=",".join(names), comments="")
        command("audit", str(table), "--html", str(Path(folder, "page.html")))
        command("check", str(table), "--max", "log_score=1")


if __name__ == "__main__":
    twins.SECONDS = 0  # use the kernels for few rows too
    ordinary_use()
    found = {
        name: sorted(
            ([signatures.spelled(kind) for kind in signature] for signature in kernel.signatures),
            key=json.dumps,
        )
        for name, kernel in signatures.kernels().items()
    }
    entries = [
        f'"{name}": [\n'
        + ",\n".join("  " + json.dumps(signature, separators=(",", ":")) for signature in listed)
        + "\n]"
        for name, listed in found.items()
        if listed
    ]
    signatures.LIST.write_text("{\n" + ",\n".join(entries) + "\n}\n", "utf-8")
