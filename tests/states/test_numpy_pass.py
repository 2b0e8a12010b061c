"""The pass in numpy and the compiled pass give the same bits: each is the oracle of the other."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.kernels import narrow
from probaudit.states import Plan, numpy_pass
from probaudit.states.state import Statistics

N = 2500  # more than one flush, and an incomplete tile


def logits(classes):
    rng = np.random.default_rng(classes)
    return rng.normal(size=(N, classes)) * rng.choice([0.1, 1, 8], size=(N, 1))


def probs(classes):
    p = np.exp(logits(classes))
    p /= p.sum(axis=1, keepdims=True)
    p[:60] = 0  # sure, and often wrong: infinite log losses
    p[:50, 0] = 1
    p[50:60, 1] = 1
    p[60:62, 0] = -0.0
    p[70:80] = 1e-12 / (classes - 1)  # log losses too large for the running sums
    p[70:80, 0] = 1 - 1e-12
    p[100:400] = np.round(p[100:400], 2)  # at edges of cells
    p[100:400, 0] = 1 - p[100:400, 1:].sum(axis=1)
    return p


def labels(classes):
    return np.random.default_rng(1).integers(classes, size=N)


def with_bad_rows(classes):
    p, y = probs(classes), labels(classes)
    p[7, 0], p[9], p[200, 1], y[11] = np.nan, 2, p[200, 1] + 0.1, classes
    return pb.Predictions(y, p, classes=list(range(classes)), on_bad_rows="drop")


def weights():
    w = np.random.default_rng(2).random(N) * 3
    w[5] = 0
    return w


def log_probs(z):
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def predictions(kind, classes):
    p, z, y, drop = probs(classes), logits(classes), labels(classes), {"on_bad_rows": "drop"}
    z[3, 0] = -np.inf
    z[4] *= 900
    return {
        "probabilities": lambda: pb.Predictions(y, p, **drop),
        "float32": lambda: pb.Predictions(y, p.astype(np.float32), **drop),
        "columns": lambda: pb.Predictions(y, np.asfortranarray(p), **drop),
        "weighted": lambda: pb.Predictions(y, p, sample_weight=weights(), **drop),
        "bad rows": lambda: with_bad_rows(classes),
        "logits": lambda: pb.Predictions(y, z, from_logits=True),
        "weighted logits": lambda: pb.Predictions(y, z, from_logits=True, sample_weight=weights()),
        "log-probabilities": lambda: pb.Predictions(y, log_probs(z), from_log_probs=True, **drop),
        "one column": lambda: pb.Predictions(y, p[:, 1], **drop),
        "one logit": lambda: pb.Predictions(y, z[:, 1], from_logits=True),
        "pairs": lambda: pb.Predictions.from_confidence(p[:, 1], y),
    }[kind]()


class Always:
    def __init__(self, numpy):
        self._numpy = numpy

    def take(self, kernel, rows):
        return self._numpy


def state_bytes(rows, numpy, monkeypatch):
    monkeypatch.setattr(numpy_pass, "turns", Always(numpy))
    grids = rows.n_classes == 2 and rows.sample_weight is None
    state = Statistics(Plan.of(rows), class_cells=grids)
    state.update(rows.block(0, N, by_column=True))
    return state.to_bytes() + (state.class_cells.tobytes() if grids else b"")


FOR_ALL = ["probabilities", "float32", "columns", "weighted", "bad rows", "logits"]
FOR_ALL += ["weighted logits", "log-probabilities"]
CASES = [(kind, classes) for kind in FOR_ALL for classes in (2, 3, 10)]
CASES += [(kind, 2) for kind in ("one column", "one logit", "pairs")]


@pytest.mark.parametrize(("kind", "classes"), CASES)
def test_both_passes_give_the_same_bits(kind, classes, monkeypatch):
    rows = predictions(kind, classes)
    in_numpy = state_bytes(rows, True, monkeypatch)
    assert in_numpy == state_bytes(rows, False, monkeypatch)
    assert any(in_numpy)


class Kernel:
    def __init__(self, signatures):
        self.signatures = signatures


def test_numpy_takes_few_small_passes():
    turns = numpy_pass.Turns()
    assert not turns.take(Kernel([]), numpy_pass.FEW_ROWS + 1)
    assert not turns.take(Kernel(["loaded"]), 10)
    taken = [turns.take(Kernel([]), numpy_pass.FEW_ROWS) for _ in range(numpy_pass.PASSES + 1)]
    assert taken == [True] * numpy_pass.PASSES + [False]


def test_a_small_score_needs_no_kernel(monkeypatch):
    def fail(*_):
        raise AssertionError("the kernel must not run")

    fail.signatures = []
    monkeypatch.setattr(narrow, "narrow_probabilities", fail)
    monkeypatch.setattr(numpy_pass, "turns", numpy_pass.Turns())
    # -log 0.5 and -log 0.8, by hand
    score = pb.log_score([0, 1], [[0.5, 0.5], [0.2, 0.8]])
    assert float(score) == pytest.approx((np.log(2) + np.log(1.25)) / 2, rel=1e-15)
