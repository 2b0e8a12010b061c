"""Sums over rows for p ~ softmax(beta x + b), and the probabilities themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..elementary import LOG2_E
from ..scaled_softmax import LANES, LEAST, power_of_two
from .elementary import by_tile, exp, log
from .fixed_point import in_order

if TYPE_CHECKING:
    from ..scaled_softmax import BiasSums, ShiftedRows

Array = np.ndarray


def _exp2(t: Array) -> Array:
    return by_tile(lambda part: power_of_two.py_func(np.where(part > LEAST, part, LEAST)), t)


def _columns(scores: Array, tops: Array) -> Array:
    """x, a row for each class."""
    return scores.T.astype(np.float64) - tops


def _at(table: Array, codes: Array) -> Array:
    """The value of each row's true class."""
    return table[codes, np.arange(len(codes))]


def _lane_totals(table: Array) -> Array:
    """Sums over classes in the order of the lanes."""
    width = 1
    while width < min(len(table), LANES):
        width *= 2
    lanes = np.zeros((width, table.shape[1]))
    for start in range(0, len(table), width):
        part = table[start : start + width]
        lanes[: len(part)] += part
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def _class_totals(table: Array) -> Array:
    """Sums over classes, one after the other."""
    return in_order(np.zeros(table.shape[1]), table)


def _add_losses(
    logs: Array, truth: Array, mean: Array, second: Array, weights: Array, sums: Array
) -> None:
    terms = np.stack([logs, mean - truth, second - mean * mean], axis=1)
    sums[:] = in_order(sums, weights[:, None] * terms)


def row_tops(scores: Array, tops: Array) -> None:
    tops[:] = scores.max(axis=1) + 0.0  # not -0


def scale_sums(
    scores: Array,
    tops: Array,
    codes: Array,
    weights: Array,
    beta: float,
    raw: bool,
    sums: Array,
    totals: Callable[[Array], Array] = _lane_totals,
) -> None:
    x, rate = _columns(scores, tops), beta * LOG2_E
    e = _exp2(rate * x)
    zeroth, first, second = totals(e), totals(e * x), totals(e * x * x)
    mean, square, truth = first / zeroth, second / zeroth, _at(x, codes)
    third = totals(e * x * x * x) / zeroth - mean * (3.0 * square - 2.0 * (mean * mean))
    _add_losses(log(zeroth) - beta * truth, truth, mean, square, weights, sums[:3])
    sums[3] = in_order(sums[3], weights * third)
    if raw:
        sums[4] = in_order(sums[4], weights * (log(totals(_exp2(LOG2_E * x))) - truth))


def narrow_scale_sums(
    scores: Array, tops: Array, codes: Array, weights: Array, beta: float, raw: bool, sums: Array
) -> None:
    scale_sums(scores, tops, codes, weights, beta, raw, sums, _class_totals)


def largest_biased(scores: Array, beta: float, bias: Array, tops: Array, shifts: Array) -> None:
    shifts[:] = (beta * _columns(scores, tops) + bias[:, None]).max(axis=0)


def bias_sums(
    rows: ShiftedRows, beta: float, bias: Array, sums: BiasSums, products: Array | None
) -> None:
    x, w, codes = _columns(rows.scores, rows.tops), rows.weights, rows.codes
    e = _exp2((beta * LOG2_E) * x + (bias[:, None] - rows.shifts) * LOG2_E)
    total = _lane_totals(e)
    mean = _lane_totals(e * x) / total
    second = _lane_totals(e * x * x) / total
    e = e * (1.0 / total)
    share = w * e
    sums.mass[:] = in_order(sums.mass, share.T)
    sums.slope[:] = in_order(sums.slope, (share * (x - mean)).T)
    if products is None:
        sums.squares[:] = in_order(sums.squares, (share * e).T)
    else:
        for j, line in enumerate(products):
            line[j:] = in_order(line[j:], (share[j] * e[j:]).T)
    truth = _at(x, codes)
    logs = log(total) + (rows.shifts - bias[codes]) - beta * truth
    _add_losses(logs, truth, mean, second, w, sums.loss)


def keep_argmax(values: Array, probs: Array) -> None:
    best = values.argmax(axis=1)[:, None]
    most = np.take_along_axis(probs, best, axis=1)
    before = (np.arange(values.shape[1]) < best) & ~(probs < most)
    probs[:] = np.where(before, most * (1.0 - 2.0**-52), probs)


def _exponentials(
    scores: Array, tops: Array, beta: float, bias: Array | None, shifts: Array
) -> Array:
    x = _columns(scores, tops)
    return exp(beta * x if bias is None else beta * x + (bias[:, None] - shifts))


def softmax_rows(
    scores: Array, tops: Array, shifts: Array, beta: float, bias: Array | None, probs: Array
) -> None:
    e = _exponentials(scores, tops, beta, bias, shifts)
    probs[:] = (e / _lane_totals(e)).T


def brier_sum(scores: Array, tops: Array, codes: Array, weights: Array, beta: float) -> float:
    e = _exponentials(scores, tops, beta, None, tops)
    p = e / _lane_totals(e)
    brier = _lane_totals(p * p) - 2.0 * _at(p, codes) + 1.0
    return in_order(0.0, weights * brier)


narrow_brier_sum = brier_sum
