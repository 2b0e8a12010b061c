"""The views of a lens: outputs and labels of the selected rows, with weights and places; and their
fine grids."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..choices.lenses import Binary, Lens, OneVsRest, TopLabel, View, error_lens
from ..choices.partitions import EqualMass, EqualWidth, Partition, rising_order
from ..choices.selections import Selection, as_selection
from ..data.pixels import PixelRows
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows, events, good_of_block, survey
from ..errors import InputError
from ..scoring.clusters import Clusters
from ..states import Plan
from .cells import Cells, gather_cells
from .dependent_event import DependentEvent
from .fine_grid import FineGrid
from .null import BinomialNull


def views_of_block(
    plan: Plan, lens: Lens, start: int, rows: Predictions
) -> tuple[np.ndarray, list[View], np.ndarray]:
    """The good rows of a block: their places, the views of a lens, and their weights, scaled by the
    plan."""
    block = rows.block(0, len(rows))._replace(first_row=start)
    good, weights = np.flatnonzero(good_of_block(plan, block)), plan.scaled(block.weights)
    views = (
        lens_of(rows, lens).views(rows.probabilities(good), block.labels[good]) if len(good) else []
    )
    return good, views, np.ones(len(good)) if weights is None else weights[good]


@dataclass(frozen=True)
class LensRows:
    """A view of a lens, with the weight of each row and its place among all `total` rows."""

    view: View
    weights: np.ndarray
    rows: np.ndarray
    total: int
    gathered: dict[Partition, Cells] = field(default_factory=dict, repr=False)
    nulls: dict[Partition, BinomialNull] = field(default_factory=dict, repr=False)

    @cached_property
    def order(self) -> np.ndarray:
        """The order of the rows by output, for a single event."""
        return rising_order(self.view.outputs)

    def cells(self, partition: Partition) -> np.ndarray:
        """The cell of each row."""
        if isinstance(partition, EqualMass) and self.view.outputs.ndim == 1:
            return partition.cells(self.view.outputs, self.order)
        return partition.select(self.rows, self.total).cells(self.view.outputs)

    def gather(self, partition: Partition) -> Cells:
        """The cells of a partition; memoised for equal-width and equal-mass bins, which many
        measures share."""
        known = type(partition) in (EqualWidth, EqualMass)
        cells = self.gathered.get(partition) if known else None
        if cells is None:
            cells = gather_cells(self.view, self.cells(partition), self.weights)
        if known:
            self.gathered[partition] = cells
        return cells

    def null(self, partition: Partition) -> BinomialNull:
        """The null of the cells of a partition, for a single event; memoised like the cells."""
        known = type(partition) in (EqualWidth, EqualMass)
        if known and partition in self.nulls:
            return self.nulls[partition]
        null = BinomialNull.of_view(self.view, self.cells(partition), self.weights)
        if known:
            self.nulls[partition] = null
        return null


def lens_of(predictions: Predictions, lens: Lens | None) -> Lens:
    """The lens, by default that of `error_lens`. For pairs of confidence and correctness, the top
    label is the answer itself."""
    lens = error_lens(predictions, lens)
    return Binary() if predictions.pairs and type(lens) is TopLabel else lens


def lens_rows(predictions: Predictions, lens: Lens, where: Any = None) -> list[LensRows]:
    """The views of a lens, for the rows of a selection. Some selections apply before the lens,
    others after it."""
    lens = lens_of(predictions, lens)
    if where is None:
        return _all_rows(predictions, lens)
    selection = as_selection(where)
    predictions.check_index("where", selection)
    rows = GoodRows.of(predictions)
    selection, before = selection.select(rows.places, rows.total), View(rows.probs, rows.labels)
    if selection.after_lens:
        views = [
            _kept(shown, selection.keeps(before, shown.view))
            for shown in _all_rows(predictions, lens)
        ]
    else:
        kept = np.flatnonzero(selection.mask(before))
        views = [
            LensRows(view, rows.weights[kept], rows.places[kept], rows.total)
            for view in lens.views(rows.probs[kept], rows.labels[kept])
        ]
    if not all(len(shown.rows) for shown in views):
        raise InputError("where", "must select at least one good row")
    return views


def _all_rows(predictions: Predictions, lens: Lens) -> list[LensRows]:
    """The views of a lens without a selection; memoised for single events, which many measures
    share."""
    shown: list[LensRows] | None = (
        predictions.memo.get(lens) if type(lens) in (TopLabel, OneVsRest, Binary) else None
    )
    if shown is None:
        rows, top = GoodRows.of(predictions), survey(predictions).top
        dense = isinstance(predictions.probs, PixelRows)  # read block by block (`GoodRows.views`)
        # the survey may have determined the top class
        if type(lens) is TopLabel and top is not None and not dense:
            views = [
                View(
                    rows.probs[np.arange(len(top)), top].astype(np.float64),
                    (top == rows.labels).astype(np.int64),
                )
            ]
        else:
            views = rows.views(lens)
        shown = [LensRows(view, rows.weights, rows.places, rows.total) for view in views]
    if type(lens) in (TopLabel, OneVsRest, Binary):
        predictions.memo[lens] = shown
    return shown


def _kept(shown: LensRows, keeps: np.ndarray) -> LensRows:
    inside = np.flatnonzero(keeps)
    view = View(shown.view.outputs[inside], shown.view.labels[inside])
    return LensRows(view, shown.weights[inside], shown.rows[inside], shown.total)


def event_rows(predictions: Predictions, lens: Lens) -> LensRows:
    """The rows of a lens of a single event."""
    views = lens_rows(predictions, lens)
    if len(views) != 1 or views[0].view.outputs.ndim != 1:
        raise InputError("lens", "must show a single event", repr(lens))
    return views[0]


def single_event(predictions: Predictions, lens: Lens) -> Predictions:
    """The event of a lens as rows of two classes, with their columns: good rows only."""
    shown = event_rows(predictions, lens)
    columns, clusters = predictions.columns, predictions.clusters
    weights = predictions.sample_weight
    return Predictions(
        shown.view.labels,
        np.clip(shown.view.outputs, 0, 1),
        sample_weight=None if weights is None else weights[shown.rows],
        columns=None if columns is None else {k: v[shown.rows] for k, v in columns.items()},
        clusters=None if clusters is None else clusters[shown.rows],
        names=predictions.names,
    )


def grids_of(predictions: Predictions, lens: Lens) -> list[FineGrid]:
    """The fine grid of each event of a lens, in one pass that keeps no rows."""
    # the scoring pass has this grid
    if type(lens) is TopLabel and predictions.sample_weight is None:
        return [FineGrid.of_summary(survey(predictions).summary.grid)]
    grids = [
        FineGrid.of_event(grid.finalise())
        for grid in events(predictions, lens_of(predictions, lens))
    ]
    if not grids[0].rows.any():
        raise InputError(predictions.name("probs"), "no row is left to judge")
    return grids


def dependent_events(
    predictions: Predictions, lens: Lens, where: Any = None
) -> list[DependentEvent] | None:
    """Each event of a lens with its clusters; None for independent rows."""
    if predictions.clusters is None:
        return None
    number, events = np.asarray(predictions.cluster_numbers), []
    for shown in lens_rows(predictions, lens, where):
        own = np.unique(number[shown.rows], return_inverse=True)[1].reshape(-1)
        share = shown.weights / shown.weights.sum()
        events.append(DependentEvent(shown.view, Clusters(own, share)))
    return events


def diagram_grids(predictions: Predictions, lens: Lens) -> list[FineGrid]:
    """As `grids_of`; for rows in clusters, effective rows are divided by the design effect."""
    grids, events = grids_of(predictions, lens), dependent_events(predictions, lens)
    return (
        grids
        if events is None
        else [event.thinned(grid) for event, grid in zip(events, grids, strict=True)]
    )


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The good rows as probabilities, for many estimates (several lenses, or group by group), so
    that logits are converted only once. `partition` and `mask` restrict choices for all rows to the
    good ones."""

    predictions: Predictions
    lens: Lens
    rows: GoodRows

    @classmethod
    def of(cls, given: Predictions, lens: Lens) -> PreparedRows:
        rows = GoodRows.of(given)
        weights = None if given.sample_weight is None else rows.weights
        plain = Predictions(
            rows.labels,
            rows.probs,
            sample_weight=weights,
            clusters=None if given.clusters is None else given.clusters[rows.places],
            tolerance=given.row_tolerance,
            names=given.names,
        )
        return cls(plain, lens_of(given, lens), rows)

    def partition(self, partition: Partition) -> Partition:
        return partition.select(self.rows.places, self.rows.total)

    def mask(self, where: Selection) -> np.ndarray:
        """Which of these rows are selected and have a positive weight."""
        chosen = where.select(self.rows.places, self.rows.total).mask(
            View(self.rows.probs, self.rows.labels)
        )
        return np.asarray(chosen & (self.rows.weights > 0))
