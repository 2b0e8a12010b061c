"""The terms of a calibration error: from rows, from a fine grid, or from the counts of a pass.

A calibration error is a weighted sum with a `Term` for each view of the lens. Whatever its source,
a term has cells, a way to resample its rows, and a way to simulate a calibrated model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..choices.lenses import Classwise, Lens, OneVsRest
from ..choices.partitions import EqualWidth, Partition
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows, survey
from ..errors import InputError
from .cells import (
    Categories,
    Cells,
    exact_total,
    gather_categories,
    gather_cells,
    gather_class_cells,
)
from .fine_grid import FineGrid
from .null import BinomialNull
from .views import LensRows, dependent_events, grids_of, lens_rows


@dataclass(frozen=True)
class Term:
    """One or more errors of a weighted sum.

    cells : of the error; [classes, bins] for several.
    share : the weight of the term in the sum.
    categories : for each error, a function that gathers the categories by which to resample rows.
    rows, total : the places of its rows among all `total` rows, if rows are known.
    grid_cells : the size of the fine grid that it was made from, if any.
    nulls : for single events, functions that make the null distribution of each error.
    shares : the weight of each error within the term; equal by default.
    """

    cells: Cells
    share: float
    categories: tuple[Callable[[], Categories], ...]
    rows: np.ndarray | None = None
    total: int = 0
    grid_cells: int = 0
    nulls: tuple[Callable[[], BinomialNull], ...] = ()
    shares: tuple[float, ...] | None = None

    @classmethod
    def of_rows(
        cls,
        shown: LensRows,
        cell: Callable[[], np.ndarray],
        share: float,
        cells: Cells | None = None,
        null: Callable[[], BinomialNull] | None = None,
    ) -> Term:
        """From the rows of a view. `cell` : a function that returns the cell of each row. `cells`,
        `null` : the gathered cells and the null distribution, if they are known already."""

        def categories() -> Categories:
            return gather_categories(shown.view, cell(), shown.weights)

        def own_null() -> BinomialNull:
            return BinomialNull.of_view(shown.view, cell(), shown.weights)

        return cls(
            gather_cells(shown.view, cell(), shown.weights) if cells is None else cells,
            share,
            (categories,),
            shown.rows,
            shown.total,
            nulls=(own_null if null is None else null,) if shown.view.outputs.ndim == 1 else (),
        )

    @classmethod
    def of_grid(cls, grid: FineGrid, cell: np.ndarray, share: float = 1.0) -> Term:
        """From an event on its fine grid. `cell` : the cell of the partition for each kept cell of
        the grid."""
        return cls(
            grid.cells(cell),
            share,
            (partial(grid.categories, cell),),
            grid_cells=len(grid.rows),
            nulls=(partial(BinomialNull.of_grid, grid, cell),),
        )

    @classmethod
    def of_classes(cls, predictions: Predictions, partition: EqualWidth) -> Term:
        """The errors of all classes over equal-width bins, from one pass over the rows."""
        rows = GoodRows.of(predictions)
        outputs = survey(predictions).state.mean_outputs() * exact_total(rows.weights)

        def categories(k: int) -> Categories:
            view = OneVsRest(k).view(rows.probs, rows.labels)
            return gather_categories(view, partition.cells(view.outputs), rows.weights)

        def null(k: int) -> BinomialNull:
            view = OneVsRest(k).view(rows.probs, rows.labels)
            return BinomialNull.of_view(view, partition.cells(view.outputs), rows.weights)

        cells = gather_class_cells(rows.probs, rows.labels, rows.weights, outputs, partition)
        classes = range(len(cells.weight))
        return cls(
            cells,
            1.0,
            tuple(partial(categories, k) for k in classes),
            rows.places,
            rows.total,
            nulls=tuple(partial(null, k) for k in classes),
        )

    @property
    def each(
        self,
    ) -> list[tuple[Cells, float, Callable[[], Categories], Callable[[], BinomialNull] | None]]:
        """For each error: its cells, its share, its categories and its null distribution."""
        cells, nulls = self.cells.each, self.nulls or (None,) * len(self.categories)
        shares = self.shares or (1 / len(cells),) * len(cells)
        return [
            (c, self.share * s, k, t)
            for c, s, k, t in zip(cells, shares, self.categories, nulls, strict=True)
        ]

    def mean(self, errors: np.ndarray) -> float:
        """The mean of the errors, weighted by their shares."""
        errors = np.atleast_1d(errors)
        return float(np.mean(errors)) if self.shares is None else float(np.dot(errors, self.shares))


def row_terms(
    predictions: Predictions, lens: Lens, partition: Partition, where: Any = None
) -> list[Term]:
    """A term for each view of the lens, from the rows themselves."""
    predictions.check_index("partition", partition)
    if isinstance(lens, Classwise) and isinstance(partition, EqualWidth) and where is None:
        return [Term.of_classes(predictions, partition)]
    views = lens_rows(predictions, even(lens), where)
    return [
        Term.of_rows(
            shown,
            partial(shown.cells, partition),
            1 / len(views),
            shown.gather(partition),
            partial(shown.null, partition),
        )
        for shown in views
    ]


def thinned_terms(
    predictions: Predictions, lens: Lens, partition: Partition, where: Any = None
) -> list[Term]:
    """As `row_terms`, for debiased errors of rows in clusters: the effective rows of each cell are
    divided by its design effect."""
    predictions.check_index("partition", partition)
    views, terms = lens_rows(predictions, even(lens), where), []
    if views[0].view.outputs.ndim > 1:
        raise InputError(
            "debias", "of rows in clusters requires a lens of single events", repr(lens)
        )
    events = dependent_events(predictions, even(lens), where) or ()
    for shown, event in zip(views, events, strict=True):
        cells = shown.gather(partition)
        cells = replace(
            cells, effective=cells.effective / event.effects(cells, shown.cells(partition))
        )
        terms.append(Term.of_rows(shown, partial(shown.cells, partition), 1 / len(views), cells))
    return terms


def grid_terms(
    predictions: Predictions, lens: Lens, partition: Partition, where: Any = None
) -> list[Term]:
    """A term for each event of the lens, from its fine grid."""
    if where is not None:
        raise InputError("exact", "must be True for a selection of rows")
    grids = grids_of(predictions, even(lens))
    return [
        Term.of_grid(grid, partition.grid_cells(grid.place, grid.rows[grid.kept]), 1 / len(grids))
        for grid in grids
    ]


def even(lens: Lens) -> Lens:
    """The lens without class weights, which only apply to the mean of the errors."""
    return Classwise() if isinstance(lens, Classwise) else lens


def with_class_shares(
    terms: list[Term], lens: Lens, priors: Callable[[], np.ndarray]
) -> list[Term]:
    """The same terms with the class weights of the lens.

    priors : returns the class frequencies. It finalises a summary, so it is called only if the lens
        has weights.
    """
    if not isinstance(lens, Classwise) or lens.weights is None:
        return terms
    shares = np.asarray(lens.shares(priors()))
    if len(terms) == 1 and terms[0].cells.weight.ndim == 2:
        return [replace(terms[0], shares=tuple(shares.tolist()))]
    return [replace(term, share=share) for term, share in zip(terms, shares.tolist(), strict=True)]


def whole_grid_term(grid: FineGrid) -> Term:
    """A term whose cells are the cells of the grid that have rows."""
    return Term.of_grid(grid, np.flatnonzero(grid.kept))


def terms_on_grid(predictions: Predictions, lens: Lens, size: int) -> list[Term]:
    """The same for each view of a lens, from the rows themselves."""
    views = lens_rows(predictions, lens)

    def cell(outputs: np.ndarray) -> np.ndarray:
        return np.minimum((np.clip(outputs, 0, 1) * size).astype(np.int64), size - 1)

    return [Term.of_rows(one, partial(cell, one.view.outputs), 1 / len(views)) for one in views]
