"""Venn-Abers prediction: an interval for the probability of each row, and a point in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from .base import Sample
from .folds import fold_numbers
from .one_vs_rest import CurvesOneVsRest, by_output


class VennAbers(CurvesOneVsRest):
    """Isotonic regression, fitted anew with each row to calibrate (Vovk & Petej 2014).

    For an output s, p0 is the value at s of the isotonic regression of the rows and (s, 0), p1 that
    of the rows and (s, 1). If rows are exchangeable, the end that belongs to the true label is
    calibrated, whatever the model. `predict_interval` returns (p0, p1) and `predict_proba` the
    point

        p = p1 / (1 - p0 + p1),

    which is minimax: its log loss exceeds that of the end that belongs to the true label by the
    least amount that can be guaranteed (Vovk, Petej & Fedorova 2015, section 4). It is never 0 or
    1. With more than two classes each class has its own interval against the rest, and points are
    scaled to sum to 1.

    folds : 0 for the inductive predictor, in which all rows calibrate. With F >= 2, the cross
        predictor: rows are split into F stratified folds, each gives (p0, p1), and geometric means
        G over folds give p = G(p1) / (G(1 - p0) + G(p1)) (Vovk et al. 2015, section 4). It is meant
        for a model that is refitted without each fold. Outputs of a single model gain little:
        folds then smooth the steps and widen the intervals.
    seed : of the folds.

    Both ends are step functions of s, learned in O(n log n) time.

    >>> model = VennAbers().fit([0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 0, 1, 1])
    >>> model.predict_interval([0.2, 0.35])[:, 1].round(3).tolist()
    [[0.333, 0.667], [0.333, 1.0]]
    >>> model.predict_proba([0.2, 0.35])[:, 1].round(3).tolist()
    [0.5, 0.6]
    """

    # edges of steps, then p0 and p1 of each fold
    _fitted: ClassVar[Mapping[str, Any]] = {"curves_": [("R", None)]}

    def __init__(
        self, *, folds: int = 0, seed: int = 0, from_logits: bool = False, classes: Any = None
    ) -> None:
        self.folds = folds
        self.seed = seed
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "Venn-Abers"

    def predict_interval(self, P: Any) -> np.ndarray:
        """Both ends of the interval for each class, [n, K, 2], columns in the order of `classes_`.

        With two classes, `[:, 1]` are p0 and p1. Of F folds it is 1 - G(1 - p0) and G(p1), G the
        geometric mean. A class without rows has its probability as both ends.
        """
        check_is_fitted(self, "classes_")
        sample = self._sample(P)
        ends = np.repeat(sample.probs[:, :, None], 2, axis=2)
        for label, curve in zip(self._labels(sample.n_classes), self.curves_, strict=True):
            if curve.size:
                step = _step(curve[0], self._inputs(sample, label))
                ends[:, label] = np.stack(intervals(curve), axis=1)[step]
        if sample.n_classes == 2:
            ends[:, 0] = 1 - ends[:, 1, ::-1]
        return ends

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        if not isinstance(self.folds, (int, np.integer)) or self.folds < 0 or self.folds == 1:
            raise InputError("folds", "must be 0 or a whole number of at least 2", self.folds)
        return super()._learning_sample(P, y, sample_weight)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        fold = np.zeros(len(sample), np.int64)
        if self.folds:
            fold = fold_numbers(self.folds, sample.codes, None, self.seed, stratify=True)
        parts = [sample.take(fold == number) for number in range(max(self.folds, 1))]
        found = {}
        for label in self._labels(sample.n_classes):
            if (sample.codes == label).any():
                events = [
                    _ends_at_outputs(self._inputs(part, label), part.codes == label, part.weights)
                    for part in parts
                ]
                found[label] = (_joined(events), "")
        return True, self._keep(found)

    def _check_learned(self) -> None:
        if any(curve.size and len(curve) % 2 == 0 for curve in self.curves_):
            raise ValueError("curves_ must have edges, and both ends of each fold")
        super()._check_learned()

    def _apply(self, curve: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        edges, heights = points(curve)
        return np.asarray(heights[_step(edges, inputs)])

    @staticmethod
    def _labels(n_classes: int) -> list[int]:
        """The classes that have a curve."""
        return [1] if n_classes == 2 else list(range(n_classes))


def intervals(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the interval of each step, geometric means over the folds."""
    low, high = curve[1:].reshape(2, -1, curve.shape[1])
    if len(low) == 1:
        return low[0], high[0]
    return 1 - np.exp(np.log1p(-low).mean(axis=0)), np.exp(np.log(high).mean(axis=0))


