"""A continuous calibration curve: the frequency of an event at each output, by local regression or
nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

POINTS = 512  # with more rows than this, neighbouring rows form one point of the curve
SPAN = 0.15
MOST_NEIGHBOURS, NEIGHBOUR_SHARE = 2000, 0.1


@dataclass(frozen=True)
class CurvePoints:
    """Points of the curve in rising order. A point is the rows of one level set with nearly equal
    outputs; it has their mean output, observed rate, weight and effective number.

    of_row : the point of each row.
    """

    outputs: np.ndarray
    rates: np.ndarray
    weight: np.ndarray
    effective: np.ndarray
    level: np.ndarray
    of_row: np.ndarray

    @classmethod
    def of(
        cls, outputs: np.ndarray, hits: np.ndarray, weights: np.ndarray, level: np.ndarray
    ) -> CurvePoints:
        """Level sets are ranges of outputs. Equal outputs share a point."""
        order = np.argsort(outputs, kind="stable")
        x, sorted_level = outputs[order], level[order]
        fresh = np.r_[True, x[1:] != x[:-1]]
        # for each row, the first row with the same output
        first = np.maximum.accumulate(np.where(fresh, np.arange(len(x)), 0))
        rank = first * POINTS // max(len(x), POINTS) if len(x) > POINTS else first
        # outputs of 0 and 1 are separate points: their log loss is infinite if they are wrong
        sure = (x <= 0) | (x >= 1)
        begins = np.r_[True, (np.diff(rank) > 0) | (np.diff(sorted_level) != 0) | np.diff(sure)]
        of_row = np.empty(len(x), np.int64)
        of_row[order] = np.cumsum(begins) - 1
        weight = np.bincount(of_row, weights)
        mean = np.bincount(of_row, weights * outputs) / weight
        mean = np.where(
            sure[begins], x[begins], np.clip(mean, np.finfo(float).tiny, np.nextafter(1, 0))
        )
        return cls(
            mean,
            np.bincount(of_row, weights * hits) / weight,
            weight,
            weight**2 / np.bincount(of_row, weights * weights),
            sorted_level[begins],
            of_row,
        )

    @cached_property
    def smoother(self) -> np.ndarray:
        return local_regression(self.outputs, self.weight)

    def curve(self, rates: np.ndarray, keep_ends: bool) -> np.ndarray:
        """The smoothed rates, [..., points]. With `keep_ends`, those of outputs 0 and 1 are not
        smoothed."""
        smooth = np.clip(rates @ self.smoother.T, 0, 1)
        return (
            np.where((self.outputs <= 0) | (self.outputs >= 1), rates, smooth)
            if keep_ends
            else smooth
        )


class BoxPoints(CurvePoints):
    """Level sets of several outputs, each a point whose rate is not smoothed."""

    @cached_property
    def smoother(self) -> np.ndarray:
        return np.eye(len(self.outputs))


# rows per regression term that a box needs for squares and products of outputs
ROWS_PER_TERM = 10


@dataclass(frozen=True)
class BoxCurve:
    """Calibrated outputs from a regression of one-hot labels on the outputs within each box of a
    k-d tree.

    fitted : [rows, classes]. rows : the rows of each box.
    terms : for each box, the centred regressors of its rows, [rows, terms].
    slopes : for each box, the covariance of the fitted slopes, [classes, terms, terms]. It is
        biased downwards, because residuals are.
    """

    fitted: np.ndarray
    rows: list[np.ndarray]
    terms: list[np.ndarray]
    slopes: list[np.ndarray]

    @classmethod
    def of(
        cls,
        outputs: np.ndarray,
        hits: np.ndarray,
        weights: np.ndarray,
        box: np.ndarray,
        units: np.ndarray | None,
    ) -> BoxCurve:
        """Weighted least squares. units : the cluster of each row, if rows are dependent."""
        order = np.argsort(box, kind="stable")
        rows = np.split(order, np.flatnonzero(np.diff(box[order])) + 1)
        fitted, terms, slopes = np.empty(hits.shape), [], []
        for inside in rows:
            w, y = weights[inside], hits[inside]
            x = _regressors(outputs[inside], w)
            mean = w @ y / w.sum()
            inverse = np.linalg.pinv((x * w[:, None]).T @ x, rcond=1e-9, hermitian=True)
            fit = mean + x @ (inverse @ (x * w[:, None]).T @ (y - mean))
            fitted[inside] = fit
            terms.append(x)
            slopes.append(
                _slope_covariance(x, w, y - fit, inverse, None if units is None else units[inside])
            )
        return cls(fitted, rows, terms, slopes)

    def noise(
        self, region: np.ndarray, level: np.ndarray, weights: np.ndarray, scaled: bool = False
    ) -> np.ndarray:
        """The mean contribution of noise in the slopes to the weighted variance, within level sets,
        of the mean fitted value of each region, [classes]. A row may be its own region.

        scaled : multiply by rows / degrees of freedom, which removes the downward bias.
        """
        total, found = 0.0, np.zeros(self.fitted.shape[1])
        for inside, x, slopes in zip(self.rows, self.terms, self.slopes, strict=True):
            used = region[inside] >= 0
            r, own, w, z = region[inside][used], level[inside][used], weights[inside][used], x[used]
            total += w.sum()
            if not len(w) or not x.shape[1]:
                continue
            means, mass = (
                _means(r, w, z),
                np.bincount(np.unique(r, return_inverse=True)[1].reshape(-1), w),
            )
            spread = (means * mass[:, None]).T @ means
            outer, whole = (
                _means(own, w, z),
                np.bincount(np.unique(own, return_inverse=True)[1].reshape(-1), w),
            )
            factor = len(x) / max(1, len(x) - x.shape[1] - 1) if scaled else 1.0
            found += factor * np.einsum(
                "ij,kij->k", spread - (outer * whole[:, None]).T @ outer, slopes
            )
        return np.asarray(found / total)


def _means(cell: np.ndarray, w: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weighted means over the cells that occur, [cells, terms]."""
    place = np.unique(cell, return_inverse=True)[1].reshape(-1)
    mass = np.bincount(place, w)
    return np.column_stack([np.bincount(place, w * column) / mass for column in values.T])


