"""Proper scoring rules: each with its per-row score, entropy, divergence, base-rate forecast and
1-D counterpart.

A score S(q, y) is the loss of a forecast q when class y occurs; lower is better. Its entropy H(p) =
sum_c p_c S(p, c) is the expected score of the forecast p when p is true. Its divergence d(p, q) =
sum_c p_c S(q, c) - H(p) >= 0 is the expected loss of forecasting q instead (Ferrer & Ramos 2025,
Sections 2.3 and 2.5; Chidambaram & Ge 2024, Section 4). Forecasts are arrays [..., K].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_numbers
from ..errors import Argument, InputError, nearest


class Score(ABC):
    """A proper scoring rule."""

    name: str

    @abstractmethod
    def by_class(self, forecast: np.ndarray) -> np.ndarray:
        """S(q, c) for every class c: [..., K] for forecasts [..., K]."""

    def score(self, forecast: Any, labels: Any) -> np.ndarray:
        """S(q_i, y_i) for each row; labels are column numbers."""
        table = self.by_class(as_numbers(forecast, "forecast"))
        return np.take_along_axis(table, np.asarray(labels, np.int64)[..., None], axis=-1)[..., 0]

    def entropy(self, p: Any) -> np.ndarray:
        """H(p), the expected score of forecasting p when p is true."""
        p = as_numbers(p, "p")
        return _expectation(p, self.by_class(p))

    def divergence(self, p: Any, q: Any) -> np.ndarray:
        """d(p, q), the expected loss of forecasting q when p is true."""
        p, q = as_numbers(p, "p"), as_numbers(q, "q")
        return _expectation(p, self.by_class(q)) - self.entropy(p)

    def naive(self, priors: Any) -> np.ndarray:
        """The base-rate forecast: the class frequencies (Ferrer & Ramos 2025, Section 2.3.2)."""
        return as_numbers(priors, "priors")

    def words(self) -> str:
        """A plain-English name; `name` unless a subclass has one."""
        return self.name

    def one_dimensional(self) -> OneDimensional:
        """The counterpart for the confidence alone, phi in Chidambaram & Ge 2024, Section 4.1."""
        raise InputError("score", "must be Log, Brier or a two-class Cost", self.name)


def _expectation(p: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """sum_c p_c S_c. A class of probability 0 contributes 0, even if its score is infinite."""
    return np.where(p > 0, p * np.where(p > 0, scores, 0.0), 0.0).sum(axis=-1)


@dataclass(frozen=True)
class OneDimensional:
    """A score for a single probability: phi is its convex generator, divergence the Bregman
    divergence of phi.

    >>> float(Brier().one_dimensional().divergence(0.9, 0.7).round(12))
    0.04
    """

    name: str
    phi: Callable[[np.ndarray], np.ndarray]
    bregman: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def divergence(self, x: Any, y: Any) -> np.ndarray:
        """d_phi(x, y) = phi(x) - phi(y) - phi'(y) (x - y) (Chidambaram & Ge 2024, Eq. 4.1)."""
        return self.bregman(np.asarray(x, np.float64), np.asarray(y, np.float64))


def _x_log_x(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0)


def _binary(values: Any) -> np.ndarray:
    x = np.asarray(values, np.float64)
    return np.stack([1 - x, x], axis=-1)


