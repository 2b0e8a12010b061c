"""The fused pass for few classes: it reads each row once for all sums of scores, decisions and the
grid.

A tile of rows is transposed, and the loops run over its rows, so that they vectorise whatever the
number of classes. Sums within a row run in class order, so that the vector width of a machine
cannot change a bit. Loops always run over all TILE rows: the rows missing from the last tile are
filled with perfect forecasts of class 0, whose scores are zero.
"""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log
from .fixed_point import ROUND_BITS, raised_tick
from .rules import GOOD, LOG_PROBABILITIES, LOGIT_LIMIT, LOGITS, PAIRS, row_status
from .tallies import FLUSH, OUTPUT, TILE, add_tile, correct_class_cells, flush_classes, new_tile
from .twins import twin
from .two_classes import add_plain_tile
from .vectors import column_at, prefetch, transpose_four


@inline
def _load_column(flat, start, m, table, options):
    """A single column belongs to the second of two classes. If it exceeds 1 by no more than
    rounding, the first class gets 0."""
    tolerance, first_is_zero = options.tolerance, options.kind >= LOGITS
    first, second, part = table[0], table[1], flat[start : start + m]
    for r in range(m):
        second[r] = part[r]
    for r in range(m):
        rest = 1 - second[r]
        rest = 0 if (rest < 0) & (rest >= -tolerance) else rest
        first[r] = 0 if first_is_zero else rest


@inline
def _load_two(flat, start, m, table):
    """Two columns: the compiler separates them with vector operations."""
    first, second, part = table[0], table[1], flat[2 * start : 2 * (start + m)]
    for r in range(m):
        p, q = part[np.uint64(2 * r)], part[np.uint64(2 * r + 1)]
        first[r] = p
        second[r] = q


@inline
def _load_many(flat, start, m, table):
    """Three or more columns, in blocks of four by four; the last block of a row may overlap the one
    before."""
    K = table.shape[0]
    columns = table.reshape(table.size)
    blocked = m - m % 4 if K >= 4 else 0
    for r in range(0, blocked, 4):
        for k in range(0, K, 4):
            k = min(k, K - 4)
            transpose_four(flat, ((start + r) * K + k, K), columns, (k * TILE + r, TILE))
    for r in range(blocked, m):
        for k in range(K):
            table[k, r] = flat[(start + r) * K + k]


@inline
def _load_rows(values, start, m, table, options):
    """Transpose a tile of rows, unless outputs are in columns."""
    if values is None:
        return
    flat = values.reshape(values.size)
    if values.shape[1] == 1:
        _load_column(flat, start, m, table, options)
    elif values.shape[1] == 2:
        _load_two(flat, start, m, table)
    else:
        _load_many(flat, start, m, table)


@inline
def load_columns(addresses, start, m, like, table):
    """Load a tile of columns of the type of `like`, unless outputs are in rows."""
    if addresses is None:
        return
    for k in range(table.shape[0]):
        column, part = table[k], column_at(addresses, k, start + m, like)[start : start + m]
        for r in range(m):
            column[r] = part[r]


