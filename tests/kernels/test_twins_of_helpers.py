"""The kernels of calibration and of calibrators, and their twins in numpy: the same bits."""

from __future__ import annotations

import copy
from importlib import import_module

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from probaudit.data.arrays import bits_of
from probaudit.kernels import isotonic, signatures
from probaudit.kernels.bins import Bins
from probaudit.kernels.event_pass import Grids
from probaudit.kernels.scaled_softmax import BiasSums, ShiftedRows
from probaudit.kernels.tallies import Running, Tallies
from probaudit.kernels.twins import Twin


class Rows:
    """Random rows: coarse values, so that there are ties and values at edges, or fine ones."""

    def __init__(self, seed, n, K):
        self.rng = rng = np.random.default_rng(seed)
        self.n, self.K = n, K
        self.z = rng.normal(size=(n, K)) * rng.choice([0.5, 3, 300])
        if rng.random() < 0.5:
            self.z = np.round(self.z)
        self.tops = self.z.max(axis=1)
        e = np.exp(self.z - self.tops[:, None])
        self.probs = e / e.sum(axis=1, keepdims=True)
        if rng.random() < 0.5:
            self.probs = np.round(self.probs, 2)
        self.labels = rng.integers(K, size=n)
        self.weights = np.ones(n) if rng.random() < 0.3 else rng.random(n)
        self.event, self.hits = self.probs[:, -1].copy(), (self.labels == K - 1).astype(np.int64)

    def integers(self, *shape, bits=40):
        return self.rng.integers(2**bits, size=shape)

    def scale(self):
        beta = self.rng.choice([0.3, 1.0, 2.5])
        return self.z, self.tops, self.labels, self.weights, beta

    def counts(self, rows):
        weights = self.rng.integers(1, self.rng.choice([2, 9]), size=self.n)
        hits = self.rng.binomial(weights, np.sort(self.event), (rows, self.n))
        return hits.astype(np.float64), weights.astype(np.float64)

    def shifted(self):
        bias, beta = self.rng.normal(size=self.K), 1.3
        shifts = (beta * (self.z - self.tops[:, None]) + bias).max(axis=1)
        return ShiftedRows(self.z, self.tops, shifts, self.labels, self.weights), beta, bias

    def bias_sums(self, products):
        sums = BiasSums(*(self.rng.random(size) for size in (3, self.K, self.K, self.K)))
        return *self.shifted(), sums, np.zeros((self.K, self.K)) if products else None

    def pairs(self, *shape):
        """Pairs as in fixed_point."""
        pairs = self.integers(*shape)
        pairs[:, 1::2] = self.rng.integers(2**62, size=pairs[:, 1::2].shape)
        return pairs

    def running(self, of_classes):
        G, empty = 60, np.zeros((0, 0), np.int64)
        cells = self.integers((1 + of_classes) * G, 4)
        cells[:, 0] = self.rng.integers(3, size=len(cells)) * (1 + 2**32)
        tallies = dict.fromkeys(Tallies._fields, empty)
        tallies |= {"cells": self.pairs(G, 9)[:, [0, 2, 4, 0, 1, 2, 3, 4, 5]]}
        tallies |= {"class_cells": self.pairs(2 * G * of_classes, 4)}
        lists = np.zeros(1, np.int64)
        return Running(empty, lists, lists, cells, empty), Tallies(**tallies)

    def events(self, dtype):
        p, like = self.probs.astype(dtype), np.empty((0, self.K), dtype)
        status, ranks = (self.rng.random(self.n) < 0.1).astype(np.int8), [1, min(self.K, 3), 10]
        sizes = (self.K, 50, 2), (self.K, 50), (3, 70, 4)
        lines, hits, rank_lines = (np.zeros(size, np.int64) for size in sizes)
        grids = Grids(lines, hits, np.array(ranks), rank_lines)
        return p, None, like, self.labels, status, grids

    def top(self, dtype, k):
        p = self.probs.astype(dtype)
        outputs, places = np.empty((self.n, k + 1), dtype), np.empty(self.n, np.int64)
        return p, bits_of(p), self.labels, outputs, places

    def sums(self, *shape):
        """High and low parts, the first of which count rows."""
        high, low = self.rng.random((2, *shape))
        high[..., 0] = np.round(9 * high[..., 0])
        return high, low

    def class_bins(self, right, share=1.0):
        probs = share * self.probs
        bits = bits_of(probs)
        edges = np.linspace(0, 1, 11)
        first = bits_of(np.nextafter(edges[1:2], 1) if right else edges[1:2])[0]
        sums = np.stack(self.sums(self.K, 10, 5))
        return probs, bits, self.labels, self.weights, Bins(edges, first, right), sums


