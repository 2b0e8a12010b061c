"""The verdict of an audit: rules that read its numbers and report findings in plain words.

To add a rule, write a function from a `Case` to its findings, decorate it with `rule`, and list it
in `RULES` at the end of this file (`PITFALLS` in pitfalls.py for a pitfall). Nothing else needs to
know it. Rules about the rows themselves are in row_findings.py.
"""

from __future__ import annotations

import math
from typing import Literal

from ..calibrators.registry import METHODS
from ..estimate import Estimate
from ..grouping.budget import Budget
from ..text import capitalised, p_words, percent, short_number, whole_percent
from .case import FEW_ROWS, Case, off_on_average
from .finding import (
    Advice,
    ApplyCalibrator,
    Calibrate,
    Finding,
    Level,
    NameGroups,
    VerdictRule,
    apply_rules,
    between,
    between_shares,
    interval_numbers,
    rule,
)
from .lens_error import LensError
from .pitfalls import (
    OWN_OUTPUTS,
    PITFALLS,
    calibrate_groups,
    judged_event,
    miscalibrated_class,
    miscalibrated_group,
)
from .repairs import helps
from .row_findings import (
    absent_classes,
    columns_not_grouped,
    few_clusters,
    few_of_a_class,
    few_rows,
    infinite_log_score,
    one_class,
    only_confidence,
    rows_set_aside,
)

DETECTED, POSSIBLE = 0.01, 0.05  # p-values below which miscalibration is detected, or possible
# shares of a score: a loss is reported if the lower limit of its interval is above the first, and
# ruled out if the upper limit is below the second
WORTH_REPAIRING, SMALL_LOSS = 0.005, 0.05
# if the interval contains this normalised score, the rows are too few to call a model poor
PLAUSIBLE_GAIN = 0.9
# if fewer of the rows were searched for hidden groups, the finding reports the share
MOST_ROWS = 0.9
METHOD = "bias-corrected temperature"  # the calibrator of the calibration loss


def judge(case: Case) -> tuple[Finding, ...]:
    """All findings, the most serious first."""
    return apply_rules((*RULES, *PITFALLS), case)


@rule("Ferrer & Ramos 2025, Section 2.3.2")
def against_class_frequencies(case: Case) -> Finding | None:
    """A normalised score above 1 is worse than that of the base-rate forecast."""
    name, words = ("log_score.normalized", "log loss")
    if not math.isfinite(case.estimates[name]):
        name, words = ("brier_score.normalized", "Brier score")
    x = case.estimates[name]
    if math.isnan(x) or math.isnan(x.low):
        return None
    base = "the base-rate forecast"
    times = f"the {words} is {short_number(x)} times as large ({between(x)})"
    if x.low > 1:
        check = "confidences and answers" if case.pairs else "labels, classes and columns"
        outputs = "confidences are probabilities" if case.pairs else "outputs are logits"
        return Finding(
            "bad",
            f"Worse than {base}: {times}.",
            clause=f"they are worse than {base}",
            advice=(f"Check whether {check} match, and whether {outputs}.",),
            numbers=interval_numbers(x),
        )
    if x.high >= 1:
        few = case.rows < FEW_ROWS or x.low < PLAUSIBLE_GAIN
        return Finding(
            "warning",
            f"Not clearly better than {base}: {times}.",
            clause=f"too few rows to show that they are better than {base}"
            if few
            else f"they are hardly better than {base}",
            advice=_advice_against_base_rate(case),
            numbers=interval_numbers(x),
        )
    fine = "" if _miscalibrated(case) or _possibly_miscalibrated(case) else _no_miscalibration(case)
    return Finding(
        "good",
        f"Better than {base}: the {words} is {percent(1 - x)} lower "
        f"({between_shares(1 - x.high, 1 - x.low)}).",
        clause=f"they are better than {base}{fine}",
        numbers=interval_numbers(x),
    )


