"""Which of consecutive rows may enter a sample."""

from __future__ import annotations

import numpy as np

from .compiling import kernel


@kernel
def rows_within(first, count, bound, out):
    """The indexes, among `count` rows from number `first` on, of those whose priority is at most `bound`; how many there are.

    The priority is that of `statistics.sampling`. `out` must have room for all.
    """
    found = 0
    z = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(count):
        z += np.uint64(0x9E3779B97F4A7C15)
        h = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h = h ^ (h >> np.uint64(31))
        out[found] = i
        found += np.int64(h <= bound)
    return found
