"""What a comparison says in words: rules that look at the numbers of all models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..audits.finding import LEVELS, Finding, between
from ..estimate import Estimate
from ..text import counted

if TYPE_CHECKING:
    from .comparison import Comparison

FEW_ROWS = 100
FEW_CONFIDENCES = 20
WORDS = {
    "log_score": "log score",
    "brier_score": "Brier score",
    "cost_risk": "risk under your costs",
}
Rule = Callable[["Comparison"], list[Finding]]


def judge_comparison(found: Comparison) -> tuple[Finding, ...]:
    """All findings, the gravest first."""
    findings = [finding for rule in RULES for finding in rule(found)]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _deciding(found: Comparison, models: Sequence[str]) -> str:
    """The score that can tell some models apart: the chosen one, or the Brier score if the log
    score of all is infinite."""
    infinite = all(math.isinf(found.estimates[m][found.score]) for m in models)
    return "brier_score" if infinite else found.score


def _deciding_gap(found: Comparison, model: str) -> tuple[str, Estimate]:
    """By which score a model is told from the reference, and the difference: it is infinite if one
    of the two log scores is, and that of the Brier scores if both are."""
    gap = found.differences[model][found.score]
    return (
        ("brier_score", found.differences[model]["brier_score"])
        if math.isnan(gap)
        else (found.score, gap)
    )


def _better(gap: Estimate) -> bool | None:
    """Whether a difference of scores is clearly below 0, or clearly above; None if chance may have
    made it."""
    if math.isinf(gap):
        return gap < 0
    return True if gap.high < 0 else False if gap.low > 0 else None


def _identical(found: Comparison, model: str) -> bool:
    """Whether a model is the reference under another name: every difference is 0, whatever rows are
    drawn."""
    # infinite scores have no difference
    known = [x for x in found.differences[model].values() if not math.isnan(x)]
    return found.fingerprints[model] == found.fingerprints[found.reference] and all(
        x.low == x.high == 0 for x in known
    )


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[:5]] + (
        [f"{len(names) - 5} more"] if len(names) > 5 else []
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _others(found: Comparison) -> list[str]:
    return [name for name in found.names if name != found.reference]


def best_by_score(found: Comparison) -> list[Finding]:
    """Ferrer & Ramos 2025, Section 2.3: proper scores, and only they, rank probabilities."""
    score = _deciding(found, found.names)
    best = [name for name in found.names if found.ranks[score][name] == 1]
    words, rule = WORDS[score], "best_by_score"
    if len(best) == 1:
        i = found.names.index(best[0])
        clear = int(found.lower[score][i].sum()) == len(found.names) - 1
        than = "clearly better than every other model" if clear else "no other is clearly better"
        return [
            Finding(
                "good",
                rule,
                f"{best[0]!r} has the best {words}, {found.estimates[best[0]][score]:.4g}: {than}.",
            )
        ]
    text = f"No single model is the best by the {words}: {_listed(best)} "
    same = all(name == found.reference or _identical(found, name) for name in best)
    return [
        Finding(
            "note",
            rule,
            text
            + ("are identical." if same else f"cannot be told apart on {counted(found.rows)}."),
        )
    ]


def best_under_costs(found: Comparison) -> list[Finding]:
    """Ferrer & Ramos 2025, Section 2.3.1: a proper score is a mean over many costs; under yours the
    order may be another."""
    if "cost_risk" not in found.ranks:
        return []
    best = [name for name in found.names if found.ranks["cost_risk"][name] == 1]
    score = _deciding(found, found.names)
    if len(best) > 1:
        return [
            Finding(
                "note",
                "best_under_costs",
                f"Under your costs {_listed(best)} cannot be told apart.",
            )
        ]
    risk = found.estimates[best[0]]["cost_risk"]
    text = f"Under your costs {best[0]!r} decides best, at {risk:.4g} per row."
    if found.ranks[score][best[0]] != 1:
        text += (
            f" By the {WORDS[score]} it is not among the best: your costs ask for something else."
        )
    return [Finding("good", "best_under_costs", text)]


def against_reference(found: Comparison) -> list[Finding]:
    """Who is better than the reference, and by how much."""
    findings = []
    for name in _others(found):
        score, gap = _deciding_gap(found, name)
        better = _better(gap)
        if better is None:
            continue
        text = f"{name!r} is {'better' if better else 'worse'} than {found.reference!r}"
        if math.isinf(gap):
            text += f"{', whose' if better else ': its'} {WORDS[score]} is infinite. {_by_brier_alone(found, name)}"
        else:
            text += f": its {WORDS[score]} is {_amount(found, name, score)}.{_both_infinite(found, score)}"
        findings.append(Finding("good" if better else "warning", "against_reference", text))
    return findings


def _amount(found: Comparison, name: str, score: str) -> str:
    """How much lower or higher than that of the reference a score clearly is."""
    gap, base = found.differences[name][score], found.estimates[found.reference][score]
    low, high = (-gap.high, -gap.low) if gap < 0 else gap.interval
    share = f", or {abs(gap) / base:.1%}" if base > 0 else ""
    span = between(Estimate(abs(gap), low=low, high=high))
    return f"{abs(gap):.4g} {'lower' if gap < 0 else 'higher'} ({span}){share}"


def _by_brier_alone(found: Comparison, name: str) -> str:
    better = _better(found.differences[name]["brier_score"])
    if better is None:
        return "By the Brier score alone, the two cannot be told apart."
    return f"By the Brier score alone, it is {'better' if better else 'worse'}: {_amount(found, name, 'brier_score')}."


def _both_infinite(found: Comparison, score: str) -> str:
    return "" if score == found.score else f" (Of both, the {WORDS[found.score]} is infinite.)"


def within_chance(found: Comparison) -> list[Finding]:
    """A difference that its paired interval does not tell from 0."""
    findings = []
    for name in _others(found):
        score, gap = _deciding_gap(found, name)
        if gap.low <= 0 <= gap.high and not _identical(found, name):
            text = (
                f"{name!r} and {found.reference!r} cannot be told apart by the {WORDS[score]}: they differ by {gap:.3g} "
                f"({between(gap)}).{_both_infinite(found, score)}"
            )
            findings.append(Finding("note", "within_chance", text))
    return findings


def identical(found: Comparison) -> list[Finding]:
    """A model that is the reference again, such as the same file under another name."""
    text = "{!r} and {!r} are identical: they say the same in every row."
    return [
        Finding("note", "identical", text.format(name, found.reference))
        for name in _others(found)
        if _identical(found, name)
    ]


def ece_and_score_disagree(found: Comparison) -> list[Finding]:
    """Chidambaram & Ge 2024, Section 3 and Table 1: mean replacement has the lowest calibration
    error and nearly the worst score."""
    findings, score = [], found.score
    # which the calibration error cannot know of
    if any(math.isinf(found.estimates[name][score]) for name in found.names):
        score = "brier_score"
    for i, name in enumerate(found.names):
        fooled = [
            other
            for j, other in enumerate(found.names)
            if found.lower["ece"][i, j] and found.lower[score][j, i]
        ]
        if not fooled:
            continue
        text = (
            f"{name!r} has a lower calibration error (ECE {found.estimates[name]['ece']:.3g}) than {_listed(fooled)}, and "
            f"yet a worse {WORDS[score]}. {_why(found, name)}"
        )
        findings.append(
            Finding(
                "warning",
                "ece_and_score_disagree",
                text,
                advice="Choose by the proper score; read the calibration error beside it, never alone.",
                reference="Chidambaram & Ge 2024, Section 3 and Table 1",
            )
        )
    return findings


def _why(found: Comparison, name: str) -> str:
    """How an error can be small and the score bad, as far as the confidences show it."""
    grid = found.grids[name]
    if len(grid.place) == 1:
        return f"It gives every row the same confidence, {grid.place[0]:.3g}: right on average, and no help in any single case."
    if len(grid.place) <= FEW_CONFIDENCES:
        return f"It knows only {len(grid.place)} different confidences: right on average, but they tell few cases apart."
    return "A calibration error sees averages over rows of like confidence, not how well these tell cases apart."


def accuracy_hides_it(found: Comparison) -> list[Finding]:
    """Ferrer & Ramos 2025, Section 3.2: decisions by the most probable class do not see how good
    the probabilities are."""
    findings = []
    for name in _others(found):
        hits, gap = found.differences[name]["accuracy"], _deciding_gap(found, name)[1]
        better = _better(gap)
        if not (hits.low <= 0 <= hits.high) or better is None:
            continue
        # a few rows decide, not most
        if math.isinf(gap) and better is not _better(found.differences[name]["brier_score"]):
            continue
        same = (
            "the same accuracy as"
            if float(hits) == 0
            else "an accuracy that cannot be told from that of"
        )
        text = (
            f"{name!r} has {same} {found.reference!r} ({found.estimates[name]['accuracy']:.1%}), but its probabilities are "
            f"{'better' if better else 'worse'}: accuracy does not see it."
        )
        findings.append(
            Finding("note", "accuracy_hides_it", text, reference="Ferrer & Ramos 2025, Section 3.2")
        )
    return findings


def infinite_log_score(found: Comparison) -> list[Finding]:
    """Ferrer & Ramos 2025, Section 2.3.3; Chidambaram & Ge 2024, Table 1: histogram binning and
    isotonic regression may state a probability of 0."""
    findings = []
    for name in found.names:
        count = int(found.summaries[name].log.infinite.sum())
        if count:
            text = f"{name!r} gave the true class probability 0 in {counted(count)}: its log score is infinite."
            advice = "What states a probability of exactly 0 must be certain; a finite calibrator, or a floor, avoids it."
            findings.append(
                Finding(
                    "bad",
                    "infinite_log_score",
                    text,
                    advice=advice,
                    reference="Ferrer & Ramos 2025, Section 2.3.3",
                )
            )
    return findings


def rows_set_aside(found: Comparison) -> list[Finding]:
    if not found.dropped_rows:
        return []
    total = found.rows + found.dropped_rows
    parts = ", ".join(
        f"{sum(rules.values()):,} by {name!r}" for name, rules in found.dropped.items() if rules
    )
    text = f"{found.dropped_rows:,} of {total:,} rows were set aside for all models, because a rule was broken: {parts}."
    return [Finding("warning", "rows_set_aside", text)]


def only_confidence(found: Comparison) -> list[Finding]:
    """Chidambaram & Ge 2024, Proposition 4.5: a confidence can be scored well by a system that is
    always wrong, and knows it."""
    if found.summaries[found.reference].plan.kind != "pairs":
        return []
    text = (
        "Each system's confidence is judged by its own answers: a better score does not mean better answers. Read it with the "
        "accuracy."
    )
    return [Finding("note", "only_confidence", text)]


def few_rows(found: Comparison) -> list[Finding]:
    if found.rows >= FEW_ROWS:
        return []
    return [
        Finding(
            "note", "few_rows", f"Only {counted(found.rows)}: take every interval here as rough."
        )
    ]


RULES: tuple[Rule, ...] = (
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
