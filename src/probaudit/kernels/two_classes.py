"""A plain tile of two classes: all that is known of a row, and all that it adds, in one loop.

It does what `narrow` does in stages, to the last bit, for a whole tile of good rows without weights
and without a log score too large for the running sums. Any other tile it leaves alone.
"""

from __future__ import annotations

import numpy as np

from .compiling import inline
from .elementary import log
from .fixed_point import ROUND_BITS, raised_number, raised_tick, tick
from .gridding import scale_of
from .tallies import (
    BRIER,
    BRIER_SQUARE,
    CELL_BRIER,
    CELL_LOG,
    CELL_OFFSET,
    LARGE,
    LOG_HIGH,
    LOG_LOW,
    LOG_SQUARE,
    OUTPUT,
    TILE,
    beside,
    correct_class_cells,
)
from .vectors import add_four

HIT = np.int64(1 + 2**32)
# a counter of 16 bits for each decision
DECIDED = (np.int64(1), np.int64(2**16), np.int64(2**32), np.int64(2**48))


@inline
def add_plain_tile(first, second, y, tile, run, t, tolerance, reject):
    """Add TILE rows, with these probabilities of the two classes and these labels, if they are
    plain; whether they were."""
    line, terms = tile.line, tile.terms
    G = t.cells.shape[0]
    apart, step, last = np.int64(4 * (run.cells.shape[0] - G)), 1.0 / scale_of(G), G - 1.0
    odd, moved, signs, labels = False, False, np.int64(0), np.int64(0)
    decided, decided_1, out_0, out_1 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    a0, b0, c0, d0, e0 = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    a1, b1, c1, d1, e1 = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for r in range(TILE):
        p, q, label = np.float64(first[r]), np.float64(second[r]), np.int64(y[r])
        is_1, top_1 = label == 1, q > p
        truth, other = (q if is_1 else p), (p if is_1 else q)
        confidence, rest = (q if top_1 else p), (p if top_1 else q)
        gap = 1.0 - truth
        brier = other * other + gap * gap
        score = -log(truth)
        signs |= p.view(np.int64) | q.view(np.int64)
        labels |= label
        odd |= not (abs((p + q) - 1.0) <= tolerance) & (score < LARGE)
        out_0 += raised_tick(p, 2.0**OUTPUT)
        out_1 += raised_tick(q, 2.0**OUTPUT)

        high = raised_tick(score, 2.0**LOG_HIGH)
        low = raised_tick(score - raised_number(high) * 2.0**-LOG_HIGH, 2.0**LOG_LOW)
        square = raised_tick(score * score, 2.0**LOG_SQUARE)
        loss = raised_tick(brier, 2.0**BRIER)
        loss_square = raised_tick(brier * brier, 2.0**BRIER_SQUARE)
        a0, b0, c0, d0, e0 = a0 + high, b0 + low, c0 + square, d0 + loss, e0 + loss_square
        a1, b1, c1 = (
            a1 + (high if is_1 else 0),
            b1 + (low if is_1 else 0),
            c1 + (square if is_1 else 0),
        )
        d1, e1 = d1 + (loss if is_1 else 0), e1 + (loss_square if is_1 else 0)

        accepted, rejected = (
            (DECIDED[1] if top_1 else DECIDED[0]),
            (DECIDED[3] if top_1 else DECIDED[2]),
        )
        decision = rejected if 1.0 - confidence > reject else accepted
        decided += decision
        decided_1 += decision if is_1 else 0

        scaled = confidence * scale_of(G)
        cell = min(np.floor(scaled), last)
        moved |= beside(rest, cell, G)
        line[r] = np.uint64(tick(cell, 4.0) + (apart if top_1 else 0))
        i = np.uint64(4 * r)
        terms[i] = HIT if is_1 == top_1 else 1
        terms[i + np.uint64(1)] = raised_tick(confidence - (cell + 0.5) * step, 2.0**CELL_OFFSET)
        terms[i + np.uint64(2)] = raised_tick(score, 2.0**CELL_LOG)
        terms[i + np.uint64(3)] = raised_tick(brier, 2.0**CELL_BRIER)
    if odd | (signs < 0) | (labels < 0) | (labels > 1):
        return False

    for r in range(TILE):
        add_four(run.cells, line[r], terms, 4 * r)
    ones = np.int64(0)
    for column in range(4):
        of_1 = (decided_1 >> (16 * column)) & 0xFFFF
        t.decisions[0, column] += ((decided >> (16 * column)) & 0xFFFF) - of_1
        t.decisions[1, column] += of_1
        ones += of_1
    raised_0, raised_1 = (TILE - ones) * ROUND_BITS, ones * ROUND_BITS
    for j, both, of_1 in ((0, a0, a1), (1, b0, b1), (2, c0, c1), (3, d0, d1)):
        run.classes[0, j] += both - of_1 - raised_0
        run.classes[1, j] += of_1 - raised_1
    run.squares[0] += e0 - e1 - raised_0
    run.squares[1] += e1 - raised_1
    run.outputs[0] += out_0 - TILE * ROUND_BITS
    run.outputs[1] += out_1 - TILE * ROUND_BITS
    if moved & (t.class_cells.size > 0):
        for r in range(TILE):
            tile.argmax[r] = np.uint32(second[r] > first[r])
        correct_class_cells(first, second, y, tile.argmax, tile.rank, TILE, t)
    return True
