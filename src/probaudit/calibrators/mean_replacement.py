"""Mean replacement: a control that calibration errors cannot distinguish from a good calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .base import Calibrator, Sample


class MeanReplacement(Calibrator):
    """Replaces every confidence by the accuracy a of the calibration rows.

    The most probable class gets a, and each other class (1 - a) / (K - 1) (mean replacement
    recalibration, MRR; Chidambaram & Ge 2024, section 3). The top-label calibration error is near
    0, but the log loss and the Brier score are poor. Use it as a control, not in production.

    The most probable class changes only if the accuracy is at most 1 / K; the status then says so.

    >>> P, y = [[0.6, 0.4], [0.7, 0.3], [0.3, 0.7], [0.4, 0.6]], [0, 1, 1, 1]
    >>> MeanReplacement().fit(P, y).predict_proba([[0.9, 0.1]]).tolist()
    [[0.75, 0.25]]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"accuracy_": float}
    accuracy_: float

    def __init__(self, *, from_logits: bool = False, classes: Any = None) -> None:
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "mean replacement"

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        right = sample.values.argmax(axis=1) == sample.codes
        self.accuracy_ = float(sample.weights[right].sum() / sample.weights.sum())
        status = f"accuracy {self.accuracy_:.4g}"
        if self.accuracy_ <= 1 / sample.n_classes:
            status += f", not above 1/{sample.n_classes}: the most probable class changes"
        return True, status

    def _transform(self, sample: Sample) -> np.ndarray:
        q = np.full(sample.values.shape, (1 - self.accuracy_) / (sample.n_classes - 1))
        q[np.arange(len(sample)), sample.values.argmax(axis=1)] = self.accuracy_
        # Not divided by the row sum: all rows have the same confidence, to the last bit.
        return q
