"""Distances between the mean output and the mean target of a cell (Kirchenbauer et al. 2022,
Section 4.3 and Appendix A.2).

A distance maps mean outputs and mean targets, [m] for a single event or [m, d], to [m] numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..data.arrays import as_numbers
from ..errors import Argument, InputError, nearest
from .scores import Brier, Log, Score


class Distance(ABC):
    """Base class of distances. A subclass implements `between`, and `words` for reports.

    side : 1 if only outputs above the target count, -1 if only those below it, else 0.
    """

    side: ClassVar[int] = 0

    @abstractmethod
    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The distance in each cell."""

    def words(self) -> str:
        """A plain-English description; the code of the distance unless a subclass has one."""
        return repr(self)


def _difference(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Output minus target, as a matrix [m, d]."""
    gap = outputs - targets
    return gap[:, None] if gap.ndim == 1 else gap


@dataclass(frozen=True)
class L1(Distance):
    """The sum of absolute differences."""

    def words(self) -> str:
        return "absolute difference"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.abs(_difference(outputs, targets)).sum(axis=1)


@dataclass(frozen=True)
class Over(Distance):
    """How far the mean output lies above the mean target, else 0: the part of `L1()` that is due to
    overconfidence, or to risks that are too high. Errors by `Over()` and `Under()` sum to the error
    by `L1()`.

    >>> outputs, targets = np.array([0.5, 0.75]), np.array([0.25, 1.0])
    >>> Over().between(outputs, targets), Under().between(outputs, targets)
    (array([0.25, 0.  ]), array([0.  , 0.25]))
    """

    side: ClassVar[int] = 1

    def words(self) -> str:
        return "excess of the output over the rate"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _excess(self, outputs - targets)


@dataclass(frozen=True)
class Under(Distance):
    """How far the mean output lies below the mean target, else 0: underconfidence, or risks that
    are too low. See `Over`."""

    side: ClassVar[int] = -1

    def words(self) -> str:
        return "excess of the rate over the output"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _excess(self, targets - outputs)


def _excess(distance: Distance, gap: np.ndarray) -> np.ndarray:
    if gap.ndim != 1:
        rule = f"{distance!r} requires a lens of single events, such as TopLabel()"
        raise InputError("distance", rule)
    return np.maximum(gap, 0.0)


@dataclass(frozen=True)
class TVD(Distance):
    """Total variation: half the sum of absolute differences; for a single event, the absolute
    difference."""

    def words(self) -> str:
        return "total variation"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return L1().between(outputs, targets) / (1 if outputs.ndim == 1 else 2)


@dataclass(frozen=True)
class Lq(Distance):
    """The q-norm of the difference."""

    q: float = 2.0

    def __post_init__(self) -> None:
        if not self.q >= 1:
            raise InputError("q", "must be at least 1", self.q)

    def words(self) -> str:
        return "largest difference" if np.isinf(self.q) else f"{self.q:g}-norm of the difference"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.linalg.norm(_difference(outputs, targets), ord=self.q, axis=1)


@dataclass(frozen=True)
class Squared(Distance):
    """The sum of squared differences: the divergence of the Brier score."""

    def words(self) -> str:
        return "squared difference"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return (_difference(outputs, targets) ** 2).sum(axis=1)


@dataclass(frozen=True)
class Divergence(Distance):
    """The divergence of a proper score from mean target to mean output, d(target, output)
    (Chidambaram & Ge 2024, Eq. 4.2)."""

    score: Score

    def words(self) -> str:
        return f"divergence of the {self.score.words()}"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if outputs.ndim == 1:
            return self.score.one_dimensional().divergence(
                np.clip(targets, 0, 1), np.clip(outputs, 0, 1)
            )
        # Simulated targets may leave the simplex.
        if (targets < 0).any() or (np.abs(targets.sum(axis=1) - 1) > 1e-6).any():
            targets = np.clip(targets, 0, None)
            targets = targets / targets.sum(axis=1, keepdims=True)
        return self.score.divergence(targets, outputs)


@dataclass(frozen=True)
class InterInterval(Distance):
    """How far the mean target lies outside [low, high], whatever the mean output (Kirchenbauer et
    al. 2022, Eq. 7). For Likert scales."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise InputError("low", "must satisfy 0 <= low <= high <= 1", (self.low, self.high))

    def words(self) -> str:
        return f"distance from the interval {self.low:g} to {self.high:g}"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if outputs.ndim != 1:
            raise InputError(
                "distance", "InterInterval requires a lens with a single event, such as TopLabel()"
            )
        return np.maximum(0.0, np.maximum(self.low - targets, targets - self.high))


@dataclass(frozen=True)
class IntervalTVD(Distance):
    """Total variation where the mean target lies outside [low, high], else 0. The interval is a
    tolerance."""

    low: float
    high: float

    def __post_init__(self) -> None:
        InterInterval(self.low, self.high)

    def words(self) -> str:
        return f"total variation outside the interval {self.low:g} to {self.high:g}"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outside = InterInterval(self.low, self.high).between(outputs, targets) > 0
        return np.where(outside, TVD().between(outputs, targets), 0.0)


@dataclass(frozen=True, eq=False)
class Mahalanobis(Distance):
    """sqrt((g - y) M (g - y)'), M positive semi-definite (Kirchenbauer et al. 2022, Eq. 10-11). A
    vector is taken as the diagonal of M (Eq. 9)."""

    matrix: Any

    def __post_init__(self) -> None:
        matrix = as_numbers(self.matrix, "matrix").astype(np.float64)
        matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(
                "matrix",
                "must be a square matrix, or the vector of its diagonal",
                f"has shape {matrix.shape}",
            )
        least = float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min())
        if not least >= -1e-12 * max(1.0, float(np.abs(matrix).max())):
            raise InputError(
                "matrix", "must be positive semi-definite", f"has the eigenvalue {least:.6g}"
            )
        object.__setattr__(self, "matrix", matrix)

    def words(self) -> str:
        return "Mahalanobis distance"

    def between(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        gap = _difference(outputs, targets)
        if gap.shape[1] != len(self.matrix):
            raise InputError(
                "matrix",
                f"must have one row for each of the {gap.shape[1]} outputs of the lens",
                len(self.matrix),
            )
        return np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", gap, self.matrix, gap), 0.0))


# The distances that have a name. To register another one, add it here.
NAMED: dict[str, Distance] = {
    "l1": L1(),
    "tvd": TVD(),
    "l2": Lq(2.0),
    "squared": Squared(),
    "max": Lq(np.inf),
    "brier": Divergence(Brier()),
    "log": Divergence(Log()),
    "over": Over(),
    "under": Under(),
}


def as_distance(distance: str | Distance) -> Distance:
    """The distance of a name; a `Distance` is returned unchanged."""
    if isinstance(distance, Distance):
        return distance
    if distance not in NAMED:
        rule = f"must be one of {', '.join(NAMED)} or a Distance"
        way_out = nearest(str(distance), NAMED) or ("pass ", Argument("distance", '"l1"'))
        raise InputError("distance", rule, repr(distance), way_out=way_out)
    return NAMED[distance]