def _advice_against_base_rate(case: Case) -> Advice:
    """Recalibration, if the log loss is then clearly lower than that of the base-rate forecast."""
    best = case.selected
    if best is not None and helps(best, case.material) and best.normalized.high < 1:
        left = short_number(best.normalized)
        return (f"Recalibrate: after {best.title}, it is {left} times as large.",)
    if case.compared:
        return ("Use a better model or more rows.",)
    return ("Try a calibrator. If none helps, use a better model or more rows.",)


def _no_miscalibration(case: Case) -> str:
    return f", and no miscalibration is detected ({_tests(case)})"


@rule("Ferrer & Ramos 2025, Section 2.3.1")
def worse_than_constant_decision(case: Case) -> Finding | None:
    """Decisions under the user's costs, compared with the best constant decision."""
    x = case.estimates.get("cost_risk.normalized")
    if x is None or math.isnan(x.low) or x.high < 1:
        return None
    level: Level
    level, words = ("bad", "worse") if x.low > 1 else ("warning", "not clearly better")
    clause = f"under your costs, they are {words} than the same decision for every row"
    return Finding(
        level,
        f"Under your costs, decisions by these probabilities are {words} than the same decision "
        f"for every row: they cost {short_number(x)} times as much ({between(x)}).",
        clause=clause,
        advice=("Recalibrate, then audit other rows under the same costs.",),
        numbers=interval_numbers(x),
    )


def _columns_used(name: str, case: Case) -> Literal["", "groups", "features"]:
    """What a calibrator needs besides outputs. One that takes groups or features gets groups."""
    needs = METHODS[name][0].needs
    if "groups" in needs and case.group_columns:
        return "groups"
    return "features" if "features" in needs else ""


def recommended_fit(case: Case) -> Calibrate:
    """How to fit the recommended calibrator. If many were compared, the same comparison chooses it
    again; its gain is corrected for the choice."""
    best = case.selected
    if best is None or best.name == "identity":
        return Calibrate()
    uses = _columns_used(best.name, case)
    method = "auto" if case.compared else best.name
    return Calibrate(method, uses, case.group_columns if uses == "groups" else ())


@rule("Ferrer & Ramos 2025, Section 2.5.3")
def miscalibration_costs(case: Case) -> Finding | None:
    """The cost of miscalibration is the loss that a calibrator removes out of fold."""
    best = case.selected
    if best is not None and best.name == "identity" and case.compared:
        return _no_calibrator_helps(case)
    x, after = (
        case.estimates.get("calibration_loss.relative"),
        case.estimates.get("log_score.calibrated"),
    )
    method = METHOD
    if best is not None and best.name != "identity":
        method = best.title
        x, after = (best.gain if math.isfinite(best.gain) else None), best.log_score
    fit = recommended_fit(case)
    advice = ("Recalibrate: ", fit, ", then ", ApplyCalibrator(fit.uses), ".")
    if x is None and after is not None and math.isfinite(after):
        return Finding(
            "warning",
            f"A calibrator ({method}) lowers the log loss from infinity to {short_number(after)}.",
            clause="their log loss is infinite, and a calibrator makes it finite",
            advice=advice,
            numbers={"log_score.calibrated": float(after)},
        )
    if x is None or not math.isfinite(x.low):
        return None
    if x.low > 0 and x >= case.material:
        span = between_shares(x.low, x.high)
        return Finding(
            "warning",
            f"Miscalibration costs {percent(x)} of the log loss ({span}), removable by {method}.",
            clause=f"miscalibration costs {x:.0%} of the log loss, removable by recalibration",
            advice=advice,
            numbers=interval_numbers(x),
        )
    if case.compared:
        return Finding(
            _level_of_no_gain(case, x),
            f"{_needless(case, x)}{method} {_gain(x)}.",
            clause="no calibrator clearly helps",
            numbers=interval_numbers(x),
        )
    return Finding(
        _level_of_no_gain(case, x),
        f"{method[0].upper()}{method[1:]} does not help: it {_gain(x)}. Other calibrators were not "
        "tried.",
        clause=f"{method} does not help",
        advice=("To compare other calibrators: ", Calibrate(), "."),
        numbers=interval_numbers(x),
    )


