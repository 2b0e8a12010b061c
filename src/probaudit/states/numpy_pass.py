"""The pass of `kernels.narrow` in plain numpy, with the same bits, for few rows.

It needs no compiled code: sums are integers, and `exp` and `log` are the same polynomials. A
process with few small passes thus neither compiles nor loads the largest kernels. Tests compare
each with the other.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels import elementary, rules, tallies
from ..kernels.fixed_point import PART_BITS, PART_MASK, ROUND_BITS
from ..kernels.grid_cells import cells_of_one

if TYPE_CHECKING:
    from ..kernels.rules import InputRows, Options
    from ..kernels.tallies import Tallies, Target

FEW_ROWS = 2**12
# Small passes of a process before it uses the kernel. They take about a second: more than loading
# a compiled kernel, and much less than compiling it.
PASSES = 200

Array = np.ndarray


class Turns:
    """Counts the small passes of a process."""

    def __init__(self) -> None:
        self._lock, self._taken = threading.Lock(), 0

    def take(self, kernel: Any, rows: int) -> bool:
        """Whether the next pass is made in numpy: rows are few, the kernel is not in memory, and
        there were not many such passes."""
        if rows > FEW_ROWS or kernel.signatures:
            return False
        with self._lock:
            self._taken += 1
            return self._taken <= PASSES


turns = Turns()


def _polynomial(x: Array, *terms: float) -> Array:
    """By Horner's rule, the highest power first."""
    total = np.full_like(x, terms[0])
    for term in terms[1:]:
        total = total * x + term
    return total


def exp(x: Array) -> Array:
    """`kernels.elementary.exp`, for arrays."""
    bounded = np.where(x > elementary.LOWEST, x, elementary.LOWEST)
    shifted = bounded * elementary.LOG2_E + elementary.ROUND
    k = shifted - elementary.ROUND
    r = (bounded - k * elementary.LN2_HIGH) - k * elementary.LN2_LOW
    q = _polynomial(
        r,
        2.510038549551032e-08,
        2.7620088445409746e-07,
        2.7557268459997064e-06,
        2.4801521295954376e-05,
        0.00019841269863053618,
        0.0013888888917213717,
        0.008333333333330062,
        0.04166666666662413,
        0.16666666666666669,
        0.5000000000000001,
    )
    fraction = 1.0 + (r + r * r * q)
    exponent = (shifted.view(np.int64) - elementary.ROUND_BITS + 1023) << 52
    return np.where(x > elementary.LOWEST, fraction * exponent.view(np.float64), 0.0)


def log(x: Array) -> Array:
    """`kernels.elementary.log`, for arrays; without meaning where x is not positive."""
    tiny = x < elementary.SMALLEST_NORMAL
    scaled = x * np.where(tiny, 18014398509481984.0, 1.0)  # 2^54
    offset = scaled.view(np.int64) - elementary.SQRT_HALF_BITS
    k = offset >> 52
    f = ((offset & elementary.MANTISSA) + elementary.SQRT_HALF_BITS).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    q = _polynomial(
        z,
        0.14616585424888623,
        0.15331710618210773,
        0.18182889455674947,
        0.22222211130259878,
        0.2857142862600327,
        0.39999999999899444,
        0.666666666666667,
    )
    half = 0.5 * f * f
    exponent = (k + elementary.ROUND_BITS).view(np.float64) - elementary.ROUND
    exponent = exponent - np.where(tiny, 54.0, 0.0)
    return exponent * elementary.LN2_HIGH - (
        (half - (s * (half + z * q) + exponent * elementary.LN2_LOW)) - f
    )


def raised_ticks(v: Array, bits: int) -> Array:
    """v 2^bits rounded to integers, plus ROUND_BITS (see kernels.fixed_point)."""
    return (v * 2.0**bits + elementary.ROUND).view(np.int64)


def ticks(v: Array, bits: int) -> Array:
    return raised_ticks(v, bits) - ROUND_BITS


