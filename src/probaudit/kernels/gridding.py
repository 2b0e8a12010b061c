"""A single event on the fine grid, in integers."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .fixed_point import add, add_number, tick

OFFSET_BITS = 30  # an offset is in 2^-30 of a cell, and at most half of one, so that 2^34 rows fit into an int64
WEIGHTED_BITS = 58


@inline
def offset_tick(p, g, G):
    """How far p lies from the middle of cell g of G, in 2^-OFFSET_BITS of a cell."""
    return tick(p * G, 2.0**OFFSET_BITS) - ((np.int64(g) << OFFSET_BITS) + (np.int64(1) << (OFFSET_BITS - 1)))


@kernel
def tally_event(outputs, labels, cells, offsets):
    """Count rows and hits of each cell, cells [G, 2], and sum outputs as offsets from its middle, offsets [G]."""
    G = np.uint64(len(cells))
    for i in range(outputs.size):
        p = max(outputs[i], 0.0)  # the complement of a probability that rounds to more than 1
        g = min(np.uint64(p * G), G - np.uint64(1))
        cells[g, 0] += 1
        cells[g, 1] += labels[i]
        offsets[g] += offset_tick(p, g, G)


@kernel
def tally_weighted_event(outputs, labels, weights, cells, sums):
    """As tally_event, with pairs [G, 8] of the sums of w, w^2, w hit and w offset. Weights are at most 1."""
    G, step = np.uint64(len(cells)), 1.0 / len(cells)
    for i in range(outputs.size):
        p, w = max(outputs[i], 0.0), weights[i]
        g = min(np.uint64(p * G), G - np.uint64(1))
        cells[g, 0] += 1
        cells[g, 1] += labels[i]
        add_number(sums, g, 0, w)
        add_number(sums, g, 2, w * w)
        if labels[i]:
            add_number(sums, g, 4, w)
        add(sums, g, 6, tick(w * (p - (g + 0.5) * step), 2.0**WEIGHTED_BITS), WEIGHTED_BITS)
