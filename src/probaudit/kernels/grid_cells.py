"""The cells of a fine grid of probabilities; a single event counted on it, in integers."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .fixed_point import add, add_number, tick
from .twins import twin

# an offset is in 2^-30 of a cell, or in 2^-26 where there are more than 2^10
OFFSET_BITS, FINE_BITS, COARSE = 30, 26, 2**10
WEIGHTED_BITS = 58

# An output below the edge of a cell by no more than SLACK of itself, as float32(0.7) is below 0.7,
# counts as lying at the edge: cell g of G is [g / G, (g + 1) / G) x (1 - SLACK). The rule is the
# same for every number of cells, and for outputs of either precision.
SLACK = 5 * 2.0**-26


def cells_of_one(cells: float) -> float:
    """1 in units of the width of a cell: slightly more than the number of cells, by the slack."""
    return np.float64(cells) / (1.0 - SLACK)


scale_of = inline(cells_of_one)


def offset_bits(cells: int) -> int:
    """Bits after the point of an offset. It is at most half a cell, so that 2^34 rows of a cell (or
    2^38) fit into an int64; only probabilities above 1, in the last cell, take more."""
    return OFFSET_BITS if cells <= COARSE else FINE_BITS


_offset_bits = inline(offset_bits)


@inline
def offset_tick(p, g, G):
    """The offset of p from the middle of cell g of G."""
    bits = _offset_bits(G)
    one = np.int64(1) << bits
    return tick(p * scale_of(G), np.float64(one)) - ((np.int64(g) << bits) + (one >> 1))


@twin(lambda outputs, *_: outputs)
@kernel
def tally_event(outputs, labels, cells, offsets):
    """Count the rows and hits of each cell, cells [G, 2], and sum outputs as offsets from the
    middle of their cell, offsets [G]."""
    G, scale = np.uint64(len(cells)), scale_of(len(cells))
    for i in range(outputs.size):
        p = max(outputs[i], 0.0)  # the complement of a probability that rounds to more than 1
        g = min(np.uint64(p * scale), G - np.uint64(1))
        cells[g, 0] += 1
        cells[g, 1] += labels[i]
        offsets[g] += offset_tick(p, g, G)


@twin(lambda outputs, *_: outputs)
@kernel
def tally_weighted_event(outputs, labels, weights, cells, sums):
    """The same with weights of at most 1, and pairs [G, 8] of the sums of w, w^2, w hit and w
    offset."""
    G, scale = np.uint64(len(cells)), scale_of(len(cells))
    step = 1.0 / scale
    for i in range(outputs.size):
        p, w = max(outputs[i], 0.0), weights[i]
        g = min(np.uint64(p * scale), G - np.uint64(1))
        cells[g, 0] += 1
        cells[g, 1] += labels[i]
        add_number(sums, g, 0, w)
        add_number(sums, g, 2, w * w)
        if labels[i]:
            add_number(sums, g, 4, w)
        add(sums, g, 6, tick(w * (p - (g + 0.5) * step), 2.0**WEIGHTED_BITS), WEIGHTED_BITS)
