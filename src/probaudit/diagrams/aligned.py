"""Reliability diagrams of several models or classes side by side, with common bins and axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..text import number
from .bins import Bins
from .diagram import SHARE, Diagram, stacked
from .picture import Mark, Panel, Picture, Points
from .reliability import RANGE_HIGH, RANGE_LOW, Reliability

ACROSS = 3
ECE_BINS = 15  # as in `calibration_error`, so that an error beside a name is the ECE


def aligned_panels(names: Sequence[str], each: Sequence[Reliability]) -> tuple[Panel, ...]:
    """One panel each, with the calibration error in its title. Points have one size: areas need a
    larger panel."""
    across = min(ACROSS, len(each))
    panels = (
        one.panel(
            title=f"{short_name(name)}, error {number(one.error, 3)}",
            x="predicted" if k + across >= len(each) else "",  # lowest panel of its column
            y="" if k % across else "observed",
        )
        for k, (name, one) in enumerate(zip(names, each, strict=True))
    )
    return tuple(
        replace(panel, key=name, marks=tuple(map(_unsized, panel.marks)))
        for name, panel in zip(names, panels, strict=True)
    )


def _unsized(mark: Mark) -> Mark:
    return replace(mark, size=None) if isinstance(mark, Points) else mark


def short_name(name: str, most: int = 22) -> str:
    """A name that fits above a panel."""
    return name if len(name) <= most else name[: most - 1] + "…"


@dataclass(frozen=True, eq=False)
class AlignedReliability(Diagram):
    """The reliability of the most probable class of several models."""

    percents, in_files = Reliability.percents, (SHARE, RANGE_LOW, RANGE_HIGH)

    models: tuple[str, ...]
    each: tuple[Reliability, ...]
    event: str = "the most probable class"

    @classmethod
    def of_grids(
        cls,
        grids: Mapping[str, FineGrid],
        *,
        bins: Bins = ECE_BINS,
        resamples: int = 199,
        seed: int = 0,
        errors: Mapping[str, float] | None = None,
        event: str = "the most probable class",
    ) -> AlignedReliability:
        """From the fine grid of each model by its name.

        errors : the calibration error of each model, if it is known from the rows.
        """
        each = [
            Reliability.of_grid(grid, bins, resamples=resamples, seed=seed)
            for grid in grids.values()
        ]
        if errors is not None:
            each = [replace(one, error=errors[m]) for m, one in zip(grids, each, strict=True)]
        return cls(tuple(grids), tuple(each), event)

    def columns(self) -> dict[str, np.ndarray]:
        each = {name: one.columns() for name, one in zip(self.models, self.each, strict=True)}
        return stacked("model", each)

    def picture(self) -> Picture:
        errors = zip(self.models, self.each, strict=True)
        listed = ", ".join(
            f"{name} {number(one.error)} (expected if calibrated {number(one.null_mean)})"
            for name, one in errors
        )
        caption = "The error beside each name is its calibration error "
        caption += f"({self.each[0].bins}, {self.each[0].n:,} rows)."
        description = f"Reliability diagrams of {self.event}, with calibration errors: {listed}."
        columns = min(ACROSS, len(self.each))
        return Picture(
            aligned_panels(self.models, self.each),
            "Reliability of each model",
            description,
            caption,
            columns,
        )
