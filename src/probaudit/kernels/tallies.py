"""What a pass counts and sums, and how a tile of rows is added to it, or one state to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import allocator, inline, kernel
from .fixed_point import (
    PART_BITS,
    PART_MASK,
    ROUND_BITS,
    add,
    add_number,
    number,
    raised_tick,
    tick,
)
from .grid_cells import SLACK, scale_of
from .twins import twin
from .vectors import add_four

TILE = 128
FLUSH = 2048  # rows after which the sums of a call move into the state
CALL = 2**20  # rows that one call may add, after which the sums of cells move into the state

# Bits after the point of each running sum. The largest term, times FLUSH (classes) or CALL (cells),
# is below 2^62.
LOG_HIGH, LOG_LOW, LOG_SQUARE, BRIER, BRIER_SQUARE, OUTPUT = 20, 62, 43, 49, 48, 50
CELL_OFFSET, CELL_LOG, CELL_BRIER = 56, 38, 40
SLACK_TICKS = np.int64(SLACK * 2**CELL_OFFSET)
LARGE = 16.0  # log losses from here on are summed apart, so that the others can have more bits


class Tallies(NamedTuple):
    """The arrays of a state, all int64: K classes, G cells of confidence; `pair` as in fixed_point.

    The weighted arrays are empty without weights, `decisions` if K is too large for a dense table.
    """

    ranks: np.ndarray  # [K] rows by the rank of their true class, from 0
    infinite: np.ndarray  # [K] rows of the class that gave it probability zero
    # [K, 2K] true class x (argmax where accepted, then argmax where rejected)
    decisions: np.ndarray
    sums: np.ndarray  # [K, 8] pairs: w log, (w log)^2, w brier, (w brier)^2
    outputs: np.ndarray  # [K, 2] pair: w p_k over all rows
    cells: np.ndarray  # [G, 9] rows, hits, infinite; pairs: w (conf - middle), w log, w brier
    weight_ranks: np.ndarray  # [K, 2] pair: w
    weight_decisions: np.ndarray  # [2 K^2, 4] pairs: w, w^2
    weight_sums: np.ndarray  # [K, 8] pairs: w, w^2, w^2 log, w^2 brier
    weight_cells: np.ndarray  # [G, 4] pairs: w, w hit
    # [2 G, 4], if wanted, by the probability p of each of two classes: rows, hits; pair: p - middle
    class_cells: np.ndarray


class Tile(NamedTuple):
    """What is known about each row of a tile, an array per quantity."""

    table: np.ndarray  # [K, TILE] the outputs of each class
    labels: np.ndarray
    weights: np.ndarray
    confidence: np.ndarray
    best: np.ndarray  # the largest output
    argmax: np.ndarray
    rank: np.ndarray
    truth: np.ndarray  # the true class's probability (or logit)
    total: np.ndarray
    logs: np.ndarray
    brier: np.ndarray
    cell: np.ndarray
    code: np.ndarray  # column of `decisions`
    line: np.ndarray  # where the row's line of Running.cells starts
    terms: np.ndarray  # [4 TILE] what each row adds to a line of Running
    squares: np.ndarray  # what each row adds to Running.squares
    outputs: np.ndarray  # [K] what all rows add to Running.outputs


class Running(NamedTuple):
    """Sums that have not yet moved into the state. Only those of cells stay from one call to the
    next."""

    classes: np.ndarray  # [K, 4] ticks of log (high, low), log^2, brier
    squares: np.ndarray  # [K] ticks of brier^2
    outputs: np.ndarray  # [K]
    # [G, 4] rows + 2^32 hits; raised ticks of offset, log, brier; [2 G, 4], one grid for each
    # argmax, if class_cells are wanted
    cells: np.ndarray
    # [4, K] used in turn: most rows have rank 0, and one counter would wait for itself
    ranks: np.ndarray


class Target(NamedTuple):
    """What one call fills."""

    tallies: Tallies
    running: Running
    status: np.ndarray  # [n] the rule that each row breaks, or GOOD
    # [n] true class and decision of the rows that count, if there is no dense table of them
    codes: np.ndarray


@allocator
def new_tile(dtype, K):
    return Tile(
        np.zeros((K, TILE), dtype),
        np.zeros(TILE, np.uint32),
        np.ones(TILE, np.float64),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, dtype),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, dtype),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.uint64),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint64),
        np.zeros(4 * TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(K, np.int64),
    )


def new_running(K, lines):
    return Running(
        np.zeros((K, 4), np.int64),
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
        np.zeros((lines, 4), np.int64),
        np.zeros((4, K), np.int64),
    )


@inline
def _any_large(logs):
    """Whether a log loss is too large for the running sums, or infinite."""
    large = np.int64(0)
    for r in range(TILE):
        large += logs[r] >= LARGE
    return large > 0


@inline
def _set_infinite_apart(tile, m, t):
    """Count rows whose true class had probability zero; their log loss enters no sum."""
    for r in range(m):
        if tile.logs[r] == np.inf:
            t.infinite[tile.labels[r]] += 1
            t.cells[tile.cell[r], 2] += 1
            tile.logs[r] = 0.0


@inline
def _set_large_apart(tile, m, t):
    """Sum the large log losses with full range, and keep them out of the running sums."""
    for r in range(m):
        s = tile.logs[r]
        if s >= LARGE:
            add_number(t.sums, tile.labels[r], 0, s)
            add_number(t.sums, tile.labels[r], 2, s * s)
            add_number(t.cells, tile.cell[r], 5, s)
            tile.logs[r] = 0.0


@inline
def _weigh(tile, m, t, K):
    """The sums that only weighted rows need; afterwards logs and brier hold w log and w brier."""
    for r in range(m):
        w, y, g = tile.weights[r], tile.labels[r], tile.cell[r]
        hit = tile.argmax[r] == y
        add_number(t.weight_sums, y, 0, w)
        add_number(t.weight_sums, y, 2, w * w)
        add_number(t.weight_sums, y, 4, w * (w * tile.logs[r]))
        add_number(t.weight_sums, y, 6, w * (w * tile.brier[r]))
        add_number(t.weight_cells, g, 0, w)
        add_number(t.weight_cells, g, 2, w if hit else 0.0)
        if K > 2:
            add_number(t.weight_ranks, tile.rank[r], 0, w)
        if t.decisions.size > 0:
            index = np.int64(y) * 2 * K + tile.code[r]
            add_number(t.weight_decisions, index, 0, w)
            add_number(t.weight_decisions, index, 2, w * w)
    for r in range(TILE):
        tile.logs[r] *= tile.weights[r]
        tile.brier[r] *= tile.weights[r]


@inline
def cell_of(p, G):
    """The cell of a probability (see grid_cells.SLACK); one that rounds to more than 1 belongs to
    the last."""
    scaled = p * scale_of(G)
    g = tick(scaled, 1.0)
    g -= np.int64(number(g) > scaled)
    return min(max(g, 0), G - 1)


@inline
def _place(tile, K, G, reject_cost):
    """The cell of each row's confidence, and its column among the decisions."""
    cell, code = tile.cell, tile.code
    for r in range(TILE):
        cell[r] = cell_of(tile.confidence[r], G)
    for r in range(TILE):
        rejected = 1.0 - tile.confidence[r] > reject_cost
        code[r] = tile.argmax[r] + np.uint32(rejected) * np.uint32(K)


