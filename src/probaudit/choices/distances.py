"""Distances: what a gap between mean output and mean target costs (Kirchenbauer et al. 2022,
Section 4.3 and Appendix A.2).

A distance takes mean outputs and mean targets of cells, [m] for a single event or [m, d], and gives
[m] numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_numbers
from ..errors import InputError
from .scores import Brier, Log, Score


class Distance(ABC):
    """A choice of what a gap costs. To write one, subclass and implement `between`."""

    @abstractmethod
    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The distance in each cell."""


def _gap(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Differences, [m, d]."""
    gap = outputs - targets
    return gap[:, None] if gap.ndim == 1 else gap


@dataclass(frozen=True)
class L1(Distance):
    """The sum of absolute differences."""

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.abs(_gap(outputs, targets)).sum(axis=1)


@dataclass(frozen=True)
class TVD(Distance):
    """Total variation: half the sum of absolute differences; for a single event, the absolute
    difference."""

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return L1().between(outputs, targets) / (1 if outputs.ndim == 1 else 2)


@dataclass(frozen=True)
class Lq(Distance):
    """The q-norm of the difference."""

    q: float = 2.0

    def __post_init__(self) -> None:
        if not self.q >= 1:
            raise InputError("q", "must be at least 1", self.q)

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.linalg.norm(_gap(outputs, targets), ord=self.q, axis=1)


@dataclass(frozen=True)
class Squared(Distance):
    """The sum of squared differences: the divergence of the Brier score."""

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return (_gap(outputs, targets) ** 2).sum(axis=1)


@dataclass(frozen=True)
class Divergence(Distance):
    """The divergence of a proper score from mean target to mean output, d(target, output)
    (Chidambaram & Ge 2024, Eq. 4.2)."""

    score: Score

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if outputs.ndim == 1:
            return self.score.one_dimensional().divergence(
                np.clip(targets, 0, 1), np.clip(outputs, 0, 1)
            )
        # of simulated gaps
        if (targets < 0).any() or (np.abs(targets.sum(axis=1) - 1) > 1e-6).any():
            targets = np.clip(targets, 0, None)
            targets = targets / targets.sum(axis=1, keepdims=True)
        return self.score.divergence(targets, outputs)


@dataclass(frozen=True)
class InterInterval(Distance):
    """How far the mean target lies outside [low, high], whatever the output says (Kirchenbauer et
    al. 2022, Eq. 7): for Likert scales."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise InputError("low", "must satisfy 0 <= low <= high <= 1", (self.low, self.high))

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if outputs.ndim != 1:
            raise InputError("distance", "InterInterval needs a lens that shows a single event")
        return np.maximum(0.0, np.maximum(self.low - targets, targets - self.high))


@dataclass(frozen=True)
class IntervalTVD(Distance):
    """Total variation, counted only where the mean target lies outside [low, high]: a tolerance,
    beyond which all counts."""

    low: float
    high: float

    def __post_init__(self) -> None:
        InterInterval(self.low, self.high)

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outside = InterInterval(self.low, self.high).between(outputs, targets) > 0
        return np.where(outside, TVD().between(outputs, targets), 0.0)


@dataclass(frozen=True, eq=False)
class Mahalanobis(Distance):
    """sqrt((g - y) M (g - y)'), M positive semi-definite (Kirchenbauer et al. 2022, Eq. 10-11); a
    vector stands for its diagonal (Eq. 9)."""

    matrix: Any

    def __post_init__(self) -> None:
        matrix = as_numbers(self.matrix, "matrix").astype(np.float64)
        matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(
                "matrix",
                "must be square, or the vector of its diagonal",
                f"has shape {matrix.shape}",
            )
        least = float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min())
        if not least >= -1e-12 * max(1.0, float(np.abs(matrix).max())):
            raise InputError(
                "matrix", "must be positive semi-definite", f"has the eigenvalue {least:.6g}"
            )
        object.__setattr__(self, "matrix", matrix)

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        gap = _gap(outputs, targets)
        if gap.shape[1] != len(self.matrix):
            raise InputError(
                "matrix", f"needs {gap.shape[1]} rows, as many as the lens shows", len(self.matrix)
            )
        return np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", gap, self.matrix, gap), 0.0))


NAMED: dict[str, Distance] = {
    "l1": L1(),
    "tvd": TVD(),
    "l2": Lq(2.0),
    "squared": Squared(),
    "max": Lq(np.inf),
    "brier": Divergence(Brier()),
    "log": Divergence(Log()),
}


def as_distance(distance: str | Distance) -> Distance:
    """A distance by name, or as it is."""
    if isinstance(distance, Distance):
        return distance
    if distance not in NAMED:
        raise InputError(
            "distance", f"must be one of {', '.join(NAMED)} or a Distance", repr(distance)
        )
    return NAMED[distance]
