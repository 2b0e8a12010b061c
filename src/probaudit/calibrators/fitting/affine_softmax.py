"""The affine map of log-probabilities with the lowest penalised log loss: softmax(W x + b)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.optimize import minimize

from ...data.arrays import row_reduced
from ...data.work import one_blas_thread
from ..base import Sample
from .newton import Minimum, Point, descend
from .softmax_sums import BlockViews, SoftmaxSums, rows_per_block

STEPS, FIRST_STEPS = 2000, 100  # of L-BFGS: alone, and before Newton steps
MOST_NEWTON = 20  # classes up to which all second derivatives are summed
CHUNK = 4096  # rows whose products of features are in memory at a time
SMALL_GRADIENT = 1e-6
FINISHED = 1e-8  # the largest slope that needs no Newton steps
# multiplications in a step, below which threads cost more time than they save
SMALL_PRODUCT = 2**28


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map found, [free, S + 1] with the intercept last, and how its search ended."""

    weights: np.ndarray
    converged: bool
    steps: int
    largest_slope: float


@dataclass(frozen=True, eq=False)
class Ridge:
    """The penalty: the sum over parameters of costs (parameter - centre)^2, each [S, S + 1]."""

    costs: np.ndarray
    centre: np.ndarray


def fit_affine_map(
    rows: SoftmaxSums,
    prepare: Callable[[Sample], Sample],
    seen: np.ndarray,
    ridge: Ridge,
    start: np.ndarray,
    *,
    first_steps: int = FIRST_STEPS,
) -> AffineMap:
    """The minimum of the mean log loss of softmax(W x + b) plus a penalty, which is convex.

    prepare : gives the rows whose log-probabilities are x. seen : the S classes among which the
        softmax is taken. start : the map that the search starts from, [free, S + 1], unless
        the map 0 has a lower loss. With fewer rows than classes, the scores of the last classes
        are 0.

    L-BFGS; up to 20 classes, Newton steps with all second derivatives follow after `first_steps`.
    (With extreme logits L-BFGS alone may need thousands.)
    """
    free, size = start.shape[0], len(seen)
    costs, centre = ridge.costs[:free], ridge.centre[:free]
    (moments,) = rows.viewed_as(prepare).sums(partial(_second_moments, seen))
    to_plain = _preconditioner(moments / rows.weight, ridge.costs.mean(axis=0))
    views = rows.viewed_as(partial(_preconditioned, prepare, seen, to_plain))

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        theta = theta.reshape(free, -1)
        loss, slope = (total / rows.weight for total in views.sums(partial(_loss_sums, theta)))
        gap = theta @ to_plain - centre
        weighted = costs * gap
        return float(loss + (weighted * gap).sum()), (slope + 2 * weighted @ to_plain.T).ravel()

    first = np.linalg.solve(to_plain.T, start.T).T
    if objective(first.ravel())[0] > objective(np.zeros(first.size))[0]:
        first = np.zeros_like(first)  # searches from far logits may stall
    steps = first_steps if size <= MOST_NEWTON else STEPS
    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-8}
    products = min(rows.n, rows_per_block(rows.classes)) * (size + 1) * size
    with one_blas_thread() if products < SMALL_PRODUCT else nullcontext():
        found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options)
        slope = float(np.abs(found.jac).max())
        end = Minimum(found.x, found.fun, slope <= SMALL_GRADIENT, found.nit)
        if size <= MOST_NEWTON and slope > FINISHED:
            last = _newton(
                objective,
                partial(_second_sums, views, to_plain, costs, rows.weight),
                found.x,
            )
            end = Minimum(last.at, last.value, last.converged, end.steps + last.steps)
        if not end.converged:
            slope = float(np.abs(objective(end.at)[1]).max())
    return AffineMap(end.at.reshape(free, -1) @ to_plain, end.converged, end.steps, slope)


def softmax_terms(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, the logarithm of their denominator, and z minus the largest of its row."""
    z = z - row_reduced(np.maximum, z)
    e = np.exp(z)
    total = row_reduced(np.add, e)
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


def _preconditioned(
    prepare: Callable[[Sample], Sample], seen: np.ndarray, to_plain: np.ndarray, sample: Sample
) -> PreconditionedRows:
    return PreconditionedRows(seen, to_plain, prepare(sample))


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
    q, log_sum, z = softmax_terms(z)
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
        q = softmax_terms(z)[0][:, :free]
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
