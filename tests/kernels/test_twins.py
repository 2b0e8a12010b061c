"""Kernels and their twins in numpy give the same bits: each is the oracle of the other."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.kernels import narrow, tallies, twins, wide
from probaudit.kernels.bins import sorting_order
from probaudit.kernels.twins import Twin
from probaudit.states import Plan
from probaudit.states.state import Statistics

PASSES = [
    narrow.narrow_probabilities,
    narrow.narrow_logits,
    wide.wide_probabilities,
    wide.wide_logits,
]


class Unloaded:
    """A kernel that is not in memory, and whether it was called."""

    def __init__(self, kernel):
        self.signatures, self.taken, self._kernel = [], False, kernel
        if kernel is not None:
            self.__module__, self.__name__ = kernel.__module__, kernel.__name__

    def __call__(self, *args):
        self.taken = True
        return self._kernel(*args)


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
        "weighted float32": lambda: pb.Predictions(
            y, p.astype(np.float32), sample_weight=weights(), **drop
        ),
        "weighted float32 logits": lambda: pb.Predictions(
            y, z.astype(np.float32), from_logits=True, sample_weight=weights()
        ),
        "one column": lambda: pb.Predictions(y, p[:, 1], **drop),
        "one logit": lambda: pb.Predictions(y, z[:, 1], from_logits=True),
        "pairs": lambda: pb.Predictions.from_confidence(p[:, 1], y),
    }[kind]()


def state_bytes(rows, seconds, monkeypatch):
    """The bytes of a state whose first `seconds` of each kernel run in numpy."""
    for kernel in PASSES:
        monkeypatch.setattr(kernel, "kernel", Unloaded(kernel.kernel))
        monkeypatch.setattr(kernel, "_spent", 0.0)
    monkeypatch.setattr(twins, "SECONDS", seconds)
    grids = rows.n_classes == 2 and rows.sample_weight is None
    state = Statistics(Plan.of(rows), class_cells=grids)
    state.update(rows.block(0, N, by_column=rows.n_classes <= 32))
    taken = [kernel.kernel for kernel in PASSES if kernel.kernel.taken]
    assert bool(taken) == (seconds == 0)
    return state.to_bytes() + (state.class_cells.tobytes() if grids else b"")


FOR_ALL = ["probabilities", "float32", "columns", "weighted", "bad rows", "logits"]
FOR_ALL += ["weighted logits", "log-probabilities"]
CASES = [(kind, classes) for kind in FOR_ALL for classes in (2, 3, 40)]
CASES += [(kind, 2) for kind in ("one column", "one logit", "pairs")]
# Not listed for warm-up: outside tests of kernels, few such rows run in numpy (rare_kernels.py).
RARE = [(kind, K) for kind in ("weighted float32", "weighted float32 logits") for K in (2, 3, 40)]
CASES += [pytest.param(*one, marks=pytest.mark.slow) for one in RARE]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "classes"), CASES)
def test_both_passes_give_the_same_bits(kind, classes, monkeypatch):
    rows = predictions(kind, classes)
    in_numpy = state_bytes(rows, 10, monkeypatch)
    assert in_numpy == state_bytes(rows, 0, monkeypatch)
    assert any(in_numpy)


def test_numpy_takes_few_rows_for_some_seconds():
    run = Twin(Unloaded(sorting_order.kernel), lambda keys: keys)
    assert [run._takes(np.zeros(n)) for n in (5000, 10)] == [False, True]
    run(np.zeros(10))
    assert 0 < run._spent < twins.SECONDS
    run._spent = twins.SECONDS
    assert not run._takes(np.zeros(10))
    run = Twin(Unloaded(sorting_order.kernel), lambda keys: keys)
    run.kernel.signatures = ["loaded"]
    assert not run._takes(np.zeros(10))


@pytest.mark.parametrize(("n", "taken"), [(N, False), (2 * N, True)])
def test_the_kernel_moves_the_sums_of_many_rows(n, taken, monkeypatch):
    run = Unloaded(tallies.flush_cells.kernel)
    monkeypatch.setattr(tallies.flush_cells, "kernel", run)
    monkeypatch.setattr(tallies.flush_cells, "_spent", 0.0)
    rows = pb.Predictions(np.resize(labels(2), n), np.resize(logits(2), (n, 2)), from_logits=True)
    state = Statistics(Plan.of(rows))
    state.update(rows.block(0, n, by_column=True))
    assert any(state.to_bytes())
    assert run.taken == taken


def test_a_small_score_needs_no_kernel(monkeypatch):
    run = Unloaded(None)
    monkeypatch.setattr(narrow.narrow_probabilities, "kernel", run)
    monkeypatch.setattr(narrow.narrow_probabilities, "_spent", 0.0)
    run.__module__, run.__name__ = narrow.__name__, "narrow_probabilities"
    # -log 0.5 and -log 0.8, by hand
    score = pb.log_score([0, 1], [[0.5, 0.5], [0.2, 0.8]])
    assert float(score) == pytest.approx((np.log(2) + np.log(1.25)) / 2, rel=1e-15)
