"""Sums over rows for p ~ softmax(beta x + b), and the probabilities themselves.

x are a row's scores minus the largest of them, so that beta x <= 0. Sums along a row are kept as
LANES partial sums in a fixed order: a single sum would wait for itself at every step, and its order
would be the compiler's choice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import allocator, inline, kernel
from .elementary import LOG2_E, ROUND, ROUND_BITS, exp, log
from .twins import twin

LANES = 64
LEAST = np.float64(-1000.0)
EXPONENT = np.int64(1023) - ROUND_BITS


class ShiftedRows(NamedTuple):
    """Rows of scores. A shift is not less than the largest of beta x + b, and not so much more that
    e^-shift would vanish."""

    scores: np.ndarray  # [n, K]
    tops: np.ndarray  # [n] the largest score of each row
    shifts: np.ndarray  # [n]
    codes: np.ndarray  # [n] true classes
    weights: np.ndarray  # [n]


class BiasSums(NamedTuple):
    """Weighted sums over rows, for the derivatives in beta and in the biases."""

    loss: np.ndarray  # [3] see scale_sums
    mass: np.ndarray  # [K] of p_k
    slope: np.ndarray  # [K] of p_k (x_k - m), the second derivative in beta and b_k
    squares: np.ndarray  # [K] of p_k^2


class RowMoments(NamedTuple):
    """Lanes of the sums of e, x e, x^2 e and (without biases) x^3 e along a row."""

    zeroth: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


class Exponent(NamedTuple):
    """The scalars of a row's exponents: 2^(rate (score - top)) e^(b - shift)."""

    top: float
    rate: float
    shift: float


@allocator
def _new_moments():
    return RowMoments(np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES))


@inline
def _exp2(t):
    """2^t for -1000 <= t <= 0, and 2^-1000 below that, to 6e-14: a third less work than `exp`, and
    accurate enough for sums.

    t = k + f, 2^t = 2^k (1 + f q(f)) on |f| <= 1/2, q interpolating at Chebyshev nodes (computed to
    200 bits).
    """
    return power_of_two(t if t > LEAST else LEAST)


@inline
def power_of_two(t):
    """2^t, as above; takes arrays in Python."""
    shifted = np.float64(t + ROUND)
    f = t - (shifted - ROUND)
    q = 1.0203121063391729e-07
    q = q * f + 1.3255224878668817e-06
    q = q * f + 1.525268684626772e-05
    q = q * f + 0.00015403455852453838
    q = q * f + 0.0013333558179043112
    q = q * f + 0.009618129159402558
    q = q * f + 0.055504108664760424
    q = q * f + 0.2402265069581299
    q = q * f + 0.6931471805599453
    power = np.int64((shifted.view(np.int64) + EXPONENT) << np.int64(52)).view(np.float64)
    return power * (1.0 + f * q)


@inline
def _width(K):
    """How many lanes are used: a power of two."""
    width = 1
    while width < min(K, LANES):
        width *= 2
    return width


@inline
def _clear(lanes, width):
    for j in range(width):
        lanes[j] = 0.0


@inline
def _clear_moments(moments, width):
    _clear(moments.zeroth, width)
    _clear(moments.first, width)
    _clear(moments.second, width)
    _clear(moments.third, width)


@inline
def _total(lanes, width):
    """The sum of the lanes, by halves."""
    half = width
    while half > 1:
        half //= 2
        for j in range(half):
            lanes[j] += lanes[j + half]
    return lanes[0]


@inline
def _add(lanes, terms):
    """Add a row of terms to the lanes."""
    whole = terms.size - terms.size % LANES
    for start in range(0, whole, LANES):
        part = terms[start : start + LANES]
        for j in range(LANES):
            lanes[j] += part[j]
    rest = terms[whole:]
    for j in range(rest.size):
        lanes[j] += rest[j]


@inline
def _raise(lanes, scores, size):
    """Raise each lane to its score, if that is larger."""
    for j in range(size):
        lanes[j] = scores[j] if scores[j] > lanes[j] else lanes[j]


