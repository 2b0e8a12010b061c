"""Calibrators that are linear in the scores: a scale for each class, a matrix, a sigmoid for each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from ..errors import InputError
from .base import ROUNDING, Calibrator, Sample
from .newton import Minimum, Point, bounded_minimum, descend
from .temperature import BOUNDS, SEPARATED
from .tempered import TemperedRows, shortened

FLAT = 1e-7  # the gradient at rest; directions that the rows hardly determine take long
STEEPEST = 1e3  # bound of a sigmoid's slope
TINY = float(np.finfo(np.float64).tiny)


class VectorScaling(Calibrator):
    """p ~ softmax(a z + b), z log-probabilities: a scale and a bias for each class (Guo et al. 2017, section 4.2).

    Logits enter as log-probabilities too: a constant added to a row of logits then changes nothing.
    Biases of the classes with rows keep mean zero. A class without rows keeps a = 1, b = 0.

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

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        z, rows = sample.log_probs, Weighed(sample)
        K, present = z.shape[1], rows.present
        squares = z**2
        unit = np.stack([rows.unit(squares)[present], np.ones(len(present))])

        def evaluate(x: np.ndarray) -> Point:
            scale, bias = unfold(x)
            value, wrong, spread = rows.score(z * scale + bias)
            gradient = np.stack([np.einsum("nk,nk->k", wrong, z), wrong.sum(axis=0)])[:, present]
            own = np.stack([np.einsum("nk,nk->k", spread, squares), spread.sum(axis=0)])[:, present]
            gradient[1] -= gradient[1].mean()
            return Point(value, gradient.ravel(), Diagonal(shortened(own, gradient, unit), slice(1, 2)))

        def unfold(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            scale, bias = np.ones(K), np.zeros(K)
            scale[present], bias[present] = x.reshape(2, -1)
            return scale, bias

        found = descend(evaluate, np.repeat([starting_scale(sample), 0.0], len(present)), flat=FLAT)
        improved = found.value <= rows.score(z)[0] + ROUNDING
        self.scale_, self.bias_ = unfold(found.at) if improved else (np.ones(K), np.zeros(K))
        return found.converged, in_words(found, improved)

    def _transform(self, sample: Sample) -> np.ndarray:
        return softmax(sample.log_probs * self.scale_ + self.bias_, axis=1)


class MatrixScaling(Calibrator):
    """p ~ softmax(W z + b), z log-probabilities (Guo et al. 2017, section 4.2), an affine map of all scores.

    With K^2 + K numbers to learn it follows its rows too closely unless they are many, hence two penalties (`l2` times):
    penalty="l2" : the squares of W - I and b. The stronger, the closer to the identity.
    penalty="odir" : the mean square of W off its diagonal and that of b (ODIR; Kull et al. 2019, section 3.3).

    A vector added to every row of W changes nothing, so without a penalty the columns of W and b keep their mean over the
    classes with rows.
    A class without rows keeps its row of the identity.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> MatrixScaling(l2=1e6).fit(P, [0, 0, 1, 1, 0]).predict_proba([[0.9, 0.1]]).round(4)
    array([[0.9, 0.1]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"matrix_": ("K", "K"), "bias_": ("K",)}

    matrix_: np.ndarray
    bias_: np.ndarray

    def __init__(self, *, l2: float = 0.0, penalty: str = "l2", from_logits: bool = False, classes: Any = None) -> None:
        self.l2 = l2
        self.penalty = penalty
        self.from_logits = from_logits
        self.classes = classes

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        if not 0 <= self.l2 < np.inf:
            raise InputError("l2", "must be a finite number, not negative", self.l2)
        if self.penalty not in ("l2", "odir"):
            raise InputError("penalty", 'must be "l2" or "odir"', repr(self.penalty))
        z, rows = sample.log_probs, Weighed(sample)
        K, present = z.shape[1], rows.present
        features = np.column_stack([z, np.ones(len(z))])  # the last column of the map is the bias
        squares, identity = features**2, np.eye(K, K + 1)
        cost, unit = self._costs(K)[present], rows.unit(squares)[:, None]
        centred = slice(None) if self.l2 == 0 else slice(0)

        def evaluate(x: np.ndarray) -> Point:
            map_, u = x.reshape(K + 1, -1).T, z.copy()
            u[:, present] = features @ map_.T
            value, wrong, spread = rows.score(u)
            gap = map_ - identity[present]
            gradient = (wrong[:, present].T @ features + 2 * cost * gap).T
            if self.l2 == 0:
                gradient = gradient - gradient.mean(axis=1, keepdims=True)
            own = shortened((spread[:, present].T @ squares + 2 * cost).T, gradient, unit)
            return Point(value + float((cost * gap**2).sum()), gradient.ravel(), Diagonal(own, centred))

        start = starting_scale(sample) * identity[present].T if self.l2 == 0 else identity[present].T
        found = descend(evaluate, start.ravel(), flat=FLAT)
        improved = found.value <= rows.score(z)[0] + ROUNDING
        full = identity.copy()
        if improved:
            full[present] = found.at.reshape(K + 1, -1).T
        self.matrix_, self.bias_ = full[:, :K].copy(), full[:, K].copy()
        return found.converged, in_words(found, improved)

    def _costs(self, K: int) -> np.ndarray:
        """What the square of each number's distance from the identity costs, [K, K + 1]."""
        if self.penalty == "l2":
            return np.full((K, K + 1), self.l2)
        costs = np.full((K, K + 1), self.l2 / (K * (K - 1)))
        costs[:, K] = self.l2 / K
        costs[np.arange(K), np.arange(K)] = 0
        return costs

    def _transform(self, sample: Sample) -> np.ndarray:
        return softmax(sample.log_probs @ self.matrix_.T + self.bias_, axis=1)


class PlattScaling(Calibrator):
    """p = 1 / (1 + e^-(a s + c)), s the log-odds log p - log(1 - p) of a class (Platt 1999, section 2.2).

    smooth : fit to Platt's targets (N+ + 1) / (N+ + 2) and 1 / (N- + 2) in place of 1 and 0. N are sums of weights, so that
             a weight of 2 is a row seen twice.

    Two classes need one sigmoid. More are taken one against the rest, and their probabilities divided by their sum. A class
    without rows keeps a = 1, c = 0.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> PlattScaling(smooth=False).fit(P, [0, 0, 1, 1, 0]).predict_proba([[0.9, 0.1], [0.1, 0.9]]).round(4)
    array([[0.6667, 0.3333],
           [0.5   , 0.5   ]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"slope_": ("K",), "intercept_": ("K",)}

    slope_: np.ndarray
    intercept_: np.ndarray

    def __init__(self, *, smooth: bool = True, from_logits: bool = False, classes: Any = None) -> None:
        self.smooth = smooth
        self.from_logits = from_logits
        self.classes = classes

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        K = sample.n_classes
        odds = log_odds(sample.log_probs)
        self.slope_, self.intercept_ = np.ones(K), np.zeros(K)
        converged, bounds = True, []
        for k in [1] if K == 2 else np.unique(sample.codes):
            found = self._sigmoid(odds[:, k], sample.codes == k, sample.weights)
            self.slope_[k], self.intercept_[k] = found.at
            converged &= found.converged
            if abs(found.at[0]) == STEEPEST:
                bounds.append(str(k))
        if K == 2:
            self.slope_[0], self.intercept_[0] = self.slope_[1], -self.intercept_[1]
        status = "came to rest" if converged else "did not come to rest"
        if bounds:
            status = f"slope at its bound of {STEEPEST:g} in column {', '.join(bounds)}"
        return converged, status

    def _sigmoid(self, s: np.ndarray, hit: np.ndarray, weights: np.ndarray) -> Minimum:
        """The slope and intercept of least cross-entropy to the targets: Newton's method in two variables."""
        hits, misses = weights[hit].sum(), weights[~hit].sum()
        targets = np.where(hit, (hits + 1) / (hits + 2), 1 / (misses + 2)) if self.smooth else hit.astype(np.float64)
        share = weights / (hits + misses)

        def evaluate(x: np.ndarray) -> Point:
            u = x[0] * s + x[1]
            p = expit(u)
            wrong, spread = share * (p - targets), share * p * (1 - p)
            gradient = np.array([wrong @ s, wrong.sum()])
            mixed = spread @ s
            second = np.array([[spread @ (s * s), mixed], [mixed, spread.sum()]])
            second[1, 1] += shortened(second[1, 1:], gradient[1:])[0] - second[1, 1]
            return Point(float(share @ (np.logaddexp(0, u) - targets * u)), gradient, Pair(second))

        size = np.sqrt(share @ (s * s))
        return descend(evaluate, np.array([1 / max(1.0, size), 0.0]), memory=0, low=-STEEPEST, high=STEEPEST)

    def _transform(self, sample: Sample) -> np.ndarray:
        u = log_odds(sample.log_probs) * self.slope_ + self.intercept_
        return softmax(log_expit(u), axis=1)


@dataclass(frozen=True, eq=False)
class Weighed:
    """The log score of rows and what its derivatives are made of."""

    sample: Sample

    @cached_property
    def share(self) -> np.ndarray:
        return self.sample.weights / self.sample.weights.sum()

    @cached_property
    def present(self) -> np.ndarray:
        return np.unique(self.sample.codes)

    def unit(self, squares: np.ndarray) -> np.ndarray:
        """The change of a feature's coefficient that changes scores by about 1."""
        return 1 / np.maximum(np.sqrt(self.share @ squares), 1.0)

    def score(self, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The mean log score of softmax(u); by row and class, its first derivative and the diagonal of its second."""
        rows = np.arange(len(u))
        log_p = log_softmax(u, axis=1)
        p = np.exp(log_p)
        share = self.share[:, None]
        spread = share * p * (1 - p)
        value = -float(self.share @ log_p[rows, self.sample.codes])
        p[rows, self.sample.codes] -= 1
        return value, share * p, spread


@dataclass(frozen=True)
class Diagonal:
    """Second derivatives of each number alone, [groups, classes]. Numbers of the groups in `centred` keep their mean."""

    own: np.ndarray
    centred: slice

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        inverse, out = 1 / self.own, v.reshape(self.own.shape).copy()
        part = inverse[self.centred]
        out[self.centred] -= (part * out[self.centred]).sum(axis=1, keepdims=True) / part.sum(axis=1, keepdims=True)
        return (out * inverse).ravel()


@dataclass(frozen=True)
class Pair:
    """The second derivatives in a slope and an intercept."""

    matrix: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        (a, b), (_, c) = self.matrix
        left = max(a - b * b / c, 1e-12 * a, TINY)
        first = 0.0 if held else (v[0] - v[1] * b / c) / left
        return np.array([first, (v[1] - b * first) / c])


def starting_scale(sample: Sample) -> float:
    """About the best common scale: where all probabilities are 0 and 1, curvature tells nothing."""
    return float(bounded_minimum(TemperedRows(sample).at_scale, 1.0, 1 / BOUNDS[1], 1 / BOUNDS[0], close=0.1).at)


def log_odds(log_probs: np.ndarray) -> np.ndarray:
    """log p - log(1 - p) of every class, also where p rounds to 1.

    >>> log_odds(np.log([[0.8, 0.1, 0.1]])).round(4)
    array([[ 1.3863, -2.1972, -2.1972]])
    """
    log_p = log_softmax(log_probs, axis=1)
    rows, best = np.arange(len(log_p)), log_p.argmax(axis=1)
    others = log_p.copy()
    others[rows, best] = -np.inf
    rest = np.log1p(-np.exp(others))  # at most 1/2, the best being taken out
    rest[rows, best] = logsumexp(others, axis=1)
    return log_p - rest


def in_words(found: Minimum, improved: bool) -> str:
    if not improved:
        return "identity: no fit improves the log score"
    if found.value < SEPARATED:
        return "the outputs tell the classes apart without error"
    return f"{'came' if found.converged else 'did not come'} to rest in {found.steps} steps"
