"""Which of many rows are in a sample, by their numbers only (bottom-k sampling).

A row's priority is a hash of its number; a sample consists of the rows with the least priorities.
The sample does not depend on how rows are split into blocks, ordered and merged, and merging two
samples gives the sample of their union.
"""

from __future__ import annotations

import numpy as np

CHUNK = 2**20  # rows whose priorities are computed together, at least


def priority(numbers: np.ndarray) -> np.ndarray:
    """For row number n, the n-th number of SplitMix64 from seed 0 (Steele, Lea & Flood 2014, figure
    15): all different.

    >>> priority(np.array([0, 1], np.uint64))
    array([16294208416658607535,  7960286522194355700], dtype=uint64)
    """
    z = (np.asarray(numbers).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def least(priorities: np.ndarray, size: int) -> np.ndarray:
    """The indexes of the `size` least priorities, all different, in rising order.

    >>> least(np.array([5, 1, 9, 3], np.uint64), 2)
    array([1, 3])
    """
    if len(priorities) <= size:
        return np.arange(len(priorities))
    return np.flatnonzero(priorities <= np.partition(priorities, size - 1)[size - 1])


def drawn(rows: int, size: int) -> np.ndarray:
    """The numbers of the rows 0..rows-1 that are in a sample of this size, rising.

    >>> drawn(5, 10), drawn(1_000_000, 3)
    (array([0, 1, 2, 3, 4]), array([ 70273, 390831, 573548]))
    """
    if rows <= size:
        return np.arange(rows)
    numbers, bound = np.empty(0, np.int64), likely_bound(rows, size)
    for first in range(0, rows, max(CHUNK, size)):
        more = first + within(first, min(max(CHUNK, size), rows - first), bound)
        numbers = np.concatenate([numbers, more])
        hashes = priority(numbers)
        kept = least(hashes, size)
        numbers = numbers[kept]
        if len(kept) == size:
            bound = hashes[kept].max()
    if len(numbers) < size:
        raise RuntimeError("too few rows have a small priority")  # see likely_bound
    return numbers


def likely_bound(rows: int, size: int) -> np.uint64:
    """A priority that at least `size` rows do not exceed: as priorities are uniform, fewer would be
    eight standard deviations from the mean.

    >>> hex(likely_bound(1_000_000, 10_000))
    '0x2c7fbacb4289120'
    """
    share = (size + 8 * size**0.5 + 64) / max(rows, 1)
    return np.uint64(int(share * 2**64)) if share < 1 else np.uint64(2**64 - 1)


def within(first: int, count: int, bound: np.uint64) -> np.ndarray:
    """The indexes, from 0, of those of `count` rows from number `first` on that have a priority of
    at most `bound`."""
    from ..kernels.priorities import rows_within

    indexes = np.empty(count, np.int64)
    return indexes[: rows_within(first, count, bound, indexes)]
