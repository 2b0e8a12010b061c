"""The sums of a Newton step of logistic regression."""

from __future__ import annotations

import numpy as np

from ..logistic import TILE
from .elementary import exp, log
from .fixed_point import in_order

Array = np.ndarray


def _dot(a: Array, b: Array) -> float:
    """`kernels.logistic._dot`."""
    product = a * b
    whole = len(product) - len(product) % 8
    s = in_order(np.zeros(8), product[:whole].reshape(-1, 8))
    s[0] = in_order(s[0], product[whole:])
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def logistic_sums(
    features: Array, targets: Array, weights: Array, coefficients: Array
) -> tuple[float, Array, Array]:
    d, n = features.shape
    margin = in_order(np.zeros(n), coefficients[:, None] * features)
    small = exp(-abs(margin))
    top = 1.0 / (1.0 + small)
    q = np.where(margin >= 0, top, small * top)
    loss = weights * (np.maximum(margin, 0.0) + log(1.0 + small) - targets * margin)
    slope, curvature = weights * (q - targets), weights * (small * top * top)
    score, gradient, hessian = 0.0, np.zeros(d), np.zeros((d, d))
    for start in range(0, n, TILE):
        part = slice(start, start + TILE)
        score += _dot(loss[part], np.ones(len(loss[part])))
        for a in range(d):
            gradient[a] += _dot(slope[part], features[a, part])
            bent = curvature[part] * features[a, part]
            for b in range(a + 1):
                hessian[a, b] += _dot(bent, features[b, part])
    return score, gradient, np.tril(hessian) + np.tril(hessian, -1).T
