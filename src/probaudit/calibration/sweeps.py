"""Calibration errors over partitions from coarse to fine, and where they are stable (Kirchenbauer
et al. 2022, Appendix B.2, Figures 7-9); and ECE-sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.distances import Distance, as_distance
from ..choices.lenses import Full, Lens, checked_lens, event_lens
from ..choices.partitions import EqualMass, KDTree, Partition, checked_partitions
from ..data.arrays import data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.intervals import Z95
from ..text import ShownAsTable, TextTable, number
from .cells import mean_gap
from .error_intervals import Bootstrap
from .errors import calibration_error
from .event_measures import EventOutcomes
from .resampling import check_resamples
from .terms import row_terms


@dataclass(frozen=True, repr=False)
class Sweep(ShownAsTable):
    """The error and its bootstrap standard deviation for each partition; `stable` marks the
    partitions among which the error hardly changes."""

    partitions: tuple[Partition, ...]
    values: np.ndarray
    deviations: np.ndarray
    stable: np.ndarray

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each partition."""
        columns = {
            "partition": [partition.words() for partition in self.partitions],
            "value": self.values,
            "deviation": self.deviations,
            "stable": self.stable,
        }
        return data_frame(columns)

    def _text_table(self) -> TextTable:
        rows = [
            [partition.words(), number(value), number(deviation), "stable" if stable else ""]
            for partition, value, deviation, stable in zip(
                self.partitions, self.values, self.deviations, self.stable, strict=True
            )
        ]
        headers = ("partition", "error", "standard deviation", "")
        return TextTable("Calibration error by partition", headers, rows)


@takes_row_options
def partition_sweep(
    y_true: Any,
    y_proba: Any = None,
    *,
    partitions: Sequence[Partition] | None = None,
    lens: Lens | None = None,
    distance: str | Distance = "tvd",
    resamples: int = 200,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Sweep:
    """The calibration error from coarse to fine cells.

    Coarse cells hide errors, fine cells add sampling noise. `stable` marks the longest run of
    partitions whose errors differ by no more than the smallest of their standard deviations.

    partitions : from coarse to fine; k-d trees with gamma from 1/2 to 2^-8 by default.
    lens : `Full()` by default, as in Kirchenbauer et al. 2022.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(500, 3)
    >>> partition_sweep(world.y, world.mcs).stable.any()
    np.True_
    """
    default = tuple(KDTree(2.0**-k) for k in range(1, 9))
    chosen = default if partitions is None else checked_partitions(partitions)
    if len(chosen) < 2:
        raise InputError("partitions", "must contain two partitions or more", len(chosen))
    rows = rows_of(y_true, y_proba, **options)
    lens = Full() if lens is None else checked_lens(lens)
    error = partial(mean_gap, distance=as_distance(distance))
    check_resamples(resamples)
    bootstrap, errors = Bootstrap("percentile", rows.cluster_numbers, resamples, seed), []
    for partition in chosen:
        terms = row_terms(rows, lens, partition)
        value = math.fsum(term.share * term.mean(error(term.cells)) for term in terms)
        errors.append((value, *bootstrap.interval(value, terms, error)))
    values, low, high = np.array(errors).T
    deviations = (high - low) / (2 * Z95)
    return Sweep(chosen, values, deviations, stable_run(values, deviations))


def stable_run(values: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """The longest run whose range of values is at most its smallest deviation. Ties go to the finer
    run.

    >>> stable_run(np.array([0.1, 0.2, 0.21, 0.22, 0.4]), np.full(5, 0.03))
    array([False,  True,  True,  True, False])
    """
    best = (len(values) - 1, len(values))
    for start in range(len(values)):
        for stop in range(start + 1, len(values) + 1):
            part = values[start:stop]
            calm = part.max() - part.min() <= deviations[start:stop].min()
            if calm and stop - start >= best[1] - best[0]:
                best = (start, stop)
    marked = np.zeros(len(values), bool)
    marked[slice(*best)] = True
    return marked


@takes_row_options
def sweep_calibration_error(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> Estimate:
    """ECE-sweep: ECE with the largest number of equal-mass bins for which observed frequencies
    increase from bin to bin (Roelofs et al. 2022)."""
    predictions = rows_of(y_true, y_proba, **options)
    lens = event_lens(predictions, lens)
    rows = EventOutcomes.of(y_true, y_proba, lens, options, unweighted="ECE-sweep")
    bins = sweep_bins(rows.y, rows.order)
    error = calibration_error(predictions, lens=lens, partition=EqualMass(bins))
    return Estimate(error, n=error.n, definition=f"ECE-sweep, {bins} bins, {error.definition}")


def sweep_bins(y: np.ndarray, order: np.ndarray) -> int:
    """The largest number of equal-mass bins up to which observed frequencies do not decrease from
    bin to bin (Roelofs et al. 2022)."""
    hits = np.r_[0, np.cumsum(y[order])]
    bins = 1
    for b in range(2, len(y) + 1):
        # the bin edges of EqualMass
        edges = np.arange(b + 1) * (len(y) // b) + np.minimum(np.arange(b + 1), len(y) % b)
        rates = np.diff(hits[edges]) / np.diff(edges)
        if (np.diff(rates) < 0).any():
            break
        bins = b
    return bins
