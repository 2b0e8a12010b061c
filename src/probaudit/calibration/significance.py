"""Is a calibration error larger than expected if calibrated? The test, its result, and all
p-values: from resamples, from exact tails, and adjusted for several tests.

Null distributions come from `null`. A p-value from B resamples is at least 1 / (B + 1), too large
to be significant among many classes. Exact tails (`exceedance`) go down to 1e-12, at the same cost
for each error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from ..choices.definitions import Definition, in_words
from ..choices.distances import Distance, as_distance
from ..choices.lenses import Lens, View, error_lens
from ..choices.partitions import EqualWidth, Partition, checked_partition
from ..data.arrays import data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..engines.good_rows import survey
from ..errors import InputError
from ..text import ShownAsTable, TextTable, capitalised, counted, number
from ..text import p_value as p_text
from .cells import gather_cells, mean_gap
from .null import (
    RELATIVE_ROUNDING,
    ROUNDING,
    BinomialNull,
    SignedClusters,
    label_null,
    least_favourable,
)
from .resampling import RESAMPLES, check_resamples, effective_rows
from .terms import even, row_terms, with_class_shares
from .views import LensRows, lens_rows

# of exact tails
TAIL_STEPS = 1024  # grid steps from 0 to the error
SMALLEST = 1e-12  # the rounding error of a sum of probabilities is about this
WIDE = 10.0  # standard deviations of a count within which its probabilities are computed
MARGIN = 20  # additional hits on each side, for skewed counts
MOST_COUNTED = 512  # a count with more values than this is taken as normal
TOGETHER = 64  # errors in a batch


@dataclass(frozen=True, repr=False)
class CalibrationTest(ShownAsTable):
    """A calibration error compared with the errors of a calibrated model with the same outputs.

    null_mean, null_high : the mean and the 95% limit of the errors of a calibrated model.
    p_value : (1 + resampled errors at least as large) / (1 + resamples), or an exact tail
        probability.
    """

    value: float
    p_value: float
    null_mean: float
    null_high: float
    n: int
    definition: str

    @classmethod
    def of(cls, value: float, null: np.ndarray, n: int, definition: str) -> CalibrationTest:
        """From errors of calibrated models."""
        high, mean = float(np.quantile(null, 0.95)), float(null.mean())
        return cls(value, p_value(value, null), mean, high, n, definition)

    @property
    def excess(self) -> float:
        """The error less the mean error of a calibrated model."""
        return self.value - self.null_mean

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row."""
        names = ("value", "null_mean", "null_high", "excess", "p_value", "n", "definition")
        return data_frame({name: [getattr(self, name)] for name in names})

    def _text_table(self) -> TextTable:
        numbers = (self.value, self.null_mean, self.null_high)
        return TextTable(
            f"{capitalised(in_words(self.definition))}, {counted(self.n)}",
            ("", "value", "if calibrated", "95% limit", "p"),
            [["calibration error", *map(number, numbers), p_text(self.p_value)]],
        )


