"""The verdict: rules that look at the numbers and say in plain words what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..budget import Budget
from ..estimates.estimate import Estimate
from ..estimates.null import BinnedError
from ..statistics import Summary

Level = Literal["bad", "warning", "good", "note"]
ORDER: tuple[Level, ...] = ("bad", "warning", "good", "note")
FEW_ROWS = 100
FEW_OF_A_CLASS = 10
WORTH_REPAIRING = 0.005  # the share of a score that a calibrator must surely gain to be recommended
BAD_ROWS = {
    "label": "with a label that is no class",
    "weight": "with a weight that is no weight",
    "value": "with an output out of range",
    "sum": "that do not sum to 1",
}


@dataclass(frozen=True)
class Finding:
    """One thing an audit has to say: how grave, which rule says it, and the words."""

    level: Level
    rule: str
    text: str


Estimates = Mapping[str, Estimate]
Rule = Callable[[Summary, Estimates], Finding | None]


def judge(
    summary: Summary, estimates: Estimates, calibration: BinnedError, budget: Budget | None = None
) -> tuple[Finding, ...]:
    """All findings, the gravest first."""
    found = [finding for rule in RULES if (finding := rule(summary, estimates)) is not None]
    found += [finding] if (finding := against_chance(calibration)) is not None else []
    found += [] if budget is None else [hidden_groups(budget)]
    return tuple(sorted(found, key=lambda finding: ORDER.index(finding.level)))


def _between(estimate: Estimate) -> str:
    return f"95% interval {estimate.low:.3g} to {estimate.high:.3g}"


def infinite_log_score(summary: Summary, estimates: Estimates) -> Finding | None:
    """Paper 2, Section 2.3.3: the cross-entropy is infinite if the true class ever has posterior 0."""
    count = int(summary.log.infinite.sum())
    if not count:
        return None
    rows = "In 1 row" if count == 1 else f"In {count:,} rows"
    return Finding(
        "bad",
        "infinite_log_score",
        f"{rows} of {summary.rows:,} the true class was given probability 0: the log score is infinite. Whatever states a "
        "probability of exactly 0 must be certain.",
    )


def against_class_frequencies(summary: Summary, estimates: Estimates) -> Finding | None:
    """Paper 2, Section 2.3.2: above 1 a system is worse than the best one that never looks at the input."""
    name, words = ("log_score.normalized", "log score")
    if not math.isfinite(estimates[name]):
        name, words = ("brier_score.normalized", "Brier score")
    x = estimates[name]
    if math.isnan(x) or math.isnan(x.low):
        return None
    rule = "against_class_frequencies"
    if x.low > 1:
        return Finding(
            "bad",
            rule,
            f"Worse than always forecasting the class frequencies: the {words} is {x:.3g} times as large ({_between(x)}).",
        )
    if x.high >= 1:
        return Finding(
            "warning",
            rule,
            f"Not clearly better than always forecasting the class frequencies: the {words} is {x:.3g} times as large "
            f"({_between(x)}).",
        )
    return Finding(
        "good",
        rule,
        f"Better than always forecasting the class frequencies: the {words} is {1 - x:.0%} lower ({_between(x)} of it).",
    )


def good_decisions_bad_probabilities(summary: Summary, estimates: Estimates) -> Finding | None:
    """Paper 2, Section 3.2: argmax decisions do not see a miscalibration that ruins the posteriors."""
    if "error_rate.normalized" not in estimates:
        return None
    decisions, probabilities = estimates["error_rate.normalized"], estimates["log_score.normalized"]
    if decisions.high < 1 and probabilities.value > 1:
        return Finding(
            "warning",
            "good_decisions_bad_probabilities",
            f"The most probable class is a good guess (accuracy {estimates['accuracy']:.1%}), but the probabilities are not "
            "good probabilities: recalibrate them before they are used as such.",
        )
    return None


def worse_than_constant_decision(summary: Summary, estimates: Estimates) -> Finding | None:
    """Decisions under the user's costs, against the best decision that is always the same."""
    x = estimates.get("cost_risk.normalized")
    if x is None or math.isnan(x.low):
        return None
    if x.high < 1:
        return None
    level: Level
    level, words = ("bad", "worse") if x.low > 1 else ("warning", "not clearly better")
    return Finding(
        level,
        "worse_than_constant_decision",
        f"Under your costs, deciding by these probabilities is {words} than always deciding the same: "
        f"it costs {x:.3g} times as much ({_between(x)}).",
    )


def rejecting_all_is_better(summary: Summary, estimates: Estimates) -> Finding | None:
    """Paper 2, Table 2: overconfident posteriors accept what they should have rejected."""
    x = estimates.get("reject_risk.normalized")
    if x is None or math.isnan(x.low) or x.low <= 1:
        return None
    return Finding(
        "warning",
        "rejecting_all_is_better",
        f"With a reject option at {summary.plan.reject_cost:g} of the cost of an error, deciding by these probabilities costs "
        f"{x:.3g} times as much as the best constant decision ({_between(x)}): they are too sure of themselves.",
    )