def points(curve: np.ndarray) -> np.ndarray:
    """The edge and the point of each step, [2, steps]."""
    low, high = intervals(curve)
    return np.stack([curve[0], high / (1 - low + high)])


def _step(edges: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    return np.searchsorted(edges, inputs, side="right") - 1


def _ends_at_outputs(
    shown: np.ndarray, hit: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The m distinct outputs c, p0 and p1. p0[j] holds from c[j - 1] on, p1[j] from above c[j - 1];
    the first of each holds below (m + 1 values each)."""
    outputs, hits, weights = by_output(shown, np.where(hit, weights, 0.0), weights)
    starts = np.flatnonzero(np.append(True, outputs[1:] != outputs[:-1]))
    hits, weights = np.add.reduceat(hits, starts), np.add.reduceat(weights, starts)
    high = np.append(with_one_more_hit(hits, weights), 1.0)
    # a miss is a hit of the mirrored outputs
    low = np.append(0.0, 1 - with_one_more_hit((weights - hits)[::-1], weights[::-1])[::-1])
    return outputs[starts], low, high


def _joined(events: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """The step curves of all folds with common edges: [1 + 2 folds, steps], edges, p0, p1."""
    outputs = np.concatenate([output for output, _, _ in events])
    edges = np.unique(np.concatenate([[0.0], outputs, np.nextafter(outputs, 2)]))
    lows = [low[np.searchsorted(output, edges, side="right")] for output, low, _ in events]
    highs = [high[np.searchsorted(output, edges, side="left")] for output, _, high in events]
    curve = np.stack([edges, *lows, *highs])
    jumps = (curve[1:, 1:] != curve[1:, :-1]).any(axis=0)
    return np.ascontiguousarray(curve[:, np.append(True, jumps)])


def with_one_more_hit(hits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """At each of m outputs in order, the value there of the isotonic regression of hits / weights
    after one more hit at that output.

    The regression is the slope of the greatest convex minorant of the points (cumulative weight,
    cumulative hits); one more hit at output j moves the points before it by (-1, -1). Its slope at
    j leads from a corner among the moved points to the convex minorant of the others. The corner
    changes only where a moved point falls below the present line (Vovk et al. 2015, algorithms 1
    and 2). Binary search finds the other end of the line.

    >>> with_one_more_hit(np.array([0.0, 1.0, 0.0]), np.ones(3)).round(3).tolist()
    [0.5, 0.667, 0.667]
    """
    W, H = [0.0, *np.cumsum(weights).tolist()], [0.0, *np.cumsum(hits).tolist()]
    minorant = _Minorants(W, H)
    values = np.empty(len(hits))
    corner_w, corner_h, slope = 0.0, np.inf, 0.0
    for j in range(len(hits)):
        w, h = W[j] - 1, H[j] - 1
        if h < corner_h + (w - corner_w) * slope:
            end = minorant.tangent(w, h)
            corner_w, corner_h, slope = w, h, (H[end] - h) / (W[end] - w)
        values[j] = slope
        minorant.drop_first()
    return values


class _Minorants:
    """The corners of the greatest convex minorant of the points 1..m, then of 2..m, and so on.

    Corners are a stack, the first on top. It is built from the last point to the first. Each point
    writes one place of the stack, and remembers what it overwrote: to drop the first point is to
    undo its writing.
    """

    def __init__(self, W: list[float], H: list[float]) -> None:
        self.W, self.H = W, H
        m = len(W) - 1
        stack, size = [0] * m, 0
        self.undo: list[tuple[int, int, int]] = []  # place, what was there, size
        for i in range(m, 0, -1):
            place, w, h = size, W[i], H[i]
            while place > 1:
                a, b = stack[place - 1], stack[place - 2]
                if (H[a] - h) * (W[b] - w) < (H[b] - h) * (W[a] - w):
                    break
                place -= 1
            self.undo.append((place, stack[place], size))
            stack[place], size = i, place + 1
        self.stack, self.size = stack, size

    def drop_first(self) -> None:
        place, before, self.size = self.undo.pop()
        self.stack[place] = before

    def tangent(self, w: float, h: float) -> int:
        """The corner with the least slope from a point to the left of all."""
        W, H, stack = self.W, self.H, self.stack
        low, high = 0, self.size - 1
        while low < high:
            middle = (low + high + 1) // 2
            a, b = stack[middle], stack[middle - 1]
            if (H[a] - h) * (W[b] - w) > (H[b] - h) * (W[a] - w):
                high = middle - 1
            else:
                low = middle
        return stack[low]
