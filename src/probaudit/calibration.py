"""Calibration errors as functions of (y_true, y_proba): lens x selection x partition x distance, and kernel estimates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from .arrays import as_array
from .distances import Distance, Squared, as_distance
from .engines.memory import good_rows
from .errors import InputError
from .estimates.calibration_error import debiased_gap, mean_gap
from .estimates.cells import Cells, gather_categories, gather_cells
from .estimates.estimate import Estimate
from .estimates.fine_grid import FineGrid
from .estimates.intervals import Method, bootstrap
from .estimates.kernel import kernel_error
from .estimates.smooth import smooth_error
from .lenses import Classwise, Lens, TopLabel, View
from .metrics import RowOptions, rows_of
from .partitions import EqualMass, EqualWidth, Partition
from .predictions import Predictions
from .scores import Brier, Log
from .selections import as_selection
from .statistics import Plan

SCORES = {"brier": Brier(), "log": Log()}


@dataclass(frozen=True)
class Rows:
    """The good rows as plain arrays: probabilities [n, K], labels, weights, and their places among all `total` rows."""

    probs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int

    @classmethod
    def of(cls, predictions: Predictions) -> Rows:
        good = good_rows(predictions, Plan.of(predictions))
        kept = predictions if len(good) == len(predictions) else predictions.take(good)
        weights = np.ones(len(kept)) if kept.sample_weight is None else kept.sample_weight / kept.sample_weight.max()
        return cls(kept.probabilities(), kept.codes, weights, good, len(predictions))


@dataclass(frozen=True)
class Seen:
    """A view with its weights, and which of all `total` rows it shows."""

    view: View
    weights: np.ndarray
    rows: np.ndarray
    total: int

    def cells(self, partition: Partition) -> np.ndarray:
        return partition.select(self.rows, self.total).cells(self.view.outputs)


def look(rows: Rows, lens: Lens, where: Any = None) -> list[Seen]:
    """The problems that a lens shows, for the rows that a selection keeps (before or after the lens, as it says)."""
    selection = None if where is None else as_selection(where).select(rows.places, rows.total)
    kept = np.arange(len(rows.labels))
    if selection is not None and not selection.after_lens:
        kept = np.flatnonzero(selection.mask(View(rows.probs, rows.labels)))
    found = []
    for view in lens.views(rows.probs[kept], rows.labels[kept]):
        here, shown = kept, view
        if selection is not None and selection.after_lens:
            inside = np.flatnonzero(selection.mask(view))
            here, shown = kept[inside], View(view.outputs[inside], view.labels[inside])
        if not len(here):
            raise InputError("where", "no row is left to judge")
        found.append(Seen(shown, rows.weights[here], rows.places[here], rows.total))
    return found


class CalibrationError(Estimate):
    """An estimate that also keeps the cells it was summed over, for each view of the lens."""

    cells: tuple[Cells, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibrationError, (float(self),), dict(self.__dict__)


def _error(
    value: float, definition: list[str], n: int, cells: Sequence[Cells] = (), per_class: dict[Any, float] | None = None
) -> CalibrationError:
    found = CalibrationError(value, n=n, definition=", ".join(definition), per_class=per_class)
    found.cells = tuple(cells)
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
    interval: Method | None = None,
    groups: Any = None,
    resamples: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The mean distance between what was forecast and what happened, over cells of rows (paper 3, Eq. 3).

    lens : what is judged; `TopLabel()` unless given. `Classwise()` averages over classes and gives each in `per_class`.
    partition : which rows are judged together; `EqualWidth(15)` unless given.
    distance : "l1", "tvd", "l2", "squared", "max", "brier", "log" or a Distance.
    where : which rows count: a boolean mask or a Selection.
    debias : take off what chance adds (distance "squared" only); the result may be negative.
    worst : the largest distance of any cell in place of the mean.
    interval : "percentile" or "bca" for a 95% bootstrap interval with the cells held fixed; see `estimates.intervals` for what
        it means near zero. Its cost does not grow with the rows.
    groups : one value per row; rows of a group are drawn together (clustered bootstrap).

    >>> round(calibration_error([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9]), 4)
    0.35
    """
    lens = TopLabel() if lens is None else lens
    partition = EqualWidth(15) if partition is None else partition
    metric = as_distance(distance)
    predictions = rows_of(y_true, y_proba, **options)
    seen = look(Rows.of(predictions), lens, where)
    cells = [_cells_of(s, partition) for s in seen]
    words = [f"calibration error, {lens}", repr(partition), repr(metric)]
    if debias and worst:
        raise InputError("worst", "the largest of several cells cannot be debiased")

    def error(c: Cells) -> float:
        return debiased_gap(c, metric).value if debias else mean_gap(c, metric, worst=worst)

    values = [error(c) for c in cells]
    if debias:
        thin = sum(debiased_gap(c, metric).thin for c in cells)
        words.append("debiased" + (f", {thin} cells of one row left out" if thin else ""))
    words += ["largest cell"] if worst else []
    words += [f"where {where!r}"] if where is not None else []
    if isinstance(partition, EqualMass) and min(len(c.rows) for c in cells) < partition.bins:
        words.append(f"ties leave {min(len(c.rows) for c in cells)} bins")
    per_class = dict(zip(predictions.class_order, values, strict=True)) if isinstance(lens, Classwise) else None
    found = _error(math.fsum(values) / len(values), words, len(seen[0].rows), cells, per_class)
    if interval is not None:
        found.low, found.high = _interval(found, seen, partition, error, interval, groups, resamples, seed, debias)
    return found


