"""Checks of a monitor, and the alarms that they raise, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..text import number, percent, significant
from .drift import Change

Direction = Literal["worse", "better", "changed"]
# Whether a larger value is better (1) or worse (-1).
BEST = {
    "log_score": -1,
    "brier_score": -1,
    "accuracy": 1,
    "smooth_ece": -1,
    "infinite_rows": -1,
    "bad_rows": -1,
}
NOUNS = {
    "log_score": "The log loss",
    "brier_score": "The Brier score",
    "accuracy": "Accuracy",
    "confidence": "Mean confidence",
    "overconfidence": "Mean confidence minus accuracy",
    "smooth_ece": "The calibration error (SmoothECE)",
    "infinite_rows": "The share of rows whose true class was given probability 0",
    "bad_rows": "The share of invalid rows",
}
SHARES = ("accuracy", "confidence", "overconfidence", "infinite_rows", "bad_rows")


@dataclass(frozen=True)
class Check:
    """A window compared with the reference: the change of every measure, and the measures with a
    significant change."""

    number: int
    first_row: int
    last_row: int
    changes: tuple[Change, ...]
    alarming: tuple[str, ...]


@dataclass(frozen=True)
class Alarm:
    """A measure whose change has become significant. `str(alarm)` describes it in words.

    check : the number of the check, from 1. first_row, last_row : of the window.
    direction : "worse" or "better"; "changed" for measures without a better direction.
    """

    measure: str
    direction: Direction
    check: int
    first_row: int
    last_row: int
    change: Change
    text: str

    @classmethod
    def of(cls, check: Check, change: Change) -> Alarm:
        return cls(
            measure=change.measure,
            direction=direction(change),
            check=check.number,
            first_row=check.first_row,
            last_row=check.last_row,
            change=change,
            text=_sentences(check, change),
        )

    def __str__(self) -> str:
        return self.text


def direction(change: Change) -> Direction:
    """Whether a change is for the worse or the better, if that is known."""
    if change.measure == "overconfidence":  # best at zero
        worse = abs(change.recent) > abs(change.reference)
        return "worse" if worse else "better"
    if change.measure not in BEST:
        return "changed"
    return "better" if change.difference * BEST[change.measure] > 0 else "worse"


def _sentences(check: Check, change: Change) -> str:
    """What changed, where, and how rare that is."""
    rows = f"in rows {check.first_row:,} to {check.last_row:,}, against the reference"
    odds = _odds(change.p_value)
    rare = f"If nothing had changed, this would happen in fewer than 1 of {odds} checks."
    if change.measure == "priors":
        moved = (
            f"their total variation distance is {percent(change.recent)} (expected if nothing had "
            f"changed: {percent(change.reference)})"
        )
        return f"The class frequencies changed {rows}: {moved}; {change.detail}. {rare}"
    shown = _share if change.measure in SHARES else number
    verb = "rose" if change.difference > 0 else "fell"
    above = " beyond sampling noise" if change.measure == "smooth_ece" else ""
    by = f"a change of {shown(change.difference)}{above}"
    moved = f"{verb} from {shown(change.reference)} to {shown(change.recent)}"
    judged = {"worse": ": worse", "better": ": better", "changed": ""}[direction(change)]
    interval = f"95% interval {shown(change.low)} to {shown(change.high)}"
    return f"{NOUNS[change.measure]} {moved} ({by}, {interval}) {rows}{judged}. {rare}"


def _share(x: float) -> str:
    """A share; a rare one with one significant digit.

    >>> _share(0.7822), _share(0.00041)
    ('78.2%', '0.04%')
    """
    return f"{significant(100 * x, 1)}%" if 0 < abs(x) < 0.0005 else percent(x)


def _odds(p: float) -> str:
    """The largest power of ten that is not above 1 / p.

    >>> _odds(0.00002)
    '10,000'
    """
    return f"{10 ** min(12, int(-math.log10(max(p, 1e-12)))):,}"
