"""Cells of rows that are not in memory: a sample determines the cells, and one pass counts all
rows in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..choices.lenses import Lens, View
from ..choices.partitions import Partition
from ..data.predictions import Predictions
from ..engines.totals import from_ticks, in_ticks
from ..errors import InputError
from ..states import Plan
from ..states.evidence import Evidence
from .cells import Categories, Cells
from .null import BinomialNull
from .resampling import effective_rows
from .terms import Term
from .views import lens_rows, views_of_block


@dataclass(frozen=True, eq=False)
class CellCounting:
    """Counts a block of rows: for each view of a lens, sums over the rows of each cell and label.

    partitions, labels, outputs : for each view, the partition placed by the sample, the number of
        labels, and the number of outputs of a row.
    """

    plan: Plan
    lens: Lens
    partitions: tuple[Partition, ...]
    labels: tuple[int, ...]
    outputs: tuple[int, ...]

    def __call__(self, start: int, rows: Predictions) -> list[np.ndarray]:
        _, views, weights = views_of_block(self.plan, self.lens, start, rows)
        sizes = [
            partition.count * labels
            for partition, labels in zip(self.partitions, self.labels, strict=True)
        ]
        if not views:
            return [
                np.zeros((size, 5 + 2 * outputs), np.int64)
                for size, outputs in zip(sizes, self.outputs, strict=True)
            ]
        sums = []
        for view, partition, labels, size in zip(
            views, self.partitions, self.labels, sizes, strict=True
        ):
            code = partition.cells(view.outputs) * labels + view.labels
            parts = (
                weights,
                weights**2,
                *(weights * column for column in view.outputs.reshape(len(code), -1).T),
            )
            sums.append(
                np.column_stack(
                    [
                        np.bincount(code, minlength=size),
                        *(in_ticks(code, part, size) for part in parts),
                    ]
                )
            )
        return sums


def counted_terms(evidence: Evidence, lens: Lens, partition: Partition) -> tuple[list[Term], bool]:
    """A term for each view of a lens, with all rows counted in cells determined by the sample; and
    whether these cells depend on the sample."""
    if evidence.total is None:
        raise InputError(
            "y_true", "must have rows", "a saved state", way_out=("pass the original data",)
        )
    views = [shown.view for shown in lens_rows(evidence.sample, lens)]
    widths = tuple(1 if view.outputs.ndim == 1 else view.outputs.shape[1] for view in views)
    labels = tuple(max(2, width) for width in widths)
    placed = tuple(partition.placed(view.outputs) for view in views)
    totals = evidence.total(CellCounting(evidence.summary.plan, lens, placed, labels, widths))
    terms = []
    for total, number in zip(totals, labels, strict=True):
        cells = _cells(total, number)
        nulls = (partial(BinomialNull.of_cells, cells),) if cells.outputs.ndim == 1 else ()
        terms.append(
            Term(cells, 1 / len(totals), (partial(_categories, total, number),), nulls=nulls)
        )
    return terms, any(one is not partition for one in placed)


def _categories(total: np.ndarray, labels: int) -> Categories:
    """The categories of rows that share a cell and a label."""
    sums = from_ticks(total[:, 1:])
    code = np.flatnonzero(sums[:, 0])
    counts, sums = total[code, 0], sums[code]
    outputs = sums[:, 2:] / sums[:, :1]
    view = View(outputs[:, 0] if outputs.shape[1] == 1 else outputs, code % labels)
    return Categories(view, code // labels, sums[:, 0] / counts, counts)


def _cells(total: np.ndarray, labels: int) -> Cells:
    """The cells that have weight."""
    table = total.reshape(-1, labels, total.shape[1])
    number = np.flatnonzero(table[:, :, 1:3].any(axis=(1, 2)))
    rows, sums = table[number, :, 0].sum(axis=1), from_ticks(table[number, :, 1:].sum(axis=1))
    weight, squared, outputs = sums[:, 0], sums[:, 1], sums[:, 2:] / sums[:, :1]
    targets = from_ticks(table[number, :, 1:3])[..., 0] / weight[:, None]
    if outputs.shape[1] == 1:
        return Cells(
            number, rows, weight, outputs[:, 0], targets[:, 1], effective_rows(weight, squared)
        )
    return Cells(number, rows, weight, outputs, targets, effective_rows(weight, squared))