@takes_row_options
def calibration_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "l1",
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationTest:
    """Test whether the calibration error is larger than expected if calibrated, by simulating
    labels from the forecasts (consistency resampling).

    Labels of rows in `clusters` are dependent. The test then also runs a wild cluster bootstrap,
    which gives the residuals of each cluster a random sign (`null.SignedClusters`), and reports the
    larger p-value.

    The p-value is (1 + the number of resamples with an error at least as large) / (1 + resamples).
    `excess` is the error less its mean if calibrated, `null_high` the 95% limit if calibrated.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> calibration_test(rng.random(500) < p, p).p_value > 0.05
    True
    """
    check_resamples(resamples)
    partition = checked_partition(partition, EqualWidth(15))
    metric = as_distance(distance)
    predictions = rows_of(y_true, y_proba, **options)
    lens = error_lens(predictions, lens)
    shown = lens_rows(predictions, even(lens))
    terms = with_class_shares(
        row_terms(predictions, lens, partition), lens, lambda: survey(predictions).summary.priors
    )
    value = math.fsum(term.share * term.mean(mean_gap(term.cells, metric)) for term in terms)
    cells = [s.cells(partition) for s in shown]
    shares = [share for term in terms for _, share, _, _ in term.each]
    if len(shown) == 1 and shown[0].view.outputs.ndim == 1 and predictions.sample_weight is None:
        null = shown[0].null(partition).null(metric, resamples, seed)
    else:
        error = partial(_weighted_error, cells=cells, shares=shares, shown=shown, metric=metric)
        null = label_null(predictions, even(lens), shown, error, resamples, seed)
    against = "consistency resampling"
    if (clusters := predictions.cluster_numbers) is not None:
        if len(np.unique(clusters[shown[0].rows])) < 2:
            raise InputError("clusters", "a test requires two clusters or more", "one cluster")
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
    gathered = [gather_cells(v, c, s.weights) for v, c, s in zip(views, cells, shown, strict=True)]
    return math.fsum(
        share * float(mean_gap(c, metric)) for c, share in zip(gathered, shares, strict=True)
    )


def at_least(null: np.ndarray, value: float) -> int:
    """The number of resampled errors that are at least as large. Errors of near-certain outputs are
    differences of numbers near 1 and take few values, so errors that differ only by rounding count
    as ties.

    >>> at_least(np.array([7.45e-6 - 1e-15, 2.0, 0.0]), 7.45e-6)
    2
    """
    return int((null >= value - max(ROUNDING, RELATIVE_ROUNDING * abs(value))).sum())


