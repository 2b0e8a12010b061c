"""The grids of all events in one pass: each class, and whether the true class is among the k most
probable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import allocator, inline, kernel
from .elementary import exp
from .grid_cells import offset_tick
from .narrow import load_columns
from .scans import largest_ten
from .sixteen import ROWS
from .tallies import TILE, cell_of
from .twins import twin
from .vectors import add_four, add_two

TURNS = 8  # classes whose rows are added alternately


class Grids(NamedTuple):
    """The grids of events, int64; without classes, or without ranks, if these are not wanted."""

    # [K, G, 2] by the probability of each class: rows, and distances from the middle of the cell
    lines: np.ndarray
    hits: np.ndarray  # [K, G] rows of that class
    ranks: np.ndarray  # k, rising: the event that the true class is among the k most probable
    # [ranks, G, 4] rows, distances, hits and padding, so that a row needs only one cache line
    rank_lines: np.ndarray


class Room(NamedTuple):
    """A tile of rows, and scratch space."""

    table: np.ndarray  # [K, TILE] the outputs of each class
    strip: np.ndarray  # [K, ROWS] those of sixteen rows
    labels: np.ndarray
    rank: np.ndarray  # how many classes rank before the true one
    truth: np.ndarray  # the true class's output
    top: np.ndarray  # [k, TILE] the k largest outputs, in falling order
    total: np.ndarray
    cell: np.ndarray
    flags: np.ndarray
    place: np.ndarray
    terms: np.ndarray
    raised: np.ndarray


@allocator
def new_room(dtype, K, top):
    return Room(
        np.zeros((K, TILE), dtype),
        np.zeros((K, ROWS), dtype),
        np.zeros(TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(TILE, dtype),
        np.zeros((top, TILE), dtype),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(TURNS * TILE, np.uint64),
        np.zeros(2 * TURNS * TILE, np.int64),
        np.zeros(TURNS * TILE, np.float64),
    )


@inline
def _load_rows(values, start, m, table):
    for r in range(m):
        row = values[start + r]
        for k in range(row.size):
            table[k, r] = row[k]


@inline
def close_gaps(table, labels, status, start, m):
    """Keep the good rows of a tile; returns how many there are."""
    kept = 0
    for r in range(m):
        if status[start + r] == 0:
            labels[kept] = labels[r]
            if kept < r:
                for k in range(table.shape[0]):
                    table[k, kept] = table[k, r]
            kept += 1
    return kept


@inline
def _add_event(outputs, hits, m, cell, terms, lines):
    """Count rows, and those that hit, by the cell of an event's probability, and sum the distances
    from the cell's middle."""
    G = lines.shape[0]
    for r in range(TILE):
        p = outputs[r]
        g, i = cell_of(p, G), np.uint64(4 * r)
        cell[r] = g
        terms[i] = 1
        terms[i + np.uint64(1)] = offset_tick(p, g, G)
        terms[i + np.uint64(2)] = hits[r]
        terms[i + np.uint64(3)] = 0
    for r in range(m):
        add_four(lines, 4 * cell[r], terms, 4 * r)


@inline
def _add_some_classes(room, first, count, m, lines):
    """The same as _add_event for some classes, lines [K, G, 2]. Rows of one class often share the
    lowest cell, where an addition would wait for the one before; so the classes alternate."""
    G, place, terms = lines.shape[1], room.place, room.terms
    for j in range(count):
        row, places = room.table[first + j], place[j * TILE : (j + 1) * TILE]
        pairs = terms[2 * j * TILE : 2 * (j + 1) * TILE]
        base = (first + j) * G
        for r in range(TILE):
            p = np.float64(row[r])
            p = p if p > 0.0 else 0.0
            g = cell_of(p, G)
            places[r] = np.uint64(2 * (base + g))
            pairs[np.uint64(2 * r)] = 1
            pairs[np.uint64(2 * r + 1)] = offset_tick(p, g, G)
    if count == TURNS:
        for r in range(m):
            for j in range(TURNS):
                add_two(lines, place[j * TILE + r], terms, 2 * (j * TILE + r))
    else:
        for r in range(m):
            for j in range(count):
                add_two(lines, place[j * TILE + r], terms, 2 * (j * TILE + r))


