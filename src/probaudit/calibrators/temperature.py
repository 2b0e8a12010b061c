"""Temperature scaling: alone, with a bias for each class, or mixed with the original and uniform
probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from ..errors import InputError
from ..kernels.scaled_softmax import keep_argmax
from .base import ROUNDING, WORSE, Calibrator, FitReport, Sample
from .fitting.newton import MEMORY, descend
from .fitting.softmax_sums import BLOCK_VALUES, MOST_DENSE, SCALES, SoftmaxRows, SoftmaxSums
from .fitting.summed import SummedCalibrator

ENSEMBLE_BOUNDS = (0.05, 5.0)
SEPARATED = 1e-6  # mean log loss below which the classes are separable


class TemperatureCalibrator(Calibrator):
    """Base of the calibrators with a temperature. Their search returns the log loss before and
    after, so that the fit report needs no matrix of probabilities."""

    temperature_: float

    @abstractmethod
    def _learn(self, sample: Sample) -> FitReport:
        """Learn from rows, and report the outcome."""

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        report = self._learn(sample)
        return report.converged, report.status

    def fit(self, P: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from outputs and true classes."""
        self.fit_report_ = self._learn(self._learning_sample(P, y, sample_weight))
        return self


class TemperatureScaling(TemperatureCalibrator, SummedCalibrator):
    """Divides all scores by one temperature: softmax(z / T), where z are logits or
    log-probabilities (Guo et al. 2017, section 4.2).

    T minimises the log loss, which is convex in 1 / T, within [0.001, 1000]. The most probable
    class never changes.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9]])
    >>> model = TemperatureScaling().fit(P, [0, 0, 1, 1, 1, 0])
    >>> round(model.temperature_, 4)  # two of three are right: log 9 / log 2
    3.1699
    >>> model.predict_proba([[0.9, 0.1]]).round(4)
    array([[0.6667, 0.3333]])
    """

    accuracy_preserving = True
    _fitted: ClassVar[Mapping[str, Any]] = {"temperature_": float}

    def __init__(self, *, from_logits: bool = False, classes: Any = None) -> None:
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "temperature scaling"

    def _learn(self, sample: Sample) -> FitReport:
        return self.learn(SoftmaxRows(sample))

    def learn(self, rows: SoftmaxSums) -> FitReport:
        """Learn from rows, and report the outcome."""
        before = rows.raw_score
        low, high = SCALES
        minimum = rows.best_scale(low, high)
        self.temperature_ = 1 / float(minimum.at)
        after, status = minimum.value, f"converged in {minimum.steps} steps"
        if not after <= before + ROUNDING:
            self.temperature_, after = 1.0, before
            status = "identity: no temperature improves the log loss"
        elif minimum.at in (low, high):
            status = at_bound(self.temperature_)
        elif not minimum.converged:
            status = f"did not converge in {minimum.steps} steps"
        return FitReport(minimum.converged, status, before, after, rows.n)

    def _transform(self, sample: Sample) -> np.ndarray:
        probs = SoftmaxRows(sample).probabilities(1 / self.temperature_)
        keep_argmax(sample.values, probs)
        return probs