def _gain(x: Estimate, more: str = "") -> str:
    """The change of the log loss, with its interval in the same direction."""
    if x > 0:
        return f"removes {percent(x)} of the log loss ({between_shares(x.low, x.high)}{more})"
    return f"adds {percent(-x)} to the log loss ({between_shares(-x.high, -x.low)}{more})"


def _miscalibrated(case: Case) -> bool:
    """Whether any test of this audit detects miscalibration."""
    tests = (against_chance, miscalibrated_class, miscalibrated_group)
    return any(finding.level == "warning" for test in tests for finding in test(case))


def _possibly_miscalibrated(case: Case) -> bool:
    return any(test.p_value < POSSIBLE for test in case.tests)


def _tests(case: Case) -> str:
    return "1 test" if len(case.tests) == 1 else f"{len(case.tests)} tests"


def _level_of_no_gain(case: Case, gain: Estimate) -> Level:
    """A calibrator that gains nothing is good news only if the interval is narrow and no test
    detects miscalibration."""
    return "good" if gain.high < SMALL_LOSS and not _miscalibrated(case) else "note"


def _needless(case: Case, gain: Estimate) -> str:
    """The start of a sentence on a calibrator that gains nothing. Other rows could need one if
    these are few, and a useless model needs more than a calibrator."""
    useful = case.estimates["log_score.normalized"].high < 1
    sure = _level_of_no_gain(case, gain) == "good" and useful
    if sure:
        return "No recalibration needed: "
    return "Not clearly a gain: " if gain.low <= 0 <= gain.high else "On these rows, "


def _no_calibrator_helps(case: Case) -> Finding:
    """None of the calibrators compared is clearly better than the original outputs."""
    others = [repair for repair in case.repairs if not repair.control and repair.name != "identity"]
    best = min(others, key=lambda repair: float(repair.log_score))
    x = best.gain
    start = _needless(case, x)
    sure = start.startswith("No rec")
    start, helps_words = (f"{start}n", "helps") if sure else ("N", "is shown to help")
    return Finding(
        _level_of_no_gain(case, x),
        f"{start}one of {len(others)} calibrators {helps_words}. The best, {best.title}, "
        f"{_gain(x, ', not corrected for the choice of the best')}.",
        clause=f"none of {len(others)} calibrators helps",
        numbers=interval_numbers(x),
    )


@rule("Ferrer & Ramos 2025, Section 3.2")
def good_decisions_bad_probabilities(case: Case) -> Finding | None:
    """Miscalibration can ruin the probabilities and leave argmax decisions intact."""
    if "error_rate.normalized" not in case.estimates:
        return None
    decisions = case.estimates["error_rate.normalized"]
    if not (decisions.high < 1 and case.estimates["log_score.normalized"].value > 1):
        return None
    accuracy = case.estimates["accuracy"]
    return Finding(
        "warning",
        f"Trust the predicted class, not its probability: the accuracy is {percent(accuracy)}, but "
        "the log loss is worse than that of the base-rate forecast.",
        clause="trust the predicted class, not its probability",
        advice=(
            "Recalibrate before use: ",
            recommended_fit(case),
            ". Or use the predicted class alone.",
        ),
        numbers=interval_numbers(accuracy),
    )


