"""Vector instructions that numba does not generate by itself, or plain loops in their place."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .numba_private import LLVM, works
from .plain_vectors import STRETCH

if works(LLVM):
    from .llvm_vectors import (
        add_four,
        add_transposed_four,
        add_two,
        at_least,
        column_at,
        lowest_bit,
        prefetch,
        transpose_columns,
        transpose_four,
    )
else:
    from .plain_vectors import (
        add_four,
        add_transposed_four,
        add_two,
        at_least,
        lowest_bit,
        prefetch,
        transpose_four,
    )

    column_at = transpose_columns = None

__all__ = [
    "READS_COLUMNS",
    "STRETCH",
    "add_four",
    "add_transposed_four",
    "add_two",
    "beyond",
    "column_at",
    "lowest_bit",
    "prefetch",
    "rows_of_columns",
    "transpose_four",
]

READS_COLUMNS = works(LLVM)  # whether kernels can read columns by their addresses
ROWS_AT_A_TIME = 16  # rows that are transposed together, so that whole cache lines are written


@kernel
def rows_of_columns(addresses, begin, out):
    """out[i, k] is the number begin + i of the column at addresses[k]."""
    n, K = out.shape
    target = out.reshape(out.size)
    blocked = n - n % ROWS_AT_A_TIME if K >= 4 else 0
    for start in range(0, blocked, ROWS_AT_A_TIME):
        for k in range(0, K, 4):
            k = min(k, K - 4)
            for r in range(start, start + ROWS_AT_A_TIME, 4):
                transpose_columns(addresses, k, begin + r, target, (r * K + k, K))
    for k in range(K):
        column = column_at(addresses, k, begin + n, out)
        for r in range(blocked, n):
            out[r, k] = column[begin + r]


@inline
def beyond(bits, start, first):
    """Which of the values from `start` on, STRETCH at most, are not below `first`: a word with a
    bit for each."""
    if start + STRETCH <= bits.size:
        return at_least(bits, start, first)
    if bits.size >= STRETCH:  # the last STRETCH values, without those before `start`
        return at_least(bits, bits.size - STRETCH, first) >> np.uint64(start + STRETCH - bits.size)
    word, part = np.uint64(0), bits[start:]
    for c in range(part.size):
        word |= np.uint64(part[c] >= first) << np.uint64(c)
    return word
