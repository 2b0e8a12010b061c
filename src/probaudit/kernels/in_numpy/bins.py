"""The bins of outputs, and sums over the rows of each bin or cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..bins import Bins

Array = np.ndarray


def width_bins(outputs: Array, edges: Array, right: bool, bins: Array) -> None:
    side = "left" if right else "right"
    bins[:] = np.clip(np.searchsorted(edges, outputs, side) - 1, 0, len(edges) - 2)


def sorting_order(keys: Array) -> Array:
    return np.argsort(keys, kind="stable")


def _add_terms(cell: Array, terms: Array, high: Array, low: Array) -> None:
    """`kernels.bins.add_term` for each row and its cell: terms [n, t], high and low [m, t]."""
    if not len(cell):
        return
    order = np.argsort(cell, kind="stable")
    used, first = np.unique(cell[order], return_index=True)
    for place, rows in zip(used, np.split(order, first[1:]), strict=True):
        x = terms[rows]
        s = np.add.accumulate(np.concatenate([high[place][None], x]))
        s, t = s[:-1], s[1:]
        b = t - s
        errors = (s - (t - b)) + (x - b)
        high[place] = t[-1]
        low[place] = np.add.accumulate(np.concatenate([low[place][None], errors]))[-1]


def add_values(values: Array, cell: Array, high: Array, low: Array) -> None:
    _add_terms(cell, values[:, None], high[:, None], low[:, None])


def _event_terms(outputs: Array, hits: Array, weights: Array) -> Array:
    """Rows, w, w^2, w p and w hit."""
    w = weights
    return np.stack([np.ones(len(w)), w, w * w, w * outputs, w * hits], axis=1)


def add_event_rows(
    outputs: Array, labels: Array, weights: Array, cell: Array, high: Array, low: Array
) -> None:
    _add_terms(cell, _event_terms(outputs, labels, weights), high, low)


def add_rows(
    outputs: Array, labels: Array, weights: Array, cell: Array, high: Array, low: Array
) -> None:
    d, w = outputs.shape[1], weights[:, None]
    hit = labels[:, None] == np.arange(d)
    terms = np.hstack([np.ones_like(w), w, w * w, w * outputs, w * hit])
    _add_terms(cell, terms, high, low)


def class_bins(
    probs: Array, bits: Array, labels: Array, weights: Array, bins: Bins, sums: Array
) -> None:
    rows, classes = np.nonzero(bits >= bins.first)
    p, count = probs[rows, classes].astype(np.float64), len(bins.edges) - 1
    place = np.empty(len(p), np.int64)
    width_bins(p, bins.edges, bins.right, place)
    terms = _event_terms(p, labels[rows] == classes, weights[rows])
    high, low = sums.reshape(2, -1, 5)
    _add_terms(classes * count + place, terms, high, low)
