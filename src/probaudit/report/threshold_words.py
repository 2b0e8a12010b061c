"""What happens at a decision threshold, in numbers and in words: acting on an event, or answering
only confident rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..scoring.intervals import Z95
from ..scoring.operating_points import OperatingPoints
from ..text import MISSING, capitalised, number, percent, significant, whole_percent

RARE = 0.01  # event rate below which numbers are of 100,000 rows
RELATIVE = "relative cost"
COST_OF_ACTING, COST_OF_ANSWERING = "cost of errors", "cost of errors and reviews"
ACT_ON_ALL, ANSWER_ALL = "acting on all rows", "answering all rows"
LEAST_CHANGE = 0.005  # of the cost, below which it counts as the same


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

    def shown_cost(self, one: OperatingPoints, k: int) -> int:
        """The cost of `per` rows, from the shown numbers of rows that cost something."""
        return round(sum(self.rows(share) * amount for share, amount in self.amounts(one, k)))

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
    def cells(self, one: OperatingPoints, k: int) -> list[str]:
        """The numbers, by `names`."""

    @abstractmethod
    def cost(self, one: OperatingPoints, k: int) -> float:
        """The mean cost of a row."""

    @abstractmethod
    def constant(self, one: OperatingPoints, k: int) -> tuple[str, float]:
        """The better of the two decisions that treat all rows alike, and its cost."""

    @abstractmethod
    def costs(self, k: int) -> str:
        """The costs for which the threshold is the best one."""

    @abstractmethod
    def differences(
        self, one: OperatingPoints, k: int, decision: str
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """By how much the rows that are treated otherwise than by a constant decision differ in
        cost: the share of the rows and the amount, for both outcomes."""

    def noise(self, one: OperatingPoints, k: int, decision: str) -> float:
        """The half-width of the 95% interval of the mean difference in cost from a constant
        decision, for independent rows."""
        parts = self.differences(one, k, decision)
        mean = sum(share * amount for share, amount in parts)
        square = sum(share * amount**2 for share, amount in parts)
        return Z95 * math.sqrt(max(square - mean**2, 0.0) / one.effective)

    @abstractmethod
    def amounts(self, one: OperatingPoints, k: int) -> tuple[tuple[float, float], ...]:
        """The shares of the rows that cost something, with their costs."""

    def change_noise(self, first: OperatingPoints, last: OperatingPoints, k: int) -> float:
        """The half-width of the 95% interval of a difference in cost between two outputs, as of
        independent rows; that of the same rows is narrower."""
        variance = 0.0
        for one in (first, last):
            parts = self.amounts(one, k)
            mean = sum(share * cost for share, cost in parts)
            variance += sum(share * cost**2 for share, cost in parts) - mean**2
        return Z95 * math.sqrt(max(variance, 0.0) / min(first.effective, last.effective))

    def cheapest_for_all(self, k: int) -> str:
        """The decision that treats all rows alike, in the imperative, if no output costs less; else
        ""."""
        *_, last = self.points.values()
        decision, constant = self.constant(last, k)
        cheapest = min(self.cost(one, k) for one in self.points.values())
        wins = constant > 0 and cheapest > (1 - LEAST_CHANGE) * constant
        return decision.replace("ing ", " ", 1) if wins else ""

    def words(self, k: int) -> str:
        """The conclusion: the cheapest option first, how recalibration changes the cost, and
        whether the probabilities are worth more than the same decision for all rows."""
        *before, last = self.points.values()
        cost = self.cost(last, k)
        _, constant = self.constant(last, k)
        start = self.cost(before[0], k) if before else cost
        if constant > 0 and min(cost, start) > (1 + LEAST_CHANGE) * constant:
            return self._constant_is_cheapest(k)
        shown = self.shown_cost(last, k)
        text = f"{shown:,} per {self.per:,} rows"
        if before and last.acted[k] == 0:
            decision, _ = self.constant(last, k)
            return (
                "After recalibration, no row reaches the threshold: the cost is that of "
                f"{decision}, {text}, instead of {self.shown_cost(before[0], k):,}."
            )
        if not before:
            text = f"The cost is {text}"
        else:
            first = self.shown_cost(before[0], k)
            change, same = cost - start, first == shown
            if same or abs(change) < LEAST_CHANGE * start:
                text = f"Recalibrating does not change the cost: {text}"
            else:
                how = "cuts" if change < 0 else "raises"
                share = f" by {whole_percent(abs(shown - first) / first)}," if first > 0 else ""
                text = f"Recalibrating {how} the cost{share} from {first:,} to {text}"
                if abs(change) <= self.change_noise(before[0], last, k):
                    text += ", which may be chance"
        return f"{text}{self._against_constant(last, k)}"

    def _constant_is_cheapest(self, k: int) -> str:
        """The conclusion if the same decision for all rows costs least."""
        decision, constant = self.constant(list(self.points.values())[-1], k)
        first, *after = (
            f"{self.shown_cost(one, k):,} ({whole_percent(self.cost(one, k) / constant - 1)} more)"
            for one in self.points.values()
        )
        again = [f"recalibrated {cost}" for cost in after if cost != first]
        rows = f"{self.rows(constant):,} per {self.per:,} rows"
        cost = ", and ".join([first, *again])
        return f"{capitalised(decision)} is cheapest: {rows}. These probabilities cost {cost}."

    def _against_constant(self, one: OperatingPoints, k: int) -> str:
        """The cost compared with that of the same decision for all rows."""
        decision, constant = self.constant(one, k)
        if constant <= 0:
            return "."
        gain = 1 - self.cost(one, k) / constant
        if abs(gain) < LEAST_CHANGE:
            which = "This" if len(self.points) == 1 else "The recalibrated cost"
            return f". {which} is the cost of {decision}."
        amount = f"{whole_percent(abs(gain))} {'less' if gain > 0 else 'more'}"
        unclear = abs(gain) * constant <= self.noise(one, k, decision)
        which = "That is" if len(self.points) == 1 else "Recalibrated outputs cost"
        chance = ", which may be chance" if unclear else ""
        return f". {which} {amount} than {decision} ({self.rows(constant):,}){chance}."


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
        COST_OF_ACTING,
        RELATIVE,
    )
    tips: ClassVar[dict[str, str]] = {
        "hits": "acted on, and the event happened",
        "hits predicted": "the sum of the probabilities of the rows acted on: the hits of a "
        "calibrated model",
        "misses": "the event happened, and the row was not acted on",
        COST_OF_ACTING: "the cost of all false alarms and misses; the cheaper of the two costs 1",
        RELATIVE: "the cost divided by that of acting on all rows or on none, the cheaper of the "
        "two; below 1 is better",
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
        return f"Act if the {self.axis} is at least {self.threshold(k):.0%}: {self.costs(k)}."

    def costs(self, k: int) -> str:
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
            self.shown_cost(one, k),
        ]
        return [*(f"{count:,}" for count in counts), number(one.relative_cost[k], 3)]

    def cost(self, one: OperatingPoints, k: int) -> float:
        return float(one.cost[k])

    def amounts(self, one: OperatingPoints, k: int) -> tuple[tuple[float, float], ...]:
        t = self.threshold(k)
        least = min(t, 1 - t)
        return (float(one.misses[k]), (1 - t) / least), (float(one.false_alarms[k]), t / least)

    def differences(
        self, one: OperatingPoints, k: int, decision: str
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        t = self.threshold(k)
        miss, alarm = (1 - t) / min(t, 1 - t), t / min(t, 1 - t)
        hits, alarms = float(one.hits[k]), float(one.false_alarms[k])
        if decision == ACT_ON_ALL:
            return (float(one.misses[k]), miss), (1 - one.rate - alarms, -alarm)
        return (hits, -miss), (alarms, alarm)

    def constant(self, one: OperatingPoints, k: int) -> tuple[str, float]:
        everything, nothing = float(one.cost_all[k]), float(one.cost_none[k])
        if everything < nothing:
            return ACT_ON_ALL, everything
        return "acting on none", nothing


@dataclass(frozen=True, eq=False)
class Answering(Threshold):
    """Answer rows with at least the threshold as probability; a person reviews the others. The
    event is that an answer is right."""

    names = (
        "answered",
        "right",
        "errors",
        "errors predicted",
        "accuracy of answers",
        "reviewed",
        COST_OF_ANSWERING,
        RELATIVE,
    )
    tips: ClassVar[dict[str, str]] = {
        "errors predicted": "the sum of 1 − probability over the answered rows: the errors of a "
        "calibrated model",
        COST_OF_ANSWERING: "the cost of all errors and reviews; an error costs 1",
        RELATIVE: "the cost divided by that of answering all rows or of reviewing all, the cheaper "
        "of the two; below 1 is better",
    }
    ratio_name = "review / error, %"
    field = ("A review costs", "% of an error")
    ends = ("reviews are costly", "errors are costly")
    axis = "predicted probability"
    lead = (
        "Answer rows with a high probability, and let a person review the others. The best "
        "threshold of calibrated probabilities is 1 − the cost of a review / the cost of an error."
    )

    def ratio(self, k: int) -> float:
        return round(100 * (1 - self.threshold(k)))

    def label(self, k: int) -> str:
        t = self.threshold(k)
        return (
            f"Answer if the {self.axis} is at least {t:.0%}, and let a person review the rest: "
            f"an error costs {significant(1 / (1 - t), 2)} times a review."
        )

    def costs(self, k: int) -> str:
        return f"a review costs {significant(self.ratio(k), 2)}% of an error"

    def cells(self, one: OperatingPoints, k: int) -> list[str]:
        right, errors = self.rows(one.hits[k]), self.rows(one.false_alarms[k])
        predicted = self.rows(one.acted[k] - one.predicted_hits[k])
        acted, cost = float(one.acted[k]), self.cost(one, k)
        constant = self.constant(one, k)[1]
        return [
            f"{right + errors:,}",
            f"{right:,}",
            f"{errors:,}",
            f"{predicted:,}",
            percent(one.hits[k] / acted) if right + errors > 0 else MISSING,
            f"{self.per - right - errors:,}",
            f"{self.shown_cost(one, k):,}",
            number(cost / constant, 3) if constant > 0 else MISSING,
        ]

    def cost(self, one: OperatingPoints, k: int) -> float:
        return float(one.review_cost[k])

    def amounts(self, one: OperatingPoints, k: int) -> tuple[tuple[float, float], ...]:
        return (float(one.false_alarms[k]), 1.0), (1 - float(one.acted[k]), 1 - self.threshold(k))

    def differences(
        self, one: OperatingPoints, k: int, decision: str
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        t = self.threshold(k)
        right, errors = float(one.hits[k]), float(one.false_alarms[k])
        if decision == ANSWER_ALL:
            return (one.rate - right, 1 - t), (1 - one.rate - errors, -t)
        return (right, t - 1), (errors, t)

    def constant(self, one: OperatingPoints, k: int) -> tuple[str, float]:
        answering, reviewing = 1 - one.rate, 1 - self.threshold(k)
        if answering < reviewing:
            return ANSWER_ALL, answering
        return "reviewing all rows", reviewing


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
