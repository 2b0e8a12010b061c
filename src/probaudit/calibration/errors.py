"""Binned calibration errors (ECE and its family) for any lens, selection, partition and
distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition, Described
from ..choices.distances import Distance, Squared, as_distance
from ..choices.lenses import Classwise, Lens, error_lens
from ..choices.partitions import (
    EqualMass,
    EqualWidth,
    Partition,
    checked_partition,
    checked_partitions,
)
from ..choices.selections import as_selection
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import Argument, InputError, not_a_truth_value
from ..estimate import Estimate
from ..scoring.clusters import clusters_unused
from ..states import Summary
from ..states.evidence import Evidence
from .cell_counting import counted_terms
from .cells import (
    Cells,
    Pooling,
    debiased_gap,
    mean_gap,
    single_row_cells,
    unweighted_gap,
    worst_gap,
)
from .error_intervals import population_of
from .population import Population
from .resampling import RESAMPLES, check_resamples
from .terms import Term, even, grid_terms, row_terms, thinned_terms, with_class_shares

INTERVAL = "interval for the error of the population"
POOLED: dict[Pooling, str] = {worst_gap: "largest cell", unweighted_gap: "cells weighted equally"}
IN_MEMORY = ("load them with `read`",)


class CalibrationError(Estimate):
    """An estimate with the cells that it was summed over, for each view of the lens."""

    gathered: tuple[Cells, ...] = ()
    class_shares: tuple[float, ...] = ()  # if they were given

    @property
    def cells(self) -> tuple[Cells, ...]:
        return tuple(part for cells in self.gathered for part in cells.each)

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibrationError, (float(self),), dict(self.__dict__)


def _as_error(
    value: float,
    definition: list[str | Described],
    cells: Sequence[Cells],
    per_class: dict[Any, float] | None = None,
) -> CalibrationError:
    words, n = Definition(*definition), _largest_n(cells)
    error = CalibrationError(value, n=n, definition=words, per_class=per_class)
    error.gathered = tuple(cells)
    return error


@takes_row_options
def calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "l1",
    where: Any = None,
    debias: bool = False,
    worst: bool = False,
    unweighted: bool = False,
    exact: bool = True,
    interval: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The mean distance between predicted and observed frequencies, over cells of rows
    (Kirchenbauer et al. 2022, Eq. 3). The default is the usual ECE of the top label.

    y_true, y_proba : as in `log_score`; or rows from `scan` (files, or a dask DataFrame), or dask
        arrays. A sample of these rows then determines the cells (the boxes of a `KDTree`, the bins
        of `EqualMass`), and one pass counts all rows in them.
    lens : which probabilities are compared with which outcomes; the event if one is named, else
        `TopLabel()`. For two classes, audits report the error of the event as `ece`, and so does
        `lens=Binary()` here (see the example of `audit`). `Classwise()` averages over classes,
        evenly or by weights, and reports each in `per_class`.
    partition : how rows are split into cells; `EqualWidth(15)` by default.
    distance : "l1", "tvd", "l2", "squared", "max", "brier", "log" or a Distance; or "over" and
        "under", the parts of "l1" from cells whose output lies above or below the observed rate.
    where : which rows count: a boolean mask or a Selection. Selections compose by `&`, `|` and `~`.
    debias : subtract the bias due to sampling noise (distance "squared"; or "l1" of a single
        event). The result may be negative. With `clusters`, the rows of each cell are divided by
        its design effect (Kish 1965).
    worst : the largest distance in any cell instead of the mean (with "l1", the MCE).
    unweighted : the mean over cells that have rows, each of which counts the same however many rows
        it has; see `average_calibration_error`.
    exact : if False, count rows on a fine grid of probabilities in one pass and keep none, as for
        data that does not fit into memory. For single events only. Bin edges are then rounded to
        the grid.
    interval : if True, compute a 95% interval for the error of the population in the same cells,
        and a bias-corrected estimate in `debiased` (see `calibration.population`). Sampling noise
        raises the error of a sample, so it may lie above the interval. With `clusters`, whole
        clusters are resampled.
    resamples, seed : of the interval.

    >>> round(calibration_error([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9]), 4)
    0.35
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> ece = calibration_error(rng.random(500) < p, p, interval=True)  # of a calibrated model
    >>> ece.low, bool(ece.debiased < ece)
    (0.0, True)
    """
    partition = checked_partition(partition, EqualWidth(15))
    metric = as_distance(distance)
    pooling = _pooling(worst=worst, unweighted=unweighted, debias=debias)
    _check_interval(interval, resamples, options, needed=not debias)
    rows = _Source.of(y_true, y_proba, where, options)
    lens = error_lens(rows.predictions, lens)
    terms, origin = rows.terms(lens, partition, exact=exact, debias=debias, interval=interval)
    terms = with_class_shares(terms, lens, lambda: rows.summary.priors)
    measure = partial(debiased_gap if debias else pooling, distance=metric)
    errors = [measure(term.cells) for term in terms]
    value = math.fsum(term.share * term.mean(one) for term, one in zip(terms, errors, strict=True))
    cells = [term.cells for term in terms]
    words: list[str | Described] = ["calibration error", lens, partition, metric]
    words += _option_words(cells, partition, debias=debias, pooling=pooling, where=where)
    words += [*origin, INTERVAL] if interval else origin
    if isinstance(lens, Classwise):
        values = np.concatenate([np.atleast_1d(one) for one in errors]).tolist()
        per_class = dict(zip(rows.predictions.class_order, values, strict=True))
        error = _as_error(value, words, cells, per_class)
        if lens.weights is not None:
            error.class_shares = _class_shares(lens, rows.summary.priors)
    else:
        error = _as_error(value, words, cells)
    if interval:
        clusters = rows.predictions.cluster_numbers
        known = population_of(
            terms, metric, clusters=clusters, resamples=resamples, seed=seed, pooling=pooling
        )
        _set_interval(error, known)
    return error


