"""Paired differences of several models on the same rows.

Scores are means over rows, or ratios of means, so differences have linearised intervals.
Calibration errors are resampled, with the same resamples of sampling units for every model; the
cost does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..choices.distances import L1
from ..choices.lenses import View
from ..choices.partitions import EqualMass, EqualWidth
from ..scoring.clusters import Clusters
from ..scoring.intervals import Z95
from .cells import Cells, mean_gap
from .kernel_regression import kernel_error
from .resampling import draw_units, percentile
from .smooth import smooth_error

BINS = 15
SIZES = (105, 140, 210, 280, 420, 840)  # cells of the grids on which resamples are smoothed
STEPS = 5  # grid cells per bandwidth
CALIBRATED = 200  # simulations of a calibrated model, for the mean of its SmoothECE
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


@dataclass(frozen=True)
class UnitSums:
    """Sums of weights, of weighted outputs and of weighted targets for each unit and cell, [units,
    cells]."""

    weight: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(
        cls,
        view: View,
        cell: np.ndarray,
        cells: int,
        weights: np.ndarray,
        units: np.ndarray,
        size: int,
    ) -> UnitSums:
        place = units * cells + cell

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(place, values, minlength=size * cells).reshape(size, cells)

        return cls(total(weights), total(weights * view.outputs), total(weights * view.labels))

    def drawn(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three sums [B, cells] of resamples with counts [B, units]."""
        return counts @ self.weight, counts @ self.outputs, counts @ self.targets


def paired_counts(units: int, resamples: int, seed: int) -> np.ndarray:
    """Counts [1 + resamples, units] shared by all models: ones for the original rows, then the
    resamples."""
    return np.vstack([np.ones(units), draw_units(units, resamples, seed)])


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


def _shared_noise(
    view: View, weights: np.ndarray, clusters: np.ndarray | None, cell: np.ndarray, cells: int
) -> np.ndarray:
    """The noise that clusters add to cells, [k, cells] (`Clusters.shared_noise`). It is estimated
    for BINS wide bins and divided among the cells of each bin by weight."""
    if clusters is None:
        return np.zeros((0, cells))
    wide = np.arange(cells) * BINS // cells
    noise = Clusters(clusters, weights / weights.sum()).shared_noise(
        view.labels - view.outputs, wide[cell], BINS
    )
    weight = np.bincount(cell, weights, minlength=cells)
    total = np.bincount(wide, weight, minlength=BINS)[wide]
    return np.asarray(
        noise[:, wide] * np.divide(weight, total, out=np.zeros(cells), where=total > 0)
    )


def resampled_bins(
    view: View,
    partition: EqualWidth | EqualMass,
    weights: np.ndarray,
    units: np.ndarray,
    counts: np.ndarray,
    clusters: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """The calibration error in each resample, over fixed bins, and its mean for a calibrated
    model."""
    cell = partition.cells(view.outputs)
    sums = UnitSums.of(view, cell, partition.bins, weights, units, counts.shape[1])
    weight, outputs, targets = sums.drawn(counts)
    scale = np.where(weight > 0, weight, 1.0)
    errors = mean_gap(
        Cells(np.arange(partition.bins), weight, weight, outputs / scale, targets / scale, weight),
        L1(),
    )
    variance = np.bincount(cell, _noise(view, weights), minlength=partition.bins)
    variance += (_shared_noise(view, weights, clusters, cell, partition.bins) ** 2).sum(axis=0)
    return errors, float(np.sqrt(variance * 2 / np.pi).sum())  # E|Z| is sqrt(2 / pi)


def resampled_errors(
    view: View,
    weights: np.ndarray,
    loss: np.ndarray,
    units: np.ndarray,
    counts: np.ndarray,
    *,
    width: float,
    seed: int,
    clusters: np.ndarray | None = None,
) -> dict[str, tuple[np.ndarray, float | None]]:
    """Errors of the most probable class in each resample, each with its mean for a calibrated model
    if `ResampledError` needs it: ECE and ACE over fixed bins, SmoothECE, the kernel calibration
    error (a mean of squares), and the sharpness gap, the mean of `loss` less the kernel calibration
    error (Chidambaram & Ge 2024, Eq. 4.7).

    loss : the Brier score of each row.
    width : the bandwidth of SmoothECE. A wider one allows a coarser grid.
    """
    size, p = counts.shape[1], np.clip(view.outputs, 0, 1)
    cells = next((n for n in SIZES if n * width >= STEPS), SIZES[-1])
    fine = np.minimum((p * cells).astype(np.int64), cells - 1)
    weight, outputs, targets = UnitSums.of(view, fine, cells, weights, units, size).drawn(counts)
    total = weight.sum(axis=1, keepdims=True)
    spread = np.sqrt(np.bincount(fine, _noise(view, weights), minlength=cells))
    shared, rng = _shared_noise(view, weights, clusters, fine, cells), np.random.default_rng(seed)
    calibrated = spread * rng.standard_normal((CALIBRATED, cells))
    calibrated += rng.standard_normal((CALIBRATED, len(shared))) @ shared
    smooth, null = (
        smooth_error(r, precision=PRECISION)[0] for r in ((targets - outputs) / total, calibrated)
    )
    kernel = kernel_error(weight, outputs, targets)
    mean_loss = counts @ np.bincount(units, weights * loss, minlength=size) / total[:, 0]
    return {
        "ece": resampled_bins(view, EqualWidth(BINS), weights, units, counts, clusters),
        "ace": resampled_bins(view, EqualMass(BINS), weights, units, counts, clusters),
        "smooth_ece": (smooth, float(null.mean())),
        "kernel_calibration_error": (kernel, None),
        "sharpness_gap": (mean_loss - kernel, None),
    }


def pairwise_lower(errors: Sequence[ResampledError]) -> np.ndarray:
    """As `clearly_lower`, for resampled errors."""
    return np.array([[a is not b and a.minus(b)[2] < 0 for b in errors] for a in errors])