@inline
def _class_ticks(log, brier):
    """What a row adds to Running.classes."""
    high = tick(log, 2.0**LOG_HIGH)
    low = tick(log - number(high) * 2.0**-LOG_HIGH, 2.0**LOG_LOW)
    return high, low, tick(log * log, 2.0**LOG_SQUARE), tick(brier, 2.0**BRIER)


@inline
def _scatter_classes(tile, m, run):
    """Compute terms first, in vector loops, so that scattering them is only integer addition."""
    logs, brier, terms, squares = tile.logs, tile.brier, tile.terms, tile.squares
    for r in range(TILE):
        i = np.uint64(4 * r)
        terms[i], terms[i + np.uint64(1)], terms[i + np.uint64(2)], terms[i + np.uint64(3)] = (
            _class_ticks(logs[r], brier[r])
        )
    for r in range(TILE):
        squares[r] = tick(brier[r] * brier[r], 2.0**BRIER_SQUARE)
    for r in range(m):
        y = np.int64(tile.labels[r])
        add_four(run.classes, 4 * y, terms, 4 * r)
        run.squares[y] += squares[r]


@inline
def _reduce_two_classes(tile, run):
    """The same as _scatter_classes for K = 2, as vector sums. Rows beyond the tile's size have
    ticks of zero."""
    logs, brier, labels = tile.logs, tile.brier, tile.labels
    a0, b0, c0, d0, e0 = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    a1, b1, c1, d1, e1 = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for r in range(TILE):
        a, b, c, d = _class_ticks(logs[r], brier[r])
        e = tick(brier[r] * brier[r], 2.0**BRIER_SQUARE)
        a0, b0, c0, d0, e0 = a0 + a, b0 + b, c0 + c, d0 + d, e0 + e
        mask = -np.int64(labels[r])
        a1 += a & mask
        b1 += b & mask
        c1 += c & mask
        d1 += d & mask
        e1 += e & mask
    for j, both, second in ((0, a0, a1), (1, b0, b1), (2, c0, c1), (3, d0, d1)):
        run.classes[0, j] += both - second
        run.classes[1, j] += second
    run.squares[0] += e0 - e1
    run.squares[1] += e1


