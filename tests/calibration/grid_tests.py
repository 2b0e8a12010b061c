"""A binned error of a fine grid, tested against calibrated models."""

from __future__ import annotations

from probaudit.calibration.cells import mean_gap
from probaudit.calibration.fine_grid import FineGrid
from probaudit.calibration.significance import CalibrationTest
from probaudit.calibration.terms import Term
from probaudit.choices.distances import L1
from probaudit.choices.partitions import EqualWidth, Partition


def grid_test(
    grid: FineGrid, partition: Partition | None = None, *, resamples: int = 999
) -> CalibrationTest:
    partition = EqualWidth(15) if partition is None else partition
    term = Term.of_grid(grid, partition.grid_cells(grid.place, grid.rows[grid.kept]))
    value, (null,) = float(mean_gap(term.cells, L1())), term.nulls
    draws = null().null(L1(), resamples, 0)
    return CalibrationTest.of(value, draws, int(grid.rows.sum()), "")