@dataclass(frozen=True)
class Log(Score):
    """The logarithmic score -log q_y; its mean is the cross-entropy (Ferrer & Ramos 2025, Eq. 8).
    Infinite when q_y = 0.

    >>> Log().score([[0.25, 0.75]], [1]).round(4)
    array([0.2877])
    """

    name = "log"

    def words(self) -> str:
        return "log loss"

    def by_class(self, forecast: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return -np.log(forecast) + 0.0

    def one_dimensional(self) -> OneDimensional:
        """phi(x) = x log x + (1 - x) log(1 - x) (Chidambaram & Ge 2024, Corollary 4.7)."""
        return OneDimensional(
            "log",
            lambda x: _x_log_x(x) + _x_log_x(1 - x),
            lambda x, y: self.divergence(_binary(x), _binary(y)),
        )


@dataclass(frozen=True)
class Brier(Score):
    """The Brier score, sum_k (q_k - [k = y])^2, from 0 to 2.

    Ferrer & Ramos 2025, Eq. 9, divides by K. Normalised values do not depend on that.

    >>> Brier().score([[0.25, 0.75]], [1])
    array([0.125])
    """

    name = "brier"

    def words(self) -> str:
        return "Brier score"

    def by_class(self, forecast: np.ndarray) -> np.ndarray:
        squares = forecast**2
        return squares.sum(axis=-1, keepdims=True) - squares + (1 - forecast) ** 2

    def entropy(self, p: Any) -> np.ndarray:
        p = as_numbers(p, "p")
        return (p * (1 - p)).sum(axis=-1)

    def divergence(self, p: Any, q: Any) -> np.ndarray:
        return ((as_numbers(p, "p") - as_numbers(q, "q")) ** 2).sum(axis=-1)

    def one_dimensional(self) -> OneDimensional:
        """phi(x) = x^2."""
        return OneDimensional("brier", lambda x: x**2, lambda x, y: (x - y) ** 2)


@dataclass(frozen=True, eq=False)
class Cost(Score):
    """The cost of the Bayes decision under a K x M cost matrix; its mean is the Bayes risk (Ferrer
    & Ramos 2025, Section 2.3.1).

    Rows are true classes, columns are decisions. A decision need not be a class (rejection, for
    instance). The Bayes decision has the least expected cost; ties go to the first.

    >>> Cost([[0, 1, 0.1], [1, 0, 0.1]]).decide([[0.5, 0.5], [0.01, 0.99]])
    array([2, 1])
    """

    matrix: np.ndarray
    name: str = "cost"
    decisions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        matrix = np.require(as_numbers(self.matrix, "costs"), np.float64, ["C", "W", "A"])
        if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 1:
            raise InputError(
                "costs",
                "must be a matrix [classes, decisions]",
                f"has shape {matrix.shape}",
                way_out=(
                    "pass a row for each true class, such as [[0, 1], [5, 0]] if missing the "
                    "second class costs 5",
                ),
            )
        if not np.isfinite(matrix).all():
            k, j = np.argwhere(~np.isfinite(matrix))[0]
            raise InputError(
                "costs", "must be finite", f"{matrix[k, j]} for class {k}, decision {j}"
            )
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def zero_one(cls, classes: int, *, reject: float | None = None) -> Cost:
        """Cost 1 for every error; with `reject`, a last decision of that cost for every class.

        >>> Cost.zero_one(2, reject=0.1).matrix
        array([[0. , 1. , 0.1],
               [1. , 0. , 0.1]])
        """
        matrix = 1.0 - np.eye(classes)
        if reject is not None:
            matrix = np.column_stack([matrix, np.full(classes, float(reject))])
        return cls(matrix, "zero_one" if reject is None else "zero_one_reject")

    @classmethod
    def imbalanced(cls, classes: int, cost: float = 10.0) -> Cost:
        """Cost 1 for every error, except `cost` for errors on the last class (Ferrer & Ramos 2025,
        Section 3.2)."""
        matrix = 1.0 - np.eye(classes)
        matrix[-1] *= cost
        return cls(matrix, "imbalanced")

    def words(self) -> str:
        known = {
            "zero_one": "Bayes risk where an error costs 1",
            "zero_one_reject": "Bayes risk where an error costs 1 and rejection less",
        }
        rows, columns = self.matrix.shape
        return known.get(self.name, f"Bayes risk of a {rows} x {columns} cost matrix")

    def check_classes(self, classes: int) -> None:
        if len(self.matrix) != classes:
            rule = f"must have one row for each of the {classes} classes"
            raise InputError("costs", rule, f"has shape {self.matrix.shape}")

    def decide(self, forecast: Any) -> np.ndarray:
        """The Bayes decision for each forecast (Ferrer & Ramos 2025, Eq. 1)."""
        forecast = as_numbers(forecast, "forecast")
        self.check_classes(forecast.shape[-1])
        return np.argmin(forecast @ self.matrix, axis=-1)

    def by_class(self, forecast: np.ndarray) -> np.ndarray:
        return np.moveaxis(self.matrix[:, self.decide(forecast)], 0, -1)

    def one_dimensional(self) -> OneDimensional:
        """For two classes, phi(x) is minus the least expected cost. There is no counterpart for
        more classes: the bound of Chidambaram & Ge 2024, Lemma 4.6, does not hold for decisions
        about a single class."""
        if len(self.matrix) != 2:
            return super().one_dimensional()
        return OneDimensional(
            self.name,
            lambda x: -self.entropy(_binary(x)),
            lambda x, y: self.divergence(_binary(x), _binary(y)),
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Cost)
            and self.matrix.shape == other.matrix.shape
            and bool((self.matrix == other.matrix).all())
        )

    def __hash__(self) -> int:
        return hash((self.matrix.shape, self.matrix.tobytes()))


@dataclass(frozen=True)
class RankedProbability(Score):
    """The ranked probability score of ordered classes (Epstein 1969): the sum over k < K of
    (P(y <= k) - [y <= k])^2, from 0 to K - 1. An output near the true class loses less than a far
    one.

    >>> RankedProbability().score([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [0, 0])
    array([0.25, 0.5 ])
    """

    name = "ranked probability score"

    def by_class(self, forecast: np.ndarray) -> np.ndarray:
        K = forecast.shape[-1]
        up_to = np.cumsum(forecast, axis=-1)[..., :-1]
        reached = (np.arange(K)[:, None] <= np.arange(K - 1)).astype(np.float64)
        return ((up_to[..., None, :] - reached) ** 2).sum(axis=-1)

    def score(self, forecast: Any, labels: Any) -> np.ndarray:
        up_to = np.cumsum(as_numbers(forecast, "forecast"), axis=-1)[..., :-1]
        reached = np.asarray(labels)[..., None] <= np.arange(up_to.shape[-1])
        return ((up_to - reached) ** 2).sum(axis=-1)


