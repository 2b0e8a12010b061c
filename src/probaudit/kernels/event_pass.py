"""All events of a row in one look: each class, and whether the true class is among the most probable."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp
from .fixed_point import number, tick
from .gridding import OFFSET_SCALE
from .narrow import load_columns
from .tallies import cell_of
from .vectors import add_two, largest_ten

TILE = 64  # rows whose outputs stay in the nearest cache
TURNS = 4  # classes whose rows are added in turn


@inline
def _load_rows(values, start, m, table):
    for r in range(m):
        row = values[start + r]
        for k in range(row.size):
            table[k, r] = row[k]


@inline
def _close_gaps(table, labels, status, start, m):
    """Keep the good rows; how many there are."""
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
def _add_event(outputs, m, cell, offset, lines):
    """Count rows by the cell of an event's probability, and sum the distances from the cell's middle; lines [G, 2]."""
    G, step = lines.shape[0], 1.0 / lines.shape[0]
    for r in range(TILE):
        p = np.float64(outputs[r])
        p = p if p > 0.0 else 0.0
        g = cell_of(p, G)
        cell[r] = g
        offset[r] = tick(p - (number(g) + 0.5) * step, OFFSET_SCALE)
    for r in range(m):
        line = lines[np.uint64(cell[r])]
        line[0] += 1
        line[1] += offset[r]


@inline
def _add_classes(table, first, count, m, place, terms, lines):
    """As _add_event for some classes, lines [K, G, 2]. Rows of one class often share a cell, the lowest, and an addition there
    would wait for the one before; so the classes take turns."""
    G, step = lines.shape[1], 1.0 / lines.shape[1]
    for j in range(count):
        row, places, pairs = table[first + j], place[j * TILE : (j + 1) * TILE], terms[2 * j * TILE : 2 * (j + 1) * TILE]
        base = (first + j) * G
        for r in range(TILE):
            p = np.float64(row[r])
            p = p if p > 0.0 else 0.0
            g = cell_of(p, G)
            places[r] = np.uint64(2 * (base + g))
            pairs[np.uint64(2 * r)] = 1
            pairs[np.uint64(2 * r + 1)] = tick(p - (number(g) + 0.5) * step, OFFSET_SCALE)
    if count == TURNS:
        for r in range(m):
            for j in range(TURNS):
                add_two(lines, place[j * TILE + r], terms, 2 * (j * TILE + r))
    else:
        for r in range(m):
            for j in range(count):
                add_two(lines, place[j * TILE + r], terms, 2 * (j * TILE + r))


@inline
def _largest(table, top):
    """The largest values of each row, in order: each value in turn sinks to its place. A line of `top` for each place."""
    for j in range(top.shape[0]):
        for r in range(TILE):
            top[j, r] = -1.0
    for k in range(table.shape[0]):
        sinking = top[top.shape[0] - 1]  # the last place is lost anyway
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
    """How many classes stand before the true one; of equal values the lower index stands first."""
    for r in range(TILE):
        rank[r] = 0
    for k in range(table.shape[0]):
        row = table[k]
        for r in range(TILE):
            p, q = row[r], truth[r]
            rank[r] += np.int64((p > q) | ((p == q) & (k < labels[r])))


@kernel
def tally_events(values, begin, y, status, lines, hits, ranks, rank_lines, rank_hits, columns):
    """Add good rows of probabilities: [n, K], or [K, n] from `begin` on if `columns` is not None.

    lines [K, G, 2] and hits [K, G], of no classes if these are not wanted; for each of `ranks` rank_lines and rank_hits.
    """
    K = values.shape[1] if columns is None else values.shape[0]
    table, top = np.zeros((K, TILE), values.dtype), np.zeros((ranks[-1] if ranks.size else 1, TILE), values.dtype)
    labels, rank = np.zeros(TILE, np.int64), np.zeros(TILE, np.int64)
    cell, offset, total, truth = (
        np.zeros(TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(TILE),
        np.zeros(TILE, values.dtype),
    )
    place, terms = np.zeros(TURNS * TILE, np.uint64), np.zeros(2 * TURNS * TILE, np.int64)
    for start in range(0, y.size, TILE):
        m = min(TILE, y.size - start)
        if columns is None:
            _load_rows(values, start, m, table)
        else:
            load_columns(values, begin + start, m, table)
        odd = 0
        for r in range(m):
            labels[r] = y[start + r]
            odd += status[start + r] != 0
        if odd > 0:
            m = _close_gaps(table, labels, status, start, m)
        for k in range(0, lines.shape[0], TURNS):
            _add_classes(table, k, min(TURNS, lines.shape[0] - k), m, place, terms, lines)
        for r in range(m):
            truth[r] = table[labels[r], r]
            if lines.shape[0] > 0:
                g = cell_of(max(np.float64(truth[r]), 0.0), lines.shape[1])
                hits[labels[r], g] += 1
        if ranks.size > 0:
            _ahead(table, labels, truth, rank)
            if top.shape[0] == 10:
                for r in range(0, TILE, 16):
                    largest_ten(table, r, K, TILE, top)
            else:
                _largest(table, top)
            for r in range(TILE):
                total[r] = 0.0
            i = 0
            for j in range(top.shape[0]):
                row = top[j]
                for r in range(TILE):
                    total[r] += np.float64(row[r])
                if j + 1 == ranks[i]:
                    _add_event(total, m, cell, offset, rank_lines[i])
                    for r in range(m):
                        rank_hits[i, cell[r]] += np.int64(rank[r] <= j)
                    i += 1


@kernel
def probabilities(values, log_probs, out):
    """Rows of logits, or of log-probabilities as they are, as probabilities; of one column, the logit of the second class."""
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
