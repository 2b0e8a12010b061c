"""Calibration-sharpness diagrams of several models side by side, with common axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..text import number
from .aligned import ACROSS, short_name
from .diagram import Diagram, stacked
from .picture import Panel, Picture
from .sharpness import HOW_TO_READ, TITLE, CalibrationSharpness


@dataclass(frozen=True, eq=False)
class AlignedSharpness(Diagram):
    """The calibration-sharpness diagram of each model, by name. All densities have one scale."""

    each: Mapping[str, CalibrationSharpness]

    def columns(self) -> dict[str, np.ndarray]:
        return stacked("model", {name: one.columns() for name, one in self.each.items()})

    def picture(self) -> Picture:
        across = min(ACROSS, len(self.each))
        errors = "; ".join(
            f"{name}: calibration error {number(one.calibration)} of a total loss of "
            f"{number(one.total)}"
            for name, one in self.each.items()
        )
        caption = f"{HOW_TO_READ} Grey areas show how often each confidence occurs, on one scale "
        caption += "for all models."
        return Picture(
            tuple(self._panel(k, across) for k in range(len(self.each))),
            TITLE,
            f"Calibration-sharpness diagrams of {len(self.each)} models. {errors}.",
            caption,
            across,
        )

    def _panel(self, k: int, across: int) -> Panel:
        name, one = list(self.each.items())[k]
        top = max(float(other.density.max()) for other in self.each.values())
        above, below = one.curve_panel(short_name(name)), one.density_panel()
        lowest = k + across >= len(self.each)  # panel of its column
        start = min(other.lowest for other in self.each.values())
        x = replace(below.x, low=start, title="predicted" if lowest else "")
        y = replace(above.y, title="" if k % across else "observed")
        density = replace(below, y=replace(below.y, high=top))
        return replace(above, x=x, y=y, square=True).with_histogram(density)
