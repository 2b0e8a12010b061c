"""Beta calibration."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit

from ..errors import InputError
from ..kernels.logistic import logistic_sums
from .base import Sample, log_score
from .one_vs_rest import OneVsRestCalibrator

STEPS = 100
UNFINISHED = f"did not come to rest in {STEPS} steps"
SMALL_GRADIENT = 1e-10  # of the mean log score, for features of at most 1
SMALL_DECREMENT = 1e-9  # of the score: a Newton step that promises less is the last, for the next would promise its square
SEPARATED = 1e-6  # a mean log score below it: the coefficients are on a road without end
SEPARATED_WORDS = "rows are told apart without error, coefficients have no bound"


class BetaCalibration(OneVsRestCalibrator):
    """log odds = a log p - b log(1 - p) + c: the map between two beta distributions of scores (Kull, Silva Filho & Flach 2017,
    equation 5), by maximum likelihood, one class against the rest.

    parameters : "abm", all three; "am", a = b (Platt's map of log odds); "ab", c = (a - b) log 2, so that 1/2 stays 1/2.
    monotone : a and b must not be negative, or the curve would fall somewhere. Where the likelihood is largest with one of them
        negative, it is set to 0 and the rest fitted again, and the best such fit is taken. betacal does so for "abm" only.

    Newton's method, from the identity a = b = 1, c = 0, downhill only. Where classes are normalised and the log score still
    comes out worse than the identity's, the identity is taken.

    >>> P, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 0, 1, 0, 1]
    >>> BetaCalibration(parameters="am").fit(P, y).curves_[0].round(3).tolist()
    [0.34, 0.34, -0.0]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"curves_": [(3,)]}
    _plain = "came to rest"

    def __init__(
        self,
        *,
        parameters: Literal["abm", "ab", "am"] = "abm",
        monotone: bool = True,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.parameters = parameters
        self.monotone = monotone
        self.from_logits = from_logits
        self.classes = classes

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        if self.parameters not in ("abm", "ab", "am"):
            raise InputError("parameters", "must be one of 'abm', 'ab', 'am'", repr(self.parameters))
        return super()._learning_sample(P, y, sample_weight)

    def _shown(self, sample: Sample, label: int) -> np.ndarray:
        """[2, n]: log p and -log(1 - p)."""
        return np.stack([sample.log_probs[:, label], -log_rest(sample, label)])

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        _, status = super()._fit(sample)
        # One curve alone is never worse than the identity: the problem is convex. Curves normalised together can be.
        if sample.n_classes > 2 and log_score(self._transform(sample), sample) > log_score(sample.probs, sample):
            self.curves_ = [np.array([1.0, 1.0, 0.0]) if curve.size else curve for curve in self.curves_]
            return True, "nothing better than the identity was found"
        return UNFINISHED not in status, status

    def _curve(self, shown: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, str]:
        features, to_abc = self._features(shown)
        signed = 1 if self.parameters == "am" else 2  # the first so many coefficients must not be negative
        identity = np.array([1.0] * signed + [0.0] * (len(features) - signed))
        targets, shares = hits / weights, weights / weights.sum()

        def fit(zeros: tuple[int, ...]) -> tuple[np.ndarray, float, str]:
            kept = [i for i in range(len(features)) if i not in zeros]
            coefficients = np.zeros(len(features))
            some = features[kept] if zeros else features
            coefficients[kept], score, remark = logistic_regression(some, targets, shares, identity[kept])
            dropped = [f"{name} would be negative and is 0" for i, name in enumerate("ab"[:signed]) if i in zeros]
            return coefficients, score, ", ".join(dropped + [remark] * (remark != ""))

        found = [fit(())]
        if self.monotone and (found[0][0][:signed] < 0).any():
            zeros = [chosen for size in range(1, signed + 1) for chosen in combinations(range(signed), size)]
            found = [tried for tried in map(fit, zeros) if (tried[0][:signed] >= 0).all()]
        coefficients, _, remark = min(found, key=lambda tried: tried[1])
        return coefficients @ to_abc, remark

    def _features(self, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The features of a logistic regression, and the matrix that turns its coefficients into (a, b, c)."""
        if self.parameters == "am":
            return np.stack([shown[0] + shown[1], np.ones(shown.shape[1])]), np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        if self.parameters == "ab":
            ln2 = np.log(2)
            return np.stack([shown[0] + ln2, shown[1] - ln2]), np.array([[1.0, 0.0, ln2], [0.0, 1.0, -ln2]])
        return np.stack([*shown, np.ones(shown.shape[1])]), np.eye(3)

    def _read(self, curve: np.ndarray, shown: np.ndarray) -> np.ndarray:
        return expit(curve[0] * shown[0] + curve[1] * shown[1] + curve[2])


def log_rest(sample: Sample, label: int) -> np.ndarray:
    """log(1 - p), from the other classes where p is large: 1 - p would lose its digits there."""
    if sample.n_classes == 2:
        return sample.log_probs[:, 1 - label]
    p = sample.probs[:, label]
    rest = np.log1p(-np.minimum(p, 0.5))
    large = np.flatnonzero(p > 0.5)
    others = np.delete(sample.log_probs[large], label, axis=1)
    top = others.max(axis=1)
    rest[large] = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
    return rest


def logistic_regression(
    features: np.ndarray, targets: np.ndarray, shares: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, float, str]:
    """Coefficients of features [d, n] that minimise the weighted mean log score of targets in [0, 1], that score, and in words
    how it ended. Weights sum to 1.

    Newton's method with Levenberg's damping, in features scaled to at most 1, from `start` or from 0, whichever is better.
    Without any feature the probability is 1/2.
    """
    if len(features) == 0:
        return np.empty(0), float(np.log(2)), ""
    scale = np.maximum(features.max(axis=1), -features.min(axis=1))
    scale[scale == 0] = 1

    def sums(coefficients: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        value, gradient, hessian = logistic_sums(features, targets, shares, coefficients / scale)
        return value, gradient / scale, hessian / np.outer(scale, scale)

    coefficients = start * scale
    value, gradient, hessian = sums(coefficients)
    if value > np.log(2):
        coefficients = 0 * scale
        value, gradient, hessian = sums(coefficients)
    damping = 0.0
    for _ in range(STEPS):
        if np.abs(gradient).max() < SMALL_GRADIENT:
            break
        floor = 1e-14 * np.trace(hessian) + 1e-300
        while damping < 1e20:
            step = np.linalg.solve(hessian + (damping + floor) * np.eye(len(scale)), gradient)
            trial = coefficients - step
            if damping == 0 and gradient @ step < SMALL_DECREMENT * value:
                return trial / scale, value, SEPARATED_WORDS * (value < SEPARATED)
            found = sums(trial)
            if found[0] <= value:
                break
            damping = max(10 * damping, 1e-6 * np.trace(hessian), 1e-12)
        else:
            break  # no step is downhill: rounding has the last word
        done = value - found[0] <= 1e-15 * value
        coefficients, (value, gradient, hessian), damping = trial, found, damping / 10 if damping > 1e-12 else 0.0
        if done:
            break
    else:
        return coefficients / scale, value, UNFINISHED
    return coefficients / scale, value, SEPARATED_WORDS * (value < SEPARATED)
