"""Calibration errors under many lenses, each beside what a calibrated model would get.

They come from the grids of a pass, so that their cost does not grow with the rows; only what looks at the whole simplex, or at
groups of rows, uses the sample of the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..calibration import calibration_test
from ..distances import L1, TVD, Distance, Squared
from ..estimates.calibration_error import ONE_ROW, debiased_gap, mean_gap
from ..estimates.cells import Categories, Cells, gather_categories
from ..estimates.clusters import ClusteredRows
from ..estimates.dependent_event import DependentEvent
from ..estimates.estimate import Estimate
from ..estimates.families import holm
from ..estimates.fine_grid import FineGrid
from ..estimates.gap_tails import exceedance
from ..estimates.intervals import percentile
from ..estimates.kernel import kernel_error
from ..estimates.null import Steps, p_value
from ..estimates.smooth import smooth_error
from ..estimates.surprises import classwise_chance
from ..lenses import Classwise, Full, OneVsRest, TopK, TopLabel, View
from ..partitions import EqualMass, EqualWidth, KDTree, Partition
from ..predictions import Predictions
from ..statistics.evidence import Evidence
from ..statistics.sampling import drawn
from ..viewing import Rows, look
from .dependence import clustered_rows, dependent_event

BINS = 15
WIDTH, MASS, ABSOLUTE = EqualWidth(BINS), EqualMass(BINS), L1()
RESAMPLES = 999
FEWER_RESAMPLES = 199  # where there are many errors, or many cells
CLASS_CELLS = 105  # cells of a class's grid: seven in each bin
KERNEL_WIDTH = 0.05
SMOOTH_WIDTH = 0.01  # of SmoothECE when rows are drawn again, at most: the width of a calibrated model is smaller
PRECISION = 1e-7  # to which SmoothECE is found: what is nearer ties
CELLS_PER_WIDTH = 5  # of a kernel, when rows are drawn again
SURPRISES = 10_000  # expected, times classes, up to which classes are drawn together
OUTPUTS = 5_000_000  # likewise, of rows times classes
FULL_CLASSES = 20
FULL_ROWS = 20_000
LEVEL = 0.01  # the probability of one false alarm among all errors that are judged together
FEWEST_EVENTS = 5  # hits, and misses, without which nothing is said
TITLES = {
    "ece": "{event}, 15 equal bins (ECE)",
    "ece.equal_mass": "{event}, 15 bins of equal mass (ACE)",
    "smooth_ece": "{event}, no bins (SmoothECE)",
    "kernel_error": "{event}, kernel regression, squared",
    "rms_error": "{event}, root mean square, debiased",
    "classwise_ece": "each class, on average (classwise ECE)",
    "full_ece": "all classes together (k-d tree, TVD)",
}


@dataclass(frozen=True)
class LensError:
    """A calibration error with its interval and definition; its mean and 95% point if the model were calibrated (labels drawn
    anew from the forecasts), and how probable so large an error then is. `event` is what it looks at, if that is one event;
    `adjusted` the p-value corrected for the number of errors that are judged together, if there are several."""

    name: str
    estimate: Estimate
    null_mean: float
    null_high: float
    p_value: float
    event: str = "top label"
    adjusted: float = math.nan

    @classmethod
    def of(
        cls,
        name: str,
        value: float,
        draws: np.ndarray,
        null: np.ndarray,
        n: int,
        definition: str,
        *,
        widening: float = 1.0,
        **more: Any,
    ) -> LensError:
        """From errors of resampled rows, which are moved to lie around the value, and from those of a calibrated model.
        `widening` is of the interval of dependent rows."""
        finite = draws[np.isfinite(draws)]
        low, high = math.nan, math.nan
        if n > 1 and len(finite) and math.isfinite(widening):  # a single row, resampled, is always the same
            low, high = percentile(widening * (finite - finite.mean()) + value)
            low, high = max(0.0, min(low, value)), max(high, value)
        found = Estimate(value, low=low, high=high, n=n, definition=definition, **more)
        return cls(name, found, float(null.mean()), float(np.quantile(null, 0.95)), p_value(value, null))

    @property
    def excess(self) -> float:
        """The error without what chance alone gives, on average."""
        return float(self.estimate) - self.null_mean

    @property
    def miscalibrated(self) -> bool:
        """Whether the error is larger than a calibrated model's, at a family-wise error rate of 1%: the one decision that
        tables, diagrams and findings report."""
        return self.excess > 0 and (self.p_value if math.isnan(self.adjusted) else self.adjusted) <= LEVEL

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
        null = {"null_mean": self.null_mean, "null_high": self.null_high, "p_value": self.p_value, "excess": self.excess}
        if not math.isnan(self.adjusted):
            null |= {"adjusted_p_value": self.adjusted, "miscalibrated": self.miscalibrated}
        return {"name": self.name, "title": self.title} | self.estimate.to_dict() | null


CellError = Callable[[Cells], np.ndarray]


def described(what: Any, partition: Partition = WIDTH, distance: Distance = ABSOLUTE) -> str:
    """As `calibration_error` says it."""
    return f"calibration error, {what}, {partition!r}, {distance!r}"


def top_label_errors(evidence: Evidence) -> list[LensError]:
    """Of the most probable class, or of the stated confidence: binned, debiased, and without bins."""
    grid, rows = FineGrid.of_event(evidence.top), clustered_rows(evidence)
    event = None if rows is None else dependent_event(rows, look(evidence.sample, TopLabel())[0].view)
    found = [
        binned("ece", grid, WIDTH, described(TopLabel()), event=event),
        binned("ece.equal_mass", grid, MASS, described(TopLabel(), MASS), event=event),
    ]
    width = min(_smooth_width(grid), SMOOTH_WIDTH)
    words = "SmoothECE, TopLabel(), reflected Gaussian of width its fixed point"
    found.append(_unbinned("smooth_ece", grid, _smooth, width, words, event))
    words = f"kernel calibration error, TopLabel(), brier, gaussian of width {KERNEL_WIDTH:g}"
    found.append(_unbinned("kernel_error", grid, _kernel, KERNEL_WIDTH, words, event, squared=True))
    cell = MASS.grid_cells(grid.place, grid.rows[grid.kept])
    if (grid.cells(cell).effective > ONE_ROW).any():
        words = f"root of {described(TopLabel(), MASS, Squared())}, debiased"
        found.append(binned("rms_error", grid, MASS, words, error=_root_mean_square, event=event, squared=True))
    return [replace(error, event=event_of(evidence)) for error in found]


def event_of(evidence: Evidence) -> str:
    """What the usual calibration error looks at."""
    return "stated confidence" if evidence.sample.pairs else "top label"


def rank_errors(evidence: Evidence) -> list[LensError]:
    """Of the event that the true class is among the k most probable (paper 3, Eq. 4, as one event)."""
    what, found = "true class among the {} most probable against their summed probability", []
    clustered = clustered_rows(evidence)
    rows = None if clustered is None else Rows.of(evidence.sample)
    for k, sums in evidence.ranks.items():
        event = None if rows is None else dependent_event(clustered, _among(k, rows))
        found.append(binned(f"topk_ece.{k}", FineGrid.of_event(sums), WIDTH, described(what.format(k)), event=event))
    return found


def _among(k: int, rows: Rows) -> View:
    """The event that the true class is among the k most probable."""
    largest, place = TopK(k).view(rows.probs, rows.labels)
    return View(np.minimum(1.0, largest[:, :k].sum(axis=1)), (place < k).astype(np.int64))


def class_errors(evidence: Evidence) -> tuple[LensError | None, tuple[LensError, ...]]:
    """The mean over classes of each class's error (classwise ECE), and each by itself.

    By itself, each class is drawn apart from the others. For the mean, a label is drawn for each row (`classwise_chance`), as a
    hit of one class is a miss of another; where that would take long, the classes' draws serve. That the rows' classes hang
    together can at most double the variance of the mean: the squared correlations p_k p_l / ((1 - p_k) (1 - p_l)) of one class
    with all others sum to at most 1, as 1 - p_l >= p_k. So deviations of the mean are widened by the root of 2, which is exact
    for two classes, as they mirror each other.
    """
    if not evidence.classes:
        return None, ()
    classes, found, chances = evidence.summary.plan.classes, [], []
    draws, null = np.empty((2, FEWER_RESAMPLES, len(classes)))
    error, clustered = partial(mean_gap, distance=ABSOLUTE), clustered_rows(evidence)
    rows = None if clustered is None else Rows.of(evidence.sample)
    moved: Any = 0.0
    for k, sums in enumerate(evidence.classes):
        grid = FineGrid.of_event(sums).coarse(CLASS_CELLS)
        cell = WIDTH.grid_cells(grid.place, grid.rows[grid.kept])
        draws[:, k] = redrawn(grid.categories(cell), error, FEWER_RESAMPLES, k)
        event = None if rows is None else dependent_event(clustered, OneVsRest(k).view(rows.probs, rows.labels))
        moved = 0.0 if event is None else moved + event.influence(grid, cell)
        chances.append(Chance.of(grid, cell, event))
        null[:, k] = chances[k].errors(FEWER_RESAMPLES, k)
        words = described(f"class {classes[k]} against all others")
        value, n = float(error(grid.cells(cell))), int(grid.rows.sum())
        wider = 1.0 if event is None else event.widening(grid, cell)
        found.append(LensError.of(f"class_ece.{classes[k]}", value, draws[:, k], null[:, k], n, words, widening=wider))
    values = [float(one.estimate) for one in found]
    words = f"{described(Classwise())}, mean of {len(classes)} classes"
    mean, by_class = math.fsum(values) / len(values), dict(zip(classes, values, strict=True))
    again, chance, n = _widened(draws.mean(axis=1)), null.mean(axis=1), found[0].estimate.n
    chance = np.maximum(_widened(chance), chance.min())  # most draws may have the least error possible, that of no surprise
    if joint := clustered is None and _drawn_together(evidence):
        rows = Rows.of(evidence.sample)
        together = classwise_chance(rows.probs, rows.labels, rows.weights, WIDTH, FEWER_RESAMPLES)
        chance = together.errors
    wider = 1.0 if clustered is None else clustered.clusters.widening(moved)
    whole = LensError.of("classwise_ece", mean, again, chance, n, words, widening=wider, per_class=by_class)
    return replace(whole, p_value=together.p_value) if joint else whole, sharpened(found, chances)


def _drawn_together(evidence: Evidence) -> bool:
    """Whether all rows are at hand, and so few of them not certain that a label can be drawn for each, again and again."""
    classes, top = evidence.summary.plan.n_classes, evidence.top
    surprises = float(top.rows.sum() * (1 - top.outputs.sum() / top.weight.sum()))
    few = surprises * classes <= SURPRISES and len(evidence.sample) * classes <= OUTPUTS
    return few and not evidence.sampled


def full_error(evidence: Evidence) -> LensError | None:
    """Of all classes together, over boxes of the simplex (paper 3, Appendix B.2, whose Figure 7 settles on gamma = 2^-4)."""
    if evidence.summary.plan.kind == "pairs" or not 2 < evidence.summary.plan.n_classes <= FULL_CLASSES:
        return None
    rows, tree, distance = evidence.sample, KDTree(2**-4), TVD()
    few = len(rows) > FULL_ROWS
    rows = rows.take(drawn(len(rows), FULL_ROWS)) if few else rows
    test = calibration_test(rows, lens=Full(), partition=tree, distance=distance, resamples=FEWER_RESAMPLES)
    good = Rows.of(rows)
    categories = gather_categories(View(good.probs, good.labels), tree.cells(good.probs), good.weights)
    draws = redrawn(categories, partial(mean_gap, distance=distance), FEWER_RESAMPLES)
    words = described(Full(), tree, distance)
    words += f", on a sample of {len(rows):,} rows" if few else evidence.sample_words
    wider = 1.0 if rows.clusters is None else _full_widening(rows, good, tree)
    found = LensError.of("full_ece", test.value, draws, np.array([test.null_mean]), test.n, words, widening=wider)
    return LensError("full_ece", found.estimate, test.null_mean, test.null_high, test.p_value)


def _full_widening(rows: Predictions, good: Rows, tree: Partition) -> float:
    """As `DependentEvent.widening`, for the total variation distance of all classes: the rows are all that it is of."""
    residuals, cell = np.eye(good.probs.shape[1])[good.labels] - good.probs, tree.cells(good.probs)
    clusters = ClusteredRows(rows, good.places).clusters
    gap = np.zeros((int(cell.max()) + 1, residuals.shape[1]))
    np.add.at(gap, cell, clusters.share[:, None] * residuals)
    moved = (np.sign(gap)[cell] * residuals).sum(axis=1) / 2
    return clusters.widening(moved - clusters.share @ moved)


@dataclass(frozen=True)
class Chance:
    """What is needed to draw the error of a calibrated model once more; `telling` if there are hits and misses enough, seen or
    expected, to say anything, and any hit at all: of an event that never happened it is said elsewhere that it is absent.
    `shared` is the noise of clusters."""

    steps: Steps
    telling: bool
    shared: np.ndarray | None = None

    @classmethod
    def of(cls, grid: FineGrid, cell: np.ndarray, event: DependentEvent | None = None) -> Chance:
        """Of the bins that a grid's kept cells lie in."""
        n, hits = float(grid.rows.sum()), float(grid.hit_rows.sum())
        stated = n * float(grid.outputs.sum() / grid.weight.sum())
        enough = max(hits, stated) >= FEWEST_EVENTS and n - min(hits, stated) >= FEWEST_EVENTS
        shared = None if event is None else event.shared_noise(grid, cell)
        return cls(Steps.of_grid(grid, cell), hits > 0 and enough, shared)

    @classmethod
    def of_rough(cls, grid: FineGrid, event: DependentEvent | None = None) -> Chance:
        """Of equal bins, on as rough a grid as `binned` takes for a few resamples."""
        grid = grid.coarse(CLASS_CELLS)
        return cls.of(grid, WIDTH.grid_cells(grid.place, grid.rows[grid.kept]), event)

    def errors(self, resamples: int, seed: int) -> np.ndarray:
        return self.steps.null(ABSOLUTE, resamples, seed, self.shared)


