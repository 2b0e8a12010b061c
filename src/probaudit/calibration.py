"""Calibration errors as functions of (y_true, y_proba): lens x selection x partition x distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from .cell_counting import counted_terms
from .distances import Distance, Squared, as_distance
from .engines.choosing import Passing, as_source
from .errors import InputError
from .estimates.calibration_error import debiased_gap, mean_gap, thin, worst_gap
from .estimates.cells import Categories, Cells, gather_categories, gather_cells, gather_class_cells
from .estimates.estimate import Estimate
from .estimates.intervals import Method
from .estimates.null import Steps, p_value
from .lenses import Classwise, Lens, OneVsRest, TopLabel, View
from .metrics import RowOptions, rows_of
from .partitions import EqualMass, EqualWidth, Partition
from .predictions import Predictions
from .resampling import Bootstrap, Term
from .viewing import Rows, Seen, grids_of, look, survey


class CalibrationError(Estimate):
    """An estimate that also keeps the cells it was summed over, for each view of the lens."""

    gathered: tuple[Cells, ...] = ()

    @property
    def cells(self) -> tuple[Cells, ...]:
        return tuple(part for cells in self.gathered for part in cells.each)

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibrationError, (float(self),), dict(self.__dict__)


def _error(
    value: float, definition: list[str], n: int, cells: Sequence[Cells] = (), per_class: dict[Any, float] | None = None
) -> CalibrationError:
    found = CalibrationError(value, n=n, definition=", ".join(definition), per_class=per_class)
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
    interval: Method | None = None,
    groups: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The mean distance between what was forecast and what happened, over cells of rows (paper 3, Eq. 3).

    y_true, y_proba : as in `log_score`; or what `scan` makes of files or of a dask DataFrame, or dask arrays: a sample of their
        rows then decides the cells (the boxes of a `KDTree`, the bins of `EqualMass`), and all rows are counted in a pass.
    lens : what is judged; `TopLabel()` unless given. `Classwise()` averages over classes and gives each in `per_class`.
    partition : which rows are judged together; `EqualWidth(15)` unless given.
    distance : "l1", "tvd", "l2", "squared", "max", "brier", "log" or a Distance.
    where : which rows count: a boolean mask or a Selection.
    debias : take off what chance adds (distance "squared"; or "l1" of a single event); the result may be negative.
    worst : the largest distance of any cell in place of the mean.
    exact : with False, rows are first put on a fine grid of probabilities, in one pass that keeps none of them, as it is done
        with data that does not fit into memory. For single events. Bins then begin and end at the grid's cells.
    interval : "percentile" or "bca" for a 95% bootstrap interval with the cells held fixed; see `estimates.intervals` for what
        it means near zero. Its cost does not grow with the rows.
    groups : one value per row; rows of a group are drawn together (clustered bootstrap).

    >>> round(calibration_error([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9]), 4)
    0.35
    """
    lens = TopLabel() if lens is None else lens
    partition = EqualWidth(15) if partition is None else partition
    metric = as_distance(distance)
    if debias and worst:
        raise InputError("worst", "the largest of several cells cannot be debiased")
    bootstrap = Bootstrap.of(interval, groups, resamples, seed, bias_removed=int(debias))
    error = partial(debiased_gap if debias else worst_gap if worst else mean_gap, distance=metric)
    sample_words = ""
    if (source := as_source(y_true, y_proba, **options)) is not None:
        if where is not None or groups is not None:
            raise InputError("where" if groups is None else "groups", "needs rows in memory")
        evidence = Passing().evidence(source)
        predictions = evidence.sample
    else:
        evidence, predictions = None, rows_of(y_true, y_proba, **options)
    if evidence is not None and evidence.sampled:
        terms, decided = counted_terms(evidence, lens, partition)
        if len(terms) > 1 and interval is not None:
            raise InputError("interval", "of several events needs rows in memory", interval)
        sample_words = f"cells of a sample of {len(predictions):,} rows" if decided else ""
    elif exact:
        terms = _terms(predictions, lens, partition, where)
    else:
        terms = _grid_terms(predictions, lens, partition, where)
    cells = [term.cells for term in terms]
    values = np.concatenate([np.atleast_1d(error(c)) for c in cells]).tolist()
    words = [f"calibration error, {lens}", repr(partition), repr(metric)]
    if debias:
        few = sum(int(thin(c).sum()) for c in cells)
        words.append("debiased" + (f", {few} cells of one row left out" if few else ""))
    words += ["largest cell"] if worst else []
    words += [f"where {where!r}"] if where is not None else []
    least, n = min(int((c.weight > 0).sum(axis=-1).min()) for c in cells), max(int(c.rows.sum(axis=-1).max()) for c in cells)
    if isinstance(partition, EqualMass) and least < min(partition.bins, n):
        words.append(f"ties leave {least} bins")
    words += [sample_words] if sample_words else []
    words += [] if exact or not terms[0].grid_cells else [f"from a grid of {terms[0].grid_cells:,} cells"]
    per_class = dict(zip(predictions.class_order, values, strict=True)) if isinstance(lens, Classwise) else None
    found = _error(math.fsum(values) / len(values), words, n, cells, per_class)
    if bootstrap is not None:
        found.low, found.high = bootstrap.interval(float(found), terms, error)
    return found


