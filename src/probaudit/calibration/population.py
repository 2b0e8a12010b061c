"""The calibration error of the population behind a sample, with a 95% interval.

Sampling noise raises the error of a sample, because the distance in a cell cannot be negative. The
bias depends on the gaps of the population (mean output - mean target of each cell), which are
unknown. They are modelled as lambda x nu, where the shape nu is a logistic recalibration of all
cells together (intercept and slope; Cox 1958) plus the deviation of each cell from it, shrunken
according to its noise (empirical Bayes; Efron & Morris 1975). Samples from such populations are
simulated, and the test is inverted (Neyman 1937). The interval contains each lambda for which at
least 2.5% of the simulated errors are as small as the sample's, and at least 2.5% as large. The
debiased error is the one for which the mean simulated error equals the sample's.

The noise is that of a calibrated model at lambda = 0 and that of the gaps nu for lambda >= 1; in
between, the quantiles of the simulated errors are interpolated. The noise of nu alone would be too
small near 0: if all rows of a cell are right, its rate under nu is near 1 and hardly varies,
whatever its outputs.

One-sided errors (`Over`, `Under`) have gaps of both signs. There lambda multiplies the gaps of one
sign, and those of the other sign are fixed at nu. As these are estimates, the interval starts at 0
unless the sample's error is also above the 97.5% point for a calibrated model.

The interval starts at 0 unless the sample's error is above the 97.5% point for a calibrated model.
Its upper limit is at least that of a sample with the median error of a calibrated model (a
power-constrained limit; Cowan et al. 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from ..choices.distances import Distance
from .cells import CellError, Cells, Pooling, folded_mean, mean_gap
from .resampling import draw_counts

LEVEL = 0.95
# candidate standard deviations of cells from the common recalibration, relative to their noise
DEVIATIONS = np.r_[0.0, np.geomspace(0.03, 30, 30)]
EXTREME = 1e-6  # outputs are clipped to [EXTREME, 1 - EXTREME] before taking log odds
LARGEST = 64.0  # value of lambda
FINE = 1e-4  # precision of lambda
STEP = 1 / 8  # of lambda, for errors that are slow to compute

# [B, m] or [B, m, d], given the gaps of the population, [m] or [m, d]
Noise = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ErrorPart:
    """One error of a sum of share x error: its cells, its share, and a function that simulates the
    deviations of a sample's gaps (output - target) from those of the population."""

    cells: Cells
    share: float
    noise: Noise


@dataclass(frozen=True)
class Population:
    """The error of the population: a debiased estimate and the limits of the 95% interval."""

    debiased: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def root(self) -> Population:
        """The same for the root of the error."""
        return Population(*(math.sqrt(end) for end in (self.debiased, self.low, self.high)))


def population_error(
    parts: Sequence[ErrorPart],
    distance: Distance,
    *,
    pooling: Pooling = mean_gap,
    error: CellError | None = None,
    widened: float = 1.0,
    seed: int = 0,
) -> Population:
    """The population's value of the sum of share x error over parts. All NaN if no cell has two
    rows, because their noise is then unknown.

    pooling : how the distances of cells become one error.
    error : the error of the cells of a part, instead of their pooled distances.
    widened : a factor for the deviations of simulated errors from their mean, for dependent parts
        that are simulated independently, or for few clusters.
    """
    if all(part.cells.rows.max() < 2 for part in parts) or not math.isfinite(widened):
        return Population()
    gaps = [part.cells.outputs - part.cells.targets for part in parts]
    shapes = _shapes([part.cells for part in parts], gaps)
    rng = np.random.default_rng(seed)
    noises = [
        (part.noise(np.zeros_like(nu)), part.noise(nu))
        for part, nu in zip(parts, shapes, strict=True)
    ]
    weights = [
        _resampled_weights(part.cells, len(noise[0]), rng)
        for part, noise in zip(parts, noises, strict=True)
    ]
    separate = pooling is not mean_gap or error is not None
    groups = [slice(j, j + 1) for j in range(len(parts))] if separate else [slice(0, len(parts))]
    measure = partial(pooling, distance=distance) if error is None else error
    sums = [
        _PooledParts.of(parts[s], shapes[s], noises[s], weights[s], measure, distance.side)
        for s in groups
    ]
    observed = math.fsum(one.observed for one in sums)
    if not math.isfinite(observed):
        return Population()

    def total(parts: Sequence[np.ndarray]) -> np.ndarray:
        errors = np.sum(parts, axis=0)
        errors = errors[np.isfinite(errors)]
        return np.asarray(errors.mean() + widened * (errors - errors.mean()))

    def exactly(size: float) -> np.ndarray:
        return total([one.simulated(size) for one in sums])

    simulated = exactly if error is None else _interpolated(exactly)

    def true_error(statistic: Callable[[np.ndarray], float], target: float) -> float:
        """The population's error for which a statistic of the simulated errors is `target`."""
        size = _root(lambda size: statistic(simulated(size)) - target)
        return math.fsum(one.true(size) for one in sums)

    below, above = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low = 0.0
    if not distance.side or observed > np.quantile(total([one.null for one in sums]), above):
        low = true_error(lambda errors: float(np.quantile(errors, above)), observed)
    high = true_error(
        lambda errors: float(np.quantile(errors, below)),
        max(observed, float(np.median(simulated(0.0)))),
    )
    debiased = true_error(lambda errors: float(errors.mean()), observed)
    return Population(debiased, low, max(low, high))


