"""95% intervals of calibration errors that are sums over cells: by the bootstrap, or for the error
of the population."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ..choices.distances import Distance
from ..errors import InputError
from ..scoring.intervals import Z95, t95
from .cells import Categories, CellError, Cells, mean_gap, worst_gap
from .population import ErrorPart, Noise, Population, population_error
from .resampling import (
    Method,
    Statistic,
    bootstrap,
    check_resamples,
    draw_units,
    sampling_units,
    unit_table,
)
from .terms import Term

DEPENDENCE_RESAMPLES = 400  # for how much errors of several events vary together


@dataclass(frozen=True)
class Bootstrap:
    """A bootstrap interval: its method, the number of resamples, and the clusters to resample, if
    any."""

    method: Method
    clusters: np.ndarray | None
    resamples: int
    seed: int
    bias_removed: int = 0

    @classmethod
    def of(
        cls,
        method: Any,
        clusters: np.ndarray | None,
        resamples: int,
        seed: int,
        *,
        bias_removed: int = 0,
    ) -> Bootstrap | None:
        """None without a method."""
        if method is None:
            return None
        if method not in ("percentile", "bca"):
            raise InputError("interval", 'must be "percentile" or "bca"', repr(method))
        check_resamples(resamples)
        return cls(method, clusters, resamples, seed, bias_removed)

    def interval(
        self, value: float, terms: Sequence[Term], error: Callable[[Cells], np.ndarray]
    ) -> tuple[float, float]:
        """For the sum of share x error over terms. One term is resampled by categories of rows;
        several are dependent, so that units of rows are resampled."""

        parts = [
            (term, make, term.share / len(term.categories))
            for term in terms
            for make in term.categories
        ]
        if len(parts) == 1 and self.clusters is None:
            categories = parts[0][1]()
            return self._found(value, categories.counts, partial(categories.errors, error=error))
        units = units_of(terms, self.clusters, self.seed)
        size = int(units.max()) + 1

        def statistic(counts: np.ndarray) -> np.ndarray:
            total = np.zeros(len(counts))
            for term, make, share in parts:
                categories = make()
                table = unit_table(
                    units[term.rows], categories.of_row, size, len(categories.counts)
                )
                total += share * categories.errors(counts @ table, error)
            return total

        return self._found(value, np.ones(size), statistic)

    def units(self, total: int) -> np.ndarray:
        """The unit of each of all rows."""
        return sampling_units(total, self.seed, self.clusters)

    def _found(self, value: float, counts: np.ndarray, statistic: Statistic) -> tuple[float, float]:
        wider = 1.0 if self.clusters is None else few_clusters(len(counts))
        if math.isnan(wider):
            return math.nan, math.nan
        low, high = bootstrap(
            value,
            counts,
            statistic,
            method=self.method,
            resamples=self.resamples,
            seed=self.seed,
            bias_removed=self.bias_removed,
        )
        return (
            (low, high)
            if wider == 1
            else (value + wider * (low - value), value + wider * (high - value))
        )


def few_clusters(count: int) -> float:
    """How much wider an interval of resampled clusters must be if they are few: by the
    correction G / (G - 1) of a variance and by Student's quantile. NaN for a single cluster.

    >>> round(few_clusters(5), 2), round(few_clusters(1000), 3)
    (1.58, 1.002)
    """
    return math.sqrt(count / (count - 1)) * t95(count - 1) / Z95 if count > 1 else math.nan


def units_of(terms: Sequence[Term], clusters: np.ndarray | None, seed: int) -> np.ndarray:
    """The unit of each of all rows; only those that count are merged into units."""
    places = [term.rows for term in terms if term.rows is not None]
    if len(places) < len(terms):
        raise InputError(
            "exact", "must be True for an interval of several events, or of rows in clusters"
        )
    rows, found = np.unique(np.concatenate(places)), np.zeros(terms[0].total, np.int64)
    found[rows] = sampling_units(len(rows), seed, None if clusters is None else clusters[rows])
    return found


def population_of(
    terms: Sequence[Term],
    distance: Distance,
    *,
    clusters: np.ndarray | None,
    resamples: int,
    seed: int,
    worst: bool = False,
    error: CellError | None = None,
) -> Population:
    """The error of the population for the sum of share x error over terms; see
    `calibration.population`.

    Of independent rows the targets of a single event are simulated; vectors and rows in clusters
    are resampled. Several events of the same rows are dependent: how much more, or less, their sum
    varies is found by resampling rows.
    """
    each = [(term, *parts) for term in terms for parts in term.each]
    counts, units, widened = np.zeros((0, 0)), np.zeros(0, np.int64), 1.0
    if clusters is not None:
        units = units_of(terms, clusters, seed)
        widened = few_clusters(int(units.max()) + 1)
        if math.isnan(widened):
            return Population()
        counts = _unit_counts(units, resamples, seed)

    def noise(term: Term, cells: Cells, make: Callable[[], Categories], null: Any) -> Noise:
        if null is not None and clusters is None:
            made = cache(null)
            return lambda gaps: np.asarray(made().noise(gaps, resamples, seed))
        drawn = cache(partial(resampled, term, cells, make))
        return lambda gaps: drawn()

    def resampled(term: Term, cells: Cells, make: Callable[[], Categories]) -> np.ndarray:
        categories = make()
        if clusters is None:
            drawn = categories.draw(resamples, seed)
        else:
            drawn = counts @ unit_table(
                units[term.rows], categories.of_row, counts.shape[1], len(categories.counts)
            )
        return np.concatenate([_deviations(c, cells) for c in categories.resampled(drawn)])

    parts = [
        ErrorPart(cells, share, noise(term, cells, make, null))
        for term, cells, share, make, null in each
    ]
    if clusters is None and len(parts) > 1:
        widened = dependence(terms, distance, seed, worst=worst, error=error)
    return population_error(parts, distance, worst=worst, error=error, widened=widened, seed=seed)


def _deviations(resampled: Cells, cells: Cells) -> np.ndarray:
    """Of the gaps of resamples from those of the rows; 0 in a cell without rows."""
    empty = resampled.weight == 0
    gap = resampled.outputs - resampled.targets - (cells.outputs - cells.targets)
    return np.where(empty if gap.ndim == 2 else empty[..., None], 0.0, gap)


def _unit_counts(units: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    return draw_units(int(units.max()) + 1, resamples, seed)


def dependence(
    terms: Sequence[Term],
    distance: Distance,
    seed: int,
    *,
    worst: bool = False,
    error: CellError | None = None,
) -> float:
    """The standard deviation of a sum of share x error over several events of the same rows, beside
    what it would be if the errors were independent."""
    units = units_of(terms, None, seed)
    measure = (
        partial(worst_gap if worst else mean_gap, distance=distance) if error is None else error
    )
    counts = _unit_counts(units, DEPENDENCE_RESAMPLES, seed)
    found = []
    for term in terms:
        for _, share, make, _ in term.each:
            categories = make()
            table = unit_table(
                units[term.rows], categories.of_row, counts.shape[1], len(categories.counts)
            )
            with np.errstate(invalid="ignore"):  # an event without rows in a resample
                found.append(share * categories.errors(counts @ table, measure))
    draws = np.array(found)
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    apart = float(draws.var(axis=1).sum()) if draws.shape[1] > 1 else 0.0
    return float(draws.sum(axis=0).std() / np.sqrt(apart)) if apart > 0 else 1.0
