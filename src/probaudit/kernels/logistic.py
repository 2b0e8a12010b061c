"""The sums of a Newton step of logistic regression."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log
from .twins import twin

TILE = 512


@inline
def _dot(a, b, size):
    """The inner product, as eight partial sums: a single one would wait for each addition."""
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = size - size % 8
    for i in range(0, whole, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(whole, size):
        s0 += a[i] * b[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@twin(lambda features, *_: features.T)
@kernel
def logistic_sums(features, targets, weights, coefficients):
    """The weighted sum of log losses of sigmoid(coefficients . features [d, n]), its gradient [d]
    and its Hessian [d, d]."""
    d, n = features.shape
    score, gradient, hessian = 0.0, np.zeros(d), np.zeros((d, d))
    margin, loss, slope, curvature, ones = (
        np.empty(TILE),
        np.empty(TILE),
        np.empty(TILE),
        np.empty(TILE),
        np.ones(TILE),
    )
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        target, weight = targets[start : start + size], weights[start : start + size]
        margin[:size] = 0.0
        for a in range(d):
            column = features[a, start : start + size]
            for i in range(size):
                margin[i] += coefficients[a] * column[i]
        for i in range(size):
            m, t, w = margin[i], target[i], weight[i]
            small = exp(-abs(m))
            top = 1.0 / (1.0 + small)
            q = top if m >= 0 else small * top
            loss[i] = w * (max(m, 0.0) + log(1.0 + small) - t * m)
            slope[i] = w * (q - t)
            curvature[i] = w * (small * top * top)
        score += _dot(loss, ones, size)
        for a in range(d):
            column = features[a, start : start + size]
            gradient[a] += _dot(slope, column, size)
            for i in range(size):
                margin[i] = curvature[i] * column[i]
            for b in range(a + 1):
                hessian[a, b] += _dot(margin, features[b, start : start + size], size)
    for a in range(d):
        for b in range(a):
            hessian[b, a] = hessian[a, b]
    return score, gradient, hessian
