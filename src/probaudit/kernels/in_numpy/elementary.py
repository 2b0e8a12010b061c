"""`exp` and `log` of arrays, by the polynomials of kernels.elementary."""

from __future__ import annotations

import numpy as np

from .. import elementary
from ..elementary import LOWEST, SMALLEST_NORMAL

Array = np.ndarray


def exp(x: Array) -> Array:
    """`kernels.elementary.exp`, for arrays."""
    above = x > LOWEST
    return np.where(above, elementary.exp_above_lowest.py_func(np.where(above, x, LOWEST)), 0.0)


def log(x: Array) -> Array:
    """`kernels.elementary.log`, for arrays; without meaning where x is not positive."""
    tiny = x < SMALLEST_NORMAL
    scale, raised = np.where(tiny, 2.0**54, 1.0), np.where(tiny, 54.0, 0.0)
    return elementary.log_scaled.py_func(x, scale, raised)
