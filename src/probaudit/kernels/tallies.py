"""What a pass counts and sums, and how a tile of rows is added to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import inline
from .fixed_point import add, add_number, number, tick

TILE = 256
FLUSH = 2048  # rows after which the sums of a call move into the state
CALL = 2**20  # rows one call may take

# Bits after the point of each running sum. The largest term, times FLUSH (classes) or CALL (cells), is below 2^62.
LOG_HIGH, LOG_LOW, LOG_SQUARE, BRIER, BRIER_SQUARE, OUTPUT = 20, 62, 39, 49, 47, 50
CELL_OFFSET, CELL_LOG, CELL_BRIER = 56, 36, 40
LARGE = 64.0  # log scores from here on are summed apart, so that the others can have more bits


class Tallies(NamedTuple):
    """The arrays of a state, all int64: K classes, G cells of confidence; `pair` as in fixed_point.

    The weighted arrays are empty when the rows have no weights, `decisions` when K is too large to be dense.
    """

    ranks: np.ndarray  # [K] rows in which exactly so many classes stood before the true one
    infinite: np.ndarray  # [K] rows of the class whose probability for it was zero
    decisions: np.ndarray  # [K, 2K] true class x (argmax where accepted, then argmax where rejected)
    sums: np.ndarray  # [K, 8] pairs: w log, (w log)^2, w brier, (w brier)^2
    outputs: np.ndarray  # [K, 2] pair: w p_k over all rows
    cells: np.ndarray  # [G, 9] rows, hits, infinite; pairs: w (conf - middle), w log, w brier
    weight_ranks: np.ndarray  # [K, 2] pair: w
    weight_decisions: np.ndarray  # [2 K^2, 4] pairs: w, w^2
    weight_sums: np.ndarray  # [K, 8] pairs: w, w^2, w^2 log, w^2 brier
    weight_cells: np.ndarray  # [G, 4] pairs: w, w hit


class Tile(NamedTuple):
    """What is known of each row of a tile, an array per quantity; `size[0]` rows are in use."""

    size: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    confidence: np.ndarray
    argmax: np.ndarray
    rank: np.ndarray
    truth: np.ndarray  # the true class's probability (or logit)
    total: np.ndarray
    logs: np.ndarray
    brier: np.ndarray


class Running(NamedTuple):
    """Sums of a call that have not yet moved into the state."""

    classes: np.ndarray  # [K, 5] ticks of log (high, low), log^2, brier, brier^2
    outputs: np.ndarray  # [K]
    cells: np.ndarray  # [G, 4] rows + 2^32 hits, offset, log, brier
    ranks: np.ndarray  # [4, K] in turn: most rows have rank 0, and one counter would wait for itself
    ticks: np.ndarray  # [8, TILE] scratch
    cell: np.ndarray  # [TILE]
    code: np.ndarray  # [TILE]


@inline
def new_tile(dtype):
    return Tile(
        np.zeros(1, np.int64),
        np.zeros(TILE, np.uint32),
        np.ones(TILE, np.float64),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, dtype),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.float64),
        np.zeros(TILE, np.float64),
    )


@inline
def new_running(K, G):
    return Running(
        np.zeros((K, 5), np.int64),
        np.zeros(K, np.int64),
        np.zeros((G, 4), np.int64),
        np.zeros((4, K), np.int64),
        np.zeros((9, TILE), np.int64),
        np.zeros(TILE, np.uint64),
        np.zeros(TILE, np.uint32),
    )


@inline
def _set_infinite_apart(tile, cell, t):
    """Count rows whose true class had probability zero; their log score enters no sum."""
    for r in range(tile.size[0]):
        if tile.logs[r] == np.inf:
            t.infinite[tile.labels[r]] += 1
            t.cells[cell[r], 2] += 1
            tile.logs[r] = 0.0


@inline
def _set_large_apart(tile, cell, t):
    """Sum the large log scores with full range, and take them out of the running sums."""
    for r in range(tile.size[0]):
        s = tile.logs[r]
        if s >= LARGE:
            add_number(t.sums, tile.labels[r], 0, s)
            add_number(t.sums, tile.labels[r], 2, s * s)
            add_number(t.cells, cell[r], 5, s)
            tile.logs[r] = 0.0


@inline
def _weigh(tile, cell, t, K, code):
    """The sums that only weighted rows need; afterwards logs and brier hold w log and w brier."""
    for r in range(tile.size[0]):
        w, y, g = tile.weights[r], tile.labels[r], cell[r]
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
            index = np.int64(y) * 2 * K + code[r]
            add_number(t.weight_decisions, index, 0, w)
            add_number(t.weight_decisions, index, 2, w * w)
    for r in range(TILE):
        tile.logs[r] *= tile.weights[r]
        tile.brier[r] *= tile.weights[r]


@inline
def _cells_of(tile, cell, G):
    for r in range(TILE):
        g = tick(tile.confidence[r] * G - 0.5, 1.0)
        cell[r] = min(max(g, 0), G - 1)


@inline
def _codes_of(tile, code, K, reject):
    for r in range(TILE):
        rejected = 1.0 - tile.confidence[r] > reject
        code[r] = tile.argmax[r] + np.uint32(rejected) * np.uint32(K)


@inline
def _ticks(source, target, scale):
    for r in range(TILE):
        target[r] = tick(source[r], scale)


@inline
def _square_ticks(source, target, scale):
    for r in range(TILE):
        target[r] = tick(source[r] * source[r], scale)


@inline
def _log_ticks(source, high, low):
    for r in range(TILE):
        s = source[r]
        h = tick(s, 2.0**LOG_HIGH)
        high[r] = h
        low[r] = tick(s - number(h) * 2.0**-LOG_HIGH, 2.0**LOG_LOW)


@inline
def _offset_ticks(confidence, cell, target, G):
    step = 1.0 / G
    for r in range(TILE):
        middle = (number(np.int64(cell[r])) + 0.5) * step
        target[r] = tick(confidence[r] - middle, 2.0**CELL_OFFSET)


@inline
def _weigh_offsets(tile, cell, target, G):
    step = 1.0 / G
    for r in range(TILE):
        middle = (number(np.int64(cell[r])) + 0.5) * step
        target[r] = tick((tile.confidence[r] - middle) * tile.weights[r], 2.0**CELL_OFFSET)


@inline
def _split(tile, run, G, w):
    """The ticks of every term, as vector loops, so that scattering them is only integer addition."""
    ticks = run.ticks
    _log_ticks(tile.logs, ticks[0], ticks[1])
    _square_ticks(tile.logs, ticks[2], 2.0**LOG_SQUARE)
    _ticks(tile.brier, ticks[3], 2.0**BRIER)
    _square_ticks(tile.brier, ticks[4], 2.0**BRIER_SQUARE)
    _ticks(tile.logs, ticks[5], 2.0**CELL_LOG)
    _ticks(tile.brier, ticks[6], 2.0**CELL_BRIER)
    if w is None:
        _offset_ticks(tile.confidence, run.cell, ticks[7], G)
    else:
        _weigh_offsets(tile, run.cell, ticks[7], G)
    hits = ticks[8]
    for r in range(TILE):
        hits[r] = 1 + (np.int64(tile.argmax[r] == tile.labels[r]) << 32)


@inline
def _scatter_classes(tile, run):
    a, b, c, d, e = run.ticks[0], run.ticks[1], run.ticks[2], run.ticks[3], run.ticks[4]
    for r in range(tile.size[0]):
        line = run.classes[tile.labels[r]]
        line[0] += a[r]
        line[1] += b[r]
        line[2] += c[r]
        line[3] += d[r]
        line[4] += e[r]


@inline
def _reduce_two_classes(tile, run):
    """As _scatter_classes for K = 2, as masked vector sums. Rows beyond the tile's size have ticks of zero."""
    a, b, c, d, e = run.ticks[0], run.ticks[1], run.ticks[2], run.ticks[3], run.ticks[4]
    labels = tile.labels
    for k in range(2):
        s0, s1, s2, s3, s4 = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for r in range(TILE):
            mask = -np.int64(labels[r] == np.uint32(k))
            s0 += a[r] & mask
            s1 += b[r] & mask
            s2 += c[r] & mask
            s3 += d[r] & mask
            s4 += e[r] & mask
        run.classes[k, 0] += s0
        run.classes[k, 1] += s1
        run.classes[k, 2] += s2
        run.classes[k, 3] += s3
        run.classes[k, 4] += s4