@inline
def _fetch(values, y, start, part):
    """Prefetch a quarter of the tile at `start`, unless outputs are in columns.

    A tile is about a page of memory, beyond which the processor does not prefetch by itself; and a
    prefetch of the whole tile would only move the wait to here. So each stage of a tile prefetches
    a quarter of the next one.
    """
    if values is None:
        return
    K = values.shape[1]
    first, last = start + part * (TILE // 4), start + (part + 1) * (TILE // 4)
    for i in range(first * K, last * K, 64 // values.itemsize):
        prefetch(values, i)
    for i in range(first, last, 64 // y.itemsize):
        prefetch(y, i)


@inline
def _load_labels(y, start, m, labels, classes):
    """Load the labels of a tile; returns how many are not classes."""
    # a slice first: the compiler does not vectorise an index with an offset
    part = y[start : start + m]
    strange = np.int64(0)
    for r in range(m):
        strange += np.uint64(part[r]) >= np.uint64(classes)
    for r in range(m):
        labels[r] = np.uint32(part[r])
    return strange


@inline
def _load_weights(w, start, m, weights):
    """Load the weights of a tile, if there are any; returns how many are zero or invalid."""
    strange = np.int64(0)
    if w is None:
        return strange
    part = w[start : start + m]
    for r in range(m):
        weights[r] = part[r]
        strange += not 0.0 < part[r] < np.inf
    return strange


@inline
def _sum_classes(table, tile, w):
    """Over the classes of each row, the total and the squares of all but the true one; over the
    rows of each class, the ticks of w p. Returns whether some p is negative."""
    labels, weights, total = tile.labels, tile.weights, tile.total
    squares, outputs = tile.brier, tile.outputs
    for r in range(TILE):
        total[r] = 0.0
        squares[r] = 0.0
    union = np.int64(0)
    for k in range(table.shape[0]):
        row = table[k]
        ticks = np.int64(0)
        for r in range(TILE):
            p, y = np.float64(row[r]), labels[r]
            other = 0.0 if y == np.uint32(k) else p
            total[r] += p
            squares[r] += other * other
            union |= p.view(np.int64)
            ticks += raised_tick(p if w is None else p * weights[r], 2.0**OUTPUT)
        outputs[k] = ticks - TILE * ROUND_BITS
    return union < 0


@inline
def _odd_totals(total, tolerance):
    """Whether the sum of any row differs from 1 (or is NaN)."""
    odd = np.int64(0)
    for r in range(TILE):
        odd += not abs(total[r] - 1.0) <= tolerance
    return odd > 0


@inline
def _odd_logits(table, m, total, options):
    """Whether any row of the tile may break a rule."""
    odd = np.int64(0)
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(m):
            odd += not (row[r] >= -LOGIT_LIMIT) & (row[r] <= LOGIT_LIMIT)
    if options.kind == LOG_PROBABILITIES:
        for r in range(TILE):
            total[r] = 0.0
        for k in range(table.shape[0]):
            row = table[k]
            for r in range(TILE):
                total[r] += exp(row[r])
        for r in range(m):
            odd += not abs(total[r] - 1.0) <= options.tolerance
    return odd > 0


@inline
def _keep_good(tile, y, start, m, status, options):
    """Remove bad rows and rows of weight zero from a tile; returns how many rows remain."""
    table, K = tile.table, tile.table.shape[0]
    kept = 0
    for r in range(m):
        verdict = row_status(table[:, r], y[start + r], tile.weights[r], K, options)
        status[start + r] = verdict
        if verdict == GOOD and tile.weights[r] > 0.0:
            tile.labels[kept] = tile.labels[r]
            tile.weights[kept] = tile.weights[r]
            for k in range(K):
                table[k, kept] = table[k, r]
            kept += 1
    return kept


@inline
def _pad(table, tile, m, sure, never):
    """Fill the rows from m on with perfect forecasts of class 0."""
    for k in range(table.shape[0]):
        for r in range(m, TILE):
            table[k, r] = never if k else sure
    for r in range(m, TILE):
        tile.labels[r] = 0
        tile.weights[r] = 1.0


@inline
def _order(table, tile):
    """The largest value and its first index; the value of the true class."""
    first, labels, best, argmax, truth = table[0], tile.labels, tile.best, tile.argmax, tile.truth
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
    """How many classes rank before the true one; ties go to the lower index."""
    for r in range(TILE):
        rank[r] = 0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            p, q, y = row[r], truth[r], labels[r]
            ahead = (p > q) | ((p == q) & (np.uint32(k) < y))
            rank[r] += np.uint32(ahead)


@inline
def _softmax(table, tile, kind):
    """Turn a tile of logits into probabilities, with the confidence and the log loss of each
    row."""
    # the log loss overwrites the shift at the end
    best, total, shift = tile.best, tile.total, tile.logs
    for r in range(TILE):
        total[r] = 0.0
        shift[r] = 0.0 if kind == LOG_PROBABILITIES else best[r]
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            row[r] = exp(row[r] - shift[r])
        for r in range(TILE):
            total[r] += row[r]
    if kind == LOG_PROBABILITIES:  # not normalised, like probabilities
        for r in range(TILE):
            total[r] = 1.0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            row[r] = row[r] / total[r]
    for r in range(TILE):
        tile.confidence[r] = exp(best[r] - shift[r]) / total[r]
    for r in range(TILE):
        tile.logs[r] = log(total[r]) + (shift[r] - tile.truth[r])


@inline
def _score_probabilities(table, tile, kind):
    """The confidence and the log loss of each row."""
    best = tile.best
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


@inline
def _finish_brier(tile):
    """Add the true class's term of the Brier score to the squares of the others."""
    for r in range(TILE):
        gap = 1.0 - np.float64(tile.truth[r])
        tile.brier[r] += gap * gap


@inline
def _take_truth(table, labels, truth):
    """The true class's probability, once the table has changed from logits to probabilities."""
    for r in range(TILE):
        truth[r] = table[labels[r], r]


@inline
def _add_plain(addresses, rows, start, tile, target, options):
    """Add a whole tile of two classes in one loop, if it is plain; returns whether it was."""
    labels = rows.labels[start : start + TILE]
    if addresses is not None:
        first, end = rows.begin + start, rows.begin + start + TILE
        p = column_at(addresses, 0, end, rows.like)[first:end]
        q = column_at(addresses, 1, end, rows.like)[first:end]
        return add_plain_tile(p, q, labels, tile, target, options)
    for part in range(4):
        _fetch(rows.values, rows.labels, start + TILE, part)
    return add_plain_tile(tile.table[0], tile.table[1], labels, tile, target, options)


@inline
def _check_tile(rows, start, tile, status, options, logits):
    """Load labels and weights of a tile whose outputs are loaded, and keep its good rows; returns
    how many there are."""
    table, m = tile.table, min(TILE, rows.labels.size - start)
    sure, never = (1.0, 0.0) if logits is None else (0.0, -np.inf)
    odd = _load_labels(rows.labels, start, m, tile.labels, table.shape[0]) > 0
    odd |= _load_weights(rows.weights, start, m, tile.weights) > 0
    _pad(table, tile, m, sure, never)
    _fetch(rows.values, rows.labels, start + TILE, 0)
    if logits is None:
        odd |= _sum_classes(table, tile, rows.weights)
        odd |= _odd_totals(tile.total, options.tolerance)
    else:
        odd |= _odd_logits(table, m, tile.total, options)
    if odd:
        m = _keep_good(tile, rows.labels, start, m, status, options)
        _pad(table, tile, m, sure, never)
        if logits is None:
            _sum_classes(table, tile, rows.weights)
    _fetch(rows.values, rows.labels, start + TILE, 1)
    return m


@inline
def _score_tile(rows, start, tile, kind, logits):
    """The ranks, log losses and Brier scores of a tile of good rows."""
    table = tile.table
    _order(table, tile)
    if table.shape[0] > 2:
        _rank(table, tile.labels, tile.truth, tile.rank)
    if logits is None:
        _score_probabilities(table, tile, kind)
    else:
        _softmax(table, tile, kind)
        _take_truth(table, tile.labels, tile.truth)
        _sum_classes(table, tile, rows.weights)
    _fetch(rows.values, rows.labels, start + TILE, 2)
    _finish_brier(tile)


@inline
def _add_scored(rows, m, tile, target, filled, reject_cost):
    """Add m rows with known scores to the sums."""
    t, run = target.tallies, target.running
    for k in range(t.ranks.size):
        run.outputs[k] += tile.outputs[k]
    run.outputs[0] -= (TILE - m) << OUTPUT
    add_tile(tile, m, target, filled, reject_cost, rows.weights)
    if t.class_cells.size > 0:
        correct_class_cells(tile.table[0], tile.table[1], tile.labels, tile, m, t)


@inline
def _narrow(rows, target, options, tile, logits):
    """Add rows; returns how many counted. `logits` is None or anything: numba leaves the other
    branch out."""
    n, filled, since_flush, kind = rows.labels.size, 0, 0, options.kind
    t, run = target.tallies, target.running
    maybe_plain = t.ranks.size == 2 and kind != PAIRS and rows.weights is None and logits is None
    for start in range(0, n, TILE):
        m = min(TILE, n - start)
        _load_rows(rows.values, start, m, tile.table, options)
        plain = maybe_plain and m == TILE
        if not (plain and _add_plain(rows.addresses, rows, start, tile, target, options)):
            load_columns(rows.addresses, rows.begin + start, m, rows.like, tile.table)
            m = _check_tile(rows, start, tile, target.status, options, logits)
            _score_tile(rows, start, tile, kind, logits)
            _add_scored(rows, m, tile, target, filled, options.reject_cost)
            _fetch(rows.values, rows.labels, start + TILE, 3)
        filled += m
        since_flush += m
        if since_flush + TILE > FLUSH:
            flush_classes(run, t)
            since_flush = 0
    flush_classes(run, t)
    return filled


@twin(lambda rows, *_: rows.labels)
@kernel
def narrow_probabilities(rows, target, options):
    """Add rows of probabilities (or of confidence and correctness); returns how many counted."""
    tile = new_tile(rows.like.dtype, target.tallies.ranks.size)
    return _narrow(rows, target, options, tile, None)


@twin(lambda rows, *_: rows.labels)
@kernel
def narrow_logits(rows, target, options):
    """Add rows of logits or log-probabilities; returns how many counted."""
    tile = new_tile(np.float64, target.tallies.ranks.size)
    return _narrow(rows, target, options, tile, 0)
