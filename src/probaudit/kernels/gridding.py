"""A single event on the fine grid."""

from __future__ import annotations

import numpy as np

from .compiling import kernel


@kernel
def grid_sums(outputs, labels, weights, sums):
    """Add w, w output and w label of each row to sums[cell], [G, 3]; outputs lie in [0, 1], or a rounding above."""
    G = sums.shape[0]
    for i in range(outputs.size):
        p, w = outputs[i], weights[i]
        g = min(np.int64(p * G), G - 1)
        sums[g, 0] += w
        sums[g, 1] += w * p
        sums[g, 2] += w * labels[i]
