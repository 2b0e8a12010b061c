"""The fused pass for the probabilities of many classes, in columns: all sums, and the grids of all events.

A tile of rows is loaded once. Sums within a row are of integers, so that they are those of `wide`, which runs along rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import allocator, inline, kernel
from .elementary import log
from .event_pass import TILE, TURNS, add_classes, add_hits, add_ranks, close_gaps, new_room
from .fixed_point import ROUND_BITS, raised_tick
from .gridding import OFFSET_SCALE
from .rules import GOOD, row_status
from .sixteen import LANES, ROWS, look_at_sixteen
from .tallies import FLUSH, OUTPUT, add_tile, flush_classes, new_tile
from .tallies import TILE as FULL
from .vectors import column_at, prefetch
from .wide import brier_of

COUNT_BITS = 48  # of a word of a grid, from which on rows are counted; below is the sum of their offsets
WORD_ROWS = 2**14  # rows that fit into a word, as long as no probability is above MOST, and no offset above 2^-9
MOST = 1.0 + 2.0**-10
SCALE = 2.0**OUTPUT  # of ticks within a row: the sum of fewer than 2^11 probabilities fits


class Look(NamedTuple):
    """What a look along the classes tells of each row of a tile (see look_at_sixteen)."""

    total: np.ndarray
    squares: np.ndarray
    sign: np.ndarray
    best: np.ndarray
    arg: np.ndarray
    before: np.ndarray
    equal: np.ndarray
    outputs: np.ndarray  # [K, LANES] of all tiles since the last flush
    row: np.ndarray  # [K] room for a row


@allocator
def new_look(K, like, most):
    return Look(
        np.zeros(TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(TILE, most.dtype),
        np.zeros(TILE, most.dtype),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros((K, LANES), np.int64),
        np.zeros(K, like.dtype),
    )


@inline
def _load(addresses, start, m, table):
    """A tile of m rows; -0 becomes 0."""
    zero = table.dtype.type(0)
    for k in range(table.shape[0]):
        row, part = table[k], column_at(addresses, k, start + m, table)[start : start + m]
        for r in range(m):
            row[r] = part[r] + zero


@inline
def _clear(table, m):
    """What the rows from m on hold is 0."""
    for k in range(table.shape[0]):
        for r in range(m, TILE):
            table[k, r] = 0


@inline
def _copy(addresses, like, first, end, copied, rows, out):
    """Copy those of some rows, from number `copied` on, that lie in [first, end); which is the next."""
    while copied < rows.size and rows[copied] < end:
        i = rows[copied]
        if i >= first:
            for k in range(addresses.size):
                out[copied, k] = column_at(addresses, k, i + 1, like)[i]
        copied += 1
    return copied


@inline
def _look(room, m, look):
    table, labels, truth, K = room.table, room.labels, room.truth, room.table.shape[0]
    for r in range(m):
        label = labels[r]
        truth[r] = table[label if 0 <= label < K else 0, r]
    for r in range(0, TILE, ROWS):
        look_at_sixteen(
            *(table, r, truth, SCALE, look.total, look.squares, look.sign),
            *(look.best, look.arg, look.before, look.equal, look.outputs),
        )


@inline
def _take_back(table, outputs):
    """Undo what a look added to the outputs."""
    for k in range(table.shape[0]):
        for r in range(TILE):
            outputs[k, 0] -= raised_tick(np.float64(table[k, r]), SCALE)


@inline
def _judge(room, m, look, most, tolerance, kind, status):
    """The status of m rows; how many are bad."""
    table, labels, K, row = room.table, room.labels, room.table.shape[0], look.row
    bad = 0
    for r in range(m):
        near = abs((look.total[r] - K * ROUND_BITS) / SCALE - 1.0) <= tolerance
        if not ((0 <= labels[r] < K) & (look.sign[r] >= 0) & (look.best[r] <= most) & near):
            for k in range(K):
                row[k] = table[k, r]
            status[r] = row_status(row, labels[r], 1.0, K, tolerance, kind)
            bad += status[r] != GOOD
    return bad


@inline
def _rank(room, m, look):
    """How many classes stand before the true one; of equal probabilities the lower index stands first."""
    table, labels, rank = room.table, room.labels, room.rank
    for r in range(TILE):
        rank[r] = look.before[r]
    for r in range(m):
        if look.equal[r] > 1:
            for k in range(labels[r]):
                rank[r] += table[k, r] == table[labels[r], r]


@inline
def _score(room, m, look, tile, held):
    """Put what is known of m rows behind the rows that a tile of the sums holds; the largest confidence."""
    K, squares = room.table.shape[0], look.squares
    largest = 0.0
    for r in range(TILE):
        p, i = np.float64(room.truth[r]), held + r
        tile.labels[i] = room.labels[r]
        tile.rank[i] = room.rank[r]
        tile.argmax[i] = look.arg[r]
        tile.logs[i] = -log(p) if p > 0.0 else np.inf
        tile.brier[i] = brier_of(squares[r] - K * ROUND_BITS, p, SCALE)
    for r in range(m):
        confidence = np.float64(room.table[look.arg[r], r])
        tile.confidence[held + r] = confidence
        largest = max(largest, confidence)
    return largest


@inline
def _add_words(room, m, words, addresses, next_row):
    """As add_classes, but a word for each cell [K, G], that counts rows and sums their offsets: half as much to add.

    Meanwhile the next tile is asked for: at once it would have to be waited for, as no column is looked at for long.
    """
    K, G = words.shape
    table, place, terms, flat = room.table, room.place, room.terms, words.reshape(words.size)
    step, raised_one = 1.0 / G, (np.int64(1) << COUNT_BITS) - ROUND_BITS
    for first in range(0, K, TURNS):
        count = min(TURNS, K - first)
        for j in range(count):
            column = column_at(addresses, first + j, next_row + TILE, table)
            for r in range(next_row, next_row + TILE, 64 // table.itemsize):
                prefetch(column, r)
            row, places, sums = table[first + j], place[j * TILE : (j + 1) * TILE], terms[j * TILE : (j + 1) * TILE]
            base = (first + j) * G - ROUND_BITS
            for r in range(TILE):
                p = np.float64(row[r])
                g = min(np.floor(p * G), G - 1.0)
                places[r] = np.uint64(raised_tick(g, 1.0) + base)
                sums[r] = raised_tick(p - (g + 0.5) * step, OFFSET_SCALE) + raised_one
        if count == TURNS:
            for r in range(m):
                for j in range(TURNS):
                    flat[place[j * TILE + r]] += terms[j * TILE + r]
        else:
            for r in range(m):
                for j in range(count):
                    flat[place[j * TILE + r]] += terms[j * TILE + r]


@inline
def _flush_words(words, lines):
    """Move the words of at most WORD_ROWS rows into the grids."""
    flat, pairs, above = words.reshape(words.size), lines.reshape(lines.size), 64 - COUNT_BITS
    for i in range(flat.size):
        word = flat[i]
        if word != 0:
            offsets = (word << above) >> above
            pairs[2 * i] += (word - offsets) >> COUNT_BITS
            pairs[2 * i + 1] += offsets
            flat[i] = 0


@inline
def _flush(outputs, slots, run, t):
    """Move the sums of at most FLUSH rows into the state."""
    for k in range(outputs.shape[0]):
        total = -slots * ROUND_BITS
        for i in range(outputs.shape[1]):
            total += outputs[k, i]
            outputs[k, i] = 0
        run.outputs[k] += total
    flush_classes(run, t)


@kernel
def wide_columns(addresses, like, first, y, w, t, run, status, codes, kind, tolerance, reject, most, grids, words, rows, out):
    """Add rows of probabilities, without weights, from number `first` on of columns, of the type of `like`, at `addresses`.

    As wide_probabilities for the sums, and as tally_events for the grids. `words` are zeros [K, G], and are left so. The
    outputs of some `rows`, rising numbers, are copied to `out` in passing.
    """
    K, n = t.ranks.size, y.size
    room, tile = new_room(like.dtype, K, grids.ranks[-1] if grids.ranks.size else 1), new_tile(np.float64, 0)
    look = new_look(K, like, most)
    filled, since_flush, slots, held, in_words, copied = 0, 0, 0, 0, 0, 0
    for start in range(0, n, TILE):
        m, last = min(TILE, n - start), start + TILE >= n
        _load(addresses, first + start, m, room.table)
        _clear(room.table, m)
        copied = _copy(addresses, like, first + start, first + start + m, copied, rows, out)
        for r in range(m):
            room.labels[r] = y[start + r]
        _look(room, m, look)
        slots += TILE
        if _judge(room, m, look, most[0], tolerance, kind, status[start : start + m]) > 0:
            _take_back(room.table, look.outputs)
            m = close_gaps(room.table, room.labels, status, start, m)
            _clear(room.table, m)
            _look(room, m, look)
        _rank(room, m, look)
        largest = _score(room, m, look, tile, held)
        held += m
        if words.size > 0:
            if largest <= MOST:
                _add_words(room, m, words, addresses, first + start + TILE)
                in_words += m
            else:
                add_classes(room, m, grids)
            if last or in_words + TILE > WORD_ROWS:
                _flush_words(words, grids.lines)
                in_words = 0
            add_hits(room, m, grids)
        if grids.ranks.size > 0:
            add_ranks(room, m, grids)
        if last or held + TILE > FULL:
            add_tile(tile, held, run, t, codes, filled, reject, w)
            filled, since_flush, held = filled + held, since_flush + held, 0
            if last or since_flush + FULL > FLUSH:
                _flush(look.outputs, slots, run, t)
                since_flush, slots = 0, 0
    return filled
