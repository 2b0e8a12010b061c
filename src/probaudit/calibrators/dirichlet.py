"""Dirichlet calibration."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from ..errors import InputError
from .base import Sample
from .fitting.newton import Minimum, Point, descend
from .fitting.softmax_sums import BlockViews, SoftmaxSums, rows_per_block
from .fitting.summed import SummedCalibrator, log_scores, original_rows
from .one_vs_rest import share_out

STEPS, FIRST_STEPS = 2000, 100  # of L-BFGS: alone, and before Newton's method
MOST_NEWTON = 20  # classes up to which Newton's method is used
CHUNK = 4096  # rows whose products of features are in memory at a time
SMALL_GRADIENT = 1e-6
FINISHED = 1e-8  # the largest slope that needs no Newton steps
# multiplications in a step, below which threads cost more than they save
SMALL_PRODUCT = 2**28


class DirichletCalibration(SummedCalibrator):
    """Applies an affine map to all log-probabilities, with a penalty: softmax(W log p + b).

    This is the calibration map if the probabilities of each class follow a Dirichlet distribution
    (Kull et al. 2019, equation 3). W and b minimise the mean log loss plus

        odir_1 (sum of squares of W off its diagonal) + odir_2 (sum of squares of b)
        + l2 (sum of squares of W and b)

    odir : off-diagonal and intercept regularisation (Kull et al. 2019, section 3.3): one number, or
        a pair (odir_1, odir_2). It does not penalise the identity.
    l2 : the ridge penalty of section 3.3. It shrinks towards 0, and so away from the identity.
    ref_row : penalise W and b minus their last row, as the code of Kull et al. 2019 does by
        default. The identity then has a positive penalty.

    The problem is convex. L-BFGS starts from the identity. With up to 20 classes, Newton's method
    follows after 100 steps, as L-BFGS alone may need thousands for extreme logits. A fit that does
    not converge warns. If the log loss of the rows gets worse, which only `l2` and `ref_row` can
    cause, the identity is used. A class without rows keeps its probabilities, and the other classes
    share the rest.

    >>> P = [[0.6, 0.4], [0.7, 0.3], [0.3, 0.7], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9]]
    >>> y = [0, 1, 1, 0, 0, 1]
    >>> DirichletCalibration(odir=0.1).fit(P, y).predict_proba([[0.8, 0.2]]).round(3).tolist()
    [[0.81, 0.19]]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {
        "weights_": ("S", "S"),
        "intercept_": ("S",),
        "seen_": ("S",),
    }
    weights_: np.ndarray  # [S, S] for the S classes that had rows
    intercept_: np.ndarray  # [S]
    seen_: np.ndarray  # their columns

    def __init__(
        self,
        *,
        odir: float | tuple[float, float] = 0.1,
        l2: float = 0.0,
        ref_row: bool = False,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.odir = odir
        self.l2 = l2
        self.ref_row = ref_row
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "Dirichlet calibration"

    def _check_choices(self) -> None:
        self._penalties()

    def _penalties(self) -> tuple[float, float, float]:
        pair: list[float] = np.atleast_1d(self.odir).tolist()
        if np.ndim(self.odir) == 0:
            pair *= 2
        if len(pair) != 2 or not all(0 <= value < np.inf for value in pair):
            raise InputError(
                "odir", "must be a finite number, at least 0, or a pair of them", self.odir
            )
        if not 0 <= self.l2 < np.inf:
            raise InputError("l2", "must be a finite number, at least 0", self.l2)
        return float(pair[0]), float(pair[1]), float(self.l2)

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        self.seen_ = rows.present
        size = len(self.seen_)
        loss = self._penalised_loss(rows)
        free = len(loss.penalties)
        identity = np.eye(size, size + 1)
        start = (identity - identity[-1] if self.ref_row else identity)[:free]
        products = min(rows.n, rows_per_block(rows.classes)) * (size + 1) * size
        with threadpool_limits(1 if products < SMALL_PRODUCT else None, user_api="blas"):
            minimum = _minimise(loss, np.linalg.solve(loss.to_plain.T, start.T).T.ravel(), size)
        theta = np.zeros((size, size + 1))
        theta[:free] = minimum.at.reshape(free, -1) @ loss.to_plain
        self.weights_, self.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()
        before, after = log_scores(rows, self._transform)
        if not after <= before:
            self.weights_, self.intercept_ = np.eye(size), np.zeros(size)
            return True, "identity: no fit improves the log loss"
        if minimum.converged:
            return True, f"converged in {minimum.steps} steps{self._unseen_remark()}"
        slope = float(np.abs(loss.value_and_gradient(minimum.at)[1]).max())
        status = f"did not converge in {minimum.steps} steps, largest slope {slope:.1e}"
        warnings.warn(f"Dirichlet calibration {status}: the fit may be improved", stacklevel=2)
        return False, status + self._unseen_remark()

    def _penalised_loss(self, rows: SoftmaxSums) -> PenalisedLoss:
        off_diagonal, intercept, l2 = self._penalties()
        size = len(self.seen_)
        penalties = np.full((size, size + 1), off_diagonal + l2)
        np.fill_diagonal(penalties, l2)
        penalties[:, -1] = intercept + l2
        (moments,) = rows.viewed_as(original_rows).sums(partial(_second_moments, self.seen_))
        to_plain = _preconditioner(moments / rows.weight, penalties.mean(axis=0) + l2)
        return PenalisedLoss(
            views=rows.viewed_as(partial(PreconditionedRows, self.seen_, to_plain)),
            weight=rows.weight,
            penalties=penalties[: size - 1 if self.ref_row else size],
            to_plain=to_plain,
        )

    def _unseen_remark(self) -> str:
        unseen = [str(label) for label in np.delete(self.classes_, self.seen_)]
        if not unseen:
            return ""
        names = ", ".join(unseen[:5]) + " ..." * (len(unseen) > 5)
        return f"; class {names}: no rows, probabilities kept"

    def _transform(self, sample: Sample) -> np.ndarray:
        q = np.zeros(sample.values.shape)
        q[:, self.seen_] = _softmax_terms(
            sample.log_probs[:, self.seen_] @ self.weights_.T + self.intercept_
        )[0]
        unseen = np.setdiff1d(np.arange(sample.n_classes), self.seen_)
        return share_out(q, sample.probs, unseen.tolist())


def _softmax_terms(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, the logarithm of their denominator, and z minus the largest of its row."""
    z = z - z.max(axis=1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=1, keepdims=True)
    return e / total, np.log(total[:, 0]), z


def _second_moments(seen: np.ndarray, sample: Sample) -> list[np.ndarray]:
    X = _features(seen, sample)
    return [(X * sample.weights[:, None]).T @ X]


def _features(seen: np.ndarray, sample: Sample) -> np.ndarray:
    """Log-probabilities of the classes that had rows, and a column of ones."""
    return np.column_stack([sample.log_probs[:, seen], np.ones(len(sample))])


@dataclass(frozen=True, eq=False)
class PreconditionedRows:
    """Rows of preconditioned features, for which the curvature is about equal in all directions."""

    seen: np.ndarray
    to_plain: np.ndarray
    sample: Sample

    @cached_property
    def turned(self) -> np.ndarray:
        return np.asarray(_features(self.seen, self.sample) @ self.to_plain.T)

    @cached_property
    def codes(self) -> np.ndarray:
        return np.searchsorted(self.seen, self.sample.codes)


@dataclass(frozen=True, eq=False)
class PenalisedLoss:
    """The penalised mean log loss as a function of theta, where theta @ to_plain are (W, b). With
    `ref_row` the last row is fixed at 0, and theta lacks it."""

    views: BlockViews[PreconditionedRows]
    weight: float
    penalties: np.ndarray  # of the square of each free parameter
    to_plain: np.ndarray

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        theta = theta.reshape(len(self.penalties), -1)
        loss, slope = (total / self.weight for total in self.views.sums(partial(_loss_sums, theta)))
        plain = theta @ self.to_plain
        weighted = self.penalties * plain
        gradient = slope + 2 * weighted @ self.to_plain.T
        return float(loss + (weighted * plain).sum()), gradient.ravel()

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """[free (S + 1), free (S + 1)]"""
        free, width = self.penalties.shape
        (second,) = self.views.sums(partial(_curvature_sums, theta.reshape(free, -1)))
        second /= self.weight
        for k in range(free):
            own = slice(k * width, (k + 1) * width)
            second[own, own] += 2 * (self.to_plain * self.penalties[k]) @ self.to_plain.T
        return second


def _loss_sums(theta: np.ndarray, rows: PreconditionedRows) -> list[np.ndarray]:
    """The sum of the log losses and its gradient. Rows missing from theta are 0."""
    X, codes, weights = rows.turned, rows.codes, rows.sample.weights
    each = np.arange(len(X))
    z = np.zeros((len(X), len(rows.seen)))
    z[:, : len(theta)] = X @ theta.T
    q, log_sum, z = _softmax_terms(z)
    loss = weights @ (log_sum - z[each, codes])
    q[each, codes] -= 1
    q *= weights[:, None]
    return [np.array(loss), q[:, : len(theta)].T @ X]


def _curvature_sums(theta: np.ndarray, rows: PreconditionedRows) -> list[np.ndarray]:
    """The Hessian of the summed log loss: the sum over rows of the Kronecker product of
    diag(q) - q q' and x x'."""
    X, weights, (free, width) = rows.turned, rows.sample.weights, theta.shape
    second = np.zeros((free * width, free * width))
    for first in range(0, len(X), CHUNK):
        some, w = X[first : first + CHUNK], weights[first : first + CHUNK]
        z = np.zeros((len(some), len(rows.seen)))
        z[:, :free] = some @ theta.T
        q = _softmax_terms(z)[0][:, :free]
        products = (q[:, :, None] * some[:, None, :]).reshape(len(some), -1)
        second -= (products * w[:, None]).T @ products
        for k in range(free):
            own = slice(k * width, (k + 1) * width)
            second[own, own] += (some * (w * q[:, k])[:, None]).T @ some
    return [second]


@dataclass(frozen=True)
class Damped:
    """A Hessian with a small ridge, for directions that the rows do not determine."""

    matrix: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        size = np.sqrt(np.maximum(np.diag(self.matrix), np.finfo(np.float64).tiny))
        scaled = self.matrix / size / size[:, None] + 1e-12 * np.eye(len(v))
        solution: np.ndarray = np.linalg.lstsq(scaled, v / size, rcond=1e-13)[0] / size
        return solution


def _minimise(loss: PenalisedLoss, start: np.ndarray, size: int) -> Minimum:
    """The minimum by L-BFGS; with few classes, followed by Newton's method if it has not
    converged."""
    newton = size <= MOST_NEWTON
    steps = FIRST_STEPS if newton else STEPS
    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-8}
    end = minimize(loss.value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    slope = np.abs(end.jac).max()
    if not (newton and slope > FINISHED):
        return Minimum(end.x, end.fun, bool(slope <= SMALL_GRADIENT), end.nit)

    def evaluate(theta: np.ndarray) -> Point:
        value, gradient = loss.value_and_gradient(theta)
        return Point(value, gradient, Damped(loss.hessian(theta)))

    last = descend(evaluate, end.x, memory=0)
    return Minimum(last.at, last.value, last.converged, end.nit + last.steps)


def _preconditioner(moments: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """The matrix A for which the curvature in theta is about equal in all directions, where theta A
    are the parameters (W, b).

    The curvature of a class is about X'X / S + 2 penalties (`moments` are X'X); A is the inverse of
    its Cholesky factor. Without it L-BFGS takes a hundred times as many steps, as log-probabilities
    of several classes are nearly collinear.
    """
    curvature = moments / len(moments) + np.diag(2 * penalties)
    curvature += 1e-9 * np.trace(curvature) / len(curvature) * np.eye(len(curvature))
    return np.linalg.inv(np.linalg.cholesky(curvature))
