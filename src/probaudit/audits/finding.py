"""Findings, the rules that make them, and numbers as their sentences report them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from ..estimate import Estimate
from .advice import COMMANDS, Advice, Spelling, spelled, to_list

Level = Literal["bad", "warning", "good", "note"]
LEVELS: tuple[Level, ...] = ("bad", "warning", "good", "note")
Judged = TypeVar("Judged", contravariant=True)


@dataclass(frozen=True)
class Finding:
    """One conclusion of an audit or a comparison.

    clause : the same in a few words, to follow a colon in the headline; the text unless given.
    advice : what to do next, as text and actions.
    numbers : the numbers that the text reports, by name.
    rows : numbers of some rows that it is about.
    rule, reference : the rule that found it, and where that rule is explained.
    """

    level: Level
    text: str
    clause: str = ""
    advice: Advice = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    rule: str = ""
    reference: str = ""

    def advice_text(self, spell: Spelling) -> str:
        """The advice with actions as `spell` writes them."""
        return spelled(self.advice, spell)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "level": self.level,
            "rule": self.rule,
            "text": self.text,
            "numbers": {
                name: float(value) if math.isfinite(value) else None
                for name, value in self.numbers.items()
            },
            "advice": self.advice_text(COMMANDS),
            "actions": to_list(self.advice),
            "reference": self.reference,
            "rows": list(self.rows),
        }


@dataclass(frozen=True)
class VerdictRule(Generic[Judged]):
    """A rule of a verdict: a function from what is judged to its findings, each of which gets the
    rule's name and reference.

    looks_for : of a pitfall, what it looks for.
    """

    function: Callable[[Judged], Finding | Sequence[Finding] | None]
    reference: str = ""
    looks_for: str = ""

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, judged: Judged) -> tuple[Finding, ...]:
        found = self.function(judged)
        several = (found,) if isinstance(found, Finding) else found or ()
        return tuple(
            replace(finding, rule=self.name, reference=self.reference) for finding in several
        )


def rule(
    reference: str = "", *, looks_for: str = ""
) -> Callable[[Callable[[Judged], Finding | Sequence[Finding] | None]], VerdictRule[Judged]]:
    """Make a function a rule."""
    return lambda function: VerdictRule(function, reference, looks_for)


def apply_rules(rules: Sequence[VerdictRule[Judged]], judged: Judged) -> tuple[Finding, ...]:
    """All findings, the most serious first."""
    found = [finding for rule in rules for finding in rule(judged)]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def interval_numbers(x: Estimate) -> dict[str, float]:
    """An estimate and its interval, as the numbers of a finding."""
    return {"value": float(x), "low": x.low, "high": x.high}


def number(x: float) -> str:
    """An error or a score in a sentence.

    >>> number(0.12345), number(0.0002), number(0.0)
    ('0.123', '< 0.001', '0.000')
    """
    if 0 < abs(x) < 0.0005:
        return "< 0.001" if x > 0 else "> \u22120.001"
    return f"{x:.3f}".replace("-", "\u2212")


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