@rule("Ferrer & Ramos 2025, Section 3.2")
def rejecting_all_is_better(case: Case) -> Finding | None:
    """Overconfident probabilities accept rows that they should reject (Table 2)."""
    x = case.estimates.get("reject_risk.normalized")
    if x is None or math.isnan(x.low) or x.low <= 1:
        return None
    review = case.summary.plan.reject_cost
    # the cheaper of the two decisions that treat all rows alike
    reviews = math.isclose(case.estimates["reject_risk"] / x, review, rel_tol=1e-9)
    alike = "reviewing every row" if reviews else "giving every row the same answer"
    more = f"{whole_percent(x - 1)} more than {alike}"
    return Finding(
        "warning",
        f"If a review costs {whole_percent(review)} of an error, acting on these probabilities "
        f"costs {more} (95% interval {whole_percent(x.low - 1)} to {whole_percent(x.high - 1)}).",
        clause=f"if a review costs {whole_percent(review)} of an error, acting on these "
        f"probabilities costs {more}",
        advice=(
            "Until the probabilities are repaired, "
            + ("review every row." if reviews else "give every row the same answer."),
        ),
        numbers=interval_numbers(x),
    )


@rule("Bröcker & Smith 2007 (consistency resampling); Vaicenavicius et al. 2019")
def against_chance(case: Case) -> Finding | None:
    """Calibration errors against those of a calibrated model with the same outputs; p-values are
    corrected for all tests of the audit."""
    if math.isnan(case.ece.p_value):
        return None
    worst = next(
        (test for test in case.tests if test.p_value < DETECTED),
        min(case.tests, key=lambda test: test.p_value),
    )
    size, event = _size(worst.error), _event(case, worst.error)
    p = p_words(worst.p_value)
    p += f", corrected for {_tests(case)}" if len(case.tests) > 1 else ""
    numbers = {
        "value": float(worst.error.estimate),
        "null_mean": worst.error.null_mean,
        "p_value": worst.p_value,
    }
    if worst.p_value < DETECTED:
        direction = _direction(case, worst.error)
        small = " Recalibration would hardly change the log loss." if case.immaterial else ""
        return Finding(
            "note" if case.immaterial else "warning",
            f"Miscalibrated: {event} has a calibration error of {size} ({p}){direction}.{small}",
            clause=f"{event} has a calibration error of {size}",
            advice=(OWN_OUTPUTS if case.constant else "See the reliability diagram.",),
            numbers=numbers,
        )
    if worst.p_value < POSSIBLE:
        return Finding(
            "note",
            f"Possibly miscalibrated: {event} has a calibration error of {size} ({p}). More rows "
            "would decide.",
            clause=f"{event} may be miscalibrated",
            numbers=numbers,
        )
    size, event = _size(case.ece), judged_event(case)
    if case.too_few and off_on_average(case):
        return Finding(
            "note",
            f"On these rows only the average can be judged: it is clearly off, {event} has a "
            f"calibration error of {size}, and the 95% limit if calibrated is "
            f"{short_number(case.error_limit)}.",
            clause="the average is clearly off",
            numbers=numbers,
        )
    if case.too_few:
        return Finding(
            "note",
            f"Too few rows to detect miscalibration by the calibration error: that of {event} is "
            f"{size} (95% limit {short_number(case.error_limit)}).",
            clause="there are too few rows to detect miscalibration by the calibration error",
            numbers=numbers,
        )
    return Finding(
        "good",
        f"No miscalibration detected ({_tests(case)}): {event} has a calibration error of {size}.",
        clause=f"no miscalibration is detected ({_tests(case)})",
        numbers=numbers,
    )


def _direction(case: Case, error: LensError) -> str:
    """In which direction the judged event is off on average, if it is."""
    risk = case.validation
    if risk is None or error not in case.errors or not risk.adjusted < DETECTED:
        return ""
    predicted, observed = percent(risk.predicted), percent(risk.observed)
    if case.pairs:
        how = "overconfident" if risk.predicted > risk.observed else "underconfident"
        return f"; {how}: predicts {predicted} on average, right {observed}"
    return f"; {risk.verdict}: predicts {predicted} on average, {observed} happened"


