"""Is a calibration error larger than expected if calibrated? The result type of all such tests,
their p-values, the correction for several of them, and the test itself.

The draws of calibrated models come from `null`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition
from ..choices.distances import Distance, as_distance
from ..choices.lenses import Lens, TopLabel, View
from ..choices.partitions import EqualWidth, Partition
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..engines.good_rows import survey
from ..errors import InputError
from .cells import gather_cells
from .gaps import mean_gap
from .intervals import check_resamples
from .null import RELATIVE_ROUNDING, ROUNDING, BinomialNull, SignedClusters, label_null
from .terms import even, row_terms, with_class_shares
from .views import LensRows, lens_rows


@dataclass(frozen=True)
class CalibrationTest:
    """A calibration error beside the errors of a calibrated model with the same outputs.

    null_mean, null_high : the mean and the 95% limit of the errors of a calibrated model.
    p_value : (1 + how many of these are at least as large) / (1 + how many were drawn), unless a
        tail probability is known exactly.
    """

    value: float
    p_value: float
    null_mean: float
    null_high: float
    n: int
    definition: str

    @classmethod
    def of(cls, value: float, null: np.ndarray, n: int, definition: str) -> CalibrationTest:
        """Given errors of calibrated models."""
        high, mean = float(np.quantile(null, 0.95)), float(null.mean())
        return cls(value, p_value(value, null), mean, high, n, definition)

    @property
    def excess(self) -> float:
        """The error less its mean if calibrated."""
        return self.value - self.null_mean


@documents_row_options
def calibration_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "l1",
    resamples: int = 999,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationTest:
    """Test whether the calibration error is larger than expected if calibrated, by simulating
    labels from the forecasts (consistency resampling).

    Labels of rows in `clusters` are dependent. A wild cluster bootstrap then also gives the
    residuals of each cluster a random sign (`null.SignedClusters`), and the larger of both p-values
    counts.

    The p-value is (1 + the number of resamples with an error at least as large) / (1 + resamples);
    `excess` is the error less its mean under calibration, `null_high` the 95% point.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> calibration_test(rng.random(500) < p, p).p_value > 0.05
    True
    """
    check_resamples(resamples)
    lens = TopLabel() if lens is None else lens
    partition = EqualWidth(15) if partition is None else partition
    metric = as_distance(distance)
    predictions = rows_of(y_true, y_proba, **options)
    shown = lens_rows(predictions, even(lens))
    terms = with_class_shares(
        row_terms(predictions, lens, partition), lens, lambda: survey(predictions).summary.priors
    )
    value = math.fsum(term.share * term.mean(mean_gap(term.cells, metric)) for term in terms)
    cells = [s.cells(partition) for s in shown]
    shares = [share for term in terms for _, share, _, _ in term.each]
    if len(shown) == 1 and shown[0].view.outputs.ndim == 1 and predictions.sample_weight is None:
        null = BinomialNull.of_view(shown[0].view, cells[0]).null(metric, resamples, seed)
    else:
        error = partial(_weighted_error, cells=cells, shares=shares, shown=shown, metric=metric)
        null = label_null(predictions, even(lens), shown, error, resamples, seed)
    against = "consistency resampling"
    if (clusters := predictions.cluster_numbers) is not None:
        if len(np.unique(clusters[shown[0].rows])) < 2:
            raise InputError("clusters", "a test requires two clusters or more", 1)
        signed = np.zeros(resamples)
        for s, c, share in zip(shown, cells, shares, strict=True):
            of_view = SignedClusters.of_view(s.view, c, s.weights, clusters[s.rows], seed=seed)
            signed += share * of_view.null(metric, resamples, seed)
        null, against = least_favourable(null, signed), f"{against} and a wild cluster bootstrap"
    words = Definition(f"calibration error against {against}", lens, partition, metric)
    words += f", {resamples} resamples"
    return CalibrationTest.of(value, null, len(shown[0].rows), words)


def _weighted_error(
    views: list[View],
    *,
    cells: list[np.ndarray],
    shares: list[float],
    shown: list[LensRows],
    metric: Distance,
) -> float:
    """The sum of share x error over views, given the cell of each row."""
    found = [gather_cells(v, c, s.weights) for v, c, s in zip(views, cells, shown, strict=True)]
    return math.fsum(
        share * float(mean_gap(c, metric)) for c, share in zip(found, shares, strict=True)
    )


def least_favourable(*nulls: np.ndarray) -> np.ndarray:
    """Draws [resamples] whose every quantile is the largest of those of the nulls: the p-value is
    the largest, too.

    >>> least_favourable(np.array([3.0, 0.0]), np.array([1.0, 2.0]))
    array([1., 3.])
    """
    return np.asarray(np.max([np.sort(null) for null in nulls], axis=0))


def at_least(null: np.ndarray, value: float) -> int:
    """How many resampled errors are as large. Errors of near-certain outputs are differences of
    numbers near 1, and few of them are possible: what differs by the rounding of such a difference
    ties.

    >>> at_least(np.array([7.45e-6 - 1e-15, 2.0, 0.0]), 7.45e-6)
    2
    """
    return int((null >= value - max(ROUNDING, RELATIVE_ROUNDING * abs(value))).sum())


def p_value(value: float, null: np.ndarray) -> float:
    """(1 + how many resampled errors are at least as large) / (1 + resamples)."""
    return (1 + at_least(null, value)) / (1 + len(null))


def holm(p_values: np.ndarray) -> np.ndarray:
    """The least level at which each hypothesis is rejected, if the probability of any false
    rejection among all is to stay below it (Holm 1979); it holds however the tests depend on each
    other.

    >>> holm(np.array([0.01, 0.5, 0.02])).round(3)
    array([0.03, 0.5 , 0.04])
    """
    order, m = np.argsort(p_values, kind="stable"), len(p_values)
    found = np.empty(m)
    found[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * (m - np.arange(m))))
    return found
