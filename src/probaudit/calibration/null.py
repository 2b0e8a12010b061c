"""Null distributions: calibration errors of a calibrated model with the same outputs.

Labels of independent rows are simulated from the forecasts (consistency resampling). The joint
distribution of dependent labels is unknown, so for clusters there is a second null, a wild cluster
bootstrap (`SignedClusters`). As a few residuals do not show rare events, an error must be large
under both (`least_favourable`). p-values are in `significance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choices.distances import Distance
from ..choices.lenses import Lens, View
from ..choices.partitions import EqualWidth
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from .cells import Cells, compact, exact_sums, mean_gap
from .fine_grid import FineGrid
from .resampling import effective_rows, sampling_units

if TYPE_CHECKING:
    from .views import LensRows

# bins of [0, 1] within which all rows of a cell get the same probability when labels are simulated
OUTPUT_LEVELS = 840
# rounding errors of outputs, and of sums of about 1 added in another order
ROUNDING, RELATIVE_ROUNDING = 1e-13, 1e-9
# draws that a null keeps: those of a calibrated model, and those around the observed gaps
KEPT_DRAWS = 2


@dataclass(frozen=True)
class BinomialNull:
    """Consistency resampling of a single event. Rows of the same cell and nearly the same output
    form a step: its cell (in increasing order), rows, sums of w and w^2, and mean output.

    memo : keeps the last simulated hits, which errors of the same cells share.
    """

    cell: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    weight_squared: np.ndarray
    mean: np.ndarray
    memo: dict[tuple[Any, ...], np.ndarray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of_view(
        cls, view: View, cell: np.ndarray, weights: np.ndarray | None = None
    ) -> BinomialNull:
        """From the rows of a single event."""
        codes, of_row = compact(
            cell * OUTPUT_LEVELS + EqualWidth(OUTPUT_LEVELS).cells(np.clip(view.outputs, 0, 1))
        )
        rows = np.bincount(of_row)
        if weights is None or np.ptp(weights) == 0:
            weight = squared = rows * 1.0
            return cls(
                codes // OUTPUT_LEVELS,
                rows,
                weight,
                squared,
                exact_sums(of_row, view.outputs, len(codes)) / rows,
            )
        weight, squared, outputs = (
            exact_sums(of_row, part, len(codes))
            for part in (weights, weights**2, weights * view.outputs)
        )
        return cls(codes // OUTPUT_LEVELS, rows, weight, squared, outputs / weight)

    @classmethod
    def of_cells(cls, cells: Cells) -> BinomialNull:
        """From cells, all rows of a cell having the same probability."""
        return cls(cells.number, cells.rows, cells.weight, cells.weight_squared, cells.outputs)

    @classmethod
    def of_grid(cls, grid: FineGrid, cell: np.ndarray) -> BinomialNull:
        """From a fine grid. `cell` : the cell of the partition for each kept cell of the grid."""
        kept = np.flatnonzero(grid.kept)
        step = kept * OUTPUT_LEVELS // len(grid.rows)
        starts = np.flatnonzero(np.r_[True, (np.diff(cell) > 0) | (np.diff(step) > 0)])
        fields = (grid.rows, grid.weight, grid.weight_squared, grid.outputs)
        rows, weight, squared, outputs = (np.add.reduceat(field[kept], starts) for field in fields)
        return cls(cell[starts], rows, weight, squared, outputs / weight)

    def calibrated(self, resamples: int, seed: int = 0, shared: np.ndarray | None = None) -> Cells:
        """The cells [resamples, m] of a calibrated model with the same outputs. Hits among equally
        probable rows are binomial; weighted rows count as their effective number (Kish 1965).
        `shared` : the noise that clusters add, [k, cells] (`Clusters.shared_noise`)."""
        starts = self._starts
        terms = (self.weight, self.weight_squared, self.weight * self.mean)
        weight, squared, outputs = (np.add.reduceat(term, starts) for term in terms)
        hits = self._hits(np.clip(self.mean, 0, 1), resamples, seed)
        if shared is not None:
            hits = np.clip(hits + self._shared(shared, resamples, seed), 0, weight)
        fixed = (weight, weight, outputs / weight, effective_rows(weight, squared))
        rows, weight, outputs, effective = (np.broadcast_to(field, hits.shape) for field in fixed)
        return Cells(self.cell[starts], rows, weight, outputs, hits / weight, effective)

    @property
    def _starts(self) -> np.ndarray:
        return np.flatnonzero(np.r_[True, np.diff(self.cell) > 0])

    def _hits(self, mean: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Simulated sums of targets [resamples, m] for the given probabilities of the steps."""
        key = mean.tobytes(), resamples, seed
        if key not in self.memo:
            if len(self.memo) == KEPT_DRAWS:
                del self.memo[next(iter(self.memo))]
            rng = np.random.default_rng(seed)
            hits = draw_hits(rng, self.weight, self.weight_squared, mean, resamples)
            self.memo[key] = np.add.reduceat(hits, self._starts, axis=1)
        return self.memo[key]

    def _shared(self, shared: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Simulated noise of clusters in the sums of targets [resamples, m]."""
        numbers = np.random.default_rng([seed, 1]).standard_normal((resamples, len(shared)))
        return np.asarray(numbers @ shared[:, self.cell[self._starts]] * self.weight.sum())

    def noise(
        self, gaps: np.ndarray, resamples: int, seed: int, shared: np.ndarray | None = None
    ) -> np.ndarray:
        """Simulated deviations [resamples, m] of a sample's gaps from the gaps [m] of the
        population. `shared` as in `calibrated`."""
        starts = self._starts
        rows = np.diff(np.r_[starts, len(self.cell)])
        mean = np.clip(np.clip(self.mean, 0, 1) - np.repeat(gaps, rows), 0, 1)
        weight, expected = (
            np.add.reduceat(term, starts) for term in (self.weight, self.weight * mean)
        )
        hits = self._hits(mean, resamples, seed)
        if shared is not None:
            hits = np.clip(hits + self._shared(shared, resamples, seed), 0, weight)
        return np.asarray((expected - hits) / weight)

    def null(self, distance: Distance, resamples: int, seed: int) -> np.ndarray:
        """Errors of a calibrated model."""
        return mean_gap(self.calibrated(resamples, seed), distance)


def draw_hits(
    rng: np.random.Generator,
    weight: np.ndarray,
    squared: np.ndarray,
    mean: np.ndarray,
    resamples: int,
) -> np.ndarray:
    """Simulated sums of targets [resamples, m] in groups of equally probable rows, from their sums
    of weights and of squared weights. Weighted rows count as their effective number (Kish 1965).

    All draws of a group follow each other: the generator prepares each binomial once."""
    size = np.maximum(1, np.rint(effective_rows(weight, squared))).astype(np.int64)
    hits = rng.binomial(size[:, None], mean[:, None], (len(mean), resamples))
    return np.asarray(hits.T * (weight / size), order="C")


@dataclass(frozen=True, eq=False)
class SignedClusters:
    """A wild cluster bootstrap with the null imposed (Cameron, Gelbach & Miller 2008): all
    residuals (target - output) of a cluster get the same random sign.

    Residuals are not centred at the gaps of cells, because a cell with a single cluster would then
    have no noise. (With 100 clusters of 20 calibrated rows, a test at 5% rejects 6%; with centred
    residuals, 8%.)

    sums : weight x residual of each cluster and cell, [clusters, m] or [clusters, m x d].
    weight, effective : of each cell, [m].
    outputs : the mean output of each cell, [m] or [m, d].
    """

    sums: np.ndarray
    weight: np.ndarray
    effective: np.ndarray
    outputs: np.ndarray

    @classmethod
    def of_view(
        cls,
        view: View,
        cell: np.ndarray,
        weights: np.ndarray,
        clusters: np.ndarray,
        *,
        size: int = 0,
        seed: int = 0,
    ) -> SignedClusters:
        """From rows. More than 1,000 clusters are merged at random into 1,000. Two clusters or more
        are needed: the errors of a single one are the same under either sign.

        cell, clusters : of each row, numbered from 0.
        size : the least number of cells.
        """
        from scipy.sparse import csr_array

        units = sampling_units(len(cell), seed, clusters)
        n, m = int(units.max()) + 1, max(size, int(cell.max()) + 1)
        at = np.arange(len(cell))
        rows = csr_array((weights, (cell, at)), shape=(m, len(cell)))
        weight = np.asarray(rows.sum(axis=1)).reshape(-1)
        columns = view.outputs.reshape(len(cell), -1)
        outputs = rows @ columns / np.where(weight > 0, weight, 1.0)[:, None]
        residuals = view.targets.reshape(len(cell), -1) - columns
        table = csr_array((weights, (units * m + cell, at)), shape=(n * m, len(cell)))
        effective = effective_rows(weight, np.bincount(cell, weights**2, minlength=m))
        sums = (table @ residuals).reshape(n, -1)
        return cls(sums, weight, effective, outputs.reshape(m, *view.outputs.shape[1:]))

    def calibrated(self, resamples: int, seed: int = 0) -> Cells:
        """The cells [resamples, m] of a calibrated model. Signs depend only on `seed` and the
        clusters, so that errors of several views of the same rows can be averaged draw by draw.

        >>> view = View(np.array([0.5, 0.5, 0.5, 0.5]), np.array([1, 1, 0, 0]))
        >>> cell, clusters = np.zeros(4, int), np.array([0, 0, 1, 1])
        >>> signed = SignedClusters.of_view(view, cell, np.ones(4), clusters)
        >>> np.unique(signed.calibrated(999).targets)
        array([0. , 0.5, 1. ])
        """
        signs = np.random.default_rng(seed).integers(0, 2, (resamples, len(self.sums))) * 2.0 - 1
        scale = np.where(self.weight > 0, self.weight, 1.0).reshape(
            -1, *[1] * (self.outputs.ndim - 1)
        )
        targets = self.outputs + (signs @ self.sums).reshape(resamples, *self.outputs.shape) / scale
        shape = (resamples, len(self.weight))
        weight, effective = (
            np.broadcast_to(field, shape) for field in (self.weight, self.effective)
        )
        outputs = np.broadcast_to(self.outputs, targets.shape)
        return Cells(np.arange(len(self.weight)), weight, weight, outputs, targets, effective)

    def null(self, distance: Distance, resamples: int, seed: int = 0) -> np.ndarray:
        """Errors of a calibrated model."""
        errors = mean_gap(self.calibrated(resamples, seed), distance)
        if not np.isfinite(errors).all():
            rule = "must be finite for any difference if rows have clusters"
            raise InputError("distance", rule, repr(distance), way_out=('use "l1"',))
        return errors


def least_favourable(*nulls: np.ndarray) -> np.ndarray:
    """Draws [resamples] each quantile of which is the largest among the nulls, so that the p-value
    is the largest, too.

    >>> least_favourable(np.array([3.0, 0.0]), np.array([1.0, 2.0]))
    array([1., 3.])
    """
    return np.asarray(np.max([np.sort(null) for null in nulls], axis=0))


def label_null(
    predictions: Predictions,
    lens: Lens,
    shown: list[LensRows],
    error: Callable[[list[View]], float],
    resamples: int,
    seed: int,
) -> np.ndarray:
    """Errors of a calibrated model, by simulating a label for each row. All views of a row use the
    same label, as they are dependent."""
    rng, null = np.random.default_rng(seed), np.empty(resamples)
    rows = GoodRows.of(predictions) if len(shown) > 1 else None
    for i in range(resamples):
        if rows is None:
            views = [View(s.view.outputs, draw_labels(rng, s.view.outputs)) for s in shown]
        else:
            views = lens.views(rows.probs, draw_labels(rng, rows.probs))
        null[i] = error(views)
    return null


def draw_labels(rng: np.random.Generator, outputs: np.ndarray) -> np.ndarray:
    """A label for each row, sampled from its forecast."""
    if outputs.ndim == 1:
        return (rng.random(len(outputs)) < outputs).astype(np.int64)
    edges = np.cumsum(outputs, axis=1)
    return (
        (rng.random((len(outputs), 1)) * edges[:, -1:] >= edges)
        .sum(axis=1)
        .clip(max=outputs.shape[1] - 1)
    )


def classwise_null(
    probs: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    bins: EqualWidth,
    resamples: int,
    seed: int = 0,
) -> tuple[float, np.ndarray]:
    """The classwise error (L1) of the rows, and the errors [resamples] of calibrated models.

    Each row gets one label, so the errors of classes are dependent. Only labels other than the most
    probable class are sampled, so the cost grows with their number and not with the rows. A row has
    such a label with probability 1 - p(top): the probability that a Poisson process of rate
    -log p(top) has an event."""
    rng, (n, K) = np.random.default_rng(seed), probs.shape
    cell = np.arange(K) * bins.bins + bins.cells(probs.reshape(-1)).reshape(n, K)
    expected = np.bincount(cell.reshape(-1), (weights[:, None] * probs).reshape(-1), K * bins.bins)
    row, top, others = np.arange(n), probs.argmax(axis=1), probs.astype(np.float64)
    others[row, top] = 0

    rate = np.cumsum(np.log1p(others.sum(axis=1) / probs[row, top]))
    events = rng.random(rng.poisson(resamples * rate[-1])) * resamples
    resample = np.minimum(events.astype(np.int64), resamples - 1)
    place = np.minimum(np.searchsorted(rate, (events - resample) * rate[-1], side="right"), n - 1)
    resample, place = np.divmod(np.unique(resample * n + place), n)
    edges = np.cumsum(others[place], axis=1)
    drawn = (rng.random((len(place), 1)) * edges[:, -1:] >= edges).sum(axis=1).clip(max=K - 1)

    def hits(
        rows: np.ndarray, classes: np.ndarray, of: np.ndarray | int = 0, count: int = 1
    ) -> np.ndarray:
        codes = of * expected.size + cell[rows, classes]
        return np.bincount(codes, weights[rows], count * expected.size).reshape(count, -1)

    def error(hits: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(hits - expected).sum(axis=1) / (K * weights.sum()))

    moved = hits(place, drawn, resample, resamples) - hits(place, top[place], resample, resamples)
    errors = error(hits(row, top) + moved)
    return float(error(hits(row, labels))[0]), errors
