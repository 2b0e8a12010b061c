"""The bins of outputs, their order, and sums over the rows of each bin or cell.

The sums have about twice the digits of a float64: rounded once, at the end, they are the same for
every order of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compiling import inline, kernel
from .twins import twin
from .vectors import STRETCH, beyond, lowest_bit

DIGIT = 11  # bits; the counts of a digit's values fit into the nearest cache
DIGITS = 6


@inline
def bin_of(p, edges, right):
    """The bin of p between rising edges from 0 to 1, [low, high) or (low, high]; values beyond the
    edges belong to the outermost bins."""
    last = edges.size - 2
    b = min(max(np.int64(p * (last + 1)), 0), last)
    if right:
        while b > 0 and p <= edges[b]:
            b -= 1
        while b < last and p > edges[b + 1]:
            b += 1
    else:
        while b > 0 and p < edges[b]:
            b -= 1
        while b < last and p >= edges[b + 1]:
            b += 1
    return b


@twin(lambda outputs, *_: outputs)
@kernel
def width_bins(outputs, edges, right, bins):
    """The bin of each output."""
    for i in range(outputs.size):
        bins[i] = bin_of(np.float64(outputs[i]), edges, right)


@kernel
def row_codes(outputs, bits, edges, first, right, codes):
    """A code of 64 bits for the bins of each row's outputs but the last; `first` is the least bit
    pattern beyond the first bin.

    Rows of equal bins have equal codes. Different bins share a code about once in 2^64 pairs of
    rows.
    """
    d = outputs.shape[1] - 1
    for i in range(outputs.shape[0]):
        row, pattern, code = outputs[i], bits[i, :d], np.uint64(0)
        for start in range(0, d, STRETCH):
            word = beyond(pattern, start, first)
            while word:
                k = start + np.int64(lowest_bit(word))
                h = np.uint64(k) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
                    bin_of(np.float64(row[k]), edges, right)
                )
                h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                code += h ^ (h >> np.uint64(31))
                word &= word - np.uint64(1)
        codes[i] = code


@twin(lambda keys: keys)
@kernel
def sorting_order(keys):
    """The stable order that sorts unsigned 64-bit numbers: a radix sort from the lowest digit,
    which skips digits that all numbers share."""
    n, values = keys.size, 1 << DIGIT
    counts = np.zeros((DIGITS, values), np.int64)
    for i in range(n):
        key = keys[i]
        for d in range(DIGITS):
            counts[d, (key >> np.uint64(d * DIGIT)) & np.uint64(values - 1)] += 1
    here, there = keys.copy(), np.empty_like(keys)
    order, next_order = np.arange(n), np.empty(n, np.int64)
    for d in range(DIGITS):
        shift, count = np.uint64(d * DIGIT), counts[d]
        if count.max() == n:
            continue
        total = 0
        for v in range(values):
            total, count[v] = total + count[v], total
        for i in range(n):
            v = (here[i] >> shift) & np.uint64(values - 1)
            there[count[v]], next_order[count[v]] = here[i], order[i]
            count[v] += 1
        here, there = there, here
        order, next_order = next_order, order
    return order


@inline
def add_term(high, low, j, x):
    """Add x to high[j], and the rounding error of that addition to low[j] (Knuth's two-sum; Ogita,
    Rump & Oishi 2005)."""
    s = high[j]
    t = s + x
    b = t - s
    low[j] += (s - (t - b)) + (x - b)
    high[j] = t


@twin(lambda values, *_: values)
@kernel
def add_values(values, cell, high, low):
    """Add values to the sums of cells, [m]."""
    for i in range(values.size):
        add_term(high, low, cell[i], values[i])


@twin(lambda outputs, *_: outputs)
@kernel
def add_event_rows(outputs, labels, weights, cell, high, low):
    """Add rows, w, w^2, w p and w hit to the sums of each cell, [m, 5]."""
    for i in range(outputs.size):
        w, at, rest = weights[i], high[cell[i]], low[cell[i]]
        at[0] += 1
        add_term(at, rest, 1, w)
        add_term(at, rest, 2, w * w)
        add_term(at, rest, 3, w * outputs[i])
        add_term(at, rest, 4, w * labels[i])


@twin(lambda outputs, *_: outputs)
@kernel
def add_rows(outputs, labels, weights, cell, high, low):
    """The same for d outputs per row, [m, 3 + 2 d]: rows, w, w^2, d sums of w p, and d of w hit."""
    d = outputs.shape[1]
    for i in range(outputs.shape[0]):
        w, row, at, rest = weights[i], outputs[i], high[cell[i]], low[cell[i]]
        at[0] += 1
        add_term(at, rest, 1, w)
        add_term(at, rest, 2, w * w)
        for k in range(d):
            add_term(at, rest, 3 + k, w * row[k])
        add_term(at, rest, 3 + d + labels[i], w)


class Bins(NamedTuple):
    """Equal-width bins."""

    edges: np.ndarray
    first: Any  # the least bit pattern beyond the first bin
    right: bool  # whether bins are closed on the right


@twin(lambda probs, *_: probs)
@kernel
def class_bins(probs, bits, labels, weights, bins, sums):
    """Add rows, w, w^2, w p and w hit to the sums over each bin of each class's probability, [2, K,
    bins, 5], high and low parts as in add_term.

    The first bin is left out: hardly any of many probabilities lie beyond it.
    """
    edges, right, high, low = bins.edges, bins.right, sums[0], sums[1]
    for i in range(probs.shape[0]):
        row, w, label = probs[i], weights[i], labels[i]
        for start in range(0, row.size, STRETCH):
            word = beyond(bits[i], start, bins.first)
            while word:
                k = start + np.int64(lowest_bit(word))
                p = np.float64(row[k])
                b = bin_of(p, edges, right)
                at, rest = high[k, b], low[k, b]
                at[0] += 1
                add_term(at, rest, 1, w)
                add_term(at, rest, 2, w * w)
                add_term(at, rest, 3, w * p)
                if k == label:
                    add_term(at, rest, 4, w)
                word &= word - np.uint64(1)
