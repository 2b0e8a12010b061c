"""Sums as integers: addition is then associative, and every order of the rows gives the same bytes.

A term is rounded once, to a multiple of a fixed power of two (`tick`), and from there on only
integers are added. Kernels gather ticks in plain int64 over a bounded number of rows; the state
keeps pairs (whole, part) that stand for whole + part / 2^62 with 0 <= part < 2^62. The pair of a
number is unique, so equal sums are equal bytes.
"""

from __future__ import annotations

import numpy as np

from .compiling import inline

PART_BITS = 62

_ROUND = np.float64(1.5 * 2.0**52)  # adding it leaves the rounded integer in the low bits
ROUND_BITS = np.int64(0x4338000000000000)
PART_MASK = np.int64(2**PART_BITS - 1)


@inline
def raised_tick(v: float, scale: float) -> int:
    """tick plus ROUND_BITS. From a sum of n terms, n * ROUND_BITS is subtracted once (int64 wraps
    around)."""
    return np.float64(v * scale + _ROUND).view(np.int64)


@inline
def raised_number(ticks: int) -> float:
    """The float64 of a raised tick."""
    return np.int64(ticks).view(np.float64) - _ROUND


@inline
def tick(v: float, scale: float) -> int:
    """v * scale rounded to the nearest integer, for |v * scale| <= 2^51 and scale a power of
    two."""
    return raised_tick(v, scale) - ROUND_BITS


@inline
def number(ticks: int) -> float:
    """The float64 of an integer below 2^51 in size, without a conversion, which is slow on older
    machines."""
    return raised_number(ticks + ROUND_BITS)


@inline
def add(pairs: np.ndarray, row: int, column: int, ticks: int, bits: int) -> None:
    """Add ticks / 2^bits to the pair at pairs[row, column : column + 2]."""
    part = pairs[row, column + 1] + ((ticks & ((np.int64(1) << bits) - 1)) << (PART_BITS - bits))
    pairs[row, column] += (ticks >> bits) + (part >> PART_BITS)
    pairs[row, column + 1] = part & PART_MASK


@inline
def add_number(pairs: np.ndarray, row: int, column: int, v: float) -> None:
    """Add v, |v| < 2^42, to a pair: to 2^-8 exactly, and the remainder to 2^-58."""
    high = tick(v, 2.0**8)
    add(pairs, row, column, high, 8)
    add(pairs, row, column, tick(v - number(high) * 2.0**-8, 2.0**58), 58)
