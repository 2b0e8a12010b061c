"""Sums over the rows of a single event."""

from __future__ import annotations

import numpy as np

from .compiling import kernel
from .elementary import exp, log


@kernel
def logistic_sums(z, base, y, w, intercept, slope, sums):
    """The loss of logit P(y = 1) = intercept + slope z + base, its gradient (2) and Hessian (3): six sums."""
    for i in range(z.size):
        eta = intercept + slope * z[i] + base[i]
        t = exp(-abs(eta))
        q = (1.0 if eta >= 0 else t) / (1.0 + t)
        miss, curve = w[i] * (q - y[i]), w[i] * q * (1.0 - q)
        sums[0] += w[i] * (log(1.0 + t) + max(eta, 0.0) - y[i] * eta)
        sums[1] += miss
        sums[2] += miss * z[i]
        sums[3] += curve
        sums[4] += curve * z[i]
        sums[5] += curve * z[i] * z[i]


@kernel
def decayed_products(r, x, width):
    """The sum over all i, j of r_i r_j exp(-|x_i - x_j| / width), for rising x: one run over the rows."""
    before, total = 0.0, 0.0
    for i in range(r.size):
        if i > 0:
            before = (before + r[i - 1]) * np.exp((x[i - 1] - x[i]) / width)
        total += r[i] * (r[i] + 2.0 * before)
    return total
