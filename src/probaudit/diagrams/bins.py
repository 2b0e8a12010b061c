"""The bins of a reliability diagram: their partition, ends and names, and the histogram below."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..choices.partitions import Edges, EqualMass, EqualWidth, Partition
from ..errors import InputError

Bins = int | Partition | Literal["corp"]
FEW, FEW_SHARE = 10, 0.01
ROWS_PER_BIN = 60
RULE = 'must be a number, EqualWidth, EqualMass, Edges or "corp"'


def bins_for(rows: int, most: int) -> int:
    """The number of bins of a curve: fewer if bins would have few rows on average.

    >>> bins_for(10_000, 15), bins_for(240, 15)
    (15, 4)
    """
    return max(3, min(most, rows // ROWS_PER_BIN))


def partition_of(bins: Bins) -> Partition | None:
    """The partition of the bins; None for isotonic regression."""
    if isinstance(bins, str):
        if bins != "corp":
            raise InputError("bins", RULE, repr(bins))
        return None
    if isinstance(bins, (EqualWidth, EqualMass, Edges)):
        return bins
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)):
        raise InputError("bins", RULE, repr(bins))
    return EqualWidth(int(bins))


def bins_words(partition: Partition) -> str:
    """The number and kind of bins.

    >>> bins_words(EqualWidth(15))
    '15 equal-width bins'
    """
    if isinstance(partition, (EqualWidth, EqualMass)):
        kind = "equal-width" if isinstance(partition, EqualWidth) else "equal-mass"
        return f"{partition.bins} {kind} bins"
    return f"{len(getattr(partition, 'edges', ())) - 1} given bins"


def few_rows(rows: np.ndarray) -> int:
    """Bins with fewer rows than this are thin: 10, or 1% of all rows if that is less.

    >>> few_rows(np.array([5, 400, 3000])), few_rows(np.array([5, 55]))
    (10, 1)
    """
    return min(FEW, math.ceil(FEW_SHARE * int(rows.sum())))


def bin_ends(
    partition: Partition, number: np.ndarray, cell: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of bins: their edges for `EqualWidth`, else the range of their outputs.

    number : the numbers of the bins that have rows.
    cell, low, high : the bin of each row or grid cell, and its lowest and highest output.
    """
    if isinstance(partition, EqualWidth):
        return number / partition.bins, (number + 1) / partition.bins
    left, right = np.full(int(cell.max()) + 1, np.inf), np.full(int(cell.max()) + 1, -np.inf)
    np.minimum.at(left, cell, low)
    np.maximum.at(right, cell, high)
    return left[number], right[number]


def histogram(grid: FineGrid, bars: int) -> np.ndarray:
    """Left and right end, and rows, of the non-empty bars of a histogram on [0, 1]."""
    kept = grid.rows > 0
    part = np.minimum((np.flatnonzero(kept) + 0.5) * bars / len(grid.rows), bars - 1).astype(
        np.int64
    )
    rows = np.bincount(part, grid.rows[kept], minlength=bars)
    full = np.flatnonzero(rows)
    return np.stack([full / bars, (full + 1) / bars, rows[full]])