def _regressors(outputs: np.ndarray, w: np.ndarray) -> np.ndarray:
    """All outputs but the last, with their squares and products if there are enough rows, centred
    and scaled."""
    x = outputs[:, :-1].astype(np.float64)
    d, n = x.shape[1], len(x)
    if n < ROWS_PER_TERM * d:
        return x[:, :0]
    x = x - w @ x / w.sum()
    x = x / max(float(np.abs(x).max()), np.finfo(float).tiny)
    if n >= ROWS_PER_TERM * d * (d + 3) // 2:
        i, j = np.triu_indices(d)
        x = np.column_stack([x, x[:, i] * x[:, j]])
        x = x - w @ x / w.sum()
    return np.asarray(x)


def _slope_covariance(
    x: np.ndarray,
    w: np.ndarray,
    residual: np.ndarray,
    inverse: np.ndarray,
    units: np.ndarray | None,
) -> np.ndarray:
    """The sandwich covariance of each class, [classes, terms, terms]; scores are summed by unit."""
    scores = (x * w[:, None])[:, None, :] * residual[:, :, None]  # [rows, classes, terms]
    if units is not None:
        place = np.unique(units, return_inverse=True)[1].reshape(-1)
        summed = np.zeros((int(place.max()) + 1, *scores.shape[1:]))
        np.add.at(summed, place, scores)
        scores = summed
    middle = np.einsum("nki,nkj->kij", scores, scores)
    return np.asarray(inverse @ middle @ inverse)


def local_regression(outputs: np.ndarray, weight: np.ndarray, span: float = SPAN) -> np.ndarray:
    """The smoother matrix from rates at rising outputs to a curve there: straight lines, fitted
    with tricube weights to the nearest points that hold `span` of the weight (LOWESS without its
    robust steps, Cleveland 1979).

    >>> smoother = local_regression(np.linspace(0, 1, 50), np.ones(50), 0.3)
    >>> bool(np.allclose(smoother @ np.linspace(0.2, 0.7, 50), np.linspace(0.2, 0.7, 50)))
    True
    """
    reach = _reach(outputs, weight, span)
    gap = outputs[None, :] - outputs[:, None]
    near = np.abs(gap) / np.maximum(reach, np.finfo(float).tiny)[:, None]
    kernel = np.maximum(0.0, 1 - near**3) ** 3 * weight
    mass, first, second = (
        kernel.sum(axis=1),
        (kernel * gap).sum(axis=1),
        (kernel * gap**2).sum(axis=1),
    )
    spread = mass * second - first**2
    line = spread > 1e-9 * mass * second  # else all weight lies at one output, and the mean is used
    slanted = (
        kernel * (second[:, None] - first[:, None] * gap) / np.where(line, spread, 1.0)[:, None]
    )
    return np.asarray(np.where(line[:, None], slanted, kernel / mass[:, None]))


def _reach(outputs: np.ndarray, weight: np.ndarray, span: float) -> np.ndarray:
    """The distance from each output that covers `span` of the weight, by bisection."""
    total = np.r_[0.0, np.cumsum(weight)]
    low, high = np.zeros(len(outputs)), np.full(len(outputs), 1.0 + np.ptp(outputs))
    for _ in range(40):
        middle = (low + high) / 2
        mass = (
            total[np.searchsorted(outputs, outputs + middle, "right")]
            - total[np.searchsorted(outputs, outputs - middle)]
        )
        enough = mass >= span * total[-1]
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def nearest_neighbours(outputs: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The rate of the event among the nearest rows of each row: 2,000, but at most a tenth of all.
    Ties in distance go to the lower output.

    >>> rates = nearest_neighbours(np.arange(30.0), np.repeat([0.0, 1.0], 15), np.ones(30))
    >>> rates[[0, 14, 15]].round(2)
    array([0.  , 0.33, 0.67])
    """
    k = max(1, min(MOST_NEIGHBOURS, int(NEIGHBOUR_SHARE * len(outputs))))
    order = np.argsort(outputs, kind="stable")
    x, row = outputs[order], np.arange(len(outputs))
    # where the window of k rows may begin
    low, high = np.maximum(0, row - k + 1), np.minimum(row, len(x) - k)
    while (low < high).any():
        middle = (low + high) // 2
        move = (low < high) & (x - x[middle] > x[np.minimum(middle + k, len(x) - 1)] - x)
        low, high = np.where(move, middle + 1, low), np.where(move | (low >= high), high, middle)
    sums = [np.r_[0.0, np.cumsum(values[order])] for values in (weights * hits, weights)]
    found = np.empty(len(x))
    found[order] = (sums[0][low + k] - sums[0][low]) / (sums[1][low + k] - sums[1][low])
    return found
