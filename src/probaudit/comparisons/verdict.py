"""The verdict of a comparison: rules that read the numbers of all models.

To add a rule, write a function from a `Comparison` to its findings, decorate it with `rule`, and
list it in `RULES` at the end of this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..audits.finding import Finding, VerdictRule, apply_rules, between, interval_numbers, rule
from ..audits.row_findings import few_rows, infinite_log_score, only_confidence, rows_set_aside
from ..estimate import Estimate
from ..text import counted, percent, short_number

if TYPE_CHECKING:
    from .comparison import Comparison

FEW_CONFIDENCES = 20
WORDS = {
    "log_score": "log loss",
    "brier_score": "Brier score",
    "cost_risk": "risk under your costs",
}


def judge_comparison(result: Comparison) -> tuple[Finding, ...]:
    """All findings, the most serious first."""
    return apply_rules(RULES, result)


def _deciding(result: Comparison, models: Sequence[str]) -> str:
    """The score that decides between some models: the chosen one, or the Brier score if the log
    loss of all is infinite."""
    infinite = all(math.isinf(result.estimates[m][result.score]) for m in models)
    return "brier_score" if infinite else result.score


def _deciding_difference(result: Comparison, model: str) -> tuple[str, Estimate]:
    """The score that decides between a model and the reference, and the difference. The difference
    is infinite if one of the two log losses is; if both are, the Brier score decides."""
    gap = result.differences[model][result.score]
    return (
        ("brier_score", result.differences[model]["brier_score"])
        if math.isnan(gap)
        else (result.score, gap)
    )


def _better(gap: Estimate) -> bool | None:
    """Whether a difference of scores is clearly below 0, or clearly above; None if its interval
    contains 0."""
    if math.isinf(gap):
        return gap < 0
    return True if gap.high < 0 else False if gap.low > 0 else None


def _identical(result: Comparison, model: str) -> bool:
    """Whether a model is the reference under another name: every difference is exactly 0."""
    # infinite scores have no difference
    known = [x for x in result.differences[model].values() if not math.isnan(x)]
    return result.fingerprints[model] == result.fingerprints[result.reference] and all(
        x.low == x.high == 0 for x in known
    )


def _model_names(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[:5]] + (
        [f"{len(names) - 5} more"] if len(names) > 5 else []
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _others(result: Comparison) -> list[str]:
    return [name for name in result.names if name != result.reference]


@rule("Ferrer & Ramos 2025, Section 2.3")
def best_by_score(result: Comparison) -> Finding:
    """Only proper scores rank probabilities."""
    score = _deciding(result, result.names)
    best = [name for name in result.names if result.ranks[score][name] == 1]
    if len(best) == 1:
        i, x = result.names.index(best[0]), result.estimates[best[0]][score]
        clear = int(result.lower[score][i].sum()) == len(result.names) - 1
        than = "clearly better than every other model" if clear else "no other is clearly better"
        text = f"{best[0]!r} has the best {WORDS[score]}, {short_number(x)}: {than}."
        return Finding("good", text, numbers=interval_numbers(x))
    same = all(name == result.reference or _identical(result, name) for name in best)
    tied = "are identical" if same else f"are tied on {counted(result.rows)}"
    text = f"No single model has the best {WORDS[score]}: {_model_names(best)} {tied}."
    return Finding("note", text, numbers={"models": len(best)})


@rule("Ferrer & Ramos 2025, Section 2.3.1")
def best_under_costs(result: Comparison) -> Finding | None:
    """A proper score is a mean over many costs; under the user's costs the order may differ."""
    if "cost_risk" not in result.ranks:
        return None
    best = [name for name in result.names if result.ranks["cost_risk"][name] == 1]
    if len(best) > 1:
        text = f"Under your costs, {_model_names(best)} are tied."
        return Finding("note", text, numbers={"models": len(best)})
    score, risk = _deciding(result, result.names), result.estimates[best[0]]["cost_risk"]
    text = f"Under your costs, {best[0]!r} decides best, at {short_number(risk)} per row."
    if result.ranks[score][best[0]] != 1:
        text += f" It does not have the best {WORDS[score]}: your costs weigh errors differently."
    return Finding("good", text, numbers=interval_numbers(risk))


@rule()
def against_reference(result: Comparison) -> list[Finding]:
    """The models that are clearly better or worse than the reference, and by how much."""
    findings = []
    for name in _others(result):
        score, gap = _deciding_difference(result, name)
        better = _better(gap)
        if better is None:
            continue
        text = f"{name!r} is {'better' if better else 'worse'} than {result.reference!r}"
        if math.isinf(gap):
            whose = ", whose" if better else ": its"
            text += f"{whose} {WORDS[score]} is infinite. {_by_brier_score(result, name)}"
        else:
            text += f": its {WORDS[score]} is {_amount(result, name, score)}."
            text += _both_infinite(result, score)
        findings.append(
            Finding("good" if better else "warning", text, numbers=interval_numbers(gap))
        )
    return findings


