"""Rows that are dependent within clusters: design effects, wider intervals and shared noise.

All of these depend on pairs of rows of the same cluster. What the pairs add to the variance of a
mean can be estimated without bias from a sample of rows: if a row is sampled with probability f, a
pair is sampled with probability f^2. Sums over all rows and a sample are therefore enough, and
every engine reports the same interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..choices.scores import Score
from ..data.predictions import Predictions
from ..errors import Argument, InputError
from .intervals import Z95, t95
from .row_scores import row_hits, row_scores

FEW_CLUSTERS = 30  # with fewer, an interval is unreliable, however many rows there are
LEAST_EFFECT = 1e-9


def clusters_unused(what: str, *instead: str | Argument) -> InputError:
    """The error to raise if clusters are passed to an estimate that ignores them.

    >>> raise clusters_unused("MMCE, which has no interval")
    Traceback (most recent call last):
    probaudit.errors.InputError: `clusters`: have no effect on MMCE, which has no interval. Leave \
them out.
    """
    return InputError("clusters", f"have no effect on {what}", way_out=(*instead, "leave them out"))


def design_effect(
    influence: np.ndarray,
    share: np.ndarray,
    clusters: np.ndarray,
    fraction: float = 1.0,
    *,
    corrected: bool = True,
) -> float:
    """The design effect (Kish 1965): the variance of an estimate divided by its variance for
    independent rows.

    influence : how much each row moves the estimate.
    share : the share of each row in the mean.
    clusters : the cluster of each row, numbered from 0 without gaps.
    fraction : the fraction of all rows that were sampled; 1 if these are all rows.
    corrected : multiply the variance by G / (G - 1) for G clusters.

    For all rows this is the ratio of the cluster-robust variance (Liang & Zeger 1986) to that of
    independent rows, and may be below 1. For a sample it is 1 + (ratio - 1) / fraction, but at
    least 1, as this estimate is noisy. If all influences are 0, the dependence cannot be estimated,
    and each cluster counts as one row.

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
    """The cluster of each row (numbered from 0 without gaps) and its share in a mean. `fraction` is
    below 1 if the rows are a sample: the fraction of all rows that it contains."""

    number: np.ndarray
    share: np.ndarray
    fraction: float = 1.0

    @property
    def count(self) -> int:
        return int(self.number.max()) + 1

    @property
    def words(self) -> str:
        """For definitions: "1 cluster", "1,200 clusters"."""
        return f"{self.count:,} {'cluster' if self.count == 1 else 'clusters'}"

    def part(self, rows: np.ndarray) -> Clusters:
        """The clusters of some of the rows, for an estimate from these rows only."""
        number = np.unique(self.number[rows], return_inverse=True)[1].reshape(-1)
        return Clusters(number, self.share[rows] / self.share[rows].sum())

    def widening(self, influence: np.ndarray) -> float:
        """How many times wider an interval is than for independent rows: the root of the design
        effect, times the ratio of Student's quantile (G - 1 degrees of freedom for G clusters) to
        the normal one."""
        effect = design_effect(influence, self.share, self.number, self.fraction)
        return (
            math.sqrt(effect) * t95(self._freedom(influence, effect)) / Z95
            if math.isfinite(effect)
            else math.nan
        )

    def _freedom(self, influence: np.ndarray, effect: float) -> float:
        """Degrees of freedom: G - 1, or fewer if the design effect is estimated from a sample
        (Satterthwaite 1946)."""
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
        """The design effect of the mean residual of each cell, at least 1. A cell with a single
        cluster counts as one row. There is no correction for few clusters, because callers divide
        rows by this effect and then correct for few rows.

        >>> each = Clusters(np.array([0, 0, 1, 1]), np.full(4, 0.25))
        >>> each.cell_effects(np.array([1.0, 1, -1, -1]), np.zeros(4, int), 2)
        array([2., 1.])
        """
        effects = np.ones(cells)
        for k in np.unique(cell).tolist():
            rows = np.flatnonzero(cell == k)
            number = np.unique(self.number[rows], return_inverse=True)[1].reshape(-1)
            effect = design_effect(
                residuals[rows], self.share[rows], number, self.fraction, corrected=False
            )
            effects[k] = max(1.0, effect) if math.isfinite(effect) else len(rows) / self.fraction
        return effects

    def shared_noise(self, residuals: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
        """What clusters add to the noise of the cells' sums of share x residual, as a factor
        [k, cells] of its covariance: k standard normal numbers times the factor are one draw.
        Residuals are target - output.

        The covariance is estimated from pairs of different rows of a cluster, so it excludes the
        variance of single rows and may have negative eigenvalues. These are set to 0, and the
        others are scaled to keep the trace.
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
    """The good rows with their clusters: all of them, or a sample (a `fraction` below 1)."""

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
        """The score of each row."""
        return row_scores(self.rows, self.good, {"score": rule})["score"]

    @property
    def words(self) -> str:
        """The clusters as a definition describes them.

        >>> ClusteredRows(Predictions([1, 0], [0.9, 0.2], clusters=[3, 4]), np.arange(2)).words
        '2 clusters'
        """
        return self.clusters.words + ("" if self.fraction == 1 else " in a sample")
