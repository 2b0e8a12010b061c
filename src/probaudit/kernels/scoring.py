"""The fused pass: one look at each row gives every sum that scores, decisions and the confidence grid need.

Up to NARROW classes a tile of rows is transposed and the loops run over its rows (`narrow`); with more, they run
along a row (`wide`). Sums within a row are sequential or integer, so that the vector width of a machine
cannot change a bit. Loops over a tile always run over all TILE rows: the rows missing from the last tile are
filled with perfect forecasts of class 0, whose scores are zero.
"""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log
from .fixed_point import tick
from .tallies import FLUSH, OUTPUT, TILE, add_tile, flush_cells, flush_classes, new_running, new_tile

PROBABILITIES, PAIRS, LOGITS, LOG_PROBABILITIES = 0, 1, 2, 3
GOOD, BAD_LABEL, BAD_WEIGHT, BAD_VALUE, BAD_SUM = 0, 1, 2, 3, 4

NARROW = 32
LOGIT_LIMIT = 2.0**20


@inline
def _row_status(row, label, weight, classes, tolerance, kind):
    """Which rule a row breaks, if any. Slow and plain: called when a quick look found something odd."""
    if not 0 <= label < classes:
        return BAD_LABEL
    if not 0.0 <= weight < np.inf:
        return BAD_WEIGHT
    total, best = 0.0, -np.inf
    for k in range(row.size):
        v = np.float64(row[k])
        if kind >= LOGITS:
            if not (-LOGIT_LIMIT <= v <= LOGIT_LIMIT or v == -np.inf):
                return BAD_VALUE
            best = v if v > best else best
            total += exp(v) if v < 1.0 else 3.0
        else:
            if not 0.0 <= v <= 1.0 + tolerance:
                return BAD_VALUE
            total += v
    if kind >= LOGITS and best == -np.inf:
        return BAD_VALUE
    if kind != LOGITS and not abs(total - 1.0) <= tolerance:
        return BAD_SUM
    return GOOD


@inline
def _load(values, start, table, kind):
    """Transpose a tile; a single column belongs to the second of two classes."""
    K = values.shape[1]
    m = min(TILE, values.shape[0] - start)
    flat = values.reshape(values.size)
    if table.shape[0] > K:
        second, first = table[1], table[0]
        for r in range(m):
            second[r] = flat[np.uint64(start + r)]
        for r in range(m):
            first[r] = 0 if kind >= LOGITS else 1 - second[r]
    else:
        for k in range(K):
            row = table[k]
            i = np.uint64(start * K + k)
            for r in range(m):
                row[r] = flat[i]
                i += np.uint64(K)
    return m


@inline
def _load_labels(y, start, m, labels, classes):
    """Labels of a tile; how many lie outside the classes."""
    part = y[start : start + m]  # a slice first: the compiler does not vectorise an index with an offset
    strange = np.int64(0)
    for r in range(m):
        strange += np.uint64(part[r]) >= np.uint64(classes)
    for r in range(m):
        labels[r] = np.uint32(part[r])
    return strange


@inline
def _load_weights(w, start, m, weights):
    """Weights of a tile; how many are zero or not weights at all."""
    part = w[start : start + m]
    strange = np.int64(0)
    for r in range(m):
        weights[r] = part[r]
        strange += not 0.0 < part[r] < np.inf
    return strange


@inline
def _odd_probabilities(table, m, total, tolerance):
    """Whether any row of the tile may break a rule."""
    for r in range(TILE):
        total[r] = 0.0
    negative = np.int64(0)
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            total[r] += np.float64(row[r])
        for r in range(TILE):
            negative |= np.float64(row[r]).view(np.int64)
    odd = np.int64(0)
    for r in range(TILE):
        odd += not abs(total[r] - 1.0) <= tolerance
    return odd > 0 or negative < 0


@inline
def _odd_logits(table, m, total, tolerance, kind):
    odd = np.int64(0)
    for r in range(TILE):
        total[r] = 0.0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(m):
            odd += not (row[r] >= -LOGIT_LIMIT) & (row[r] <= LOGIT_LIMIT)
        if kind == LOG_PROBABILITIES:
            for r in range(TILE):
                total[r] += exp(row[r])
    if kind == LOG_PROBABILITIES:
        for r in range(m):
            odd += not abs(total[r] - 1.0) <= tolerance
    return odd > 0