def numbers_of(ticks: Array) -> Array:
    return (ticks + ROUND_BITS).view(np.float64) - elementary.ROUND


def add(pairs: Array, column: int, ticks: Array, bits: int) -> None:
    """Add ticks / 2^bits, one for each row, to pairs[:, column : column + 2]."""
    low = (ticks & ((1 << bits) - 1)) << (PART_BITS - bits)
    part = pairs[:, column + 1] + low
    pairs[:, column] += (ticks >> bits) + (part >> PART_BITS)
    pairs[:, column + 1] = part & PART_MASK


def _sums(index: Array, terms: Array, size: int) -> Array:
    """The sum of the terms of each index, as integers."""
    total = np.zeros(size, np.int64)
    np.add.at(total, index, terms)
    return total


def add_numbers(pairs: Array, index: Array, column: int, v: Array) -> None:
    """Add each v to the pair in its row: to 2^-8 exactly, and the remainder to 2^-58."""
    high = ticks(v, 8)
    low = ticks(v - numbers_of(high) * 2.0**-8, 58)
    add(pairs, column, _sums(index, high, len(pairs)), 8)
    add(pairs, column, _sums(index, low, len(pairs)), 58)


def cells_of(p: Array, G: int) -> Array:
    """The cell of each probability."""
    scaled = p * cells_of_one(G)
    found = ticks(scaled, 0)
    found -= numbers_of(found) > scaled
    return np.clip(found, 0, G - 1)


class _Rows:
    """Rows as columns of float64, one for each class, with labels and weights."""

    def __init__(self, table: Array, labels: Array, weights: Array) -> None:
        self.table, self.labels, self.weights = table, labels, weights

    def kept(self, good: Array) -> _Rows:
        return _Rows(self.table[:, good], self.labels[good], self.weights[good])

    @property
    def truth(self) -> Array:
        return self.table[self.labels, np.arange(len(self.labels))]


def _table(values: Array, options: Options) -> Array:
    """The outputs of each class. A single column belongs to the second of two."""
    table = np.ascontiguousarray(values.T, np.float64)
    if len(table) > 1:
        return table
    rest = 1 - table[0]
    rest[(rest < 0) & (rest >= -options.tolerance)] = 0.0
    first = np.zeros_like(rest) if options.kind >= rules.LOGITS else rest
    return np.stack([first, table[0]])


def _status(rows: _Rows, options: Options) -> Array:
    """`kernels.rules.row_status`, for arrays."""
    table, logits = rows.table, options.kind >= rules.LOGITS
    total = np.zeros(table.shape[1])
    for v in table:
        total = total + (np.where(v < 1.0, exp(np.minimum(v, 1.0)), 3.0) if logits else v)
    if logits:
        limit = rules.LOGIT_LIMIT
        valid = ((table >= -limit) & (table <= limit)) | (table == -np.inf)
        sound = valid.all(axis=0) & (table != -np.inf).any(axis=0)
    else:
        sound = ((table >= 0.0) & (table <= 1.0 + options.tolerance)).all(axis=0)
    whole = (options.kind == rules.LOGITS) | (abs(total - 1.0) <= options.tolerance)
    status = np.where(sound, np.where(whole, rules.GOOD, rules.BAD_SUM), rules.BAD_VALUE)
    status[~((rows.weights >= 0.0) & (rows.weights < np.inf))] = rules.BAD_WEIGHT
    status[(rows.labels < 0) | (rows.labels >= len(table))] = rules.BAD_LABEL
    return status


