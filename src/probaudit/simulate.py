"""Worlds whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import InputError
from .scores import Log


@dataclass(frozen=True)
class GaussianPosteriors:
    """Labels, and posteriors of the same inputs: calibrated, and miscalibrated in three known ways. Arrays [n, K].

    cal : the true posteriors. mcp : computed with wrong priors. mcs : cal, its logarithm scaled. mcps : both.
    """

    y: np.ndarray
    cal: np.ndarray
    mcp: np.ndarray
    mcs: np.ndarray
    mcps: np.ndarray
    priors: np.ndarray


def gaussian_posteriors(
    n: int = 2000,
    classes: int = 2,
    *,
    prior: float = 0.8,
    variance: float = 0.15,
    distance: float = 1.0,
    scale: float = 5.0,
    wrong_prior: float = 0.9,
    seed: int = 0,
) -> GaussianPosteriors:
    """Gaussian classes of one variance, whose means all lie at the same distance (paper 2, Section 3 and Appendix C).

    Section 3 and the published binary figures have a distance of 1; the one-hot means of Appendix C lie at sqrt(2).

    prior : of the first class; the others share the rest. The number of rows of each class is the closest integer to
        its prior times n, so n may be missed by a few.
    variance : of each coordinate; the larger, the harder.
    distance : between any two means.
    scale : of the logarithm in mcs and mcps; above 1 overconfident, below 1 underconfident.
    wrong_prior : of the last class in mcp and mcps.

    >>> world = gaussian_posteriors(1000, 3, seed=1)
    >>> world.cal.shape, bool(abs(world.cal.mean(axis=0) - world.priors).max() < 0.02)
    ((1000, 3), True)
    """
    if classes < 2:
        raise InputError("classes", "must be at least 2", classes)
    for name, value in (("prior", prior), ("wrong_prior", wrong_prior)):
        if not 0 < value < 1:
            raise InputError(name, "must lie inside (0, 1)", value)
    for name, value in (("variance", variance), ("distance", distance), ("scale", scale)):
        if not 0 < value < np.inf:
            raise InputError(name, "must be positive and finite", value)
    rng = np.random.default_rng(seed)
    priors = np.full(classes, (1 - prior) / (classes - 1))
    priors[0] = prior
    counts = np.rint(priors * n).astype(int)
    if counts.sum() < 1:
        raise InputError("n", "must give at least one row", n)
    y = np.repeat(np.arange(classes), counts)
    means = np.eye(classes) * distance / np.sqrt(2)
    x = means[y] + rng.normal(scale=np.sqrt(variance), size=(len(y), classes))
    order = rng.permutation(len(y))
    y, x = y[order], x[order]
    # The squared lengths of x and of the means, and the normalising constant, are the same for every class.
    likelihood = x @ means.T / variance
    wrong = np.full(classes, (1 - wrong_prior) / (classes - 1))
    wrong[-1] = wrong_prior
    cal = likelihood + np.log(priors)
    mcp = likelihood + np.log(wrong)
    cal, mcp = _softmax(cal), _softmax(mcp)
    return GaussianPosteriors(y, cal, mcp, _sharpen(cal, scale), _sharpen(mcp, scale), priors)


def _softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _sharpen(p: np.ndarray, scale: float) -> np.ndarray:
    return _softmax(-scale * Log().by_class(p))
