"""The pass over rows of up to 32 classes; with `bits`, the one over rows of more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import rules, tallies
from ..grid_cells import cells_of_one
from .columns import rows_at
from .elementary import exp, log
from .fixed_point import (
    add,
    add_numbers,
    cells_of,
    in_order,
    numbers_of,
    raised_ticks,
    sums,
    ticks,
)

if TYPE_CHECKING:
    from ..rules import InputRows, Options
    from ..tallies import Tallies, Target

Array = np.ndarray


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


def _status(rows: _Rows, options: Options, bits: int | None) -> Array:
    """`kernels.rules.row_status`, for arrays. With many classes, the integer sum may accept a
    row."""
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
    if bits is not None and not logits:
        whole |= abs(ticks(table, bits).sum(axis=0) / 2.0**bits - 1.0) <= options.tolerance
    status = np.where(sound, np.where(whole, rules.GOOD, rules.BAD_SUM), rules.BAD_VALUE)
    status[~((rows.weights >= 0.0) & (rows.weights < np.inf))] = rules.BAD_WEIGHT
    status[(rows.labels < 0) | (rows.labels >= len(table))] = rules.BAD_LABEL
    return status


class _Scores:
    """Ranks, log losses and Brier scores of good rows, and their probabilities."""

    def __init__(self, rows: _Rows, kind: int, bits: int | None) -> None:
        table, labels, truth = rows.table, rows.labels, rows.truth
        self.argmax, self.confidence = table.argmax(axis=0), table.max(axis=0)
        classes = np.arange(len(table))[:, None]
        self.rank = ((table > truth) | ((table == truth) & (classes < labels))).sum(axis=0)
        if kind >= rules.LOGITS:
            best = self.confidence
            shift = np.zeros_like(best) if kind == rules.LOG_PROBABILITIES else best
            table = exp(table - shift)
            total = np.ones_like(best)
            if kind != rules.LOG_PROBABILITIES:
                total = _row_sums(table, bits)
            self.logs = log(total) + (shift - truth)
            self.confidence = exp(best - shift) / total
            truth = table[labels, np.arange(len(labels))] / total
            table = table / total if bits is None else table * (1.0 / total)
        else:
            self.logs = np.where(truth > 0.0, -log(truth), np.inf)
            if kind == rules.PAIRS:
                self.argmax, self.confidence = np.ones_like(self.argmax), table[1]
        self.rows = _Rows(table, labels, rows.weights)
        gap = 1.0 - truth
        self.brier = _other_squares(table, labels, truth, bits) + gap * gap


def _row_sums(table: Array, bits: int | None) -> Array:
    """The sum of each row, in order of the classes, or as integers."""
    if bits is None:
        return in_order(np.zeros(table.shape[1]), table)
    return ticks(table, bits).sum(axis=0) / 2.0**bits


def _other_squares(table: Array, labels: Array, truth: Array, bits: int | None) -> Array:
    """The sum of the squares of all probabilities but that of the true class."""
    if bits is None:
        other = np.where(labels == np.arange(len(table))[:, None], 0.0, table)
        return _row_sums(other * other, None)
    return (ticks(table * table, bits).sum(axis=0) - ticks(truth * truth, bits)) / 2.0**bits


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
    add(t.sums, 0, sums(y, high, K), tallies.LOG_HIGH)
    add(t.sums, 0, sums(y, low, K), tallies.LOG_LOW)
    square = ticks(logs * logs, tallies.LOG_SQUARE)
    add(t.sums, 2, sums(y, square, K), tallies.LOG_SQUARE)
    add(t.sums, 4, sums(y, ticks(brier, tallies.BRIER), K), tallies.BRIER)
    square = ticks(brier * brier, tallies.BRIER_SQUARE)
    add(t.sums, 6, sums(y, square, K), tallies.BRIER_SQUARE)
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
        add(t.class_cells, 2, sums(index, offset[moved], len(t.class_cells)), bits)


def narrow_probabilities(
    rows: InputRows, target: Target, options: Options, bits: int | None = None
) -> int:
    """Add rows; returns how many counted.

    bits : of the integer sums over many classes.
    """
    done, n = 0, len(rows.labels)
    for first in range(0, n, tallies.FLUSH):
        part = slice(first, min(first + tallies.FLUSH, n))
        done += _add_part(rows, part, target, options, done, bits)
    return done


narrow_logits = narrow_probabilities


def _add_part(
    given: InputRows, part: slice, target: Target, options: Options, done: int, bits: int | None
) -> int:
    t, weighted = target.tallies, given.weights is not None
    place = slice(given.begin + part.start, given.begin + part.stop)
    values = rows_at(
        given.values, given.addresses, given.like, part if given.addresses is None else place
    )
    weights = np.ones(len(values)) if given.weights is None else given.weights[part]
    rows = _Rows(_table(values, options), given.labels[part].astype(np.int64), weights)
    status = _status(rows, options, bits)
    target.status[part] = status
    scores = _Scores(rows.kept((status == rules.GOOD) & (weights > 0.0)), options.kind, bits)
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
