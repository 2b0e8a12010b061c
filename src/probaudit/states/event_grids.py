"""The grids of many events at once, filled in one pass: each class, and the most probable ones
together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..data.predictions import Block
from .events import CELLS, COARSE_CELLS, EventSums, counted_sums

if TYPE_CHECKING:
    from ..kernels.event_pass import Grids

MANY_EVENTS = 16  # number of events above which each has a coarse grid


def cells_for(events: int) -> int:
    """The number of cells of a grid, given the number of events."""
    return CELLS if events <= MANY_EVENTS else COARSE_CELLS


class EventGrids:
    """Like an `EventGrid` for each class and for each rank k: the event that the true class is
    among the k most probable, whose probability is their sum, added from the largest on. For rows
    without weights."""

    def __init__(self, classes: int, ranks: Sequence[int]) -> None:
        def zeros(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.int64)

        self._ranks = np.array(ranks, np.int64)
        self.lines = zeros(classes, cells_for(classes), 2)
        self.hits = zeros(classes, cells_for(classes))
        self.rank_lines = zeros(len(ranks), CELLS, 4)

    def update(self, block: Block, status: np.ndarray) -> None:
        """Add the good rows of a block of probabilities."""
        from ..kernels.event_pass import tally_events

        tally_events(*block.arrays, block.labels, status, self.grids)

    @property
    def grids(self) -> Grids:
        """The arrays, as kernels take them."""
        from ..kernels.event_pass import Grids

        return Grids(self.lines, self.hits, self._ranks, self.rank_lines)

    @cached_property
    def words(self) -> np.ndarray:
        """Scratch space of a kernel: zeros, a word for each cell of each class, and one for
        probabilities from 1 on."""
        classes, cells = self.hits.shape
        return np.zeros((classes, cells + 1), np.uint64)

    def like(self) -> EventGrids:
        """Empty grids of the same events."""
        return EventGrids(len(self.lines), self._ranks.tolist())

    def arrays(self) -> dict[str, np.ndarray]:
        names = ("lines", "hits", "rank_lines")
        return {f"events.{name}": getattr(self, name) for name in names}

    def restore(self, stored: Mapping[str, np.ndarray]) -> None:
        for name, array in self.arrays().items():
            array[...] = stored[name]

    def merge(self, other: EventGrids, sign: int = 1) -> None:
        """Add other grids to these, or subtract them."""
        for mine, theirs in zip(self.arrays().values(), other.arrays().values(), strict=True):
            mine += sign * theirs

    def finalise(self) -> tuple[tuple[EventSums, ...], dict[int, EventSums]]:
        """The sums of each class, and of each rank."""
        classes = tuple(
            _sums(lines, hits) for lines, hits in zip(self.lines, self.hits, strict=True)
        )
        ranks = [_sums(lines, lines[:, 2]) for lines in self.rank_lines]
        return classes, dict(zip(self._ranks.tolist(), ranks, strict=True))


def _sums(lines: np.ndarray, hits: np.ndarray) -> EventSums:
    return counted_sums(lines[:, 0].copy(), hits.copy(), lines[:, 1])