class _Scores:
    """Ranks, log losses and Brier scores of good rows, and their probabilities."""

    def __init__(self, rows: _Rows, kind: int) -> None:
        table, labels, truth = rows.table, rows.labels, rows.truth
        self.argmax, self.confidence = table.argmax(axis=0), table.max(axis=0)
        classes = np.arange(len(table))[:, None]
        self.rank = ((table > truth) | ((table == truth) & (classes < labels))).sum(axis=0)
        if kind >= rules.LOGITS:
            best = self.confidence
            shift = np.zeros_like(best) if kind == rules.LOG_PROBABILITIES else best
            table = exp(table - shift)
            total = np.zeros_like(best)
            for row in table:
                total = total + row
            if kind == rules.LOG_PROBABILITIES:
                total = np.ones_like(best)
            self.logs = log(total) + (shift - truth)
            self.confidence = exp(best - shift) / total
            table = table / total
        else:
            self.logs = np.where(truth > 0.0, -log(truth), np.inf)
            if kind == rules.PAIRS:
                self.argmax, self.confidence = np.ones_like(self.argmax), table[1]
        self.rows = _Rows(table, labels, rows.weights)
        self.brier = np.zeros_like(self.logs)
        for k, p in enumerate(table):
            other = np.where(labels == k, 0.0, p)
            self.brier = self.brier + other * other
        gap = 1.0 - self.rows.truth
        self.brier = self.brier + gap * gap


def _set_apart(scores: _Scores, cell: Array, t: Tallies) -> None:
    """Log losses that are infinite enter no sum; large ones are summed with full range."""
    rows, large = scores.rows, scores.logs >= tallies.LARGE
    s, labels, cell = scores.logs[large], rows.labels[large], cell[large]
    add_numbers(t.sums, labels, 0, s)
    add_numbers(t.sums, labels, 2, s * s)
    add_numbers(t.cells, cell, 5, s)
    scores.logs[large] = 0.0


def _weigh(scores: _Scores, cell: Array, code: Array, t: Tallies) -> None:
    """The sums that only weighted rows need; afterwards scores are weighted."""
    rows, K = scores.rows, t.ranks.size
    w, y = rows.weights, rows.labels
    add_numbers(t.weight_sums, y, 0, w)
    add_numbers(t.weight_sums, y, 2, w * w)
    add_numbers(t.weight_sums, y, 4, w * (w * scores.logs))
    add_numbers(t.weight_sums, y, 6, w * (w * scores.brier))
    add_numbers(t.weight_cells, cell, 0, w)
    add_numbers(t.weight_cells, cell, 2, np.where(scores.argmax == y, w, 0.0))
    if K > 2:
        add_numbers(t.weight_ranks, scores.rank, 0, w)
    if t.decisions.size:
        add_numbers(t.weight_decisions, y * 2 * K + code, 0, w)
        add_numbers(t.weight_decisions, y * 2 * K + code, 2, w * w)
    scores.logs *= w
    scores.brier *= w


def _add_cells(scores: _Scores, cell: Array, target: Target, weighted: bool) -> None:
    """Add rows to the running sums of the grid."""
    cells, G = target.running.cells, target.tallies.cells.shape[0]
    offset = scores.confidence - (numbers_of(cell) + 0.5) * (1.0 / cells_of_one(G))
    if weighted:
        offset = offset * scores.rows.weights
    terms = [
        1 + ((scores.argmax == scores.rows.labels).astype(np.int64) << 32),
        raised_ticks(offset, tallies.CELL_OFFSET),
        raised_ticks(scores.logs, tallies.CELL_LOG),
        raised_ticks(scores.brier, tallies.CELL_BRIER),
    ]
    np.add.at(cells, cell + (cells.shape[0] - G) * scores.argmax, np.stack(terms, axis=1))


