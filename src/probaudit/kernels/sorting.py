"""The order of numbers, by their digits."""

from __future__ import annotations

import numpy as np

from .compiling import kernel

DIGIT = 11  # bits; the counts of a digit's values stay in the nearest cache
DIGITS = 6


@kernel
def sorting_order(keys):
    """Places of unsigned 64-bit numbers from the least to the largest, those of equal ones in
    order: a radix sort from the lowest digit, without the digits in which all are equal."""
    n, values = keys.size, 1 << DIGIT
    counts = np.zeros((DIGITS, values), np.int64)
    for i in range(n):
        key = keys[i]
        for d in range(DIGITS):
            counts[d, (key >> np.uint64(d * DIGIT)) & np.uint64(values - 1)] += 1
    here, there = keys.copy(), np.empty_like(keys)
    order, next_order = np.arange(n), np.empty(n, np.int64)
    for d in range(DIGITS):
        shift, count = np.uint64(d * DIGIT), counts[d]
        if count.max() == n:
            continue
        total = 0
        for v in range(values):
            total, count[v] = total + count[v], total
        for i in range(n):
            v = (here[i] >> shift) & np.uint64(values - 1)
            there[count[v]], next_order[count[v]] = here[i], order[i]
            count[v] += 1
        here, there = there, here
        order, next_order = next_order, order
    return order
