"""95% intervals of calibration errors over cells: by the bootstrap, or for the error of the
population."""

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
from .cells import Categories, CellError, Cells, Pooling, mean_gap
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

DEPENDENCE_RESAMPLES = 400  # from which the dependence of several errors is estimated


@dataclass(frozen=True)
class Bootstrap:
    """A bootstrap interval: its method, the clusters to resample (if any), and the number of
    resamples. `bias_removed` as in `bootstrap`."""

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
        """The interval of the sum of share x error over terms. The categories of a single term are
        resampled; several terms are dependent, so units of rows are resampled."""
        parts = [
            (term, make, term.share / len(term.categories))
            for term in terms
            for make in term.categories
        ]
        if len(parts) == 1 and self.clusters is None:
            categories = parts[0][1]()
            errors = partial(categories.errors, error=error)
            return self._bootstrap(value, categories.counts, errors)
        units = units_of(terms, self.clusters, self.seed)

        def statistic(counts: np.ndarray) -> np.ndarray:
            total = np.zeros(len(counts))
            for term, make, share in parts:
                categories = make()
                drawn = _category_counts(term, categories, units, counts)
                total += share * categories.errors(drawn, error)
            return total

        return self._bootstrap(value, np.ones(int(units.max()) + 1), statistic)

    def _bootstrap(
        self, value: float, counts: np.ndarray, statistic: Statistic
    ) -> tuple[float, float]:
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
    """The factor that widens an interval from few resampled clusters: the root of the variance
    correction G / (G - 1), times the ratio of Student's quantile to the normal one. NaN for a
    single cluster.

    >>> round(few_clusters(5), 2), round(few_clusters(1000), 3)
    (1.58, 1.002)
    """
    return math.sqrt(count / (count - 1)) * t95(count - 1) / Z95 if count > 1 else math.nan


def units_of(terms: Sequence[Term], clusters: np.ndarray | None, seed: int) -> np.ndarray:
    """The unit of each of all rows. Only the rows of the terms are merged into units."""
    places = [term.rows for term in terms if term.rows is not None]
    if len(places) < len(terms):
        raise InputError(
            "exact", "must be True for an interval of several events, or of rows in clusters"
        )
    rows, units = np.unique(np.concatenate(places)), np.zeros(terms[0].total, np.int64)
    units[rows] = sampling_units(len(rows), seed, None if clusters is None else clusters[rows])
    return units


def _category_counts(
    term: Term, categories: Categories, units: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Counts [B, categories] of a term, from counts [B, units]."""
    table = unit_table(units[term.rows], categories.of_row, counts.shape[1], len(categories.counts))
    return np.asarray(counts @ table)


def population_of(
    terms: Sequence[Term],
    distance: Distance,
    *,
    clusters: np.ndarray | None,
    resamples: int,
    seed: int,
    pooling: Pooling = mean_gap,
    error: CellError | None = None,
) -> Population:
    """The population's value of the sum of share x error over terms; see `calibration.population`.

    For a single event of independent rows, targets are simulated; for vectors and for rows in
    clusters, rows are resampled. Several events of the same rows are dependent: resampling shows
    how their sum varies compared with independent ones.
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
            drawn = _category_counts(term, categories, units, counts)
        return np.concatenate([_deviations(c, cells) for c in categories.resampled(drawn)])

    parts = [
        ErrorPart(cells, share, noise(term, cells, make, null))
        for term, cells, share, make, null in each
    ]
    if clusters is None and len(parts) > 1:
        widened = dependence(terms, distance, seed, pooling=pooling, error=error)
    return population_error(
        parts, distance, pooling=pooling, error=error, widened=widened, seed=seed
    )


def _deviations(resampled: Cells, cells: Cells) -> np.ndarray:
    """Deviations of the resamples' gaps from those of the sample; 0 in cells without rows."""
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
    pooling: Pooling = mean_gap,
    error: CellError | None = None,
) -> float:
    """The standard deviation of a sum of share x error over several events of the same rows,
    divided by what it would be if the errors were independent."""
    units = units_of(terms, None, seed)
    measure = partial(pooling, distance=distance) if error is None else error
    counts = _unit_counts(units, DEPENDENCE_RESAMPLES, seed)
    errors = []
    for term in terms:
        for _, share, make, _ in term.each:
            categories = make()
            drawn = _category_counts(term, categories, units, counts)
            with np.errstate(invalid="ignore"):  # an event without rows in a resample
                errors.append(share * categories.errors(drawn, measure))
    draws = np.array(errors)
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    independent = float(draws.var(axis=1).sum()) if draws.shape[1] > 1 else 0.0
    return float(draws.sum(axis=0).std() / np.sqrt(independent)) if independent > 0 else 1.0
