"""Paired differences of several models on the same rows.

Scores are means over rows, or ratios of means, so differences have linearised intervals.
Calibration errors are resampled, with the same resamples of sampling units for every model; the
cost does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..choices.distances import L1, Over, Under
from ..choices.lenses import OneVsRest, View
from ..choices.partitions import EqualMass, EqualWidth
from ..scoring.clusters import Clusters
from ..scoring.intervals import Z95
from .cells import Cells, mean_gap, unweighted_gap, worst_gap
from .kernel_regression import kernel_error
from .resampling import draw_units, percentile, sampling_units
from .smooth import smooth_error

BINS = 15
SIZES = (105, 140, 210, 280, 420, 840)  # cells of the grids on which resamples are smoothed
STEPS = 5  # grid cells per bandwidth
CALIBRATED = 200  # simulations of a calibrated model, for the means of its SmoothECE and MCE
TOGETHER = 32  # classes whose sums are resampled at once
KERNEL_WIDTH = 0.05  # the default bandwidth of the kernel calibration error
PRECISION = 1e-5  # of the bandwidth of SmoothECE in resamples


def clearly_lower(values: np.ndarray, terms: np.ndarray, quantile: float = Z95) -> np.ndarray:
    """[M, M]: whether estimate i is significantly lower than estimate j, by a paired 95% interval.

    `terms` : [M, units], as from `unit_terms`. A finite estimate is lower than an infinite one; two
    infinite ones are tied.

    >>> terms = np.array([[-0.1, 0.1, 0.0]] * 2)  # equal errors cancel in the difference
    >>> clearly_lower(np.array([0.5, 0.6]), terms).tolist()
    [[False, True], [False, False]]
    """
    finite = np.isfinite(values)
    lower = finite[:, None] & np.isposinf(values)[None, :]
    some, m = np.flatnonzero(finite), terms.shape[1]
    if len(some) > 1 and m > 1:
        relative = terms[some] - terms[some[0]]  # a common part would only cost digits
        products = relative @ relative.T * (m / (m - 1))
        variance = np.maximum(
            np.diag(products)[:, None] + np.diag(products)[None, :] - 2 * products, 0
        )
        gap = values[some, None] - values[None, some]
        lower[np.ix_(some, some)] = gap + quantile * np.sqrt(variance) < 0
    return lower


def ranks(lower: np.ndarray) -> np.ndarray:
    """1 + the number of models that are significantly lower; tied models may share a rank.

    >>> ranks(np.array([[False, True, True], [False, False, False], [False, False, False]]))
    array([1, 2, 2])
    """
    return np.asarray(1 + lower.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Resamples:
    """Resamples of the same rows for every model.

    weights, units : of each row. Units are resampled whole (`resampling.sampling_units`).
    counts : [1 + B, units], ones for the original rows and then how often each resample draws each
        unit.
    clusters : the cluster of each row, if rows are dependent.
    """

    weights: np.ndarray
    units: np.ndarray
    counts: np.ndarray
    clusters: np.ndarray | None = None
    seed: int = 0

    @classmethod
    def draw(
        cls, weights: np.ndarray, clusters: np.ndarray | None, resamples: int, seed: int
    ) -> Resamples:
        units = sampling_units(len(weights), seed, clusters)
        size = int(units.max()) + 1
        counts = np.vstack([np.ones(size), draw_units(size, resamples, seed)])
        return cls(weights, units, counts, clusters, seed)

    def sums(self, values: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
        """Sums of weight x value in the cells of each resample, [1 + B, cells]."""
        return np.asarray(self.counts @ self.by_unit(values, cell, cells))

    def by_unit(self, values: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
        """Sums of weight x value for each unit and cell, [units, cells]."""
        size = self.counts.shape[1]
        place = self.units * cells + cell
        total = np.bincount(place, self.weights * values, minlength=size * cells)
        return total.reshape(size, cells)

    def means(self, values: np.ndarray) -> np.ndarray:
        """The mean of the values in each resample, [1 + B]."""
        one = np.zeros(len(values), np.int64)
        total = self.sums(np.ones(len(values)), one, 1)
        return np.asarray(self.sums(values, one, 1) / total)[:, 0]


@dataclass(frozen=True)
class ResampledError:
    """An error of one model: its value, the errors of the original rows and of each resample [1 +
    B], and bounds of its bias.

    Sampling noise raises an error that cannot be negative. The bias depends on the true error. It
    is at most the mean error of a calibrated model (`most`), and at least the mean error of the
    resamples less that of the original rows, which is biased already (`least`).
    """

    value: float
    errors: np.ndarray
    least: float
    most: float

    @classmethod
    def of(cls, value: float, errors: np.ndarray, null: float | None) -> ResampledError:
        """`null` : the mean error of a calibrated model. If None, the bias is that of the
        resamples, which is right for a mean of squares."""
        excess = float(errors[1:].mean() - errors[0])
        return (
            cls(value, errors, excess, excess)
            if null is None
            else cls(value, errors, min(max(excess, 0.0), null), null)
        )

    def interval(self) -> tuple[float, float]:
        """The 95% interval of the debiased error, extended to contain the value."""
        low, high = percentile(_centred(self.errors))
        return max(0.0, min(self.value, self.value + low - self.most)), max(
            self.value, self.value + high - self.least
        )

    def minus(self, other: ResampledError) -> tuple[float, float, float]:
        """This error less that of another model, with the limits of the 95% interval. If both are
        equal in every resample, their biases cancel.

        >>> one = ResampledError(0.2, np.array([0.2, 0.1, 0.3]), 0.0, 0.1)
        >>> one.minus(one)
        (0.0, 0.0, 0.0)
        """
        value = self.value - other.value
        if value == 0 and np.array_equal(self.errors, other.errors):
            return 0.0, 0.0, 0.0
        low, high = percentile(_centred(self.errors - other.errors))
        low, high = value + low - self.most + other.least, value + high - self.least + other.most
        return value, min(value, low), max(value, high)


def _centred(errors: np.ndarray) -> np.ndarray:
    return np.asarray(errors[1:] - errors[1:].mean())


def _noise(view: View, weights: np.ndarray) -> np.ndarray:
    """The contribution of each row to the variance of the mean of target - output for a calibrated
    model."""
    p = np.clip(view.outputs, 0, 1)
    return np.asarray((weights / weights.sum()) ** 2 * p * (1 - p))


def _shared_noise(view: View, sample: Resamples, cell: np.ndarray, cells: int) -> np.ndarray:
    """The noise that clusters add to cells, [k, cells] (`Clusters.shared_noise`). It is estimated
    for BINS wide bins and divided among the cells of each bin by weight."""
    weights = sample.weights
    if sample.clusters is None:
        return np.zeros((0, cells))
    wide = np.arange(cells) * BINS // cells
    noise = Clusters(sample.clusters, weights / weights.sum()).shared_noise(
        view.labels - view.outputs, wide[cell], BINS
    )
    weight = np.bincount(cell, weights, minlength=cells)
    total = np.bincount(wide, weight, minlength=BINS)[wide]
    return np.asarray(
        noise[:, wide] * np.divide(weight, total, out=np.zeros(cells), where=total > 0)
    )


Draws = tuple[np.ndarray, float | None]  # errors [1 + B], and their mean for a calibrated model


@dataclass(frozen=True, eq=False)
class ResampledBins:
    """An event over fixed bins in each resample: the cells, [1 + B, bins]; and the noise of
    share x gap for a calibrated model: the standard deviation of independent noise, [bins], and the
    noise that clusters add, [k, bins]."""

    cells: Cells
    spread: np.ndarray
    shared: np.ndarray
    seed: int

    @classmethod
    def of(cls, view: View, partition: EqualWidth | EqualMass, sample: Resamples) -> ResampledBins:
        cell, bins = partition.cells(view.outputs), partition.bins
        weight, outputs, targets = (
            sample.sums(values, cell, bins)
            for values in (np.ones(len(cell)), view.outputs, view.labels)
        )
        scale = np.where(weight > 0, weight, 1.0)
        numbers = np.arange(bins)
        return cls(
            Cells(numbers, weight, weight, outputs / scale, targets / scale, weight),
            np.sqrt(np.bincount(cell, _noise(view, sample.weights), minlength=bins)),
            _shared_noise(view, sample, cell, bins),
            sample.seed,
        )

    @property
    def _mean_gaps(self) -> np.ndarray:
        """The mean of share x |gap| in each bin for a calibrated model: E|Z| is sqrt(2 / pi)."""
        variance = self.spread**2 + (self.shared**2).sum(axis=0)
        return np.asarray(np.sqrt(variance * 2 / np.pi))

    @property
    def _share(self) -> np.ndarray:
        """The share of each bin in the original rows; infinite for a bin without rows."""
        share = self.cells.share[0]
        return np.where(share > 0, share, np.inf)

    def mean(self) -> Draws:
        """The calibration error (ECE, ACE)."""
        return mean_gap(self.cells, L1()), float(self._mean_gaps.sum())

    def one_sided(self, distance: Over | Under) -> Draws:
        """The part of the error on one side."""
        return mean_gap(self.cells, distance), float(self._mean_gaps.sum()) / 2

    def unweighted(self) -> Draws:
        """The mean over bins that have rows."""
        null = (self._mean_gaps / self._share).sum() / np.isfinite(self._share).sum()
        return unweighted_gap(self.cells, L1()), float(null)

    def worst(self) -> Draws:
        """The largest error of any bin (MCE)."""
        calibrated = _calibrated_noise(self.spread, self.shared, self.seed)
        null = np.abs(calibrated / self._share).max(axis=1).mean()
        return worst_gap(self.cells, L1()), float(null)


def _calibrated_noise(spread: np.ndarray, shared: np.ndarray, seed: int) -> np.ndarray:
    """Simulated noise of a calibrated model, [CALIBRATED, cells]."""
    rng = np.random.default_rng(seed)
    calibrated = spread * rng.standard_normal((CALIBRATED, len(spread)))
    calibrated += rng.standard_normal((CALIBRATED, len(shared))) @ shared
    return np.asarray(calibrated)


def binned_errors(view: View, sample: Resamples, sides: tuple[str, str]) -> dict[str, Draws]:
    """Errors of an event over bins in each resample. `sides` : the names of the parts of the ECE
    from bins whose output lies above and below the rate."""
    width = ResampledBins.of(view, EqualWidth(BINS), sample)
    return {
        "ece": width.mean(),
        "ace": ResampledBins.of(view, EqualMass(BINS), sample).mean(),
        sides[0]: width.one_sided(Over()),
        sides[1]: width.one_sided(Under()),
        "mce": width.worst(),
        "average_calibration_error": width.unweighted(),
    }


def smoothed_errors(view: View, sample: Resamples, width: float) -> dict[str, Draws]:
    """SmoothECE and the kernel calibration error (a mean of squares) in each resample.

    width : the bandwidth of SmoothECE. A wider one allows a coarser grid.
    """
    p = np.clip(view.outputs, 0, 1)
    cells = next((n for n in SIZES if n * width >= STEPS), SIZES[-1])
    fine = np.minimum((p * cells).astype(np.int64), cells - 1)
    weight, outputs, targets = (
        sample.sums(values, fine, cells) for values in (np.ones(len(p)), view.outputs, view.labels)
    )
    total = weight.sum(axis=1, keepdims=True)
    spread = np.sqrt(np.bincount(fine, _noise(view, sample.weights), minlength=cells))
    shared = _shared_noise(view, sample, fine, cells)
    calibrated = _calibrated_noise(spread, shared, sample.seed)
    smooth, null = (
        smooth_error(r, precision=PRECISION)[0] for r in ((targets - outputs) / total, calibrated)
    )
    return {
        "smooth_ece": (smooth, float(null.mean())),
        "kernel_calibration_error": (kernel_error(weight, outputs, targets), None),
    }


def classwise_errors(probs: np.ndarray, labels: np.ndarray, sample: Resamples) -> Draws:
    """The mean over classes of the calibration error of each class, over bins of equal width."""
    classes, bins = probs.shape[1], EqualWidth(BINS)
    errors, null = np.zeros(len(sample.counts)), 0.0
    for first in range(0, classes, TOGETHER):
        tables = []
        for k in range(first, min(first + TOGETHER, classes)):
            view = OneVsRest(k).view(probs, labels)
            cell = bins.cells(view.outputs)
            tables.append(sample.by_unit(view.outputs - view.labels, cell, BINS))
            variance = np.bincount(cell, _noise(view, sample.weights), minlength=BINS)
            variance += (_shared_noise(view, sample, cell, BINS) ** 2).sum(axis=0)
            null += float(np.sqrt(variance * 2 / np.pi).sum())
        errors += np.abs(sample.counts @ np.hstack(tables)).sum(axis=1)
    total = sample.counts @ np.bincount(sample.units, sample.weights)
    return errors / (classes * total), null / classes


def pairwise_lower(errors: Sequence[ResampledError]) -> np.ndarray:
    """As `clearly_lower`, for resampled errors."""
    return np.array([[a is not b and a.minus(b)[2] < 0 for b in errors] for a in errors])
