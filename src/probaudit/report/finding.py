"""What an audit has to say, and all that its rules may look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..budget import Budget
from ..estimates.estimate import Estimate
from ..statistics import Summary
from ..statistics.evidence import Evidence
from .groups import Group
from .lens_errors import LensError
from .repairs import Repair

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

Level = Literal["bad", "warning", "good", "note"]
LEVELS: tuple[Level, ...] = ("bad", "warning", "good", "note")


@dataclass(frozen=True)
class Finding:
    """One thing an audit has to say: how grave, which rule says it, and the words.

    advice : what to do next. reference : where the reason is written. rows : the numbers of some rows it is about.
    short : a clause for a headline, where the first words of the text are not one.
    """

    level: Level
    rule: str
    text: str
    advice: str = ""
    reference: str = ""
    rows: tuple[int, ...] = ()
    short: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {"level": self.level, "rule": self.rule, "text": self.text, "advice": self.advice}
        return found | {"reference": self.reference, "rows": list(self.rows)}


@dataclass(frozen=True, eq=False)
class Case:
    """All that rules may look at."""

    evidence: Evidence
    estimates: Mapping[str, Estimate]
    errors: tuple[LensError, ...]
    class_errors: tuple[LensError, ...] = ()
    groups: tuple[Group, ...] = ()
    repairs: tuple[Repair, ...] = ()
    budget: Budget | None = None
    calibrator: Calibrator | None = None

    @property
    def summary(self) -> Summary:
        return self.evidence.summary

    @property
    def ece(self) -> LensError:
        """The calibration error of the most probable class."""
        return self.errors[0]

    @property
    def recommended(self) -> Repair | None:
        return next((repair for repair in self.repairs if repair.recommended), None)

    def repair(self, name: str) -> Repair | None:
        return next((repair for repair in self.repairs if repair.name == name), None)


Rule = Callable[[Case], Finding | None]


def between(estimate: Estimate) -> str:
    """The interval in words.

    >>> between(Estimate(0.5, low=0.25, high=0.75))
    '95% interval 0.25 to 0.75'
    """
    return f"95% interval {estimate.low:.3g} to {estimate.high:.3g}"


def between_shares(low: float, high: float) -> str:
    """The same as percentages.

    >>> between_shares(-1e-9, 0.25)
    '95% interval 0.0% to 25.0%'
    """
    return f"95% interval {percent(low)} to {percent(high)}"


def percent(x: float) -> str:
    """With one place, and without the sign of nothing; sums in another order are shown alike."""
    return f"{round(round(float(x), 12), 3) + 0.0:.1%}"
