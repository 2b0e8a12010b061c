"""Dirichlet calibration."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
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

STEPS, FIRST_STEPS = 2000, 100  # of L-BFGS: alone, and before Newton steps
MOST_NEWTON = 20  # classes up to which all second derivatives are summed
CHUNK = 4096  # rows whose products of features are in memory at a time
SMALL_GRADIENT = 1e-6
FINISHED = 1e-8  # the largest slope that needs no Newton steps
# multiplications in a step, below which threads cost more time than they save
SMALL_PRODUCT = 2**28


class DirichletCalibration(SummedCalibrator):
    """softmax(W log p + b), the map between Dirichlet distributions of probabilities (Kull et al.
    2019, equation 3), by penalised maximum likelihood. It minimises the mean log loss

        + odir_1 (sum of squares of W off its diagonal) + odir_2 (sum of squares of b) + l2 (sum of
        squares of both)

    odir : off-diagonal and intercept regularisation (section 3.3): one number, or a pair
        (odir_1, odir_2). The identity costs nothing.
    l2 : the ridge penalty of section 3.3, towards 0 and so away from the identity.
    ref_row : penalise W and b minus their last row, as the code of Kull et al. 2019 does by
        default. The identity then has a positive penalty. Off here.

    The problem is convex. L-BFGS starts from the identity; up to 20 classes, Newton steps with all
    second derivatives follow after 100 steps. (With extreme logits L-BFGS alone may need
    thousands.) A fit that does not converge warns. If the log loss of the rows is worse than
    before, which only `l2` and `ref_row` can cause, the identity is taken. A class without rows
    keeps its probabilities, and the other classes share the rest.

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
        off_diagonal, intercept, l2 = self._penalties()
        self.seen_ = rows.present
        size = len(self.seen_)
        penalties = np.full((size, size + 1), off_diagonal + l2)
        np.fill_diagonal(penalties, l2)
        penalties[:, -1] = intercept + l2
        (moments,) = rows.viewed_as(original_rows).sums(partial(_second_moments, self.seen_))
        to_plain = _preconditioner(moments / rows.weight, penalties.mean(axis=0) + l2)
        seen = rows.viewed_as(partial(PreconditionedRows, self.seen_, to_plain))
        free = size - 1 if self.ref_row else size

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            theta = theta.reshape(free, -1)
            loss, slope = (total / rows.weight for total in seen.sums(partial(_loss_sums, theta)))
            plain = theta @ to_plain
            weighted = penalties[:free] * plain
            return float(loss + (weighted * plain).sum()), (
                slope + 2 * weighted @ to_plain.T
            ).ravel()

        identity = np.eye(size, size + 1)
        start = np.linalg.solve(
            to_plain.T, (identity - identity[-1] if self.ref_row else identity)[:free].T
        ).T
        steps = FIRST_STEPS if size <= MOST_NEWTON else STEPS
        options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-8}
        products = min(rows.n, rows_per_block(rows.classes)) * (size + 1) * size
        with threadpool_limits(1 if products < SMALL_PRODUCT else None, user_api="blas"):
            found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
            end = Minimum(
                found.x, found.fun, bool(np.abs(found.jac).max() <= SMALL_GRADIENT), found.nit
            )
            if size <= MOST_NEWTON and np.abs(found.jac).max() > FINISHED:
                last = _newton(
                    objective,
                    partial(_second_sums, seen, to_plain, penalties[:free], rows.weight),
                    found.x,
                )
                end = Minimum(last.at, last.value, last.converged, end.steps + last.steps)
        theta = np.zeros((size, size + 1))
        theta[:free] = end.at.reshape(free, -1) @ to_plain
        self.weights_, self.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()
        before, after = log_scores(rows, self._transform)
        if not after <= before:
            self.weights_, self.intercept_ = np.eye(size), np.zeros(size)
            return True, "identity: no fit improves the log loss"
        unseen = [str(label) for label in np.delete(self.classes_, self.seen_)]
        remark = ""
        if unseen:
            names = ", ".join(unseen[:5]) + " ..." * (len(unseen) > 5)
            remark = f"; class {names}: no rows, probabilities kept"
        if not end.converged:
            steepest = float(np.abs(objective(end.at)[1]).max())
            status = f"did not converge in {end.steps} steps, largest slope {steepest:.1e}"
            warnings.warn(f"Dirichlet calibration {status}: the fit may be improved", stacklevel=2)
            return False, status + remark
        return True, f"converged in {end.steps} steps{remark}"

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


