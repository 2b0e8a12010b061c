"""What lenses and equal bins see of rows."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel

STRETCH = 64  # values of a row whose largest is looked at first; bit patterns, as for p >= 0 they are in the order of p


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


@kernel
def top_label(probs, bits, labels, outputs, hits):
    """The largest of each row, and whether it is (first) at the label."""
    for i in range(probs.shape[0]):
        row, label = bits[i], np.uint64(labels[i])
        most = _largest(row)
        hits[i] = 0
        if row[label] == most:
            earlier, before = row[:label], np.uint32(0)
            for k in range(earlier.size):
                before = np.uint32(before + (earlier[k] == most))
            hits[i] = before == 0
            outputs[i] = probs[i, label]
        else:
            outputs[i] = _value_of(probs[i], row, most)


@inline
def _insert(top, which, k, p, c):
    """Put p, of class c, in its place among the k largest so far; of equals the lower class comes first."""
    if p < top[k - 1] or (p == top[k - 1] and c > which[k - 1]):
        return
    j = k - 1
    while j > 0 and (p > top[j - 1] or (p == top[j - 1] and c < which[j - 1])):
        top[j], which[j] = top[j - 1], which[j - 1]
        j -= 1
    top[j], which[j] = p, c


@inline
def _lane_maxima(bits, lanes):
    """The largest of every STRETCH-th value, from each start; lanes are as they were where a row is shorter."""
    whole = bits.size // STRETCH * STRETCH
    for start in range(0, whole, STRETCH):
        part = bits[start : start + STRETCH]
        for j in range(STRETCH):
            lanes[j] = max(lanes[j], part[j])
    for k in range(whole, bits.size):
        lanes[k - whole] = max(lanes[k - whole], bits[k])


@kernel
def top_k(probs, bits, labels, outputs, places):
    """The k largest of each row in order, the lower class first of equals; what is left of 1; and the place of the label.

    The k largest lane maxima are k values of the row, so that no smaller value than these is among its top.
    """
    k = outputs.shape[1] - 1
    which = np.empty(k, np.int64)
    lanes = np.empty(STRETCH, bits.dtype)
    few = probs.shape[1] <= STRETCH or k > STRETCH // 4
    for i in range(probs.shape[0]):
        row, top, pattern = probs[i], outputs[i], bits[i]
        top[:] = -1.0
        if few:
            for c in range(row.size):
                _insert(top, which, k, np.float64(row[c]), c)
        else:
            lanes[:] = -1
            _lane_maxima(pattern, lanes)
            for j in range(STRETCH):
                _insert(top, which, k, np.float64(lanes[j]), j)
            least = lanes[which[k - 1]]
            top[:] = -1.0
            for j in range(STRETCH):
                if lanes[j] >= least:
                    for c in range(j, row.size, STRETCH):
                        if pattern[c] >= least:
                            _insert(top, which, k, np.float64(row[c]), c)
        total, places[i] = 0.0, k
        for j in range(k):
            total += top[j]
            if which[j] == labels[i]:
                places[i] = j
        top[k] = max(1 - total, 0.0)


@kernel
def group_sums(probs, member, outputs):
    """Add up each row over the classes of a group; sums may round to more than 1, and are cut there."""
    for i in range(probs.shape[0]):
        row, total = probs[i], outputs[i]
        for k in range(row.size):
            total[member[k]] += row[k]
        for g in range(total.size):
            total[g] = min(total[g], 1.0)


@inline
def bin_of(p, edges, right):
    """The bin of p between rising edges from 0 to 1, [low, high) or (low, high]; the outermost bins take what is beyond."""
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
    """A code of 64 bits for the bins of each row's outputs but the last; `first` is the least bit pattern beyond the first bin.

    Rows of equal bins have equal codes. Different bins share a code about once in 2^64 pairs of rows.
    """
    d = outputs.shape[1] - 1
    for i in range(outputs.shape[0]):
        row, code = outputs[i], np.uint64(0)
        for start in range(0, d, STRETCH):
            part = bits[i, start : min(start + STRETCH, d)]
            if _largest(part) < first:
                continue
            for c in range(part.size):
                if part[c] >= first:
                    k = start + c
                    h = np.uint64(k) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(bin_of(np.float64(row[k]), edges, right))
                    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                    code += h ^ (h >> np.uint64(31))
        codes[i] = code


@kernel
def class_bins(probs, bits, labels, weights, edges, first, right, sums):
    """Sums over the rows in each bin of each class's probability, [K, bins, 5] of rows, w, w^2, w p, w hit; without the first
    bin, beyond which hardly any of many probabilities lie: `first` is the least bit pattern that does."""
    for i in range(probs.shape[0]):
        row, w, label = probs[i], weights[i], labels[i]
        for start in range(0, row.size, STRETCH):
            part = bits[i, start : start + STRETCH]
            if _largest(part) < first:
                continue
            for c in range(part.size):
                if part[c] >= first:
                    k = start + c
                    p = np.float64(row[k])
                    at = sums[k, bin_of(p, edges, right)]
                    at[0] += 1
                    at[1] += w
                    at[2] += w * w
                    at[3] += w * p
                    if k == label:
                        at[4] += w
