"""The fused pass for many classes: loops run along a row, and sums within a row are integers."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log
from .fixed_point import ROUND_BITS, raised_tick, tick
from .rules import BAD_SUM, GOOD, LOG_PROBABILITIES, LOGIT_LIMIT, row_status
from .tallies import FLUSH, OUTPUT, TILE, add_tile, flush_classes, new_tile
from .twins import twin


@inline
def _rank_in_row(row, label):
    """How many values rank before that of the true class; 32-bit counters, as twice as many fit
    into a vector."""
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
    """Where a value of the row occurs first. Reading the whole row is faster than stopping
    there."""
    first = np.uint32(row.size)
    for k in range(row.size):
        here = np.uint32(k) if row[k] == value else np.uint32(row.size)
        first = min(first, here)
    return np.int64(first)


@inline
def _sums_in_row(row, bits, w, weight, scale, outputs):
    """Integer sums over a row of p and p^2; the smallest bit pattern (negative if some p is) and
    the largest. Adds w p_k to outputs."""
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
    """Undo what _sums_in_row added to outputs."""
    for k in range(row.size):
        outputs[k] -= tick(np.float64(row[k]) * weight, 2.0**OUTPUT)


@inline
def _put(tile, m, label, weight, rank, arg):
    """What is known about a row before its scores."""
    tile.labels[m] = label
    tile.weights[m] = weight
    tile.rank[m] = rank
    tile.argmax[m] = arg


@inline
def brier_of(squares, truth, scale):
    """The Brier score from the integer sum of all p^2, from which that of the true class is
    subtracted exactly."""
    return (squares - tick(truth * truth, scale)) / scale + (1.0 - truth) * (1.0 - truth)


@inline
def _weight_of(w, i):
    if w is None:
        return 1.0
    return w[i]


@inline
def _close_tile(tile, m, target, filled, reject_cost, w):
    """Add the m rows of a full (or the last) tile, after `filled` other rows."""
    if m > 0:
        add_tile(tile, m, target, filled, reject_cost, w)
        if (filled + m) % FLUSH == 0:  # FLUSH is a multiple of TILE
            flush_classes(target.running, target.tallies)


@twin(lambda rows, *_: rows.values)
@kernel
def wide_probabilities(rows, bits, target, options, most, scale):
    """The same as narrow_probabilities. `bits` are the values as integers: for p >= 0 they have the
    order of p. most[0] is the bit pattern of the largest valid p."""
    values, y, w, status = rows.values, rows.labels, rows.weights, target.status
    K, outputs, tolerance = target.tallies.ranks.size, target.running.outputs, options.tolerance
    tile = new_tile(np.float64, 0)
    filled, m = 0, 0
    for i in range(values.shape[0]):
        row, label = values[i], y[i]
        weight = _weight_of(w, i)
        if not (0 <= label < K and 0.0 < weight < np.inf):
            status[i] = row_status(row, label, weight, K, options)
            continue
        total, squares, smallest, largest = _sums_in_row(row, bits[i], w, weight, scale, outputs)
        near = abs(total / scale - 1.0) <= tolerance
        if smallest < 0 or largest > most[0] or not near:
            broken = row_status(row, label, weight, K, options)
            # the integer sum decides, as for the same row without -0
            if broken != GOOD and not (near and broken == BAD_SUM):
                status[i] = broken
                _take_back(row, weight, outputs)
                continue
        truth = np.float64(row[label])
        # -0 has other bits than 0
        rank = _rank_in_row(bits[i], label) if smallest >= 0 else _rank_in_row(row, label)
        arg = label if rank == 0 else _first_index(bits[i], largest)
        _put(tile, m, label, weight, rank, arg)
        tile.confidence[m] = row[arg]
        tile.logs[m] = -log(truth) if truth > 0.0 else np.inf
        tile.brier[m] = brier_of(squares, truth, scale)
        m += 1
        if m == TILE:
            _close_tile(tile, m, target, filled, options.reject_cost, w)
            filled += TILE
            m = 0
    _close_tile(tile, m, target, filled, options.reject_cost, w)
    flush_classes(target.running, target.tallies)
    return filled + m


@inline
def _exponentials(row, best, scale, shifted):
    """e^(v - best) for each value of a row, and the integer sum of these."""
    total = np.int64(0)
    for k in range(row.size):
        e = exp(np.float64(row[k]) - best)
        shifted[k] = e
        total += tick(e, scale)
    return total


@inline
def _probabilities_in_row(shifted, inverse, weight, scale, outputs):
    """The integer sum over a row of p^2. Adds w p_k to outputs."""
    squares = np.int64(0)
    for k in range(shifted.size):
        p = shifted[k] * inverse
        squares += tick(p * p, scale)
        outputs[k] += tick(p * weight, 2.0**OUTPUT)
    return squares


@inline
def _odd_in_row(row):
    """How many values are not logits, or minus infinity, which row_status may allow."""
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


@twin(lambda rows, *_: rows.values)
@kernel
def wide_logits(rows, target, options, scale):
    """The same as narrow_logits. Only the exponentials of one row exist at a time, never a matrix
    of probabilities."""
    values, y, w, status = rows.values, rows.labels, rows.weights, target.status
    K, outputs, kind = target.tallies.ranks.size, target.running.outputs, options.kind
    tile = new_tile(np.float64, 0)
    shifted = np.empty(K, np.float64)
    filled, m = 0, 0
    for i in range(values.shape[0]):
        row, label = values[i], y[i]
        weight = _weight_of(w, i)
        if not (0 <= label < K and 0.0 < weight < np.inf):
            status[i] = row_status(row, label, weight, K, options)
            continue
        if _odd_in_row(row) or kind == LOG_PROBABILITIES:
            status[i] = row_status(row, label, weight, K, options)
            if status[i] != GOOD:
                continue
        best = largest(row)
        shift = 0.0 if kind == LOG_PROBABILITIES else np.float64(best)
        total = _exponentials(row, shift, scale, shifted) / scale
        if kind == LOG_PROBABILITIES:
            total = 1.0
        squares = _probabilities_in_row(shifted, 1.0 / total, weight, scale, outputs)
        truth = shifted[label] / total
        rank = _rank_in_row(row, label)
        arg = label if rank == 0 else _first_index(row, best)
        _put(tile, m, label, weight, rank, arg)
        tile.confidence[m] = shifted[arg] / total
        tile.logs[m] = log(total) + (shift - np.float64(row[label]))
        tile.brier[m] = brier_of(squares, truth, scale)
        m += 1
        if m == TILE:
            _close_tile(tile, m, target, filled, options.reject_cost, w)
            filled += TILE
            m = 0
    _close_tile(tile, m, target, filled, options.reject_cost, w)
    flush_classes(target.running, target.tallies)
    return filled + m