@inline
def _keep_good(table, tile, y, start, m, status, tolerance, kind):
    """Close the gaps that bad rows and rows of weight zero leave in a tile; how many rows remain."""
    K = table.shape[0]
    kept = 0
    for r in range(m):
        verdict = _row_status(table[:, r], y[start + r], tile.weights[r], K, tolerance, kind)
        status[start + r] = verdict
        if verdict == GOOD and tile.weights[r] > 0.0:
            tile.labels[kept] = tile.labels[r]
            tile.weights[kept] = tile.weights[r]
            for k in range(K):
                table[k, kept] = table[k, r]
            kept += 1
    return kept


@inline
def _pad(table, tile, m, outside):
    for k in range(table.shape[0]):
        for r in range(m, TILE):
            table[k, r] = outside if k else 1.0
    for r in range(m, TILE):
        tile.labels[r] = 0
        tile.weights[r] = 1.0


@inline
def _order(table, labels, best, argmax, truth):
    """The largest value and its first index; the value of the true class."""
    first = table[0]
    for r in range(TILE):
        best[r] = first[r]
        truth[r] = first[r]
        argmax[r] = 0
    for k in range(1, table.shape[0]):
        row = table[k]
        for r in range(TILE):
            p, b, a = row[r], best[r], argmax[r]
            best[r] = p if p > b else b
            argmax[r] = np.uint32(k) if p > b else a
        for r in range(TILE):
            p, q, y = row[r], truth[r], labels[r]
            truth[r] = p if y == np.uint32(k) else q


@inline
def _rank(table, labels, truth, rank):
    """How many classes stand before the true one; of equal values the lower index stands first."""
    for r in range(TILE):
        rank[r] = 0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            p, q, y = row[r], truth[r], labels[r]
            ahead = (p > q) | ((p == q) & (np.uint32(k) < y))
            rank[r] += np.uint32(ahead)


@inline
def _softmax(table, best, truth, tile, kind):
    """Turn a tile of logits into probabilities, with the confidence and the log score of each row."""
    total = tile.total
    for r in range(TILE):
        total[r] = 0.0
        if kind == LOG_PROBABILITIES:
            best[r] = 0.0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            row[r] = exp(row[r] - best[r])
        for r in range(TILE):
            total[r] += row[r]
    if kind == LOG_PROBABILITIES:  # taken as they are, like probabilities
        for r in range(TILE):
            total[r] = 1.0
    for r in range(TILE):
        tile.logs[r] = log(total[r]) + (best[r] - truth[r])
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            row[r] = row[r] / total[r]


@inline
def _square(table, labels, brier):
    """Sum over classes of (p_k - [k = y])^2."""
    for r in range(TILE):
        brier[r] = 0.0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            gap = np.float64(row[r]) - np.float64(labels[r] == np.uint32(k))
            brier[r] += gap * gap


@inline
def _add_outputs(table, m, w, weights, outputs):
    for k in range(table.shape[0]):
        row = table[k]
        s = np.int64(0)
        if w is None:
            for r in range(m):
                s += tick(np.float64(row[r]), 2.0**OUTPUT)
        else:
            for r in range(m):
                s += tick(np.float64(row[r]) * weights[r], 2.0**OUTPUT)
        outputs[k] += s