def _pooling(*, worst: bool, unweighted: bool, debias: bool) -> Pooling:
    """How the distances of cells become one error."""
    if debias and worst:
        raise InputError("worst", "the largest of several cells cannot be debiased")
    if unweighted and (worst or debias):
        rule = f"must not be given with `{'worst' if worst else 'debias'}`"
        raise InputError("unweighted", rule)
    return worst_gap if worst else unweighted_gap if unweighted else mean_gap


def _class_shares(lens: Classwise, priors: np.ndarray) -> tuple[float, ...]:
    return () if lens.weights is None else tuple(np.asarray(lens.shares(priors)).tolist())


@dataclass(frozen=True, eq=False)
class _Source:
    """The rows of a calibration error: all in memory, or in files with a sample in memory."""

    predictions: Predictions
    evidence: Evidence | None
    where: Any

    @classmethod
    def of(cls, y_true: Any, y_proba: Any, where: Any, options: RowOptions) -> _Source:
        if (source := as_source(y_true, y_proba, **options)) is None:
            return cls(rows_of(y_true, y_proba, **options), None, where)
        if where is not None:
            raise InputError("where", "requires rows in memory", way_out=IN_MEMORY)
        evidence = Passing().evidence(source)
        return cls(evidence.sample, evidence, None)

    @property
    def sampled(self) -> bool:
        return self.evidence is not None and self.evidence.sampled

    @property
    def summary(self) -> Summary:
        return survey(self.predictions).summary if self.evidence is None else self.evidence.summary

    def terms(
        self, lens: Lens, partition: Partition, *, exact: bool, debias: bool, interval: bool
    ) -> tuple[list[Term], list[str]]:
        """A term for each view of the lens; and where its cells come from, for the definition."""
        rows, origin = self.predictions, []
        if self.evidence is not None and self.sampled:
            terms, decided = counted_terms(self.evidence, even(lens), partition)
            if interval and (len(terms) > 1 or rows.clusters is not None):
                rule = "of several events, or of rows in clusters, requires rows in memory"
                raise InputError("interval", rule, way_out=IN_MEMORY)
            origin = [f"cells of a sample of {len(rows):,} rows"] if decided else []
        elif exact:
            terms = row_terms(rows, lens, partition, self.where)
        else:
            terms = grid_terms(rows, lens, partition, self.where)
            origin = [f"from a grid of {terms[0].grid_cells:,} cells"]
        if debias and rows.clusters is not None:
            if not exact or self.sampled:
                rule = "of rows in clusters requires rows in memory and `exact=True`"
                raise InputError("debias", rule)
            terms = thinned_terms(rows, lens, partition, self.where)
        return terms, origin


def _option_words(
    cells: Sequence[Cells], partition: Partition, *, debias: bool, pooling: Pooling, where: Any
) -> list[str | Described]:
    """The options, for the definition of an error."""
    words: list[str | Described] = []
    if debias:
        few = sum(int(single_row_cells(c).sum()) for c in cells)
        words.append("debiased" + (f", {few} cells of one row left out" if few else ""))
    words += [POOLED[pooling]] if pooling in POOLED else []
    words += ["where " + Definition(as_selection(where))] if where is not None else []
    least = min(int((c.weight > 0).sum(axis=-1).min()) for c in cells)
    if isinstance(partition, EqualMass) and least < min(partition.bins, _largest_n(cells)):
        words.append(f"ties leave {least} bins")
    return words


def _largest_n(cells: Sequence[Cells]) -> int:
    """The largest number of rows of any view."""
    return max(int(c.rows.sum(axis=-1).max()) for c in cells)


