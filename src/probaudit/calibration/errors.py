"""Calibration errors as functions of (y_true, y_proba): lens x selection x partition x distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition, Described
from ..choices.distances import Distance, Squared, as_distance
from ..choices.lenses import Classwise, Lens, TopLabel
from ..choices.partitions import EqualMass, EqualWidth, Partition
from ..choices.selections import as_selection
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import InputError
from ..estimate import Estimate
from .cell_counting import counted_terms
from .cells import (
    Cells,
)
from .gaps import debiased_gap, mean_gap, thin, worst_gap
from .intervals import check_resamples, population_of
from .population import RESAMPLES, Population
from .terms import even, grid_terms, row_terms, thinned_terms, with_class_shares

INTERVAL = "interval for the error of the population"


class CalibrationError(Estimate):
    """An estimate that also keeps the cells it was summed over, for each view of the lens."""

    gathered: tuple[Cells, ...] = ()
    class_shares: tuple[float, ...] = ()  # if they were given

    @property
    def cells(self) -> tuple[Cells, ...]:
        return tuple(part for cells in self.gathered for part in cells.each)

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibrationError, (float(self),), dict(self.__dict__)


def _error(
    value: float,
    definition: list[str | Described],
    n: int,
    cells: Sequence[Cells] = (),
    per_class: dict[Any, float] | None = None,
) -> CalibrationError:
    found = CalibrationError(value, n=n, definition=Definition(*definition), per_class=per_class)
    found.gathered = tuple(cells)
    return found


@documents_row_options
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
    exact: bool = True,
    interval: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The mean distance between what was forecast and what happened, over cells of rows
    (Kirchenbauer et al. 2022, Eq. 3).

    y_true, y_proba : as in `log_score`; or what `scan` makes of files or of a dask DataFrame, or
        dask arrays: a sample of their rows then decides the cells (the boxes of a `KDTree`, the
        bins of `EqualMass`), and all rows are counted in a pass.
    lens : what is judged; `TopLabel()` unless given. `Classwise()` averages over classes, evenly or
        by weights, and gives each in `per_class`.
    partition : which rows are judged together; `EqualWidth(15)` unless given.
    distance : "l1", "tvd", "l2", "squared", "max", "brier", "log" or a Distance.
    where : which rows count: a boolean mask or a Selection; selections compose by `&`, `|` and `~`.
    debias : take off what chance adds (distance "squared"; or "l1" of a single event); the result
        may be negative. Rows in `clusters` count as fewer, by the design effect of each cell (Kish
        1965).
    worst : the largest distance of any cell in place of the mean.
    exact : with False, rows are first put on a fine grid of probabilities, in one pass that keeps
        none of them, as it is done with data that does not fit into memory. For single events. Bins
        then begin and end at the grid's cells.
    interval : with True, a 95% interval for the error that a very large sample would have in the
        same cells, and in `debiased` an estimate of it (see `calibration.population`). Chance raises
        the error of a sample, so that it may lie above the interval. Rows in `clusters` are
        resampled by cluster.

    >>> round(calibration_error([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9]), 4)
    0.35
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> ece = calibration_error(rng.random(500) < p, p, interval=True)  # of a calibrated model
    >>> ece.low, bool(ece.debiased < ece)
    (0.0, True)
    """
    lens = TopLabel() if lens is None else lens
    partition = EqualWidth(15) if partition is None else partition
    metric = as_distance(distance)
    if debias and worst:
        raise InputError("worst", "the largest of several cells cannot be debiased")
    _check_interval(interval, resamples)
    if options.get("clusters") is not None and not interval and not debias:
        raise InputError(
            "clusters",
            "have no effect on the value of a plain error; add `interval=True`, or leave them out",
        )
    error = partial(debiased_gap if debias else worst_gap if worst else mean_gap, distance=metric)
    sample_words = ""
    if (source := as_source(y_true, y_proba, **options)) is not None:
        if where is not None:
            raise InputError("where", "needs rows in memory")
        evidence = Passing().evidence(source)
        predictions = evidence.sample
    else:
        evidence, predictions = None, rows_of(y_true, y_proba, **options)
    if evidence is not None and evidence.sampled:
        terms, decided = counted_terms(evidence, even(lens), partition)
        if interval and (len(terms) > 1 or predictions.clusters is not None):
            raise InputError(
                "interval", "of several events, or of rows in clusters, needs rows in memory"
            )
        sample_words = f"cells of a sample of {len(predictions):,} rows" if decided else ""
    elif exact:
        terms = row_terms(predictions, lens, partition, where)
    else:
        terms = grid_terms(predictions, lens, partition, where)
    if debias and predictions.clusters is not None:
        if not exact or (evidence is not None and evidence.sampled):
            raise InputError("debias", "of rows in clusters needs rows in memory, and `exact=True`")
        terms = thinned_terms(predictions, lens, partition, where)
    summary = survey(predictions).summary if evidence is None else evidence.summary
    terms = with_class_shares(terms, lens, summary.priors)
    cells = [term.cells for term in terms]
    errors = [error(c) for c in cells]
    values = np.concatenate([np.atleast_1d(one) for one in errors]).tolist()
    words: list[str | Described] = ["calibration error", lens, partition, metric]
    if debias:
        few = sum(int(thin(c).sum()) for c in cells)
        words.append("debiased" + (f", {few} cells of one row left out" if few else ""))
    words += ["largest cell"] if worst else []
    words += ["where " + Definition(as_selection(where))] if where is not None else []
    least, n = (
        min(int((c.weight > 0).sum(axis=-1).min()) for c in cells),
        max(int(c.rows.sum(axis=-1).max()) for c in cells),
    )
    if isinstance(partition, EqualMass) and least < min(partition.bins, n):
        words.append(f"ties leave {least} bins")
    words += [sample_words] if sample_words else []
    words += (
        []
        if exact or not terms[0].grid_cells
        else [f"from a grid of {terms[0].grid_cells:,} cells"]
    )
    per_class = (
        dict(zip(predictions.class_order, values, strict=True))
        if isinstance(lens, Classwise)
        else None
    )
    words += [INTERVAL] if interval else []
    value = math.fsum(term.share * term.mean(one) for term, one in zip(terms, errors, strict=True))
    found = _error(value, words, n, cells, per_class)
    if isinstance(lens, Classwise) and lens.weights is not None:
        found.class_shares = tuple(np.asarray(lens.shares(summary.priors)).tolist())
    if interval:
        clusters = predictions.cluster_numbers
        _put(
            found,
            population_of(
                terms, metric, clusters=clusters, resamples=resamples, seed=seed, worst=worst
            ),
        )
    return found