def _interval(
    value: float,
    seen: list[Seen],
    partition: Partition,
    error: Callable[[Cells], float],
    method: Method,
    groups: Any,
    resamples: int,
    seed: int,
    recentre: bool,
) -> tuple[float, float]:
    """A bootstrap interval for the error of a single view."""
    if method not in ("percentile", "bca"):
        raise InputError("interval", 'must be "percentile" or "bca"', repr(method))
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)
    if len(seen) != 1:
        raise InputError("interval", "needs a lens that shows one problem; take OneVsRest for each class", len(seen))
    (view,) = seen
    clusters = None
    if groups is not None:
        clusters = as_array(groups, "groups")
        if clusters.shape != (view.total,):
            raise InputError("groups", f"needs one value per row ({view.total})", f"has shape {clusters.shape}")
        clusters = clusters[view.rows]
    categories = gather_categories(view.view, view.cells(partition), view.weights)

    def statistic(counts: np.ndarray) -> np.ndarray:
        return np.array([error(categories.cells(row)) for row in counts])

    return bootstrap(
        value,
        categories.counts,
        statistic,
        method=method,
        resamples=resamples,
        seed=seed,
        category=categories.of_row,
        groups=clusters,
        recentre=recentre,
    )


def _cells_of(seen: Seen, partition: Partition) -> Cells:
    return gather_cells(seen.view, seen.cells(partition), seen.weights)