@inline
def _scatter_cells(tile, run):
    hits, offset, logs, brier = run.ticks[8], run.ticks[7], run.ticks[5], run.ticks[6]
    for r in range(tile.size[0]):
        line = run.cells[run.cell[r]]
        line[0] += hits[r]
        line[1] += offset[r]
        line[2] += logs[r]
        line[3] += brier[r]


@inline
def _scatter_decisions(tile, run, t, codes, filled, K):
    if t.decisions.size > 0:
        for r in range(tile.size[0]):
            t.decisions[tile.labels[r], run.code[r]] += 1
    else:
        for r in range(tile.size[0]):
            codes[filled + r] = np.int64(tile.labels[r]) * 2 * K + run.code[r]
    if K > 2:
        for r in range(tile.size[0]):
            run.ranks[r & 3, tile.rank[r]] += 1


@inline
def add_tile(tile, run, t, codes, filled, reject, w):
    """Add a tile of good rows, whose log and Brier scores are known, to the state. `w` only says if they are weighted."""
    K, G = t.ranks.size, t.cells.shape[0]
    m = tile.size[0]
    for r in range(m, TILE):
        tile.logs[r] = 0.0
        tile.brier[r] = 0.0
    _cells_of(tile, run.cell, G)
    _codes_of(tile, run.code, K, reject)
    zeros, large = np.int64(0), np.int64(0)
    for r in range(TILE):
        zeros += tile.logs[r] == np.inf
    if zeros:
        _set_infinite_apart(tile, run.cell, t)
    if w is not None:
        _weigh(tile, run.cell, t, K, run.code)
    for r in range(TILE):
        large += tile.logs[r] >= LARGE
    if large:
        _set_large_apart(tile, run.cell, t)
    _split(tile, run, G, w)
    if K == 2:
        _reduce_two_classes(tile, run)
    else:
        _scatter_classes(tile, run)
    _scatter_cells(tile, run)
    _scatter_decisions(tile, run, t, codes, filled, K)


@inline
def flush_classes(run, t):
    for k in range(t.ranks.size):
        line = run.classes[k]
        add(t.sums, k, 0, line[0], LOG_HIGH)
        add(t.sums, k, 0, line[1], LOG_LOW)
        add(t.sums, k, 2, line[2], LOG_SQUARE)
        add(t.sums, k, 4, line[3], BRIER)
        add(t.sums, k, 6, line[4], BRIER_SQUARE)
        add(t.outputs, k, 0, run.outputs[k], OUTPUT)
        line[:] = 0
        run.outputs[k] = 0
        for i in range(4):
            t.ranks[k] += run.ranks[i, k]
            run.ranks[i, k] = 0


@inline
def flush_cells(run, t):
    for g in range(t.cells.shape[0]):
        line = run.cells[g]
        if line[0] != 0:
            t.cells[g, 0] += line[0] & 0xFFFFFFFF
            t.cells[g, 1] += line[0] >> 32
            add(t.cells, g, 3, line[1], CELL_OFFSET)
            add(t.cells, g, 5, line[2], CELL_LOG)
            add(t.cells, g, 7, line[3], CELL_BRIER)
            line[:] = 0
