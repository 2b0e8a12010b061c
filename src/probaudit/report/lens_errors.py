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

from ..calibration import calibration_error, calibration_test, class_term
from ..distances import L1, TVD, Distance, Squared
from ..estimates.calibration_error import ONE_ROW, debiased_gap, mean_gap
from ..estimates.cells import Categories, Cells
from ..estimates.estimate import Estimate
from ..estimates.fine_grid import FineGrid
from ..estimates.intervals import percentile
from ..estimates.kernel import kernel_error
from ..estimates.null import Steps, at_least, p_value
from ..estimates.population import Part, Population, population_error
from ..estimates.smooth import smooth_error
from ..estimates.surprises import classwise_chance
from ..lenses import Classwise, Full, TopLabel
from ..partitions import EqualMass, EqualWidth, KDTree, Partition
from ..resampling import dependence
from ..scores import Brier
from ..statistics.evidence import Evidence
from ..statistics.sampling import drawn
from ..viewing import Rows, look_at_event

BINS = 15
WIDTH, MASS, ABSOLUTE = EqualWidth(BINS), EqualMass(BINS), L1()
RESAMPLES = 999  # as `calibration_error` has, so that its interval is the same
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
DEPENDENCE_ROWS, DEPENDENCE_VALUES = 20_000, 2_000_000  # of which it is found how much the errors of classes vary together
LEVEL = 0.01  # the probability of one false alarm among all errors that are judged together
CANDIDATES = 3  # errors, of many, that are drawn as often as it takes to tell them from chance
DRAWN_TOGETHER = 2_000
LEAST_DRAWS = 5_000  # of a candidate: with just enough for the level, alarms would hang on the largest single draw
FRESH_SEED = 1_000_000  # beyond the seeds of classes, so that the draws that chose a candidate do not judge it
ENOUGH_EXCEED = 10  # draws as large as the error, after which more would say the same
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
    """A calibration error with its definition; a 95% interval for the error of the population, which chance does not raise; its
    mean and 95% point if the model were calibrated (labels simulated from the forecasts), and how probable so large an error
    then is. `event` is what it looks at, if that is one event."""

    name: str
    estimate: Estimate
    null_mean: float
    null_high: float
    p_value: float
    event: str = "top label"

    @classmethod
    def of(
        cls, name: str, value: float, found: Population, null: np.ndarray, n: int, definition: str, **more: Any
    ) -> LensError:
        """From the error of the population, and errors of a calibrated model."""
        ends: dict[str, Any] = {"low": found.low, "high": found.high, "debiased": found.debiased}
        estimate = Estimate(value, **ends, n=n, definition=definition, **more)
        return cls(name, estimate, float(null.mean()), float(np.quantile(null, 0.95)), p_value(value, null))

    @property
    def excess(self) -> float:
        """The error without what chance alone gives, on average."""
        return float(self.estimate) - self.null_mean

    def beyond_chance(self, level: float = LEVEL, among: int = 1) -> bool:
        """Whether the error is larger than chance makes any of so many, but for the given probability (Bonferroni), and larger
        than chance makes it on average. The p-value must come from at least among / level draws to show it; see `sharpened`."""
        return self.excess > 0 and self.p_value * among <= level

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
        return {"name": self.name, "title": self.title} | self.estimate.to_dict() | null


CellError = Callable[[Cells], np.ndarray]


def described(what: Any, partition: Partition = WIDTH, distance: Distance = ABSOLUTE) -> str:
    """As `calibration_error` says it."""
    return f"calibration error, {what}, {partition!r}, {distance!r}"


