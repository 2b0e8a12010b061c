"""The fused pass for few classes: one look at each row gives every sum that scores, decisions and
the grid need.

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
from .two_classes import add_plain_tile
from .vectors import column_at, prefetch, transpose_four


@inline
def _load_column(flat, start, m, table, kind, tolerance):
    """A single column belongs to the second of two classes; above 1 by no more than rounding, it
    leaves the first 0."""
    first, second, part = table[0], table[1], flat[start : start + m]
    for r in range(m):
        second[r] = part[r]
    for r in range(m):
        rest = 1 - second[r]
        rest = 0 if (rest < 0) & (rest >= -tolerance) else rest
        first[r] = 0 if kind >= LOGITS else rest


@inline
def _load_two(flat, start, m, table):
    """Two columns: the compiler knows how to part them with vector operations."""
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
            transpose_four(flat, (start + r) * K + k, K, columns, k * TILE + r, TILE)
    for r in range(blocked, m):
        for k in range(K):
            table[k, r] = flat[(start + r) * K + k]


@inline
def _load(values, start, m, table, kind, tolerance):
    """Transpose a tile of rows."""
    flat = values.reshape(values.size)
    if values.shape[1] == 1:
        _load_column(flat, start, m, table, kind, tolerance)
    elif values.shape[1] == 2:
        _load_two(flat, start, m, table)
    else:
        _load_many(flat, start, m, table)


@inline
def load_columns(addresses, start, m, like, table):
    """A tile of rows of columns that begin at these addresses, of the type of `like`."""
    for k in range(table.shape[0]):
        column, part = table[k], column_at(addresses, k, start + m, like)[start : start + m]
        for r in range(m):
            column[r] = part[r]


@inline
def _fetch(values, y, start, part):
    """Ask for a quarter of the tile at `start`, ahead of its use.

    A tile is about a page of memory, beyond which the processor does not look ahead by itself; and
    asking for all of it at once would only move the wait to here. So each stage of a tile asks for
    a quarter of the next one.
    """
    K = values.shape[1]
    first, last = start + part * (TILE // 4), start + (part + 1) * (TILE // 4)
    for i in range(first * K, last * K, 64 // values.itemsize):
        prefetch(values, i)
    for i in range(first, last, 64 // y.itemsize):
        prefetch(y, i)


@inline
def _load_labels(y, start, m, labels, classes):
    """Labels of a tile; how many lie outside the classes."""
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
    """Weights of a tile; how many are zero or not weights at all."""
    part = w[start : start + m]
    strange = np.int64(0)
    for r in range(m):
        weights[r] = part[r]
        strange += not 0.0 < part[r] < np.inf
    return strange


@inline
def _sum_classes(table, tile, w):
    """Over the classes of each row, the total and the squares of all but the true one; over the
    rows of each class, the ticks of w p. Whether some p is negative."""
    labels, weights, total, squares, outputs = (
        tile.labels,
        tile.weights,
        tile.total,
        tile.brier,
        tile.outputs,
    )
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
    """Whether any row has a sum other than 1 (or none, for lack of numbers)."""
    odd = np.int64(0)
    for r in range(TILE):
        odd += not abs(total[r] - 1.0) <= tolerance
    return odd > 0


@inline
def _odd_logits(table, m, total, tolerance, kind):
    """Whether any row of the tile may break a rule."""
    odd = np.int64(0)
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(m):
            odd += not (row[r] >= -LOGIT_LIMIT) & (row[r] <= LOGIT_LIMIT)
    if kind == LOG_PROBABILITIES:
        for r in range(TILE):
            total[r] = 0.0
        for k in range(table.shape[0]):
            row = table[k]
            for r in range(TILE):
                total[r] += exp(row[r])
        for r in range(m):
            odd += not abs(total[r] - 1.0) <= tolerance
    return odd > 0


@inline
def _keep_good(table, tile, y, start, m, status, tolerance, kind):
    """Close the gaps that bad rows and rows of weight zero leave in a tile; how many rows
    remain."""
    K = table.shape[0]
    kept = 0
    for r in range(m):
        verdict = row_status(table[:, r], y[start + r], tile.weights[r], K, tolerance, kind)
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
def _softmax(table, tile, kind):
    """Turn a tile of logits into probabilities, with the confidence and the log score of each
    row."""
    # the score takes the shift's place at the end
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
    if kind == LOG_PROBABILITIES:  # taken as they are, like probabilities
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
    """The confidence and the log score of each row."""
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
    """Add the true class's part of the Brier score to the squares of the others."""
    for r in range(TILE):
        gap = 1.0 - np.float64(tile.truth[r])
        tile.brier[r] += gap * gap


@inline
def _take_truth(table, labels, truth):
    """The true class's probability, once the table has changed from logits to probabilities."""
    for r in range(TILE):
        truth[r] = table[labels[r], r]


