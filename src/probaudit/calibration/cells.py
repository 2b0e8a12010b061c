"""Cells of rows: their sums and means, and calibration errors over them.

A calibration error is the sum over cells of the cell's share times the distance between its mean
output and mean target. ECE, classwise, top-k, full and grouped ECE (Kirchenbauer et al. 2022,
Eq. 3) and the partitioned calibration error (Yang et al. 2023, Eq. 4) are all of this form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..choices.distances import L1, TVD, Distance, Squared
from ..choices.lenses import View
from ..choices.partitions import EqualWidth
from ..data.arrays import bits_of
from ..data.work import each_chunk
from ..errors import InputError
from .resampling import draw_counts, effective_rows

BATCH = 2**21  # numbers in a batch of resamples
ONE_ROW = 1 + 1e-9  # effective rows up to which a cell shows no variance
NEAR = 2**14  # numbers in a block of distances, so that it stays in the first cache levels


@dataclass(frozen=True)
class Cells:
    """For each cell: its number, rows, weight, mean output and mean target ([m] or [m, d]), and its
    effective number of rows, (sum w)^2 / sum w^2.

    Resamples, or classes, are the first axis: [B, m] or [B, m, d]. A cell may then be empty, with
    means of 0.
    """

    number: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray
    effective: np.ndarray

    @property
    def share(self) -> np.ndarray:
        return self.weight / self.weight.sum(axis=-1, keepdims=True)

    @property
    def weight_squared(self) -> np.ndarray:
        """sum w^2 of each cell, from the effective number of rows."""
        return np.divide(
            self.weight**2,
            self.effective,
            out=np.zeros_like(self.weight),
            where=self.effective > 0,
        )

    @property
    def each(self) -> list[Cells]:
        """The cells of each resample or class, without empty ones."""
        if self.weight.ndim == 1:
            return [self]
        fields = (self.rows, self.weight, self.outputs, self.targets, self.effective)
        return [
            Cells(self.number[w > 0], *(field[i][w > 0] for field in fields))
            for i, w in enumerate(self.weight)
        ]


CellError = Callable[[Cells], np.ndarray]  # one error for each resample


class Pooling(Protocol):
    """How the distances of all cells become one error, for each resample."""

    def __call__(self, cells: Cells, distance: Distance) -> np.ndarray: ...


def gaps(cells: Cells, distance: Distance) -> np.ndarray:
    """The distance between mean output and mean target in each cell, in the shape of the
    weights."""
    event = cells.outputs.ndim == cells.weight.ndim
    shape = (-1,) if event else (-1, cells.outputs.shape[-1])
    outputs, targets = cells.outputs.reshape(shape), cells.targets.reshape(shape)
    step = max(1, NEAR // math.prod(shape[1:]))
    parts = [
        distance.between(outputs[i : i + step], targets[i : i + step])
        for i in range(0, max(1, len(outputs)), step)
    ]
    return np.concatenate(parts).reshape(cells.weight.shape)


def mean_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The mean distance over cells, weighted by their shares, for each resample."""
    return np.asarray((cells.share * gaps(cells, distance)).sum(axis=-1))


def unweighted_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The mean distance over cells that have rows, all of which count the same, for each
    resample."""
    some = cells.weight > 0
    return np.asarray(np.where(some, gaps(cells, distance), 0.0).sum(axis=-1) / some.sum(axis=-1))


def worst_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The largest distance in any cell that has rows, for each resample."""
    return np.asarray(np.where(cells.weight > 0, gaps(cells, distance), -np.inf).max(axis=-1))


def debiased_gap(cells: Cells, distance: Distance) -> np.ndarray:
    """The mean distance less its bias due to sampling noise.

    The bias of a squared distance is t (1 - t) / (n - 1) for each mean target t (Kumar et al.
    2019). The bias of an absolute difference g of a single event is about E|g + s Z| - g, with Z
    standard normal and s^2 = t (1 - t) / n. This is the mean of a folded normal; Kumar et al.
    resample instead. For weighted rows n is the effective number of rows. Cells of one row show no
    variance and are left out.
    """
    event = cells.outputs.ndim == cells.weight.ndim
    if not (isinstance(distance, Squared) or (isinstance(distance, (L1, TVD)) and event)):
        rule = 'requires distance="squared", or "l1" with a lens of a single event'
        raise InputError("debias", rule, repr(distance))
    enough = cells.effective > ONE_ROW
    if not enough.any():
        raise InputError(
            "debias", "requires a cell of two rows or more", way_out=("use fewer cells",)
        )
    gap, noise = gaps(cells, distance), cells.targets * (1 - cells.targets)
    size = np.where(enough, cells.effective, 2.0)
    if isinstance(distance, Squared):
        bias = (noise if event else noise.sum(axis=-1)) / (size - 1)
    else:
        bias = folded_mean(gap, np.sqrt(noise / size)) - gap
    weight = np.where(enough, cells.weight, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weight * (gap - bias)).sum(axis=-1) / weight.sum(axis=-1))