@inline
def _scatter_cells(tile, m, cells, G, w):
    """The same as _scatter_classes, for the grid of confidences."""
    confidence, logs, brier, weights = tile.confidence, tile.logs, tile.brier, tile.weights
    cell, argmax, labels, terms = tile.cell, tile.argmax, tile.labels, tile.terms
    step = 1.0 / scale_of(G)
    apart = np.uint64(cells.shape[0] - G)
    for r in range(TILE):
        middle = (number(np.int64(cell[r])) + 0.5) * step
        offset = confidence[r] - middle
        if w is not None:
            offset *= weights[r]
        i = np.uint64(4 * r)
        terms[i] = 1 + (np.int64(argmax[r] == labels[r]) << 32)
        terms[i + np.uint64(1)] = raised_tick(offset, 2.0**CELL_OFFSET)
        terms[i + np.uint64(2)] = raised_tick(logs[r], 2.0**CELL_LOG)
        terms[i + np.uint64(3)] = raised_tick(brier[r], 2.0**CELL_BRIER)
    for r in range(m):
        add_four(cells, 4 * (cell[r] + apart * np.uint64(argmax[r])), terms, 4 * r)


@inline
def _count_two_classes(tile, m, decisions):
    """The decisions for K = 2, as vector sums of a word that holds a counter of 16 bits for each
    column."""
    labels, code = tile.labels, tile.code
    both, second = np.int64(0), np.int64(0)
    for r in range(m):
        one = np.int64(1) << np.int64(16 * code[r])
        both += one
        second += one & -np.int64(labels[r])
    for column in range(4):
        of_second = (second >> (16 * column)) & 0xFFFF
        decisions[0, column] += ((both >> (16 * column)) & 0xFFFF) - of_second
        decisions[1, column] += of_second


@inline
def _add_decisions(tile, m, t, codes, filled):
    """Count decisions by true class, or list them if the table would be too large."""
    labels, code, K = tile.labels, tile.code, t.ranks.size
    if t.decisions.size == 0:
        for r in range(m):
            codes[filled + r] = np.int64(labels[r]) * 2 * K + code[r]
    elif K == 2:
        _count_two_classes(tile, m, t.decisions)
    else:
        for r in range(m):
            t.decisions[labels[r], code[r]] += 1


@inline
def add_tile(tile, m, target, filled, reject_cost, w):
    """Add the first m rows of a tile, all good, with known log losses and Brier scores, after
    `filled` other rows. They are weighted unless `w` is None."""
    t, run = target.tallies, target.running
    K, G = t.ranks.size, t.cells.shape[0]
    for r in range(m, TILE):
        tile.logs[r] = 0.0
        tile.brier[r] = 0.0
    _place(tile, K, G, reject_cost)
    if _any_large(tile.logs):
        _set_infinite_apart(tile, m, t)
    if w is not None:
        _weigh(tile, m, t, K)
    if _any_large(tile.logs):
        _set_large_apart(tile, m, t)
    _scatter_cells(tile, m, run.cells, G, w)
    _add_decisions(tile, m, t, target.codes, filled)
    if K == 2:
        _reduce_two_classes(tile, run)
    else:
        _scatter_classes(tile, m, run)
        for r in range(m):
            run.ranks[r & 3, tile.rank[r]] += 1


@inline
def flush_classes(run, t):
    """Move the sums of at most FLUSH rows into the state."""
    for k in range(t.ranks.size):
        line = run.classes[k]
        add(t.sums, k, 0, line[0], LOG_HIGH)
        add(t.sums, k, 0, line[1], LOG_LOW)
        add(t.sums, k, 2, line[2], LOG_SQUARE)
        add(t.sums, k, 4, line[3], BRIER)
        add(t.sums, k, 6, run.squares[k], BRIER_SQUARE)
        add(t.outputs, k, 0, run.outputs[k], OUTPUT)
        line[:] = 0
        run.squares[k] = 0
        run.outputs[k] = 0
        for i in range(4):
            t.ranks[k] += run.ranks[i, k]
            run.ranks[i, k] = 0


