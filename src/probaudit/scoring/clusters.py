"""Rows that are dependent within clusters: how much wider an interval must be, and how much more an
error varies.

Both depend on pairs of rows of the same cluster. What these pairs add to the variance of a mean of
all rows has an unbiased estimate from any sample of rows: the sample contains a pair with the
square of the probability of a row. Sums over all rows and a sample of them are therefore enough,
and every engine reports the same interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..choices.scores import Score
from ..data.predictions import Predictions
from .intervals import Z95, t95
from .row_scores import row_hits, row_scores

FEW_CLUSTERS = 30  # fewer leave an interval unreliable, however many rows there are
LEAST_EFFECT = 1e-9


def design_effect(
    influence: np.ndarray,
    share: np.ndarray,
    clusters: np.ndarray,
    fraction: float = 1.0,
    *,
    corrected: bool = True,
) -> float:
    """How many times larger the variance of an estimate is than if rows were independent (Kish
    1965).

    influence : how much each row moves the estimate. share : the share of each row in its mean.
        clusters : the cluster of each
        row, as whole numbers from 0 without gaps. fraction : the share of all rows that these rows
            are, sampled by number.

    Of all rows it is the cluster-robust variance, with the correction G / (G - 1) for G clusters
    (Liang & Zeger 1986) unless `corrected` is False, divided by that of independent rows; it may be
    below 1. Of a sample it is 1 + (the same - 1) / fraction, and at least 1, as the estimate is
    noisy. Where no row differs from another, nothing shows the dependence: each cluster then counts
    as one row.

    >>> share = np.full(4, 1 / 4)
    >>> design_effect(np.array([1.0, 1, -1, -1]), share, np.array([0, 0, 1, 1]))
    3.0
    >>> design_effect(np.zeros(4), share, np.array([0, 0, 1, 1]))
    2.0
    """
    count, n = int(clusters.max()) + 1, len(clusters)
    if count < 2:
        return math.nan
    terms = share * influence
    alone, together = float((terms**2).sum()), float((np.bincount(clusters, terms) ** 2).sum())
    if alone == 0:
        ratio = float((np.bincount(clusters, share) ** 2).sum() / (share**2).sum())
    else:
        ratio = together / alone * ((count / (count - 1)) * ((n - 1) / n) if corrected else 1.0)
    effect = 1 + (ratio - 1) / fraction
    return max(effect, 1.0 if fraction < 1 else LEAST_EFFECT) if math.isfinite(effect) else math.nan


@dataclass(frozen=True, eq=False)
class Clusters:
    """The cluster of each of some rows, as whole numbers from 0 without gaps; the share of each row
    in a mean; and the share of all rows that these are, if they are a sample."""

    number: np.ndarray
    share: np.ndarray
    fraction: float = 1.0

    @property
    def count(self) -> int:
        return int(self.number.max()) + 1

    def part(self, rows: np.ndarray) -> Clusters:
        """Of some of the rows, for an estimate that rests on these alone."""
        number = np.unique(self.number[rows], return_inverse=True)[1].reshape(-1)
        return Clusters(number, self.share[rows] / self.share[rows].sum())

    def widening(self, influence: np.ndarray) -> float:
        """How many times wider an interval is than that of independent rows: the root of the design
        effect, and a quantile of Student's distribution with one degree of freedom less than there
        are clusters in place of the normal one."""
        effect = design_effect(influence, self.share, self.number, self.fraction)
        return (
            math.sqrt(effect) * t95(self._freedom(influence, effect)) / Z95
            if math.isfinite(effect)
            else math.nan
        )

    def _freedom(self, influence: np.ndarray, effect: float) -> float:
        """Fewer where a sample of rows leaves the design effect uncertain (Satterthwaite 1946)."""
        if self.fraction == 1:
            return self.count - 1
        terms = self.share * influence
        pairs = np.bincount(self.number, terms) ** 2 - np.bincount(self.number, terms**2)
        noise = (
            float((pairs**2).sum())
            / max(float((terms**2).sum()) * self.fraction, np.finfo(float).tiny) ** 2
        )
        return min(self.count - 1, max(1.0, 2 * effect**2 / noise)) if noise > 0 else self.count - 1

    def cell_effects(self, residuals: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
        """The design effect of the mean residual of each cell, and at least 1; a cell of one
        cluster counts as one row. It is without the correction for few clusters: those who divide
        by it correct for few rows.

        >>> each = Clusters(np.array([0, 0, 1, 1]), np.full(4, 0.25))
        >>> each.cell_effects(np.array([1.0, 1, -1, -1]), np.zeros(4, int), 2)
        array([2., 1.])
        """
        found = np.ones(cells)
        for k in np.unique(cell).tolist():
            rows = np.flatnonzero(cell == k)
            number = np.unique(self.number[rows], return_inverse=True)[1].reshape(-1)
            effect = design_effect(
                residuals[rows], self.share[rows], number, self.fraction, corrected=False
            )
            found[k] = max(1.0, effect) if math.isfinite(effect) else len(rows) / self.fraction
        return found

    def shared_noise(self, residuals: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
        """What clusters add to the noise of the sums of share x residual over cells: [k, cells], of
        which k normal numbers make a draw. `residuals` are those of calibrated rows, target -
        output.

        Pairs of different rows of a cluster give a covariance of the sums of cells, which is
        without the rows' own variance. It is estimated, and so may have negative eigenvalues: these
        are cut off, and the others scaled to keep the total.
        """
        from scipy.sparse import csr_array

        terms = self.share * residuals
        table = csr_array((terms, (self.number, cell)), shape=(self.count, cells))
        pairs = (table.T @ table).toarray() - np.diag(np.bincount(cell, terms**2, minlength=cells))
        values, vectors = np.linalg.eigh(pairs)
        kept = values > 0
        total, positive = values.sum(), values[kept].sum()
        if not total > 0:
            return np.empty((0, cells))
        return np.asarray(np.sqrt(values[kept] * total / positive)[:, None] * vectors[:, kept].T)


@dataclass(frozen=True, eq=False)
class ClusteredRows:
    """The rows that count, with their clusters: all rows, or a sample that is a `fraction` of
    them."""

    rows: Predictions
    good: np.ndarray
    fraction: float = 1.0

    @cached_property
    def clusters(self) -> Clusters:
        number = np.asarray(self.rows.cluster_numbers)[self.good]
        weights = (
            np.ones(len(self.good))
            if self.rows.sample_weight is None
            else self.rows.sample_weight[self.good]
        )
        share = weights / weights.max()
        return Clusters(
            np.unique(number, return_inverse=True)[1].reshape(-1),
            share / share.sum(),
            self.fraction,
        )

    @property
    def codes(self) -> np.ndarray:
        return np.asarray(self.rows.codes[self.good])

    @cached_property
    def hits(self) -> np.ndarray:
        return row_hits(self.rows, self.good)

    def scores(self, rule: Score) -> np.ndarray:
        """What the rows score."""
        return row_scores(self.rows, self.good, {"score": rule})["score"]

    @property
    def words(self) -> str:
        """How the clusters are called in a definition.

        >>> ClusteredRows(Predictions([1, 0], [0.9, 0.2], clusters=[3, 4]), np.arange(2)).words
        '2 clusters'
        """
        count, where = self.clusters.count, "" if self.fraction == 1 else " in a sample"
        return f"{count:,} {'cluster' if count == 1 else 'clusters'}{where}"
