"""The grids of all events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .fixed_point import cells_of
from .grid_cells import offset_ticks

if TYPE_CHECKING:
    from ..event_pass import Grids

Array = np.ndarray


def tally_events(
    values: Array, addresses: None, like: Array, y: Array, status: Array, grids: Grids
) -> None:
    good = status == 0
    given, labels = values[good], y[good].astype(np.int64)
    table = np.ascontiguousarray(given.T)
    truth = table[labels, np.arange(len(labels))]
    if len(grids.lines):
        G = grids.hits.shape[1]
        for p, lines in zip(table, grids.lines, strict=True):
            _add_event(np.where(p > 0.0, p, 0.0).astype(np.float64), None, lines)
        np.add.at(grids.hits, (labels, cells_of(truth.astype(np.float64), G)), 1)
    if len(grids.ranks):
        classes = np.arange(len(table))[:, None]
        rank = ((table > truth) | ((table == truth) & (classes < labels))).sum(axis=0)
        top = -np.sort(-table, axis=0)[: grids.ranks[-1]]
        total = np.add.accumulate(top.astype(np.float64), axis=0)
        for k, lines in zip(grids.ranks, grids.rank_lines, strict=True):
            # with fewer classes than k, the kernel adds zeros
            _add_event(total[min(k, len(total)) - 1], rank < k, lines)


def _add_event(p: Array, hits: Array | None, lines: Array) -> None:
    """Count rows, sum distances from the middles of cells, and count hits if there are any."""
    g = cells_of(p, len(lines))
    np.add.at(lines[:, 0], g, 1)
    np.add.at(lines[:, 1], g, offset_ticks(p, g, len(lines)))
    if hits is not None:
        np.add.at(lines[:, 2], g, hits)
