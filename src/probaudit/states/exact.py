"""Arithmetic on the pairs of kernels.fixed_point, for whole arrays: merge them, read them."""

from __future__ import annotations

import numpy as np

PART_BITS = 62


def merge_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two arrays of pairs, [..., 2m] as whole, part, whole, part; canonical again.

    >>> merge_pairs(np.array([1, 3 << 60]), np.array([2, 2 << 60])) == np.array([4, 1 << 60])
    array([ True,  True])
    """
    part = a[..., 1::2] + b[..., 1::2]
    total = np.empty_like(a)
    total[..., 0::2] = a[..., 0::2] + b[..., 0::2] + (part >> PART_BITS)
    total[..., 1::2] = part & (2**PART_BITS - 1)
    return total


def numbers(pairs: np.ndarray) -> np.ndarray:
    """The float64 value of each pair.

    >>> numbers(np.array([1, 1 << 61, -1, 0]))
    array([ 1.5, -1. ])
    """
    return pairs[..., 0::2] + np.ldexp(pairs[..., 1::2].astype(np.float64), -PART_BITS)


def pairs_of_groups(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Pairs of the sums of `values` (in [0, 1]) over consecutive groups that begin at `starts`."""
    ticks = np.rint(np.ldexp(values, PART_BITS)).astype(np.int64)
    high = np.add.reduceat(ticks >> 31, starts)
    low = np.add.reduceat(ticks & (2**31 - 1), starts)
    high += low >> 31
    return np.stack(
        [high >> (PART_BITS - 31), ((high & (2**31 - 1)) << 31) | (low & (2**31 - 1))], axis=-1
    )
