"""Integer sums of arrays (see kernels.fixed_point), and floating-point sums in order."""

from __future__ import annotations

import numpy as np

from ..elementary import ROUND, ROUND_BITS
from ..fixed_point import PART_BITS, PART_MASK
from ..grid_cells import cells_of_one

Array = np.ndarray
LONG = 64  # numbers in a term: fewer are added faster by a single call


def raised_ticks(v: Array, bits: int) -> Array:
    """v 2^bits rounded to integers, plus ROUND_BITS."""
    return (v * 2.0**bits + ROUND).view(np.int64)


def ticks(v: Array, bits: int) -> Array:
    return raised_ticks(v, bits) - ROUND_BITS


def numbers_of(ticks: Array) -> Array:
    return (ticks + ROUND_BITS).view(np.float64) - ROUND


def add(pairs: Array, column: int, ticks: Array, bits: int) -> None:
    """Add ticks / 2^bits, one for each row, to pairs[:, column : column + 2]."""
    low = (ticks & ((1 << bits) - 1)) << (PART_BITS - bits)
    part = pairs[:, column + 1] + low
    pairs[:, column] += (ticks >> bits) + (part >> PART_BITS)
    pairs[:, column + 1] = part & PART_MASK


def sums(index: Array, terms: Array, size: int) -> Array:
    """The sum of the terms of each index, as integers."""
    total = np.zeros(size, np.int64)
    np.add.at(total, index, terms)
    return total


def add_numbers(pairs: Array, index: Array, column: int, v: Array) -> None:
    """Add each v to the pair in its row: to 2^-8 exactly, and the remainder to 2^-58."""
    high = ticks(v, 8)
    low = ticks(v - numbers_of(high) * 2.0**-8, 58)
    add(pairs, column, sums(index, high, len(pairs)), 8)
    add(pairs, column, sums(index, low, len(pairs)), 58)


def cells_of(p: Array, G: int) -> Array:
    """The cell of each probability."""
    scaled = p * cells_of_one(G)
    found = ticks(scaled, 0)
    found -= numbers_of(found) > scaled
    return np.clip(found, 0, G - 1)


def in_order(start: Array | float, terms: Array) -> Array:
    """start plus the sum of terms along their first axis, one after the other (np.sum would add
    them in another order)."""
    if terms.size <= LONG * len(terms):
        return np.add.accumulate(np.concatenate([np.asarray(start)[None], terms]))[-1]
    total = np.array(start)
    for term in terms:
        total += term
    return total
