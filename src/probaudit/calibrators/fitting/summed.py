"""Calibrators whose fit needs sums over rows alone: the rows may be in memory, in files or on a
cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from ..base import ROUNDING, WORSE, Calibrator, FitReport, Sample, log_score
from .tempered import TemperedRows, TemperedSums


class SummedCalibrator(Calibrator):
    """A subclass implements `_solve`, which learns from sums, or `learn`, if it knows the scores
    before and after as well."""

    @abstractmethod
    def _solve(self, rows: TemperedSums) -> tuple[bool, str]:
        """Learn from rows; whether it came to rest, and how, in words."""

    def _check_choices(self) -> None:
        """Raise if a choice is not one of those there are."""

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        self._check_choices()
        return super()._learning_sample(P, y, sample_weight)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        self._check_choices()
        return self._solve(TemperedRows(sample))

    def fit(self, P: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from outputs and true classes."""
        self.fit_report_ = self.learn(TemperedRows(self._learning_sample(P, y, sample_weight)))
        return self

    def learn(self, rows: TemperedSums) -> FitReport:
        """Learn from rows, and say what became of it."""
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
    rows: TemperedSums, calibrated: Callable[[Sample], np.ndarray]
) -> tuple[float, float]:
    """The mean log score of rows as they came, and of what is made of them."""
    (sums,) = rows.seen_as(as_they_are).sums(partial(_score_sums, calibrated))
    before, after = (sums / rows.weight).tolist()
    return before, after


def as_they_are(sample: Sample) -> Sample:
    return sample


def _score_sums(calibrated: Callable[[Sample], np.ndarray], sample: Sample) -> list[np.ndarray]:
    weight = sample.weights.sum()
    return [
        weight * np.array([log_score(sample.probs, sample), log_score(calibrated(sample), sample)])
    ]