def p_value(value: float, null: np.ndarray) -> float:
    """(1 + the number of resampled errors at least as large) / (1 + resamples)."""
    return (1 + at_least(null, value)) / (1 + len(null))


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values adjusted by Holm's method (1979): rejecting those up to a level keeps the
    probability of any false rejection below it, however the tests depend on each other.

    >>> holm(np.array([0.01, 0.5, 0.02])).round(3)
    array([0.03, 0.5 , 0.04])
    """
    order, m = np.argsort(p_values, kind="stable"), len(p_values)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * (m - np.arange(m))))
    return adjusted


def false_discovery(p_values: np.ndarray) -> np.ndarray:
    """q-values by the method of Benjamini & Hochberg (1995): among those up to a level, the
    expected share of false rejections is at most that level, for independent tests.

    >>> false_discovery(np.array([0.01, 0.5, 0.02])).round(3)
    array([0.03, 0.5 , 0.03])
    """
    order, m = np.argsort(-p_values, kind="stable"), len(p_values)
    found = np.empty(m)
    found[order] = np.minimum.accumulate(p_values[order] * m / np.arange(m, 0, -1))
    return np.minimum(found, 1.0)


def exceedance(nulls: Sequence[BinomialNull], values: Iterable[float]) -> np.ndarray:
    """P(error >= value) for a calibrated model, for each binned error (distance L1), without
    simulation.

    W times the binned error is T = sum_b |H_b - E_b|. H_b, the hits in bin b, is a sum of
    independent binomials with mean E_b, and bins are independent. The probabilities of H_b come
    from its characteristic function (Hong 2013); |H_b - E_b| is rounded up to a grid of [0, t), and
    bins are added by convolution. Because of rounding up, P(T >= t) is slightly too large, never
    too small. Weighted rows count as their effective number, with equal weights in each bin.

    >>> rows = np.array([10])
    >>> one = BinomialNull(np.array([0]), rows, rows * 1.0, rows * 1.0, np.array([0.5]))
    >>> exceedance([one], [0.3]).round(6)  # at least 8, or at most 2, of 10
    array([0.109375])
    """
    values = np.array(list(values), np.float64)
    tails = np.ones(len(nulls))
    for first in range(0, len(nulls), TOGETHER):
        part = slice(first, first + TOGETHER)
        tails[part] = _tails(nulls[part], values[part])
    return tails


def _tails(nulls: Sequence[BinomialNull], values: np.ndarray) -> np.ndarray:
    totals = np.array([null.weight.sum() for null in nulls])
    limits = totals * (values * (1 - RELATIVE_ROUNDING) - ROUNDING)
    bins = [
        _bin_distributions(null, limit) if limit > 0 else []
        for null, limit in zip(nulls, limits, strict=True)
    ]
    most = max(map(len, bins), default=0)
    kept = np.zeros((len(nulls), TAIL_STEPS))
    kept[:, 0] = 1.0
    for place in range(most):
        some = [i for i, each in enumerate(bins) if len(each) > place]
        added = np.stack([bins[i][place] for i in some])
        size = 2 * TAIL_STEPS
        product = np.fft.rfft(kept[some], size) * np.fft.rfft(added, size)
        kept[some] = np.maximum(np.fft.irfft(product, size)[:, :TAIL_STEPS], 0.0)
    tails = np.where(limits > 0, 1 - kept.sum(axis=1), 1.0)
    return np.clip(tails, SMALLEST, 1.0)


def _bin_distributions(null: BinomialNull, limit: float) -> list[np.ndarray]:
    """The probabilities of |H_b - E_b| on the grid of [0, limit), for each bin. The probability of
    larger values is left out."""
    starts = np.flatnonzero(np.r_[True, np.diff(null.cell) > 0])
    ends = np.r_[starts[1:], len(null.cell)]
    size = np.maximum(1, np.rint(effective_rows(null.weight, null.weight_squared))).astype(np.int64)
    mean = np.clip(null.mean, 0, 1)
    parts = [slice(low, high) for low, high in zip(starts, ends, strict=True)]
    return [
        _bin_distribution(size[part], mean[part], null.weight[part] / size[part], limit)
        for part in parts
    ]


def _bin_distribution(
    size: np.ndarray, mean: np.ndarray, unit: np.ndarray, limit: float
) -> np.ndarray:
    """The same for one bin, in which each row has the weight `unit`."""
    varying = size * mean * (1 - mean)
    variance = float(varying.sum())
    kept = np.zeros(TAIL_STEPS)
    if variance <= 0:
        kept[0] = 1.0
        return kept
    scale = float(np.sqrt((unit**2 * varying).sum() / variance)) * TAIL_STEPS / limit
    expected = float((size * mean).sum())
    reach = WIDE * np.sqrt(variance) + MARGIN
    first = max(0, int(np.floor(expected - reach)))
    last = min(int(size.sum()), int(np.ceil(expected + reach)))
    if last - first >= MOST_COUNTED:
        return _normal_distribution(np.sqrt(variance) * scale)
    hits = np.arange(first, last + 1)
    probabilities = _count_probabilities(size, mean, first, last)
    place = np.ceil(np.abs(hits - expected) * scale * (1 - RELATIVE_ROUNDING)).astype(np.int64)
    inside = place < TAIL_STEPS
    return np.bincount(place[inside], probabilities[inside], minlength=TAIL_STEPS)


def _count_probabilities(size: np.ndarray, mean: np.ndarray, first: int, last: int) -> np.ndarray:
    """P(H = first), ..., P(H = last) for a sum H of binomials that is almost surely in this
    range."""
    count = 1 << (last - first).bit_length()  # the next power of 2, for the FFT
    turn = 2 * np.pi * np.arange(count // 2 + 1) / count
    with np.errstate(divide="ignore"):
        logs = size @ np.log(1 + mean[:, None] * np.expm1(1j * turn))
    probabilities = np.fft.irfft(np.exp(np.conj(logs) + 1j * turn * first), count)
    return np.maximum(probabilities[: last - first + 1], 0.0)


def _normal_distribution(deviation: float) -> np.ndarray:
    """The probabilities of |X| on the grid for normal X; `deviation` in steps of the grid."""
    from scipy.special import ndtr

    edges = np.arange(TAIL_STEPS) / deviation
    below = np.r_[0.0, 2 * ndtr(edges[1:]) - 1]
    return np.diff(below, prepend=0.0)