def sharpened(errors: Sequence[LensError], chances: Sequence[Chance]) -> tuple[LensError, ...]:
    """The same errors, judged together: those beyond the 95% limit get the exact tail probability as p-value, where 199
    resamples could not tell them apart, and all the p-value adjusted for their number (Holm 1979)."""
    found = list(errors)
    some = [k for k, chance in enumerate(chances) if chance.telling and errors[k].estimate > errors[k].null_high]
    tails = exceedance([chances[k].steps for k in some], [float(errors[k].estimate) for k in some])
    for k, tail in zip(some, tails.tolist(), strict=True):
        found[k] = replace(errors[k], p_value=tail)
    decides = np.array([error.p_value if chance.telling else 1.0 for error, chance in zip(found, chances, strict=True)])
    return tuple(replace(error, adjusted=p) for error, p in zip(found, holm(decides).tolist(), strict=True))


def binned(
    name: str,
    grid: FineGrid,
    partition: Partition,
    words: str,
    *,
    error: CellError | None = None,
    resamples: int = RESAMPLES,
    event: DependentEvent | None = None,
    squared: bool = False,
) -> LensError:
    """An error over the cells of a partition of a grid.

    event : the rows, or a sample of them, if they are in clusters. squared : whether the error is one of squares.
    """
    error = partial(mean_gap, distance=ABSOLUTE) if error is None else error
    grid = grid if resamples == RESAMPLES else grid.coarse(CLASS_CELLS)
    cell = partition.grid_cells(grid.place, grid.rows[grid.kept])
    shared = None if event is None else event.shared_noise(grid, cell)
    null = error(Steps.of_grid(grid, cell).calibrated(resamples, shared=shared))
    draws = redrawn(grid.categories(cell), error, resamples)
    wider = 1.0 if event is None else event.widening(grid, cell, squared=squared)
    return LensError.of(name, float(error(grid.cells(cell))), draws, null, int(grid.rows.sum()), words, widening=wider)


