"""Which of consecutive rows may enter a sample."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel

TILE = 64


@inline
def _priority(number):
    """The same as `states.sampling.priority`."""
    z = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def rows_within(first, count, bound, out):
    """Write to `out`, which must have room for `count` indexes, which of the `count` rows from
    number `first` on have a priority of at most `bound`; returns how many.

    Most tiles contain no such row, which a vector loop finds out quickly.
    """
    size = 0
    for start in range(0, count, TILE):
        number, some = np.uint64(first + start), False
        for i in range(TILE):
            some |= _priority(number + np.uint64(i)) <= bound
        if some:
            for i in range(start, min(start + TILE, count)):
                out[size] = i
                size += np.int64(_priority(np.uint64(first + i)) <= bound)
    return size
