"""Calibration errors as functions of (y_true, y_proba): lens x selection x partition x distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition, Described
from ..choices.distances import Distance, Squared, as_distance
from ..choices.lenses import Classwise, Lens, OneVsRest, TopLabel, View
from ..choices.partitions import EqualMass, EqualWidth, Partition
from ..choices.selections import as_selection
from ..data.inputs import RowOptions, rows_of
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import GoodRows, survey
from ..errors import InputError
from ..estimate import Estimate
from .cell_counting import counted_terms
from .cells import (
    Categories,
    Cells,
    exact_total,
    gather_categories,
    gather_cells,
    gather_class_cells,
)
from .gaps import debiased_gap, mean_gap, thin, worst_gap
from .null import SignedClusters, Steps, larger, p_value
from .population import RESAMPLES, Population
from .resampling import Term, check_resamples, population_of
from .views import Seen, dependent_events, grids_of, look

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
        same cells, and in `debiased` an estimate of it (see `estimates.population`). Chance raises
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
        terms, decided = counted_terms(evidence, _even(lens), partition)
        if interval and (len(terms) > 1 or predictions.clusters is not None):
            raise InputError(
                "interval", "of several events, or of rows in clusters, needs rows in memory"
            )
        sample_words = f"cells of a sample of {len(predictions):,} rows" if decided else ""
    elif exact:
        terms = terms_of(predictions, lens, partition, where)
    else:
        terms = _grid_terms(predictions, lens, partition, where)
    if debias and predictions.clusters is not None:
        if not exact or (evidence is not None and evidence.sampled):
            raise InputError("debias", "of rows in clusters needs rows in memory, and `exact=True`")
        terms = _thinned_terms(predictions, lens, partition, where)
    summary = survey(predictions).summary if evidence is None else evidence.summary
    terms = _shared(terms, lens, summary.priors)
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


def _even(lens: Lens) -> Lens:
    """The lens without weights of classes, which are for the mean of errors."""
    return Classwise() if isinstance(lens, Classwise) else lens


def _shared(terms: list[Term], lens: Lens, priors: np.ndarray) -> list[Term]:
    """The same terms, with the shares that a lens gives to classes."""
    if not isinstance(lens, Classwise) or (shares := lens.shares(priors)) is None:
        return terms
    if len(terms) == 1 and terms[0].cells.weight.ndim == 2:
        return [replace(terms[0], shares=tuple(shares.tolist()))]
    return [replace(term, share=share) for term, share in zip(terms, shares.tolist(), strict=True)]


def terms_of(predictions: Predictions, lens: Lens, partition: Partition, where: Any) -> list[Term]:
    """A term for each view of the lens, from the rows themselves."""
    if isinstance(lens, Classwise) and isinstance(partition, EqualWidth) and where is None:
        return [class_term(predictions, partition)]
    views, found = look(predictions, _even(lens), where), []
    for seen in views:
        categories = partial(seen.categories, partition)
        steps = (partial(_steps, seen, partition),) if seen.view.outputs.ndim == 1 else ()
        found.append(
            Term(
                seen.gather(partition),
                1 / len(views),
                (categories,),
                seen.rows,
                seen.total,
                steps=steps,
            )
        )
    return found


def _thinned_terms(
    predictions: Predictions, lens: Lens, partition: Partition, where: Any
) -> list[Term]:
    """As `terms_of`, for what chance adds to an error of rows in clusters: they count as fewer, by
    the design effect of each cell."""
    views, found = look(predictions, _even(lens), where), []
    if views[0].view.outputs.ndim > 1:
        raise InputError(
            "debias", "of rows in clusters needs a lens that shows single events", repr(lens)
        )
    events = dependent_events(predictions, _even(lens), where) or ()
    for seen, event in zip(views, events, strict=True):
        cells = seen.gather(partition)
        cells = replace(
            cells, effective=cells.effective / event.effects(cells, seen.cells(partition))
        )
        categories, steps = (
            (partial(seen.categories, partition),),
            (partial(_steps, seen, partition),),
        )
        found.append(Term(cells, 1 / len(views), categories, seen.rows, seen.total, steps=steps))
    return found


def _steps(seen: Seen, partition: Partition) -> Steps:
    return Steps.of_view(seen.view, seen.cells(partition), seen.weights)


def class_term(predictions: Predictions, partition: EqualWidth) -> Term:
    """The errors of all classes, in one pass over them."""
    rows = GoodRows.of(predictions)
    outputs = survey(predictions).state.mean_outputs() * exact_total(rows.weights)

    def categories(k: int) -> Categories:
        view = OneVsRest(k).view(rows.probs, rows.labels)
        return gather_categories(view, partition.cells(view.outputs), rows.weights)

    def steps(k: int) -> Steps:
        view = OneVsRest(k).view(rows.probs, rows.labels)
        return Steps.of_view(view, partition.cells(view.outputs), rows.weights)

    cells = gather_class_cells(rows.probs, rows.labels, rows.weights, outputs, partition)
    numbers = range(len(cells.weight))
    of_class, steps_of = (
        tuple(partial(categories, k) for k in numbers),
        tuple(partial(steps, k) for k in numbers),
    )
    return Term(cells, 1.0, of_class, rows.places, rows.total, steps=steps_of)


def _grid_terms(
    predictions: Predictions, lens: Lens, partition: Partition, where: Any
) -> list[Term]:
    """A term for each event that the lens shows, from its fine grid."""
    if where is not None:
        raise InputError("exact", "must be True for a selection of rows")
    grids, found = grids_of(predictions, _even(lens)), []
    for grid in grids:
        cell = partition.grid_cells(grid.place, grid.rows[grid.kept])
        categories, steps = (partial(grid.categories, cell),), (partial(Steps.of_grid, grid, cell),)
        found.append(
            Term(
                grid.cells(cell), 1 / len(grids), categories, grid_cells=len(grid.rows), steps=steps
            )
        )
    return found


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
        for term in _shared(terms_of(predictions, lens, partition, where), lens, priors)
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


@dataclass(frozen=True)
class CalibrationTest:
    """A calibration error beside what a calibrated model with the same outputs would get."""

    value: float
    p_value: float
    null_mean: float
    null_high: float
    excess: float
    n: int
    definition: str


def calibration_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "l1",
    resamples: int = 999,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationTest:
    """Is the error larger than expected if calibrated? Labels are simulated from the forecasts
    (consistency resampling).

    Labels of rows in `clusters` depend on each other; there the residuals of each cluster also get
    a random sign (a wild cluster bootstrap, `estimates.null.SignedClusters`), and the larger of
    both p-values counts.

    The p-value is (1 + the number of resamples with an error at least as large) / (1 + resamples);
    `excess` is the error less its mean under calibration, `null_high` the 95% point.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> calibration_test(rng.random(500) < p, p).p_value > 0.05
    True
    """
    check_resamples(resamples)
    lens = TopLabel() if lens is None else lens
    partition = EqualWidth(15) if partition is None else partition
    metric = as_distance(distance)
    predictions = rows_of(y_true, y_proba, **options)
    priors, seen = survey(predictions).summary.priors, look(predictions, _even(lens))
    terms = _shared(terms_of(predictions, lens, partition, None), lens, priors)
    value = math.fsum(term.share * term.mean(mean_gap(term.cells, metric)) for term in terms)
    cells = [s.cells(partition) for s in seen]
    shares = [share for term in terms for _, share, _, _ in term.each]
    if len(seen) == 1 and seen[0].view.outputs.ndim == 1 and predictions.sample_weight is None:
        null = Steps.of_view(seen[0].view, cells[0]).null(metric, resamples, seed)
    else:
        null = _row_null(predictions, _even(lens), seen, cells, shares, metric, resamples, seed)
    against = "consistency resampling"
    if (clusters := predictions.cluster_numbers) is not None:
        if len(np.unique(clusters[seen[0].rows])) < 2:
            raise InputError("clusters", "needs two clusters or more for a test", 1)
        signed = np.zeros(resamples)
        for s, c, share in zip(seen, cells, shares, strict=True):
            of_view = SignedClusters.of_view(s.view, c, s.weights, clusters[s.rows], seed=seed)
            signed += share * of_view.null(metric, resamples, seed)
        null, against = larger(null, signed), f"{against} and a wild cluster bootstrap"
    words = Definition(f"calibration error against {against}", lens, partition, metric)
    words += f", {resamples} resamples"
    high, mean = float(np.quantile(null, 0.95)), float(null.mean())
    return CalibrationTest(
        value, p_value(value, null), mean, high, value - mean, len(seen[0].rows), words
    )


def _row_null(
    predictions: Predictions,
    lens: Lens,
    seen: list[Seen],
    cells: list[np.ndarray],
    shares: list[float],
    metric: Distance,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """Errors under calibration, with a label simulated for each row. Those of several problems are
    dependent, and come from one simulation."""
    rng, null = np.random.default_rng(seed), np.empty(resamples)
    rows = GoodRows.of(predictions) if len(seen) > 1 else None
    for i in range(resamples):
        if rows is None:
            views = [View(s.view.outputs, _draw(rng, s.view.outputs)) for s in seen]
        else:
            views = lens.views(rows.probs, _draw(rng, rows.probs))
        found = [gather_cells(v, c, s.weights) for v, c, s in zip(views, cells, seen, strict=True)]
        null[i] = math.fsum(
            share * float(mean_gap(c, metric)) for c, share in zip(found, shares, strict=True)
        )
    return null


def _draw(rng: np.random.Generator, outputs: np.ndarray) -> np.ndarray:
    """A label for each row, drawn from its forecast."""
    if outputs.ndim == 1:
        return (rng.random(len(outputs)) < outputs).astype(np.int64)
    edges = np.cumsum(outputs, axis=1)
    return (
        (rng.random((len(outputs), 1)) * edges[:, -1:] >= edges)
        .sum(axis=1)
        .clip(max=outputs.shape[1] - 1)
    )


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