def _check_interval(
    interval: bool, resamples: int, options: RowOptions, *, needed: bool = True
) -> None:
    """`needed` : whether clusters have no effect without an interval."""
    if not isinstance(interval, bool):
        raise not_a_truth_value("interval", interval)
    check_resamples(resamples)
    if needed and not interval and options.get("clusters") is not None:
        raise clusters_unused("the value", "pass ", Argument("interval", "True"), ", or ")


def _set_interval(error: CalibrationError, population: Population) -> None:
    error.debiased, error.low, error.high = population.debiased, population.low, population.high


@takes_row_options
def partitioned_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    partitions: Partition | Sequence[Partition] = (),
    *,
    lens: Lens | None = None,
    distance: str | Distance = "l1",
    weights: Sequence[float] | None = None,
    where: Any = None,
    interval: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The calibration error averaged over several partitions, with given weights (Yang et al. 2023,
    Definition 2).

    partitions : one partition, or several.
    weights : of the partitions, summing to 1; equal by default.

    `Whole()` gives the distance between the marginals (Example 5), `Each()` the mean distance
    between each output and its label (Example 4), which for "brier" is the Brier score. Intervals
    as in `calibration_error`.
    """
    chosen = checked_partitions(partitions)
    shares = _partition_shares(len(chosen), weights)
    _check_interval(interval, resamples, options)
    predictions = rows_of(y_true, y_proba, **options)
    lens, metric = error_lens(predictions, lens), as_distance(distance)

    def priors() -> np.ndarray:
        return survey(predictions).summary.priors

    terms = [
        replace(term, share=share * term.share)
        for partition, share in zip(chosen, shares, strict=True)
        for term in with_class_shares(row_terms(predictions, lens, partition, where), lens, priors)
    ]
    words: list[str | Described] = ["partitioned calibration error", lens]
    words += [f"{len(chosen)} partitions", metric]
    words += [INTERVAL] if interval else []
    value = math.fsum(term.share * term.mean(mean_gap(term.cells, metric)) for term in terms)
    error = _as_error(value, words, [term.cells for term in terms])
    if interval:
        clusters = predictions.cluster_numbers
        _set_interval(
            error, population_of(terms, metric, clusters=clusters, resamples=resamples, seed=seed)
        )
    return error


def _partition_shares(count: int, weights: Sequence[float] | None) -> np.ndarray:
    if not count:
        raise InputError("partitions", "must contain at least one partition")
    shares = np.full(count, 1 / count) if weights is None else np.asarray(weights, np.float64)
    valid = shares.shape == (count,) and (shares >= 0).all() and abs(shares.sum() - 1) < 1e-9
    if not valid:
        raise InputError("weights", f"must be {count} probabilities that sum to 1", shares.tolist())
    return shares


@takes_row_options
def rms_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    where: Any = None,
    debias: bool = True,
    exact: bool = True,
    interval: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The root mean squared calibration error, debiased by default (Kumar et al. 2019).

    A negative debiased mean square counts as 0 (with `Classwise()`, in each class). The limits of
    the interval are the roots of those of the mean square. `partition` is `EqualMass(15)` by
    default. Other arguments as in `calibration_error`."""
    mean = calibration_error(
        y_true,
        y_proba,
        lens=lens,
        partition=checked_partition(partition, EqualMass(15)),
        distance=Squared(),
        where=where,
        debias=debias,
        exact=exact,
        interval=interval,
        resamples=resamples,
        seed=seed,
        **options,
    )
    squares = [max(0.0, value) for value in mean.per_class.values() or [float(mean)]]
    shares = mean.class_shares or [1 / len(squares)] * len(squares)
    square = math.fsum(value * share for value, share in zip(squares, shares, strict=True))
    root = _as_error(math.sqrt(square), ["root of " + mean.definition], mean.gathered)
    _set_interval(root, Population(mean.debiased, mean.low, mean.high).root())
    return root


@takes_row_options
def average_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    where: Any = None,
    exact: bool = True,
    interval: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The mean over bins that have rows of |mean output - observed rate|, each bin counting the
    same (Neumann et al. 2018; `ACE` of netcal). This is the "ACE" of Chidambaram & Ge 2024, Tables
    1 to 6, with 15 equal-width bins of the confidence.

    It is not the adaptive calibration error, whose bins have equal mass
    (`calibration_error(partition=EqualMass(15))`). Bins of a few rows count as much as all others,
    so it is far larger than the ECE if most confidences are near 1, and its interval is wide.
    Arguments as in `calibration_error`.

    >>> from probaudit import Binary
    >>> y, p = [1, 1, 0, 1, 1], [0.9, 0.9, 0.9, 0.9, 0.25]
    >>> round(average_calibration_error(y, p, lens=Binary()), 4)
    0.45
    >>> round(calibration_error(y, p, lens=Binary()), 4)
    0.27
    """
    return calibration_error(
        y_true,
        y_proba,
        lens=lens,
        partition=partition,
        where=where,
        unweighted=True,
        exact=exact,
        interval=interval,
        resamples=resamples,
        seed=seed,
        **options,
    )
