"""The mixture model from which group calibration learns a partition: soft groups, each with a
temperature (Yang et al. 2023, Eq. 13-14)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from ..kernels.soft_groups import mixture_loss
from .base import Sample

START = 1.5  # of every temperature, as in the reference implementation
BOUNDS = (1e-2, 1e2)  # of every temperature
SEARCH = {"maxiter": 1000, "maxfun": 2000, "maxcor": 100, "gtol": 1e-6, "ftol": 1e-13}


@dataclass(frozen=True)
class Grouping:
    """A learned partition: the group scores W x + intercepts, and a temperature for each group."""

    weights: np.ndarray
    intercepts: np.ndarray
    temperatures: np.ndarray
    converged: bool


@dataclass(frozen=True, eq=False)
class Mixture:
    """The penalised log loss of soft groups with a temperature each (Yang et al. 2023, Eq. 13 and
    14). Arrays have rows last, as the kernel reads them.

    penalty : lambda of the term lambda ||W||^2.
    """

    points: np.ndarray  # [d, n], features
    logits: np.ndarray  # [K, n], minus the largest of each row
    true_logits: np.ndarray  # [n], those of the true classes
    weights: np.ndarray  # [n], sum to 1
    penalty: float
    bias: bool

    @classmethod
    def of(cls, sample: Sample, points: np.ndarray, penalty: float, bias: bool) -> Mixture:
        logits = np.ascontiguousarray(
            (sample.log_probs - sample.log_probs.max(axis=1, keepdims=True)).T
        )
        return cls(
            points=np.ascontiguousarray(points.T),
            logits=logits,
            true_logits=logits[sample.codes, np.arange(len(sample))],
            weights=sample.weights / sample.weights.sum(),
            penalty=penalty,
            bias=bias,
        )

    def reweighted(self, factors: np.ndarray) -> Mixture:
        """The loss of the same rows with their weights multiplied by these factors."""
        weights = self.weights * factors
        return replace(self, weights=weights / weights.sum())

    def minimise(self, start: np.ndarray) -> Grouping:
        """The partition that L-BFGS reaches from W = start, [groups, d]."""
        groups, size = len(start), start.size
        theta = np.concatenate(
            [start.ravel(), np.zeros(groups if self.bias else 0), np.full(groups, np.log(START))]
        )
        bounds = [(None, None)] * (len(theta) - groups) + [tuple(np.log(BOUNDS))] * groups
        minimum = minimize(
            self.loss,
            theta,
            args=(groups,),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=SEARCH,
        )
        weights, intercepts, temperatures = np.split(minimum.x, [size, len(theta) - groups])
        intercepts = intercepts if self.bias else np.zeros(groups)
        return Grouping(
            weights.reshape(start.shape), intercepts, np.exp(temperatures), bool(minimum.success)
        )

    def loss(self, theta: np.ndarray, groups: int) -> tuple[float, np.ndarray]:
        """The loss and its gradient with respect to W, the intercepts (if any) and log T."""
        size = groups * len(self.points)
        W, intercepts, betas = (
            theta[:size].reshape(groups, -1),
            theta[size:-groups],
            np.exp(-theta[-groups:]),
        )
        scores = W @ self.points
        if self.bias:
            scores += intercepts[:, None]
        slopes = np.empty(groups)
        loss = mixture_loss(self.logits, self.true_logits, self.weights, betas, scores, slopes)
        by_weights = scores @ self.points.T + (2 * self.penalty) * W
        by_intercepts = scores.sum(axis=1) if self.bias else np.empty(0)
        gradient = np.concatenate([by_weights.ravel(), by_intercepts, -betas * slopes])
        return loss + self.penalty * float(np.sum(W * W)), gradient
