"""Sums of products under the Laplace kernel."""

from __future__ import annotations

import numpy as np

from .compiling import kernel


@kernel
def decayed_products(r, x, width):
    """The sum over all i, j of r_i r_j exp(-|x_i - x_j| / width), for x in rising order; one pass
    over the rows."""
    before, total = 0.0, 0.0
    for i in range(r.size):
        if i > 0:
            before = (before + r[i - 1]) * np.exp((x[i - 1] - x[i]) / width)
        total += r[i] * (r[i] + 2.0 * before)
    return total