def rows_set_aside(summary: Summary, estimates: Estimates) -> Finding | None:
    if not summary.dropped:
        return None
    total = summary.dropped + summary.rows
    parts = ", ".join(f"{count:,} {BAD_ROWS[rule]}" for rule, count in summary.bad.items() if count)
    return Finding("warning", "rows_set_aside", f"{summary.dropped:,} of {total:,} rows were set aside: {parts}.")


def only_confidence(summary: Summary, estimates: Estimates) -> Finding | None:
    """Paper 5, Proposition 4.5: the loss of the confidence alone can be small for a predictor that is always wrong."""
    if summary.plan.kind != "pairs":
        return None
    return Finding(
        "note",
        "only_confidence",
        "Only the confidence in the stated answer is judged: its scores say nothing of how good the answers are. "
        "Read them with the accuracy.",
    )


def one_class(summary: Summary, estimates: Estimates) -> Finding | None:
    if (summary.log.rows > 0).sum() > 1:
        return None
    return Finding("warning", "one_class", "All rows belong to one class: there is nothing to compare the forecasts with.")


def miscalibration_costs(summary: Summary, estimates: Estimates) -> Finding | None:
    """Paper 2, Section 2.5.3: what a calibrator would gain is what miscalibration costs."""
    x, after = estimates.get("calibration_loss.relative"), estimates.get("log_score.calibrated")
    if x is None and after is not None and math.isfinite(after):
        text = f"A calibrator would bring the log score down from infinity to {after:.3g}: `probaudit calibrate` does it."
        return Finding("warning", "miscalibration_costs", text)
    if x is None or not math.isfinite(x.low):
        return None
    between = f"95% interval {x.low:.1%} to {x.high:.1%}"
    if x.low > WORTH_REPAIRING:
        text = f"Miscalibration costs {x:.1%} of the log score ({between}): `probaudit calibrate` repairs that much."
        return Finding("warning", "miscalibration_costs", text)
    gain = f"would gain {x:.1%} of the log score" if x > 0 else f"would make the log score {-x:.1%} worse"
    text = f"Nothing to repair that these rows could show: a calibrator fitted to them {gain} ({between})."
    return Finding("good" if x.high < 0.05 else "note", "miscalibration_costs", text)


def against_chance(calibration: BinnedError) -> Finding | None:
    """A calibrated model too has a calibration error, by chance; only what exceeds it says anything."""
    if math.isnan(calibration.p_value):
        return None
    words = f"calibration error of {calibration.value:.3g}, where chance alone gives {calibration.null_mean:.3g}"
    if calibration.p_value < 0.01:
        text = f"Miscalibrated: the most probable class has a {words} (p = {calibration.p_value:.3g})."
        return Finding("warning", "against_chance", text)
    text = f"No miscalibration to be seen in the most probable class: a {words} (p = {calibration.p_value:.2g})."
    return Finding("good", "against_chance", text)


def hidden_groups(budget: Budget) -> Finding:
    """Paper 1: calibrated on average, and yet wrong for those who share an output; only differences beyond chance count."""
    share, low, high = (float(x) / budget.total for x in (budget.grouping, *budget.grouping.interval))
    between = f"95% interval {low:.1%} to {high:.1%}"
    served = next(iter(budget.badly_served(1)), None)
    if low <= WORTH_REPAIRING:
        text = f"No grouping loss to speak of: {share:.1%} of the Brier score ({between})."
        return Finding("good" if high < 0.05 else "note", "hidden_groups", text)
    text = (
        f"Rows with the same output have different chances: at least {share:.1%} of the Brier score is lost by it ({between})."
    )
    if served is not None:
        text += (
            f" Among the worst served are {served.rows:,} rows ({served.rule}): stated {served.stated:.2f},"
            f" observed {served.observed:.2f}."
        )
    return Finding("warning", "hidden_groups", text)


def few_rows(summary: Summary, estimates: Estimates) -> Finding | None:
    present = summary.log.rows[summary.log.rows > 0]
    if summary.rows < FEW_ROWS:
        return Finding("note", "few_rows", f"Only {summary.rows} rows: take every interval here as rough.")
    if len(present) > 1 and present.min() < FEW_OF_A_CLASS:
        thin = int((present < FEW_OF_A_CLASS).sum())
        classes = "1 class has" if thin == 1 else f"{thin} classes have"
        return Finding("note", "few_rows", f"{classes} fewer than {FEW_OF_A_CLASS} rows: little can be said about them.")
    return None


def absent_classes(summary: Summary, estimates: Estimates) -> Finding | None:
    absent = [repr(c) for c, rows in zip(summary.plan.classes, summary.log.rows, strict=True) if rows == 0]
    if not absent or len(absent) == len(summary.plan.classes) - 1:
        return None
    shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
    return Finding("note", "absent_classes", f"No row belongs to {shown}.")


RULES: tuple[Rule, ...] = (
    infinite_log_score,
    against_class_frequencies,
    worse_than_constant_decision,
    good_decisions_bad_probabilities,
    rejecting_all_is_better,
    miscalibration_costs,
    one_class,
    rows_set_aside,
    only_confidence,
    few_rows,
    absent_classes,
)