def _size(error: LensError) -> str:
    null = f"{short_number(error.null_mean)} is expected if calibrated"
    return f"{short_number(error.estimate)}, where {null}"


def _event(case: Case, error: LensError) -> str:
    """The event of a calibration error, in a sentence."""
    group = next((group for group in case.groups if group.error is error), None)
    if group is not None:
        return str(group.population)
    if error.name in ("ece", "ace"):
        return judged_event(case)
    return {
        "classwise_ece": "the mean over classes",
        "full_ece": "the vector of all classes",
    }.get(error.name, error.title)


@rule("Perez-Lebel, Le Morvan & Varoquaux 2023, Section 4")
def hidden_groups(case: Case) -> Finding | None:
    """Rows with the same prediction and different outcomes. The estimate is a lower bound, so it
    cannot rule hidden groups out."""
    budget = case.budget
    if budget is None:
        return None
    if not budget.found.searched:
        return Finding(
            "note",
            "Too few rows to search for hidden groups.",
            advice=("Use more rows, fewer bins, or known groups (", NameGroups(), ")."),
        )
    share, low, high = (
        float(x) / budget.total for x in (budget.grouping, *budget.grouping.interval)
    )
    score, span = budget.score_words(pairs=case.pairs), between_shares(low, high)
    numbers = {"value": share, "low": low, "high": high}
    left = case.repair_of_groups
    if low <= WORTH_REPAIRING:
        after = "" if left is None else f"after {left.title}, "
        found = "no hidden groups are detected" if low <= 0 else "hidden groups cost little"
        cost = f"their estimated cost is {percent(max(share, 0.0))} of the {score} ({span})"
        return Finding(
            "note",
            f"{capitalised(after + found)} with these features: {cost}. Groups that these features "
            f"do not reveal are not ruled out.{_partial_search(budget)}",
            clause=f"{found} with these features",
            numbers=numbers,
        )
    known = budget.found.given_groups
    better = "Use these features in the model"
    if known:
        better = "Give the model what sets these groups apart"
    per_group = calibrate_groups(case) if known else _calibrate_regions(case)
    until: Advice = ()
    if per_group is not None and left is None:
        until = ("; until then, calibrate by group: ", per_group)
    hidden = "Hidden groups" if left is None else f"Even after {left.title}, hidden groups"
    return Finding(
        "warning",
        f"{hidden}, with the same prediction but different outcomes, cost at least "
        f"{percent(share)} of the {score} ({span}).{_worst_region(budget)}",
        clause="hidden groups: same prediction, different outcomes",
        advice=(better, *until, "."),
        numbers=numbers,
    )


def _calibrate_regions(case: Case) -> Calibrate | None:
    """A calibrator that learns groups from features; None if calibrators were compared, as another
    one is then recommended."""
    return None if case.compared else Calibrate("group_calibration", uses="features")


def _partial_search(budget: Budget) -> str:
    if budget.found.searched >= MOST_ROWS:
        return ""
    searched = percent(budget.found.searched)
    return f" Only {searched} of the rows were searched: the other bins have too few."


def _worst_region(budget: Budget) -> str:
    worst = next(iter(budget.misjudged(1)), None)
    if worst is None:
        return ""
    after = " after calibration" if budget.calibrator else ""
    return (
        f" Among the most misjudged are {worst.rows:,} rows ({worst.rule}): predicted "
        f"{percent(worst.stated)}{after}, observed {percent(worst.observed)}."
    )


RULES: tuple[VerdictRule[Case], ...] = (
    infinite_log_score,
    against_class_frequencies,
    worse_than_constant_decision,
    miscalibration_costs,
    good_decisions_bad_probabilities,
    rejecting_all_is_better,
    one_class,
    rows_set_aside,
    only_confidence,
    against_chance,
    hidden_groups,
    few_rows,
    few_clusters,
    few_of_a_class,
    absent_classes,
    columns_not_grouped,
)