def _unbinned(
    name: str,
    grid: FineGrid,
    error: Callable[..., np.ndarray],
    width: float,
    words: str,
    event: DependentEvent | None = None,
    *,
    squared: bool = False,
) -> LensError:
    """An error that a kernel of a width smooths. Rows are resampled on a grid whose cells are small beside that width.
    Intervals of dependent rows are widened as those of 15 equal bins are."""
    value = float(error(grid.weight, grid.outputs, grid.targets))
    coarse = grid.coarse(int(min(len(grid.rows), CELLS_PER_WIDTH / max(width, 1e-9))))
    cell = np.flatnonzero(coarse.kept)

    def of_cells(cells: Cells) -> np.ndarray:
        sums = (cells.weight, cells.weight * cells.outputs, cells.weight * cells.targets)
        return error(*(_spread(part, cells.number, len(coarse.rows)) for part in sums))

    shift = value - float(of_cells(coarse.cells(cell)))  # of the coarser grid; it is small
    draws = redrawn(coarse.categories(cell), of_cells, FEWER_RESAMPLES) + shift
    shared = None if event is None else event.shared_noise(coarse, cell)
    null = of_cells(Steps.of_grid(coarse, cell).calibrated(FEWER_RESAMPLES, shared=shared)) + shift
    null[np.abs(null - value) <= 2 * PRECISION] = value
    bins = WIDTH.grid_cells(grid.place, grid.rows[grid.kept])
    wider = 1.0 if event is None else event.widening(grid, bins, squared=squared)
    return LensError.of(name, value, draws, null, int(grid.rows.sum()), words, widening=wider)


