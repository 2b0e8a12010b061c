"""One class against the rest: a curve for the probability of each class, then normalisation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .base import Calibrator, Sample

CERTAIN = "some probabilities are exactly 0 or 1, so that new rows can have an infinite log loss"


def by_output(
    outputs: np.ndarray, hits: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of one event, sorted by their output in [0, 1]. A hit is the weight of the row, a
    miss 0.

    If all weights are equal, whether a row is a hit becomes the lowest bit of an integer, below the
    bits of its output, whose upper two are always 0. Sorting these integers is several times as
    fast as an argsort.
    """
    if (weights == weights[0]).all() and ((hits == 0) | (hits == weights)).all():
        keys = np.sort(((outputs + 0.0).view(np.int64) << 1) | (hits > 0))
        return (keys >> 1).view(np.float64), np.where(keys & 1, weights[0], 0.0), weights
    order = np.argsort(outputs)
    return outputs[order], hits[order], weights[order]


def share_out(q: np.ndarray, probs: np.ndarray, unseen: list[int]) -> np.ndarray:
    """Rows of `q` scaled to sum to 1. Unseen classes keep their probabilities, and the others share
    the rest in proportion to `q`.

    A row keeps its probabilities if `q` is 0 for all seen classes.
    """
    q[:, unseen] = 0
    total = q.sum(axis=1, keepdims=True)
    if not unseen and total.all():
        return q / total
    rest = 1 - probs[:, unseen].sum(axis=1, keepdims=True).clip(max=1)
    shared = np.where(total > 0, q * (rest / np.where(total > 0, total, 1)), probs)
    shared[:, unseen] = probs[:, unseen]
    return shared / shared.sum(axis=1, keepdims=True)


class CurvesOneVsRest(Calibrator):
    """A calibration curve for each class against the rest; rows are then scaled to sum to 1
    (Zadrozny & Elkan 2002). With two classes, the second has a curve and the first gets the
    remainder. A class without rows has no curve and keeps its probabilities.

    A subclass learns a curve for each class, passes the curves to `_keep`, and implements `_apply`,
    which applies one. `_inputs` gives the input of a curve.
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"curves_": [(2, None)]}
    _plain: ClassVar[str] = "solved exactly"  # the status without remarks
    # one for each class, empty for a class without rows; with two classes only that of the second
    curves_: list[np.ndarray]

    @abstractmethod
    def _apply(self, curve: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Probabilities of the class."""

    def _inputs(self, sample: Sample, label: int) -> np.ndarray:
        return np.ascontiguousarray(sample.probs[:, label])

    def _keep(self, curves: Mapping[int, tuple[np.ndarray, str]]) -> str:
        """Store the curves; returns their remarks as a status."""
        self.curves_ = []
        remarks: dict[str, list[str]] = {}
        for label in [1] if len(self.classes_) == 2 else range(len(self.classes_)):
            curve, remark = curves.get(label, (np.empty(0), "no rows, probabilities kept"))
            self.curves_.append(curve)
            if remark:
                remarks.setdefault(remark, []).append(str(self.classes_[label]))
        words = (
            f"class {', '.join(labels[:5])}{' ...' * (len(labels) > 5)}: {r}"
            for r, labels in remarks.items()
        )
        return "; ".join(words) or self._plain

    def _check_learned(self) -> None:
        two = len(self.classes_) == 2
        if len(self.curves_) != (1 if two else len(self.classes_)) or (
            two and self.curves_[0].size == 0
        ):
            raise ValueError(
                "curves_ must have a curve for each class, or with two classes for the second only"
            )
        super()._check_learned()

    def _transform(self, sample: Sample) -> np.ndarray:
        if sample.n_classes == 2:
            q = self._apply(self.curves_[0], self._inputs(sample, 1))
            return np.column_stack([1 - q, q])
        unseen = [label for label, curve in enumerate(self.curves_) if curve.size == 0]
        q = np.zeros(sample.values.shape)
        for label, curve in enumerate(self.curves_):
            if curve.size:
                q[:, label] = self._apply(curve, self._inputs(sample, label))
        return share_out(q, sample.probs, unseen)


class OneVsRestCalibrator(CurvesOneVsRest):
    """A subclass implements `_curve`, which learns from the rows of one event and returns a curve
    and a remark for the status ("" for none)."""

    @abstractmethod
    def _curve(
        self, inputs: np.ndarray, hits: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, str]:
        """A curve from outputs, the weights of hits (0 for misses), and weights."""

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        curves = {}
        for label in [1] if sample.n_classes == 2 else range(sample.n_classes):
            hits = np.where(sample.codes == label, sample.weights, 0.0)
            if hits.any():
                curves[label] = self._curve(self._inputs(sample, label), hits, sample.weights)
        return True, self._keep(curves)