@inline
def _narrow(values, y, w, t, status, codes, kind, tolerance, reject, table, best, logits):
    """`logits` is None or anything: numba then leaves the other branch out."""
    K, G = t.ranks.size, t.cells.shape[0]
    tile = new_tile(table.dtype)
    run = new_running(K, G)
    filled, since_flush = 0, 0
    for start in range(0, values.shape[0], TILE):
        m = _load(values, start, table, kind)
        odd = _load_labels(y, start, m, tile.labels, K) > 0
        if w is not None:
            odd |= _load_weights(w, start, m, tile.weights) > 0
        _pad(table, tile, m, 0.0)
        if logits is None:
            odd |= _odd_probabilities(table, m, tile.total, tolerance)
        else:
            odd |= _odd_logits(table, m, tile.total, tolerance, kind)
        if odd:
            m = _keep_good(table, tile, y, start, m, status, tolerance, kind)
            _pad(table, tile, m, 0.0)
        if logits is not None:
            _pad(table, tile, m, -np.inf)
        tile.size[0] = m
        _order(table, tile.labels, best, tile.argmax, tile.truth)
        if K > 2:
            _rank(table, tile.labels, tile.truth, tile.rank)
        if logits is None:
            if kind == PAIRS:
                for r in range(TILE):
                    best[r] = table[1, r]
                    tile.argmax[r] = 1
            for r in range(TILE):
                tile.confidence[r] = best[r]
            for r in range(TILE):
                q = np.float64(tile.truth[r])
                s = -log(q)
                tile.logs[r] = s if q > 0.0 else np.inf
        else:
            _softmax(table, best, tile.truth, tile, kind)
            for k in range(K):
                row = table[k]
                for r in range(TILE):
                    p, b = row[r], (0.0 if k == 0 else tile.confidence[r])
                    tile.confidence[r] = p if p > b else b
        _square(table, tile.labels, tile.brier)
        _add_outputs(table, m, w, tile.weights, run.outputs)
        add_tile(tile, run, t, codes, filled, reject, w)
        filled += m
        since_flush += m
        if since_flush + TILE > FLUSH:
            flush_classes(run, t)
            since_flush = 0
    flush_classes(run, t)
    flush_cells(run, t)
    return filled


@kernel
def narrow_probabilities(values, y, w, t, status, codes, kind, tolerance, reject):
    """Add rows of probabilities (or of confidence and correctness) to t; the number of rows that counted."""
    table = np.zeros((t.ranks.size, TILE), values.dtype)
    best = np.zeros(TILE, values.dtype)
    return _narrow(values, y, w, t, status, codes, kind, tolerance, reject, table, best, None)


@kernel
def narrow_logits(values, y, w, t, status, codes, kind, tolerance, reject):
    """Add rows of logits or log-probabilities to t; the number of rows that counted."""
    table = np.zeros((t.ranks.size, TILE), np.float64)
    best = np.zeros(TILE, np.float64)
    return _narrow(values, y, w, t, status, codes, kind, tolerance, reject, table, best, 0)


@inline
def _rank_in_row(row, label):
    q = row[label]
    ahead = np.int64(0)
    for k in range(label):
        ahead += row[k] >= q
    rest = row[label + 1 :]
    for k in range(rest.size):
        ahead += rest[k] > q
    return ahead


@inline
def _first_index(row, value):
    for k in range(row.size):
        if row[k] == value:
            return k
    return 0


@inline
def _sums_in_row(row, bits, weight, scale, outputs):
    """Integer sums over a row of p and p^2; the largest bit pattern; the bitwise or of them (its sign shows a
    negative p). w p_k goes to outputs."""
    total, squares = np.int64(0), np.int64(0)
    largest, union = bits[0], bits[0]
    for k in range(row.size):
        p = np.float64(row[k])
        total += tick(p, scale)
        squares += tick(p * p, scale)
        outputs[k] += tick(p * weight, 2.0**OUTPUT)
        largest = max(largest, bits[k])
        union |= bits[k]
    return total, squares, largest, union


@inline
def _take_back(row, weight, outputs):
    for k in range(row.size):
        outputs[k] -= tick(np.float64(row[k]) * weight, 2.0**OUTPUT)


@inline
def _close_tile(tile, run, t, codes, filled, since_flush, reject, w):
    """Add a full (or the last) tile and start a new one."""
    m = tile.size[0]
    if m > 0:
        add_tile(tile, run, t, codes, filled, reject, w)
        tile.size[0] = 0
        if since_flush + m + TILE > FLUSH:
            flush_classes(run, t)
            return 0
    return since_flush + m


