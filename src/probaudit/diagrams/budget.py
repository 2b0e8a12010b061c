"""The loss budget as stacked bars before and after recalibration: what recalibration removes,
hidden groups, and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.predictions import Predictions
from ..estimate import Estimate
from ..grouping.budget import Budget, loss_budget
from ..text import MISSING, capitalised, enumerated, interval_text, number, percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Bars, Line, Mark, Panel, Picture, Text

DIGITS = 3
SHARE_OF_TOTAL = "share of the total"
ORIGINAL, RECALIBRATED, ERROR = "original", "recalibrated", "calibration error"
NAMES = {
    "removed": "removable by recalibration",
    "left": f"{ERROR} left",
    "grouping": "hidden groups (at least)",
    "rest": "the rest",
}
ROLES = {"removed": "calibration", "left": "original", "grouping": "grouping", "rest": "rest"}


@dataclass(frozen=True)
class BudgetPart:
    """A total ("original" or "recalibrated"), or a part of the original total.

    shown, share : its value, and its share of the original total, to three digits. Those of parts
        add up to those of totals.
    role : see `picture.Role`; "" for a total.
    """

    name: str
    estimate: Estimate
    shown: float
    share: float
    role: str = ""

    @property
    def text(self) -> str:
        return number(self.shown, DIGITS)

    @property
    def interval(self) -> str:
        return interval_text(*self.estimate.interval, lambda x: number(x, DIGITS)) or MISSING


@dataclass(frozen=True, eq=False)
class LossBudget(Diagram):
    """The parts of a loss. Hidden groups and the rest are the same before and after recalibration.

    original, recalibrated : the totals; None if the outputs were not recalibrated.
    parts : of the original total, in the order removed, left, grouping, rest.
    words : the score and its scale, for an axis.
    relative : whether the base-rate forecast has 1.
    """

    percents = (SHARE_OF_TOTAL,)

    original: BudgetPart
    recalibrated: BudgetPart | None
    parts: tuple[BudgetPart, ...]
    words: str
    definition: str
    relative: bool

    @classmethod
    def of_budget(cls, budget: Budget, *, pairs: bool = False) -> LossBudget:
        """The bars of a budget.

        pairs : whether rows have a confidence and its correctness.
        """
        later = budget.total if budget.after is None else budget.after.total
        scale = float(budget.total) or np.nan
        shown, shares = (_adding_up(budget, later, scale) for scale in (1.0, scale))

        def part(name: str, estimate: Estimate, key: str) -> BudgetPart:
            return BudgetPart(name, estimate, shown[key], shares[key], ROLES.get(key, ""))

        names = NAMES if budget.after is not None else NAMES | {"left": ERROR}
        kept = [name for name in names if name != "removed" or budget.after is not None]
        score = budget.score_words(pairs=pairs)
        after = None if budget.after is None else part(RECALIBRATED, later, "later")
        return cls(
            original=part(ORIGINAL, budget.total, "total"),
            recalibrated=after,
            parts=tuple(part(names[key], getattr(budget, key), key) for key in kept),
            words=f"{score} (base-rate forecast = 1)" if budget.relative else f"mean {score}",
            definition=f"loss budget of the {score}",
            relative=budget.relative,
        )

    @property
    def rows(self) -> tuple[BudgetPart, ...]:
        """The original total, its parts, and the recalibrated total: a table."""
        return (self.original, *self.parts, *filter(None, [self.recalibrated]))

    @property
    def bars(self) -> Iterator[tuple[BudgetPart, list[BudgetPart]]]:
        """Each total with the parts that it consists of, from 0; only finite parts above 0."""
        drawn = [one for one in reversed(self.parts) if 0 < one.shown < np.inf]
        yield self.original, drawn
        if self.recalibrated is not None:
            yield self.recalibrated, [one for one in drawn if one.name != NAMES["removed"]]

    @property
    def not_detected(self) -> str:
        """Which parts could be 0, in a sentence; "" if none could."""
        names = [
            one.name.removesuffix(" (at least)")
            for one in self.parts
            if one.shown <= 0 or one.estimate.low <= 0
        ]
        if not names:
            return ""
        return f"The loss due to {enumerated(names)} is not clearly above 0."

    def columns(self) -> dict[str, np.ndarray]:
        rows = self.rows
        return {
            "part": np.array([row.name for row in rows], object),
            self.words: np.array([float(row.estimate) for row in rows]),
            LOW: np.array([row.estimate.low for row in rows]),
            HIGH: np.array([row.estimate.high for row in rows]),
            SHARE_OF_TOTAL: np.array([row.share for row in rows]),
        }

    def picture(self) -> Picture:
        bars = list(self.bars)
        finite = [total.shown for total, _ in bars if np.isfinite(total.shown)]
        end = max([*finite, 1.0 if self.relative else 0.0]) or 1.0
        marks: list[Mark] = []
        if self.relative:
            rows = np.array([-0.5, len(bars) - 0.5])
            marks.append(Line(np.ones(2), rows, dashed=True, role="reference"))
        for place, (total, parts) in enumerate(bars):
            ends = np.cumsum([0.0, *(part.shown for part in parts)])
            for part, start, stop in zip(parts, ends, ends[1:], strict=False):
                detail = {"part": [f"{part.name}: {part.text}"], "95% interval": [part.interval]}
                span = np.array([start]), np.array([stop])
                at = np.array([float(place)])
                marks.append(Bars.lying(at, *span, role=part.role, detail=detail))
            free = max(ends[-1], 0.0) if np.isfinite(ends[-1]) else 0.0
            marks.append(Text(free + 0.02 * end, float(place), total.text))
        marks += self._key(len(bars) - 0.5, bars[0][1], end)
        names = Axis("", categories=(*(total.name for total, _ in bars), ""))
        panel = Panel(tuple(marks), Axis(self.words, low=0.0, high=1.15 * end), names)
        alone = "a budget, whose stacked bars have a colour for each part"
        return Picture((panel,), "Loss budget", self._description(), self._caption(), alone=alone)

    def _key(self, top: float, parts: list[BudgetPart], end: float) -> Iterator[Mark]:
        """The colour, name, value and interval of each part, in a row below the bars: a legend in
        the panel could cover them."""
        height = 1 / max(len(parts), 3)
        for place, part in enumerate(parts):
            at = np.array([top + (place + 0.5) * height])
            sample = np.array([0.0]), np.array([0.04 * end])
            yield Bars.lying(at, *sample, thickness=0.6 * height, role=part.role)
            name = part.name.removesuffix(" by recalibration")
            yield Text(0.06 * end, float(at[0]), f"{name}: {part.text} ({part.interval})")

    def _caption(self) -> str:
        words = (
            "A model that used the features better would avoid at least the part of hidden groups.",
            "In brackets: 95% intervals.",
            self.not_detected,
            f"{capitalised(self.definition)}.",
        )
        return " ".join(filter(None, words))

    def _description(self) -> str:
        words = [
            f"{row.name} {row.text} ({percent(row.share)} of the total)"
            if np.isfinite(row.share)
            else f"{row.name} {row.text}"
            for row in self.rows
        ]
        return f"Stacked bars of the {self.definition}: " + "; ".join(words) + "."


def _adding_up(budget: Budget, later: float, scale: float) -> dict[str, float]:
    """Totals and parts to three digits, relative to a scale, such that they add up."""

    def rounded(x: float) -> float:
        return float(np.round(float(x), DIGITS)) + 0.0

    found = {"total": rounded(budget.total / scale), "later": rounded(later / scale)}
    found |= {name: rounded(getattr(budget, name) / scale) for name in ("left", "grouping")}
    found["removed"] = rounded(found["total"] - found["later"])
    found["rest"] = rounded(found["later"] - found["left"] - found["grouping"])
    return found


def loss_budget_diagram(
    y_true: Any, y_proba: Any = None, features: Any = None, **choices: Any
) -> LossBudget:
    """The loss budget as stacked bars. Arguments as in `loss_budget`.

    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(2000)
    >>> choices = {"calibrator": "none", "resamples": 20}
    >>> found = loss_budget_diagram(world.y, world.scores, world.features, **choices)
    >>> [part.name for part in found.parts]
    ['calibration error', 'hidden groups (at least)', 'the rest']
    """
    pairs = isinstance(y_true, Predictions) and y_true.pairs
    return LossBudget.of_budget(loss_budget(y_true, y_proba, features, **choices), pairs=pairs)
