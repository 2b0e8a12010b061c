"""The outputs of rows that lenses show: the largest ones, and sums over groups of classes."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .twins import twin
from .vectors import STRETCH, add_transposed_four, beyond, lowest_bit

# Rows are compared by their bit patterns, which for p >= 0 have the order of p.
ABREAST = 16  # rows that are summed side by side


@inline
def _largest(bits):
    most = bits[0]
    for k in range(bits.size):
        most = max(most, bits[k])
    return most


@inline
def _value_of(row, bits, pattern):
    """The value with a bit pattern that occurs in the row."""
    k = np.uint64(0)
    while bits[k] != pattern:
        k += np.uint64(1)
    return row[k]


@inline
def _times(bits, pattern):
    """How often a bit pattern occurs; 32-bit counters, as twice as many fit into a vector."""
    times = np.uint32(0)
    for k in range(bits.size):
        times = np.uint32(times + (bits[k] == pattern))
    return np.int64(times)


@twin(lambda probs, *_: probs)
@kernel
def top_label(probs, bits, labels, outputs, hits):
    """The largest output of each row, and whether the label is the first class that has it."""
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
    """Insert x among the largest so far, in falling order; without a branch, which could not be
    predicted."""
    for j in range(top.size):
        x, top[j] = min(x, top[j]), max(x, top[j])


@inline
def _lane_maxima(bits, lanes):
    """The largest of every STRETCH-th value, from each start; the lanes beyond a shorter row keep
    their values."""
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
    """A number that at least k values of a row reach: the k-th of the distinct lane maxima, or
    `none`, which all values reach."""
    lanes[:] = none
    _lane_maxima(bits, lanes)
    bound = _largest(lanes)
    for _ in range(k - 1):
        most, bound = bound, none
        for j in range(STRETCH):
            bound = max(bound, lanes[j] if lanes[j] < most else none)
    return bound


@twin(lambda probs, *_: probs)
@kernel
def top_k(probs, bits, labels, outputs, places):
    """The k largest outputs of each row in order, and the remainder to 1; and the rank of the
    label, where ties go to the lower class."""
    k = outputs.shape[1] - 1
    lanes, top = np.empty(STRETCH, bits.dtype), np.empty(k, bits.dtype)
    # the pattern of -0
    values, none = top.view(probs.dtype), bits.dtype.type(np.iinfo(bits.dtype).min)
    for i in range(probs.shape[0]):
        row, shown, label = bits[i], outputs[i], labels[i]
        least = _bound(row, lanes, k, none)
        top[:] = none
        for start in range(0, row.size, STRETCH):
            word = beyond(row, start, least)
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


@twin(lambda probs, *_: probs)
@kernel
def group_sums(probs, member, outputs):
    """Sums of each row over the classes of a group, in their order; clipped at 1, which rounding
    may exceed.

    Several rows at a time, whose sums do not wait for each other."""
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
                place = ((start + r) * K + k, K)
                add_transposed_four(flat, place, sums, (a + r, b + r, c + r, d + r))
        for k in range(whole, K):
            for r in range(rows):
                sums[member[k], r] += probs[start + r, k]
        for r in range(rows):
            for g in range(sums.shape[0]):
                outputs[start + r, g] = min(sums[g, r], 1.0)