@inline
def _largest(row, lanes, width):
    """The largest score of a row."""
    whole = row.size - row.size % LANES
    for j in range(width):
        lanes[j] = -np.inf
    for start in range(0, whole, LANES):
        _raise(lanes, row[start : start + LANES], LANES)
    _raise(lanes, row[whole:], row.size - whole)
    half = width
    while half > 1:
        half //= 2
        for j in range(half):
            lanes[j] = lanes[j + half] if lanes[j + half] > lanes[j] else lanes[j]
    return np.float64(lanes[0])


@inline
def _largest_of_tile(scores, tops):
    """The largest score of each row of a tile: a loop over rows for each class."""
    for j in range(scores.shape[0]):
        tops[j] = np.float64(scores[j, 0])
    for k in range(1, scores.shape[1]):
        for j in range(scores.shape[0]):
            x = np.float64(scores[j, k])
            tops[j] = x if x > tops[j] else tops[j]


@twin(lambda scores, *_: scores)
@kernel
def row_tops(scores, tops):
    """tops = the largest score of each row."""
    K, width = scores.shape[1], _width(scores.shape[1])
    if K < LANES:
        for start in range(0, scores.shape[0], LANES):
            _largest_of_tile(scores[start : start + LANES], tops[start : start + LANES])
    else:
        lanes = np.empty(LANES, scores.dtype)
        for i in range(scores.shape[0]):
            tops[i] = _largest(scores[i], lanes, width)
    for i in range(tops.size):
        tops[i] += 0.0  # not -0, whichever came first


@inline
def _add_moments(scores, size, top, rate, moments):
    """Add e, x e, x^2 e and x^3 e, where e = 2^(rate x)."""
    zeroth, first, second, third = moments
    for j in range(size):
        x = np.float64(scores[j]) - top
        e = _exp2(rate * x)
        ex = e * x
        exx = ex * x
        zeroth[j] += e
        first[j] += ex
        second[j] += exx
        third[j] += exx * x


@inline
def _add_derivatives(sums, w, beta, truth, total, first, second, third):
    """Add the log loss of a row and its derivatives, given its moments and the x of its class."""
    mean, square = first / total, second / total
    sums[0] += w * (log(total) - beta * truth)
    sums[1] += w * (mean - truth)
    sums[2] += w * (square - mean * mean)
    sums[3] += w * (third / total - mean * (3.0 * square - 2.0 * (mean * mean)))


@inline
def _add_exponentials(scores, size, top, lanes):
    """Add e^x."""
    for j in range(size):
        lanes[j] += _exp2(LOG2_E * (np.float64(scores[j]) - top))


@twin(lambda scores, *_: scores)
@kernel
def scale_sums(scores, tops, codes, weights, beta, raw, sums):
    """sums[:4] = the weighted sums over rows of the log loss and of its first three derivatives in
    beta. If `raw`, sums[4] = that of the log loss at beta = 1.

    With m the mean of x under p, and x_y that of the true class, these are log sum e^(beta x) -
    beta x_y; m - x_y; the variance of x; its third central moment.
    """
    moments = _new_moments()
    K, width = scores.shape[1], _width(scores.shape[1])
    whole, rate = K - K % LANES, beta * LOG2_E
    for i in range(scores.shape[0]):
        row, top, w = scores[i], tops[i], weights[i]
        truth = np.float64(row[codes[i]]) - top
        _clear_moments(moments, width)
        for start in range(0, whole, LANES):
            _add_moments(row[start : start + LANES], LANES, top, rate, moments)
        _add_moments(row[whole:], K - whole, top, rate, moments)
        zeroth, first = _total(moments.zeroth, width), _total(moments.first, width)
        second, third = _total(moments.second, width), _total(moments.third, width)
        _add_derivatives(sums, w, beta, truth, zeroth, first, second, third)
        if raw:
            _clear(moments.zeroth, width)
            for start in range(0, whole, LANES):
                _add_exponentials(row[start : start + LANES], LANES, top, moments.zeroth)
            _add_exponentials(row[whole:], K - whole, top, moments.zeroth)
            sums[4] += w * (log(_total(moments.zeroth, width)) - truth)


@inline
def _add_tile(scores, tops, x, rate, moments):
    """The same as _add_moments, with a lane for each row."""
    zeroth, first, second, third = moments
    for k in range(scores.shape[1]):
        # a loop of its own, because reading every K-th value does not vectorise
        for j in range(scores.shape[0]):
            x[j] = np.float64(scores[j, k]) - tops[j]
        for j in range(LANES):
            e = _exp2(rate * x[j])
            ex = e * x[j]
            exx = ex * x[j]
            zeroth[j] += e
            first[j] += ex
            second[j] += exx
            third[j] += exx * x[j]


