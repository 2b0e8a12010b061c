"""Tests that are judged together."""

from __future__ import annotations

import numpy as np


def holm(p_values: np.ndarray) -> np.ndarray:
    """The least level at which each hypothesis is rejected, if the probability of any false
    rejection among all is to stay below it (Holm 1979); it holds however the tests depend on each
    other.

    >>> holm(np.array([0.01, 0.5, 0.02])).round(3)
    array([0.03, 0.5 , 0.04])
    """
    order, m = np.argsort(p_values, kind="stable"), len(p_values)
    found = np.empty(m)
    found[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * (m - np.arange(m))))
    return found
