"""Calibration errors of rows that are selected by their label, if the model is calibrated.

Such rows need not be calibrated, even if the model is. Labels are therefore drawn for all rows from
the forecasts, dependent within clusters, before rows are selected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..calibration.cells import gather_cells, mean_gap
from ..calibration.views import PreparedRows
from ..choices.distances import Distance, as_distance
from ..choices.lenses import Lens, View
from ..choices.partitions import Partition
from ..choices.selections import Selection
from ..engines.good_rows import GoodRows

# Probabilities read to draw labels. With many rows the null distribution is narrow, and fewer draws
# suffice.
MOST_WORK = 2 * 10**8
FEWEST_DRAWS = 20
PIECE = 2**16  # cumulative probabilities in memory at a time
PAIR_DRAWS = 20  # for the covariance within clusters under full dependence


def label_nulls(
    prepared: PreparedRows,
    selections: list[Selection],
    *,
    lens: Lens,
    partition: Partition,
    distance: str | Distance,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """Mean and 95% limit of the error of each selection, [selections, 2]. A selection that no drawn
    label falls into has NaN."""
    rows, clusters = prepared.rows, prepared.predictions.cluster_numbers
    metric, rng, total = as_distance(distance), np.random.default_rng(seed), len(rows.labels)
    draws = min(resamples, max(FEWEST_DRAWS, MOST_WORK // rows.probs.size))
    errors = np.full((draws, len(selections)), np.nan)
    dependence = None if clusters is None else Dependence.of(rng, rows, clusters, draws)
    for d, drawn in enumerate(draw_labels(rng, rows.probs, draws, dependence)):
        labels = drawn.astype(np.int64)
        for s, selection in enumerate(selections):
            kept = np.flatnonzero(selection.mask(View(rows.probs, labels)) & (rows.weights > 0))
            if len(kept):
                own = partition.select(kept, total)
                cells = [
                    gather_cells(view, own.cells(view.outputs), rows.weights[kept])
                    for view in lens.views(rows.probs[kept], labels[kept])
                ]
                errors[d, s] = np.mean([mean_gap(cell, metric) for cell in cells])
    known = np.isfinite(errors).any(axis=0)
    errors = np.where(known, errors, 0.0)  # nanmean warns about empty columns
    nulls = np.stack([np.nanmean(errors, axis=0), np.nanquantile(errors, 0.95, axis=0)], axis=1)
    return np.where(known[:, None], nulls, np.nan)


@dataclass(frozen=True, eq=False)
class Dependence:
    """Labels of dependent rows are drawn by inversion of uniform numbers: with probability `share`
    the number of the row's cluster, else a number of its own. Each label follows its forecast.

    common : the numbers of the clusters, [draws, clusters]. clusters : the cluster of each row.
    """

    common: np.ndarray
    clusters: np.ndarray
    share: float = 1.0

    @classmethod
    def of(
        cls,
        rng: np.random.Generator,
        rows: GoodRows,
        clusters: np.ndarray,
        draws: int,
    ) -> Dependence:
        """Choose the share that reproduces the covariance of the given labels within clusters. Its
        square is the ratio of two sums of products of residuals over pairs of rows: that of the
        given labels, and that of labels drawn from one number per cluster. With a single cluster
        the share is 1.
        """
        count = int(clusters.max()) + 1
        full = cls(rng.random((draws, count), np.float32), clusters)
        if count < 2:
            return full
        some = replace(full, common=full.common[:PAIR_DRAWS])
        drawn = draw_labels(rng, rows.probs, len(some.common), some).astype(np.int64)
        most = float(np.mean([_pair_products(rows, labels, clusters) for labels in drawn]))
        if not most > 0:
            return replace(full, share=0.0)
        ratio = np.clip(_pair_products(rows, rows.labels, clusters) / most, 0, 1)
        return replace(full, share=float(np.sqrt(ratio)))

    def mixed(self, rng: np.random.Generator, own: np.ndarray, first: int) -> np.ndarray:
        """The uniform numbers of rows from `first` on, given their own numbers [draws, rows]."""
        shared = self.common[:, self.clusters[first : first + own.shape[1]]]
        return np.where(rng.random(own.shape) < self.share, shared, own)


def _pair_products(rows: GoodRows, labels: np.ndarray, clusters: np.ndarray) -> float:
    """The sum of products of residuals over pairs of rows of a cluster and over classes."""
    from scipy.sparse import csr_array

    at, weights = np.arange(len(labels)), rows.weights / rows.weights.max()
    residuals = -weights[:, None] * rows.probs
    residuals[at, labels] += weights
    sums = csr_array((np.ones(len(at)), (clusters, at))) @ residuals
    return float((sums**2).sum() - (residuals**2).sum())


def draw_labels(
    rng: np.random.Generator,
    probs: np.ndarray,
    draws: int,
    dependence: Dependence | None = None,
) -> np.ndarray:
    """Labels [draws, n] drawn from forecasts [n, K], independent unless `dependence` is given.

    The cumulative forecasts of several rows, each shifted by its row number, form one increasing
    sequence, in which one binary search finds all draws.

    >>> probs = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> draw_labels(np.random.default_rng(0), probs, 2).tolist()
    [[1, 0], [1, 0]]
    """
    n, K = probs.shape
    labels, step = np.empty((draws, n), np.min_scalar_type(K - 1)), max(1, PIECE // K)
    for first in range(0, n, step):
        edges = np.cumsum(probs[first : first + step], axis=1, dtype=np.float64)
        edges /= edges[:, -1:]
        row = np.arange(len(edges))
        edges += row[:, None]
        numbers = rng.random((draws, len(edges)))
        numbers = numbers if dependence is None else dependence.mixed(rng, numbers, first)
        place = np.searchsorted(edges.ravel(), numbers + row, side="right") - K * row
        labels[:, first : first + step] = np.minimum(place, K - 1)
    return labels
