"""The verdict of a comparison: rules that read the numbers of all models.

To add a rule, write a function from a `Comparison` to its findings, decorate it with `rule`, and
list it in `RULES` at the end of this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..audits import row_findings
from ..audits.finding import (
    LEVELS,
    Finding,
    Level,
    VerdictRule,
    apply_rules,
    between,
    interval_numbers,
    rule,
)
from ..audits.row_findings import (
    few_rows,
    judged_on_its_own_rows,
    only_confidence,
    rows_set_aside,
)
from ..estimate import Estimate
from ..text import counted, percent, short_number

if TYPE_CHECKING:
    from .comparison import Comparison

FEW_CONFIDENCES = 20
MOST_FINDINGS = 3
MOST_NAMED = 3  # models that a sentence describes; the table of differences has all
HEADLINE = "best_by_score"
WORDS = {
    "log_score": "log loss",
    "brier_score": "Brier score",
    "cost_risk": "risk under your costs",
}


def judge_comparison(result: Comparison) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """At most three findings, the most serious first, with the one that names the best model among
    them; and all others."""
    every = apply_rules(RULES, result)
    others = [finding for finding in every if finding.rule != HEADLINE]
    best = [finding for finding in every if finding.rule == HEADLINE]
    shown = [*best, *others[: MOST_FINDINGS - len(best)]]
    shown.sort(key=lambda finding: LEVELS.index(finding.level))
    return tuple(shown), tuple(others[MOST_FINDINGS - len(best) :])


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


@rule("Ferrer & Ramos 2025, Section 2.3.2")
def infinite_log_score(result: Comparison) -> Finding | None:
    """The models whose log loss is infinite, in one finding."""
    each = row_findings.infinite_log_score(result)
    if len(each) < 2:
        return each[0] if each else None
    infinite = result.infinite_rows
    outcome = "the outcome" if result.pairs else "the true class"
    shown = [f"{name!r} ({found.count:,})" for name, found in infinite.items()]
    if len(shown) > MOST_NAMED:
        shown = [*shown[:MOST_NAMED], f"{len(shown) - MOST_NAMED} more"]
    text = (
        f"{', '.join(shown[:-1])} and {shown[-1]} gave {outcome} probability 0 in some of "
        f"{counted(result.rows)}: their log loss is infinite."
    )
    numbers = {"models": len(infinite), "rows": result.rows}
    return replace(each[0], text=text, clause="", numbers=numbers)


@rule("Ferrer & Ramos 2025, Section 2.3")
def best_by_score(result: Comparison) -> Finding:
    """Only proper scores rank probabilities. Of two models, the difference is part of this
    finding; otherwise it is that of `against_reference`."""
    score = _deciding(result, result.names)
    best = [name for name in result.names if result.ranks[score][name] == 1]
    if len(best) == 1:
        i, x = result.names.index(best[0]), result.estimates[best[0]][score]
        clear = int(result.lower[score][i].sum()) == len(result.names) - 1
        than = "clearly better than every other model." if clear else "no other is clearly better."
        if clear and len(result.names) == 2:
            than = _than_the_other(result, best[0], score)
        where = ", on the rows that fitted its calibrator" if best[0] in result.own_fits else ""
        text = f"{best[0]!r} has the best {WORDS[score]}, {short_number(x)}{where}: {than}"
        return Finding("good", text, numbers=interval_numbers(x))
    same = all(name == result.reference or _identical(result, name) for name in best)
    tied = "are identical" if same else f"are tied on {counted(result.rows)}"
    if not same and len(result.names) == 2:
        gap = result.differences[_others(result)[0]][score]
        tied += f" (difference {short_number(gap)}, {between(gap)})"
    text = f"No single model has the best {WORDS[score]}: {_model_names(best)} {tied}."
    return Finding("note", text, numbers={"models": len(best)})


def _than_the_other(result: Comparison, best: str, score: str) -> str:
    """How much better the best of two models is than the other one."""
    (other,) = (name for name in result.names if name != best)
    model = _others(result)[0]
    gap = result.differences[model][score]
    if math.isinf(gap):
        return f"that of {other!r} is infinite. {_by_brier_score(result, best)}"
    amount = _amount(gap if model == best else _negated(gap), result.estimates[other][score])
    return f"{amount} than that of {other!r}."


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
    """The differences of three or more models from the reference, by the score that decides between
    each of them and the reference: the models that are better, worse and tied."""
    if len(result.names) == 2:
        return []
    findings = []
    for score in ("log_score", "brier_score"):
        each = {name: _deciding_difference(result, name) for name in _others(result)}
        gaps = {name: gap for name, (by, gap) in each.items() if by == score}
        clear = {name: gap for name, gap in gaps.items() if _better(gap) is not None}
        tied = [name for name in gaps if name not in clear and not _identical(result, name)]
        same = [name for name in gaps if _identical(result, name)]
        parts = []
        if clear:
            parts.append(_amounts(result, clear, score))
        if tied:
            parts.append(f"{_model_names(tied)} tied")
        if same:
            parts.append(f"{_model_names(same)} identical")
        if not parts:
            continue
        text = f"{WORDS[score]} against {result.reference!r}: {'; '.join(parts)}."
        better = {_better(gap) for gap in clear.values()}
        level: Level = "good" if True in better else "note"
        numbers = {"better": sum(_better(gap) is True for gap in clear.values())}
        numbers |= {"worse": len(clear) - numbers["better"], "tied": len(tied) + len(same)}
        findings.append(Finding(level, text[0].upper() + text[1:], numbers=numbers))
    return findings


def _amounts(result: Comparison, gaps: dict[str, Estimate], score: str) -> str:
    """How much lower or higher than that of the reference the scores of some models are, the
    largest improvements first."""
    order = sorted(gaps, key=lambda name: float(gaps[name]))
    base = result.estimates[result.reference][score]
    words = []
    for name in order[:MOST_NAMED]:
        gap = gaps[name]
        if math.isinf(gap):
            words.append(f"{name!r} {'finite, not infinite' if gap < 0 else 'infinite'}")
        else:
            words.append(f"{name!r} {_amount(gap, base)}")
    more = [f"{len(order) - MOST_NAMED} more differ clearly"] if len(order) > MOST_NAMED else []
    return ", ".join([*words, *more])


def _negated(gap: Estimate) -> Estimate:
    return Estimate(-float(gap), low=-gap.high, high=-gap.low)


def _amount(gap: Estimate, base: float) -> str:
    """How much lower or higher than `base` a score clearly is."""
    low, high = (-gap.high, -gap.low) if gap < 0 else gap.interval
    share = f", {percent(abs(gap) / base)}" if 0 < base < math.inf else ""
    span = between(Estimate(abs(gap), low=low, high=high))
    return f"{short_number(abs(gap))} {'lower' if gap < 0 else 'higher'} ({span}{share})"


def _by_brier_score(result: Comparison, name: str) -> str:
    """One of two models against the other by the Brier score."""
    gap = result.differences[_others(result)[0]]["brier_score"]
    gap = _negated(gap) if name == result.reference else gap
    better = _better(gap)
    if better is None:
        return "By the Brier score, the two are tied."
    (other,) = (one for one in result.names if one != name)
    words = "better" if better else "worse"
    amount = _amount(gap, result.estimates[other]["brier_score"])
    return f"By the Brier score, {name!r} is {words}: {amount}."


@rule("Chidambaram & Ge 2024, Section 3 and Table 1")
def ece_and_score_disagree(result: Comparison) -> Finding | None:
    """Mean replacement has the lowest calibration error and nearly the worst score."""
    score = result.score
    # a calibration error does not depend on infinite log losses
    if any(math.isinf(result.estimates[name][score]) for name in result.names):
        score = "brier_score"
    outranked = {
        name: [
            other
            for j, other in enumerate(result.names)
            if result.lower["ece"][i, j] and result.lower[score][j, i]
        ]
        for i, name in enumerate(result.names)
    }
    fooled = [name for name in result.names if outranked[name]]
    if not fooled:
        return None
    # the model with the lowest error misleads most
    worst = min(fooled, key=lambda name: float(result.estimates[name]["ece"]))
    ece = result.estimates[worst]["ece"]
    of = f" of the {result.judged}" if result.event is not None else ""
    text = (
        f"{worst!r} has a lower calibration error{of} (ECE {short_number(ece)}) than "
        f"{_model_names(outranked[worst])}, but a worse {WORDS[score]}. "
        f"{_explanation(result, worst)}"
    )
    others = [name for name in fooled if name != worst]
    if others:
        text += f" The same holds for {_model_names(others)} against other models."
    advice = ("Choose by the proper score; never read the calibration error alone.",)
    return Finding("warning", text, advice=advice, numbers=interval_numbers(ece))


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


@rule("Ferrer & Ramos 2025, Section 3.2")
def accuracy_hides_it(result: Comparison) -> Finding | None:
    """Decisions by the most probable class do not depend on how good the probabilities are."""
    found = {}
    for name in _others(result):
        hits, gap = result.differences[name]["accuracy"], _deciding_difference(result, name)[1]
        better = _better(gap)
        if not (hits.low <= 0 <= hits.high) or better is None:
            continue
        # a few rows can make a score infinite; the Brier score must agree
        if math.isinf(gap) and better is not _better(result.differences[name]["brier_score"]):
            continue
        found[name] = gap
    if not found:
        return None
    exact = all(float(result.differences[name]["accuracy"]) == 0 for name in found)
    have = "has" if len(found) == 1 else "have"
    same = f"{have} the same accuracy as" if exact else f"{have} an accuracy tied with"
    sides = {_better(gap) for gap in found.values()}
    words = "different" if len(sides) > 1 else "better" if True in sides else "worse"
    text = (
        f"{_model_names(list(found))} {same} {result.reference!r}, but {words} probabilities: "
        "accuracy does not show it."
    )
    numbers: dict[str, float] = {"models": len(found)}
    if len(found) == 1:
        numbers |= interval_numbers(next(iter(found.values())))
    return Finding("note", text, numbers=numbers)


RULES: tuple[VerdictRule[Comparison], ...] = (
    judged_on_its_own_rows,
    infinite_log_score,
    best_by_score,
    best_under_costs,
    against_reference,
    ece_and_score_disagree,
    accuracy_hides_it,
    rows_set_aside,
    only_confidence,
    few_rows,
)
