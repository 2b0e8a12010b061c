"""Gaussian process calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from ..data.work import one_blas_thread
from ..errors import InputError
from .base import Calibrator, Sample

STEPS = 50
SMALL_DECREMENT = 1e-10  # Newton decrement relative to the log posterior
LENGTH_SCALES = (0.1, 0.3, 1.0)  # shares of the range of log-probabilities
AMPLITUDES = (0.1, 0.5, 2.0)
TUNING_VALUES = 2**16  # probabilities used to choose length and amplitude
BLOCK_VALUES = 2**15
KEPT_VALUES = 2**20  # probabilities up to which their features are kept in memory

_Block = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class GaussianProcessCalibration(Calibrator):
    """Applies one smooth function to all log-probabilities: softmax(g(log p_1), ..., g(log p_K)),
    where g has a Gaussian process prior with the identity as its mean (Wenger, Kjellström & Triebel
    2020, section 3).

    inducing : the number of inducing points.

    g need not increase, so that the order of the classes can change. Differences from Wenger et al.
    2020:

    - g maps log-probabilities, so that a shift of all logits has no effect.
    - The covariance is amplitude^2 exp(-(x - x')^2 / (2 length^2)) + x x'. Its second term makes a
      change of temperature likely a priori, and g linear beyond the rows.
    - The process is spanned by its values at evenly spaced inducing points (subset of regressors).
    - Inference is Laplace's approximation, not variational.
    - Predictions use the posterior mode, not an average over the posterior. The mode minimises a
      convex function, and the prior density is largest at the identity, so that the log loss of the
      calibration rows never gets worse.

    Length and amplitude are chosen from a 3 x 3 grid by the marginal likelihood (Laplace), on at
    most 65,536 probabilities of evenly spaced rows. A row of weight 2 counts as two rows.

    >>> P = [[0.6, 0.4], [0.7, 0.3], [0.3, 0.7], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9]]
    >>> y = [0, 1, 1, 0, 0, 1]
    >>> GaussianProcessCalibration().fit(P, y).predict_proba([[0.8, 0.2]]).round(2).tolist()
    [[0.81, 0.19]]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {
        "points_": ("M",),
        "coefficients_": ("M",),
        "slope_": float,
        "length_": float,
        "amplitude_": float,
    }
    points_: np.ndarray
    coefficients_: np.ndarray
    slope_: float
    length_: float
    amplitude_: float

    def __init__(
        self, *, inducing: int = 20, from_logits: bool = False, classes: Any = None
    ) -> None:
        self.inducing = inducing
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "Gaussian process calibration"

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        if not isinstance(self.inducing, (int, np.integer)) or self.inducing < 1:
            raise InputError("inducing", "must be a whole number of at least 1", self.inducing)
        return super()._learning_sample(P, y, sample_weight)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        x = sample.log_probs
        low = _first_percentile(x, sample.weights)
        spread = float(x.max()) - low or 1.0
        points = np.linspace(low, low + spread, self.inducing)
        tuning = sample.take(slice(None, None, max(1, -(-x.size // TUNING_VALUES))))
        choices = [
            _Process(points, share * spread, amplitude)
            for share, amplitude in product(LENGTH_SCALES, AMPLITUDES)
        ]
        with one_blas_thread():
            best = max(choices, key=lambda process: process.mode(tuning)[1])
            mode, _, steps = best.mode(sample)
        self.points_, self.length_, self.amplitude_ = points, best.length, best.amplitude
        self.slope_, self.coefficients_ = 1 + float(mode[0]), best.coefficients(mode[1:])
        ends = {AMPLITUDES[0]: " (the smallest tried)", AMPLITUDES[-1]: " (the largest tried)"}
        amplitude = f"{best.amplitude:.3g}{ends.get(best.amplitude, '')}"
        chosen = f"length {best.length:.3g}, amplitude {amplitude}, slope {self.slope_:.3g}"
        if steps == STEPS:
            return False, f"did not converge in {STEPS} steps; {chosen}"
        return True, f"converged in {steps} steps; {chosen}"

    def _transform(self, sample: Sample) -> np.ndarray:
        process = _Process(self.points_, self.length_, self.amplitude_)
        x = sample.log_probs
        g = self.slope_ * x
        for rows in _blocks(x):
            g[rows] += process.covariance(x[rows]) @ self.coefficients_
        return _softmax_with_logs(g)[0]


@dataclass(frozen=True, eq=False)
class _Process:
    """g(x) = x + v_0 x + k(x) L^-T (v_1, ...), where v is standard normal, k(x) are the covariances
    with the inducing points, and L L' is the covariance matrix of these points."""

    points: np.ndarray
    length: float
    amplitude: float

    def covariance(self, x: np.ndarray) -> np.ndarray:
        return self.amplitude**2 * np.exp(-0.5 * ((x[..., None] - self.points) / self.length) ** 2)

    @property
    def _root(self) -> np.ndarray:
        jitter = 1e-8 * self.amplitude**2 * np.eye(len(self.points))
        return np.linalg.cholesky(self.covariance(self.points) + jitter)

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        return solve_triangular(self._root, v, lower=True, trans="T")

    def mode(self, sample: Sample) -> tuple[np.ndarray, float, int]:
        """The posterior mode of v, the log marginal likelihood by Laplace's approximation, and the
        number of Newton steps."""
        blocks: Iterable[_Block] = _Blocks(sample, self, np.linalg.inv(self._root).T)
        if sample.values.size <= KEPT_VALUES:
            blocks = list(blocks)
        v = np.zeros(1 + len(self.points))
        value, gradient, hessian = _posterior(blocks, v)
        steps = 0
        while steps < STEPS:
            direction = np.linalg.solve(hessian, gradient)
            decrement = float(gradient @ direction)
            if decrement <= SMALL_DECREMENT * max(1.0, value):
                v = v - direction
                break
            size = 1.0
            while size > 1e-12:
                trial = v - size * direction
                tried = _posterior(blocks, trial)
                if tried[0] <= value - 1e-4 * size * decrement:
                    break
                size /= 4
            else:
                break  # no step reduces the loss: rounding limits the search
            v, (value, gradient, hessian) = trial, tried
            steps += 1
        return v, -value - 0.5 * float(np.linalg.slogdet(hessian)[1]), steps


class _Blocks:
    """Blocks of rows: log-probabilities [b, K], features [b, K, M + 1] whose coefficients are v,
    codes, weights."""

    def __init__(self, sample: Sample, process: _Process, to_features: np.ndarray) -> None:
        self._sample, self._process, self._to_features = sample, process, to_features

    def __iter__(self) -> Iterator[_Block]:
        for rows in _blocks(self._sample.log_probs):
            x = self._sample.log_probs[rows]
            features = np.concatenate(
                [x[..., None], self._process.covariance(x) @ self._to_features], axis=2
            )
            yield x, features, self._sample.codes[rows], self._sample.weights[rows]


def _posterior(blocks: Iterable[_Block], v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Minus the log posterior density of v up to a constant, its gradient and its Hessian."""
    value, gradient, hessian = 0.5 * float(v @ v), v.copy(), np.eye(len(v))
    for x, features, codes, weights in blocks:
        each = np.arange(len(x))
        q, log_q = _softmax_with_logs(x + features @ v)
        value -= float(weights @ log_q[each, codes])
        weighted = features * q[..., None]
        mean = weighted.sum(axis=1)
        gradient += weights @ (mean - features[each, codes])
        weighted *= weights[:, None, None]
        hessian += (
            weighted.reshape(-1, len(v)).T @ features.reshape(-1, len(v))
            - (mean * weights[:, None]).T @ mean
        )
    return value, gradient, hessian


def _first_percentile(x: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(x, axis=None)
    reached = np.cumsum(np.repeat(weights, x.shape[1])[order])
    return float(x.ravel()[order[np.searchsorted(reached, 0.01 * reached[-1] * (1 - 1e-9))]])


def _blocks(x: np.ndarray) -> Iterator[slice]:
    size = max(1, BLOCK_VALUES // x.shape[1])
    return (slice(start, start + size) for start in range(0, len(x), size))


def _softmax_with_logs(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and their logarithms."""
    z = z - z.max(axis=1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=1, keepdims=True)
    return e / total, z - np.log(total)
