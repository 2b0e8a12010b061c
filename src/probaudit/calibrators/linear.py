"""Calibrators that are linear in the scores: vector, matrix and Platt scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from ..errors import InputError
from .base import ROUNDING, Sample
from .fitting.affine_softmax import softmax_terms
from .fitting.newton import Minimum, Point, abreast, descend, descent
from .fitting.softmax_sums import SCALES, BlockViews, SoftmaxSums, shortened
from .fitting.summed import SummedCalibrator
from .temperature import SEPARATED

FLAT = 1e-7  # gradient at convergence; directions that the rows hardly determine converge slowly
STEEPEST = 1e3  # bound of a sigmoid's slope
TINY = float(np.finfo(np.float64).tiny)


class VectorScaling(SummedCalibrator):
    """Scales the score of each class and adds a bias: softmax(a z + b), where z are
    log-probabilities (Guo et al. 2017, section 4.2).

    a and b minimise the log loss, which is convex in them. Logits are converted to
    log-probabilities, so that a constant added to a row of logits has no effect. Biases of the
    classes with rows have mean zero. A class without rows keeps a = 1, b = 0.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> model = VectorScaling().fit(P, [0, 0, 1, 1, 0])
    >>> model.predict_proba([[0.9, 0.1], [0.1, 0.9]]).round(4)
    array([[0.6667, 0.3333],
           [0.5   , 0.5   ]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"scale_": ("K",), "bias_": ("K",)}

    scale_: np.ndarray
    bias_: np.ndarray

    def __init__(self, *, from_logits: bool = False, classes: Any = None) -> None:
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "vector scaling"

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        K, present, views = rows.classes, rows.present, rows.viewed_as(Weighed)
        unit = np.stack([units(views, rows.weight)[present], np.ones(len(present))])

        def evaluate(x: np.ndarray) -> Point:
            value, first, second = (
                total / rows.weight for total in views.sums(partial(vector_sums, *unfold(x)))
            )
            gradient, own = first[:, present], second[:, present]
            gradient[1] -= gradient[1].mean()
            return Point(
                float(value),
                gradient.ravel(),
                Diagonal(shortened(own, gradient, unit), slice(1, 2)),
            )

        def unfold(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            scale, bias = np.ones(K), np.zeros(K)
            scale[present], bias[present] = x.reshape(2, -1)
            return scale, bias

        start = np.repeat([starting_scale(rows), 0.0], len(present))
        minimum = descend(evaluate, start, flat=FLAT)
        improved = minimum.value <= rows.unscaled_score + ROUNDING
        self.scale_, self.bias_ = unfold(minimum.at) if improved else (np.ones(K), np.zeros(K))
        return minimum.converged, search_status(minimum, improved)

    def _transform(self, sample: Sample) -> np.ndarray:
        return softmax(sample.log_probs * self.scale_ + self.bias_, axis=1)


class MatrixScaling(SummedCalibrator):
    """Applies an affine map to all scores: softmax(W z + b), where z are log-probabilities (Guo et
    al. 2017, section 4.2).

    l2 : the strength of the penalty. Without one, K^2 + K parameters overfit unless there are many
        rows.
    penalty : "l2", the sum of squares of W - I and b, which shrinks towards the identity; or
        "odir", the mean square of W off its diagonal plus that of b (off-diagonal and intercept
        regularisation; Kull et al. 2019, section 3.3).

    W and b minimise the log loss plus the penalty, which is convex in them. A vector added to every
    row of W has no effect. Without a penalty, the columns of W and b therefore keep their mean over
    the classes with rows. A class without rows keeps its row of the identity.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> MatrixScaling(l2=1e6).fit(P, [0, 0, 1, 1, 0]).predict_proba([[0.9, 0.1]]).round(4)
    array([[0.9, 0.1]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"matrix_": ("K", "K"), "bias_": ("K",)}

    matrix_: np.ndarray
    bias_: np.ndarray

    def __init__(
        self,
        *,
        l2: float = 0.0,
        penalty: str = "l2",
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.l2 = l2
        self.penalty = penalty
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "matrix scaling"

    def _check_choices(self) -> None:
        if not 0 <= self.l2 < np.inf:
            raise InputError("l2", "must be a finite number, at least 0", self.l2)
        if self.penalty not in ("l2", "odir"):
            raise InputError("penalty", 'must be "l2" or "odir"', repr(self.penalty))

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        K, present, views = rows.classes, rows.present, rows.viewed_as(Weighed)
        identity = np.eye(K, K + 1)  # the last column of the map is the bias
        cost, unit = self._costs(K)[present], np.append(units(views, rows.weight), 1.0)[:, None]
        centred = slice(None) if self.l2 == 0 else slice(0)

        def evaluate(x: np.ndarray) -> Point:
            map_ = x.reshape(K + 1, -1).T
            value, first, second = (
                total / rows.weight for total in views.sums(partial(matrix_sums, map_, present))
            )
            gap = map_ - identity[present]
            gradient = (first + 2 * cost * gap).T
            if self.l2 == 0:
                gradient = gradient - gradient.mean(axis=1, keepdims=True)
            own = shortened((second + 2 * cost).T, gradient, unit)
            return Point(
                float(value) + float((cost * gap**2).sum()),
                gradient.ravel(),
                Diagonal(own, centred),
            )

        start = starting_scale(rows) * identity[present].T if self.l2 == 0 else identity[present].T
        minimum = descend(evaluate, start.ravel(), flat=FLAT)
        improved = minimum.value <= rows.unscaled_score + ROUNDING
        full = identity.copy()
        if improved:
            full[present] = minimum.at.reshape(K + 1, -1).T
        self.matrix_, self.bias_ = full[:, :K].copy(), full[:, K].copy()
        return minimum.converged, search_status(minimum, improved)

    def _costs(self, K: int) -> np.ndarray:
        """The penalty on each parameter's squared distance from the identity, [K, K + 1]."""
        if self.penalty == "l2":
            return np.full((K, K + 1), self.l2)
        costs = np.full((K, K + 1), self.l2 / (K * (K - 1)))
        costs[:, K] = self.l2 / K
        costs[np.arange(K), np.arange(K)] = 0
        return costs

    def _transform(self, sample: Sample) -> np.ndarray:
        return softmax(sample.log_probs @ self.matrix_.T + self.bias_, axis=1)


class PlattScaling(SummedCalibrator):
    """Fits a sigmoid to the log odds of each class: 1 / (1 + e^-(a s + c)), where s = log p - log(1
    - p) (Platt 1999, section 2.2).

    smooth : fit to Platt's targets (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0. N are
        sums of weights, so that a row of weight 2 counts as two rows.

    Two classes need one sigmoid. With more, each class is fitted against the rest, and the
    probabilities are divided by their sum. A class without rows keeps a = 1, c = 0.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> model = PlattScaling(smooth=False).fit(P, [0, 0, 1, 1, 0])
    >>> model.predict_proba([[0.9, 0.1], [0.1, 0.9]]).round(4)
    array([[0.6667, 0.3333],
           [0.5   , 0.5   ]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"slope_": ("K",), "intercept_": ("K",)}

    slope_: np.ndarray
    intercept_: np.ndarray

    def __init__(
        self, *, smooth: bool = True, from_logits: bool = False, classes: Any = None
    ) -> None:
        self.smooth = smooth
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "Platt scaling"

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        K, views = rows.classes, rows.viewed_as(LogOdds)
        labels = [1] if K == 2 else rows.present.tolist()
        targets = {k: self._targets(rows.weight * rows.frequencies[k], rows.weight) for k in labels}
        (squares,) = views.sums(partial(square_sums, labels))
        starts = 1 / np.maximum(1.0, np.sqrt(squares / rows.weight))

        def evaluate(asked: dict[int, np.ndarray]) -> dict[int, Point]:
            (sums,) = views.sums(partial(sigmoid_sums, asked, targets))
            return {
                k: sigmoid_point(*(own / rows.weight)) for k, own in zip(asked, sums, strict=True)
            }

        bounds = {"low": -STEEPEST, "high": STEEPEST}
        minima = abreast(
            {
                k: descent(np.array([a, 0.0]), memory=0, **bounds)
                for k, a in zip(labels, starts, strict=True)
            },
            evaluate,
        )
        self.slope_, self.intercept_ = np.ones(K), np.zeros(K)
        for k, minimum in minima.items():
            self.slope_[k], self.intercept_[k] = minimum.at
        if K == 2:
            self.slope_[0], self.intercept_[0] = self.slope_[1], -self.intercept_[1]
        converged = all(minimum.converged for minimum in minima.values())
        steepest = [str(k) for k in labels if abs(self.slope_[k]) == STEEPEST]
        if steepest:
            return converged, f"slope at its bound of {STEEPEST:g} in column {', '.join(steepest)}"
        return converged, "converged" if converged else "did not converge"

    def _targets(self, hits: float, weight: float) -> tuple[float, float]:
        """The targets of rows of the class, and of the other rows."""
        return ((hits + 1) / (hits + 2), 1 / (weight - hits + 2)) if self.smooth else (1.0, 0.0)

    def _transform(self, sample: Sample) -> np.ndarray:
        u = log_odds(sample.log_probs) * self.slope_ + self.intercept_
        return softmax(log_expit(u), axis=1)


@dataclass(frozen=True, eq=False)
class Weighed:
    """Rows of log-probabilities z, weighted: their log loss and the terms of its derivatives."""

    sample: Sample

    @cached_property
    def features(self) -> np.ndarray:
        """z and a column of ones."""
        return np.column_stack([self.sample.log_probs, np.ones(len(self.sample))])

    @cached_property
    def squares(self) -> np.ndarray:
        return self.sample.log_probs**2

    @cached_property
    def square_features(self) -> np.ndarray:
        return self.features**2

    def score(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The sum of the log losses of softmax(u); for each row and class, the first derivative
        with respect to u and the diagonal of the second."""
        rows, weights = np.arange(len(u)), self.sample.weights
        _, log_sum, u = softmax_terms(u)
        log_p = u - log_sum[:, None]
        p = np.exp(log_p)
        spread = weights[:, None] * p * (1 - p)
        value = -(weights @ log_p[rows, self.sample.codes])
        p[rows, self.sample.codes] -= 1
        return np.array(value), weights[:, None] * p, spread


def vector_sums(scale: np.ndarray, bias: np.ndarray, rows: Weighed) -> list[np.ndarray]:
    """The summed log loss of softmax(a z + b), its gradient and the diagonal of its Hessian with
    respect to (a, b), [2, K] each."""
    z = rows.sample.log_probs
    value, wrong, spread = rows.score(z * scale + bias)
    first = np.stack([np.einsum("nk,nk->k", wrong, z), wrong.sum(axis=0)])
    second = np.stack([np.einsum("nk,nk->k", spread, rows.squares), spread.sum(axis=0)])
    return [value, first, second]


def matrix_sums(map_: np.ndarray, present: np.ndarray, rows: Weighed) -> list[np.ndarray]:
    """The summed log loss where the classes with rows have the scores W z + b, its gradient and the
    diagonal of its Hessian with respect to (W, b)."""
    u = rows.sample.log_probs.copy()
    u[:, present] = rows.features @ map_.T
    value, wrong, spread = rows.score(u)
    return [value, wrong[:, present].T @ rows.features, spread[:, present].T @ rows.square_features]


def units(views: BlockViews[Weighed], weight: float) -> np.ndarray:
    """The change of each class's scale that changes its scores by about 1."""
    (squares,) = views.sums(log_square_sums)
    return np.asarray(1 / np.maximum(np.sqrt(squares / weight), 1.0))


def log_square_sums(rows: Weighed) -> list[np.ndarray]:
    return [rows.sample.weights @ rows.squares]


@dataclass(frozen=True, eq=False)
class LogOdds:
    """The log-odds s of rows."""

    sample: Sample

    @cached_property
    def by_class(self) -> np.ndarray:
        """[K, n]"""
        return np.ascontiguousarray(log_odds(self.sample.log_probs).T)


def square_sums(labels: list[int], rows: LogOdds) -> list[np.ndarray]:
    return [np.array([rows.sample.weights @ rows.by_class[k] ** 2 for k in labels])]


def sigmoid_sums(
    asked: dict[int, np.ndarray], targets: dict[int, tuple[float, float]], rows: LogOdds
) -> list[np.ndarray]:
    """For each requested class, with slope a and intercept c, [classes, 6]: the cross-entropy
    between its targets and 1 / (1 + e^-(a s + c)), the derivatives with respect to a and c, and the
    second derivatives aa, ac and cc."""
    sums, weights = np.empty((len(asked), 6)), rows.sample.weights
    for place, (k, (slope, intercept)) in enumerate(asked.items()):
        s = rows.by_class[k]
        target = np.where(rows.sample.codes == k, *targets[k])
        u = slope * s + intercept
        p = expit(u)
        wrong, spread = weights * (p - target), weights * p * (1 - p)
        value = weights @ (np.logaddexp(0, u) - target * u)
        sums[place] = value, wrong @ s, wrong.sum(), spread @ (s * s), spread @ s, spread.sum()
    return [sums]


def sigmoid_point(
    value: float, first: float, second: float, aa: float, ac: float, cc: float
) -> Point:
    gradient = np.array([first, second])
    own = shortened(np.array([cc]), gradient[1:])[0]
    return Point(float(value), gradient, Pair(np.array([[aa, ac], [ac, own]])))


@dataclass(frozen=True)
class Diagonal:
    """The diagonal of the Hessian, [parameters, classes]. The parameters in the rows `centred` keep
    their mean over classes."""

    own: np.ndarray
    centred: slice

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        inverse, out = 1 / self.own, v.reshape(self.own.shape).copy()
        part = inverse[self.centred]
        out[self.centred] -= (part * out[self.centred]).sum(axis=1, keepdims=True) / part.sum(
            axis=1, keepdims=True
        )
        return (out * inverse).ravel()


@dataclass(frozen=True)
class Pair:
    """The Hessian with respect to a slope and an intercept."""

    matrix: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        (a, b), (_, c) = self.matrix
        left = max(a - b * b / c, 1e-12 * a, TINY)
        first = 0.0 if held else (v[0] - v[1] * b / c) / left
        return np.array([first, (v[1] - b * first) / c])


def starting_scale(rows: SoftmaxSums) -> float:
    """Roughly the best common scale. A search from 1 could fail: where all probabilities are 0 or
    1, the curvature vanishes."""
    return float(rows.best_scale(*SCALES).at)


def log_odds(log_probs: np.ndarray) -> np.ndarray:
    """log p - log(1 - p) of every class, precise also where p rounds to 1.

    >>> log_odds(np.log([[0.8, 0.1, 0.1]])).round(4)
    array([[ 1.3863, -2.1972, -2.1972]])
    """
    log_p = log_softmax(log_probs, axis=1)
    rows, best = np.arange(len(log_p)), log_p.argmax(axis=1)
    others = log_p.copy()
    others[rows, best] = -np.inf
    rest = np.log1p(-np.exp(others))  # at most 1/2, as the best is excluded
    rest[rows, best] = logsumexp(others, axis=1)
    return log_p - rest


def search_status(minimum: Minimum, improved: bool) -> str:
    if not improved:
        return "identity: no fit improves the log loss"
    if minimum.value < SEPARATED:
        return "the outputs separate the classes without error"
    return f"{'converged' if minimum.converged else 'did not converge'} in {minimum.steps} steps"
