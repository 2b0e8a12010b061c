"""Sums that move from one array to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..fixed_point import PART_BITS, PART_MASK, ROUND_BITS
from ..tallies import CELL_BRIER, CELL_LOG, CELL_OFFSET, SLACK_TICKS
from .fixed_point import add

if TYPE_CHECKING:
    from ..tallies import Running, Tallies


def flush_cells(run: Running, t: Tallies) -> None:
    G = len(t.cells)
    for argmax in range(len(run.cells) // G):
        grid = run.cells[argmax * G : (argmax + 1) * G]
        used = np.flatnonzero(grid[:, 0])
        lines, cells = grid[used], t.cells[used]
        grid[used] = 0
        rows, hits = lines[:, 0] & 0xFFFFFFFF, lines[:, 0] >> 32
        offset, log, brier = (lines[:, 1:] - rows[:, None] * ROUND_BITS).T
        cells[:, :2] += np.stack([rows, hits], axis=1)
        add(cells, 3, offset, CELL_OFFSET)
        add(cells, 5, log, CELL_LOG)
        add(cells, 7, brier, CELL_BRIER)
        t.cells[used] = cells
        if len(run.cells) > G:
            places = argmax * G + used, (1 - argmax) * G + G - 1 - used
            opposite = rows * SLACK_TICKS - offset
            for place, count, moved in zip(
                places, (hits, rows - hits), (offset, opposite), strict=True
            ):
                of_class = t.class_cells[place]
                of_class[:, :2] += np.stack([rows, count], axis=1)
                add(of_class, 2, moved, CELL_OFFSET)
                t.class_cells[place] = of_class


def merge(target: np.ndarray, other: np.ndarray, plain: int, sign: int) -> None:
    target[:, :plain] += sign * other[:, :plain]
    wholes, parts = slice(plain, None, 2), slice(plain + 1, None, 2)
    part = target[:, parts] + sign * other[:, parts]
    target[:, wholes] += sign * other[:, wholes] + (part >> PART_BITS)
    target[:, parts] = part & PART_MASK