class BiasCorrectedTemperature(TemperatureCalibrator, SummedCalibrator):
    """Divides all scores by one temperature and adds a bias for each class: softmax(z / T + b),
    where z are logits or log-probabilities.

    Bias-corrected temperature scaling (Alexandari et al. 2020, section 3) and direction-preserving
    calibration (Ferrer & Ramos 2025) are the same map; `DirectionPreserving` is an alias. T and b
    minimise the log loss, which is convex in (1 / T, b). Biases have mean zero, as a common
    constant has no effect. A class without rows has bias 0; its best bias would be minus infinity.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> model = DirectionPreserving().fit(P, [0, 0, 1, 1, 0])
    >>> model.predict_proba([[0.9, 0.1], [0.1, 0.9]]).round(4)
    array([[0.6667, 0.3333],
           [0.5   , 0.5   ]])
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"temperature_": float, "bias_": ("K",)}

    bias_: np.ndarray

    def __init__(self, *, from_logits: bool = False, classes: Any = None) -> None:
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "bias-corrected temperature"

    def _learn(self, sample: Sample) -> FitReport:
        return self.learn(SoftmaxRows(sample))

    def learn(self, rows: SoftmaxSums) -> FitReport:
        """Learn from rows, and report the outcome."""
        before = rows.raw_score
        low, high = SCALES
        present = rows.present
        bias = np.zeros(rows.classes)

        def biases(x: np.ndarray) -> np.ndarray:
            bias[present] = x[1:] - x[1:].mean()
            return bias

        scale = float(rows.best_scale(low, high, close=0.1).at)
        start = np.concatenate([[scale], np.zeros(len(present))])
        memory = 0 if rows.classes <= MOST_DENSE else MEMORY
        minimum = descend(
            lambda x: rows.at(float(x[0]), biases(x)).point(present),
            start,
            memory=memory,
            low=low,
            high=high,
        )
        self.temperature_, self.bias_ = 1 / float(minimum.at[0]), biases(minimum.at).copy()
        after, status = minimum.value, f"converged in {minimum.steps} steps"
        if not after <= before + ROUNDING:
            self.temperature_, self.bias_, after = 1.0, np.zeros(rows.classes), before
            status = "identity: no temperature and biases improve the log loss"
        elif minimum.at[0] in (low, high):
            status = at_bound(self.temperature_)
        elif after < SEPARATED:
            status = (
                "the outputs separate the classes without error; stopped at a temperature of"
                f" {self.temperature_:.3g}"
            )
        elif not minimum.converged:
            status = f"did not converge in {minimum.steps} steps"
        return FitReport(minimum.converged, status, before, after, rows.n)

    def _transform(self, sample: Sample) -> np.ndarray:
        return SoftmaxRows(sample).probabilities(1 / self.temperature_, self.bias_)


DirectionPreserving = BiasCorrectedTemperature


class EnsembleTemperature(TemperatureCalibrator):
    """Mixes scaled, original and uniform probabilities: w_1 softmax(z / T) + w_2 p + w_3 / K
    (ensemble temperature scaling, ETS; Zhang, Kailkhura & Han 2020, section 3.2, equation 8).

    loss : what the temperature, and then the weights, minimise: the "squared" error or the "log"
        loss.

    The temperature is fitted first, within [0.05, 5], then the weights, which are not negative and
    sum to 1. Each component keeps the order of the classes, so that the most probable class never
    changes.

    >>> P = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9]])
    >>> EnsembleTemperature().fit(P, [0, 0, 1, 1, 1, 0]).predict_proba([[0.9, 0.1]]).round(4)
    array([[0.6667, 0.3333]])
    """

    accuracy_preserving = True
    _fitted: ClassVar[Mapping[str, Any]] = {"temperature_": float, "weights_": (3,)}

    weights_: np.ndarray

    def __init__(
        self, *, loss: str = "squared", from_logits: bool = False, classes: Any = None
    ) -> None:
        self.loss = loss
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "ensemble temperature"

    def _learn(self, sample: Sample) -> FitReport:
        if self.loss not in ("squared", "log"):
            raise InputError("loss", 'must be "squared" or "log"', repr(self.loss))
        rows = SoftmaxRows(sample)
        before = rows.raw_score
        low, high = ENSEMBLE_BOUNDS
        if self.loss == "log":
            scale = float(rows.best_scale(1 / high, 1 / low).at)
        else:
            scale = 1 / least_squares_temperature(rows)
        truths, products = mixture_sums(sample, scale)
        share = sample.weights / sample.weights.sum()
        self.temperature_ = 1 / scale
        self.weights_ = (
            log_weights(truths, share)
            if self.loss == "log"
            else squared_weights(products, share @ truths)
        )
        after = float(
            -(share @ np.log(np.maximum(truths @ self.weights_, np.finfo(np.float64).tiny)))
        )
        status = at_bound(self.temperature_) if self.temperature_ in (low, high) else "converged"
        if after > before + ROUNDING:
            status += "; " + WORSE
        return FitReport(True, status, before, after, len(sample))

    def _transform(self, sample: Sample) -> np.ndarray:
        rows = SoftmaxRows(sample)
        scaled, raw, uniform = self.weights_
        probs = rows.probabilities(1 / self.temperature_)
        probs *= scaled
        probs += uniform / rows.classes
        if raw > 0:
            probs += raw * rows.probabilities(1.0)
        keep_argmax(sample.values, probs)
        return probs


def at_bound(temperature: float) -> str:
    return f"temperature at its bound of {temperature:g}"


def least_squares_temperature(rows: SoftmaxRows) -> float:
    """The temperature with the lowest Brier score. As the score is not convex, a grid search comes
    first, then a bounded search around its best point."""
    grid = np.geomspace(*ENSEMBLE_BOUNDS, 16)
    best = int(np.argmin([rows.brier(1 / t) for t in grid]))
    around = np.log([grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]])
    minimum = minimize_scalar(
        lambda u: rows.brier(np.exp(-u)),
        bounds=tuple(around),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return min((float(np.exp(minimum.x)), *ENSEMBLE_BOUNDS, 1.0), key=lambda t: rows.brier(1 / t))


def mixture_sums(sample: Sample, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """For the scaled, original and uniform probabilities: the probability of each row's true
    class, [n, 3], and the mean inner products, [3, 3]."""
    n, K = sample.values.shape
    truths, products = np.full((n, 3), 1 / K), np.full((3, 3), 1 / K)
    products[:2, :2] = 0
    size = max(1, BLOCK_VALUES // K)
    for start in range(0, n, size):
        block = slice(start, start + size)
        part = sample.take(block)
        rows = SoftmaxRows(part)
        both = rows.probabilities(scale), rows.probabilities(1.0)
        for i, p in enumerate(both):
            truths[block, i] = p[np.arange(len(p)), part.codes]
            for j, q in enumerate(both):
                products[i, j] += part.weights @ np.einsum("nk,nk->n", p, q)
    products[:2, :2] /= sample.weights.sum()
    return truths, products


def squared_weights(products: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """The w on the simplex that minimises w'Aw - 2 r'w, with A = products and r = truths: the best
    of the stationary points of its faces, which is exact."""
    best, weights = np.inf, np.zeros(3)
    for size in (1, 2, 3):
        for face in map(list, combinations(range(3), size)):
            bordered = np.ones((size + 1, size + 1))
            bordered[:size, :size] = products[np.ix_(face, face)]
            bordered[size, size] = 0
            stationary = np.linalg.lstsq(bordered, np.append(truths[face], 1.0))[0][:size]
            w = np.zeros(3)
            w[face] = stationary
            value = w @ products @ w - 2 * truths @ w
            if stationary.min() >= 0 and value < best - ROUNDING:
                best, weights = value, w
    return weights / weights.sum()


def log_weights(truths: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The w on the simplex that minimises the mean log loss, which is convex. A corner is returned
    if rounding makes it better."""

    def mixed(w: np.ndarray) -> np.ndarray:
        return np.maximum(truths @ w, np.finfo(np.float64).tiny)

    def value(w: np.ndarray) -> float:
        return float(-(share @ np.log(mixed(w))))

    minimum = minimize(
        value,
        np.array([0.98, 0.01, 0.01]),
        jac=lambda w: -(truths / mixed(w)[:, None]).T @ share,
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)},
        options={"ftol": 1e-13, "maxiter": 200},
    ).x.clip(0, 1)
    return min((*np.eye(3), minimum / minimum.sum()), key=value)