@kernel
def wide_probabilities(values, bits, one_bits, y, w, t, status, codes, kind, tolerance, reject, scale):
    """As narrow_probabilities. `bits` are the same values seen as integers: for p >= 0 their order is that of p."""
    K, G = t.ranks.size, t.cells.shape[0]
    tile = new_tile(np.float64)
    run = new_running(K, G)
    filled, since_flush = 0, 0
    for i in range(values.shape[0]):
        row, label = values[i], y[i]
        weight = 1.0 if w is None else w[i]
        if not (0 <= label < K and 0.0 < weight < np.inf):
            status[i] = _row_status(row, label, weight, K, tolerance, kind)
            continue
        total, squares, largest, union = _sums_in_row(row, bits[i], weight, scale, run.outputs)
        if union < 0 or largest > one_bits or not abs(total / scale - 1.0) <= tolerance:
            status[i] = _row_status(row, label, weight, K, tolerance, kind)
            if status[i] != GOOD:
                _take_back(row, weight, run.outputs)
                continue
        m = tile.size[0]
        truth = np.float64(row[label])
        rank = _rank_in_row(bits[i], label)
        arg = label if rank == 0 else _first_index(bits[i], largest)
        tile.labels[m] = label
        tile.weights[m] = weight
        tile.rank[m] = rank
        tile.argmax[m] = arg
        tile.confidence[m] = row[arg]
        tile.logs[m] = -log(truth) if truth > 0.0 else np.inf
        tile.brier[m] = (squares - tick(truth * truth, scale)) / scale + (1.0 - truth) * (1.0 - truth)
        tile.size[0] = m + 1
        if m + 1 == TILE:
            since_flush = _close_tile(tile, run, t, codes, filled, since_flush, reject, w)
            filled += TILE
    rest = tile.size[0]
    _close_tile(tile, run, t, codes, filled, since_flush, reject, w)
    flush_classes(run, t)
    flush_cells(run, t)
    return filled + rest


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
def _largest_logit(row):
    """The largest of a row of logits, and how many are no logits."""
    best = row[0]
    odd = np.int64(0)
    for k in range(row.size):
        v = row[k]
        odd += not (v >= -LOGIT_LIMIT) & (v <= LOGIT_LIMIT)
    for k in range(row.size):
        best = row[k] if row[k] > best else best
    return best, odd


@kernel
def wide_logits(values, y, w, t, status, codes, kind, tolerance, reject, scale):
    """As narrow_logits; the exponentials of one row at a time are held, never a matrix of probabilities."""
    K, G = t.ranks.size, t.cells.shape[0]
    tile = new_tile(np.float64)
    run = new_running(K, G)
    shifted = np.empty(K, np.float64)
    filled, since_flush = 0, 0
    for i in range(values.shape[0]):
        row, label = values[i], y[i]
        weight = 1.0 if w is None else w[i]
        if not (0 <= label < K and 0.0 < weight < np.inf):
            status[i] = _row_status(row, label, weight, K, tolerance, kind)
            continue
        best, odd = _largest_logit(row)
        if odd or kind == LOG_PROBABILITIES:
            status[i] = _row_status(row, label, weight, K, tolerance, kind)
            if status[i] != GOOD:
                continue
        high = np.float64(best)
        shift = 0.0 if kind == LOG_PROBABILITIES else high
        total = _exponentials(row, shift, scale, shifted) / scale
        if kind == LOG_PROBABILITIES:
            total = 1.0
        squares = _probabilities_in_row(shifted, 1.0 / total, weight, scale, run.outputs)
        m = tile.size[0]
        truth = shifted[label] / total
        rank = _rank_in_row(row, label)
        arg = label if rank == 0 else _first_index(row, best)
        tile.labels[m] = label
        tile.weights[m] = weight
        tile.rank[m] = rank
        tile.argmax[m] = arg
        tile.confidence[m] = shifted[arg] / total
        tile.logs[m] = log(total) + (shift - np.float64(row[label]))
        tile.brier[m] = (squares - tick(truth * truth, scale)) / scale + (1.0 - truth) * (1.0 - truth)
        tile.size[0] = m + 1
        if m + 1 == TILE:
            since_flush = _close_tile(tile, run, t, codes, filled, since_flush, reject, w)
            filled += TILE
    rest = tile.size[0]
    _close_tile(tile, run, t, codes, filled, since_flush, reject, w)
    flush_classes(run, t)
    flush_cells(run, t)
    return filled + rest