@inline
def _add_tile_exponentials(scores, tops, x, lanes):
    """The same as _add_exponentials, with a lane for each row."""
    for k in range(scores.shape[1]):
        for j in range(scores.shape[0]):
            x[j] = np.float64(scores[j, k]) - tops[j]
        for j in range(LANES):
            lanes[j] += _exp2(LOG2_E * x[j])


@twin(lambda scores, *_: scores)
@kernel
def narrow_scale_sums(scores, tops, codes, weights, beta, raw, sums):
    """The same as scale_sums, for few classes: the loops run over rows, so that they vectorise for
    any number of classes."""
    x, moments = np.zeros(LANES), _new_moments()
    zeroth, first, second, third = moments
    for start in range(0, scores.shape[0], LANES):
        rows, below = scores[start : start + LANES], tops[start : start + LANES]
        _clear_moments(moments, LANES)
        _add_tile(rows, below, x, beta * LOG2_E, moments)
        for j in range(rows.shape[0]):
            i = start + j
            truth = np.float64(rows[j, codes[i]]) - below[j]
            _add_derivatives(
                sums, weights[i], beta, truth, zeroth[j], first[j], second[j], third[j]
            )
        if raw:
            _clear(zeroth, LANES)
            _add_tile_exponentials(rows, below, x, zeroth)
            for j in range(rows.shape[0]):
                truth = np.float64(rows[j, codes[start + j]]) - below[j]
                sums[4] += weights[start + j] * (log(zeroth[j]) - truth)


@inline
def _exponentials(row, top, beta, bias, shift, e):
    """e^(beta x + b - shift), or e^(beta x) without biases."""
    for k in range(row.size):
        x = np.float64(row[k]) - top
        e[k] = exp(beta * x if bias is None else beta * x + (bias[k] - shift))


@inline
def _add_biased(scores, bias, size, exponent, e, moments):
    """The same as _add_moments for e = 2^(rate x) e^(b - shift), which is kept."""
    top, rate, shift = exponent.top, exponent.rate, exponent.shift
    zeroth, first, second = moments.zeroth, moments.first, moments.second
    for j in range(size):
        x = np.float64(scores[j]) - top
        v = _exp2(rate * x + (bias[j] - shift) * LOG2_E)
        e[j] = v
        vx = v * x
        zeroth[j] += v
        first[j] += vx
        second[j] += vx * x


@twin(lambda scores, *_: scores)
@kernel
def largest_biased(scores, beta, bias, tops, shifts):
    """shifts = the largest of beta x + b in each row."""
    for i in range(scores.shape[0]):
        best = -np.inf
        for k in range(bias.size):
            u = beta * (np.float64(scores[i, k]) - tops[i]) + bias[k]
            best = u if u > best else best
        shifts[i] = best


@twin(lambda rows, *_: rows.scores)
@kernel
def bias_sums(rows, beta, bias, sums, products):
    """The same as scale_sums, for softmax(beta x + b), and the other BiasSums. If `products` [K, K]
    is given, the sums of all p_j p_k, j <= k, go there instead of the squares."""
    scores, tops, shifts, codes, weights = rows
    loss, mass, slope, squares = sums
    moments = _new_moments()
    K, width = scores.shape[1], _width(scores.shape[1])
    whole = K - K % LANES
    e = np.empty(K)
    for i in range(scores.shape[0]):
        row, top, shift, w = scores[i], tops[i], shifts[i], weights[i]
        exponent = Exponent(top, beta * LOG2_E, shift)
        _clear_moments(moments, width)
        for start in range(0, whole, LANES):
            end = start + LANES
            _add_biased(row[start:end], bias[start:end], LANES, exponent, e[start:end], moments)
        _add_biased(row[whole:], bias[whole:], K - whole, exponent, e[whole:], moments)
        total = _total(moments.zeroth, width)
        mean = _total(moments.first, width) / total
        inverse = 1.0 / total
        for k in range(K):
            e[k] *= inverse
            share = w * e[k]
            mass[k] += share
            slope[k] += share * ((np.float64(row[k]) - top) - mean)
            if products is None:
                squares[k] += share * e[k]
        truth = np.float64(row[codes[i]]) - top
        loss[0] += w * (log(total) + (shift - bias[codes[i]]) - beta * truth)
        loss[1] += w * (mean - truth)
        loss[2] += w * (_total(moments.second, width) / total - mean * mean)
        if products is not None:
            for j in range(K):
                a = w * e[j]
                out = products[j]
                for k in range(j, K):
                    out[k] += a * e[k]


