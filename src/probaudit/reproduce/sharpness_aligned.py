"""Calibration-sharpness diagrams side by side, with common axes (Chidambaram & Ge 2024, Figures 1
and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..diagrams.diagram import Diagram, stacked
from ..diagrams.picture import Axis, Band, Line, Panel, Picture
from ..diagrams.reliability import Reliability
from ..diagrams.sharpness import CalibrationSharpness
from ..text import number

LEAST_DENSITY = 0.002  # as a share of the peak, below which no curve is drawn


@dataclass(frozen=True, eq=False)
class AlignedSharpness(Diagram):
    """Diagrams of several models by name. As in the paper, bands are not cut off at 1.

    reliability : diagrams of the same models with bins, to draw above.
    """

    each: Mapping[str, CalibrationSharpness]
    reliability: Mapping[str, Reliability]
    title: str

    def columns(self) -> dict[str, np.ndarray]:
        return stacked("model", {name: one.columns() for name, one in self.each.items()})

    def picture(self) -> Picture:
        models = list(self.each.values())
        top = max(1.0, *(float(one.band[1][_drawn(one)].max()) for one in models))
        peak = max(float(one.density.max()) for one in models)
        bars = [
            replace(one.panel(title=f"{name}: bins", x="", y="observed"), share=0.8)
            for name, one in self.reliability.items()
        ]
        curves, densities = [], []
        for k, (name, one) in enumerate(self.each.items()):
            above, below = one.picture().panels
            gap, diagonal, curve = above.marks
            x, accuracy, low, high = (
                np.where(_drawn(one), values, np.nan)
                for values in (one.confidence, one.accuracy, *one.band)
            )
            band = Band(one.confidence, low, high, role=gap.role, name=gap.name)
            line = Line(x, accuracy, role=curve.role, name=curve.name)
            axis = Axis("" if k else "accuracy", 0, 1.04 * top)
            curves.append(Panel((band, diagonal, line), Axis("", 0, 1), axis, title=name))
            density = replace(below.y, high=1.04 * peak, title="" if k else below.y.title)
            densities.append(replace(below, y=density, x=Axis("confidence", 0, 1), histogram=False))
        listed = "; ".join(
            f"{name} {number(one.calibration)} of {number(one.total)}"
            for name, one in self.each.items()
        )
        caption = "The band is the sharpness gap times the density: wider is worse. All panels have"
        caption += f" the same axes. Part of the Brier score that is calibration error: {listed}."
        return Picture(
            (*bars, *curves, *densities),
            self.title,
            f"Calibration-sharpness diagrams with common axes. {listed}.",
            caption,
            columns=len(models),
        )


def _drawn(one: CalibrationSharpness) -> np.ndarray:
    """Where confidences are dense enough for a curve: also around a single confidence."""
    return one.density >= LEAST_DENSITY * one.density.max()
