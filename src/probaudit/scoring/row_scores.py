"""The score of each row, and sums of scores over the rows of each class."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..choices.scores import Brier, Cost, Log, Score
from ..data.predictions import Predictions
from ..states import ClassSums

CHUNK = 2**20  # outputs scored at a time


def row_scores(
    rows: Predictions, good: np.ndarray, rules: Mapping[str, Score]
) -> dict[str, np.ndarray]:
    """The scores of the rows `good` by each rule, by the rule's name.

    >>> rows = Predictions([1, 0], [0.75, 0.5])
    >>> row_scores(rows, np.array([0]), {"brier": Brier()})
    {'brier': array([0.125])}
    """
    scores = {name: np.empty(len(good)) for name in rules}
    step = max(1, CHUNK // rows.n_classes)
    for first in range(0, len(good), step):
        part = slice(first, first + step)
        at = good[part]
        p, y = rows.probabilities(at).astype(np.float64, copy=False), rows.codes[at]
        for name, rule in rules.items():
            scores[name][part] = _scores_by_rule(rule, rows, at, p, y)
    return scores


def row_hits(rows: Predictions, good: np.ndarray) -> np.ndarray:
    """1 if the most probable class is the true one (for pairs of confidence and correctness: if the
    answer was correct), else 0."""
    hits, step = np.empty(len(good)), max(1, CHUNK // rows.n_classes)
    for first in range(0, len(good), step):
        at = good[first : first + step]
        codes = rows.codes[at]
        hits[first : first + step] = (
            codes if rows.pairs else rows.probabilities(at).argmax(axis=1) == codes
        )
    return hits


def of_true_class(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The value of each row's true class."""
    return np.asarray(values[np.arange(len(codes)), codes])


def _scores_by_rule(
    rule: Score, rows: Predictions, at: np.ndarray, p: np.ndarray, y: np.ndarray
) -> np.ndarray:
    if isinstance(rule, Log):
        return _log_scores(rows, at, of_true_class(p, y))
    if isinstance(rule, Brier):
        true = of_true_class(p, y)
        return np.asarray(np.einsum("ij,ij->i", p, p) - true**2 + (1 - true) ** 2)
    if isinstance(rule, Cost):
        return np.asarray(rule.matrix[y, rule.decide(p)])
    return rule.score(p, y)


def _log_scores(rows: Predictions, at: np.ndarray, true: np.ndarray) -> np.ndarray:
    """-log of the true class's probability. For logits it is computed without the probability,
    which may underflow."""
    if rows.kind != "logits":
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(true))
    z = rows.probs[at].astype(np.float64)
    z = z if z.ndim == 2 else np.column_stack([np.zeros(len(z)), z])
    z = z - z.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(z).sum(axis=1)) - of_true_class(z, rows.codes[at]))


def class_sums(
    values: np.ndarray, labels: np.ndarray, weights: np.ndarray, classes: int = 2
) -> ClassSums:
    """Class sums of the scores of rows. Each sum is rounded once, so that the order of the rows
    does not matter."""
    infinite = np.isinf(values)
    s, w = np.where(infinite, 0.0, values), weights / weights.max()

    def by_class(x: np.ndarray) -> np.ndarray:
        return np.array([math.fsum(x[labels == k]) for k in range(classes)])

    # the square of a score of 1e162 overflows: the interval is then infinite
    with np.errstate(over="ignore"):
        squares = (w * s) ** 2
    return ClassSums(
        rows=np.bincount(labels, minlength=classes),
        weight=by_class(w),
        weight_squared=by_class(w * w),
        score=by_class(w * s),
        score_cross=by_class(w * w * s),
        score_squared=by_class(squares),
        infinite=np.bincount(labels[infinite], minlength=classes),
    )
