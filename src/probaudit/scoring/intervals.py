"""95% limits that many estimates share: the normal and Student quantiles, and Wilson's interval."""

from __future__ import annotations

from typing import overload

import numpy as np

Z95 = 1.959963984540054  # the 97.5% point of the normal distribution
TAIL = 0.025


def t95(freedom: float) -> float:
    """The 97.5% point of Student's distribution.

    >>> round(t95(9), 3), round(t95(1e9), 3)
    (2.262, 1.96)
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - TAIL))


@overload
def wilson(share: float, n: float) -> tuple[float, float]: ...


@overload
def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


def wilson(
    share: float | np.ndarray, n: float | np.ndarray
) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    """Wilson's 95% interval of a proportion (Wilson 1927), given the share of events among n rows.

    n may be an effective number of rows. The interval is NaN where n is not positive.

    >>> tuple(round(x, 4) for x in wilson(0.0, 10))
    (0.0, 0.2775)
    >>> [float(end.round(4)[0]) for end in wilson(np.array([0.1]), np.array([20]))]
    [0.0279, 0.301]
    """
    rate, size = np.asarray(share, np.float64), np.asarray(n, np.float64)
    size = np.where(size > 0, size, np.nan)
    centre = (rate + Z95**2 / (2 * size)) / (1 + Z95**2 / size)
    variance = np.maximum(rate * (1 - rate), 0.0) / size + Z95**2 / (4 * size**2)
    half = Z95 / (1 + Z95**2 / size) * np.sqrt(variance)
    low, high = np.clip(centre - half, 0, rate), np.clip(centre + half, rate, 1)
    return (float(low), float(high)) if low.ndim == 0 else (low, high)