def _check_interval(interval: bool, resamples: int) -> None:
    if not isinstance(interval, bool):
        raise InputError("interval", "must be True or False", repr(interval))
    check_resamples(resamples)


def _put(found: CalibrationError, population: Population) -> None:
    found.debiased, found.low, found.high = population.debiased, population.low, population.high


@documents_row_options
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
    """The calibration error over several partitions, chosen with given probabilities (Yang et al.
    2023, Definition 2).

    `Whole()` gives the distance of the marginals (Example 5), `Each()` the mean distance of every
    row from its label (Example 4), which for "brier" is the Brier score itself. Intervals as in
    `calibration_error`.
    """
    chosen = [partitions] if isinstance(partitions, Partition) else list(partitions)
    if not chosen:
        raise InputError("partitions", "needs at least one partition")
    shares = (
        np.full(len(chosen), 1 / len(chosen))
        if weights is None
        else np.asarray(weights, np.float64)
    )
    if (
        shares.shape != (len(chosen),)
        or not (shares >= 0).all()
        or not abs(shares.sum() - 1) < 1e-9
    ):
        raise InputError(
            "weights", f"needs {len(chosen)} probabilities that sum to 1", shares.tolist()
        )
    _check_interval(interval, resamples)
    if options.get("clusters") is not None and not interval:
        rule = "have no effect on the value; add `interval=True`, or leave them out"
        raise InputError("clusters", rule)
    lens, metric = TopLabel() if lens is None else lens, as_distance(distance)
    predictions = rows_of(y_true, y_proba, **options)
    priors = survey(predictions).summary.priors
    terms = [
        replace(term, share=share * term.share)
        for partition, share in zip(chosen, shares, strict=True)
        for term in with_class_shares(row_terms(predictions, lens, partition, where), lens, priors)
    ]
    cells = [term.cells for term in terms]
    words: list[str | Described] = ["partitioned calibration error", lens]
    words += [f"{len(chosen)} partitions", metric]
    words += [INTERVAL] if interval else []
    value = math.fsum(term.share * term.mean(mean_gap(term.cells, metric)) for term in terms)
    found = _error(value, words, max(int(c.rows.sum(axis=-1).max()) for c in cells), cells)
    if interval:
        clusters = predictions.cluster_numbers
        _put(found, population_of(terms, metric, clusters=clusters, resamples=resamples, seed=seed))
    return found


@documents_row_options
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
    """The root of the mean squared calibration error, debiased unless told otherwise (Kumar et al.
    2019).

    A debiased error below 0 counts as 0; with `Classwise()`, class by class. The interval is the
    root of that of the mean. Other arguments as in `calibration_error`."""
    found = calibration_error(
        y_true,
        y_proba,
        lens=lens,
        partition=EqualMass(15) if partition is None else partition,
        distance=Squared(),
        where=where,
        debias=debias,
        exact=exact,
        interval=interval,
        resamples=resamples,
        seed=seed,
        **options,
    )
    squares, shares = (
        [max(0.0, value) for value in found.per_class.values() or [float(found)]],
        found.class_shares,
    )
    mean = math.fsum(
        square * share
        for square, share in zip(squares, shares or [1 / len(squares)] * len(squares), strict=True)
    )
    root = _error(math.sqrt(mean), ["root of " + found.definition], found.n, found.gathered)
    _put(root, Population(found.debiased, found.low, found.high).root())
    return root
