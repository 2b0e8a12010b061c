"""Isotonic regression: one class at a time, or all coordinates together; and what one-vs-rest calibrators share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import InputError
from ..kernels.pooling import pool_adjacent_violators, read_curve
from .base import Calibrator, Sample

MOST_ROWS = 2.0**53
CERTAIN = "some probabilities are exactly 0 or 1, new rows can have an infinite log score"


def as_repeats(sample: Sample, sample_weight: Any) -> Sample:
    """The same rows with weights that count rows: as they came, or scaled up to a mean of 1 if that is larger.

    What depends on how many rows there are (pseudo-counts, numbers of bins, priors) needs it.
    """
    if sample_weight is None:
        return sample
    with np.errstate(over="ignore"):
        total = float(np.asarray(sample_weight, np.float64).sum())
    total = min(max(total, float(len(sample))), MOST_ROWS)
    return replace(sample, weights=sample.weights * (total / sample.weights.sum()))


def by_output(outputs: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one event sorted by output in [0, 1]; hits are the weight of the row or 0.

    If all weights are equal, whether a row is a hit goes into a bit below its output's own, which leave two free above: a
    plain sort of integers then is several times as fast as one of row numbers.
    """
    if (weights == weights[0]).all():
        keys = np.sort(((outputs + 0.0).view(np.int64) << 1) | (hits > 0))
        return (keys >> 1).view(np.float64), np.where(keys & 1, weights[0], 0.0), weights
    order = np.argsort(outputs)
    return outputs[order], hits[order], weights[order]


def share_out(q: np.ndarray, probs: np.ndarray, unseen: list[int]) -> np.ndarray:
    """Rows of `q` scaled to sum to 1. Unseen classes keep their probabilities, the others share the rest as `q` has it.

    Where `q` gives nothing to any of them, the row stays as it was.
    """
    q[:, unseen] = 0
    total = q.sum(axis=1, keepdims=True)
    if not unseen and total.all():
        return q / total
    rest = 1 - probs[:, unseen].sum(axis=1, keepdims=True).clip(max=1)
    shared = np.where(total > 0, q * (rest / np.where(total > 0, total, 1)), probs)
    shared[:, unseen] = probs[:, unseen]
    return shared / shared.sum(axis=1, keepdims=True)