@inline
def find_largest(table, top):
    """The largest values of each row, in falling order along `top`, by insertion."""
    if top.shape[0] == 10:
        for r in range(0, TILE, ROWS):
            largest_ten(table, r, top, r)
        return
    for j in range(top.shape[0]):
        for r in range(TILE):
            top[j, r] = -1.0
    for k in range(table.shape[0]):
        sinking = top[top.shape[0] - 1]  # the last of the largest drops out anyway
        row = table[k]
        for r in range(TILE):
            a, b = sinking[r], row[r]
            sinking[r] = a if a > b else b
        for j in range(top.shape[0] - 1, 0, -1):
            low, high = top[j], top[j - 1]
            for r in range(TILE):
                a, b = high[r], low[r]
                high[r] = a if a > b else b
                low[r] = b if a > b else a


@inline
def _ahead(table, labels, truth, rank):
    """How many classes rank before the true one; ties go to the lower index."""
    for r in range(TILE):
        rank[r] = 0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            p, q = row[r], truth[r]
            rank[r] += np.int64((p > q) | ((p == q) & (k < labels[r])))


@inline
def add_classes(room, m, grids):
    """Add the first m rows of a tile to the grids of classes, except for the hits."""
    lines = grids.lines
    for k in range(0, lines.shape[0], TURNS):
        _add_some_classes(room, k, min(TURNS, lines.shape[0] - k), m, lines)


@inline
def add_hits(room, m, grids):
    """Count the first m rows of a tile by true class and the probability of that class."""
    G, cell, hits = grids.hits.shape[1], room.cell, grids.hits.reshape(grids.hits.size)
    for r in range(TILE):
        cell[r] = room.labels[r] * G + cell_of(np.float64(room.truth[r]), G)
    for r in range(m):
        hits[np.uint64(cell[r])] += 1


@inline
def add_ranks(room, m, grids):
    """Add the first m rows of a tile, whose ranks and largest outputs are known, to the grids of
    ranks."""
    rank, top, hits, total = room.rank, room.top, room.flags, room.total
    for r in range(TILE):
        total[r] = 0.0
    i = 0
    for j in range(top.shape[0]):
        row = top[j]
        for r in range(TILE):
            total[r] += np.float64(row[r])
        if j + 1 == grids.ranks[i]:
            for r in range(TILE):
                hits[r] = rank[r] <= j
            _add_event(total, hits, m, room.cell, room.terms, grids.rank_lines[i])
            i += 1


@twin(lambda values, *_: values)
@kernel
def tally_events(values, addresses, like, y, status, grids):
    """Add the good rows of probabilities, in `values` [n, K] or in columns of the type of `like`;
    the other of `values` and `addresses` is None."""
    K = like.shape[1]
    room = new_room(like.dtype, K, grids.ranks[-1] if grids.ranks.size else 1)
    table, labels, truth = room.table, room.labels, room.truth
    for start in range(0, y.size, TILE):
        m = min(TILE, y.size - start)
        if values is not None:
            _load_rows(values, start, m, table)
        load_columns(addresses, start, m, like, table)
        odd = 0
        for r in range(m):
            labels[r] = y[start + r]
            odd += status[start + r] != 0
        if odd > 0:
            m = close_gaps(table, labels, status, start, m)
        for r in range(m):
            truth[r] = table[labels[r], r]
        if grids.lines.shape[0] > 0:
            add_classes(room, m, grids)
            add_hits(room, m, grids)
        if grids.ranks.size > 0:
            _ahead(table, labels, truth, room.rank)
            find_largest(table, room.top)
            add_ranks(room, m, grids)


@kernel
def probabilities(values, log_probs, out):
    """Turn rows of logits, or of log-probabilities, into probabilities. A single column is the
    logit of the second class. Log-probabilities are not normalised."""
    K = out.shape[1]
    single = values.shape[1] < K
    for i in range(values.shape[0]):
        row, given = out[i], values[i]
        best = 0.0 if single else np.float64(given[0])
        for k in range(K):
            v = (0.0 if k == 0 else np.float64(given[0])) if single else np.float64(given[k])
            row[k] = v
            best = v if v > best else best
        if log_probs:
            best = 0.0
        total = 0.0
        for k in range(K):
            row[k] = exp(row[k] - best)
            total += row[k]
        if not log_probs:
            for k in range(K):
                row[k] /= total
