"""A single event, counted on a grid."""

from __future__ import annotations

import numpy as np

from ..grid_cells import WEIGHTED_BITS, cells_of_one, offset_bits
from .fixed_point import add, add_numbers, sums, ticks

Array = np.ndarray


def offset_ticks(p: Array, cell: Array, G: int) -> Array:
    """The offset of each p from the middle of its cell."""
    bits = offset_bits(G)
    return ticks(p * cells_of_one(G), bits) - ((cell << bits) + (1 << bits >> 1))


def tally_event(outputs: Array, labels: Array, cells: Array, offsets: Array) -> None:
    p, g = _counted(outputs, labels, cells)
    np.add.at(offsets, g, offset_ticks(p, g, len(cells)))


def _counted(outputs: Array, labels: Array, cells: Array) -> tuple[Array, Array]:
    """Count rows and hits; returns outputs and their cells."""
    G, p = len(cells), np.maximum(outputs, 0.0)
    g = np.minimum((p * cells_of_one(G)).astype(np.int64), G - 1)
    np.add.at(cells, g, np.stack([np.ones_like(labels), labels], axis=1))
    return p, g


def tally_weighted_event(
    outputs: Array, labels: Array, weights: Array, cells: Array, pairs: Array
) -> None:
    p, g = _counted(outputs, labels, cells)
    w, hit = weights, labels != 0
    add_numbers(pairs, g, 0, w)
    add_numbers(pairs, g, 2, w * w)
    add_numbers(pairs, g[hit], 4, w[hit])
    offset = ticks(w * (p - (g + 0.5) * (1.0 / cells_of_one(len(cells)))), WEIGHTED_BITS)
    # in two parts, so that no sum of a few rows overflows
    for part, bits in ((offset >> 20, WEIGHTED_BITS - 20), (offset & 0xFFFFF, WEIGHTED_BITS)):
        add(pairs, 6, sums(g, part, len(cells)), bits)