def _add_classes(scores: _Scores, t: Tallies, weighted: bool) -> None:
    """Add the sums of each class."""
    logs, brier, y, K = scores.logs, scores.brier, scores.rows.labels, t.ranks.size
    high = ticks(logs, tallies.LOG_HIGH)
    low = ticks(logs - numbers_of(high) * 2.0**-tallies.LOG_HIGH, tallies.LOG_LOW)
    add(t.sums, 0, _sums(y, high, K), tallies.LOG_HIGH)
    add(t.sums, 0, _sums(y, low, K), tallies.LOG_LOW)
    square = ticks(logs * logs, tallies.LOG_SQUARE)
    add(t.sums, 2, _sums(y, square, K), tallies.LOG_SQUARE)
    add(t.sums, 4, _sums(y, ticks(brier, tallies.BRIER), K), tallies.BRIER)
    square = ticks(brier * brier, tallies.BRIER_SQUARE)
    add(t.sums, 6, _sums(y, square, K), tallies.BRIER_SQUARE)
    table = scores.rows.table * scores.rows.weights if weighted else scores.rows.table
    add(t.outputs, 0, ticks(table, tallies.OUTPUT).sum(axis=1), tallies.OUTPUT)
    if K > 2:
        t.ranks[:] += np.bincount(scores.rank, minlength=K)


def _correct_class_cells(scores: _Scores, t: Tallies) -> None:
    """`kernels.tallies.correct_class_cells`, for arrays."""
    (first, second), G = scores.rows.table, t.cells.shape[0]
    top_1, scale, bits = scores.argmax == 1, cells_of_one(G), tallies.CELL_OFFSET
    opposite = G - 1 - cells_of(np.where(top_1, second, first), G)
    scaled = np.where(top_1, first, second) * scale
    confidence, rest = np.maximum(first, second), np.minimum(first, second)
    cell, actual = cells_of(confidence, G), cells_of(rest, G)
    supposed, side = G - 1 - cell, 1 - scores.argmax
    beside = ~((scaled >= opposite) & (scaled < opposite + 1.0))
    moved = beside & (supposed != actual)
    hit, step = scores.rows.labels == side, 1.0 / scale
    left = ticks(confidence - (numbers_of(cell) + 0.5) * step, bits) - tallies.SLACK_TICKS
    taken = ticks(np.maximum(rest, 0.0) - (actual + 0.5) * step, bits)
    for sign, place, offset in ((-1, supposed, left), (1, actual, taken)):
        index = (side * G + place)[moved]
        np.add.at(t.class_cells[:, 0], index, sign)
        np.add.at(t.class_cells[:, 1], index, sign * hit[moved])
        add(t.class_cells, 2, _sums(index, offset[moved], len(t.class_cells)), bits)


def narrow_pass(values: Array, rows: InputRows, target: Target, options: Options) -> int:
    """Add at most FEW_ROWS rows of few classes; returns how many counted.

    values : outputs by row; those of `rows` are not read.
    """
    with np.errstate(all="ignore"):
        done = 0
        for first in range(0, len(values), tallies.FLUSH):
            part = slice(first, first + tallies.FLUSH)
            done += _narrow(values[part], rows, part, target, options, done)
        return done


def _narrow(
    values: Array, given: InputRows, part: slice, target: Target, options: Options, done: int
) -> int:
    t, weighted = target.tallies, given.weights is not None
    weights = np.ones(len(values)) if given.weights is None else given.weights[part]
    rows = _Rows(_table(values, options), given.labels[part].astype(np.int64), weights)
    status = _status(rows, options)
    target.status[part] = status
    scores = _Scores(rows.kept((status == rules.GOOD) & (weights > 0.0)), options.kind)
    y, K, G = scores.rows.labels, t.ranks.size, t.cells.shape[0]
    cell = cells_of(scores.confidence, G)
    rejected = 1.0 - scores.confidence > options.reject_cost
    code = scores.argmax + rejected * K
    infinite = scores.logs == np.inf
    np.add.at(t.infinite, y[infinite], 1)
    np.add.at(t.cells[:, 2], cell[infinite], 1)
    scores.logs[infinite] = 0.0
    if weighted:
        _weigh(scores, cell, code, t)
    _set_apart(scores, cell, t)
    _add_cells(scores, cell, target, weighted)
    if t.decisions.size:
        np.add.at(t.decisions, (y, code), 1)
    else:
        target.codes[done : done + len(y)] = y * 2 * K + code
    _add_classes(scores, t, weighted)
    if t.class_cells.size:
        _correct_class_cells(scores, t)
    return len(y)