@dataclass(frozen=True)
class RiskWeighted(Score):
    """Bayes risks of a two-class problem integrated over all thresholds with a Beta(a, b) weight
    (Ferrer & Ramos 2025, Eq. 10-12, 34).

    At threshold t the decision is the positive (second) class if its probability exceeds t. A miss
    costs 1 / t, a false alarm costs 1 / (1 - t). The weight is W(t) = (2t)^(a-1) (2(1-t))^(b-1),
    the Beta(a, b) density scaled to 1 at t = 1/2. On that scale a = b = 1 is exactly `Log` and a =
    b = 2 exactly `Brier` (a sum over both classes). With the unscaled
    density of Ferrer & Ramos 2025, Beta(2, 2) gives 3/2 of that, or 3 times their Eq. 9.

    >>> RiskWeighted(2, 2).score([[0.25, 0.75]], [1]).round(12)
    array([0.125])
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        for argument, value in (("a", self.a), ("b", self.b)):
            if not 0 < value < np.inf:
                raise InputError(argument, "must be positive and finite", value)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"risk weighted by Beta({self.a:g}, {self.b:g})"

    def weight(self, threshold: Any) -> np.ndarray:
        t = np.asarray(threshold, np.float64)
        return (2 * t) ** (self.a - 1) * (2 * (1 - t)) ** (self.b - 1)

    def by_class(self, forecast: np.ndarray) -> np.ndarray:
        if forecast.shape[-1] != 2:
            raise InputError("forecast", "must have two classes", f"has shape {forecast.shape}")
        scale = 2.0 ** (self.a + self.b - 2)
        return scale * np.stack(
            [_tail(forecast[..., 0], self.b, self.a), _tail(forecast[..., 1], self.a, self.b)],
            axis=-1,
        )


def _tail(q: np.ndarray, a: float, b: float) -> np.ndarray:
    """The integral of t^(a-2) (1-t)^(b-1) from q to 1, accurate for q near 0 and near 1."""
    from scipy.special import beta, betainc, betaincc

    q = np.clip(np.asarray(q, np.float64), 0.0, 1.0)
    if a > 1:
        # betaincc loses accuracy for very small q.
        return beta(a - 1, b) * np.where(q < 0.5, 1 - betainc(a - 1, b, q), betaincc(a - 1, b, q))
    # Below the split (1-t)^(b-1) is near 1; above it, 1 - q is computed without cancellation.
    split = 1 / max(2.0, b)
    low = np.where((q > 0) & (q < split), q, split)
    whole = _upper(np.maximum(q, split), a, b) + _middle(low, split, a - 1, b)
    return np.where(q > 0, whole, np.inf)


def _upper(q: np.ndarray, a: float, b: float) -> np.ndarray:
    """The integral from q to 1 for q that is not small, as (1-q)^b / b 2F1(b, 2-a; b+1; 1-q)."""
    from scipy.special import hyp2f1

    return (1 - q) ** b / b * hyp2f1(b, 2 - a, b + 1, 1 - q)


def _middle(q: np.ndarray, end: float, power: float, b: float) -> np.ndarray:
    """The integral of t^(power-1) (1-t)^(b-1) from q to the end, for -1 < power <= 0.

    The integral of t^(power-1) is elementary. The remainder, t^power g(t) with g = ((1-t)^(b-1) -
    1) / t, is smooth in v = t^(power+1) and is integrated by Gauss-Legendre quadrature.
    """
    span = np.log(end) - np.log(q)
    alone = span if power == 0 else q**power * np.expm1(power * span) / power
    nodes, weights = np.polynomial.legendre.leggauss(64)
    start, stop = q[..., None] ** (power + 1), end ** (power + 1)
    t = (start + (stop - start) * (nodes + 1) / 2) ** (1 / (power + 1))
    g = np.expm1((b - 1) * np.log1p(-t)) / t
    return alone + (g * weights).sum(axis=-1) * (stop - start[..., 0]) / 2 / (power + 1)


# The scores that have a name. To register another one, add it here.
NAMED: dict[str, Score] = {"log": Log(), "brier": Brier()}


def as_score(score: str | Score) -> Score:
    """The score of a name; a `Score` is returned unchanged."""
    if isinstance(score, Score):
        return score
    if score not in NAMED:
        rule = f"must be one of {', '.join(NAMED)} or a Score"
        way_out = nearest(str(score), NAMED) or ("pass ", Argument("score", '"log"'))
        raise InputError("score", rule, repr(score), way_out=way_out)
    return NAMED[score]
