"""Mean replacement, the control that no calibration error can tell from a good calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .base import Calibrator, Sample


class MeanReplacement(Calibrator):
    """The calibration rows' accuracy as everybody's confidence: the most probable class gets it,
    the others share the rest equally (Chidambaram & Ge 2024, section 3, MRR). Its top-label
    calibration error is near 0 and its log score and Brier score are bad, which is the point: use
    it as a control, not to deploy.

    The most probable class stays so while the accuracy is above 1 / K. If it is not, the map is
    still what it says, and the status says that classes change places.

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
            status += f", not above 1/{sample.n_classes}: the most probable class does not stay so"
        return True, status

    def _transform(self, sample: Sample) -> np.ndarray:
        q = np.full(sample.values.shape, (1 - self.accuracy_) / (sample.n_classes - 1))
        q[np.arange(len(sample)), sample.values.argmax(axis=1)] = self.accuracy_
        # Not divided by its sum: everybody has the same confidence, to the last bit.
        return q
