"""What lenses and equal bins see of rows."""

from __future__ import annotations

import numpy as np

from .celling import add_term
from .compiling import inline, kernel
from .vectors import add_transposed_four, at_least, lowest_bit

# Rows are looked at through their bit patterns, which for p >= 0 are in the order of p.
STRETCH = 64  # values of a row that are looked at together
ABREAST = 16  # rows that are summed side by side


@inline
def _largest(bits):
    most = bits[0]
    for k in range(bits.size):
        most = max(most, bits[k])
    return most


@inline
def _value_of(row, bits, pattern):
    """The value that has a bit pattern, which is in the row."""
    k = np.uint64(0)
    while bits[k] != pattern:
        k += np.uint64(1)
    return row[k]


@inline
def _times(bits, pattern):
    """How often a bit pattern occurs; counted in 32 bits, twice as many at a time."""
    found = np.uint32(0)
    for k in range(bits.size):
        found = np.uint32(found + (bits[k] == pattern))
    return np.int64(found)


@kernel
def top_label(probs, bits, labels, outputs, hits):
    """The largest of each row, and whether it is (first) at the label."""
    for i in range(probs.shape[0]):
        row, label = bits[i], np.uint64(labels[i])
        most = _largest(row)
        hits[i] = 0
        if row[label] == most:
            hits[i] = _times(row[:label], most) == 0
            outputs[i] = probs[i, label]
        else:
            outputs[i] = _value_of(probs[i], row, most)


@inline
def _insert(top, x):
    """Put x among the largest so far, which fall; without a branch, as none could be foretold."""
    for j in range(top.size):
        x, top[j] = min(x, top[j]), max(x, top[j])


@inline
def _lane_maxima(bits, lanes):
    """The largest of every STRETCH-th value, from each start; lanes are as they were where a row is
    shorter."""
    whole = bits.size // STRETCH * STRETCH
    for start in range(0, whole, STRETCH):
        part = bits[start : start + STRETCH]
        for j in range(STRETCH):
            lanes[j] = max(lanes[j], part[j])
    part = bits[whole:]  # a slice first: the compiler does not vectorise an index with an offset
    for j in range(part.size):
        lanes[j] = max(lanes[j], part[j])


@inline
def _bound(bits, lanes, k, none):
    """A number that k values of a row reach: the k-th of the different lane maxima, or `none`,
    which all do."""
    lanes[:] = none
    _lane_maxima(bits, lanes)
    found = _largest(lanes)
    for _ in range(k - 1):
        most, found = found, none
        for j in range(STRETCH):
            found = max(found, lanes[j] if lanes[j] < most else none)
    return found


@inline
def _beyond(bits, start, first):
    """Which of the values from `start` on, 64 at most, are not below `first`: a word with a bit for
    each."""
    if start + STRETCH <= bits.size:
        return at_least(bits, start, first)
    if bits.size >= STRETCH:  # the last 64, without those that came before
        return at_least(bits, bits.size - STRETCH, first) >> np.uint64(start + STRETCH - bits.size)
    word, part = np.uint64(0), bits[start:]
    for c in range(part.size):
        word |= np.uint64(part[c] >= first) << np.uint64(c)
    return word


@kernel
def top_k(probs, bits, labels, outputs, places):
    """The k largest of each row in order; what is left of 1; and the place of the label, the lower
    class first of equals."""
    k = outputs.shape[1] - 1
    lanes, top = np.empty(STRETCH, bits.dtype), np.empty(k, bits.dtype)
    # the pattern of -0
    values, none = top.view(probs.dtype), bits.dtype.type(np.iinfo(bits.dtype).min)
    for i in range(probs.shape[0]):
        row, shown, label = bits[i], outputs[i], labels[i]
        least = _bound(row, lanes, k, none)
        top[:] = none
        for start in range(0, row.size, STRETCH):
            word = _beyond(row, start, least)
            while word:
                x = row[start + np.int64(lowest_bit(word))]
                if x > top[k - 1]:
                    _insert(top, x)
                word &= word - np.uint64(1)
        total, larger = 0.0, 0
        for j in range(k):
            shown[j] = values[j]
            total += shown[j]
            larger += top[j] > row[label]
        shown[k] = max(1 - total, 0.0)
        places[i] = k if larger == k else min(k, larger + _times(row[:label], row[label]))


@kernel
def group_sums(probs, member, outputs):
    """Sums of each row over the classes of a group, in their order; they may round to more than 1,
    and are cut there.

    For many rows at a time, whose sums do not wait for each other."""
    n, K = probs.shape
    flat, sums = probs.reshape(probs.size), np.zeros((outputs.shape[1], ABREAST))
    for start in range(0, n, ABREAST):
        rows = min(ABREAST, n - start)
        sums[:] = 0.0
        whole = K - K % 4 if rows == ABREAST else 0
        for k in range(0, whole, 4):
            a, b, c, d = (
                member[k] * ABREAST,
                member[k + 1] * ABREAST,
                member[k + 2] * ABREAST,
                member[k + 3] * ABREAST,
            )
            for r in range(0, ABREAST, 4):
                add_transposed_four(flat, (start + r) * K + k, K, sums, a + r, b + r, c + r, d + r)
        for k in range(whole, K):
            for r in range(rows):
                sums[member[k], r] += probs[start + r, k]
        for r in range(rows):
            for g in range(sums.shape[0]):
                outputs[start + r, g] = min(sums[g, r], 1.0)


@inline
def bin_of(p, edges, right):
    """The bin of p between rising edges from 0 to 1, [low, high) or (low, high]; the outermost bins
    take what is beyond."""
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
            word = _beyond(pattern, start, first)
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


@kernel
def class_bins(probs, bits, labels, weights, edges, first, right, high, low):
    """Sums over the rows in each bin of each class's probability, [K, bins, 5] of rows, w, w^2, w
    p, w hit; without the first bin, beyond which hardly any of many probabilities lie: `first` is
    the least bit pattern that does. High and low parts as in `celling`."""
    for i in range(probs.shape[0]):
        row, w, label = probs[i], weights[i], labels[i]
        for start in range(0, row.size, STRETCH):
            word = _beyond(bits[i], start, first)
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
