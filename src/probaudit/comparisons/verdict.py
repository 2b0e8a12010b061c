"""The verdict of a comparison: rules that read the numbers of all models.

To add a rule, write a function from a `Comparison` to its findings, decorate it with `rule`, and
list it in `RULES` at the end of this file.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ..audits import row_findings
from ..audits.finding import (
    LEVELS,
    Finding,
    Level,
    VerdictRule,
    apply_rules,
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
from ..text import counted, short_number
from .gaps import (
    WORDS,
    amount,
    clearly_better,
    deciding,
    deciding_difference,
    identical,
    model_names,
    others,
)

if TYPE_CHECKING:
    from .comparison import Comparison

FEW_CONFIDENCES = 20
MOST_FINDINGS = 3
MOST_NAMED = 3  # models that a sentence describes; the table of differences has all
HEADLINE = "best_by_score"


def judge_comparison(result: Comparison) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """At most three findings, the most serious first, with the one that names the best model among
    them; and all others."""
    every = apply_rules(RULES, result)
    rest = [finding for finding in every if finding.rule != HEADLINE]
    best = [finding for finding in every if finding.rule == HEADLINE]
    shown = [*best, *rest[: MOST_FINDINGS - len(best)]]
    shown.sort(key=lambda finding: LEVELS.index(finding.level))
    return tuple(shown), tuple(rest[MOST_FINDINGS - len(best) :])


@rule("Ferrer & Ramos 2025, Section 2.3.2")
def infinite_log_score(result: Comparison) -> Finding | None:
    """The models whose log loss is infinite, in one finding."""
    each = row_findings.infinite_log_score(result)
    if len(each) < 2:
        return each[0] if each else None
    infinite = result.infinite_rows
    how = "were certain and wrong" if result.pairs else "gave the true class probability 0"
    shown = [f"{name!r} ({found.count:,})" for name, found in infinite.items()]
    if len(shown) > MOST_NAMED:
        shown = [*shown[:MOST_NAMED], f"{len(shown) - MOST_NAMED} more"]
    text = (
        f"{', '.join(shown[:-1])} and {shown[-1]} {how} in some of {counted(result.rows)}: their "
        "log loss is infinite."
    )
    numbers = {"models": len(infinite), "rows": result.rows}
    return replace(each[0], text=text, clause="", numbers=numbers)


@rule("Ferrer & Ramos 2025, Section 2.3")
def best_by_score(result: Comparison) -> Finding:
    """The decision: which model to use, and why."""
    found = result.decision
    numbers: dict[str, float] = {"models": len(found.models)}
    if len(found.models) == 1:
        numbers |= interval_numbers(result.estimates[found.models[0]][found.score])
    return Finding(found.level, found.text, numbers=numbers)


@rule("Ferrer & Ramos 2025, Section 2.3.1")
def best_under_costs(result: Comparison) -> Finding | None:
    """A proper score is a mean over many costs; under the user's costs the order may differ."""
    if "cost_risk" not in result.ranks:
        return None
    best = [name for name in result.names if result.ranks["cost_risk"][name] == 1]
    if len(best) > 1:
        text = f"Under your costs, {model_names(best)} are tied."
        return Finding("note", text, numbers={"models": len(best)})
    score, risk = deciding(result, result.names), result.estimates[best[0]]["cost_risk"]
    text = f"Under your costs, {best[0]!r} decides best, at {short_number(risk)} per row."
    if result.ranks[score][best[0]] != 1:
        text += f" It does not have the best {WORDS[score]}: your costs weigh errors differently."
    return Finding("good", text, numbers=interval_numbers(risk))


@rule()
def against_reference(result: Comparison) -> list[Finding]:
    """The other differences of three or more models from the reference, by the score that decides
    between each of them and the reference: the models that are better, worse and tied."""
    if len(result.names) == 2:
        return []
    # the decision says how much better the best model is than the reference, or than the next best
    found, findings = result.decision, []
    named = () if found.compared is None else (found.compared, *found.models)
    for score in ("log_score", "brier_score"):
        each = {name: deciding_difference(result, name) for name in others(result)}
        gaps = {name: gap for name, (by, gap) in each.items() if by == score and name not in named}
        clear = {name: gap for name, gap in gaps.items() if clearly_better(gap) is not None}
        tied = [name for name in gaps if name not in clear and not identical(result, name)]
        same = [name for name in gaps if identical(result, name)]
        parts = []
        if clear:
            parts.append(_amounts(result, clear, score))
        if tied:
            parts.append(f"{model_names(tied)} {'is' if len(tied) == 1 else 'are'} tied with it")
        if same:
            parts.append(f"{model_names(same)} {'is' if len(same) == 1 else 'are'} identical to it")
        if not parts:
            continue
        text = f"{WORDS[score]} compared with {result.reference!r}: {'; '.join(parts)}."
        better = {clearly_better(gap) for gap in clear.values()}
        level: Level = "good" if True in better else "note"
        numbers = {"better": sum(clearly_better(gap) is True for gap in clear.values())}
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
            words.append(f"that of {name!r} is {'finite' if gap < 0 else 'infinite'}")
        else:
            words.append(f"that of {name!r} is {amount(gap, base)}")
    more = [f"{len(order) - MOST_NAMED} more differ clearly"] if len(order) > MOST_NAMED else []
    return ", ".join([*words, *more])


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
        f"{model_names(outranked[worst])}, but a worse {WORDS[score]}. "
        f"{_explanation(result, worst)}"
    )
    rest = [name for name in fooled if name != worst]
    if rest:
        which = "has" if len(rest) == 1 else "have"
        text += f" {model_names(rest)} {which} a lower ECE and a worse score than other models too."
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
    for name in others(result):
        hits, gap = result.differences[name]["accuracy"], deciding_difference(result, name)[1]
        better = clearly_better(gap)
        if not (hits.low <= 0 <= hits.high) or better is None:
            continue
        # a few rows can make a score infinite; the Brier score must agree
        if math.isinf(gap) and better is not clearly_better(
            result.differences[name]["brier_score"]
        ):
            continue
        found[name] = gap
    if not found:
        return None
    exact = all(float(result.differences[name]["accuracy"]) == 0 for name in found)
    have = "has" if len(found) == 1 else "have"
    same = f"{have} the same accuracy as" if exact else f"{have} an accuracy tied with"
    sides = {clearly_better(gap) for gap in found.values()}
    words = "different" if len(sides) > 1 else "better" if True in sides else "worse"
    text = (
        f"{model_names(list(found))} {same} {result.reference!r}, but {words} "
        "probabilities; the accuracy does not show this."
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
