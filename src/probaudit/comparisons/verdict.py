"""The verdict of a comparison: rules that read the numbers of all models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..audits.finding import (
    Finding,
    VerdictRule,
    apply_rules,
    between,
    interval_numbers,
    number,
    percent,
    rule,
)
from ..audits.row_rules import few_rows, infinite_log_score, only_confidence, rows_set_aside
from ..estimate import Estimate
from ..text import counted

if TYPE_CHECKING:
    from .comparison import Comparison

FEW_CONFIDENCES = 20
WORDS = {
    "log_score": "log loss",
    "brier_score": "Brier score",
    "cost_risk": "risk under your costs",
}


def judge_comparison(found: Comparison) -> tuple[Finding, ...]:
    """All findings, the most serious first."""
    return apply_rules(RULES, found)


def _deciding(found: Comparison, models: Sequence[str]) -> str:
    """The score that can separate some models: the chosen one, or the Brier score if the log loss
    of all is infinite."""
    infinite = all(math.isinf(found.estimates[m][found.score]) for m in models)
    return "brier_score" if infinite else found.score


def _deciding_difference(found: Comparison, model: str) -> tuple[str, Estimate]:
    """The score that separates a model from the reference, and the difference. It is infinite if
    one of the two log losses is; if both are, the Brier score decides."""
    gap = found.differences[model][found.score]
    return (
        ("brier_score", found.differences[model]["brier_score"])
        if math.isnan(gap)
        else (found.score, gap)
    )


def _better(gap: Estimate) -> bool | None:
    """Whether a difference of scores is clearly below 0, or clearly above; None if its interval
    contains 0."""
    if math.isinf(gap):
        return gap < 0
    return True if gap.high < 0 else False if gap.low > 0 else None


def _identical(found: Comparison, model: str) -> bool:
    """Whether a model is the reference under another name: every difference is exactly 0."""
    # infinite scores have no difference
    known = [x for x in found.differences[model].values() if not math.isnan(x)]
    return found.fingerprints[model] == found.fingerprints[found.reference] and all(
        x.low == x.high == 0 for x in known
    )


def _model_names(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[:5]] + (
        [f"{len(names) - 5} more"] if len(names) > 5 else []
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _others(found: Comparison) -> list[str]:
    return [name for name in found.names if name != found.reference]


@rule("Ferrer & Ramos 2025, Section 2.3")
def best_by_score(found: Comparison) -> Finding:
    """Only proper scores rank probabilities."""
    score = _deciding(found, found.names)
    best = [name for name in found.names if found.ranks[score][name] == 1]
    if len(best) == 1:
        i, x = found.names.index(best[0]), found.estimates[best[0]][score]
        clear = int(found.lower[score][i].sum()) == len(found.names) - 1
        than = "clearly better than every other model" if clear else "no other is clearly better"
        text = f"{best[0]!r} has the best {WORDS[score]}, {number(x)}: {than}."
        return Finding("good", text, numbers=interval_numbers(x))
    same = all(name == found.reference or _identical(found, name) for name in best)
    tied = "are identical" if same else f"are tied on {counted(found.rows)}"
    text = f"No single model has the best {WORDS[score]}: {_model_names(best)} {tied}."
    return Finding("note", text, numbers={"models": len(best)})


@rule("Ferrer & Ramos 2025, Section 2.3.1")
def best_under_costs(found: Comparison) -> Finding | None:
    """A proper score is a mean over many costs; under the user's costs the order may differ."""
    if "cost_risk" not in found.ranks:
        return None
    best = [name for name in found.names if found.ranks["cost_risk"][name] == 1]
    if len(best) > 1:
        text = f"Under your costs, {_model_names(best)} are tied."
        return Finding("note", text, numbers={"models": len(best)})
    score, risk = _deciding(found, found.names), found.estimates[best[0]]["cost_risk"]
    text = f"Under your costs, {best[0]!r} decides best, at {number(risk)} per row."
    if found.ranks[score][best[0]] != 1:
        text += f" It does not have the best {WORDS[score]}: your costs weigh errors differently."
    return Finding("good", text, numbers=interval_numbers(risk))


@rule()
def against_reference(found: Comparison) -> list[Finding]:
    """The models that are clearly better or worse than the reference, and by how much."""
    findings = []
    for name in _others(found):
        score, gap = _deciding_difference(found, name)
        better = _better(gap)
        if better is None:
            continue
        text = f"{name!r} is {'better' if better else 'worse'} than {found.reference!r}"
        if math.isinf(gap):
            whose = ", whose" if better else ": its"
            text += f"{whose} {WORDS[score]} is infinite. {_by_brier_score(found, name)}"
        else:
            text += f": its {WORDS[score]} is {_amount(found, name, score)}."
            text += _both_infinite(found, score)
        findings.append(
            Finding("good" if better else "warning", text, numbers=interval_numbers(gap))
        )
    return findings