def _interpolated(function: Callable[[float], np.ndarray]) -> Callable[[float], np.ndarray]:
    """A slow function evaluated at multiples of STEP and interpolated linearly between them."""
    # sorted, so that quantiles are interpolated: draws in random order would average out
    known = cache(lambda place: np.sort(function(place * STEP)))

    def interpolated(size: float) -> np.ndarray:
        place = math.floor(size / STEP)
        low, high = known(place), known(place + 1)
        return np.asarray(low + (high - low) * (size / STEP - place))

    return interpolated


def _root(excess: Callable[[float], float]) -> float:
    """The root of an increasing function in [0, LARGEST]; 0 if it is positive everywhere."""
    from scipy.optimize import brentq

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        if high >= LARGEST:
            return high
        high *= 2
    return float(brentq(excess, 0.0 if high == 1 else high / 2, high, xtol=FINE))


@dataclass(frozen=True)
class _PooledParts:
    """The cells of several parts as one list, each part weighted by its share."""

    cells: Cells
    shape: np.ndarray
    noise: tuple[np.ndarray, np.ndarray]  # for a calibrated model, and for gaps of this shape
    weights: np.ndarray
    error: CellError
    share: float
    side: int = 0

    @classmethod
    def of(
        cls,
        parts: Sequence[ErrorPart],
        shapes: Sequence[np.ndarray],
        noises: Sequence[tuple[np.ndarray, np.ndarray]],
        weights: Sequence[np.ndarray],
        measure: CellError,
        side: int = 0,
    ) -> _PooledParts:
        fields = ("rows", "outputs", "targets", "effective")
        rows, outputs, targets, effective = (
            np.concatenate([getattr(p.cells, name) for p in parts]) for name in fields
        )
        weight = np.concatenate([part.share * part.cells.share for part in parts])
        drawn = np.concatenate(
            [part.share * w for part, w in zip(parts, weights, strict=True)], axis=1
        )
        number = parts[0].cells.number if len(parts) == 1 else np.arange(len(rows))
        cells = Cells(number, rows, weight, outputs, targets, effective)
        share = math.fsum(part.share for part in parts)
        calibrated = shaped = np.concatenate([noise for noise, _ in noises], axis=1)
        if any(noise is not other for noise, other in noises):
            shaped = np.concatenate([noise for _, noise in noises], axis=1)
        shape = np.concatenate(shapes)
        return cls(cells, shape, (calibrated, shaped), drawn, measure, share, side)

    @property
    def observed(self) -> float:
        return self.share * float(self.error(self.cells))

    @property
    def null(self) -> np.ndarray:
        """Simulated errors of a calibrated model."""
        return self._errors(np.zeros_like(self.shape), self.noise[0])

    def _gaps(self, size: float) -> np.ndarray:
        gaps = size * self.shape if self.side == 0 else self._one_sided(size)
        return np.clip(gaps, self.cells.outputs - 1, self.cells.outputs)

    def _one_sided(self, size: float) -> np.ndarray:
        """Gaps whose part on one side grows with `size`. Up to 1 they lie between the shape without
        this part and the shape itself. Beyond, each cell is moved by its expected part, given its
        noise, which is positive even if the shape lies on the other side."""
        cells, shape = self.cells, self.side * self.shape
        target = np.clip((cells.rows * cells.targets + cells.outputs) / (cells.rows + 1), 0, 1)
        noise = np.sqrt(target * (1 - target) / np.maximum(cells.effective, 1.0))
        part = (shape + folded_mean(shape, noise)) / 2
        gaps = np.minimum(shape, 0) + min(size, 1.0) * np.maximum(shape, 0)
        return np.asarray(self.side * (gaps + max(size - 1, 0.0) * part))

    def true(self, size: float) -> float:
        cells = self.cells
        targets = cells.outputs - self._gaps(size)
        return self.share * float(
            self.error(
                Cells(cells.number, cells.rows, cells.weight, cells.outputs, targets, cells.rows)
            )
        )

    def simulated(self, size: float) -> np.ndarray:
        calibrated, shaped = self.noise
        if size <= 0 or calibrated is shaped:
            return self._errors(self._gaps(size), calibrated)
        if size >= 1:
            return self._errors(self._gaps(size), shaped)
        ends = (np.sort(self._errors(self._gaps(size), noise)) for noise in self.noise)
        return np.asarray(
            sum(share * end for share, end in zip((1 - size, size), ends, strict=True))
        )

    def _errors(self, gaps: np.ndarray, noise: np.ndarray) -> np.ndarray:
        targets = self.cells.outputs - (gaps + noise)
        outputs, w = np.broadcast_to(self.cells.outputs, targets.shape), self.weights
        return self.share * self.error(Cells(self.cells.number, w, w, outputs, targets, w))