def _terms(predictions: Predictions, lens: Lens, partition: Partition, where: Any) -> list[Term]:
    """A term for each view of the lens, from the rows themselves."""
    if isinstance(lens, Classwise) and isinstance(partition, EqualWidth) and where is None:
        return [_class_term(predictions, partition)]
    views, found = look(predictions, lens, where), []
    for seen in views:
        categories = partial(seen.categories, partition)
        found.append(Term(seen.gather(partition), 1 / len(views), (categories,), seen.rows, seen.total))
    return found


def _class_term(predictions: Predictions, partition: EqualWidth) -> Term:
    """The errors of all classes, in one pass over them."""
    rows = Rows.of(predictions)
    outputs = survey(predictions).state.mean_outputs() * rows.weights.sum()

    def categories(k: int) -> Categories:
        view = OneVsRest(k).view(rows.probs, rows.labels)
        return gather_categories(view, partition.cells(view.outputs), rows.weights)

    cells = gather_class_cells(rows.probs, rows.labels, rows.weights, outputs, partition)
    return Term(cells, 1.0, tuple(partial(categories, k) for k in range(len(cells.weight))), rows.places, rows.total)


def _grid_terms(predictions: Predictions, lens: Lens, partition: Partition, where: Any) -> list[Term]:
    """A term for each event that the lens shows, from its fine grid."""
    if where is not None:
        raise InputError("exact", "must be True for a selection of rows")
    grids, found = grids_of(predictions, lens), []
    for grid in grids:
        cell = partition.grid_cells(grid.place, grid.rows[grid.kept])
        found.append(Term(grid.cells(cell), 1 / len(grids), (partial(grid.categories, cell),), grid_cells=len(grid.rows)))
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
    interval: Method | None = None,
    groups: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The calibration error over several partitions, chosen with given probabilities (paper 4, Definition 2).

    `Whole()` gives the distance of the marginals (Example 5), `Each()` the mean distance of every row from its label
    (Example 4), which for "brier" is the Brier score itself. Intervals as in `calibration_error`.
    """
    chosen = [partitions] if isinstance(partitions, Partition) else list(partitions)
    if not chosen:
        raise InputError("partitions", "needs at least one partition")
    shares = np.full(len(chosen), 1 / len(chosen)) if weights is None else np.asarray(weights, np.float64)
    if shares.shape != (len(chosen),) or not (shares >= 0).all() or not abs(shares.sum() - 1) < 1e-9:
        raise InputError("weights", f"needs {len(chosen)} probabilities that sum to 1", shares.tolist())
    bootstrap = Bootstrap.of(interval, groups, resamples, seed)
    lens, error = TopLabel() if lens is None else lens, partial(mean_gap, distance=as_distance(distance))
    predictions = rows_of(y_true, y_proba, **options)
    terms = [
        replace(term, share=share * term.share)
        for partition, share in zip(chosen, shares, strict=True)
        for term in _terms(predictions, lens, partition, where)
    ]
    cells = [term.cells for term in terms]
    words = [f"partitioned calibration error, {lens}", f"{len(chosen)} partitions", repr(as_distance(distance))]
    value = math.fsum(term.share * float(error(term.cells).mean()) for term in terms)
    found = _error(value, words, max(int(c.rows.sum(axis=-1).max()) for c in cells), cells)
    if bootstrap is not None:
        found.low, found.high = bootstrap.interval(value, terms, error)
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
    """Is the error larger than chance? Labels are drawn anew from the forecasts themselves (consistency resampling).

    The p-value is (1 + the number of resamples with an error at least as large) / (1 + resamples); `excess` is the error
    less its mean under calibration, `null_high` the 95% point.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> calibration_test(rng.random(500) < p, p).p_value > 0.05
    True
    """
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)
    lens = TopLabel() if lens is None else lens
    partition = EqualWidth(15) if partition is None else partition
    metric = as_distance(distance)
    predictions = rows_of(y_true, y_proba, **options)
    terms = _terms(predictions, lens, partition, None)
    values = np.concatenate([np.atleast_1d(mean_gap(term.cells, metric)) for term in terms]).tolist()
    value = math.fsum(values) / len(values)
    seen = look(predictions, lens)
    cells = [s.cells(partition) for s in seen]
    if len(seen) == 1 and seen[0].view.outputs.ndim == 1 and predictions.sample_weight is None:
        null = Steps.of_view(seen[0].view, cells[0]).null(metric, resamples, seed)
    else:
        null = _row_null(predictions, lens, seen, cells, metric, resamples, seed)
    words = f"calibration error against consistency resampling, {lens}, {partition!r}, {metric!r}, {resamples} resamples"
    high, mean = float(np.quantile(null, 0.95)), float(null.mean())
    return CalibrationTest(value, p_value(value, null), mean, high, value - mean, len(seen[0].rows), words)


def _row_null(
    predictions: Predictions,
    lens: Lens,
    seen: list[Seen],
    cells: list[np.ndarray],
    metric: Distance,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """Errors under calibration, with a label drawn for each row. Those of several problems come from one draw, as they hang
    together."""
    rng, null = np.random.default_rng(seed), np.empty(resamples)
    rows = Rows.of(predictions) if len(seen) > 1 else None
    for i in range(resamples):
        if rows is None:
            views = [View(s.view.outputs, _draw(rng, s.view.outputs)) for s in seen]
        else:
            views = lens.views(rows.probs, _draw(rng, rows.probs))
        found = [gather_cells(v, c, s.weights) for v, c, s in zip(views, cells, seen, strict=True)]
        null[i] = math.fsum(float(mean_gap(c, metric)) for c in found) / len(found)
    return null


def _draw(rng: np.random.Generator, outputs: np.ndarray) -> np.ndarray:
    """A label for each row, drawn from its forecast."""
    if outputs.ndim == 1:
        return (rng.random(len(outputs)) < outputs).astype(np.int64)
    edges = np.cumsum(outputs, axis=1)
    return (rng.random((len(outputs), 1)) * edges[:, -1:] >= edges).sum(axis=1).clip(max=outputs.shape[1] - 1)


def rms_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    debias: bool = True,
    exact: bool = True,
    interval: Method | None = None,
    groups: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The root of the mean squared calibration error, debiased unless told otherwise (Kumar et al. 2019).

    A debiased error below 0 counts as 0; with `Classwise()`, class by class. The interval is the root of that of the mean.
    Other arguments as in `calibration_error`."""
    found = calibration_error(
        y_true,
        y_proba,
        lens=lens,
        partition=EqualMass(15) if partition is None else partition,
        distance=Squared(),
        debias=debias,
        exact=exact,
        interval=interval,
        groups=groups,
        resamples=resamples,
        seed=seed,
        **options,
    )
    squares = [max(0.0, value) for value in found.per_class.values() or [float(found)]]
    root = _error(math.sqrt(math.fsum(squares) / len(squares)), [f"root of {found.definition}"], found.n, found.gathered)
    root.low, root.high = (math.sqrt(max(0.0, end)) if math.isfinite(end) else end for end in found.interval)
    return root
