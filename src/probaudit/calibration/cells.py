"""Cells: rows judged together, as sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..choices.lenses import View
from ..choices.partitions import EqualWidth
from ..data.arrays import bits_of
from ..data.parallel import each_chunk
from .resampling import draw_counts

BATCH = 2**21  # numbers of a batch of resamples that are in memory at a time


@dataclass(frozen=True)
class Cells:
    """For each cell: its number, rows, weight, mean output and mean target ([m], or [m, d]), and
    (sum w)^2 / sum w^2.

    Resamples, or classes, come in front, as [B, m] or [B, m, d]; there a cell may be empty, and its
    means are 0.
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
    def each(self) -> list[Cells]:
        """One of each that come in front, without empty cells."""
        if self.weight.ndim == 1:
            return [self]
        fields = (self.rows, self.weight, self.outputs, self.targets, self.effective)
        return [
            Cells(self.number[w > 0], *(field[i][w > 0] for field in fields))
            for i, w in enumerate(self.weight)
        ]


CellError = Callable[[Cells], np.ndarray]  # one error for each resample


def effective_rows(weight: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """How many rows of equal weight say as much (Kish 1965): (sum w)^2 / sum w^2; 0 where the
    squares are too small to be told from 0."""
    return np.divide(weight**2, squared, out=np.zeros_like(weight), where=squared > 0)


def gather_cells(view: View, cell: np.ndarray, weights: np.ndarray) -> Cells:
    """Means over the rows of each cell that has any weight."""
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
    # in place: of many cells, a copy would take longer than the division
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
    """The cells of each class's probability over equal bins: what Classwise() shows, in one pass.
    `outputs` are the sums [K] of weighted probabilities."""
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
    sums[:, 0] *= sums[:, 0, :1] > 0.5  # without rows, nothing but rounding is left
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
    """Sums of several chunks of rows, each as high and low parts."""
    from ..kernels.bins import add_values

    size = parts[0][0].size
    found, place = np.zeros((2, size)), np.arange(size)
    for high, low in parts:
        add_values(high.reshape(-1), place, *found)
        found[1] += low.reshape(-1)
    return np.asarray(found.sum(axis=0).reshape(parts[0][0].shape))


def exact_sums(numbers: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums of values by number, as np.bincount gives them; the same bits for every order of the
    rows.

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
    """The sum of values; the same bits for every order."""
    return float(exact_sums(np.zeros(len(values), np.int64), values, 1)[0])


@dataclass(frozen=True)
class Categories:
    """Rows that share a cell and a label (and perhaps more) as one: mean output, label, cell in
    rising order, mean weight, how many they are, and (if rows are known) the category of each. A
    calibration error depends on the rows only through these."""

    view: View
    cell: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    of_row: np.ndarray | None = None

    def draw(self, resamples: int, seed: int | np.random.Generator) -> np.ndarray:
        """Counts of the categories in resamples of the rows, [resamples, categories]."""
        n = int(self.counts.sum())
        return draw_counts(n, self.counts / n, resamples, seed)

    def errors(self, counts: np.ndarray, error: CellError) -> np.ndarray:
        """The error in each resample, with the cells held fixed, given counts [B, categories]."""
        return np.concatenate([np.atleast_1d(error(cells)) for cells in self.resampled(counts)])

    def resampled(self, counts: np.ndarray) -> Iterator[Cells]:
        """The cells if the categories had these counts, [B, categories]; some resamples at a
        time."""
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
    """The codes that occur, in order, and the place of each row's among them.

    >>> compact(np.array([7, 2, 7]))
    (array([2, 7]), array([1, 0, 1]))
    """
    if int(codes.max()) >= 4 * len(codes) + 1024:
        values, place = np.unique(codes, return_inverse=True)
        return values, place.reshape(-1)
    present = np.bincount(codes) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]