def _smooth(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return smooth_error((targets - outputs) / weight.sum(axis=-1, keepdims=True), precision=PRECISION)[0]


def _smooth_width(grid: FineGrid) -> float:
    return float(smooth_error((grid.targets - grid.outputs) / grid.weight.sum())[1])


def _kernel(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return kernel_error(weight, outputs, targets, bandwidth=KERNEL_WIDTH)


def _root_mean_square(cells: Cells) -> np.ndarray:
    """Kumar et al. 2019; below 0 the mean square counts as 0."""
    return np.sqrt(np.maximum(0.0, debiased_gap(cells, Squared())))


def redrawn(categories: Categories, error: CellError, resamples: int, seed: int = 0) -> np.ndarray:
    """Errors of rows drawn again, with the cells held fixed."""
    n = int(categories.counts.sum())
    counts = np.random.default_rng(seed).multinomial(n, categories.counts / n, resamples)
    return np.concatenate([np.atleast_1d(error(cells)) for cells in categories.resampled(counts)])


def _widened(draws: np.ndarray) -> np.ndarray:
    return draws.mean() + math.sqrt(2) * (draws - draws.mean())


def _spread(values: np.ndarray, number: np.ndarray, size: int) -> np.ndarray:
    """Values of some cells on the whole grid."""
    found = np.zeros((*values.shape[:-1], size))
    found[..., number] = values
    return found
