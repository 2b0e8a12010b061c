"""The identity: keep the original probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.scaled_softmax import keep_argmax
from .base import Calibrator, Sample


class Identity(Calibrator):
    """Keeps the original probabilities: q = p, each row scaled to sum to 1.

    >>> Identity().fit([0.2, 0.7], [0, 1]).predict_proba([0.25])
    array([[0.75, 0.25]])
    """

    accuracy_preserving = True

    def __init__(self, *, from_logits: bool = False, classes: Any = None) -> None:
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "original (uncalibrated)"

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        return True, "nothing to learn"

    def _transform(self, sample: Sample) -> np.ndarray:
        probs = sample.probs.copy()
        keep_argmax(sample.values, probs)
        return probs
