"""Calibration errors under many lenses, each beside the value expected if calibrated.

They come from the grids of a pass, so their cost does not grow with the rows. Only errors of the
whole simplex and of groups use the sample of the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..calibration.cells import ONE_ROW, CellError, Cells, debiased_gap, mean_gap
from ..calibration.dependent_event import INDEPENDENT, DependentEvent, SharedNoise
from ..calibration.errors import calibration_error
from ..calibration.fine_grid import FineGrid, grid_sums
from ..calibration.intervals import dependence
from ..calibration.kernel_regression import kernel_definition, kernel_error
from ..calibration.null import (
    BinomialNull,
    SignedClusters,
    classwise_null,
    least_favourable,
)
from ..calibration.population import ErrorPart, Population, population_error
from ..calibration.resampling import FEWER_RESAMPLES, RESAMPLES, percentile
from ..calibration.significance import (
    CalibrationTest,
    at_least,
    calibration_test,
    exceedance,
    holm,
    p_value,
)
from ..calibration.smooth import (
    SMOOTH_CELLS,
    smooth_cells_error,
    smooth_error,
    smooth_population,
)
from ..calibration.terms import Term
from ..calibration.views import event_rows
from ..choices.definitions import Definition
from ..choices.distances import L1, TVD, Distance, Squared
from ..choices.lenses import Classwise, Full, Lens, OneVsRest, TopK, TopLabel, View
from ..choices.partitions import EqualMass, EqualWidth, KDTree, Partition
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..estimate import Estimate
from ..states.evidence import Evidence
from ..states.sampling import drawn
from .dependence import class_event, clustered_rows, dependent_event, top_event

BINS = 15
WIDTH, MASS, ABSOLUTE = EqualWidth(BINS), EqualMass(BINS), L1()
CLASS_CELLS = 105  # cells of a class's grid: seven in each bin
KERNEL_WIDTH = 0.05
# largest bandwidth of SmoothECE for resamples: that of a calibrated model is smaller
SMOOTH_WIDTH = 0.01
PRECISION = 1e-7  # of SmoothECE: closer values tie
# grid of resamples: it moves a kernel error by less than 0.001
CELLS_PER_WIDTH, MOST_CELLS = 5, 4_200
# expected labels other than the top class, times classes, up to which all classes are simulated
SURPRISES = 10_000
OUTPUTS = 5_000_000  # rows times classes, likewise
FULL_CLASSES = 20
FULL_ROWS = 20_000
# sample that estimates the correlation of the errors of classes
DEPENDENCE_ROWS, DEPENDENCE_VALUES = 20_000, 2_000_000
LEVEL = 0.01  # family-wise error rate of errors that are tested together
DRAWN_TOGETHER = 2_000
LEAST_DRAWS = 5_000  # of rows in clusters, whose tails have no closed form
FRESH_SEED = 1_000_000  # beyond the seeds of classes
ENOUGH_EXCEED = 10  # draws as large as the error, after which the simulation stops
FEWEST_EVENTS = 5  # hits, and misses, that a decision requires
TITLES = {
    "ece": "{event}, 15 equal bins (ECE)",
    "ace": "{event}, 15 bins of equal mass (ACE)",
    "smooth_ece": "{event}, no bins (SmoothECE)",
    "kernel_calibration_error": "{event}, kernel regression, squared",
    "rms_error": "{event}, root mean square, debiased",
    "classwise_ece": "each class, on average (classwise ECE)",
    "full_ece": "all classes together (k-d tree, TVD)",
}


@dataclass(frozen=True)
class LensError:
    """A calibration error, with a 95% interval for the error of the population, and its test
    against a calibrated model.

    name : the key in the report.
    event : the event that is judged, if it is a single one.
    adjusted : the p-value after Holm's correction, if several errors are tested together.
    """

    name: str
    estimate: Estimate
    test: CalibrationTest
    event: str = "top label"
    adjusted: float = math.nan

    @classmethod
    def of(
        cls,
        name: str,
        value: float,
        found: Population,
        null: np.ndarray,
        *,
        n: int,
        definition: str,
        **more: Any,
    ) -> LensError:
        """From the error of the population, and errors of a calibrated model."""
        ends: dict[str, Any] = {"low": found.low, "high": found.high, "debiased": found.debiased}
        estimate = Estimate(value, **ends, n=n, definition=definition, **more)
        return cls(name, estimate, CalibrationTest.of(value, null, n, definition))

    @property
    def null_mean(self) -> float:
        return self.test.null_mean

    @property
    def null_high(self) -> float:
        return self.test.null_high

    @property
    def p_value(self) -> float:
        return self.test.p_value

    def with_p_value(self, p_value: float) -> LensError:
        """The same with a p-value that is known more exactly than from the draws."""
        return replace(self, test=replace(self.test, p_value=p_value))

    @property
    def excess(self) -> float:
        """The error less its mean if calibrated."""
        return self.test.excess

    @property
    def miscalibrated(self) -> bool:
        """Whether the error is larger than that of a calibrated model, at a family-wise error rate
        of 1%. Tables, diagrams and findings all report this decision."""
        return (
            self.excess > 0
            and (self.p_value if math.isnan(self.adjusted) else self.adjusted) <= LEVEL
        )

    @property
    def title(self) -> str:
        """What the error is called in a table."""
        kind, _, which = self.name.partition(".")
        if kind == "topk_ece":
            return f"true class among the {which} most probable"
        if kind == "class_ece":
            return f"class {which}"
        return TITLES.get(self.name, self.name).format(event=self.event)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        null = {
            "null_mean": self.null_mean,
            "null_high": self.null_high,
            "p_value": self.p_value,
            "excess": self.excess,
        }
        if not math.isnan(self.adjusted):
            null |= {"adjusted_p_value": self.adjusted, "miscalibrated": self.miscalibrated}
        return {"name": self.name, "title": self.title} | self.estimate.to_dict() | null


MEAN_GAP: CellError = partial(mean_gap, distance=ABSOLUTE)


def definition_of(
    what: Any, partition: Partition = WIDTH, distance: Distance = ABSOLUTE
) -> Definition:
    """The definition of an error, as in `calibration_error`."""
    return Definition("calibration error", what, partition, distance)


def top_label_errors(evidence: Evidence) -> list[LensError]:
    """Errors of the most probable class, or of the reported confidence: binned, debiased, and
    without bins."""
    grid, event = FineGrid.of_event(evidence.top), top_event(evidence)
    shown = event_rows(evidence.sample, TopLabel())
    grid_words = f", from a grid of {len(grid.rows):,} cells" if evidence.sampled else ""

    def effects_of(partition: Partition, cells: Cells) -> np.ndarray:
        if event is None:
            return np.ones(len(cells.rows))
        return event.effects(
            cells,
            event.cells(grid, _cells_of(grid, partition))
            if evidence.sampled
            else shown.cells(partition),
        )

    def judged(name: str, partition: Partition, words: str, *, root: bool = False) -> LensError:
        cells, binomial = _grid_cells(grid, partition)
        if not evidence.sampled:  # the rows themselves, as `calibration_error` has them
            cells, binomial = (
                shown.gather(partition),
                BinomialNull.of_view(shown.view, shown.cells(partition), shown.weights),
            )
        known = _of_clusters(evidence, TopLabel(), partition, squared=root)
        cell = _cells_of(grid, partition)
        chance = NullModel.of(grid, cell, event, binomial)
        effects = effects_of(partition, cells) if root else None
        return _error_of_cells(
            name, cells, chance, words, RESAMPLES, root=root, effects=effects, known=known
        )

    found = [
        judged("ece", WIDTH, definition_of(TopLabel())),
        judged("ace", MASS, definition_of(TopLabel(), MASS) + grid_words),
    ]
    width = min(_smooth_width(grid), SMOOTH_WIDTH)
    words = Definition("SmoothECE", TopLabel(), "reflected Gaussian of width its fixed point")
    found.append(_smoothed_error("smooth_ece", grid, _smooth, width, words, event))
    words = kernel_definition(TopLabel(), "brier", "gaussian", KERNEL_WIDTH)
    found.append(
        _smoothed_error(
            "kernel_calibration_error", grid, _kernel, KERNEL_WIDTH, words, event, squared=True
        )
    )
    cells = _grid_cells(grid, MASS)[0] if evidence.sampled else shown.gather(MASS)
    if (cells.effective / effects_of(MASS, cells) > ONE_ROW).any():
        words = "root of " + definition_of(TopLabel(), MASS, Squared()) + f", debiased{grid_words}"
        found.append(judged("rms_error", MASS, words, root=True))
    return [replace(error, event=event_words(evidence)) for error in found]


def _of_clusters(
    evidence: Evidence, lens: Lens, partition: Partition, *, squared: bool = False
) -> Population | None:
    """The error of the population by resampled clusters, as `calibration_error` finds it: if rows
    have clusters and all are at hand."""
    if evidence.sampled or evidence.sample.clusters is None:
        return None
    distance = Squared() if squared else ABSOLUTE
    if (
        len(
            np.unique(
                np.asarray(evidence.sample.cluster_numbers)[GoodRows.of(evidence.sample).places]
            )
        )
        < 2
    ):
        return Population()
    return _population(evidence.sample, lens=lens, partition=partition, distance=distance)


def _population(rows: Predictions, **choices: Any) -> Population:
    """The error of the population as `calibration_error` finds it."""
    found = calibration_error(rows, interval=True, **choices)
    return Population(found.debiased, found.low, found.high)


def _cells_of(grid: FineGrid, partition: Partition) -> np.ndarray:
    return partition.grid_cells(grid.place, grid.rows[grid.kept])


def _grid_cells(grid: FineGrid, partition: Partition) -> tuple[Cells, BinomialNull]:
    cell = _cells_of(grid, partition)
    return grid.cells(cell), BinomialNull.of_grid(grid, cell)


def event_words(evidence: Evidence) -> str:
    """The event of the usual calibration error, in words."""
    return "stated confidence" if evidence.sample.pairs else "top label"


def rank_errors(evidence: Evidence) -> list[LensError]:
    """Of the event that the true class is among the k most probable (Kirchenbauer et al. 2022, Eq.
    4, as one event)."""
    what, found = "true class among the {} most probable against their summed probability", []
    for k, sums in evidence.ranks.items():
        event = dependent_event(evidence, partial(_within_top_k, k, evidence.sample))
        found.append(
            binned_error(
                f"topk_ece.{k}",
                FineGrid.of_event(sums),
                WIDTH,
                definition_of(what.format(k)),
                event=event,
            )
        )
    return found


def _within_top_k(k: int, predictions: Predictions) -> View:
    """The event that the true class is among the k most probable."""
    rows = GoodRows.of(predictions)
    largest, place = TopK(k).view(rows.probs, rows.labels)
    return View(np.minimum(1.0, largest[:, :k].sum(axis=1)), (place < k).astype(np.int64))


def class_errors(evidence: Evidence) -> tuple[LensError | None, tuple[LensError, ...]]:
    """The mean over classes of each class's error (classwise ECE), and the error of each class.

    The error of each class is simulated apart from the others. For the interval of the mean,
    resampled rows show the correlation of the errors of classes (`dependence`). Its null is in
    `_classwise_null`.
    """
    if not evidence.classes:
        return None, ()
    classes, found, nulls, parts = evidence.summary.plan.classes, [], [], []
    for k, sums in enumerate(evidence.classes):
        grid = FineGrid.of_event(sums).coarse(CLASS_CELLS)
        cell = _cells_of(grid, WIDTH)
        nulls.append(NullModel.of(grid, cell, class_event(evidence, k)))
        parts.append(ErrorPart(grid.cells(cell), 1.0, nulls[k].noise(FEWER_RESAMPLES, k)))
        alone = _of_clusters(evidence, OneVsRest(k), WIDTH)
        if alone is None:
            widened = nulls[k].around.widened
            alone = population_error([parts[k]], ABSOLUTE, widened=widened, seed=k)
        found.append(
            LensError.of(
                f"class_ece.{classes[k]}",
                float(MEAN_GAP(parts[k].cells)),
                alone,
                nulls[k].errors(FEWER_RESAMPLES, k),
                n=int(grid.rows.sum()),
                definition=definition_of(f"class {classes[k]} against all others"),
            )
        )
    values = [float(one.estimate) for one in found]
    whole = _of_clusters(evidence, Classwise(), WIDTH)
    if whole is None:
        parts = [replace(part, share=1 / len(classes)) for part in parts]
        widened = _class_dependence(evidence) * nulls[0].around.widened
        whole = population_error(parts, ABSOLUTE, widened=widened)
    mean, (null, p) = math.fsum(values) / len(values), _classwise_null(evidence, nulls)
    average = LensError.of(
        "classwise_ece",
        mean,
        whole,
        null,
        n=found[0].estimate.n,
        definition=definition_of(Classwise()) + f", mean of {len(classes)} classes",
        per_class=dict(zip(classes, values, strict=True)),
    )
    average = average if p is None else average.with_p_value(p)
    return average, holm_adjusted(found, nulls)


def _classwise_null(
    evidence: Evidence, nulls: Sequence[NullModel]
) -> tuple[np.ndarray, float | None]:
    """Classwise errors of calibrated models; and the p-value of the rows' own error, if it comes
    from the same simulation.

    A hit of one class is a miss of another, so a label is simulated for each row
    (`classwise_null`). Where that would take long, the draws of single classes serve. The
    dependence of classes can at most double the variance of the mean: the squared correlations p_k
    p_l / ((1 - p_k) (1 - p_l)) of one class with all others sum to at most 1, as 1 - p_l >= p_k. So
    deviations of the mean are widened by the root of 2. This is exact for two classes, which mirror
    each other.
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
    # many draws may have the smallest error possible, that of the top class in every row
    mean = np.maximum(_widened_by_root_two(mean), mean.min())
    if signed := [null.signed for null in nulls if null.signed is not None]:
        # the same signs for all classes
        together = np.mean([MEAN_GAP(s.calibrated(FEWER_RESAMPLES)) for s in signed], axis=0)
        mean = least_favourable(mean, together)
    return mean, None