def _amount(result: Comparison, name: str, score: str) -> str:
    """How much lower or higher than that of the reference a score clearly is."""
    gap, base = result.differences[name][score], result.estimates[result.reference][score]
    low, high = (-gap.high, -gap.low) if gap < 0 else gap.interval
    share = f", or {percent(abs(gap) / base)}" if base > 0 else ""
    span = between(Estimate(abs(gap), low=low, high=high))
    return f"{short_number(abs(gap))} {'lower' if gap < 0 else 'higher'} ({span}){share}"


def _by_brier_score(result: Comparison, name: str) -> str:
    better = _better(result.differences[name]["brier_score"])
    if better is None:
        return "By the Brier score, the two are tied."
    words = "better" if better else "worse"
    return f"By the Brier score, it is {words}: {_amount(result, name, 'brier_score')}."


def _both_infinite(result: Comparison, score: str) -> str:
    return "" if score == result.score else f" (Both have an infinite {WORDS[result.score]}.)"


@rule("Chidambaram & Ge 2024, Section 3 and Table 1")
def ece_and_score_disagree(result: Comparison) -> list[Finding]:
    """Mean replacement has the lowest calibration error and nearly the worst score."""
    findings, score = [], result.score
    # a calibration error does not depend on infinite log losses
    if any(math.isinf(result.estimates[name][score]) for name in result.names):
        score = "brier_score"
    for i, name in enumerate(result.names):
        outranked = [
            other
            for j, other in enumerate(result.names)
            if result.lower["ece"][i, j] and result.lower[score][j, i]
        ]
        if not outranked:
            continue
        ece = result.estimates[name]["ece"]
        of = f" of the {result.judged}" if result.event is not None else ""
        text = (
            f"{name!r} has a lower calibration error{of} (ECE {short_number(ece)}) than "
            f"{_model_names(outranked)}, but a worse {WORDS[score]}. {_explanation(result, name)}"
        )
        advice = ("Choose by the proper score; never read the calibration error alone.",)
        findings.append(Finding("warning", text, advice=advice, numbers=interval_numbers(ece)))
    return findings


def _explanation(result: Comparison, name: str) -> str:
    """Why the error can be small and the score bad."""
    outputs = result.grids[name].place
    one, several, apart = (
        ("confidence", "confidences", "right from wrong")
        if result.event is None
        else ("probability", "probabilities", "rows with the event from the others")
    )
    if len(outputs) == 1:
        return (
            f"It gives every row the same {one}, {short_number(outputs[0])}: right on "
            f"average, but it does not separate {apart}."
        )
    if len(outputs) <= FEW_CONFIDENCES:
        return (
            f"It has only {len(outputs)} different {several}: right on average, but they "
            "separate few rows."
        )
    return (
        f"A calibration error compares averages over rows of similar {one}. It does not show "
        f"how well the {one} separates {apart}."
    )


@rule()
def within_chance(result: Comparison) -> list[Finding]:
    """Differences whose paired interval contains 0."""
    findings = []
    for name in _others(result):
        score, gap = _deciding_difference(result, name)
        if gap.low <= 0 <= gap.high and not _identical(result, name):
            text = (
                f"{name!r} and {result.reference!r} are tied by the {WORDS[score]}: they differ by "
                f"{short_number(gap)} ({between(gap)}).{_both_infinite(result, score)}"
            )
            findings.append(Finding("note", text, numbers=interval_numbers(gap)))
    return findings


@rule()
def identical(result: Comparison) -> list[Finding]:
    """A model that equals the reference, such as the same file under another name."""
    return [
        Finding(
            "note", f"{name!r} and {result.reference!r} are identical: every row has equal outputs."
        )
        for name in _others(result)
        if _identical(result, name)
    ]


@rule("Ferrer & Ramos 2025, Section 3.2")
def accuracy_hides_it(result: Comparison) -> list[Finding]:
    """Decisions by the most probable class do not depend on how good the probabilities are."""
    findings = []
    for name in _others(result):
        hits, gap = result.differences[name]["accuracy"], _deciding_difference(result, name)[1]
        better = _better(gap)
        if not (hits.low <= 0 <= hits.high) or better is None:
            continue
        # a few rows can make a score infinite; the Brier score must agree
        if math.isinf(gap) and better is not _better(result.differences[name]["brier_score"]):
            continue
        same = "the same accuracy as" if float(hits) == 0 else "an accuracy tied with"
        accuracy = result.estimates[name]["accuracy"]
        text = (
            f"{name!r} has {same} {result.reference!r} ({percent(accuracy)}), but "
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