@inline
def _keep_first(row, out):
    """Keep the probabilities of all classes before the row's first largest score below that of its
    class.

    Scores that differ by rounding may become equal probabilities, and the first of equals would
    then be another class.
    """
    best = 0
    for k in range(1, row.size):
        best = k if row[k] > row[best] else best
    below = out[best] * (1.0 - 2.0**-52)
    for k in range(best):
        out[k] = out[k] if out[k] < out[best] else below


@twin(lambda values, *_: values)
@kernel
def keep_argmax(values, probs):
    """Make the first largest probability of each row belong to the class of its first largest
    value, by changing the last digit of others."""
    for i in range(values.shape[0]):
        _keep_first(values[i], probs[i])


@twin(lambda scores, *_: scores)
@kernel
def softmax_rows(scores, tops, shifts, beta, bias, probs):
    """probs = softmax(beta x + b), row by row."""
    lanes, width = np.empty(LANES), _width(scores.shape[1])
    for i in range(scores.shape[0]):
        out = probs[i]
        _exponentials(scores[i], tops[i], beta, bias, shifts[i], out)
        _clear(lanes, width)
        _add(lanes, out)
        total = _total(lanes, width)
        for k in range(out.size):
            out[k] /= total


@twin(lambda scores, *_: scores)
@kernel
def brier_sum(scores, tops, codes, weights, beta):
    """The weighted sum over rows of the Brier score of softmax(beta x)."""
    lanes, width = np.empty(LANES), _width(scores.shape[1])
    e, brier = np.empty(scores.shape[1]), 0.0
    for i in range(scores.shape[0]):
        _exponentials(scores[i], tops[i], beta, None, 0.0, e)
        _clear(lanes, width)
        _add(lanes, e)
        total = _total(lanes, width)
        truth = e[codes[i]] / total
        for k in range(e.size):
            e[k] = (e[k] / total) * (e[k] / total)
        _clear(lanes, width)
        _add(lanes, e)
        brier += weights[i] * (_total(lanes, width) - 2.0 * truth + 1.0)
    return brier


@inline
def _class_totals(terms, room):
    """room[0] = the sums over classes of terms [K, LANES], added in the order of `_total`. `room`
    has as many rows as that uses lanes."""
    half = room.shape[0]
    for k in range(half):
        lane = room[k]
        for j in range(LANES):
            lane[j] = terms[k, j] if k < terms.shape[0] else 0.0
    while half > 1:
        half //= 2
        for k in range(half):
            lane, other = room[k], room[k + half]
            for j in range(LANES):
                lane[j] += other[j]


@twin(lambda scores, *_: scores)
@kernel
def narrow_brier_sum(scores, tops, codes, weights, beta):
    """The same as brier_sum, for few classes: the loops run over rows, so that they vectorise for
    any number of classes."""
    K, brier = scores.shape[1], 0.0
    x, truths, e = np.zeros(LANES), np.empty(LANES), np.empty((K, LANES))
    room = np.empty((_width(K), LANES))
    total = room[0]
    for start in range(0, scores.shape[0], LANES):
        rows, below = scores[start : start + LANES], tops[start : start + LANES]
        for k in range(K):
            for j in range(rows.shape[0]):
                x[j] = np.float64(rows[j, k]) - below[j]
            out = e[k]
            for j in range(LANES):
                out[j] = exp(beta * x[j])
        _class_totals(e, room)
        for j in range(rows.shape[0]):
            truths[j] = e[codes[start + j], j] / total[j]
        for k in range(K):
            out = e[k]
            for j in range(LANES):
                out[j] = (out[j] / total[j]) * (out[j] / total[j])
        _class_totals(e, room)
        for j in range(rows.shape[0]):
            brier += weights[start + j] * (total[j] - 2.0 * truths[j] + 1.0)
    return brier
