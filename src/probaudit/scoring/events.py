"""One event as a table of its distinct probabilities, and intervals of estimates computed from it.

Ranking measures, net benefit and risk-coverage curves depend on a row only through its probability
and on whether the event happened. The table therefore answers for rows in memory and for the fine
grid of a stream alike. Each estimate has an influence function (Hampel 1974), from which its
standard error follows without resampling, also for weighted and for dependent rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..choices.lenses import Lens, TopLabel, event_lens
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from ..states import EventSums
from .clusters import Clusters
from .intervals import Z95, t95, wilson

CONSTANT_ROWS = 100  # with one probability, from which it is taken as a constant


@dataclass(frozen=True, eq=False)
class EventRows:
    """Rows behind a table: the place of each row's probability in it, whether the event happened,
    their weights, their clusters if they are dependent, and their numbers in the data."""

    place: np.ndarray
    happened: np.ndarray
    weight: np.ndarray
    clusters: Clusters | None
    number: np.ndarray


@dataclass(frozen=True, eq=False)
class EventTable:
    """Distinct probabilities in rising order, and sums over the rows that have each of them.

    p : [m].
    count, weight, squared : [m, 2], the number of rows in which the event did not happen and in
        which it did, and the sums of their weights and of their squared weights.
    rows : the rows, where they are in memory.
    words : what a definition adds about the rows.
    """

    p: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    squared: np.ndarray
    rows: EventRows | None = None
    words: str = ""

    @classmethod
    def of(cls, predictions: Predictions, lens: Lens | None = None) -> EventTable:
        """The event that a lens shows; by default that of `event_lens`."""
        pairs = predictions.pairs and lens == TopLabel()
        lens = event_lens(predictions, None if pairs else lens)
        good = GoodRows.of(predictions)
        views = good.views(lens)
        if len(views) != 1 or views[0].outputs.ndim != 1:
            raise InputError("lens", "must show a single event", repr(lens))
        view = views[0]
        number = predictions.cluster_numbers
        clusters = None
        if number is not None:
            own = np.unique(number[good.places], return_inverse=True)[1].reshape(-1)
            clusters = Clusters(own, good.weights / good.weights.sum())
        return cls.of_rows(view.outputs, view.labels, good.weights, clusters, good.places)

    @classmethod
    def of_rows(
        cls,
        outputs: np.ndarray,
        happened: np.ndarray,
        weights: np.ndarray | None = None,
        clusters: Clusters | None = None,
        number: np.ndarray | None = None,
    ) -> EventTable:
        """The order of the rows does not change a bit of the table, as counts are whole numbers and
        weighted rows are added in the order of their weights.

        >>> EventTable.of_rows(np.array([0.5, 0.2, 0.5]), np.array([1, 0, 0])).weight.tolist()
        [[1.0, 0.0], [1.0, 1.0]]
        """
        outputs = np.clip(np.asarray(outputs, np.float64), 0.0, 1.0)
        happened = np.asarray(happened, np.int64)
        weight = np.ones(len(outputs)) if weights is None else np.asarray(weights, np.float64)
        p, place = np.unique(outputs, return_inverse=True)
        code = 2 * place.reshape(-1) + happened
        order = np.lexsort((weight, code)) if np.ptp(weight) > 0 else slice(None)

        def table(values: np.ndarray) -> np.ndarray:
            total = np.bincount(code[order], values[order], minlength=2 * len(p))
            return np.asarray(total.reshape(-1, 2))

        number = np.arange(len(outputs)) if number is None else number
        rows = EventRows(place.reshape(-1), happened, weight, clusters, number)
        words = "" if clusters is None else f", {clusters.words}"
        count = np.bincount(code, minlength=2 * len(p)).reshape(-1, 2)
        return cls(p, count, table(weight), table(weight**2), rows, words)

    @classmethod
    def of_sums(cls, sums: EventSums) -> EventTable:
        """The event as a stream counts it: probabilities in one cell of the grid count as equal."""
        kept = np.flatnonzero(sums.weight > 0)
        weight = np.column_stack([sums.weight - sums.hits, sums.hits])[kept]
        each = sums.weight_squared[kept] / sums.weight[kept]  # exactly 1 if rows have no weights
        squared = weight * each[:, None]
        words = f", on a grid of {len(sums.rows):,} cells"
        # rounded, so that rows with the same output are at it, and at thresholds equal to it
        place = np.clip(np.round(sums.outputs[kept] / sums.weight[kept], 12), 0.0, 1.0)
        count = np.column_stack([sums.rows - sums.hit_rows, sums.hit_rows])[kept]
        return cls(place, count, weight, squared, words=words)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.count.sum())

    @property
    def constant(self) -> bool:
        """Whether rows have the same probability, and are enough to call it a constant."""
        return len(self.p) == 1 and self.n >= CONSTANT_ROWS

    @property
    def weighted(self) -> bool:
        return not np.array_equal(self.weight, self.squared)

    @cached_property
    def share(self) -> np.ndarray:
        """The share of all rows, [m, 2]."""
        return np.asarray(self.weight / self.weight.sum())

    @cached_property
    def rate(self) -> float:
        """How often the event happened."""
        without, happened = self.weight.sum(axis=0).tolist()  # exactly 1 if it always happened
        return float(happened / (without + happened))

    @cached_property
    def predicted(self) -> float:
        """The mean probability."""
        return float(self.share.sum(axis=1) @ self.p)

    @cached_property
    def effective_rows(self) -> float:
        """The effective number of rows (Kish 1965), (sum w)^2 / sum w^2."""
        return float(self.weight.sum() ** 2 / self.squared.sum())

    def at_least(self, values: np.ndarray) -> np.ndarray:
        """Sums of values [m, ...] over all probabilities that are not smaller."""
        return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])

    def widening(self, influence: np.ndarray) -> float:
        """How many times wider clusters make an interval; 1 for independent rows."""
        if self.rows is None or self.rows.clusters is None:
            return 1.0
        place = 2 * self.rows.place + self.rows.happened
        return self.rows.clusters.widening(np.take(np.ascontiguousarray(influence), place))

    def standard_error(self, influence: np.ndarray) -> float:
        """The standard error of an estimate, given its influence function [m, 2]; widened for few
        rows of either kind and for clusters, so that 1.96 times it is half of the 95% interval.

        Rows with and without the event are two samples: each adds its variance, with the usual
        correction, and Student's t has Satterthwaite's degrees of freedom.
        """
        weight, squared = self.weight.sum(axis=0), self.squared.sum(axis=0)
        size = np.divide(weight**2, squared, out=np.zeros(2), where=squared > 0)
        if self.n < 2:
            return math.nan
        each = (self.squared * influence**2).sum(axis=0) / float(self.weight.sum()) ** 2
        fewer = np.maximum(size - 1, 0.5)
        each = each * np.maximum(size, 1.0) / fewer
        total, wider = float(each.sum()), self.widening(influence)
        if total == 0:
            return 0.0 if math.isfinite(wider) else math.nan
        freedom = max(1.0, total**2 / float((each**2 / fewer).sum()))
        return math.sqrt(total) * t95(freedom) / Z95 * wider


def bounded_estimate(
    event: EventTable, value: float, influence: np.ndarray, words: str, *, rows: float
) -> Estimate:
    """An estimate between 0 and 1 with Wilson's interval of a proportion that has the same standard
    error. `rows` : how many rows count where no row differs from another, as with an AUC of 1."""
    error, uncertainty = event.standard_error(influence), value * (1 - value)
    if not math.isfinite(error):
        return Estimate(value, n=event.n, definition=words + event.words)
    size = uncertainty / error**2 if error > 0 and uncertainty > 0 else rows
    low, high = wilson(min(max(value, 0.0), 1.0), size)
    return Estimate(value, low=low, high=high, n=event.n, definition=words + event.words)


def normal_estimate(event: EventTable, value: float, influence: np.ndarray, words: str) -> Estimate:
    """An estimate with its linearised interval."""
    half = Z95 * event.standard_error(influence)
    return Estimate(
        value, low=value - half, high=value + half, n=event.n, definition=words + event.words
    )
