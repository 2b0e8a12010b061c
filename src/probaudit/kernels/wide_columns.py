"""The fused pass for the probabilities of many classes, in columns: all sums, and the grids of all
events.

A tile of rows is read in place, and copied into a table only if its rows need a closer check. Sums
within a row are integers, so that they equal those of `wide`, which runs along rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import inline, kernel
from .elementary import log
from .event_pass import (
    TURNS,
    Grids,
    add_classes,
    add_hits,
    add_ranks,
    close_gaps,
    find_largest,
    new_room,
)
from .fixed_point import ROUND_BITS, raised_tick
from .grid_cells import OFFSET_BITS, scale_of
from .rules import BAD_SUM, GOOD, row_status
from .scans import largest_ten, scan_sixteen
from .sixteen import ROWS, SCALE, ColumnRows, new_scan
from .tallies import FLUSH, TILE, add_tile, flush_classes, new_tile
from .vectors import column_at
from .wide import brier_of

# The bits of a grid's word from here on count rows; those below hold the sum of their offsets.
COUNT_BITS = 48
WORD_ROWS = 2**16 - 1  # rows that fit into a word, as long as no probability is above MOST
# added to p G, it leaves the cell, and the offset below it, in the number's bits
RAISE = 1.5 * 2.0 ** (52 - OFFSET_BITS)
RAISED_CELL = np.uint64(np.float64(RAISE).view(np.int64) >> OFFSET_BITS)
MOST = 1.0 + 2.0**-10
NO_ROW = 2**62  # a row number after all others


class Events(NamedTuple):
    """The grids of events, and scratch space."""

    grids: Grids
    words: np.ndarray  # [K, G + 1] zeros, before and after a call


class Copies(NamedTuple):
    """Rows whose outputs are copied in passing."""

    rows: np.ndarray  # their numbers, rising
    out: np.ndarray


@inline
def _load(columns, m, table):
    """Copy m rows of columns, which may be those of the table itself, into a table, and fill it up
    with 0."""
    start = columns.start
    for k in range(table.shape[0]):
        row, column = table[k], column_at(columns.addresses, k, start + m, table)
        for r in range(m):
            row[r] = column[start + r]
        for r in range(m, TILE):
            row[r] = 0


@inline
def _first_from(rows, number):
    """The index of the first of rising row numbers that is not below a number."""
    low, high = 0, rows.size
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _copy(strip, first, copied, copies):
    """Copy the wanted rows, from index `copied` on, that a strip from row number `first` on
    holds; returns the index of the next one."""
    rows = copies.rows
    while copied < rows.size and rows[copied] < first + ROWS:
        r = rows[copied] - first
        for k in range(strip.shape[0]):
            copies.out[copied, k] = strip[k, r]
        copied += 1
    return copied


@inline
def _scan_tile(columns, room, m, scan, number, copies):
    """Scan a tile, in columns, of which m rows count, and copy wanted rows. `number` is that of its
    first row, or NO_ROW to copy none."""
    labels, truth, top, K = room.labels, room.truth, room.top, room.table.shape[0]
    start, zero = columns.start, truth.dtype.type(0)
    for r in range(m):
        label = labels[r] if 0 <= labels[r] < K else 0
        truth[r] = column_at(columns.addresses, label, start + m, truth)[start + r] + zero
    copied = _first_from(copies.rows, number)
    for r in range(0, TILE, ROWS):
        scan_sixteen(columns, r, room, scan)
        if top.shape[0] == 10:
            largest_ten(room.strip, 0, top, r)
        copied = _copy(room.strip, number + r, copied, copies)


@inline
def _take_back(columns, like, outputs):
    """Undo what a scan added to the outputs."""
    start = columns.start
    for k in range(columns.addresses.size):
        column = column_at(columns.addresses, k, start + TILE, like)
        for r in range(TILE):
            outputs[k, 0] -= raised_tick(np.float64(column[start + r]), SCALE)


@inline
def _check(columns, room, scan, most, options, status):
    """Set the status of as many rows as it has; returns how many are bad."""
    labels, odd, row, K = room.labels, room.flags, scan.row, columns.addresses.size
    start, tolerance, m = columns.start, options.tolerance, status.size
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
                    row[k] = column_at(columns.addresses, k, start + m, row)[start + r]
                broken = row_status(row, labels[r], 1.0, K, options)
                # the integer sum decides, as in `wide`
                if broken != GOOD and not (
                    broken == BAD_SUM and _near(scan.total[r], K, tolerance)
                ):
                    status[r] = broken
                    bad += 1
    return bad


@inline
def _near(total, K, tolerance):
    """Whether K probabilities sum to 1, by the ticks of their sum, as in `wide`."""
    return abs((total - K * ROUND_BITS) / SCALE - 1.0) <= tolerance


@inline
def _rank(columns, room, m, scan):
    """How many classes rank before the true one; ties go to the lower index."""
    labels, truth, rank, start = room.labels, room.truth, room.rank, columns.start
    ties = np.uint32(0)
    for r in range(TILE):
        rank[r] = scan.before[r]
        ties |= scan.equal[r]
    if ties > 1:
        for r in range(m):
            if scan.equal[r] > 1:
                for k in range(labels[r]):
                    column = column_at(columns.addresses, k, start + m, truth)
                    rank[r] += column[start + r] == truth[r]


@inline
def _score(room, scan, tile):
    """Put ranks, confidences and scores of the rows into a tile of the sums; returns how many have
    a probability above MOST."""
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
def _add_words(columns, room, m, words):
    """The same as add_classes, but with one word for each cell [K, G + 1], which counts rows and
    sums their offsets from its lower edge: half as much to add, and both are read off the bits of
    p G + RAISE."""
    K, cells = words.shape
    start = columns.start
    scale, flat, raised = scale_of(cells - 1), words.reshape(words.size), room.raised
    bits, shift = raised.view(np.uint64), np.uint64(OFFSET_BITS)
    below, one = np.uint64(2**OFFSET_BITS - 1), np.uint64(1) << np.uint64(COUNT_BITS)
    for first in range(0, K, TURNS):
        count = min(TURNS, K - first)
        for j in range(count):
            column = column_at(columns.addresses, first + j, start + TILE, room.truth)[
                start : start + TILE
            ]
            sums, by = raised[j * TILE : (j + 1) * TILE], RAISE + j * cells
            for r in range(TILE):
                sums[r] = np.float64(column[r]) * scale + by
            if column.itemsize == 8:
                _move_down(column, m, sums, by, words[first + j])
        base = np.uint64(first * cells) - RAISED_CELL
        if count == TURNS:
            for r in range(m):
                for j in range(TURNS):
                    word = bits[np.uint64(j * TILE + r)]
                    flat[base + (word >> shift)] += one | (word & below)
        else:
            for r in range(m):
                for j in range(count):
                    word = bits[np.uint64(j * TILE + r)]
                    flat[base + (word >> shift)] += one | (word & below)


@inline
def _move_down(column, m, sums, by, line):
    """Correct the m rows that lie so little below the edge of a cell that their sums are on it:
    move them from the cell above, where they are going to be counted, to the upper edge of their
    own. A float32 is never so near to an edge."""
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
def _add_class_events(columns, room, m, events, in_words, above):
    """Add m rows to the grids of classes; returns how many rows the words then hold. Words have no
    room for probabilities that lie far above 1."""
    if events.words.size == 0:
        return 0
    if above == 0:
        _add_words(columns, room, m, events.words)
        in_words += m
    else:
        _load(columns, m, room.table)
        add_classes(room, m, events.grids)
    add_hits(room, m, events.grids)
    if in_words + TILE > WORD_ROWS:
        _flush_words(events.words, events.grids.lines)
        return 0
    return in_words


@inline
def _add_rank_events(columns, room, m, grids):
    """Add m rows to the grids of ranks."""
    if grids.ranks.size > 0:
        if room.top.shape[0] != 10:
            _load(columns, m, room.table)
            find_largest(room.table, room.top)
        add_ranks(room, m, grids)


@inline
def _flush(outputs, slots, target):
    """Move the sums of at most FLUSH rows into the state."""
    run = target.running
    for k in range(outputs.shape[0]):
        total = -slots * ROUND_BITS
        for i in range(outputs.shape[1]):
            total += outputs[k, i]
            outputs[k, i] = 0
        run.outputs[k] += total
    flush_classes(run, target.tallies)


@kernel
def wide_columns(rows, target, options, most, events, copies):
    """Add rows of probabilities in columns, without weights: the same as wide_probabilities for the
    sums, and as tally_events for the grids. most[0] is the bit pattern of the largest valid p."""
    y, w, grids, status = rows.labels, rows.weights, events.grids, target.status
    K, n = target.tallies.ranks.size, y.size
    room = new_room(rows.like.dtype, K, grids.ranks[-1] if grids.ranks.size else 1)
    tile, scan = new_tile(np.float64, 0), new_scan(K, rows.like, most)
    here = np.empty(K, np.uint64)  # the addresses of the table's columns
    for k in range(K):
        here[k] = room.table[k].ctypes.data
    filled, since_flush, slots, in_words = 0, 0, 0, 0
    for start in range(0, n, TILE):
        m, number = min(TILE, n - start), rows.begin + start
        columns = ColumnRows(rows.addresses, number)
        for r in range(m):
            room.labels[r] = y[start + r]
        if m < TILE:
            _load(columns, m, room.table)
            columns = ColumnRows(here, 0)
        _scan_tile(columns, room, m, scan, number, copies)
        slots += TILE
        if _check(columns, room, scan, most[0], options, status[start : start + m]) > 0:
            _take_back(columns, rows.like, scan.outputs)
            _load(columns, m, room.table)
            m = close_gaps(room.table, room.labels, status, start, m)
            columns = ColumnRows(here, 0)
            _load(columns, m, room.table)
            _scan_tile(columns, room, m, scan, NO_ROW, copies)
        _rank(columns, room, m, scan)
        above = _score(room, scan, tile)
        in_words = _add_class_events(columns, room, m, events, in_words, above)
        _add_rank_events(columns, room, m, grids)
        add_tile(tile, m, target, filled, options.reject_cost, w)
        filled, since_flush = filled + m, since_flush + m
        if since_flush + TILE > FLUSH:
            _flush(scan.outputs, slots, target)
            since_flush, slots = 0, 0
    _flush(scan.outputs, slots, target)
    if events.words.size > 0:
        _flush_words(events.words, grids.lines)
    return filled
