"""Columns into rows, in blocks of four by four."""

from __future__ import annotations

from .compiling import kernel
from .vectors import column_at, transpose_columns

TILE = 16  # rows that are written together, so that whole lines of the cache are


@kernel
def rows_of_columns(addresses, begin, out):
    """out[i, k] is the number begin + i of the column at addresses[k]."""
    n, K = out.shape
    target = out.reshape(out.size)
    blocked = n - n % TILE if K >= 4 else 0
    for start in range(0, blocked, TILE):
        for k in range(0, K, 4):
            k = min(k, K - 4)
            for r in range(start, start + TILE, 4):
                transpose_columns(addresses, k, begin + r, target, r * K + k, K)
    for k in range(K):
        column = column_at(addresses, k, begin + n, out)
        for r in range(blocked, n):
            out[r, k] = column[begin + r]
