"""Structured vector and matrix scaling: temperature scaling, then a ridge towards its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from ..data.work import one_blas_thread
from ..errors import InputError
from .base import Sample
from .fitting.affine_softmax import FIRST_STEPS, Ridge, fit_affine_map, softmax_terms
from .fitting.newton import MEMORY, Point, descend
from .fitting.softmax_sums import SCALES, SoftmaxRows, SoftmaxSums
from .fitting.summed import SummedCalibrator

MOST_DENSE = 64  # classes up to which all second derivatives are summed
MOST_NEWTON = 10  # classes up to which Newton steps beat L-BFGS in a matrix from the start
CHUNK_VALUES = 2**15  # values whose intermediate results stay in the cache


class StructuredScaling(SummedCalibrator):
    """Base of both: the temperature, and the share of the uniform distribution.

    x, the input of the second step, are the logarithms of (1 - u) softmax(z / T) + u / K, with u =
    1 / (n + 1) for n rows: no x is below -log((n + 1) K), however certain an output is.
    """

    temperature_: float
    uniform_: float

    @staticmethod
    def _check_strength(**strengths: float) -> None:
        for name, value in strengths.items():
            if not 0 < value < np.inf:
                raise InputError(name, "must be a finite number above 0", value)

    def _first_step(self, rows: SoftmaxSums) -> Callable[[Sample], Sample]:
        """Fit the temperature; returns the function that gives rows of log-probabilities x."""
        found = rows.best_scale(*SCALES)
        self.temperature_, self.uniform_ = 1 / float(found.at), 1 / (rows.weight + 1)
        return self._smoothed

    @property
    def _smoothed(self) -> Callable[[Sample], Sample]:
        return partial(smoothed, 1 / self.temperature_, self.uniform_)


class StructuredVectorScaling(StructuredScaling):
    """p ~ softmax((1 + v) x + b), x tempered and smoothed log-probabilities: a scale and a bias for
    each class, both shrunk to 0 (SVS; Berta, Holzmüller, Jordan & Bach 2025, arXiv 2511.03685).

    Temperature scaling comes first; its probabilities are mixed with 1 / (n + 1) of the uniform
    distribution and give x. Then v and b minimise the mean log loss

        + (K / n) (scale_penalty |v|^2 + bias_penalty |b|^2)

    for K classes and n rows (the sum of weights). With few rows the result is temperature scaling,
    with many it is vector scaling. The problem is strictly convex. A class without rows is learned
    as any other: the penalty keeps its bias finite, and it gets a low probability.

    This is the default of `SVSCalibrator` in probmetrics 1.3, except that
    - probmetrics rounds x to float32 and stops early, up to 4e-5 above the minimum (measured on the
      real predictions of the benchmarks);
    - it takes probabilities only, and raises those below 1.2e-38 to that number. Here logits are
      used directly, and the limit is the smallest normal number of the input format;
    - its lasso and MCP penalties, and other powers of K and n, are not offered.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> StructuredVectorScaling().fit(P, [0, 0, 1, 1, 0]).predict_proba([[0.9, 0.1]]).round(4)
    array([[0.6227, 0.3773]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {
        "temperature_": float,
        "uniform_": float,
        "scale_": ("K",),
        "bias_": ("K",),
    }
    scale_: np.ndarray  # 1 + v
    bias_: np.ndarray

    def __init__(
        self,
        *,
        scale_penalty: float = 1.0,
        bias_penalty: float = 1.0,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.scale_penalty = scale_penalty
        self.bias_penalty = bias_penalty
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "structured vector scaling"

    def _check_choices(self) -> None:
        self._check_strength(scale_penalty=self.scale_penalty, bias_penalty=self.bias_penalty)

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        K = rows.classes
        views = rows.viewed_as(self._first_step(rows))
        costs = np.repeat([self.scale_penalty, self.bias_penalty], K) * (K / rows.weight)
        dense = K <= MOST_DENSE

        def evaluate(at: np.ndarray) -> Point:
            value, first, own, products = (
                total / rows.weight for total in views.sums(partial(_vector_sums, at, dense))
            )
            blocks = ClassBlocks(own + np.array([2 * costs[:K], 0 * costs[:K], 2 * costs[K:]]))
            curvature = DenseHessian(blocks.matrix() - products) if dense else blocks
            gradient = first + 2 * costs * at
            return Point(float(value) + float(costs @ at**2), gradient, curvature)

        with one_blas_thread():
            found = descend(evaluate, np.zeros(2 * K), memory=0 if dense else MEMORY)
        self.scale_, self.bias_ = 1 + found.at[:K], found.at[K:].copy()
        return found.converged, steps_status(found.converged, found.steps)

    def _transform(self, sample: Sample) -> np.ndarray:
        x = self._smoothed(sample).log_probs
        return softmax(x * self.scale_ + self.bias_, axis=1)


class StructuredMatrixScaling(StructuredScaling):
    """p ~ softmax(W x + b), x tempered and smoothed log-probabilities: an affine map of all scores,
    shrunk to the identity (SMS; Berta, Holzmüller, Jordan & Bach 2025, arXiv 2511.03685).

    As `StructuredVectorScaling`, with a penalty on W off its diagonal that grows with the number of
    its elements:

        (K / n) (scale_penalty |diag(W) - 1|^2 + bias_penalty |b|^2)
        + (K (K - 1) / n) (mixing_penalty) (the sum of squares of W off its diagonal)

    This is the default of `SMSCalibrator` in probmetrics 1.3, with the differences that
    `StructuredVectorScaling` lists.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> StructuredMatrixScaling().fit(P, [0, 0, 1, 1, 0]).predict_proba([[0.9, 0.1]]).round(4)
    array([[0.6286, 0.3714]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {
        "temperature_": float,
        "uniform_": float,
        "matrix_": ("K", "K"),
        "bias_": ("K",),
    }
    matrix_: np.ndarray
    bias_: np.ndarray

    def __init__(
        self,
        *,
        scale_penalty: float = 1.0,
        bias_penalty: float = 1.0,
        mixing_penalty: float = 1.0,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.scale_penalty = scale_penalty
        self.bias_penalty = bias_penalty
        self.mixing_penalty = mixing_penalty
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "structured matrix scaling"

    def _check_choices(self) -> None:
        self._check_strength(
            scale_penalty=self.scale_penalty,
            bias_penalty=self.bias_penalty,
            mixing_penalty=self.mixing_penalty,
        )

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        K = rows.classes
        smooth = self._first_step(rows)
        costs = np.full((K, K + 1), self.mixing_penalty * (K - 1))
        np.fill_diagonal(costs, self.scale_penalty)
        costs[:, -1] = self.bias_penalty
        identity = np.eye(K, K + 1)
        ridge = Ridge(costs * (K / rows.weight), identity)
        first_steps = 0 if K <= MOST_NEWTON else FIRST_STEPS
        found = fit_affine_map(rows, smooth, np.arange(K), ridge, identity, first_steps=first_steps)
        self.matrix_, self.bias_ = found.weights[:, :-1].copy(), found.weights[:, -1].copy()
        status = steps_status(found.converged, found.steps)
        if not found.converged:
            warnings.warn(
                f"structured matrix scaling {status}, largest slope {found.largest_slope:.1e}:"
                " the fit may be improved",
                stacklevel=2,
            )
        return found.converged, status

    def _transform(self, sample: Sample) -> np.ndarray:
        x = self._smoothed(sample).log_probs
        return softmax(x @ self.matrix_.T + self.bias_, axis=1)


def smoothed(scale: float, uniform: float, sample: Sample) -> Sample:
    """Rows with probabilities (1 - uniform) softmax(scale z) + uniform / K."""
    probs = SoftmaxRows(sample).probabilities(scale)
    probs *= 1 - uniform
    probs += uniform / sample.n_classes
    return replace(sample, values=probs, from_logits=False)


def _vector_sums(at: np.ndarray, dense: bool, sample: Sample) -> list[np.ndarray]:
    """The log loss of softmax((1 + v) x + b) at (v, b), and its derivative, [2K].

    The second derivative is that of each class with itself, [3, K]: in v twice, in v and b, in b
    twice. If `dense`, it leaves out -p_j p_k, whose products with x follow as a [2K, 2K] matrix.
    """
    K = sample.n_classes
    value, first, own = 0.0, np.zeros((2, K)), np.zeros((3, K))
    products = np.zeros((2 * K, 2 * K) if dense else 0)
    for start in range(0, len(sample), max(1, CHUNK_VALUES // K)):
        rows = slice(start, start + max(1, CHUNK_VALUES // K))
        x, codes, weights = sample.log_probs[rows], sample.codes[rows], sample.weights[rows, None]
        each = np.arange(len(x)), codes
        p, log_sum, u = softmax_terms(x * (1 + at[:K]) + at[K:])
        value += float(weights[:, 0] @ (log_sum - u[each]))
        spread = weights * p
        if dense:
            both = np.column_stack([p * x, p])
            products += both.T @ (weights * both)
        else:
            spread *= 1 - p
        p[each] -= 1
        p *= weights
        first += np.einsum("nk,nk->k", p, x), p.sum(axis=0)
        moved = spread * x
        own += np.einsum("nk,nk->k", moved, x), moved.sum(axis=0), spread.sum(axis=0)
    return [np.array(value), first.ravel(), own, products]


@dataclass(frozen=True)
class ClassBlocks:
    """Second derivatives of each class with itself, in v and b, [3, K]."""

    own: np.ndarray

    def matrix(self) -> np.ndarray:
        scale, mixed, bias = map(np.diag, self.own)
        return np.block([[scale, mixed], [mixed, bias]])

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        (scale, mixed, bias), (first, second) = self.own, v.reshape(2, -1)
        left = scale * bias - mixed**2
        return np.append(bias * first - mixed * second, scale * second - mixed * first) / np.tile(
            left, 2
        )


@dataclass(frozen=True)
class DenseHessian:
    """All second derivatives. The penalty makes them positive definite."""

    matrix: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        return np.asarray(cho_solve(cho_factor(self.matrix), v))


def steps_status(converged: bool, steps: int) -> str:
    return f"{'converged' if converged else 'did not converge'} in {steps} steps"