def top_label_errors(evidence: Evidence) -> list[LensError]:
    """Of the most probable class, or of the stated confidence: binned, debiased, and without bins."""
    grid = FineGrid.of_event(evidence.top)
    grid_words = f", from a grid of {len(grid.rows):,} cells" if evidence.sampled else ""
    found = [
        _judged("ece", *_top_cells(evidence, grid, WIDTH), described(TopLabel()), RESAMPLES),
        _judged("ece.equal_mass", *_top_cells(evidence, grid, MASS), described(TopLabel(), MASS) + grid_words, RESAMPLES),
    ]
    width = min(_smooth_width(grid), SMOOTH_WIDTH)
    words = "SmoothECE, TopLabel(), reflected Gaussian of width its fixed point"
    found.append(_unbinned("smooth_ece", grid, _smooth, width, words))
    words = f"kernel calibration error, TopLabel(), brier, gaussian of width {KERNEL_WIDTH:g}"
    found.append(_unbinned("kernel_error", grid, _kernel, KERNEL_WIDTH, words))
    cells, steps = _top_cells(evidence, grid, MASS)
    if (cells.effective > ONE_ROW).any():
        words = f"root of {described(TopLabel(), MASS, Squared())}, debiased{grid_words}"
        found.append(_judged("rms_error", cells, steps, words, RESAMPLES, root=True))
    return [replace(error, event=event_of(evidence)) for error in found]


def _top_cells(evidence: Evidence, grid: FineGrid, partition: Partition) -> tuple[Cells, Steps]:
    """The cells of the rows themselves if all are at hand, as `calibration_error` has them; else those of the grid."""
    if evidence.sampled:
        return _grid_cells(grid, partition)
    seen = look_at_event(evidence.sample, TopLabel())
    return seen.gather(partition), Steps.of_view(seen.view, seen.cells(partition), seen.weights)


def _grid_cells(grid: FineGrid, partition: Partition) -> tuple[Cells, Steps]:
    cell = partition.grid_cells(grid.place, grid.rows[grid.kept])
    return grid.cells(cell), Steps.of_grid(grid, cell)


def event_of(evidence: Evidence) -> str:
    """What the usual calibration error looks at."""
    return "stated confidence" if evidence.sample.pairs else "top label"


def rank_errors(evidence: Evidence) -> list[LensError]:
    """Of the event that the true class is among the k most probable (paper 3, Eq. 4, as one event)."""
    what = "true class among the {} most probable against their summed probability"
    return [
        binned(f"topk_ece.{k}", FineGrid.of_event(sums), WIDTH, described(what.format(k))) for k, sums in evidence.ranks.items()
    ]


def class_errors(evidence: Evidence) -> tuple[LensError | None, tuple[LensError, ...]]:
    """The mean over classes of each class's error (classwise ECE), and each by itself.

    By itself, each class is simulated apart from the others. For the interval of the mean, resampled rows show how much the
    errors of classes vary together (`dependence`). For its null, a label is simulated for each row (`classwise_chance`), as a
    hit of one class is a miss of another; where that would take long, the simulations of classes serve. That the rows' classes
    are dependent can at most double the variance of the mean: the squared correlations p_k p_l / ((1 - p_k) (1 - p_l)) of one
    class with all others sum to at most 1, as 1 - p_l >= p_k. So deviations of the mean are widened by the root of 2, which is
    exact for two classes, as they mirror each other.
    """
    if not evidence.classes:
        return None, ()
    classes, found, chances, parts = evidence.summary.plan.classes, [], [], []
    null, error = np.empty((FEWER_RESAMPLES, len(classes))), partial(mean_gap, distance=ABSOLUTE)
    for k, sums in enumerate(evidence.classes):
        grid = FineGrid.of_event(sums).coarse(CLASS_CELLS)
        cell = WIDTH.grid_cells(grid.place, grid.rows[grid.kept])
        chances.append(Chance.of(grid, cell))
        parts.append(Part(grid.cells(cell), 1.0, partial(_noise, chances[k].steps, FEWER_RESAMPLES, k)))
        null[:, k] = chances[k].errors(FEWER_RESAMPLES, k)
        words = described(f"class {classes[k]} against all others")
        value, n = float(error(parts[k].cells)), int(grid.rows.sum())
        alone = population_error([parts[k]], ABSOLUTE, seed=k)
        found.append(LensError.of(f"class_ece.{classes[k]}", value, alone, null[:, k], n, words))
    values = [float(one.estimate) for one in found]
    words = f"{described(Classwise())}, mean of {len(classes)} classes"
    parts = [replace(part, share=1 / len(classes)) for part in parts]
    whole = population_error(parts, ABSOLUTE, widened=_dependence(evidence))
    mean, by_class = math.fsum(values) / len(values), dict(zip(classes, values, strict=True))
    chance, n = null.mean(axis=1), found[0].estimate.n
    chance = np.maximum(_widened(chance), chance.min())  # most draws may have the least error possible, that of no surprise
    if joint := _drawn_together(evidence):
        rows = Rows.of(evidence.sample)
        together = classwise_chance(rows.probs, rows.labels, rows.weights, WIDTH, FEWER_RESAMPLES)
        chance = together.errors
    average = LensError.of("classwise_ece", mean, whole, chance, n, words, per_class=by_class)
    return replace(average, p_value=together.p_value) if joint else average, sharpened(found, chances)