def folded_mean(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """E|X| for normal X: the mean of a folded normal distribution."""
    from scipy.special import ndtr

    ratio = np.divide(mean, deviation, out=np.full_like(mean, 40.0), where=deviation > mean / 40)
    return deviation * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * (1 - 2 * ndtr(-ratio))


def single_row_cells(cells: Cells) -> np.ndarray:
    """Which cells have one effective row, too few to be debiased."""
    return (cells.weight > 0) & ~(cells.effective > ONE_ROW)


def gather_cells(view: View, cell: np.ndarray, weights: np.ndarray) -> Cells:
    """The cells that have weight, from the cell of each row."""
    from ..kernels.bins import add_event_rows, add_rows

    size = int(cell.max()) + 1 if len(cell) else 0
    labels, cell = np.ascontiguousarray(view.labels, np.int64), np.ascontiguousarray(cell, np.int64)
    if view.outputs.ndim == 1:
        high, low = np.zeros((2, size, 5))
        add_event_rows(
            np.ascontiguousarray(view.outputs, np.float64), labels, weights, cell, high, low
        )
        high += low
        rows, weight, squared, outputs, targets = high.T.copy()
    else:
        d = view.outputs.shape[1]
        high, low = np.zeros((2, size, 3 + 2 * d))
        add_rows(np.ascontiguousarray(view.outputs), labels, weights, cell, high, low)
        high += low
        rows, weight, squared = high[:, :3].T.copy()
        outputs, targets = high[:, 3 : 3 + d].copy(), high[:, 3 + d :].copy()
    kept = weight > 0
    if not kept.all():
        rows, weight, squared, outputs, targets = (
            field[kept] for field in (rows, weight, squared, outputs, targets)
        )
    # in place, because with many cells a copy takes longer than the division
    for field in (outputs, targets):
        field /= weight if field.ndim == 1 else weight[:, None]
    return Cells(
        np.flatnonzero(kept),
        rows.astype(np.int64),
        weight,
        outputs,
        targets,
        effective_rows(weight, squared),
    )


def gather_class_cells(
    probs: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    outputs: np.ndarray,
    bins: EqualWidth,
) -> Cells:
    """The cells of each class's probability over equal-width bins, as for Classwise(), in one pass.
    `outputs` : sums [K] of weighted probabilities."""
    from ..kernels.bins import Bins, class_bins

    n, K = probs.shape
    probs = np.ascontiguousarray(probs)
    bits, edges = bits_of(probs), Bins(bins.cuts, bins.first_beyond(probs.dtype), bins.right)

    def gather(part: slice) -> np.ndarray:
        sums = np.zeros((2, K, bins.bins, 5))
        class_bins(probs[part], bits[part], labels[part], weights[part], edges, sums)
        return sums

    sums = _added(each_chunk(probs, gather))
    hits, total, squares = (
        exact_sums(labels, weights, K),
        exact_total(weights),
        exact_total(weights**2),
    )
    totals = np.column_stack([np.full((K, 3), [n, total, squares]), outputs, hits])
    sums[:, 0] = totals - sums[:, 1:].sum(axis=1)
    sums[:, 0] *= sums[:, 0, :1] > 0.5  # a bin without rows contains only rounding errors
    rows, w, squared, p, y = sums.transpose(2, 0, 1)
    scale, squared = (np.where(field > 0, field, 1.0) for field in (w, squared))
    effective = effective_rows(w, squared)
    return Cells(
        np.arange(bins.bins),
        rows.astype(np.int64),
        w,
        p / scale,
        np.maximum(y, 0) / scale,
        effective,
    )


def _added(parts: list[np.ndarray]) -> np.ndarray:
    """The total of the chunks' sums, each given as high and low parts, by Knuth's two-sum."""
    (total, rest), *others = parts
    for high, low in others:
        before, total = total, total + high
        added = total - before
        rest = rest + ((before - (total - added)) + (high - added)) + low
    return np.asarray(total + rest)


def exact_sums(numbers: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums of values by number, as np.bincount computes them, but bit-identical for every order of
    the rows.

    >>> exact_sums(np.array([0, 0, 0, 1]), np.array([1e16, 1.0, -1e16, 0.5]), 2)
    array([1. , 0.5])
    """
    from ..kernels.bins import add_values

    high, low = np.zeros((2, size))
    add_values(
        np.ascontiguousarray(values, np.float64), np.ascontiguousarray(numbers, np.int64), high, low
    )
    return high + low


def exact_total(values: np.ndarray) -> float:
    """The sum of values, bit-identical for every order."""
    return float(exact_sums(np.zeros(len(values), np.int64), values, 1)[0])


@dataclass(frozen=True)
class Categories:
    """Categories of rows that share a cell and a label (and possibly more), in order of their
    cells: mean output and label, cell, mean weight and number of rows. `of_row` is the category of
    each row, if rows are known. A calibration error depends on the rows only through these."""

    view: View
    cell: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    of_row: np.ndarray | None = None

    def draw(self, resamples: int, seed: int | np.random.Generator) -> np.ndarray:
        """Counts [resamples, categories] in resamples of the rows."""
        n = int(self.counts.sum())
        return draw_counts(n, self.counts / n, resamples, seed)

    def errors(self, counts: np.ndarray, error: CellError) -> np.ndarray:
        """The error of each resample for counts [B, categories], with fixed cells."""
        return np.concatenate([np.atleast_1d(error(cells)) for cells in self.resampled(counts)])

    def resampled(self, counts: np.ndarray) -> Iterator[Cells]:
        """The cells of resamples with counts [B, categories], in batches."""
        starts = np.flatnonzero(np.r_[True, self.cell[1:] != self.cell[:-1]])
        width = len(starts) * (1 if self.view.outputs.ndim == 1 else self.view.outputs.shape[1])
        step = max(1, BATCH // max(len(self.cell), width))
        for first in range(0, len(counts), step):
            yield self._cells(counts[first : first + step], starts)

    def _cells(self, counts: np.ndarray, starts: np.ndarray) -> Cells:
        w = counts * self.weights

        def total(values: np.ndarray) -> np.ndarray:
            return np.add.reduceat(values, starts, axis=1)

        weight, even = total(w), np.ptp(self.weights) == 0
        rows = weight / self.weights[0] if even else total(counts)
        squared = weight * self.weights[0] if even else total(w * self.weights)
        if self.view.outputs.ndim == 1:
            outputs, targets = total(w * self.view.outputs), total(w * self.view.labels)
            scale = np.where(weight > 0, weight, 1)
        else:
            d = self.view.outputs.shape[1]
            outputs, targets = np.zeros((2, len(counts), len(starts), d))
            hot = np.eye(d)[self.view.labels]
            for number, (low, high) in enumerate(
                zip(starts, np.r_[starts[1:], len(self.cell)], strict=True)
            ):
                outputs[:, number] = w[:, low:high] @ self.view.outputs[low:high]
                targets[:, number] = w[:, low:high] @ hot[low:high]
            scale = np.where(weight > 0, weight, 1)[..., None]
        effective = effective_rows(weight, squared)
        return Cells(self.cell[starts], rows, weight, outputs / scale, targets / scale, effective)


def gather_categories(view: View, cell: np.ndarray, weights: np.ndarray) -> Categories:
    """The categories of rows."""
    labels = int(view.labels.max()) + 1
    codes, of_row = compact(cell * labels + view.labels)
    counts, weight = np.bincount(of_row), exact_sums(of_row, weights, len(codes))
    columns = view.outputs.reshape(len(view.outputs), -1).T
    outputs = np.column_stack(
        [exact_sums(of_row, weights * column, len(codes)) / weight for column in columns]
    )
    means = View(outputs[:, 0] if view.outputs.ndim == 1 else outputs, codes % labels)
    return Categories(means, codes // labels, weight / counts, counts, of_row)


def compact(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The codes that occur, in order, and the position of each row's code among them.

    >>> compact(np.array([7, 2, 7]))
    (array([2, 7]), array([1, 0, 1]))
    """
    if int(codes.max()) >= 4 * len(codes) + 1024:
        values, place = np.unique(codes, return_inverse=True)
        return values, place.reshape(-1)
    present = np.bincount(codes) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]
