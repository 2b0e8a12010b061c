"""Adding one state's arrays to another's."""

from __future__ import annotations

from .compiling import kernel
from .fixed_point import PART_BITS, PART_MASK


@kernel
def merge(target, other, plain, sign):
    """target += sign * other for arrays [rows, columns]: so many plain columns first, then pairs;
    canonical again."""
    for r in range(target.shape[0]):
        for c in range(plain):
            target[r, c] += sign * other[r, c]
        for c in range(plain, target.shape[1], 2):
            part = target[r, c + 1] + sign * other[r, c + 1]
            target[r, c] += sign * other[r, c] + (part >> PART_BITS)
            target[r, c + 1] = part & PART_MASK