@inline
def beside(rest, cell, G):
    """Whether the probability of the less probable of two classes lies in another cell than the
    one opposite to that of the other."""
    scaled, opposite = rest * scale_of(G), (G - 1.0) - cell
    return not (scaled >= opposite) & (scaled < opposite + 1.0)


@inline
def correct_class_cells(first, second, labels, tile, m, t):
    """Correct the grids of two classes. flush_cells assumes that the probability of the less
    probable class is 1 minus the other. Among m rows, those whose own probability lies in another
    cell, by rounding or at an edge, are moved there."""
    G, argmax, moved = t.cells.shape[0], tile.argmax, tile.rank  # two classes do not use the rank
    for r in range(TILE):
        p, q, top_1 = np.float64(first[r]), np.float64(second[r]), argmax[r] == np.uint32(1)
        confidence, rest = (q if top_1 else p), (p if top_1 else q)
        moved[r] = beside(rest, number(cell_of(confidence, G)), G)
    step = 1.0 / scale_of(G)
    for r in range(m):
        if not moved[r]:
            continue
        confidence, rest = (
            np.float64(max(first[r], second[r])),
            np.float64(min(first[r], second[r])),
        )
        cell, actual = cell_of(confidence, G), cell_of(rest, G)
        supposed, side = G - 1 - cell, 1 - np.int64(argmax[r])
        if supposed != actual:
            hit = np.int64(labels[r] == side)
            lines = t.class_cells[side * G : (side + 1) * G]
            lines[supposed, 0] -= 1
            lines[supposed, 1] -= hit
            offset = tick(confidence - (number(cell) + 0.5) * step, 2.0**CELL_OFFSET)
            add(lines, supposed, 2, offset - SLACK_TICKS, CELL_OFFSET)
            lines[actual, 0] += 1
            lines[actual, 1] += hit
            offset = tick(max(rest, 0.0) - (actual + 0.5) * step, 2.0**CELL_OFFSET)
            add(lines, actual, 2, offset, CELL_OFFSET)


@inline
def _flush_class_cells(line, g, argmax, class_cells):
    """Of two classes, the one with probability c is in cell g. The other, with 1 - c, is in the
    opposite cell, as far below its middle as c is above that of g, except for the slack."""
    rows, hits, G = line[0] & 0xFFFFFFFF, line[0] >> 32, class_cells.shape[0] // 2
    here, there = argmax * G + g, (1 - argmax) * G + G - 1 - g
    class_cells[here, 0] += rows
    class_cells[here, 1] += hits
    add(class_cells, here, 2, line[1], CELL_OFFSET)
    class_cells[there, 0] += rows
    class_cells[there, 1] += rows - hits
    add(class_cells, there, 2, rows * SLACK_TICKS - line[1], CELL_OFFSET)


@twin(lambda run, _: run.outputs)
@kernel
def flush_cells(run, t):
    """Move the cells of at most CALL rows into the state."""
    G = t.cells.shape[0]
    for i in range(run.cells.shape[0]):
        line, g = run.cells[i], i % G
        if line[0] != 0:
            rows = line[0] & 0xFFFFFFFF
            for j in range(1, 4):
                line[j] -= rows * ROUND_BITS
            t.cells[g, 0] += rows
            t.cells[g, 1] += line[0] >> 32
            add(t.cells, g, 3, line[1], CELL_OFFSET)
            add(t.cells, g, 5, line[2], CELL_LOG)
            add(t.cells, g, 7, line[3], CELL_BRIER)
            if run.cells.shape[0] > G:
                _flush_class_cells(line, g, i // G, t.class_cells)
            line[:] = 0


@twin(lambda target, *_: target[0])
@kernel
def merge(target, other, plain, sign):
    """target += sign * other for arrays [rows, columns]: first `plain` columns of integers, then
    pairs, which become canonical again."""
    for r in range(target.shape[0]):
        for c in range(plain):
            target[r, c] += sign * other[r, c]
        for c in range(plain, target.shape[1], 2):
            part = target[r, c + 1] + sign * other[r, c + 1]
            target[r, c] += sign * other[r, c] + (part >> PART_BITS)
            target[r, c + 1] = part & PART_MASK
