"""The fused pass for the probabilities of many classes, in columns: all sums, and the grids of all
events.

A tile of rows is looked at where it is, and laid into a table only if a closer look is needed. Sums
within a row are of integers, so that they are those of `wide`, which runs along rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import allocator, inline, kernel
from .elementary import log
from .event_pass import TURNS, add_classes, add_hits, add_ranks, close_gaps, find_largest, new_room
from .fixed_point import ROUND_BITS, raised_tick
from .gridding import OFFSET_BITS, scale_of
from .rules import BAD_SUM, GOOD, row_status
from .sixteen import LANES, ROWS, largest_ten, scan_sixteen
from .tallies import FLUSH, OUTPUT, TILE, add_tile, flush_classes, new_tile
from .vectors import column_at
from .wide import brier_of

# of a word of a grid, from which on rows are counted; below is the sum of their offsets
COUNT_BITS = 48
WORD_ROWS = 2**16 - 1  # rows that fit into a word, as long as no probability is above MOST
# added to p G, it leaves the cell, and the offset below it, in the number's bits
RAISE = 1.5 * 2.0 ** (52 - OFFSET_BITS)
RAISED_CELL = np.uint64(np.float64(RAISE).view(np.int64) >> OFFSET_BITS)
MOST = 1.0 + 2.0**-10
SCALE = 2.0**OUTPUT  # of ticks within a row: the sum of fewer than 2^11 probabilities fits


class TileScan(NamedTuple):
    """What a scan along the classes finds for each row of a tile (see scan_sixteen)."""

    total: np.ndarray
    squares: np.ndarray
    best: np.ndarray
    arg: np.ndarray
    before: np.ndarray
    equal: np.ndarray
    outputs: np.ndarray  # [K, LANES] of all tiles since the last flush
    row: np.ndarray  # [K] room for a row


@allocator
def new_scan(K, like, most):
    return TileScan(
        np.zeros(TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(TILE, most.dtype),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros((K, LANES), np.int64),
        np.zeros(K, like.dtype),
    )


@inline
def _load(addresses, start, m, table):
    """Put m rows of columns, which may be those of the table itself, into a table; what it holds
    beyond is 0."""
    for k in range(table.shape[0]):
        row, column = table[k], column_at(addresses, k, start + m, table)
        for r in range(m):
            row[r] = column[start + r]
        for r in range(m, TILE):
            row[r] = 0


@inline
def _copy(strip, first, copied, rows, out):
    """Copy those of some rows, from number `copied` on, that a strip from row `first` on holds;
    which is the next."""
    while copied < rows.size and rows[copied] < first + ROWS:
        r = rows[copied] - first
        if r >= 0:
            for k in range(strip.shape[0]):
                out[copied, k] = strip[k, r]
        copied += 1
    return copied


@inline
def _scan_tile(addresses, start, room, m, scan, number, copied, rows, out):
    """Scan a tile, in columns, of which m rows count. `number` is that of its first row, for the
    copy of some (_copy)."""
    labels, truth, top, K = room.labels, room.truth, room.top, room.table.shape[0]
    zero = truth.dtype.type(0)
    for r in range(m):
        label = labels[r] if 0 <= labels[r] < K else 0
        truth[r] = column_at(addresses, label, start + m, truth)[start + r] + zero
    for r in range(0, TILE, ROWS):
        scan_sixteen(
            *(addresses, start + r, room.strip, r, truth, SCALE, scan.total, scan.squares),
            *(scan.best, scan.arg, scan.before, scan.equal, scan.outputs),
        )
        if top.shape[0] == 10:
            largest_ten(room.strip, 0, top, r)
        copied = _copy(room.strip, number + r, copied, rows, out)
    return copied


@inline
def _take_back(addresses, start, like, outputs):
    """Undo what a scan added to the outputs."""
    for k in range(addresses.size):
        column = column_at(addresses, k, start + TILE, like)
        for r in range(TILE):
            outputs[k, 0] -= raised_tick(np.float64(column[start + r]), SCALE)


@inline
def _judge(addresses, start, room, m, scan, most, tolerance, kind, status):
    """The status of m rows; how many are bad."""
    labels, odd, K, row = room.labels, room.flags, addresses.size, scan.row
    any_odd = np.int64(0)
    for r in range(TILE):
        odd[r] = not (
            (labels[r] >= 0)
            & (labels[r] < K)
            & (scan.best[r] <= most)
            & _near(scan.total[r], K, tolerance)
        )
        any_odd += odd[r]
    bad = 0
    if any_odd > 0:
        for r in range(m):
            if odd[r]:
                for k in range(K):
                    row[k] = column_at(addresses, k, start + m, row)[start + r]
                found = row_status(row, labels[r], 1.0, K, tolerance, kind)
                if found != GOOD and not (found == BAD_SUM and _near(scan.total[r], K, tolerance)):
                    status[r] = found
                    bad += 1
    return bad


@inline
def _near(total, K, tolerance):
    """Whether K probabilities sum to 1, by the ticks of their sum, as `wide` has it."""
    return abs((total - K * ROUND_BITS) / SCALE - 1.0) <= tolerance


@inline
def _rank(addresses, start, room, m, scan):
    """How many classes stand before the true one; of equal probabilities the lower index stands
    first."""
    labels, truth, rank = room.labels, room.truth, room.rank
    ties = np.uint32(0)
    for r in range(TILE):
        rank[r] = scan.before[r]
        ties |= scan.equal[r]
    if ties > 1:
        for r in range(m):
            if scan.equal[r] > 1:
                for k in range(labels[r]):
                    rank[r] += column_at(addresses, k, start + m, truth)[start + r] == truth[r]


@inline
def _score(room, scan, tile):
    """Put what is known of the rows into a tile of the sums; how many have a probability above
    MOST."""
    raised, best = room.table.shape[0] * ROUND_BITS, scan.best.view(room.table.dtype)
    above = 0
    for r in range(TILE):
        tile.labels[r] = room.labels[r]
        tile.rank[r] = room.rank[r]
        tile.argmax[r] = scan.arg[r]
        tile.confidence[r] = best[r]
        above += best[r] > MOST
    for r in range(TILE):
        p = np.float64(room.truth[r])
        s = -log(p)
        tile.logs[r] = s if p > 0.0 else np.inf
        tile.brier[r] = brier_of(scan.squares[r] - raised, p, SCALE)
    return above


@inline
def _add_words(addresses, start, room, m, words):
    """As add_classes, but a word for each cell [K, G + 1], that counts rows and sums how far above
    its lower edge they are: half as much to add, and both are read off the bits of p G + RAISE."""
    K, cells = words.shape
    scale, flat, raised = scale_of(cells - 1), words.reshape(words.size), room.raised
    bits, shift, below = (
        raised.view(np.uint64),
        np.uint64(OFFSET_BITS),
        np.uint64(2**OFFSET_BITS - 1),
    )
    one = np.uint64(1) << np.uint64(COUNT_BITS)
    for first in range(0, K, TURNS):
        count = min(TURNS, K - first)
        for j in range(count):
            column = column_at(addresses, first + j, start + TILE, room.truth)[start : start + TILE]
            sums, by = raised[j * TILE : (j + 1) * TILE], RAISE + j * cells
            for r in range(TILE):
                sums[r] = np.float64(column[r]) * scale + by
            if column.itemsize == 8:
                _move_down(column, m, sums, by, words[first + j])
        base = np.uint64(first * cells) - RAISED_CELL
        if count == TURNS:
            for r in range(m):
                for j in range(TURNS):
                    found = bits[np.uint64(j * TILE + r)]
                    flat[base + (found >> shift)] += one | (found & below)
        else:
            for r in range(m):
                for j in range(count):
                    found = bits[np.uint64(j * TILE + r)]
                    flat[base + (found >> shift)] += one | (found & below)


@inline
def _move_down(column, m, sums, by, line):
    """Those of m rows that lie so little below the edge of a cell that their sums are on it: move
    them from the cell above, where they are going to be counted, to the upper edge of their own. A
    float32 is never so near to an edge."""
    scale = scale_of(line.size - 1)
    odd = 0
    for r in range(TILE):
        edge = sums[r] - by
        odd += (edge > np.float64(column[r]) * scale) & (edge == np.floor(edge))
    if odd > 0:
        for r in range(m):
            edge = sums[r] - by
            if (edge > np.float64(column[r]) * scale) & (edge == np.floor(edge)):
                one, g = np.uint64(1) << np.uint64(COUNT_BITS), np.uint64(edge)
                line[g] -= one
                line[g - np.uint64(1)] += one | np.uint64(2**OFFSET_BITS)


@inline
def _flush_words(words, lines):
    """Move the words of at most WORD_ROWS rows into the grids, where offsets are from the middles
    of cells."""
    K, G = lines.shape[:2]
    half, below = np.int64(2 ** (OFFSET_BITS - 1)), np.uint64(2**COUNT_BITS - 1)
    for k in range(K):
        for g in range(G + 1):
            word = words[k, g]
            if word != 0:
                line, rows = lines[k, min(g, G - 1)], np.int64(word >> np.uint64(COUNT_BITS))
                line[0] += rows
                line[1] += np.int64(word & below) + (rows * half if g == G else -rows * half)
                words[k, g] = 0


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
def wide_columns(
    addresses,
    like,
    first,
    y,
    w,
    t,
    run,
    status,
    codes,
    kind,
    tolerance,
    reject,
    most,
    grids,
    words,
    rows,
    out,
):
    """Add rows of probabilities, without weights, from number `first` on of columns, of the type of
    `like`, at `addresses`.

    As wide_probabilities for the sums, and as tally_events for the grids. `words` are zeros [K, G +
    1], and are left so. The outputs of some `rows`, rising numbers, are copied to `out` in passing.
    """
    K, n = t.ranks.size, y.size
    room, tile = (
        new_room(like.dtype, K, grids.ranks[-1] if grids.ranks.size else 1),
        new_tile(np.float64, 0),
    )
    scan = new_scan(K, like, most)
    here = np.empty(K, np.uint64)  # the addresses of the table's columns
    for k in range(K):
        here[k] = room.table[k].ctypes.data
    filled, since_flush, slots, in_words, copied = 0, 0, 0, 0, 0
    for start in range(0, n, TILE):
        m, last = min(TILE, n - start), start + TILE >= n
        columns, at = addresses, first + start
        number = at
        for r in range(m):
            room.labels[r] = y[start + r]
        if m < TILE:
            _load(columns, at, m, room.table)
            columns, at = here, 0
        copied = _scan_tile(columns, at, room, m, scan, number, copied, rows, out)
        slots += TILE
        if (
            _judge(columns, at, room, m, scan, most[0], tolerance, kind, status[start : start + m])
            > 0
        ):
            _take_back(columns, at, like, scan.outputs)
            _load(columns, at, m, room.table)
            m = close_gaps(room.table, room.labels, status, start, m)
            _load(here, 0, m, room.table)
            columns, at = here, 0
            _scan_tile(columns, at, room, m, scan, number, rows.size, rows, out)
        _rank(columns, at, room, m, scan)
        above = _score(room, scan, tile)
        if words.size > 0:
            if above == 0:
                _add_words(columns, at, room, m, words)
                in_words += m
            else:
                _load(columns, at, m, room.table)
                add_classes(room, m, grids)
            if last or in_words + TILE > WORD_ROWS:
                _flush_words(words, grids.lines)
                in_words = 0
            add_hits(room, m, grids)
        if grids.ranks.size > 0:
            if room.top.shape[0] != 10:
                _load(columns, at, m, room.table)
                find_largest(room.table, room.top)
            add_ranks(room, m, grids)
        add_tile(tile, m, run, t, codes, filled, reject, w)
        filled, since_flush = filled + m, since_flush + m
        if last or since_flush + TILE > FLUSH:
            _flush(scan.outputs, slots, run, t)
            since_flush, slots = 0, 0
    return filled
