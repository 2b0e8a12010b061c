"""Groups the model misjudges: observed frequencies of regions with exact intervals, next to the
predicted probabilities, at a controlled false discovery rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np

from ..data.arrays import data_frame
from ..scoring.intervals import clopper_pearson
from ..text import ShownAsTable, TextTable, percent
from .event_loss import Measured, mask_index
from .lower_bound import ClusterMoments

LEVEL = 0.95
SHOWN = 10
PREDICTED = {"stated": "predicted"}  # fields whose columns have another name


def binomial_test(rate: np.ndarray, size: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The p-value of a binomial test of the predicted probability: twice the smaller tail. If rows
    have different probabilities, the count of hits varies less than a binomial count, so the test
    is conservative.

    >>> binomial_test(np.array([0.8]), np.array([10]), np.array([0.5])).round(4)
    array([0.1094])
    """
    from scipy.special import betainc

    hits, misses, p = rate * size, (1 - rate) * size, np.clip(predicted, 0, 1)
    some, short = hits > 1e-9, misses > 1e-9
    at_least = np.where(some, betainc(np.where(some, hits, 1.0), misses + 1, p), 1.0)
    at_most = np.where(short, 1 - betainc(hits + 1, np.where(short, misses, 1.0), p), 1.0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(at_least, at_most)))


