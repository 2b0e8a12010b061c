"""Reliability curves of several models in one panel, with common bins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..text import number
from .aligned import ECE_BINS, AlignedReliability
from .bins import Bins, bins_for, few_rows
from .diagram import SHARE, Diagram, stacked
from .picture import Axis, Band, Line, Mark, Panel, Picture, Points, Rule
from .reliability import RANGE_HIGH, RANGE_LOW, Reliability


@dataclass(frozen=True, eq=False)
class OverlaidReliability(Diagram):
    """The observed rate of an event against its predicted probability, one curve for each model.
    The picture leaves out bins with very few rows, whose rates are noise; `columns` has them."""

    percents, in_files = Reliability.percents, (SHARE, RANGE_LOW, RANGE_HIGH)

    models: tuple[str, ...]
    each: tuple[Reliability, ...]
    event: str = "the most probable class"

    @classmethod
    def of_grids(
        cls,
        grids: Mapping[str, FineGrid],
        *,
        bins: Bins | None = None,
        errors: Mapping[str, float] | None = None,
        event: str = "the most probable class",
    ) -> OverlaidReliability:
        """From the fine grid of each model by its name; `errors` as in `AlignedReliability`.

        bins : 15 of equal width by default, or fewer for few rows.
        """
        if bins is None:
            bins = bins_for(int(next(iter(grids.values())).rows.sum()), ECE_BINS)
        found = AlignedReliability.of_grids(
            grids, bins=bins, resamples=1, errors=errors, event=event
        )
        return cls(found.models, found.each, event)

    def columns(self) -> dict[str, np.ndarray]:
        each = {name: one.bin_columns() for name, one in zip(self.models, self.each, strict=True)}
        return stacked("model", each)

    def picture(self) -> Picture:
        marks: list[Mark] = [Rule(role="reference")]  # a model may have any name
        for s, (model, one) in enumerate(zip(self.models, self.each, strict=True)):
            role, of = f"series {s}", self._drawn(one)
            size = one.share[of] / max(each.share.max() for each in self.each)
            detail: dict[str, Any] = {
                "model": [model] * int(of.sum()),
                "rows": one.rows[of],
                "predicted": one.stated[of],
                "observed": one.observed[of],
                "95% interval": [
                    f"{low:.3f} to {high:.3f}"
                    for low, high in zip(one.low[of], one.high[of], strict=True)
                ],
            }
            x, y = one.stated[of], one.observed[of]
            marks += [
                Band(x, one.low[of], one.high[of], role=role),
                Line(x, y, role=role, name=model),
                Points(x, y, size=size, role=role, name=model, detail=detail),
            ]
        across = Axis("predicted probability", 0, 1, percent=True)
        up = Axis("observed rate", 0, 1, percent=True)
        panel = Panel(tuple(marks), across, up, square=True)
        caption = (
            f"Probability of {self._event}. A calibrated model lies on the dashed line; below it, "
            "predictions are too high. "
            f"Larger points have more rows ({self.each[0].bins}, {self.each[0].n:,} rows)."
            " Shaded: 95% intervals."
        )
        if not all(self._drawn(one).all() for one in self.each):
            caption += f" Bins with fewer than {self._least} rows are left out."
        return Picture((panel,), "Reliability of all models", self._description(), caption)

    @property
    def _least(self) -> int:
        """The rows of a bin that is drawn."""
        return few_rows(self.each[0].rows)

    def _drawn(self, one: Reliability) -> np.ndarray:
        return np.asarray(one.rows >= self._least)

    @property
    def _event(self) -> str:
        """The event, without the words that the title of the axis has."""
        return self.event.removeprefix("the probability of ")

    def _description(self) -> str:
        errors = ", ".join(
            f"{model} {number(one.error)}"
            for model, one in zip(self.models, self.each, strict=True)
        )
        return (
            f"Reliability curves of {self.event}, with calibration errors (ECE) of the models: "
            f"{errors}."
        )
