"""`exp` and `log` of arrays, by the polynomials of kernels.elementary."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import elementary
from ..elementary import LOWEST, SMALLEST_NORMAL

Array = np.ndarray
TILE = 2**13  # values, so that those of each step stay in the cache


def by_tile(function: Callable[[Array], Array], x: Array) -> Array:
    """function(x), for a function of each value."""
    if x.size <= TILE:
        return function(x)
    flat, found = np.ravel(x), np.empty(x.shape)
    for start in range(0, x.size, TILE):
        part = slice(start, start + TILE)
        found.reshape(-1)[part] = function(flat[part])
    return found


def exp(x: Array) -> Array:
    """`kernels.elementary.exp`, for arrays."""
    return by_tile(_exp, x)


def _exp(x: Array) -> Array:
    above = x > LOWEST
    return np.where(above, elementary.exp_above_lowest.py_func(np.where(above, x, LOWEST)), 0.0)


def log(x: Array) -> Array:
    """`kernels.elementary.log`, for arrays; without meaning where x is not positive."""
    tiny = x < SMALLEST_NORMAL
    scale, raised = np.where(tiny, 2.0**54, 1.0), np.where(tiny, 54.0, 0.0)
    return elementary.log_scaled.py_func(x, scale, raised)
