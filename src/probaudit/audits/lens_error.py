"""One calibration error of an audit: the estimate, and its test against a calibrated model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..calibration.cells import CellError, Cells, debiased_gap, mean_gap
from ..calibration.dependent_event import INDEPENDENT, DependentEvent, SharedNoise
from ..calibration.fine_grid import FineGrid
from ..calibration.null import BinomialNull, SignedClusters, least_favourable
from ..calibration.population import ErrorPart, Population, population_error
from ..calibration.resampling import RESAMPLES
from ..calibration.significance import CalibrationTest, at_least, exceedance, holm
from ..choices.definitions import Definition
from ..choices.distances import L1, Distance, Squared
from ..choices.partitions import EqualWidth, Partition
from ..estimate import Estimate

BINS = 15
WIDTH, ABSOLUTE = EqualWidth(BINS), L1()
MEAN_GAP: CellError = partial(mean_gap, distance=ABSOLUTE)
CLASS_CELLS = 105  # cells in the grid of a class: seven in each bin
LEVEL = 0.01  # family-wise error rate of errors that are tested together
FEWEST_EVENTS = 5  # the least number of hits, and of misses, for a decision
# simulated tails of rows in clusters
DRAWN_TOGETHER = 2_000
LEAST_DRAWS = 5_000
FRESH_SEED = 1_000_000  # beyond the seeds of classes
ENOUGH_EXCEED = 10  # the simulation stops after this many draws as large as the error
SHORT_TITLES = {
    "ece": "ECE, 15 bins",
    "ace": "ACE, 15 bins of equal mass",
    "smooth_ece": "SmoothECE",
    "kernel_calibration_error": "kernel, squared",
    "rms_error": "root mean square, debiased",
    "classwise_ece": "classwise",
    "full_ece": "all classes (k-d tree, TVD)",
}
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
    event: str = "most probable class"
    adjusted: float = math.nan

    @classmethod
    def of(
        cls,
        name: str,
        value: float,
        population: Population,
        null: np.ndarray,
        *,
        n: int,
        definition: str,
        **more: Any,
    ) -> LensError:
        """From the error of the population, and simulated errors of a calibrated model (`null`)."""
        estimate = estimate_with(value, population, n=n, definition=definition, **more)
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
        """The same error with a more exact p-value than that of the draws."""
        return replace(self, test=replace(self.test, p_value=p_value))

    @property
    def excess(self) -> float:
        """The error minus its mean if calibrated."""
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
        """The name of the error in a table."""
        kind, _, which = self.name.partition(".")
        if kind == "topk_ece":
            return f"true class among the {which} most probable"
        if kind == "class_ece":
            return f"class {which}"
        name = self.name.removeprefix("top_label.")
        return TITLES.get(name, name).format(event=self.event)

    @property
    def short_title(self) -> str:
        """The name of the error in a terminal, without the judged event."""
        kind, _, which = self.name.partition(".")
        if kind == "topk_ece":
            return f"top {which}"
        if kind == "top_label":
            return f"most probable class: {SHORT_TITLES.get(which, which)}"
        return f"class {which}" if kind == "class_ece" else SHORT_TITLES.get(self.name, self.name)

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


def estimate_with(
    value: float, population: Population, *, n: int, definition: str, **more: Any
) -> Estimate:
    """The error of the rows, with the interval and the debiased error of the population."""
    return Estimate(
        value,
        low=population.low,
        high=population.high,
        debiased=population.debiased,
        n=n,
        definition=definition,
        **more,
    )


def definition_of(
    what: Any, partition: Partition = WIDTH, distance: Distance = ABSOLUTE
) -> Definition:
    """The definition of an error, as in `calibration_error`."""
    return Definition("calibration error", what, partition, distance)


@dataclass(frozen=True)
class NullModel:
    """A calibrated model with the same outputs, from which errors are drawn.

    binomial : the draws of independent rows.
    enough_events : whether there are enough hits and misses, observed or expected, for a decision.
    around : for rows in clusters, how samples vary around the gaps of the population.
    shared : for a sample of rows in clusters, the noise that clusters add to a calibrated model.
    signed : for all rows in clusters, the draws by random signs of clusters.
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
        *,
        absent: bool = False,
    ) -> NullModel:
        """From the bin of each of the grid's kept cells.

        event : the rows with their clusters, if rows are dependent.
        binomial : the draws of the rows themselves, if they are in memory.
        absent : whether an event that never happened is judged, too. A class without rows is
            reported elsewhere.
        """
        n, hits = float(grid.rows.sum()), float(grid.hit_rows.sum())
        expected = n * float(grid.outputs.sum() / grid.weight.sum())
        enough = max(hits, expected) >= FEWEST_EVENTS and n - min(hits, expected) >= FEWEST_EVENTS
        independent = cls(
            BinomialNull.of_grid(grid, cell) if binomial is None else binomial,
            (hits > 0 or absent) and enough,
        )
        if event is None:
            return independent
        return replace(
            independent,
            around=event.noise(grid, cell),
            shared=event.shared(grid, cell),
            signed=event.signed(grid, cell),
        )

    @classmethod
    def of_coarse_grid(cls, grid: FineGrid, event: DependentEvent | None = None) -> NullModel:
        """For equal bins, on the coarse grid that `binned_error` uses with few resamples."""
        grid = grid.coarse(CLASS_CELLS)
        return cls.of(grid, cells_of(grid, WIDTH), event, absent=True)

    def errors(self, resamples: int, seed: int, error: CellError = MEAN_GAP) -> np.ndarray:
        """Errors of calibrated models. For rows in clusters, each quantile is the larger of those
        by independent rows and by signed clusters."""
        independent = error(self.binomial.calibrated(resamples, seed, self.shared))
        if self.signed is None:
            return independent
        return least_favourable(independent, error(self.signed.calibrated(resamples, seed)))

    def noise(self, resamples: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        """A function of the population's gaps: the deviations of sampled gaps from them."""
        return lambda gaps: self.binomial.noise(gaps, resamples, seed, self.around.observed)


def cells_of(grid: FineGrid, partition: Partition) -> np.ndarray:
    """The bin of each of the grid's kept cells."""
    return partition.grid_cells(grid.place, grid.rows[grid.kept])


def binned_error(
    name: str,
    grid: FineGrid,
    partition: Partition,
    words: str,
    *,
    resamples: int = RESAMPLES,
    event: DependentEvent | None = None,
) -> LensError:
    """The error of a grid over the cells of a partition.

    event : the rows, or a sample of them, with their clusters, if rows are dependent.
    """
    grid = grid if resamples == RESAMPLES else grid.coarse(CLASS_CELLS)
    cell = cells_of(grid, partition)
    null = NullModel.of(grid, cell, event)
    return error_of_cells(name, grid.cells(cell), null, words, resamples=resamples)


def error_of_cells(
    name: str,
    cells: Cells,
    null: NullModel,
    words: str,
    *,
    resamples: int = RESAMPLES,
    root: bool = False,
    effects: np.ndarray | None = None,
    population: Population | None = None,
) -> LensError:
    """The mean error over cells.

    root : the root of the debiased mean square instead; `effects` has the design effect of each
        cell, if rows are dependent.
    population : the error of the population, if already known.
    """
    error: CellError = partial(_root_mean_square, cells.number, effects) if root else MEAN_GAP
    distance = Squared() if root else ABSOLUTE
    draws = null.errors(resamples, 0, error)
    if population is None:
        part = ErrorPart(cells, 1.0, null.noise(resamples, 0))
        population = population_error([part], distance, widened=null.around.widened)
    population = population.root() if root else population
    n = int(cells.rows.sum())
    return LensError.of(name, float(error(cells)), population, draws, n=n, definition=words)


def _root_mean_square(number: np.ndarray, effects: np.ndarray | None, cells: Cells) -> np.ndarray:
    """The debiased root mean square error (Kumar et al. 2019); 0 if the mean square is negative.

    number, effects : cells and their design effects.
    """
    if effects is not None:
        by_number = np.ones(max(number.max(), cells.number.max()) + 1)
        by_number[number] = effects
        cells = replace(cells, effective=cells.effective / by_number[cells.number])
    return np.sqrt(np.maximum(0.0, debiased_gap(cells, Squared())))


def holm_adjusted(errors: Sequence[LensError], nulls: Sequence[NullModel]) -> tuple[LensError, ...]:
    """The same errors, with p-values adjusted for all of them (Holm 1979)."""
    return tested_together(errors, nulls)[0]


def tested_together(
    errors: Sequence[LensError], nulls: Sequence[NullModel]
) -> tuple[tuple[LensError, ...], np.ndarray]:
    """The same errors, with p-values adjusted for all of them (Holm 1979), and the p-values that
    were adjusted: 1 where too few events leave no decision.

    Errors beyond the 95% limit get an exact tail probability as p-value, since 199 resamples cannot
    separate small ones. The tails of rows in clusters have no closed form: they are simulated until
    ten draws are as large as the error (Besag & Clifford 1991)."""
    tested = list(errors)
    large = [
        k
        for k, null in enumerate(nulls)
        if null.enough_events and errors[k].estimate > errors[k].null_high
    ]
    if any(nulls[k].around is not INDEPENDENT for k in large):
        tails = np.array([_simulated_tail(errors[k], nulls[k], k, len(errors)) for k in large])
    else:
        values = [float(errors[k].estimate) for k in large]
        tails = exceedance([nulls[k].binomial for k in large], values)
    for k, tail in zip(large, tails.tolist(), strict=True):
        tested[k] = errors[k].with_p_value(tail)
    p_values = np.array(
        [
            error.p_value if null.enough_events else 1.0
            for error, null in zip(tested, nulls, strict=True)
        ]
    )
    adjusted = tuple(
        replace(error, adjusted=p) for error, p in zip(tested, holm(p_values).tolist(), strict=True)
    )
    return adjusted, p_values


def _simulated_tail(error: LensError, null: NullModel, seed: int, tests: int) -> float:
    """The p-value from as many draws as it needs to pass Holm's correction for all `tests`."""
    most, drawn, exceed = max(LEAST_DRAWS, math.ceil(tests / LEVEL)), 0, 0
    while drawn < most and exceed < ENOUGH_EXCEED:
        errors = null.errors(min(DRAWN_TOGETHER, most - drawn), FRESH_SEED * (seed + 1) + drawn)
        drawn += len(errors)
        exceed += at_least(errors, float(error.estimate))
    return (1 + exceed) / (1 + drawn)
