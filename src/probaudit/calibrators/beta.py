"""Beta calibration."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from ..errors import InputError
from ..kernels.logistic import logistic_sums
from .base import Sample
from .fitting.newton import abreast
from .fitting.softmax_sums import SoftmaxSums
from .fitting.summed import SummedCalibrator, log_scores
from .one_vs_rest import CurvesOneVsRest

STEPS = 100
UNFINISHED = f"did not converge in {STEPS} steps"
SMALL_GRADIENT = 1e-10  # of the mean log loss, for features of at most 1
# relative to the loss; a smaller Newton decrement ends the search, as convergence is quadratic
SMALL_DECREMENT = 1e-9
SEPARATED = 1e-6  # mean log loss below which the classes are separable
SEPARATED_WORDS = "the classes are separable, so the coefficients have no finite optimum"
LN2 = float(np.log(2))
TO_ABC = {  # coefficients of the features times this are (a, b, c)
    "abm": np.eye(3),
    "am": np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "ab": np.array([[1.0, 0.0, LN2], [0.0, 1.0, -LN2]]),
}
Asked = tuple[list[int], np.ndarray]  # which features, and their coefficients
Sums = tuple[float, np.ndarray, np.ndarray]  # mean log loss, gradient, Hessian


class LogisticFit(NamedTuple):
    """Coefficients of a logistic regression, their mean log loss, a remark for the status ("" for
    none), and whether the search converged."""

    coefficients: np.ndarray
    score: float
    remark: str
    converged: bool


class BetaCurve(NamedTuple):
    """The parameters (a, b, c) of a class, a remark for the status, and whether the fit
    converged."""

    curve: np.ndarray
    remark: str
    converged: bool


class BetaCalibration(SummedCalibrator, CurvesOneVsRest):
    """Fits a curve of three parameters to each class against the rest: the calibrated log odds are
    a log p - b log(1 - p) + c.

    This is the calibration map if the scores of hits and of misses follow beta distributions (Kull,
    Silva Filho & Flach 2017, equation 5). The fit is by maximum likelihood.

    parameters : "abm", all three; "am", with a = b (Platt's map of log odds); "ab", with
        c = (a - b) log 2, so that 1/2 stays 1/2.
    monotone : require a, b >= 0, so that the curve never decreases. If a maximum-likelihood
        estimate is negative, it is set to 0, the others are refitted, and the best such fit is
        used. betacal does so for "abm" only.

    Newton's method with damping starts from the identity a = b = 1, c = 0. With more than two
    classes, the identity is used if the normalised probabilities have a worse log loss.

    >>> P, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 0, 1, 0, 1]
    >>> BetaCalibration(parameters="am").fit(P, y).curves_[0].round(3).tolist()
    [0.34, 0.34, -0.0]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"curves_": [(3,)]}
    _plain = "converged"

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

    def words(self) -> str:
        return "beta calibration"

    def _check_choices(self) -> None:
        if self.parameters not in ("abm", "ab", "am"):
            raise InputError(
                "parameters", "must be one of 'abm', 'ab', 'am'", repr(self.parameters)
            )

    def _inputs(self, sample: Sample, label: int) -> np.ndarray:
        """[2, n]: log p and -log(1 - p)."""
        return np.stack([sample.log_probs[:, label], -log_rest(sample, label)])

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        labels = [1] if rows.classes == 2 else rows.present.tolist()
        fits: dict[int, BetaCurve] = {}
        # features in memory take no more space than the outputs
        at_once = len(labels) if rows.reread else max(1, rows.classes // 3)
        for start in range(0, len(labels), at_once):
            fits |= self._curves(rows, labels[start : start + at_once])
        status = self._keep({label: (fit.curve, fit.remark) for label, fit in fits.items()})
        # A single curve is never worse than the identity, as the problem is convex. Several curves
        # can be, after normalisation.
        if rows.classes > 2:
            before, after = log_scores(rows, self._transform)
            if after > before:
                self.curves_ = [
                    np.array([1.0, 1.0, 0.0]) if curve.size else curve for curve in self.curves_
                ]
                return True, "identity: no fit improves the log loss"
        return all(fit.converged for fit in fits.values()), status

    def _curves(self, rows: SoftmaxSums, labels: list[int]) -> dict[int, BetaCurve]:
        """The curves of some classes. Their searches share passes over the rows."""
        views = rows.viewed_as(partial(LogisticRows, self))
        scales = np.max(views.each(partial(largest_features, labels)), axis=0)
        scales[scales == 0] = 1

        def answer(asked: dict[int, Asked]) -> dict[int, Sums]:
            sums = [total / rows.weight for total in views.sums(partial(logistic_sums_of, asked))]
            return {
                label: (float(v), g, h)
                for label, v, g, h in zip(asked, sums[::3], sums[1::3], sums[2::3], strict=True)
            }

        return abreast(
            {label: self._curve(scale) for label, scale in zip(labels, scales, strict=True)}, answer
        )

    def _curve(self, scale: np.ndarray) -> Generator[Asked, Sums, BetaCurve]:
        """The search for a curve. `scale` has the largest absolute value of each feature."""
        to_abc = TO_ABC[self.parameters]
        # the first `signed` coefficients must not be negative
        signed = 1 if self.parameters == "am" else 2
        identity = np.array([1.0] * signed + [0.0] * (len(scale) - signed))

        def fit(zeros: tuple[int, ...]) -> Generator[Asked, Sums, LogisticFit]:
            kept = [i for i in range(len(scale)) if i not in zeros]
            coefficients = np.zeros(len(scale))
            free = yield from logistic_regression(kept, scale[kept], identity[kept])
            coefficients[kept] = free.coefficients
            dropped = [
                f"{name} would be negative and is 0"
                for i, name in enumerate("ab"[:signed])
                if i in zeros
            ]
            remark = ", ".join(dropped + [free.remark] * (free.remark != ""))
            return LogisticFit(coefficients, free.score, remark, free.converged)

        fits = [(yield from fit(()))]
        if self.monotone and (fits[0].coefficients[:signed] < 0).any():
            fits = []
            for zeros in (
                chosen
                for size in range(1, signed + 1)
                for chosen in combinations(range(signed), size)
            ):
                constrained = yield from fit(zeros)
                if (constrained.coefficients[:signed] >= 0).all():
                    fits.append(constrained)
        best = min(fits, key=lambda one: one.score)
        return BetaCurve(best.coefficients @ to_abc, best.remark, best.converged)

    def _features(self, sample: Sample, label: int) -> np.ndarray:
        """The features of a logistic regression; TO_ABC maps its coefficients to (a, b, c)."""
        inputs = self._inputs(sample, label)
        if self.parameters == "am":
            return np.stack([inputs[0] + inputs[1], np.ones(inputs.shape[1])])
        if self.parameters == "ab":
            return np.stack([inputs[0] + LN2, inputs[1] - LN2])
        return np.stack([*inputs, np.ones(inputs.shape[1])])

    def _apply(self, curve: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return expit(curve[0] * inputs[0] + curve[1] * inputs[1] + curve[2])


def log_rest(sample: Sample, label: int) -> np.ndarray:
    """log(1 - p). If p is large, it is computed from the other classes, as 1 - p loses digits."""
    if sample.n_classes == 2:
        return sample.log_probs[:, 1 - label]
    p = sample.probs[:, label]
    rest = np.log1p(-np.minimum(p, 0.5))
    large = np.flatnonzero(p > 0.5)
    others = np.delete(sample.log_probs[large], label, axis=1)
    top = others.max(axis=1)
    rest[large] = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
    return rest


@dataclass(eq=False)
class LogisticRows:
    """Rows as features of logistic regressions, one per class, computed on demand."""

    calibrator: BetaCalibration
    sample: Sample
    _made: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)
    _targets: dict[int, np.ndarray] = field(default_factory=dict)

    def of(self, label: int, kept: list[int] | None = None) -> np.ndarray:
        """The features of a class, [d, n]; with `kept`, only those rows of the table."""
        key = (label, *(kept or ()))
        if key not in self._made:
            self._made[key] = (
                self.calibrator._features(self.sample, label)
                if kept is None
                else self.of(label)[kept]
            )
        return self._made[key]

    def targets(self, label: int) -> np.ndarray:
        """1 for rows of the class, else 0."""
        if label not in self._targets:
            self._targets[label] = (self.sample.codes == label).astype(np.float64)
        return self._targets[label]


def largest_features(labels: list[int], rows: LogisticRows) -> np.ndarray:
    """The largest absolute value of each feature of each class, [classes, d]."""
    return np.stack(
        [np.maximum(rows.of(label).max(axis=1), -rows.of(label).min(axis=1)) for label in labels]
    )


def logistic_sums_of(asked: dict[int, Asked], rows: LogisticRows) -> list[np.ndarray]:
    """The loss, its gradient and its Hessian, for one requested class after the other."""
    sums: list[np.ndarray] = []
    for label, (kept, coefficients) in asked.items():
        features = rows.of(label)
        features = features if len(kept) == len(features) else rows.of(label, kept)
        value, gradient, hessian = logistic_sums(
            features, rows.targets(label), rows.sample.weights, coefficients
        )
        sums += [np.array(value), gradient, hessian]
    return sums


def logistic_regression(
    kept: list[int], scale: np.ndarray, start: np.ndarray
) -> Generator[Asked, Sums, LogisticFit]:
    """The search for the coefficients that minimise the mean log loss.

    Newton's method with Levenberg-Marquardt damping, for features scaled to at most 1. It starts
    from `start` or from 0, whichever is better. Without features the probability is 1/2.
    """
    if len(scale) == 0:
        return LogisticFit(np.empty(0), float(np.log(2)), "", converged=True)

    def sums(coefficients: np.ndarray) -> Generator[Asked, Sums, Sums]:
        value, gradient, hessian = yield kept, coefficients / scale
        return value, gradient / scale, hessian / np.outer(scale, scale)

    coefficients = start * scale
    value, gradient, hessian = yield from sums(coefficients)
    if value > np.log(2):
        coefficients = 0 * scale
        value, gradient, hessian = yield from sums(coefficients)
    damping = 0.0
    for _ in range(STEPS):
        if np.abs(gradient).max() < SMALL_GRADIENT:
            break
        floor = 1e-14 * np.trace(hessian) + 1e-300
        while damping < 1e20:
            step = np.linalg.solve(hessian + (damping + floor) * np.eye(len(scale)), gradient)
            trial = coefficients - step
            if damping == 0 and gradient @ step < SMALL_DECREMENT * value:
                remark = SEPARATED_WORDS * (value < SEPARATED)
                return LogisticFit(trial / scale, value, remark, converged=True)
            at_trial = yield from sums(trial)
            if at_trial[0] <= value:
                break
            damping = max(10 * damping, 1e-6 * np.trace(hessian), 1e-12)
        else:
            break  # no step reduces the loss: rounding limits the search
        done = value - at_trial[0] <= 1e-15 * value
        coefficients, (value, gradient, hessian) = trial, at_trial
        damping = damping / 10 if damping > 1e-12 else 0.0
        if done:
            break
    else:
        return LogisticFit(coefficients / scale, value, UNFINISHED, converged=False)
    remark = SEPARATED_WORDS * (value < SEPARATED)
    return LogisticFit(coefficients / scale, value, remark, converged=True)
