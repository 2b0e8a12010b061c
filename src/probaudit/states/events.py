"""The mergeable state of a single event: how often it happened, on a fine grid of its predicted
probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .summary import merge_pairs, numbers

# Cells of a grid: 2^5 x 3 x 5^2 x 7, so that the usual numbers of equal bins are unions of cells.
CELLS = 16_800
COARSE_CELLS = 840  # 2^3 x 3 x 5 x 7, for many events, such as one for each class


@dataclass(frozen=True)
class EventSums:
    """Sums over the rows of each of G equal cells of [0, 1]. Arrays [G]."""

    rows: np.ndarray
    hit_rows: np.ndarray
    weight: np.ndarray
    weight_squared: np.ndarray
    outputs: np.ndarray  # sum w p
    hits: np.ndarray  # sum w [the event happened]


class EventGrid:
    """Integers, so that any division of the rows into blocks gives the same bytes. Weights must be
    at most 1."""

    def __init__(self, cells: int = CELLS, *, weighted: bool = False) -> None:
        self._cells = np.zeros((cells, 2), np.int64)
        self._offsets = np.zeros(0 if weighted else cells, np.int64)
        self._sums = np.zeros((cells if weighted else 0, 8), np.int64)

    @property
    def weighted(self) -> bool:
        return len(self._sums) > 0

    def update(
        self, outputs: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
    ) -> EventGrid:
        """Add rows: outputs in [0, 1] (or above by rounding), labels 0 or 1."""
        from ..kernels.grid_cells import tally_event, tally_weighted_event

        if (weights is not None) != self.weighted:
            raise InputError("weights", "all rows of a state must have weights, or none")
        outputs = np.ascontiguousarray(outputs, np.float64)
        labels = np.ascontiguousarray(labels, np.int64)
        if weights is None:
            tally_event(outputs, labels, self._cells, self._offsets)
        else:
            tally_weighted_event(
                outputs, labels, np.ascontiguousarray(weights), self._cells, self._sums
            )
        return self

    def merge(self, other: EventGrid) -> EventGrid:
        """Add another state to this one."""
        if self._cells.shape != other._cells.shape or self.weighted != other.weighted:
            raise InputError(
                "other", "must have as many cells as this state, and weights if it has weights"
            )
        self._cells += other._cells
        self._offsets += other._offsets
        self._sums = merge_pairs(self._sums, other._sums)
        return self

    def to_bytes(self) -> bytes:
        return b"".join(array.tobytes() for array in (self._cells, self._offsets, self._sums))

    def finalise(self) -> EventSums:
        """The state as plain numbers."""
        rows, hit_rows = self._cells.T.copy()
        if not self.weighted:
            return counted_sums(rows, hit_rows, self._offsets)
        weight, squared, hits, offset = numbers(self._sums).T
        return EventSums(
            rows, hit_rows, weight, squared, weight * middles(len(rows)) + offset, hits
        )


def counted_sums(rows: np.ndarray, hits: np.ndarray, offsets: np.ndarray) -> EventSums:
    """Sums of rows without weights, given the offsets of outputs from the middles of their cells,
    summed in ticks."""
    from ..kernels.grid_cells import cells_of_one, offset_bits

    return event_sums(
        rows, hits, offsets / (2.0 ** offset_bits(len(rows)) * cells_of_one(len(rows)))
    )


def event_sums(rows: np.ndarray, hits: np.ndarray, offsets: np.ndarray) -> EventSums:
    """Sums of rows without weights, given the sums of the offsets of outputs from the middles of
    their cells."""
    weight = rows * 1.0
    return EventSums(rows, hits, weight, weight, weight * middles(len(rows)) + offsets, hits * 1.0)


def middles(cells: int) -> np.ndarray:
    """The middles of the cells of a grid."""
    from ..kernels.grid_cells import cells_of_one

    return (np.arange(cells) + 0.5) / cells_of_one(cells)
