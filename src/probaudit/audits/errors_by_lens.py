"""The calibration errors of an audit under many lenses, each beside the value expected if
calibrated.

They are computed from the grids of a pass, so their cost does not grow with the rows. Only the
error of the whole simplex uses the sample of the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..calibration.cells import ONE_ROW, Cells
from ..calibration.dependent_event import DependentEvent
from ..calibration.error_intervals import dependence
from ..calibration.errors import calibration_error
from ..calibration.fine_grid import FineGrid, grid_sums
from ..calibration.kernel_regression import kernel_definition, kernel_error
from ..calibration.null import BinomialNull, classwise_null, least_favourable
from ..calibration.population import ErrorPart, Population, population_error
from ..calibration.resampling import FEWER_RESAMPLES, percentile
from ..calibration.significance import calibration_test, p_value
from ..calibration.smooth import (
    SMOOTH_CELLS,
    smooth_cells_error,
    smooth_error,
    smooth_population,
)
from ..calibration.terms import Term
from ..calibration.views import LensRows, event_rows
from ..choices.definitions import Definition
from ..choices.distances import TVD, Squared
from ..choices.lenses import Classwise, Full, Lens, OneVsRest, TopK, TopLabel, View
from ..choices.partitions import EqualMass, KDTree, Partition
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..states import EventSums
from ..states.evidence import Evidence
from ..states.sampling import drawn
from .dependence import clustered_rows, dependent_event, lens_event
from .lens_error import (
    ABSOLUTE,
    BINS,
    CLASS_CELLS,
    MEAN_GAP,
    WIDTH,
    LensError,
    NullModel,
    binned_error,
    cells_of,
    definition_of,
    error_of_cells,
    estimate_with,
    holm_adjusted,
)

TOP_LABEL = "top_label"  # begins the names of errors of the most probable class beside an event
MASS = EqualMass(BINS)
KERNEL_WIDTH = 0.05
# largest bandwidth of SmoothECE for resamples: that of a calibrated model is smaller
SMOOTH_WIDTH = 0.01
PRECISION = 1e-7  # values of SmoothECE that are closer count as equal
# the grid of resamples moves a kernel error by less than 0.001
CELLS_PER_WIDTH, MOST_CELLS = 5, 4_200
# Labels of all classes are simulated together up to this expected number of labels other than the
# top class, times classes; and up to this number of rows times classes.
SURPRISES = 10_000
OUTPUTS = 5_000_000
FULL_CLASSES = 20
FULL_ROWS = 20_000
# the sample that estimates the correlation between the errors of classes
DEPENDENCE_ROWS, DEPENDENCE_VALUES = 20_000, 2_000_000


def event_errors(evidence: Evidence) -> list[LensError]:
    """Errors of the judged event: binned, debiased, and without bins. With an event, those of the
    most probable class follow, under names of their own."""
    plan = evidence.summary.plan
    errors = _errors_of(_EventRows.of(evidence, plan.lens, evidence.judged))
    if plan.event is None:
        return errors
    top = _errors_of(_EventRows.of(evidence, TopLabel(), evidence.top))
    return errors + [replace(error, name=f"{TOP_LABEL}.{error.name}") for error in top]


def _errors_of(rows: _EventRows) -> list[LensError]:
    grid, event, lens = rows.grid, rows.event, rows.lens
    grid_words = f", from a grid of {len(grid.rows):,} cells" if rows.evidence.sampled else ""
    smooth_words = Definition("SmoothECE", lens, "reflected Gaussian of width its fixed point")
    errors = [
        rows.binned("ece", WIDTH, definition_of(lens)),
        rows.binned("ace", MASS, definition_of(lens, MASS) + grid_words),
        _smoothed_error(
            "smooth_ece",
            grid,
            _smooth,
            width=min(_smooth_width(grid), SMOOTH_WIDTH),
            words=smooth_words,
            event=event,
        ),
        _smoothed_error(
            "kernel_calibration_error",
            grid,
            _kernel,
            width=KERNEL_WIDTH,
            words=kernel_definition(lens, "brier", "gaussian", KERNEL_WIDTH),
            event=event,
            squared=True,
        ),
    ]
    cells = rows.cells(MASS)
    if (cells.effective / rows.effects(MASS, cells) > ONE_ROW).any():
        words = "root of " + definition_of(lens, MASS, Squared()) + f", debiased{grid_words}"
        errors.append(rows.binned("rms_error", MASS, words, root=True))
    return [replace(error, event=event_words(rows.evidence, lens)) for error in errors]


@dataclass(frozen=True, eq=False)
class _EventRows:
    """An event: the grid of all rows, the rows of the sample, and their clusters, if rows are
    dependent. If all rows are in memory, the rows themselves are binned, as in
    `calibration_error`."""

    evidence: Evidence
    lens: Lens
    grid: FineGrid
    shown: LensRows
    event: DependentEvent | None
    nulls: dict[Partition, BinomialNull] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, evidence: Evidence, lens: Lens, sums: EventSums) -> _EventRows:
        return cls(
            evidence=evidence,
            lens=lens,
            grid=FineGrid.of_event(sums),
            shown=event_rows(evidence.sample, lens),
            event=lens_event(evidence, lens),
        )

    def cells(self, partition: Partition) -> Cells:
        if self.evidence.sampled:
            return self.grid.cells(cells_of(self.grid, partition))
        return self.shown.gather(partition)

    def effects(self, partition: Partition, cells: Cells) -> np.ndarray:
        """The design effect of each cell."""
        if self.event is None:
            return np.ones(len(cells.rows))
        if self.evidence.sampled:
            of_row = self.event.cells(self.grid, cells_of(self.grid, partition))
        else:
            of_row = self.shown.cells(partition)
        return self.event.effects(cells, of_row)

    def null(self, partition: Partition, cell: np.ndarray) -> BinomialNull:
        """The null of the cells of a partition, which its errors share. `cell` as in
        `NullModel.of`."""
        if not self.evidence.sampled:
            return self.shown.null(partition)
        if partition not in self.nulls:
            self.nulls[partition] = BinomialNull.of_grid(self.grid, cell)
        return self.nulls[partition]

    def binned(
        self, name: str, partition: Partition, words: str, *, root: bool = False
    ) -> LensError:
        cell, cells = cells_of(self.grid, partition), self.cells(partition)
        return error_of_cells(
            name,
            cells,
            NullModel.of(self.grid, cell, self.event, self.null(partition, cell)),
            words,
            root=root,
            effects=self.effects(partition, cells) if root else None,
            population=_clustered_population(self.evidence, self.lens, partition, squared=root),
        )


def _clustered_population(
    evidence: Evidence, lens: Lens, partition: Partition, *, squared: bool = False
) -> Population | None:
    """The error of the population from resampled clusters, as in `calibration_error`; None unless
    rows have clusters and all are in memory."""
    if evidence.sampled or evidence.sample.clusters is None:
        return None
    clusters = np.asarray(evidence.sample.cluster_numbers)[GoodRows.of(evidence.sample).places]
    if len(np.unique(clusters)) < 2:
        return Population()
    distance = Squared() if squared else ABSOLUTE
    return _population(evidence.sample, lens=lens, partition=partition, distance=distance)


def _population(rows: Predictions, **choices: Any) -> Population:
    """The error of the population, as in `calibration_error`."""
    error = calibration_error(rows, interval=True, **choices)
    return Population(error.debiased, error.low, error.high)


def event_words(evidence: Evidence, lens: Lens | None = None) -> str:
    """The event of a lens in words; by default that of the judged event."""
    plan = evidence.summary.plan
    if evidence.sample.pairs:
        return "confidence"
    judged = plan.event is not None and lens != TopLabel()
    return f"class {plan.event_class}" if judged else "most probable class"


def rank_errors(evidence: Evidence) -> list[LensError]:
    """Errors of the event that the true class is among the k most probable (Kirchenbauer et al.
    2022, Eq. 4, as one event)."""
    what = "true class among the {} most probable against their summed probability"
    return [
        binned_error(
            f"topk_ece.{k}",
            FineGrid.of_event(sums),
            WIDTH,
            definition_of(what.format(k)),
            event=dependent_event(evidence, partial(_within_top_k, k, evidence.sample)),
        )
        for k, sums in evidence.ranks.items()
    ]


def _within_top_k(k: int, predictions: Predictions) -> View:
    """The event that the true class is among the k most probable."""
    rows = GoodRows.of(predictions)
    largest, place = TopK(k).view(rows.probs, rows.labels)
    return View(np.minimum(1.0, largest[:, :k].sum(axis=1)), (place < k).astype(np.int64))


def class_errors(
    evidence: Evidence, judged: LensError | None = None
) -> tuple[LensError | None, tuple[LensError, ...]]:
    """The mean over classes of each class's error (classwise ECE), and the error of each class; of
    two classes, which mirror each other, only the mean. `judged` is the ECE of the event, if there
    is one: the same error is not simulated twice.

    The errors of classes are simulated separately. The interval of their mean allows for the
    correlation between classes, estimated from resampled rows (`dependence`). Its null is that of
    `_classwise_null`.
    """
    if not evidence.classes:
        return None, ()
    nulls, parts = [], []
    for k, sums in enumerate(evidence.classes):
        grid = FineGrid.of_event(sums).coarse(CLASS_CELLS)
        cell = cells_of(grid, WIDTH)
        nulls.append(NullModel.of(grid, cell, lens_event(evidence, OneVsRest(k))))
        parts.append(ErrorPart(grid.cells(cell), 1.0, nulls[k].noise(FEWER_RESAMPLES, k)))
    classes = [
        _class_error(evidence, k, part, null)
        for k, (part, null) in enumerate(zip(parts, nulls, strict=True))
    ]
    classwise = _classwise_error(evidence, classes, parts, nulls)
    if len(classes) == 2:
        return classwise, ()
    event = evidence.summary.plan.event
    if event is not None and judged is not None:
        classes[event] = replace(judged, name=classes[event].name)
    return classwise, holm_adjusted(classes, nulls)


def _class_error(evidence: Evidence, k: int, part: ErrorPart, null: NullModel) -> LensError:
    """The error of class k against all others."""
    population = _clustered_population(evidence, OneVsRest(k), WIDTH)
    if population is None:
        widened = null.around.widened
        population = population_error([part], ABSOLUTE, widened=widened, seed=k)
    name = evidence.summary.plan.classes[k]
    return LensError.of(
        f"class_ece.{name}",
        float(MEAN_GAP(part.cells)),
        population,
        null.errors(FEWER_RESAMPLES, k),
        n=int(part.cells.rows.sum()),
        definition=definition_of(f"class {name} against all others"),
    )


def _classwise_error(
    evidence: Evidence,
    errors: Sequence[LensError],
    parts: Sequence[ErrorPart],
    nulls: Sequence[NullModel],
) -> LensError:
    """The mean of the errors of classes."""
    classes, values = evidence.summary.plan.classes, [float(error.estimate) for error in errors]
    population = _clustered_population(evidence, Classwise(), WIDTH)
    if population is None:
        shared = [replace(part, share=1 / len(classes)) for part in parts]
        widened = _class_dependence(evidence) * nulls[0].around.widened
        population = population_error(shared, ABSOLUTE, widened=widened)
    null, p = _classwise_null(evidence, nulls)
    error = LensError.of(
        "classwise_ece",
        math.fsum(values) / len(values),
        population,
        null,
        n=errors[0].estimate.n,
        definition=definition_of(Classwise()) + f", mean of {len(classes)} classes",
        per_class=dict(zip(classes, values, strict=True)),
    )
    return error if p is None else error.with_p_value(p)


def _classwise_null(
    evidence: Evidence, nulls: Sequence[NullModel]
) -> tuple[np.ndarray, float | None]:
    """Classwise errors of calibrated models; and the p-value of the rows' own error, if it comes
    from the same simulation.

    A hit of one class is a miss of another, so a label is simulated for each row
    (`classwise_null`). If that would take too long, the draws of single classes are averaged. The
    dependence between classes can at most double the variance of the mean: the squared correlations
    p_k p_l / ((1 - p_k) (1 - p_l)) of one class with all others sum to at most 1, as
    1 - p_l >= p_k. So deviations of the mean are multiplied by the root of 2, which is exact for
    two classes, as they mirror each other.
    """
    if evidence.sample.clusters is None and _can_simulate_labels(evidence):
        rows = GoodRows.of(evidence.sample)
        value, errors = classwise_null(
            rows.probs, rows.labels, rows.weights, WIDTH, FEWER_RESAMPLES
        )
        return errors, p_value(value, errors)
    each = np.empty((FEWER_RESAMPLES, len(nulls)))
    for k, null in enumerate(nulls):
        each[:, k] = MEAN_GAP(null.binomial.calibrated(FEWER_RESAMPLES, k, null.shared))
    mean = each.mean(axis=1)
    widened = mean.mean() + math.sqrt(2) * (mean - mean.mean())
    # many draws may have the smallest possible error, that of labels equal to the top class
    mean = np.maximum(widened, mean.min())
    if signed := [null.signed for null in nulls if null.signed is not None]:
        # clusters have the same signs for all classes
        together = np.mean([MEAN_GAP(s.calibrated(FEWER_RESAMPLES)) for s in signed], axis=0)
        mean = least_favourable(mean, together)
    return mean, None


def _class_dependence(evidence: Evidence) -> float:
    """The standard deviation of the mean error over classes, relative to independent classes."""
    rows = evidence.sample
    most = min(DEPENDENCE_ROWS, DEPENDENCE_VALUES // rows.n_classes)
    rows = rows.take(drawn(len(rows), most)) if len(rows) > most else rows
    return dependence([Term.of_classes(rows, WIDTH)], ABSOLUTE, seed=0)


def _can_simulate_labels(evidence: Evidence) -> bool:
    """Whether all rows are in memory, and few enough of them are uncertain to simulate the labels
    of all classes together."""
    classes, top = evidence.summary.plan.n_classes, evidence.top
    surprises = float(top.rows.sum() * (1 - top.outputs.sum() / top.weight.sum()))
    few = surprises * classes <= SURPRISES and len(evidence.sample) * classes <= OUTPUTS
    return few and not evidence.sampled


def full_error(evidence: Evidence) -> LensError | None:
    """The error of all classes together, over boxes of the simplex (Kirchenbauer et al. 2022,
    Appendix B.2, with gamma = 2^-4 as in their Figure 7)."""
    plan = evidence.summary.plan
    if plan.kind == "pairs" or not 2 < plan.n_classes <= FULL_CLASSES:
        return None
    clustered = clustered_rows(evidence)
    # a single cluster has no variance
    if clustered is not None and clustered.clusters.count < 2:
        return None
    rows, tree, distance = evidence.sample, KDTree(2**-4), TVD()
    sampled = len(rows) > FULL_ROWS
    rows = rows.take(drawn(len(rows), FULL_ROWS)) if sampled else rows
    options: dict[str, Any] = {
        "lens": Full(),
        "partition": tree,
        "distance": distance,
        "resamples": FEWER_RESAMPLES,
    }
    test = calibration_test(rows, **options)
    words = definition_of(Full(), tree, distance)
    words += f", on a sample of {len(rows):,} rows" if sampled else evidence.sample_words
    population = _population(rows, **options)
    estimate = estimate_with(test.value, population, n=test.n, definition=words)
    return LensError("full_ece", estimate, replace(test, definition=words))


def _smoothed_error(
    name: str,
    grid: FineGrid,
    error: Callable[..., np.ndarray],
    *,
    width: float,
    words: str,
    event: DependentEvent | None,
    squared: bool = False,
) -> LensError:
    """An error smoothed by a kernel. Rows are resampled on a grid whose cells are much narrower
    than the kernel."""
    value = float(error(grid.weight, grid.outputs, grid.targets))
    coarse = grid.coarse(int(min(len(grid.rows), MOST_CELLS, CELLS_PER_WIDTH / max(width, 1e-9))))
    cell = np.flatnonzero(coarse.kept)

    def of_cells(cells: Cells) -> np.ndarray:
        return error(*grid_sums(cells, len(coarse.rows)))

    shift = value - float(of_cells(coarse.cells(cell)))  # a small effect of the coarser grid
    null = NullModel.of(coarse, cell, event).errors(FEWER_RESAMPLES, 0, of_cells) + shift
    null[np.abs(null - value) <= 2 * PRECISION] = value
    n = int(grid.rows.sum())
    if squared:
        # intervals of dependent rows are widened by the factor for 15 equal bins
        wider = 1.0 if event is None else event.widening(grid, cells_of(grid, WIDTH), squared=True)
        categories = coarse.categories(cell)
        draws = categories.errors(categories.draw(FEWER_RESAMPLES, 0), of_cells) + shift
        population = _centred_interval(value, draws, n, wider)
    else:
        population = _smooth_population(grid, event)
    return LensError.of(name, value, population, null, n=n, definition=words)


def _smooth_population(grid: FineGrid, event: DependentEvent | None) -> Population:
    """The SmoothECE of the population, as in `smooth_calibration_error`."""
    coarse = grid.coarse(SMOOTH_CELLS)
    if event is not None:
        return smooth_population([coarse], [event], smooth_cells_error, FEWER_RESAMPLES, 0)
    cell = np.flatnonzero(coarse.kept)
    part = ErrorPart(coarse.cells(cell), 1.0, NullModel.of(coarse, cell).noise(FEWER_RESAMPLES, 0))
    return population_error([part], ABSOLUTE, error=smooth_cells_error)


def _centred_interval(value: float, draws: np.ndarray, n: int, widening: float) -> Population:
    """The percentile interval of resampled errors, centred at the value; `widening` is the factor
    for dependent rows."""
    finite = draws[np.isfinite(draws)]
    # every resample of a single row is the same
    if n < 2 or not len(finite) or not math.isfinite(widening):
        return Population()
    low, high = percentile(widening * (finite - finite.mean()) + value)
    return Population(math.nan, max(0.0, min(low, value)), max(high, value))


def _smooth(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return smooth_error(
        (targets - outputs) / weight.sum(axis=-1, keepdims=True), precision=PRECISION
    )[0]


def _smooth_width(grid: FineGrid) -> float:
    return float(smooth_error((grid.targets - grid.outputs) / grid.weight.sum())[1])


def _kernel(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return kernel_error(weight, outputs, targets, bandwidth=KERNEL_WIDTH)
