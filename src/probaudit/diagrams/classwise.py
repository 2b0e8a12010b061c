"""Reliability of each class, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from ..calibration.cells import mean_gap
from ..calibration.fine_grid import FineGrid
from ..calibration.views import diagram_grids
from ..choices.distances import L1
from ..choices.lenses import Classwise
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..text import class_words, number
from .aligned import ACROSS, ECE_BINS, aligned_panels
from .bins import Bins, partition_of
from .diagram import SHARE, Diagram, stacked
from .picture import Picture
from .reliability import RANGE_HIGH, RANGE_LOW, Reliability

Order = Literal["worst", "largest"]


@dataclass(frozen=True, eq=False)
class ClasswiseReliability(Diagram):
    """The reliability of single classes against all others, ordered by error or by size.

    classes : the names of the classes shown. of : the number of classes, shown or not.
    """

    percents, in_files = Reliability.percents, (SHARE, RANGE_LOW, RANGE_HIGH)

    classes: tuple[str, ...]
    each: tuple[Reliability, ...]
    order: Order
    of: int

    @classmethod
    def of_grids(
        cls,
        grids: Sequence[FineGrid],
        names: Sequence[Any],
        *,
        most: int = 12,
        order: Order = "worst",
        bins: Bins = ECE_BINS,
        resamples: int = 199,
        seed: int = 0,
    ) -> ClasswiseReliability:
        """From the fine grid of each class."""
        if most < 1:
            raise InputError("most", "must be at least 1", most)
        if order not in ("worst", "largest"):
            raise InputError("order", 'must be "worst" or "largest"', repr(order))
        if order == "largest":
            size = [float(grid.targets.sum()) for grid in grids]
        else:
            size = [_class_error(grid, bins) for grid in grids]
        chosen = np.argsort(-np.array(size), kind="stable")[:most]
        each = tuple(
            Reliability.of_grid(
                grids[k], bins, event=f"class {names[k]}", resamples=resamples, seed=seed
            )
            for k in chosen
        )
        return cls(tuple(str(names[k]) for k in chosen), each, order, len(grids))

    def columns(self) -> dict[str, np.ndarray]:
        each = {name: one.columns() for name, one in zip(self.classes, self.each, strict=True)}
        return stacked("class", each)

    def picture(self) -> Picture:
        shown = len(self.each)
        which = (
            f"the {shown} {self.order} of {self.of:,}" if shown < self.of else f"{self.order} first"
        )
        caption = "The error beside each name is its calibration error "
        caption += f"({self.each[0].bins}, {self.each[0].n:,} rows)."
        worst = max(zip(self.classes, self.each, strict=True), key=lambda pair: pair[1].error)
        description = (
            f"Reliability diagrams of single classes ({which}). Class {worst[0]} has the largest"
            f" calibration error, {number(worst[1].error)}"
            f" (expected if calibrated {number(worst[1].null_mean)})."
        )
        panels = aligned_panels([class_words(name) for name in self.classes], self.each)
        return Picture(
            panels,
            f"Reliability of classes, {which}",
            description,
            caption,
            columns=min(ACROSS, shown),
        )


def _class_error(grid: FineGrid, bins: Bins) -> float:
    partition = partition_of(bins)
    if partition is None:
        raise InputError("bins", 'must not be "corp" when classes are ordered by error', repr(bins))
    return float(mean_gap(grid.cells(partition.grid_cells(grid.place, grid.rows[grid.kept])), L1()))


@takes_row_options
def classwise_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    most: int = 12,
    order: Order = "worst",
    bins: Bins = ECE_BINS,
    resamples: int = 199,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> ClasswiseReliability:
    """Reliability diagrams of single classes in small panels with common axes.

    most : how many classes to show. order : those with the largest calibration error ("worst") or
        the most rows ("largest").
    bins : as in `reliability_diagram`; their edges are edges of the cells of a fine grid.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(500, 3)
    >>> classwise_diagram(world.y, world.mcs, most=2, order="largest", bins=5).of
    3
    """
    predictions = rows_of(y_true, y_proba, **options)
    if predictions.pairs:
        raise InputError(
            predictions.name("probs"),
            "must be class probabilities, not a confidence",
        )
    grids, choices = diagram_grids(predictions, Classwise()), {"resamples": resamples, "seed": seed}
    return ClasswiseReliability.of_grids(
        grids, predictions.class_order, most=most, order=order, bins=bins, **choices
    )
