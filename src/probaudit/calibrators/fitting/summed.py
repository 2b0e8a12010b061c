"""Calibrators whose fit needs only sums over rows, which may be in memory, in files or on a
cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from ..base import ROUNDING, WORSE, Calibrator, FitReport, Sample, log_score
from .softmax_sums import SoftmaxRows, SoftmaxSums


class SummedCalibrator(Calibrator):
    """Base of the calibrators that can be fitted in passes. A subclass implements `_solve`, which
    learns from sums, or `learn` if its search also gives the log loss before and after."""

    @abstractmethod
    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        """Learn from rows. Returns whether the fit converged, and its status in words."""

    def _check_choices(self) -> None:
        """Raise if an option is invalid."""

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        self._check_choices()
        return super()._learning_sample(P, y, sample_weight)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        self._check_choices()
        return self._solve(SoftmaxRows(sample))

    def fit(self, P: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from outputs and true classes."""
        self.fit_report_ = self.learn(SoftmaxRows(self._learning_sample(P, y, sample_weight)))
        return self

    def learn(self, rows: SoftmaxSums) -> FitReport:
        """Learn from rows, and report the outcome."""
        converged, status = self._solve(rows)
        before, after = log_scores(rows, self._transform)
        return FitReport(
            converged,
            f"{status}; {WORSE}" if after > before + ROUNDING else status,
            before,
            after,
            rows.n,
        )


def log_scores(
    rows: SoftmaxSums, calibrated: Callable[[Sample], np.ndarray]
) -> tuple[float, float]:
    """The mean log loss of rows before and after calibration."""
    (sums,) = rows.viewed_as(original_rows).sums(partial(_score_sums, calibrated))
    before, after = (sums / rows.weight).tolist()
    return before, after


def original_rows(sample: Sample) -> Sample:
    return sample


def _score_sums(calibrated: Callable[[Sample], np.ndarray], sample: Sample) -> list[np.ndarray]:
    weight = sample.weights.sum()
    return [
        weight * np.array([log_score(sample.probs, sample), log_score(calibrated(sample), sample)])
    ]