def false_discovery(p_values: np.ndarray) -> np.ndarray:
    """The q-value of each p-value: the lowest false discovery rate at which it is a discovery
    (Benjamini & Hochberg 1995).

    >>> false_discovery(np.array([0.01, 0.5, 0.02])).round(3)
    array([0.03, 0.5 , 0.03])
    """
    order = np.argsort(p_values)
    scaled = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    found = np.empty(len(p_values))
    found[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return found


class Region(NamedTuple):
    """One region in plain values.

    number : its number in `GroupingLoss.region_of`.
    outputs : its bin of outputs in words, if it lies in one bin.
    stated, observed : the mean predicted probability, and the observed frequency with its 95%
        interval (Clopper-Pearson).
    expected : the observed frequency in whole bins.
    differs : whether `expected` lies outside the interval.
    q_value : the lowest false discovery rate at which the predicted probability is rejected.
    verdict : "over-confident", "under-confident", or "" if not significant (q_value above 0.05).
    share : its share of the plugin grouping loss.
    of_class : the class whose probability is judged; None for a single event.
    split : False if the region is a whole level set.
    """

    number: int
    rule: str
    outputs: str
    rows: int
    stated: float
    expected: float
    observed: float
    low: float
    high: float
    differs: bool
    q_value: float
    verdict: str
    share: float
    of_class: Any = None
    split: bool = True


class Origin(NamedTuple):
    """Where a region comes from: its rule and its bin of outputs in words, its class, and whether
    its level set was split."""

    rule: str
    outputs: str
    of_class: Any = None
    split: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class RegionTable(ShownAsTable):
    """Regions, sorted by their share of the loss, the largest first. Each is evaluated on rows that
    it was not learned from. `regions[0]` is a region, `regions[:3]` a table of the first three."""

    number: np.ndarray
    origin: Callable[[int], Origin]
    rows: np.ndarray
    stated: np.ndarray
    expected: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    q_value: np.ndarray
    share: np.ndarray

    @classmethod
    def of(
        cls,
        origin: Callable[[int], Origin],
        *,
        rows: np.ndarray,
        size: np.ndarray,
        stated: np.ndarray,
        expected: np.ndarray,
        observed: np.ndarray,
        share: np.ndarray,
    ) -> RegionTable:
        """From the effective number of rows, means and shares of regions 0..m-1."""
        low, high = clopper_pearson(observed, size)
        order = np.argsort(-share, kind="stable")
        return cls(
            number=order,
            origin=origin,
            rows=rows[order],
            stated=stated[order],
            expected=expected[order],
            observed=observed[order],
            low=low[order],
            high=high[order],
            q_value=false_discovery(binomial_test(observed, size, stated))[order],
            share=share[order],
        )

    @property
    def differs(self) -> np.ndarray:
        return (self.expected < self.low) | (self.expected > self.high)

    @property
    def verdict(self) -> np.ndarray:
        sure = self.q_value <= 1 - LEVEL
        return np.where(
            sure, np.where(self.stated > self.observed, "over-confident", "under-confident"), ""
        )

    def __len__(self) -> int:
        return len(self.number)

    @overload
    def __getitem__(self, place: int) -> Region: ...
    @overload
    def __getitem__(self, place: slice) -> RegionTable: ...
    def __getitem__(self, place: int | slice) -> Region | RegionTable:
        if isinstance(place, slice):
            kept = {name: column[place] for name, column in vars(self).items() if name != "origin"}
            return replace(self, **kept)
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        number = int(self.number[place])
        origin = self.origin(number)
        return Region(
            number=number,
            rule=origin.rule,
            outputs=origin.outputs,
            rows=int(self.rows[place]),
            stated=float(self.stated[place]),
            expected=float(self.expected[place]),
            observed=float(self.observed[place]),
            low=float(self.low[place]),
            high=float(self.high[place]),
            differs=bool(self.differs[place]),
            q_value=float(self.q_value[place]),
            verdict=str(self.verdict[place]),
            share=float(self.share[place]),
            of_class=origin.of_class,
            split=origin.split,
        )

    def __iter__(self) -> Iterator[Region]:
        return (self[place] for place in range(len(self)))

    def misjudged(self) -> list[Region]:
        """The regions whose predicted probabilities are wrong, at a false discovery rate of 5%."""
        return [self[place] for place in np.flatnonzero(self.verdict != "").tolist()]

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, for any data frame."""
        regions = list(self)
        return {name: [getattr(region, name) for region in regions] for name in Region._fields}

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each region."""
        return data_frame({PREDICTED.get(name, name): x for name, x in self.to_dict().items()})

    def _text_table(self) -> TextTable:
        rows = [
            [
                f"{region.rule}  {region.outputs}".strip(),
                f"{region.rows:,}",
                percent(region.stated),
                percent(region.observed),
                f"{percent(region.low)} to {percent(region.high)}",
                percent(region.share),
                region.verdict.replace("-", ""),
            ]
            for region in (self[place] for place in range(min(SHOWN, len(self))))
        ]
        more = len(self) - SHOWN
        headers = ("region", "rows", "predicted", "observed", "95% interval", "share of loss", "")
        note = f"and {more:,} more; to_frame() has all." if more > 0 else ""
        return TextTable(f"{len(self):,} regions", headers, rows, note)


def region_table(
    measured: Sequence[Measured], names: Sequence[Any] | None
) -> tuple[RegionTable, np.ndarray]:
    """All groups of all events, and the group of each row for each event, [rows, events].

    names : the class of each event; None for a single event.
    """
    first, sums, sizes, origin = 0, [], [], []
    group_of = np.full((measured[0].event.total, len(measured)), -1)
    for k, one in enumerate(measured):
        assignment, rated = one.assignment, mask_index(one.assignment.region >= 0)
        known, number = np.unique(assignment.group, return_inverse=True)
        number = number.reshape(-1)
        group = number[assignment.region[rated]]
        sums.append(_group_sums(one, number))
        sizes.append(_effective_rows(one, rated, group, sums[-1]))
        group_of[one.event.places[rated], k] = first + group
        in_one_bin = np.array_equal(assignment.group, np.arange(len(number)))
        spans = _spans(one, rated) if in_one_bin else [""] * len(known)
        origin += [(one, int(own), k, span) for own, span in zip(known, spans, strict=True)]
        first += len(known)
    rows, weight, _, predicted, expected, hits, loss = np.concatenate(sums, axis=1)

    def origin_of(number: int) -> Origin:
        one, own, k, span = origin[number]
        rule, split = one.assignment.rule(own), one.assignment.split(own)
        if names is None:
            return Origin(rule, span, split=split)
        return Origin(f"class {names[k]}: {rule}", span, names[k], split)

    table = RegionTable.of(
        origin_of,
        rows=rows,
        size=np.concatenate(sizes),
        stated=predicted / weight,
        expected=expected / weight,
        observed=hits / weight,
        share=loss / loss.sum() if loss.sum() > 0 else np.zeros(len(loss)),
    )
    return table, group_of


def _group_sums(one: Measured, number: np.ndarray) -> np.ndarray:
    """Sums over the regions of each group: rows, weights, squared weights, outputs, hits expected
    from the rates of level sets, hits, and explained loss, [7, groups]. `number` is the group of
    each region."""
    by_region = [
        one.rows,
        one.counts.weight,
        one.counts.squared,
        one.predicted,
        one.counts.weight * one.level_rate[one.assignment.level],
        one.counts.hits,
        one.explained.by_region,
    ]
    return np.stack([np.bincount(number, part) for part in by_region])


def _effective_rows(one: Measured, rated: Any, group: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The effective number of rows of each group, for exact intervals and tests."""
    _, weight, squared, _, _, hits, _ = sums
    rows, event = weight**2 / squared, one.event
    if event.clusters is None:
        return np.asarray(rows)
    moments = ClusterMoments.of(
        group, event.clusters[rated], event.weights[rated], event.hits[rated], len(weight)
    )
    return moments.tested_size(hits / weight, weight, rows)


def _spans(one: Measured, rated: Any) -> list[str]:
    """The range of outputs in the bin of each region, in words."""
    bins, outputs = one.bins[rated], one.outputs[rated]
    size = 1 + max(int(bins.max()), int(one.assignment.bin.max()))
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, bins, outputs)
    np.maximum.at(high, bins, outputs)
    spans = [
        f"predicted {a:.3g} to {b:.3g}" if a <= b else "" for a, b in zip(low, high, strict=True)
    ]
    return [spans[b] for b in one.assignment.bin]