class OneVsRestCalibrator(Calibrator):
    """A curve from each class's probability to a better one, fitted for that class against the rest; rows are then scaled to
    sum to 1 (Zadrozny & Elkan 2002). Of two classes the second has a curve and the first gets the remainder. A class without
    rows has no curve: it keeps its probabilities.

    A subclass implements `_curve`, which learns numbers from one event and says in words what is special about them (or
    nothing), and `_read`, which applies them. `_shown` says what they see of a class.
    """

    _fitted: ClassVar[tuple[str, ...]] = ("curves_",)
    curves_: list[np.ndarray]  # one for each class, empty for a class without rows; of two classes only the second's

    @abstractmethod
    def _curve(self, shown: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, str]:
        """What is learned from outputs, weights of rows of the class (else 0), and weights."""

    @abstractmethod
    def _read(self, curve: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Probabilities of the class."""

    def _shown(self, sample: Sample, label: int) -> np.ndarray:
        return np.ascontiguousarray(sample.probs[:, label])

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        return as_repeats(super()._learning_sample(P, y, sample_weight), sample_weight)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        self.curves_ = []
        remarks: dict[str, list[str]] = {}
        for label in [1] if sample.n_classes == 2 else range(sample.n_classes):
            hits = np.where(sample.codes == label, sample.weights, 0.0)
            if hits.any():
                curve, remark = self._curve(self._shown(sample, label), hits, sample.weights)
            else:
                curve, remark = np.empty(0), "no rows, probabilities kept"
            self.curves_.append(curve)
            if remark:
                remarks.setdefault(remark, []).append(str(self.classes_[label]))
        return True, "; ".join(
            f"class {', '.join(labels[:5])}{' ...' * (len(labels) > 5)}: {r}" for r, labels in remarks.items()
        )

    def _transform(self, sample: Sample) -> np.ndarray:
        if sample.n_classes == 2:
            q = self._read(self.curves_[0], self._shown(sample, 1))
            return np.column_stack([1 - q, q])
        unseen = [label for label, curve in enumerate(self.curves_) if curve.size == 0]
        q = np.zeros(sample.values.shape)
        for label, curve in enumerate(self.curves_):
            if curve.size:
                q[:, label] = self._read(curve, self._shown(sample, label))
        return share_out(q, sample.probs, unseen)

    def _finish(self, sample: Sample, converged: bool, status: str) -> Self:
        super()._finish(sample, converged, status or "solved exactly")
        return say_if_worse(self)


def say_if_worse(calibrator: Any) -> Any:
    """Adds to the status that the mean log score of the calibration rows rose, if it did."""
    report = calibrator.fit_report_
    if report.score_after > report.score_before:
        calibrator.fit_report_ = replace(report, status=f"{report.status}; the log score of these rows got worse")
    return calibrator


class IsotonicCalibration(OneVsRestCalibrator):
    """The non-decreasing curve nearest to the labels, by pooling adjacent violators (Ayer et al. 1955; Zadrozny & Elkan 2002).

    Of two classes it is best among all non-decreasing curves for every proper score at once (Brümmer 2010). Equal outputs are
    pooled first. Between pools it is linear, outside the outputs seen it is constant.

    finite : a pool without hits gets probability 0, and one unseen hit there costs an infinite log score. With `finite`, one
        hit and one miss more are counted at the lowest output seen and again at the highest, so that a pool of n misses gets
        1 / (n + 2), Laplace's rule, and the curve still does not decrease. Off by default: the curve is then the one that
        other packages fit, and the status says whether there are such pools.

    >>> IsotonicCalibration().fit([0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 0, 1, 1]).predict_proba([0.2, 0.35, 0.9])[:, 1].round(3)
    array([0.5 , 0.75, 1.  ])
    """

    def __init__(self, *, finite: bool = False, from_logits: bool = False, classes: Any = None) -> None:
        self.finite = finite
        self.from_logits = from_logits
        self.classes = classes

    def _curve(self, shown: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, str]:
        if self.finite:
            shown = np.append(shown, [shown.min(), shown.max()])
            hits, weights = np.append(hits, [1.0, 1.0]), np.append(weights, [2.0, 2.0])
        knots = pool_adjacent_violators(*by_output(shown, hits, weights))
        certain = knots[1, 0] == 0 or knots[1, -1] == 1
        return knots, CERTAIN if certain else ""

    def _read(self, curve: np.ndarray, shown: np.ndarray) -> np.ndarray:
        return read_curve(curve, shown)


class IRM(Calibrator):
    """Isotonic regression for many classes: one non-decreasing curve for the probabilities of all classes together, fitted to
    all n K pairs of a probability and whether its class was the true one; rows are then scaled to sum to 1 (Zhang et al. 2020,
    Mix-n-Match, section 3.3).

    strict : mix the curve with the identity, (1 - epsilon) curve + epsilon p. It then increases strictly, so that no two
        classes change places. Where rounding makes the most probable class equal to another, it is raised to the next
        floating-point number: the argmax is the same for every row. In the paper's code it is not (see paper 4, footnote 3).
    epsilon : the identity's share, if strict.

    >>> P = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]
    >>> IRM(strict=False).fit(P, [0, 1, 1, 2]).predict_proba([[0.6, 0.3, 0.1]]).round(3).tolist()
    [[0.5, 0.5, 0.0]]
    """

    _fitted: ClassVar[tuple[str, ...]] = ("knots_",)
    knots_: np.ndarray

    def __init__(self, *, strict: bool = True, epsilon: float = 1e-3, from_logits: bool = False, classes: Any = None) -> None:
        self.strict = strict
        self.epsilon = epsilon
        self.from_logits = from_logits
        self.classes = classes

    @property
    def accuracy_preserving(self) -> bool:  # type: ignore[override]
        return self.strict

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        if self.strict and not 0 < self.epsilon <= 1:
            raise InputError("epsilon", "must be above 0 and at most 1", self.epsilon)
        hits = np.zeros(sample.values.shape)
        hits[np.arange(len(sample)), sample.codes] = sample.weights
        outputs = sample.probs.ravel()
        weights = np.repeat(sample.weights, sample.n_classes)
        self.knots_ = pool_adjacent_violators(*by_output(outputs, hits.ravel(), weights))
        return True, CERTAIN if not self.strict and self.knots_[1, 0] == 0 else "solved exactly"

    def _transform(self, sample: Sample) -> np.ndarray:
        curve = read_curve(self.knots_, sample.probs.ravel()).reshape(sample.values.shape)
        if not self.strict:
            return share_out(curve, sample.probs, [])
        q = (1 - self.epsilon) * curve + self.epsilon * sample.probs
        q /= q.sum(axis=1, keepdims=True)
        return keep_argmax(q, sample.values)

    def _finish(self, sample: Sample, converged: bool, status: str) -> Self:
        super()._finish(sample, converged, status)
        return say_if_worse(self)


def keep_argmax(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Raise the class that came first in `values` above the others of its row where it no longer comes first in `q`."""
    top = values.argmax(axis=1)
    moved = np.flatnonzero(q.argmax(axis=1) != top)
    q[moved, top[moved]] = np.nextafter(q[moved].max(axis=1), 2)
    return q