CASES = {
    "bins.width_bins": lambda r: [
        (r.event.astype(t), np.linspace(0, 1, 11), right, np.empty(r.n, np.int64))
        for t in (np.float32, np.float64)
        for right in (False, True)
    ],
    "bins.sorting_order": lambda r: [(np.abs(bits_of(r.event)).view(np.uint64),)],
    "bins.add_values": lambda r: [
        (r.z[:, 0].copy(), r.labels, r.rng.random(r.K), r.rng.random(r.K))
    ],
    "bins.add_event_rows": lambda r: [(r.event, r.hits, r.weights, r.labels, *r.sums(r.K, 5))],
    "bins.add_rows": lambda r: [(r.probs, r.labels, r.weights, r.hits, *r.sums(2, 3 + 2 * r.K))],
    "bins.class_bins": lambda r: [  # and no output beyond the first bin
        r.class_bins(right, share) for right in (False, True) for share in (1, 0.01)
    ],
    "lens_views.top_label": lambda r: [(*r.top(np.float64, 1)[:3], r.event + 0, r.hits + 0)],
    "lens_views.top_k": lambda r: [r.top(np.float64, k) for k in {1, min(3, r.K)}],
    "lens_views.group_sums": lambda r: [(r.probs, np.arange(r.K) % 2, np.empty((r.n, 2)))],
    "grid_cells.tally_event": lambda r: [
        (r.event, r.hits, np.zeros((G, 2), np.int64), np.zeros(G, np.int64)) for G in (70, 2000)
    ],
    "grid_cells.tally_weighted_event": lambda r: [
        (r.event, r.hits, r.weights, np.zeros((G, 2), np.int64), np.zeros((G, 8), np.int64))
        for G in (70, 2000)
    ],
    "tallies.flush_cells": lambda r: [r.running(of_classes) for of_classes in (0, 1)],
    "tallies.merge": lambda r: [(r.pairs(9, 4), r.pairs(9, 4), 0, sign) for sign in (1, -1)],
    "event_pass.tally_events": lambda r: [r.events(dtype) for dtype in (np.float32, np.float64)],
    "kd_tree.tree_cells": lambda r: [
        (r.probs, least, at_median) for least in (2.0, 20.0) for at_median in (False, True)
    ],
    "isotonic.isotonic_levels": lambda r: [r.counts(rows=5)],
    "isotonic.pool_adjacent_violators": lambda r: [
        (np.sort(outputs), *(part.ravel() for part in r.counts(rows=1)))
        for outputs in (r.event, r.rng.random(r.n))
    ],
    "isotonic.read_curve": lambda r: [
        (np.sort(r.rng.random((2, m)), axis=1).round(digits), r.event)
        for m, digits in ((1, 9), (7, 1), (40, 9))
    ],
    "logistic.logistic_sums": lambda r: [
        (np.ascontiguousarray(r.z[:, :2].T), targets, r.weights, r.rng.normal(size=2))
        for targets in (r.hits, r.event)
    ],
    "scaled_softmax.row_tops": lambda r: [
        (r.z.astype(t), np.empty(r.n)) for t in (np.float32, np.float64)
    ],
    "scaled_softmax.scale_sums": lambda r: [
        (*r.scale(), raw, r.rng.random(5)) for raw in (False, True)
    ],
    "scaled_softmax.narrow_scale_sums": lambda r: [
        (*r.scale(), raw, r.rng.random(5)) for raw in (False, True)
    ],
    "scaled_softmax.bias_sums": lambda r: [r.bias_sums(products) for products in (False, True)],
    "scaled_softmax.largest_biased": lambda r: [
        (r.z, 0.7, r.rng.normal(size=r.K), r.tops, np.empty(r.n))
    ],
    "scaled_softmax.keep_argmax": lambda r: [(r.z, r.probs)],
    "scaled_softmax.softmax_rows": lambda r: [
        (r.z, r.tops, r.tops - r.tops, 0.7, bias, np.empty_like(r.z))
        for bias in (None, -r.rng.random(r.K))
    ],
    "scaled_softmax.brier_sum": lambda r: [r.scale()],
    "scaled_softmax.narrow_brier_sum": lambda r: [r.scale()],
}
PASSES = {f"{a}.{a}_{b}" for a in ("narrow", "wide") for b in ("probabilities", "logits")}


def leaves(value):
    """The bytes of every array and number in a value."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [np.asarray(value).tobytes()]


def test_every_twin_is_compared():
    home = signatures.__name__.rpartition(".")[0]
    of_module = {
        name: import_module(f"{home}.{name.partition('.')[0]}")
        for name, kernel in signatures.kernels().items()
        if kernel.py_func.__module__.startswith(home)  # not one of another test
    }
    found = {
        name
        for name, module in of_module.items()
        if isinstance(getattr(module, name.partition(".")[2], None), Twin)
    }
    assert found == CASES.keys() | PASSES  # the passes are in test_twins.py


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25, deadline=None)
@example(seed=0, n=1300, K=3)
@example(seed=1, n=700, K=70)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 90), K=st.integers(2, 12))
def test_twins_give_the_same_bits(name, seed, n, K):
    module, _, function = name.partition(".")
    twin = getattr(import_module(f"probaudit.kernels.{module}"), function)
    rows = Rows(seed, n, K)
    for args in CASES[name](rows):
        if "narrow" in name and K > 32:
            continue
        other = copy.deepcopy(args)
        with np.errstate(all="ignore"):
            found = leaves((twin.kernel(*args), args)), leaves((twin.in_numpy(*other), other))
        assert found[0] == found[1]


@pytest.mark.parametrize(
    ("hits", "weights"),
    [([0.5, 1], [1, 1]), ([0, 0], [1, 0]), ([0, 1], [1, 1.5]), ([1, 1], [1, 2.0**26]), ([], [])],
)
def test_numpy_pools_only_counts(hits, weights):
    hits, weights = np.array(hits, float), np.array(weights, float)
    assert isotonic.pool_adjacent_violators._rows(hits, hits, weights) is None
    assert isotonic.isotonic_levels._rows(hits[None], weights) is None
