"""Columns side by side into rows, in blocks of four by four."""

from __future__ import annotations

from .compiling import kernel
from .vectors import transpose_four

TILE = 16  # rows that are written together, so that whole lines of the cache are


@kernel
def rows_of_columns(columns, begin, out):
    """out[i, k] = columns[k, begin + i]."""
    (n, K), stride = out.shape, columns.shape[1]
    source, target = columns.reshape(columns.size), out.reshape(out.size)
    blocked = n - n % TILE if K >= 4 else 0
    for start in range(0, blocked, TILE):
        for k in range(0, K, 4):
            k = min(k, K - 4)
            for r in range(start, start + TILE, 4):
                transpose_four(source, k * stride + begin + r, stride, target, r * K + k, K)
    for r in range(blocked, n):
        for k in range(K):
            out[r, k] = columns[k, begin + r]
