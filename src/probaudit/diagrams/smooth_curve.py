"""A smooth reliability curve, with the kernel and the width of SmoothECE (Blasiok & Nakkiran
2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import draw_counts
from ..calibration.smooth import smooth_error
from ..calibration.views import dependent_events, event_rows, grids_of
from ..choices.lenses import Lens, default_lens
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..text import number, percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Band, Line, Panel, Picture, Rule
from .reliability import event_name

STEPS = 20  # cells within the width of the kernel
POINTS = 100  # fewest points of the curve
NARROWEST = 0.01  # smallest width of the kernel, unless `sigma` is given
FEWEST = 0.5  # effective rows under the kernel; the curve is not drawn below
NUMBERS = ("stated", "observed", "low", "high", "density")


@dataclass(frozen=True, eq=False)
class SmoothCalibration(Diagram):
    """A reliability curve smoothed by a Gaussian kernel reflected at 0 and 1: observed rate,
    pointwise 95% bootstrap interval and density at each output.

    error : SmoothECE. width : of the kernel; by default the error itself, but at least 0.01. There
        is no curve where no rows are near.
    """

    percents = ("predicted", "observed", LOW, HIGH)

    stated: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    density: np.ndarray
    error: float
    width: float
    n: int
    event: str

    @classmethod
    def of_grid(
        cls,
        grid: FineGrid,
        *,
        event: str = "the most probable class",
        sigma: float | None = None,
        resamples: int = 200,
        seed: int = 0,
        effect: float = 1.0,
    ) -> SmoothCalibration:
        """From a fine grid instead of rows. `effect` : the design effect of dependent rows."""
        if sigma is not None and not 0 < sigma < np.inf:
            raise InputError("sigma", "must be positive and finite", sigma)
        if resamples < 1:
            raise InputError("resamples", "must be at least 1", resamples)
        error, width = (
            float(found)
            for found in smooth_error((grid.targets - grid.outputs) / grid.weight.sum(), sigma)
        )
        kernel = max(width, NARROWEST) if sigma is None else max(sigma, 2 / len(grid.rows))
        coarse = grid.coarse(int(min(len(grid.rows), max(2 * POINTS, STEPS / kernel))))
        x = (np.arange(steps := int(max(POINTS, 1 / kernel))) + 0.5) / steps
        near = _reflected(x, coarse.place, kernel)

        def curve(weight: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mass = weight @ near.T
            return np.clip(targets @ near.T / np.maximum(mass, np.finfo(float).tiny), 0, 1), mass

        kept, n = coarse.kept, int(coarse.rows.sum())
        observed, mass = curve(coarse.weight[kept], coarse.targets[kept])
        categories = coarse.categories(np.flatnonzero(kept))
        draws = draw_counts(max(1, round(n / effect)), categories.counts / n, resamples, seed)
        drawn = [
            curve(cells.weight, cells.weight * cells.targets)[0]
            for cells in categories.resampled(draws)
        ]
        low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975], axis=0)
        share = mass / coarse.weight.sum()
        inside = (x >= coarse.place.min() - 0.5 / steps) & (x <= coarse.place.max() + 0.5 / steps)
        drawn_at = (share * n >= FEWEST) & inside  # no curve where there are no outputs
        fields = (x, observed, low, high, share / (kernel * math.sqrt(2 * math.pi)))
        stated, observed, low, high, density = (field[drawn_at] for field in fields)
        return cls(stated, observed, low, high, density, error, kernel, n, event)

    def columns(self) -> dict[str, np.ndarray]:
        names = ("predicted", "observed", LOW, HIGH, "density")
        return {name: getattr(self, field) for name, field in zip(names, NUMBERS, strict=True)}

    def picture(self) -> Picture:
        x, observed, low, high, density = (
            _broken(self.stated, getattr(self, name)) for name in NUMBERS
        )
        detail = {"predicted": x, "observed": observed, "from": low, "to": high}
        band = Band(x, low, high, role="observed", name="95% interval")
        curve = Line(x, observed, role="observed", name="observed", detail=detail)
        above = Panel(
            (band, Rule(role="reference"), curve),
            Axis("", 0, 1, percent=True),
            Axis("observed", 0, 1, percent=True),
            square=True,
        )
        filled = Band(x, np.where(np.isnan(x), np.nan, 0.0), density, role="density")
        edge = Line(x, density, role="density", detail={"predicted": x, "density": density})
        across = Axis("predicted probability", 0, 1, percent=True)
        up = Axis("density", low=0)
        below = Panel((filled, edge), across, up, share=0.3, histogram=True)
        return Picture(
            (above, below),
            f"Smooth calibration curve of {self.event}",
            self._description(),
            self._caption(),
        )

    def _caption(self) -> str:
        kernel = f"Gaussian kernel of width {self.width:.3f}"
        band = "The band is the 95% interval of the curve."
        return f"SmoothECE {number(self.error, 3)}. {band} {kernel}, {self.n:,} rows."

    def _description(self) -> str:
        far = int(np.argmax(np.abs(self.stated - self.observed) * self.density))
        return (
            f"Smooth calibration curve of {self.event}. {self._caption()}"
            f" The largest weighted gap is at {percent(self.stated[far])},"
            f" observed {percent(self.observed[far])}"
            f" (95% interval {percent(self.low[far])} to {percent(self.high[far])})."
        )


def _reflected(x: np.ndarray, place: np.ndarray, width: float) -> np.ndarray:
    """The Gaussian kernel between each x and each place, with its mirror images at 0 and 1."""
    images = (-place, place, 2 - place)
    return np.asarray(sum(np.exp(-(((x[:, None] - image) / width) ** 2) / 2) for image in images))


def _broken(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values with NaN where outputs are missing, which interrupts the line."""
    step = np.diff(x)
    far = np.flatnonzero(step > 1.5 * step.min(initial=1.0)) + 1
    return np.insert(values, far, np.nan)


@takes_row_options
def smooth_calibration_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    sigma: float | None = None,
    resamples: int = 200,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> SmoothCalibration:
    """The observed rate of an event at each output, smoothed as in SmoothECE, with a bootstrap
    interval.

    lens : a lens with a single event; by default the second of two classes, or else the top label.
    sigma : the width of the kernel; by default the fixed point of SmoothECE.

    >>> found = smooth_calibration_diagram([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], sigma=0.1)
    >>> round(found.error, 6), float(found.observed.round(6).min())
    (0.0, 0.5)
    """
    predictions = rows_of(y_true, y_proba, **options)
    lens = default_lens(predictions, lens)
    event_rows(predictions, lens)
    (grid,) = grids_of(predictions, lens)
    dependent = dependent_events(predictions, lens)
    effect = 1.0 if dependent is None else dependent[0].effect
    choices: dict[str, Any] = {
        "sigma": sigma,
        "resamples": resamples,
        "seed": seed,
        "effect": effect,
    }
    return SmoothCalibration.of_grid(grid, event=event_name(predictions, lens), **choices)
