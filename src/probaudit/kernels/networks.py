"""Sorting networks: which values to compare, whatever they are, so that vectors of them are sorted
lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Exchange = Callable[[Any, Any], Sequence[Any]]  # the larger and the smaller of two values


def merged(a: Sequence[Any], b: Sequence[Any], exchange: Exchange) -> list[Any]:
    """Two falling sequences as one: Batcher's odd-even merge (Knuth, The Art of Computer
    Programming 3, 5.3.4).

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
    """Values in falling order.

    >>> falling([3, 1, 2], lambda x, y: (max(x, y), min(x, y)))
    [3, 2, 1]
    """
    if len(values) < 2:
        return list(values)
    half = len(values) // 2
    return merged(falling(values[:half], exchange), falling(values[half:], exchange), exchange)
