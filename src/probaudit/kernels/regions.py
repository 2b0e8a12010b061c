"""Regions of the feature space: features as small codes, and trees grown from their histograms."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel

CODES = 256
TINY_GAIN = 1e-9  # relative to the weight: gains below it may be due to rounding


@kernel
def code_rows(values, cuts, codes):
    """codes[i, k] = how many of the 255 rising cuts[k], padded with infinity, lie below values[i,
    k]; NaN lies above all."""
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            x, edges, place, step = values[i, k], cuts[k], 0, CODES // 2
            while step:
                place += step * (not x <= edges[place + step - 1])
                step //= 2
            codes[i, k] = place


@inline
def _worth(weight, hits, by_log):
    """The value of a region for the tree: its weight times the negative entropy of its hits (Brier
    or log), up to a constant."""
    if not by_log:
        return hits * hits / weight
    misses = weight - hits
    worth = 0.0
    if hits > 0:
        worth += hits * np.log(hits / weight)
    if misses > 0:
        worth += misses * np.log(misses / weight)
    return worth


@inline
def _fill(codes, rows, weights, hits, table):
    """table[k, c] = the weight, and the weight of hits, of the rows whose feature k has code c."""
    table[:] = 0.0
    for i in rows:
        w, h = weights[i], hits[i]
        for k in range(codes.shape[1]):
            cell = table[k, codes[i, k]]
            cell[0] += w
            cell[1] += h


@inline
def _best_split(table, weight, hits, least, by_log):
    """The feature and code (rows up to it go left) with the largest gain, the first of equals; -1
    if no split gains."""
    feature, cut, most = -1, -1, _worth(weight, hits, by_log) + TINY_GAIN * weight
    for k in range(table.shape[0]):
        w, h = 0.0, 0.0
        for c in range(CODES - 1):
            here = table[k, c, 0]
            w += here
            h += table[k, c, 1]
            if here <= 0 or w < least:
                continue
            if weight - w < least:
                break
            worth = _worth(w, h, by_log) + _worth(weight - w, hits - h, by_log)
            if worth > most:
                feature, cut, most = k, c, worth
    return feature, cut


@inline
def _split_rows(codes, rows, feature, cut, spare):
    """Move the rows that go left to the front; returns how many they are."""
    low, high = 0, 0
    for i in range(rows.size):
        row = rows[i]
        left = codes[row, feature] <= cut
        rows[low] = row
        spare[high] = row
        low += left
        high += not left
    for i in range(high):
        rows[low + i] = spare[i]
    return low


@kernel
def grow_tree(codes, rows, weights, hits, least, by_log):
    """A tree over the rows, [nodes, 3]: feature, last code that goes left, left child (the right
    one comes next); -1 in leaves.

    Greedy: every node takes the split with the largest gain that leaves both sides at least `least`
    times the mean weight. Only the smaller of two siblings is counted; the table of the other is
    the parent's minus its sibling's. The smaller one is also split first, so that the k-th waiting
    table has at most n / 2^k rows.
    """
    n, d = rows.size, codes.shape[1]
    total = 0.0
    for i in rows:
        total += weights[i]
    heavy = least * total / n
    tree = np.full((2 * int(n / max(1.0, least)) + 1, 3), -1, np.int32)
    rows, spare = rows.copy(), np.empty(n, rows.dtype)
    depth = 2 + int(np.log2(n + 1.0))
    tables = np.empty((depth, d, CODES, 2))
    waiting = np.empty((depth, 4), np.int64)  # node, first row, last row, table
    _fill(codes, rows, weights, hits, tables[0])
    waiting[0] = (0, 0, n, 0)
    pending, nodes = 1, 1
    while pending:
        pending -= 1
        node, first, last, place = waiting[pending]
        table, weight, hit = tables[place], 0.0, 0.0
        for c in range(CODES):
            weight += table[0, c, 0]
            hit += table[0, c, 1]
        feature, cut = _best_split(table, weight, hit, heavy, by_log)
        if feature < 0 or nodes + 2 > tree.shape[0]:
            continue
        middle = first + _split_rows(codes, rows[first:last], feature, cut, spare)
        tree[node] = (feature, cut, nodes)
        small_is_left = middle - first <= last - middle
        low, high = (first, middle) if small_is_left else (middle, last)
        other = tables[place + 1]
        _fill(codes, rows[low:high], weights, hits, other)
        for k in range(d):
            for c in range(CODES):
                table[k, c, 0] -= other[k, c, 0]
                table[k, c, 1] -= other[k, c, 1]
        left, right = (place + 1, place) if small_is_left else (place, place + 1)
        ends = ((nodes, first, middle, left), (nodes + 1, middle, last, right))
        waiting[pending] = ends[1] if small_is_left else ends[0]
        waiting[pending + 1] = ends[0] if small_is_left else ends[1]
        pending += 2
        nodes += 2
    return tree[:nodes]


@kernel
def find_leaves(codes, rows, tree, leaves):
    """leaves[j] = the node where the row rows[j] ends."""
    for j in range(rows.size):
        node, row = 0, rows[j]
        while tree[node, 0] >= 0:
            node = tree[node, 2] + (codes[row, tree[node, 0]] > tree[node, 1])
        leaves[j] = node