@inline
def _add_plain(values, addresses, like, begin, y, start, tile, run, t, tolerance, reject):
    """Add a whole tile of two classes in one loop, if it is plain; whether it was."""
    labels = y[start : start + TILE]
    if addresses is not None:
        first, end = begin + start, begin + start + TILE
        p, q = (
            column_at(addresses, 0, end, like)[first:end],
            column_at(addresses, 1, end, like)[first:end],
        )
        return add_plain_tile(p, q, labels, tile, run, t, tolerance, reject)
    if values is not None:
        for part in range(4):
            _fetch(values, y, start + TILE, part)
    return add_plain_tile(tile.table[0], tile.table[1], labels, tile, run, t, tolerance, reject)


@inline
def _add_in_stages(
    values, y, start, m, w, t, run, status, codes, filled, kind, tolerance, reject, tile, logits
):
    """Add a tile that is loaded, whatever it is; how many rows counted."""
    table, K = tile.table, t.ranks.size
    sure, never = (1.0, 0.0) if logits is None else (0.0, -np.inf)
    odd = _load_labels(y, start, m, tile.labels, K) > 0
    if w is not None:
        odd |= _load_weights(w, start, m, tile.weights) > 0
    _pad(table, tile, m, sure, never)
    if values is not None:
        _fetch(values, y, start + TILE, 0)
    if logits is None:
        odd |= _sum_classes(table, tile, w)
        odd |= _odd_totals(tile.total, tolerance)
    else:
        odd |= _odd_logits(table, m, tile.total, tolerance, kind)
    if odd:
        m = _keep_good(table, tile, y, start, m, status, tolerance, kind)
        _pad(table, tile, m, sure, never)
        if logits is None:
            _sum_classes(table, tile, w)
    if values is not None:
        _fetch(values, y, start + TILE, 1)
    _order(table, tile)
    if K > 2:
        _rank(table, tile.labels, tile.truth, tile.rank)
    if logits is None:
        _score_probabilities(table, tile, kind)
    else:
        _softmax(table, tile, kind)
        _take_truth(table, tile.labels, tile.truth)
        _sum_classes(table, tile, w)
    if values is not None:
        _fetch(values, y, start + TILE, 2)
    _finish_brier(tile)
    for k in range(K):
        run.outputs[k] += tile.outputs[k]
    run.outputs[0] -= (TILE - m) << OUTPUT
    add_tile(tile, m, run, t, codes, filled, reject, w)
    if t.class_cells.size > 0:
        correct_class_cells(table[0], table[1], tile.labels, tile.argmax, tile.rank, m, t)
    if values is not None:
        _fetch(values, y, start + TILE, 3)
    return m


@inline
def _narrow(
    values,
    addresses,
    like,
    begin,
    y,
    w,
    t,
    run,
    status,
    codes,
    kind,
    tolerance,
    reject,
    tile,
    logits,
):
    """Of `values` and `addresses`, one is None, and `logits` is None or anything: numba then leaves
    the other branch out.

    addresses : where columns begin, of numbers of the type of `like`, of which the rows from
        `begin` on are meant.
    """
    n, filled, since_flush = y.size, 0, 0
    maybe_plain = t.ranks.size == 2 and kind != PAIRS and w is None and logits is None
    for start in range(0, n, TILE):
        m = min(TILE, n - start)
        if values is not None:
            _load(values, start, m, tile.table, kind, tolerance)
        plain = maybe_plain and m == TILE
        if not (
            plain
            and _add_plain(
                values, addresses, like, begin, y, start, tile, run, t, tolerance, reject
            )
        ):
            if addresses is not None:
                load_columns(addresses, begin + start, m, like, tile.table)
            m = _add_in_stages(
                values,
                y,
                start,
                m,
                w,
                t,
                run,
                status,
                codes,
                filled,
                kind,
                tolerance,
                reject,
                tile,
                logits,
            )
        filled += m
        since_flush += m
        if since_flush + TILE > FLUSH:
            flush_classes(run, t)
            since_flush = 0
    flush_classes(run, t)
    return filled


@kernel
def narrow_probabilities(
    values, addresses, like, begin, y, w, t, run, status, codes, kind, tolerance, reject
):
    """Add rows of probabilities (or of confidence and correctness) to t; the number of rows that
    counted."""
    tile = new_tile(like.dtype, t.ranks.size)
    return _narrow(
        values,
        addresses,
        like,
        begin,
        y,
        w,
        t,
        run,
        status,
        codes,
        kind,
        tolerance,
        reject,
        tile,
        None,
    )


@kernel
def narrow_logits(
    values, addresses, like, begin, y, w, t, run, status, codes, kind, tolerance, reject
):
    """Add rows of logits or log-probabilities to t; the number of rows that counted."""
    tile = new_tile(np.float64, t.ranks.size)
    return _narrow(
        values,
        addresses,
        like,
        begin,
        y,
        w,
        t,
        run,
        status,
        codes,
        kind,
        tolerance,
        reject,
        tile,
        0,
    )
