"""What happens at a decision threshold, in numbers and in words: acting on an event, or answering
only confident rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..scoring.operating_points import OperatingPoints
from ..text import MISSING, percent, significant

RARE = 0.01  # event rate below which numbers are of 100,000 rows
RELATIVE = "cost / same decision for all"


@dataclass(frozen=True, eq=False)
class Threshold(ABC):
    """The rule at each threshold, for the original outputs and, after them, the recalibrated ones
    if there are any. Numbers are of `per` rows."""

    points: dict[str, OperatingPoints]
    names: ClassVar[tuple[str, ...]]
    tips: ClassVar[dict[str, str]]
    ratio_name: ClassVar[str]
    field: ClassVar[tuple[str, str]]
    ends: ClassVar[tuple[str, str]]

    @cached_property
    def per(self) -> int:
        return 100_000 if next(iter(self.points.values())).rate < RARE else 1_000

    @property
    def rows_words(self) -> str:
        return f"of {self.per:,} rows"

    def rows(self, share: float | np.floating) -> int:
        """A share of the rows, of `per` rows."""
        return round(float(share) * self.per)

    def threshold(self, k: int) -> float:
        return float(next(iter(self.points.values())).thresholds[k])

    @property
    @abstractmethod
    def lead(self) -> str:
        """The rule, and the best threshold."""

    @property
    @abstractmethod
    def axis(self) -> str:
        """What the threshold is on."""

    @abstractmethod
    def ratio(self, k: int) -> float:
        """The ratio of costs at the threshold."""

    @abstractmethod
    def label(self, k: int) -> str:
        """The rule, and the costs for which it is the best one."""

    @abstractmethod
    def words(self, k: int) -> str:
        """What happens."""

    @abstractmethod
    def cells(self, one: OperatingPoints, k: int) -> list[str]:
        """The numbers, by `names`."""


@dataclass(frozen=True, eq=False)
class Acting(Threshold):
    """Act on rows with at least the threshold as the probability of an event."""

    event: str
    names = (
        "acted on",
        "hits",
        "hits predicted",
        "false alarms",
        "misses",
        "cost",
        RELATIVE,
    )
    tips: ClassVar[dict[str, str]] = {
        "hits": "acted on, and the event happened",
        "hits predicted": "the sum of the probabilities of the rows acted on: the hits of a "
        "calibrated model",
        "misses": "the event happened, and the row was not acted on",
        "cost": "the cheaper error, a false alarm or a miss, costs 1",
        RELATIVE: "the cost divided by that of acting on all rows or on none, the cheaper of the "
        "two",
    }
    ratio_name = "miss / false alarm"
    field = ("A miss costs", "times a false alarm")
    ends = ("misses are costly", "false alarms are costly")

    @property
    def lead(self) -> str:
        return (
            f"Act if the {self.axis} is at least the threshold. The best threshold of calibrated "
            "probabilities is the cost of a false alarm / (that cost + the cost of a miss)."
        )

    @property
    def axis(self) -> str:
        return f"probability of {self.event}"

    def ratio(self, k: int) -> float:
        t = self.threshold(k)
        return round((1 - t) / t, 9)

    def label(self, k: int) -> str:
        return f"Act if the {self.axis} is at least {self.threshold(k):.0%}: {self._costs(k)}."

    def _costs(self, k: int) -> str:
        ratio = self.ratio(k)
        if ratio == 1:
            return "a miss and a false alarm cost the same"
        if ratio > 1:
            return f"a miss costs {significant(ratio, 2)} times a false alarm"
        return f"a false alarm costs {significant(1 / ratio, 2)} times a miss"

    def cells(self, one: OperatingPoints, k: int) -> list[str]:
        hits, alarms = self.rows(one.hits[k]), self.rows(one.false_alarms[k])
        counts = [
            hits + alarms,
            hits,
            self.rows(one.predicted_hits[k]),
            alarms,
            self.rows(one.misses[k]),
            self.rows(one.cost[k]),
        ]
        return [*(f"{count:,}" for count in counts), percent(one.relative_cost[k])]

    def words(self, k: int) -> str:
        parts = []
        for place, one in enumerate(self.points.values()):
            acted, hits, predicted, alarms, misses, _, _ = self.cells(one, k)
            happens = f"{_of(hits, 'hit')} ({predicted} predicted), {_of(alarms, 'false alarm')}"
            which = "Recalibrated" if place else f"Of {self.per:,} rows"
            missed = _of(misses, "miss", "misses")
            parts.append(f"{which}, the rule acts on {acted}: {happens}; {missed}.")
        return f"{' '.join(parts)} {self._cost_words(k)}"

    def _cost_words(self, k: int) -> str:
        first, last = next(iter(self.points.values())), list(self.points.values())[-1]
        unit = "a false alarm" if self.ratio(k) >= 1 else "a miss"
        everything, nothing = float(first.cost_all[k]), float(first.cost_none[k])
        constant = "all" if everything < nothing else "none"
        other = f"acting on {constant} costs {self.rows(min(everything, nothing)):,}"
        return f"{_cost_change(self, first.cost[k], last.cost[k], unit)}; {other}."


@dataclass(frozen=True, eq=False)
class Answering(Threshold):
    """Answer rows with at least the threshold as confidence; a person reviews the others. The event
    is that an answer is right."""

    names = (
        "answered",
        "right",
        "errors",
        "errors predicted",
        "accuracy of answers",
        "reviewed",
        "cost",
        RELATIVE,
    )
    tips: ClassVar[dict[str, str]] = {
        "errors predicted": "the sum of 1 − confidence over the answered rows: the errors of a "
        "calibrated model",
        "cost": "an error costs 1",
        RELATIVE: "the cost divided by that of answering all rows or of reviewing all, the cheaper "
        "of the two",
    }
    ratio_name = "review / error, %"
    field = ("A review costs", "% of an error")
    ends = ("reviews are costly", "errors are costly")
    axis = "confidence"
    lead = (
        "Answer confident rows, and let a person review the others. The best threshold of "
        "calibrated confidences is 1 − the cost of a review / the cost of an error."
    )

    def ratio(self, k: int) -> float:
        return round(100 * (1 - self.threshold(k)))

    def label(self, k: int) -> str:
        t = self.threshold(k)
        return (
            f"Answer if the confidence is at least {t:.0%}, and let a person review the rest: "
            f"an error costs {significant(1 / (1 - t), 2)} times a review."
        )

    def cells(self, one: OperatingPoints, k: int) -> list[str]:
        right, errors = self.rows(one.hits[k]), self.rows(one.false_alarms[k])
        predicted = self.rows(one.acted[k] - one.predicted_hits[k])
        acted, cost = float(one.acted[k]), float(one.review_cost[k])
        constant = self._constant(one, k)
        return [
            f"{right + errors:,}",
            f"{right:,}",
            f"{errors:,}",
            f"{predicted:,}",
            percent(one.hits[k] / acted) if right + errors > 0 else MISSING,
            f"{self.per - right - errors:,}",
            f"{self.rows(cost):,}",
            percent(cost / constant) if constant > 0 else MISSING,
        ]

    def _constant(self, one: OperatingPoints, k: int) -> float:
        """The cost of the better of answering all rows and none."""
        return min(1 - one.rate, 1 - self.threshold(k))

    def words(self, k: int) -> str:
        parts = []
        for place, one in enumerate(self.points.values()):
            answered, _, errors, predicted, accuracy, *_ = self.cells(one, k)
            which = "Recalibrated" if place else f"Of {self.per:,} rows"
            happens = f": {_of(errors, 'error')} ({predicted} predicted), accuracy {accuracy}"
            count = "none" if answered == "0" else f"{answered}{happens}"
            parts.append(f"{which}, the rule answers {count}.")
        return f"{' '.join(parts)} {self._cost_words(k)}"

    def _cost_words(self, k: int) -> str:
        first, last = next(iter(self.points.values())), list(self.points.values())[-1]
        constant = self._constant(first, k)
        what = "answering" if constant == 1 - first.rate else "reviewing"
        change = _cost_change(self, first.review_cost[k], last.review_cost[k], "an error")
        return f"{change}; {what} all rows costs {self.rows(constant):,}."


def _of(count: str, one: str, several: str = "") -> str:
    return f"{count} {one if count == '1' else several or f'{one}s'}"


def _cost_change(how: Threshold, before: float, after: float, unit: str) -> str:
    """The cost, or how recalibration changes it."""
    start, end = how.rows(before), how.rows(after)
    where = f"({unit} costs 1)"
    if len(how.points) == 1:
        return f"The cost is {start:,} {where}"
    if start == end:
        return f"The cost stays at {start:,} {where}"
    return f"The cost {'falls' if end < start else 'rises'} from {start:,} to {end:,} {where}"


def table_rows(how: Threshold, places: Sequence[int]) -> list[tuple[str, ...]]:
    """A row for each threshold, before and after recalibration."""
    return [
        (
            f"{how.threshold(k):.0%}",
            significant(how.ratio(k)),
            name,
            *how.cells(one, k),
        )
        for k in places
        for name, one in how.points.items()
    ]