def _amount(found: Comparison, name: str, score: str) -> str:
    """How much lower or higher than that of the reference a score clearly is."""
    gap, base = found.differences[name][score], found.estimates[found.reference][score]
    low, high = (-gap.high, -gap.low) if gap < 0 else gap.interval
    share = f", or {percent(abs(gap) / base)}" if base > 0 else ""
    span = between(Estimate(abs(gap), low=low, high=high))
    return f"{number(abs(gap))} {'lower' if gap < 0 else 'higher'} ({span}){share}"


def _by_brier_score(found: Comparison, name: str) -> str:
    better = _better(found.differences[name]["brier_score"])
    if better is None:
        return "By the Brier score, the two are tied."
    words = "better" if better else "worse"
    return f"By the Brier score, it is {words}: {_amount(found, name, 'brier_score')}."


def _both_infinite(found: Comparison, score: str) -> str:
    return "" if score == found.score else f" (Both have an infinite {WORDS[found.score]}.)"


@rule("Chidambaram & Ge 2024, Section 3 and Table 1")
def ece_and_score_disagree(found: Comparison) -> list[Finding]:
    """Mean replacement has the lowest calibration error and nearly the worst score."""
    findings, score = [], found.score
    # a calibration error does not depend on infinite log losses
    if any(math.isinf(found.estimates[name][score]) for name in found.names):
        score = "brier_score"
    for i, name in enumerate(found.names):
        outranked = [
            other
            for j, other in enumerate(found.names)
            if found.lower["ece"][i, j] and found.lower[score][j, i]
        ]
        if not outranked:
            continue
        ece = found.estimates[name]["ece"]
        text = (
            f"{name!r} has a lower calibration error (ECE {number(ece)}) than "
            f"{_model_names(outranked)}, but a worse {WORDS[score]}. {_explanation(found, name)}"
        )
        advice = ("Choose by the proper score; read the calibration error beside it, never alone.",)
        findings.append(Finding("warning", text, advice=advice, numbers=interval_numbers(ece)))
    return findings


def _explanation(found: Comparison, name: str) -> str:
    """Why an error can be small and the score bad, as far as the confidences show it."""
    confidences = found.grids[name].place
    if len(confidences) == 1:
        return (
            f"It gives every row the same confidence, {confidences[0]:.3g}: right on average, but "
            "it tells no rows apart."
        )
    if len(confidences) <= FEW_CONFIDENCES:
        return (
            f"It has only {len(confidences)} different confidences: right on average, but they "
            "tell few rows apart."
        )
    return (
        "A calibration error compares averages over rows of similar confidence, not how well the "
        "confidence tells rows apart."
    )


@rule()
def within_chance(found: Comparison) -> list[Finding]:
    """Differences whose paired interval contains 0."""
    findings = []
    for name in _others(found):
        score, gap = _deciding_difference(found, name)
        if gap.low <= 0 <= gap.high and not _identical(found, name):
            text = (
                f"{name!r} and {found.reference!r} are tied by the {WORDS[score]}: they differ by "
                f"{number(gap)} ({between(gap)}).{_both_infinite(found, score)}"
            )
            findings.append(Finding("note", text, numbers=interval_numbers(gap)))
    return findings


@rule()
def identical(found: Comparison) -> list[Finding]:
    """A model that is the reference again, such as the same file under another name."""
    return [
        Finding(
            "note", f"{name!r} and {found.reference!r} are identical: every row has equal outputs."
        )
        for name in _others(found)
        if _identical(found, name)
    ]


@rule("Ferrer & Ramos 2025, Section 3.2")
def accuracy_hides_it(found: Comparison) -> list[Finding]:
    """Decisions by the most probable class do not depend on how good the probabilities are."""
    findings = []
    for name in _others(found):
        hits, gap = found.differences[name]["accuracy"], _deciding_difference(found, name)[1]
        better = _better(gap)
        if not (hits.low <= 0 <= hits.high) or better is None:
            continue
        # an infinite score comes from a few rows; the Brier score must agree
        if math.isinf(gap) and better is not _better(found.differences[name]["brier_score"]):
            continue
        same = "the same accuracy as" if float(hits) == 0 else "an accuracy tied with"
        accuracy = found.estimates[name]["accuracy"]
        text = (
            f"{name!r} has {same} {found.reference!r} ({percent(accuracy)}), but "
            f"{'better' if better else 'worse'} probabilities: accuracy does not show it."
        )
        findings.append(Finding("note", text, numbers=interval_numbers(gap)))
    return findings


RULES: tuple[VerdictRule[Comparison], ...] = (
    infinite_log_score,
    best_by_score,
    best_under_costs,
    against_reference,
    ece_and_score_disagree,
    within_chance,
    identical,
    accuracy_hides_it,
    rows_set_aside,
    only_confidence,
    few_rows,
)
