"""What an audit has to say, and all that its rules may look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..calibration.significance import holm
from ..estimate import Estimate
from ..grouping.budget import Budget
from ..states import Summary
from ..states.evidence import Evidence
from .groups import Group
from .lens_errors import LensError
from .repairs import Repair

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

Level = Literal["bad", "warning", "good", "note"]
LEVELS: tuple[Level, ...] = ("bad", "warning", "good", "note")
# errors whose tests decide; others repeat their events
DECIDING = ("ece", "ace", "classwise_ece", "topk_ece", "full_ece")


@dataclass(frozen=True)
class Finding:
    """One thing an audit has to say: how grave, which rule says it, and the words.

    advice : what to do next. reference : where the reason is written. rows : the numbers of some
        rows it is about.
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
        found: dict[str, Any] = {
            "level": self.level,
            "rule": self.rule,
            "text": self.text,
            "advice": self.advice,
        }
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

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """The tests of calibration that decide: one for each event (ECE over equal bins and over
        bins of equal mass stand for the most probable class), the mean over classes, all classes
        together, the worst class and the worst group. p-values are adjusted for all of them (Holm
        1979)."""
        found = [
            (error, error.p_value)
            for error in self.errors
            if error.name.partition(".")[0] in DECIDING
        ]
        two = len(self.class_errors) == 2  # which mirror each other
        families = [
            self.class_errors[1:] if two else self.class_errors,
            tuple(group.error for group in self.groups),
        ]
        for family in filter(None, families):
            worst = min(family, key=lambda error: (error.adjusted, -error.excess))
            found.append(
                (worst, worst.p_value if two and family is families[0] else worst.adjusted)
            )
        p_values = np.array([p if error.excess > 0 else 1.0 for error, p in found])
        return tuple(
            Test(error, p) for (error, _), p in zip(found, holm(p_values).tolist(), strict=True)
        )


@dataclass(frozen=True)
class Test:
    """A calibration error, and its p-value adjusted for all tests of the audit."""

    __test__ = False  # not a test case

    error: LensError
    p_value: float


Rule = Callable[[Case], Finding | None]


def number(x: float) -> str:
    """An error or a score in a sentence.

    >>> number(0.12345), number(0.0002), number(0.0)
    ('0.123', '< 0.001', '0.000')
    """
    return "< 0.001" if 0 < abs(x) < 0.0005 else f"{x:.3f}"


def p_words(p: float) -> str:
    """A p-value in a sentence.

    >>> p_words(0.0321), p_words(1e-9), p_words(0.0042)
    ('p = 0.03', 'p < 0.001', 'p = 0.004')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.0095 else f"p = {p:.2f}"


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
