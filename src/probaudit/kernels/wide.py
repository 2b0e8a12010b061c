"""The fused pass for many classes: the loops run along a row, and sums within it are of
integers."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log
from .fixed_point import ROUND_BITS, raised_tick, tick
from .rules import BAD_SUM, GOOD, LOG_PROBABILITIES, LOGIT_LIMIT, row_status
from .tallies import FLUSH, OUTPUT, TILE, add_tile, flush_classes, new_tile


@inline
def _rank_in_row(row, label):
    """How many values stand before the true class's; counted in 32 bits, twice as many at a
    time."""
    q = row[label]
    ahead = np.uint32(0)
    for k in range(label):
        ahead = np.uint32(ahead + (row[k] >= q))
    rest = row[label + 1 :]
    for k in range(rest.size):
        ahead = np.uint32(ahead + (rest[k] > q))
    return np.int64(ahead)


@inline
def _first_index(row, value):
    """Where a value that is in the row first occurs. To look at the whole row is faster than to
    stop there."""
    first = np.uint32(row.size)
    for k in range(row.size):
        here = np.uint32(k) if row[k] == value else np.uint32(row.size)
        first = min(first, here)
    return np.int64(first)


@inline
def _sums_in_row(row, bits, w, weight, scale, outputs):
    """Integer sums over a row of p and p^2; the smallest (negative if some p is) and the largest
    bit pattern. w p_k goes to outputs."""
    total, squares = np.int64(0), np.int64(0)
    smallest, largest = bits[0], bits[0]
    for k in range(row.size):
        p = np.float64(row[k])
        scaled = p * scale
        total += raised_tick(scaled, 1.0)
        squares += raised_tick(scaled * p, 1.0)
        outputs[k] += tick(p if w is None else p * weight, 2.0**OUTPUT)
        smallest = min(smallest, bits[k])
        largest = max(largest, bits[k])
    raised = row.size * ROUND_BITS
    return total - raised, squares - raised, smallest, largest


@inline
def _take_back(row, weight, outputs):
    for k in range(row.size):
        outputs[k] -= tick(np.float64(row[k]) * weight, 2.0**OUTPUT)


@inline
def _put(tile, m, label, weight, rank, arg):
    """What is known of a row before its scores."""
    tile.labels[m] = label
    tile.weights[m] = weight
    tile.rank[m] = rank
    tile.argmax[m] = arg


@inline
def brier_of(squares, truth, scale):
    """The Brier score from the integer sum of all p^2, of which the true class's is taken out
    exactly."""
    return (squares - tick(truth * truth, scale)) / scale + (1.0 - truth) * (1.0 - truth)


@inline
def _close_tile(tile, m, run, t, codes, filled, since_flush, reject, w):
    """Add a full (or the last) tile and start a new one."""
    if m > 0:
        add_tile(tile, m, run, t, codes, filled, reject, w)
        if since_flush + m + TILE > FLUSH:
            flush_classes(run, t)
            return 0
    return since_flush + m


@kernel
def wide_probabilities(
    values, bits, y, w, t, run, status, codes, kind, tolerance, reject, most, scale
):
    """As narrow_probabilities. `bits` are the same values seen as integers: for p >= 0 their order
    is that of p. Those of the largest p that may pass are most[0]."""
    K = t.ranks.size
    tile = new_tile(np.float64, 0)
    filled, since_flush, m = 0, 0, 0
    for i in range(values.shape[0]):
        row, label = values[i], y[i]
        weight = 1.0 if w is None else w[i]
        if not (0 <= label < K and 0.0 < weight < np.inf):
            status[i] = row_status(row, label, weight, K, tolerance, kind)
            continue
        total, squares, smallest, largest = _sums_in_row(
            row, bits[i], w, weight, scale, run.outputs
        )
        near = abs(total / scale - 1.0) <= tolerance
        if smallest < 0 or largest > most[0] or not near:
            found = row_status(row, label, weight, K, tolerance, kind)
            if found != GOOD and not (near and found == BAD_SUM):  # as of the same row without -0
                status[i] = found
                _take_back(row, weight, run.outputs)
                continue
        truth = np.float64(row[label])
        # of -0 the bits are other ones
        rank = _rank_in_row(bits[i], label) if smallest >= 0 else _rank_in_row(row, label)
        arg = label if rank == 0 else _first_index(bits[i], largest)
        _put(tile, m, label, weight, rank, arg)
        tile.confidence[m] = row[arg]
        tile.logs[m] = -log(truth) if truth > 0.0 else np.inf
        tile.brier[m] = brier_of(squares, truth, scale)
        m += 1
        if m == TILE:
            since_flush = _close_tile(tile, m, run, t, codes, filled, since_flush, reject, w)
            filled += TILE
            m = 0
    _close_tile(tile, m, run, t, codes, filled, since_flush, reject, w)
    flush_classes(run, t)
    return filled + m


@inline
def _exponentials(row, best, scale, shifted):
    total = np.int64(0)
    for k in range(row.size):
        e = exp(np.float64(row[k]) - best)
        shifted[k] = e
        total += tick(e, scale)
    return total


@inline
def _probabilities_in_row(shifted, inverse, weight, scale, outputs):
    squares = np.int64(0)
    for k in range(shifted.size):
        p = shifted[k] * inverse
        squares += tick(p * p, scale)
        outputs[k] += tick(p * weight, 2.0**OUTPUT)
    return squares


@inline
def _odd_in_row(row):
    """How many values are no logits (or minus infinity, which a closer look allows)."""
    odd = np.int64(0)
    for k in range(row.size):
        v = row[k]
        odd += not (v >= -LOGIT_LIMIT) & (v <= LOGIT_LIMIT)
    return odd


@inline
def largest(row):
    """The largest value. Four at a time: a single maximum would wait for itself at every step."""
    a, b, c, d = row[0], row[0], row[0], row[0]
    whole = row.size - row.size % 4
    for k in range(0, whole, 4):
        i = np.uint64(k)
        p, q, r, s = row[i], row[i + np.uint64(1)], row[i + np.uint64(2)], row[i + np.uint64(3)]
        a = p if p > a else a
        b = q if q > b else b
        c = r if r > c else c
        d = s if s > d else d
    for k in range(whole, row.size):
        a = row[k] if row[k] > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@kernel
def wide_logits(values, y, w, t, run, status, codes, kind, tolerance, reject, scale):
    """As narrow_logits; the exponentials of one row at a time are held, never a matrix of
    probabilities."""
    K = t.ranks.size
    tile = new_tile(np.float64, 0)
    shifted = np.empty(K, np.float64)
    filled, since_flush, m = 0, 0, 0
    for i in range(values.shape[0]):
        row, label = values[i], y[i]
        weight = 1.0 if w is None else w[i]
        if not (0 <= label < K and 0.0 < weight < np.inf):
            status[i] = row_status(row, label, weight, K, tolerance, kind)
            continue
        if _odd_in_row(row) or kind == LOG_PROBABILITIES:
            status[i] = row_status(row, label, weight, K, tolerance, kind)
            if status[i] != GOOD:
                continue
        best = largest(row)
        shift = 0.0 if kind == LOG_PROBABILITIES else np.float64(best)
        total = _exponentials(row, shift, scale, shifted) / scale
        if kind == LOG_PROBABILITIES:
            total = 1.0
        squares = _probabilities_in_row(shifted, 1.0 / total, weight, scale, run.outputs)
        truth = shifted[label] / total
        rank = _rank_in_row(row, label)
        arg = label if rank == 0 else _first_index(row, best)
        _put(tile, m, label, weight, rank, arg)
        tile.confidence[m] = shifted[arg] / total
        tile.logs[m] = log(total) + (shift - np.float64(row[label]))
        tile.brier[m] = brier_of(squares, truth, scale)
        m += 1
        if m == TILE:
            since_flush = _close_tile(tile, m, run, t, codes, filled, since_flush, reject, w)
            filled += TILE
            m = 0
    _close_tile(tile, m, run, t, codes, filled, since_flush, reject, w)
    flush_classes(run, t)
    return filled + m
