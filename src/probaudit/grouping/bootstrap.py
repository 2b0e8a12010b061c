"""Bootstrap of the grouping loss: sums over regions and points of the curve for resampled units of
rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..calibration.resampling import draw_units
from ..data.work import one_blas_thread
from .event_loss import Event, Measured, mask_index, parts_of_loss
from .lower_bound import (
    Averages,
    RegionCounts,
    binned_calibration_loss,
    explained_loss,
    induced_losses,
)

BATCH = 2**18  # values of resamples in memory at a time


def resampled_parts(
    measured: Sequence[Measured], units: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """PARTS summed over events, [resamples, parts], for resampled units of rows. Regions and the
    points of the curve are fixed. `units` has the unit of each row."""
    size, rng = int(units.max()) + 1, np.random.default_rng(seed)
    resamplers = [_Resampler(one, units, size) for one in measured]
    step = max(1, BATCH // max(size, *(len(one.assignment.level) for one in measured)))
    draws = []
    with one_blas_thread():
        for first in range(0, resamples, step):
            counts = draw_units(size, min(step, resamples - first), rng).astype(np.float64)
            draws.append(sum(resampler.parts(counts) for resampler in resamplers))
    return np.concatenate(draws, axis=1).T


class _Resampler:
    """An event's sums over regions and over points of the curve, for each unit of rows."""

    def __init__(self, measured: Measured, units: np.ndarray, size: int) -> None:
        self.measured, self.rule, self.points = measured, measured.plan.rule, measured.points
        # The bias varies much less between resamples than the plugin. Only the closed form for
        # independent rows is recomputed.
        fixed = measured.event.clusters is not None or self.rule.name != "brier"
        biases = measured.explained.bias, np.asarray(measured.calibration[1])
        self.biases = biases if fixed else (None, None)
        self.averages = Averages(self.points.level, self.points.weight)
        event, rated = measured.event, mask_index(measured.assignment.region >= 0)
        unit = units[event.places]
        region, regions = measured.assignment.region[rated], len(measured.assignment.level)
        self.regions = _SumsByUnit(event, rated, unit, region, shape=(size, regions))
        judged, points = mask_index(measured.judged), len(self.points.weight)
        self.rows = _SumsByUnit(event, judged, unit, self.points.of_row, shape=(size, points))

    def parts(self, counts: np.ndarray) -> np.ndarray:
        """PARTS if units are drawn `counts` times, [parts, B]."""
        points, averages = self.points, self.averages
        known = self.measured.counts
        kept = ~self.measured.explained.thin
        weight, hits, squared = (part * kept for part in self.regions.drawn(counts))
        resampled = RegionCounts(known.level, weight, hits, squared, known.curve)
        explained = explained_loss(resampled, self.rule, self.biases[0])
        weight, hits, squared = self.rows.drawn(counts)
        rates = np.where(weight > 0, hits / np.where(weight > 0, weight, 1.0), points.rates)
        curve = points.curve(np.clip(rates, 0, 1), self.rule.name == "log")
        induced, added = induced_losses(curve, points.outputs, averages, self.rule)
        total, observed, predicted, squares = (
            averages.sums(part) for part in (weight, hits, weight * points.outputs, squared)
        )
        some = np.where(total > 0, total, 1.0)
        share, bin_size = (
            total / total.sum(axis=1, keepdims=True),
            total**2 / np.where(total > 0, squares, 1.0),
        )
        rate = np.clip(observed / some, 0, 1)
        output = np.where(total > 0, predicted / some, rate)
        binned, bias = binned_calibration_loss(
            rate, output, bin_size, share, self.rule, self.biases[1]
        )
        return parts_of_loss(
            explained,
            induced if self.measured.plan.whole else explained.induced,
            binned,
            bias,
            added,
        )


class _SumsByUnit:
    """Weights, weights of hits and squared weights of rows, summed by unit and cell; `shape` is
    the number of units and of cells."""

    def __init__(
        self, event: Event, kept: Any, unit: np.ndarray, cell: np.ndarray, *, shape: tuple[int, int]
    ) -> None:
        from scipy.sparse import csr_array

        unit, w = unit[kept].astype(np.int32), event.weights
        cell = cell.astype(np.int32)

        def table(values: np.ndarray) -> Any:
            some = np.flatnonzero(values[kept])
            return csr_array((values[kept][some], (unit[some], cell[some])), shape=shape)

        self.tables = [table(w), table(w * event.hits)] + (
            [] if (w == w[0]).all() else [table(w * w)]
        )
        self.scale = float(w[0])

    def drawn(self, counts: np.ndarray) -> list[np.ndarray]:
        """Sums if units are drawn `counts` times, [B, units]."""
        sums = [counts @ table for table in self.tables]
        return sums if len(sums) == 3 else [*sums, sums[0] * self.scale]
