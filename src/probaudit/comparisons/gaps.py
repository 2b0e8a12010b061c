"""Differences between the models of a comparison, and what sentences say about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..audits.finding import between
from ..estimate import Estimate
from ..text import percent, short_number

if TYPE_CHECKING:
    from .comparison import Comparison

WORDS = {
    "log_score": "log loss",
    "brier_score": "Brier score",
    "cost_risk": "risk under your costs",
}
MOST_LISTED = 5  # names of models in a sentence


def others(result: Comparison) -> list[str]:
    """All models but the reference."""
    return [name for name in result.names if name != result.reference]


def deciding(result: Comparison, models: Sequence[str]) -> str:
    """The score that decides between some models: the chosen one, or the Brier score if the log
    loss of all is infinite."""
    infinite = all(math.isinf(result.estimates[m][result.score]) for m in models)
    return "brier_score" if infinite else result.score


def deciding_difference(result: Comparison, model: str) -> tuple[str, Estimate]:
    """The score that decides between a model and the reference, and the difference. The difference
    is infinite if one of the two log losses is; if both are, the Brier score decides."""
    gap = result.differences[model][result.score]
    return (
        ("brier_score", result.differences[model]["brier_score"])
        if math.isnan(gap)
        else (result.score, gap)
    )


def difference_to_reference(result: Comparison, model: str, score: str) -> tuple[str, Estimate]:
    """The reference and a model's difference from it; for the reference itself, the best of the
    others by this score, and the difference from that one."""
    if model != result.reference:
        return result.reference, result.differences[model][score]
    other = min(others(result), key=lambda name: float(result.estimates[name][score]))
    gap = result.differences[other][score]
    return other, Estimate(-float(gap), low=-gap.high, high=-gap.low)


def clearly_better(gap: Estimate) -> bool | None:
    """Whether a difference of scores is clearly below 0, or clearly above; None if its interval
    contains 0."""
    if math.isinf(gap):
        return gap < 0
    return True if gap.high < 0 else False if gap.low > 0 else None


def identical(result: Comparison, model: str) -> bool:
    """Whether a model is the reference under another name: every difference is exactly 0."""
    # infinite scores have no difference
    known = [x for x in result.differences[model].values() if not math.isnan(x)]
    return result.fingerprints[model] == result.fingerprints[result.reference] and all(
        x.low == x.high == 0 for x in known
    )


def model_names(names: Sequence[str], link: str = "and") -> str:
    """Names of models in a sentence, the last one after `link`."""
    more = len(names) - MOST_LISTED
    shown = [repr(name) for name in names[:MOST_LISTED]] + ([f"{more} more"] if more > 0 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {link} {shown[-1]}"


def amount(gap: Estimate, base: float) -> str:
    """How much lower or higher than `base` a score is.

    >>> amount(Estimate(-0.02, low=-0.03, high=-0.01), 0.2)
    '10.0% lower (by 0.020, 95% interval 0.010 to 0.030)'
    """
    low, high = (-gap.high, -gap.low) if gap < 0 else gap.interval
    way = "lower" if gap < 0 else "higher"
    size, span = short_number(abs(gap)), between(Estimate(abs(gap), low=low, high=high))
    if not 0 < base < math.inf:
        return f"{size} {way} ({span})"
    return f"{percent(abs(gap) / base)} {way} (by {size}, {span})"
