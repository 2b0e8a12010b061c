"""The calibration error as a function of the cell size (Kirchenbauer et al. 2022, Appendix B.2,
Figure 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calibration.sweeps import Sweep, partition_sweep
from ..choices.partitions import EqualMass, EqualWidth, KDTree, Partition
from ..text import fraction, number
from .diagram import Diagram
from .picture import Axis, Band, Bars, Line, Panel, Picture, Points, Text


@dataclass(frozen=True, eq=False)
class PartitionSweep(Diagram):
    """Errors with bootstrap standard deviations, from coarse to fine cells. `stable` marks the
    range where the error is stable."""

    name: np.ndarray
    value: np.ndarray
    deviation: np.ndarray
    stable: np.ndarray
    axis: str

    @classmethod
    def of_sweep(cls, sweep: Sweep) -> PartitionSweep:
        names, axis = _partition_names(sweep.partitions)
        return cls(np.array(names), sweep.values, sweep.deviations, sweep.stable, axis)

    def columns(self) -> dict[str, np.ndarray]:
        return {
            self.axis: self.name,
            "calibration error": self.value,
            "standard deviation": self.deviation,
            "in the stable range": self.stable,
        }

    def picture(self) -> Picture:
        at = np.arange(len(self.name)) * 1.0
        low, high = np.maximum(0.0, self.value - self.deviation), self.value + self.deviation
        top, bottom = 1.15 * float(high.max()) or 1.0, 0.0
        run = np.flatnonzero(self.stable)
        box = (
            np.array([run[0] - 0.4]),
            np.array([run[-1] + 0.4]),
            np.array([bottom]),
            np.array([top]),
        )
        detail = {"cells": self.name, "error": self.value, "deviation": self.deviation}
        marks = (
            Bars(*box, faint=True, role="calibration", name="stable range"),
            Band(at, low, high, role="observed", name="one standard deviation"),
            Line(at, self.value, role="observed", detail=detail),
            Points(at, self.value, role="observed", detail=detail),
            Text(
                (run[0] + run[-1]) / 2,
                0.95 * top,
                f"about {number(self.value[run].mean(), 3)}",
                anchor="middle",
            ),
        )
        panel = Panel(
            marks,
            Axis(self.axis, categories=tuple(self.name.tolist())),
            Axis("calibration error", bottom, top),
        )
        caption = "Coarse cells (left) hide errors, fine cells (right) add noise. "
        caption += "Read the error in the stable range."
        return Picture((panel,), "Calibration error by cell size", self._description(), caption)

    def _description(self) -> str:
        run = np.flatnonzero(self.stable)
        words = ", ".join(
            f"{name}: {number(value, 3)}" for name, value in zip(self.name, self.value, strict=True)
        )
        span = (
            f"from {self.name[run[0]]} to {self.name[run[-1]]}"
            if len(run) > 1
            else f"only at {self.name[run[0]]}"
        )
        return f"Calibration error by {self.axis}: {words}. It is stable {span}."


def _partition_names(partitions: tuple[Partition, ...]) -> tuple[list[str], str]:
    """The name of each partition, and the title of their axis."""
    if all(isinstance(one, KDTree) and one.min_rows is None for one in partitions):
        return [
            fraction(one.gamma) for one in partitions if isinstance(one, KDTree)
        ], "cells are split down to this share of rows"
    for kind, axis in ((EqualWidth, "equal-width bins"), (EqualMass, "equal-mass bins")):
        if all(isinstance(one, kind) for one in partitions):
            return [
                str(one.bins) for one in partitions if isinstance(one, (EqualWidth, EqualMass))
            ], axis
    return [one.words() for one in partitions], "partition, from coarse to fine"


def sweep_diagram(y_true: Any, y_proba: Any = None, **choices: Any) -> PartitionSweep:
    """The calibration error from coarse to fine cells. Arguments as in `partition_sweep`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(500, 3)
    >>> sweep_diagram(world.y, world.mcs, resamples=50).name[:3].tolist()
    ['1/2', '1/4', '1/8']
    """
    return PartitionSweep.of_sweep(partition_sweep(y_true, y_proba, **choices))