def _dependence(evidence: Evidence) -> float:
    """How much more the mean error of all classes varies than if they were independent."""
    rows = evidence.sample
    most = min(DEPENDENCE_ROWS, DEPENDENCE_VALUES // rows.n_classes)
    rows = rows.take(drawn(len(rows), most)) if len(rows) > most else rows
    return dependence([class_term(rows, WIDTH)], ABSOLUTE, seed=0)


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
    options: dict[str, Any] = {"lens": Full(), "partition": tree, "distance": distance, "resamples": FEWER_RESAMPLES}
    test, found = calibration_test(rows, **options), calibration_error(rows, interval=True, **options)
    words = described(Full(), tree, distance)
    words += f", on a sample of {len(rows):,} rows" if few else evidence.sample_words
    ends: dict[str, Any] = {"low": found.low, "high": found.high, "debiased": found.debiased}
    estimate = Estimate(test.value, **ends, n=test.n, definition=words)
    return LensError("full_ece", estimate, test.null_mean, test.null_high, test.p_value)


@dataclass(frozen=True)
class Chance:
    """What is needed to draw the error of a calibrated model once more; `telling` if there are hits and misses enough, seen or
    expected, to say anything, and any hit at all: of an event that never happened it is said elsewhere that it is absent."""

    steps: Steps
    telling: bool

    @classmethod
    def of(cls, grid: FineGrid, cell: np.ndarray) -> Chance:
        """Of the bins that a grid's kept cells lie in."""
        n, hits = float(grid.rows.sum()), float(grid.hit_rows.sum())
        stated = n * float(grid.outputs.sum() / grid.weight.sum())
        enough = max(hits, stated) >= FEWEST_EVENTS and n - min(hits, stated) >= FEWEST_EVENTS
        return cls(Steps.of_grid(grid, cell), hits > 0 and enough)

    @classmethod
    def of_rough(cls, grid: FineGrid) -> Chance:
        """Of equal bins, on as rough a grid as `binned` takes for a few resamples."""
        grid = grid.coarse(CLASS_CELLS)
        return cls.of(grid, WIDTH.grid_cells(grid.place, grid.rows[grid.kept]))

    def errors(self, resamples: int, seed: int) -> np.ndarray:
        return self.steps.null(ABSOLUTE, resamples, seed)


def sharpened(errors: Sequence[LensError], chances: Sequence[Chance]) -> tuple[LensError, ...]:
    """The same errors; the few that are furthest beyond chance with a p-value from as many fresh draws as it takes to tell the
    largest of so many from chance. (The tail of an error of few hits is far from normal, and no formula is needed for it.)

    Drawing stops once enough draws are as large as the error (Besag & Clifford 1991).
    """
    found, most = list(errors), max(LEAST_DRAWS, math.ceil(len(errors) / LEVEL))
    telling = [k for k, chance in enumerate(chances) if chance.telling and errors[k].estimate > errors[k].null_high]
    for k in sorted(telling, key=lambda k: -_distance(errors[k]))[:CANDIDATES]:
        drawn, exceed, value = 0, 0, float(errors[k].estimate)
        while drawn < most and exceed < ENOUGH_EXCEED:
            null = chances[k].errors(min(DRAWN_TOGETHER, most - drawn), FRESH_SEED * (k + 1) + drawn)
            drawn, exceed = drawn + len(null), exceed + at_least(null, value)
        found[k] = replace(errors[k], p_value=(1 + exceed) / (1 + drawn))
    return tuple(found)


def _distance(error: LensError) -> float:
    """The excess beside what chance varies by."""
    spread = error.null_high - error.null_mean
    return error.excess / spread if spread > 0 else math.inf


def binned(
    name: str,
    grid: FineGrid,
    partition: Partition,
    words: str,
    *,
    resamples: int = RESAMPLES,
) -> LensError:
    """An error over the cells of a partition of a grid."""
    grid = grid if resamples == RESAMPLES else grid.coarse(CLASS_CELLS)
    return _judged(name, *_grid_cells(grid, partition), words, resamples)


def _judged(name: str, cells: Cells, steps: Steps, words: str, resamples: int, *, root: bool = False) -> LensError:
    """The mean error over cells; with `root`, the root of the debiased mean square."""
    error, distance = (_root_mean_square, Squared()) if root else (partial(mean_gap, distance=ABSOLUTE), ABSOLUTE)
    null = error(steps.calibrated(resamples))
    found = population_error([Part(cells, 1.0, partial(_noise, steps, resamples, 0))], distance)
    found = found.root() if root else found
    return LensError.of(name, float(error(cells)), found, null, int(cells.rows.sum()), words)


def _noise(steps: Steps, resamples: int, seed: int, gaps: np.ndarray) -> np.ndarray:
    return steps.noise(gaps, resamples, seed)


def _unbinned(name: str, grid: FineGrid, error: Callable[..., np.ndarray], width: float, words: str) -> LensError:
    """An error that a kernel of a width smooths. Rows are drawn again on a grid whose cells are small beside that width."""
    value = float(error(grid.weight, grid.outputs, grid.targets))
    coarse = grid.coarse(int(min(len(grid.rows), CELLS_PER_WIDTH / max(width, 1e-9))))
    cell = np.flatnonzero(coarse.kept)

    def of_cells(cells: Cells) -> np.ndarray:
        sums = (cells.weight, cells.weight * cells.outputs, cells.weight * cells.targets)
        return error(*(_spread(part, cells.number, len(coarse.rows)) for part in sums))

    shift = value - float(of_cells(coarse.cells(cell)))  # of the coarser grid; it is small
    draws = redrawn(coarse.categories(cell), of_cells, FEWER_RESAMPLES) + shift
    null = of_cells(Steps.of_grid(coarse, cell).calibrated(FEWER_RESAMPLES)) + shift
    null[np.abs(null - value) <= 2 * PRECISION] = value
    return LensError.of(name, value, _around(value, draws, int(grid.rows.sum())), null, int(grid.rows.sum()), words)


def _around(value: float, draws: np.ndarray, n: int) -> Population:
    """From errors of resampled rows, which are moved to lie around the value."""
    finite = draws[np.isfinite(draws)]
    if n < 2 or not len(finite):  # a single row, resampled, is always the same
        return Population()
    low, high = percentile(finite - finite.mean() + value)
    return Population(math.nan, max(0.0, min(low, value)), max(high, value))


def _smooth(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return smooth_error((targets - outputs) / weight.sum(axis=-1, keepdims=True), precision=PRECISION)[0]


def _smooth_width(grid: FineGrid) -> float:
    return float(smooth_error((grid.targets - grid.outputs) / grid.weight.sum())[1])


def _kernel(weight: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return kernel_error(weight, outputs, targets, Brier().one_dimensional(), bandwidth=KERNEL_WIDTH)


def _root_mean_square(cells: Cells) -> np.ndarray:
    """Kumar et al. 2019; below 0 the mean square counts as 0."""
    return np.sqrt(np.maximum(0.0, debiased_gap(cells, Squared())))


def redrawn(categories: Categories, error: CellError, resamples: int, seed: int = 0) -> np.ndarray:
    """Errors of resampled rows, with the cells held fixed."""
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
