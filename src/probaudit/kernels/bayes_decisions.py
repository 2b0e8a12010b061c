"""Bayes decisions under a cost matrix: the decision of least expected cost, counted by true
class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import inline, kernel
from .elementary import exp
from .fixed_point import add_number
from .rules import GOOD, LOG_PROBABILITIES, LOGITS
from .wide import largest

ROWS = 8  # rows for which the cost matrix is read once


class CostCounts(NamedTuple):
    """A cost matrix and the decisions taken under it."""

    matrix: np.ndarray  # [K, M] the cost of each decision for each true class
    counts: np.ndarray  # [K, M] rows
    weights: np.ndarray  # [K M, 4] pairs: w, w^2; empty without weights


@inline
def _probabilities(row, kind, p):
    """The probabilities of a good row, as float64."""
    K = p.size
    if row.size < K:  # one column: the second of two classes
        p[1] = row[0]
        p[0] = 0.0 if kind >= LOGITS else max(0.0, 1.0 - p[1])
    else:
        for k in range(K):
            p[k] = row[k]
    if kind >= LOGITS:
        shift = 0.0 if kind == LOG_PROBABILITIES else largest(p)
        total = 0.0
        for k in range(K):
            p[k] = exp(p[k] - shift)
            total += p[k]
        if kind == LOGITS:
            for k in range(K):
                p[k] /= total


@inline
def _first_least(costs):
    best = 0
    for j in range(1, costs.size):
        if costs[j] < costs[best]:
            best = j
    return best


@inline
def _expected_costs(p, held, matrix, expected):
    """The expected cost of each decision for the first `held` rows of p, summed over classes in
    order."""
    for r in range(held):
        for j in range(expected.shape[1]):
            expected[r, j] = 0.0
    for k in range(matrix.shape[0]):
        line = matrix[k]
        for r in range(held):
            q, sums = p[r, k], expected[r]
            for j in range(matrix.shape[1]):
                sums[j] += q * line[j]


@kernel
def decide(values, y, w, status, kind, costs):
    """Add each good row to the counts by true class and decision. Ties go to the first decision.

    The expected cost of decision j is summed over classes in order, for all decisions at once, so
    that neither the vector width nor a matrix library decides a near tie.
    """
    matrix, counts, weight_counts = costs.matrix, costs.counts, costs.weights
    K, M = matrix.shape
    p = np.empty((ROWS, K), np.float64)
    expected = np.empty((ROWS, M), np.float64)
    rows = np.empty(ROWS, np.int64)
    held = 0
    n = values.shape[0]
    for i in range(n):
        counted = status[i] == GOOD
        if w is not None:
            counted = counted and w[i] > 0.0
        if counted:
            _probabilities(values[i], kind, p[held])
            rows[held] = i
            held += 1
        if held == ROWS or (i == n - 1 and held > 0):
            _expected_costs(p, held, matrix, expected)
            for r in range(held):
                label, decision = y[rows[r]], _first_least(expected[r])
                counts[label, decision] += 1
                if w is not None:
                    weight = w[rows[r]]
                    add_number(weight_counts, label * M + decision, 0, weight)
                    add_number(weight_counts, label * M + decision, 2, weight * weight)
            held = 0
