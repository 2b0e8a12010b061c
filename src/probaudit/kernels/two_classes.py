"""A plain tile of two classes: everything about a row, and everything it adds, in one loop.

The result equals that of the stages in `narrow`, to the last bit. The loop applies to whole tiles
of good rows without weights whose log losses are not too large for the running sums. It leaves any
other tile alone.
"""

from __future__ import annotations

import numpy as np

from .compiling import inline
from .elementary import log
from .fixed_point import ROUND_BITS, raised_number, raised_tick, tick
from .grid_cells import scale_of
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
def _row_ticks(score, brier):
    """Raised ticks of a row's log loss (high and low part), its square, the Brier score and its
    square."""
    high = raised_tick(score, 2.0**LOG_HIGH)
    low = raised_tick(score - raised_number(high) * 2.0**-LOG_HIGH, 2.0**LOG_LOW)
    square = raised_tick(score * score, 2.0**LOG_SQUARE)
    return (
        high,
        low,
        square,
        raised_tick(brier, 2.0**BRIER),
        raised_tick(brier * brier, 2.0**BRIER_SQUARE),
    )


@inline
def _decision(top_1, confidence, reject_cost):
    """A row's decision, as a one in its counter."""
    accepted = DECIDED[1] if top_1 else DECIDED[0]
    rejected = DECIDED[3] if top_1 else DECIDED[2]
    return rejected if 1.0 - confidence > reject_cost else accepted


@inline
def _count_decisions(decided, decided_1, decisions):
    """Add the counters of all rows, and of those of class 1; how many rows are of class 1."""
    ones = np.int64(0)
    for column in range(4):
        of_1 = (decided_1 >> (16 * column)) & 0xFFFF
        decisions[0, column] += ((decided >> (16 * column)) & 0xFFFF) - of_1
        decisions[1, column] += of_1
        ones += of_1
    return ones


@inline
def _add_class_sums(both, second, ones, run):
    """Add the sums of _row_ticks over all rows, and over the `ones` rows of class 1."""
    raised_0, raised_1 = (TILE - ones) * ROUND_BITS, ones * ROUND_BITS
    for j in range(4):
        run.classes[0, j] += both[j] - second[j] - raised_0
        run.classes[1, j] += second[j] - raised_1
    run.squares[0] += both[4] - second[4] - raised_0
    run.squares[1] += second[4] - raised_1


@inline
def add_plain_tile(first, second, y, tile, target, options):
    """Add TILE rows, given the probabilities of the two classes and the labels, if they are plain;
    returns whether they were."""
    t, run, line, terms = target.tallies, target.running, tile.line, tile.terms
    tolerance, G = options.tolerance, t.cells.shape[0]
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

        a, b, c, d, e = _row_ticks(score, brier)
        a0, b0, c0, d0, e0 = a0 + a, b0 + b, c0 + c, d0 + d, e0 + e
        a1, b1, c1 = a1 + (a if is_1 else 0), b1 + (b if is_1 else 0), c1 + (c if is_1 else 0)
        d1, e1 = d1 + (d if is_1 else 0), e1 + (e if is_1 else 0)
        decision = _decision(top_1, confidence, options.reject_cost)
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
    ones = _count_decisions(decided, decided_1, t.decisions)
    _add_class_sums((a0, b0, c0, d0, e0), (a1, b1, c1, d1, e1), ones, run)
    run.outputs[0] += out_0 - TILE * ROUND_BITS
    run.outputs[1] += out_1 - TILE * ROUND_BITS
    if moved & (t.class_cells.size > 0):
        for r in range(TILE):
            tile.argmax[r] = np.uint32(second[r] > first[r])
        correct_class_cells(first, second, y, tile, TILE, t)
    return True