def partitioned_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    partitions: Partition | Sequence[Partition] = (),
    *,
    lens: Lens | None = None,
    distance: str | Distance = "l1",
    weights: Sequence[float] | None = None,
    where: Any = None,
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The calibration error over several partitions, chosen with given probabilities (paper 4, Definition 2).

    `Whole()` gives the distance of the marginals (Example 5), `Each()` the mean distance of every row from its label
    (Example 4), which for "brier" is the Brier score itself.
    """
    chosen = [partitions] if isinstance(partitions, Partition) else list(partitions)
    if not chosen:
        raise InputError("partitions", "needs at least one partition")
    shares = np.full(len(chosen), 1 / len(chosen)) if weights is None else np.asarray(weights, np.float64)
    if shares.shape != (len(chosen),) or not (shares >= 0).all() or not abs(shares.sum() - 1) < 1e-9:
        raise InputError("weights", f"needs {len(chosen)} probabilities that sum to 1", shares.tolist())
    rows, metric = Rows.of(rows_of(y_true, y_proba, **options)), as_distance(distance)
    lens = TopLabel() if lens is None else lens
    seen = look(rows, lens, where)
    cells = [[_cells_of(s, partition) for s in seen] for partition in chosen]
    values = [math.fsum(mean_gap(c, metric) for c in views) / len(views) for views in cells]
    words = [f"partitioned calibration error, {lens}", f"{len(chosen)} partitions", repr(metric)]
    return _error(float(shares @ values), words, len(seen[0].rows), [c for views in cells for c in views])


def smooth_calibration_error(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, sigma: float | None = None, **options: Unpack[RowOptions]
) -> Estimate:
    """SmoothECE: residuals smoothed by a reflected Gaussian whose width is the error itself (Blasiok & Nakkiran 2023).

    >>> round(smooth_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    if sigma is not None and not 0 < sigma < np.inf:
        raise InputError("sigma", "must be positive and finite", sigma)
    lens = TopLabel() if lens is None else lens
    grids, n = _grids(rows_of(y_true, y_proba, **options), lens)
    found = [smooth_error(grid, sigma) for grid in grids]
    width = "its fixed point" if sigma is None else f"{sigma:g}"
    words = f"SmoothECE, {lens}, reflected Gaussian of width {width}"
    return Estimate(math.fsum(value for value, _ in found) / len(found), n=n, definition=words)


def kernel_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    score: str = "brier",
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    lens: Lens | None = None,
    reflect: bool = False,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean divergence of E[target | output], by kernel regression, from the output (paper 5, Theorem C.4).

    score : "brier" for squared differences, "log" for the binary Kullback-Leibler divergence.
    reflect : mirror the kernel at 0 and 1.

    >>> round(kernel_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    """
    if score not in SCORES:
        raise InputError("score", f"must be one of {', '.join(SCORES)}", repr(score))
    if not 0 < bandwidth < np.inf:
        raise InputError("bandwidth", "must be positive and finite", bandwidth)
    lens = TopLabel() if lens is None else lens
    grids, n = _grids(rows_of(y_true, y_proba, **options), lens)
    counterpart = SCORES[score].one_dimensional()
    found = [kernel_error(grid, counterpart, kernel=kernel, bandwidth=bandwidth, reflect=reflect) for grid in grids]
    words = f"kernel calibration error, {lens}, {score}, {kernel} of width {bandwidth:g}" + (", reflected" if reflect else "")
    return Estimate(math.fsum(found) / len(found), n=n, definition=words)


def _grids(predictions: Predictions, lens: Lens) -> tuple[list[FineGrid], int]:
    rows = Rows.of(predictions)
    seen = look(rows, lens)
    for s in seen:
        if s.view.outputs.ndim != 1:
            raise InputError("lens", "must show a single event", repr(lens))
    return [FineGrid.of_view(s.view, s.weights) for s in seen], len(rows.labels)


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
    rows = Rows.of(rows_of(y_true, y_proba, **options))
    seen = look(rows, lens)
    value = math.fsum(mean_gap(_cells_of(s, partition), metric) for s in seen) / len(seen)
    rng = np.random.default_rng(seed)
    cells = [s.cells(partition) for s in seen]
    null = np.empty(resamples)
    for i in range(resamples):
        drawn = _drawn_views(rng, rows, lens, seen)
        gaps = [mean_gap(gather_cells(v, c, s.weights), metric) for v, c, s in zip(drawn, cells, seen, strict=True)]
        null[i] = math.fsum(gaps) / len(gaps)
    p_value = (1 + int((null >= value * (1 - 1e-12)).sum())) / (1 + resamples)
    words = f"calibration error against consistency resampling, {lens}, {partition!r}, {metric!r}, {resamples} resamples"
    high = float(np.quantile(null, 0.95))
    return CalibrationTest(value, p_value, float(null.mean()), high, value - float(null.mean()), len(rows.labels), words)


def _drawn_views(rng: np.random.Generator, rows: Rows, lens: Lens, seen: list[Seen]) -> list[View]:
    """The same problems with labels drawn anew. Those of several problems hang together, so they come from one draw."""
    if len(seen) > 1:
        return lens.views(rows.probs, _draw(rng, rows.probs))
    return [View(s.view.outputs, _draw(rng, s.view.outputs)) for s in seen]


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
    **options: Unpack[RowOptions],
) -> CalibrationError:
    """The root of the mean squared calibration error, debiased unless told otherwise (Kumar et al. 2019).

    A debiased error below 0 counts as 0; with `Classwise()`, class by class."""
    partition = EqualMass(15) if partition is None else partition
    found = calibration_error(y_true, y_proba, lens=lens, partition=partition, distance=Squared(), debias=debias, **options)
    squares = [max(0.0, value) for value in found.per_class.values() or [float(found)]]
    return _error(math.sqrt(math.fsum(squares) / len(squares)), [f"root of {found.definition}"], found.n, found.cells)