def _loss_sums(theta: np.ndarray, rows: PreconditionedRows) -> list[np.ndarray]:
    """The sum of the log losses and its derivative in theta. Rows missing from theta are 0."""
    X, codes, weights, each = (
        rows.turned,
        rows.codes,
        rows.sample.weights,
        np.arange(len(rows.sample)),
    )
    z = np.zeros((len(X), len(rows.seen)))
    z[:, : len(theta)] = X @ theta.T
    q, log_sum, z = _softmax_terms(z)
    loss = weights @ (log_sum - z[each, codes])
    q[each, codes] -= 1
    q *= weights[:, None]
    return [np.array(loss), q[:, : len(theta)].T @ X]


def _second_sums(
    seen: BlockViews[PreconditionedRows],
    to_plain: np.ndarray,
    penalties: np.ndarray,
    weight: float,
    theta: np.ndarray,
) -> np.ndarray:
    """All second derivatives of the penalised mean log loss in theta, [free (S + 1), free (S +
    1)]."""
    free, width = penalties.shape
    (found,) = seen.sums(partial(_curvature_sums, theta.reshape(free, -1)))
    found /= weight
    for k in range(free):
        own = slice(k * width, (k + 1) * width)
        found[own, own] += 2 * (to_plain * penalties[k]) @ to_plain.T
    return found


def _curvature_sums(theta: np.ndarray, rows: PreconditionedRows) -> list[np.ndarray]:
    """The sum over rows of (diag(q) - q q') x (X X'), the second derivative of the log loss in
    theta."""
    X, weights, (free, width) = rows.turned, rows.sample.weights, theta.shape
    found = np.zeros((free * width, free * width))
    for first in range(0, len(X), CHUNK):
        some, w = X[first : first + CHUNK], weights[first : first + CHUNK]
        z = np.zeros((len(some), len(rows.seen)))
        z[:, :free] = some @ theta.T
        q = _softmax_terms(z)[0][:, :free]
        products = (q[:, :, None] * some[:, None, :]).reshape(len(some), -1)
        found -= (products * w[:, None]).T @ products
        for k in range(free):
            own = slice(k * width, (k + 1) * width)
            found[own, own] += (some * (w * q[:, k])[:, None]).T @ some
    return [found]


@dataclass(frozen=True)
class Damped:
    """All second derivatives, slightly raised in directions that the rows do not determine."""

    matrix: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        size = np.sqrt(np.maximum(np.diag(self.matrix), np.finfo(np.float64).tiny))
        scaled = self.matrix / size / size[:, None] + 1e-12 * np.eye(len(v))
        found: np.ndarray = np.linalg.lstsq(scaled, v / size, rcond=1e-13)[0] / size
        return found


def _newton(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    curvature: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
) -> Minimum:
    def evaluate(theta: np.ndarray) -> Point:
        value, gradient = objective(theta)
        return Point(value, gradient, Damped(curvature(theta)))

    return descend(evaluate, start, memory=0)


def _preconditioner(moments: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """The matrix A such that in theta, where plain weights = theta A, the curvature is about equal
    in all directions.

    A class's curvature is about X'X / S + 2 penalties (`moments` are X'X); A is the inverse of its
    Cholesky factor. Log-probabilities of several classes are nearly collinear: without it L-BFGS
    takes a hundred times the steps.
    """
    curvature = moments / len(moments) + np.diag(2 * penalties)
    curvature += 1e-9 * np.trace(curvature) / len(curvature) * np.eye(len(curvature))
    return np.linalg.inv(np.linalg.cholesky(curvature))