def _resampled_weights(cells: Cells, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Shares [B, m] of the cells in simulated samples."""
    squared = cells.weight_squared
    rows = cells.weight.sum() ** 2 / squared.sum() if squared.sum() > 0 else len(cells.weight)
    size = max(1, round(float(rows)))
    return draw_counts(size, cells.share, resamples, rng) / size


def _shapes(cells: Sequence[Cells], gaps: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The shape nu of the population's gaps, from the sample's gaps.

    On the log-odds scale the gap of a cell is about gap / (p (1 - p)). It is modelled there as
    a + b logit p, plus a deviation of variance tau^2, plus noise; tau is estimated by restricted
    maximum likelihood.
    """
    p, gap = (
        np.concatenate([x.reshape(-1) for x in xs]) for xs in ([c.outputs for c in cells], gaps)
    )
    size = np.concatenate(
        [
            np.repeat(np.maximum(c.effective, 1.0), x.size // len(x))
            for c, x in zip(cells, gaps, strict=True)
        ]
    )
    p = np.clip(p, EXTREME, 1 - EXTREME)
    # targets are shrunken to the outputs by one row, so that the noise of small cells is not 0
    target = np.clip((size * (p - gap) + p) / (size + 1), EXTREME, 1 - EXTREME)
    slope, noise = (p * (1 - p) + target * (1 - target)) / 2, target * (1 - target) / size
    shape = slope * _shrunken(gap / slope, noise / slope**2, np.log(p / (1 - p)))
    shape = gap if not np.abs(shape).max() > 0 else shape
    ends = np.cumsum([x.size for x in gaps])[:-1]
    parts = [part.reshape(x.shape) for part, x in zip(np.split(shape, ends), gaps, strict=True)]
    return [
        part if part.ndim == 1 else _balanced(part, c.outputs)
        for part, c in zip(parts, cells, strict=True)
    ]


def _balanced(gaps: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Gaps [m, d], adjusted to sum to 0 in each cell, as outputs and targets sum to 1."""
    return np.asarray(
        gaps - outputs * (gaps.sum(axis=1, keepdims=True) / outputs.sum(axis=1, keepdims=True))
    )


def _shrunken(values: np.ndarray, noise: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values with the given noise variances, shrunken towards their regression on x."""
    sloped = np.ptp(x) > FINE
    if len(values) <= 2 + sloped:
        return values
    deviation = DEVIATIONS[:, None] * math.sqrt(len(values) / (1 / noise).sum())
    weight = 1 / (noise + deviation**2)
    total = weight.sum(axis=1, keepdims=True)
    centred = x - (weight * x).sum(axis=1, keepdims=True) / total
    fitted = (weight * values).sum(axis=1, keepdims=True) / total
    information = np.log(total[:, 0])
    if sloped:
        squares = (weight * centred**2).sum(axis=1, keepdims=True)
        fitted = fitted + (weight * centred * values).sum(axis=1, keepdims=True) / squares * centred
        information = information + np.log(squares[:, 0])
    rest = values - fitted
    likelihood = (np.log(weight) - weight * rest**2).sum(axis=1) - information
    best = int(likelihood.argmax())
    return np.asarray((fitted + deviation**2 * weight * rest)[best])
