"""What a scan of sixteen rows along their classes reads and finds, and networks that sort them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .compiling import allocator
from .tallies import OUTPUT, TILE

ROWS = 16
LANES = 8  # partial sums of each class
SCALE = 2.0**OUTPUT  # of ticks within a row: the sum of fewer than 2^11 probabilities fits

Exchange = Callable[[Any, Any], Sequence[Any]]  # the larger and the smaller of two values


class ColumnRows(NamedTuple):
    """Rows in columns: where the columns begin, and the number of the first row."""

    addresses: np.ndarray
    start: int


class TileScan(NamedTuple):
    """What a scan along the classes finds for each row of a tile."""

    total: np.ndarray  # sums of the raised ticks of p at SCALE
    squares: np.ndarray  # the same for p^2
    best: np.ndarray  # the largest bit pattern of p, as unsigned: a negative p is above all others
    arg: np.ndarray  # the first class that has it
    before: np.ndarray  # how many bit patterns are larger than that of the true class
    equal: np.ndarray  # how many are the same
    outputs: np.ndarray  # [K, LANES] raised ticks of p of each class, since the last flush
    row: np.ndarray  # [K] scratch space for a row


@allocator
def new_scan(K, like, most):
    return TileScan(
        np.zeros(TILE, np.int64),
        np.zeros(TILE, np.int64),
        np.zeros(TILE, most.dtype),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros(TILE, np.uint32),
        np.zeros((K, LANES), np.int64),
        np.zeros(K, like.dtype),
    )


def merged(a: Sequence[Any], b: Sequence[Any], exchange: Exchange) -> list[Any]:
    """Merge two falling sequences: Batcher's odd-even merge (Knuth, The Art of Computer Programming
    3, 5.3.4).

    Which values are compared does not depend on them, so that vectors are merged lane by lane.

    >>> merged([9, 4], [7, 5, 1], lambda x, y: (max(x, y), min(x, y)))
    [9, 7, 5, 4, 1]
    """
    if not a or not b:
        return [*a, *b]
    if len(a) == len(b) == 1:
        return [*exchange(a[0], b[0])]
    first, *even = merged(a[::2], b[::2], exchange)
    odd = merged(a[1::2], b[1::2], exchange)
    paired = min(len(odd), len(even))
    pairs = [value for x, y in zip(odd, even, strict=False) for value in exchange(x, y)]
    return [first, *pairs, *odd[paired:], *even[paired:]]


def falling(values: Sequence[Any], exchange: Exchange) -> list[Any]:
    """Sort values in falling order, by merging.

    >>> falling([3, 1, 2], lambda x, y: (max(x, y), min(x, y)))
    [3, 2, 1]
    """
    if len(values) < 2:
        return list(values)
    half = len(values) // 2
    return merged(falling(values[:half], exchange), falling(values[half:], exchange), exchange)