def _class_dependence(evidence: Evidence) -> float:
    """How much more the mean error of all classes varies than if they were independent."""
    rows = evidence.sample
    most = min(DEPENDENCE_ROWS, DEPENDENCE_VALUES // rows.n_classes)
    rows = rows.take(drawn(len(rows), most)) if len(rows) > most else rows
    return dependence([Term.of_classes(rows, WIDTH)], ABSOLUTE, seed=0)


def _can_simulate_labels(evidence: Evidence) -> bool:
    """Whether all rows are in memory, with so few uncertain ones that labels of all classes can be
    simulated together."""
    classes, top = evidence.summary.plan.n_classes, evidence.top
    surprises = float(top.rows.sum() * (1 - top.outputs.sum() / top.weight.sum()))
    few = surprises * classes <= SURPRISES and len(evidence.sample) * classes <= OUTPUTS
    return few and not evidence.sampled


def full_error(evidence: Evidence) -> LensError | None:
    """Of all classes together, over boxes of the simplex (Kirchenbauer et al. 2022, Appendix B.2,
    whose Figure 7 settles on gamma = 2^-4)."""
    if (
        evidence.summary.plan.kind == "pairs"
        or not 2 < evidence.summary.plan.n_classes <= FULL_CLASSES
    ):
        return None
    clustered = clustered_rows(evidence)
    # one cluster shows no variance
    if clustered is not None and clustered.clusters.count < 2:
        return None
    rows, tree, distance = evidence.sample, KDTree(2**-4), TVD()
    few = len(rows) > FULL_ROWS
    rows = rows.take(drawn(len(rows), FULL_ROWS)) if few else rows
    options: dict[str, Any] = {
        "lens": Full(),
        "partition": tree,
        "distance": distance,
        "resamples": FEWER_RESAMPLES,
    }
    test, found = calibration_test(rows, **options), _population(rows, **options)
    words = definition_of(Full(), tree, distance)
    words += f", on a sample of {len(rows):,} rows" if few else evidence.sample_words
    ends: dict[str, Any] = {"low": found.low, "high": found.high, "debiased": found.debiased}
    estimate = Estimate(test.value, **ends, n=test.n, definition=words)
    return LensError("full_ece", estimate, replace(test, definition=words))


@dataclass(frozen=True)
class NullModel:
    """A calibrated model with the same outputs, from which errors are drawn.

    binomial : the draws of independent rows.
    enough_events : whether there are enough hits and misses, observed or expected, for a decision.
        An event that never happened is reported elsewhere.
    around : of rows in clusters, how samples vary around the gaps of the population.
    shared : of a sample of rows in clusters, what clusters add to the noise of a calibrated model.
    signed : of all rows in clusters, the draws by random signs of clusters.
    """

    binomial: BinomialNull
    enough_events: bool
    around: SharedNoise = INDEPENDENT
    shared: np.ndarray | None = None
    signed: SignedClusters | None = None

    @classmethod
    def of(
        cls,
        grid: FineGrid,
        cell: np.ndarray,
        event: DependentEvent | None = None,
        binomial: BinomialNull | None = None,
    ) -> NullModel:
        """`cell` is the bin of each of the grid's kept cells. `binomial` : the draws of the rows
        themselves, where they are in memory."""
        n, hits = float(grid.rows.sum()), float(grid.hit_rows.sum())
        stated = n * float(grid.outputs.sum() / grid.weight.sum())
        enough = max(hits, stated) >= FEWEST_EVENTS and n - min(hits, stated) >= FEWEST_EVENTS
        found = cls(
            BinomialNull.of_grid(grid, cell) if binomial is None else binomial, hits > 0 and enough
        )
        if event is None:
            return found
        around, shared, signed = (
            event.noise(grid, cell),
            event.shared(grid, cell),
            event.signed(grid, cell),
        )
        return replace(found, around=around, shared=shared, signed=signed)

    @classmethod
    def of_coarse_grid(cls, grid: FineGrid, event: DependentEvent | None = None) -> NullModel:
        """Of equal bins, on as rough a grid as `binned` takes for a few resamples."""
        grid = grid.coarse(CLASS_CELLS)
        return cls.of(grid, WIDTH.grid_cells(grid.place, grid.rows[grid.kept]), event)

    def errors(self, resamples: int, seed: int, error: CellError = MEAN_GAP) -> np.ndarray:
        """Errors of calibrated models. For rows in clusters, each quantile is the larger of those
        by independent rows and by signed clusters."""
        alone = error(self.binomial.calibrated(resamples, seed, self.shared))
        return (
            alone
            if self.signed is None
            else least_favourable(alone, error(self.signed.calibrated(resamples, seed)))
        )

    def noise(self, resamples: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        """Deviations of the gaps of samples from those of a population, given these."""
        return lambda gaps: self.binomial.noise(gaps, resamples, seed, self.around.observed)


def holm_adjusted(errors: Sequence[LensError], nulls: Sequence[NullModel]) -> tuple[LensError, ...]:
    """The same errors, tested together (Holm 1979).

    Errors beyond the 95% limit get an exact tail probability as p-value, since 199 resamples cannot
    separate small ones. The tails of rows in clusters have no closed form: they are simulated until
    ten draws are as large as the error (Besag & Clifford 1991)."""
    found = list(errors)
    some = [
        k
        for k, chance in enumerate(nulls)
        if chance.enough_events and errors[k].estimate > errors[k].null_high
    ]
    if any(nulls[k].around is not INDEPENDENT for k in some):
        tails = np.array([_simulated_tail(errors[k], nulls[k], k, len(errors)) for k in some])
    else:
        tails = exceedance(
            [nulls[k].binomial for k in some], [float(errors[k].estimate) for k in some]
        )
    for k, tail in zip(some, tails.tolist(), strict=True):
        found[k] = errors[k].with_p_value(tail)
    decides = np.array(
        [
            error.p_value if chance.enough_events else 1.0
            for error, chance in zip(found, nulls, strict=True)
        ]
    )
    return tuple(
        replace(error, adjusted=p) for error, p in zip(found, holm(decides).tolist(), strict=True)
    )


def _simulated_tail(error: LensError, chance: NullModel, seed: int, among: int) -> float:
    most, drawn_so_far, exceed = max(LEAST_DRAWS, math.ceil(among / LEVEL)), 0, 0
    while drawn_so_far < most and exceed < ENOUGH_EXCEED:
        null = chance.errors(
            min(DRAWN_TOGETHER, most - drawn_so_far), FRESH_SEED * (seed + 1) + drawn_so_far
        )
        drawn_so_far, exceed = (
            drawn_so_far + len(null),
            exceed + at_least(null, float(error.estimate)),
        )
    return (1 + exceed) / (1 + drawn_so_far)


def binned_error(
    name: str,
    grid: FineGrid,
    partition: Partition,
    words: str,
    *,
    resamples: int = RESAMPLES,
    event: DependentEvent | None = None,
) -> LensError:
    """The error of a grid over the cells of a partition. `event` : the rows, or a sample of them,
    if they are in clusters."""
    grid = grid if resamples == RESAMPLES else grid.coarse(CLASS_CELLS)
    cell = _cells_of(grid, partition)
    return _error_of_cells(
        name, grid.cells(cell), NullModel.of(grid, cell, event), words, resamples
    )


def _error_of_cells(
    name: str,
    cells: Cells,
    chance: NullModel,
    words: str,
    resamples: int,
    *,
    root: bool = False,
    effects: np.ndarray | None = None,
    known: Population | None = None,
) -> LensError:
    """The mean error over cells; with `root`, the root of the debiased mean square, given the
    design effect of each cell of
    dependent rows. `known` : the error of the population."""
    error, distance = (
        (partial(_root_mean_square, cells.number, effects), Squared())
        if root
        else (MEAN_GAP, ABSOLUTE)
    )
    null = chance.errors(resamples, 0, error)
    if known is None:
        part = ErrorPart(cells, 1.0, chance.noise(resamples, 0))
        known = population_error([part], distance, widened=chance.around.widened)
    found = known.root() if root else known
    return LensError.of(
        name, float(error(cells)), found, null, n=int(cells.rows.sum()), definition=words
    )


def _smoothed_error(
    name: str,
    grid: FineGrid,
    error: Callable[..., np.ndarray],
    width: float,
    words: str,
    event: DependentEvent | None = None,
    *,
    squared: bool = False,
) -> LensError:
    """The error smoothed by a kernel. Rows are resampled on a grid whose cells are much narrower
    than the kernel. Intervals of dependent rows are widened as those of 15 equal bins are."""
    value = float(error(grid.weight, grid.outputs, grid.targets))
    coarse = grid.coarse(int(min(len(grid.rows), MOST_CELLS, CELLS_PER_WIDTH / max(width, 1e-9))))
    cell = np.flatnonzero(coarse.kept)

    def of_cells(cells: Cells) -> np.ndarray:
        return error(*grid_sums(cells, len(coarse.rows)))

    shift = value - float(of_cells(coarse.cells(cell)))  # of the coarser grid; it is small
    null = NullModel.of(coarse, cell, event).errors(FEWER_RESAMPLES, 0, of_cells) + shift
    null[np.abs(null - value) <= 2 * PRECISION] = value
    n = int(grid.rows.sum())
    if not squared:
        found = _smooth_population(grid, event)
        return LensError.of(name, value, found, null, n=n, definition=words)
    wider = 1.0 if event is None else event.widening(grid, _cells_of(grid, WIDTH), squared=squared)
    categories = coarse.categories(cell)
    draws = categories.errors(categories.draw(FEWER_RESAMPLES, 0), of_cells) + shift
    found = _centred_interval(value, draws, n, wider)
    return LensError.of(name, value, found, null, n=n, definition=words)


def _smooth_population(grid: FineGrid, event: DependentEvent | None) -> Population:
    """As `smooth_calibration_error` finds it."""
    coarse = grid.coarse(SMOOTH_CELLS)
    if event is not None:
        return smooth_population([coarse], [event], smooth_cells_error, FEWER_RESAMPLES, 0)
    cell = np.flatnonzero(coarse.kept)
    part = ErrorPart(coarse.cells(cell), 1.0, NullModel.of(coarse, cell).noise(FEWER_RESAMPLES, 0))
    return population_error([part], ABSOLUTE, error=smooth_cells_error)


def _centred_interval(value: float, draws: np.ndarray, n: int, widening: float) -> Population:
    """The percentile interval of resampled errors, centred at the value. `widening` : of dependent
    rows."""
    finite = draws[np.isfinite(draws)]
    # a single row, resampled, is always the same
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


def _root_mean_square(number: np.ndarray, effects: np.ndarray | None, cells: Cells) -> np.ndarray:
    """Kumar et al. 2019; below 0 the mean square counts as 0. `effects` : of the cells of these
    numbers."""
    if effects is not None:
        by_number = np.ones(max(number.max(), cells.number.max()) + 1)
        by_number[number] = effects
        cells = replace(cells, effective=cells.effective / by_number[cells.number])
    return np.sqrt(np.maximum(0.0, debiased_gap(cells, Squared())))


def _widened_by_root_two(draws: np.ndarray) -> np.ndarray:
    return draws.mean() + math.sqrt(2) * (draws - draws.mean())
