"""Pitfalls: numbers or repairs that look good for the wrong reason. To add one, write a rule and
list it in `PITFALLS` at the end of this file."""

from __future__ import annotations

import math

import numpy as np

from ..calibration.views import lens_rows
from ..calibrators.registry import METHODS
from ..text import (
    capitalised,
    class_words,
    counted,
    enumerated,
    number,
    p_words,
    percent,
    short_number,
    whole_percent,
)
from .case import Case
from .finding import Advice, Calibrate, Finding, VerdictRule, between_shares, rule
from .groups import Group
from .repairs import Repair, helps
from .row_findings import judged_on_its_own_rows

OWN_OUTPUTS = "Check that these are the model's own outputs, and audit those."
LOW_ECE = 0.02
# the lower limit of a loss, as a share of a score, above which the loss is large, or clear
LARGE_LOSS, CLEAR_LOSS = 0.02, 0.005
FEW_VALUES = 20
MOST_NAMED = 5  # groups with their rates in a sentence
ENOUGH_ROWS = 100
MATERIAL = 0.005  # smaller changes of a calibration error are ignored
NOT_REFUTED = 0.05  # from this p-value on, calibration is not rejected


def judged_event(case: Case) -> str:
    """The event that the audit judges first, in a sentence."""
    if case.event is not None:
        return f"the probability of {class_words(case.event)}"
    return "the confidence" if case.pairs else "the most probable class"


@rule(
    "Perez-Lebel, Le Morvan & Varoquaux 2023, Sections 2 and 4",
    looks_for="hidden groups behind a good average",
)
def calibrated_but_not_for_all(case: Case) -> Finding | None:
    """A calibrated model can have any grouping loss, and no map of its outputs removes it
    (Perez-Lebel et al. 2023, Sections 2 and 4.1)."""
    if case.budget is None or case.ece.p_value < 0.01:
        return None
    low = case.budget.grouping.low / case.budget.total
    if not low > CLEAR_LOSS:
        return None
    score = case.budget.score_words(pairs=case.pairs)
    return Finding(
        "warning",
        "Right on average, wrong for some: no overall miscalibration is detected, but hidden "
        f"groups cost at least {percent(low)} of the {score}. No map of the outputs alone can "
        "repair this.",
        clause="right on average, wrong for some",
        advice=(
            "See the groups the model misjudges. Give the model the features that distinguish "
            "them.",
        ),
        numbers={"low": low},
    )


@rule(
    "Ferrer & Ramos 2025, Section 2.5.2",
    looks_for="a low calibration error beside a high calibration loss",
)
def low_error_high_loss(case: Case) -> Finding | None:
    """The ECE compares means of bins, mostly of the confidence alone, and is not a proper score, so
    it can be small even if a calibrator gains much (Ferrer & Ramos 2025, Section 2.5.2)."""
    best, ece = case.selected, case.ece
    small = ece.estimate < LOW_ECE
    if best is None or not ((small or ece.p_value >= 0.01) and best.gain.low > LARGE_LOSS):
        return None
    x = best.gain
    size = "is small" if small else "is not larger than expected if calibrated"
    top = case.event is None and not case.pairs
    blind = "reads only the most probable class" if top else "compares only the means of bins"
    return Finding(
        "warning",
        f"The ECE {size} ({short_number(ece.estimate)}), but recalibration ({best.title}) removes "
        f"{percent(x)} of the log loss ({between_shares(x.low, x.high)}): the ECE {blind}.",
        clause=f"the ECE {size}, but recalibration removes {x:.0%} of the log loss",
        advice=("Judge by the calibration loss. See also the errors of each class and rank.",),
        numbers={"ece": float(ece.estimate), "value": float(x), "low": x.low, "high": x.high},
    )


@rule(
    "Ferrer & Ramos 2025, Section 2.4.2",
    looks_for="temperature scaling that misses a shift of the class frequencies",
)
def blind_temperature(case: Case) -> Finding | None:
    """A temperature scales the log-probabilities of all classes by the same factor and cannot
    correct wrong priors; a bias can (Ferrer & Ramos 2025, Section 2.4.2)."""
    plain, corrected = case.repair("temperature"), case.repair("bias_corrected_temperature")
    if plain is None or corrected is None:
        return None
    gap = float(plain.log_score) - float(corrected.log_score)
    widths = sum((repair.worse_by.high - repair.worse_by.low) / 2 for repair in (plain, corrected))
    if not (math.isfinite(gap) and gap > widths and gap > CLEAR_LOSS * plain.log_score):
        return None
    shifted = "mean accuracy" if case.pairs else "class frequencies"
    corrected_already = helps(case.selected, case.material) and case.selected is not plain
    return Finding(
        "note" if corrected_already else "warning",
        f"Temperature scaling misses a shift of the {shifted}: it leaves a log loss of "
        f"{short_number(plain.log_score)}, bias correction {short_number(corrected.log_score)}.",
        clause=f"temperature scaling misses a shift of the {shifted}",
        advice=(_bias_advice(case),),
        numbers={
            "temperature": float(plain.log_score),
            "bias_corrected_temperature": float(corrected.log_score),
        },
    )


def _bias_advice(case: Case) -> str:
    """A calibrator with a bias, unless the verdict advises another than a temperature already."""
    known = (
        "If you know the class frequencies in production, correct for them "
        "(calibrators.PriorCorrection)."
    )
    if helps(case.selected, case.material):
        return "The recommended calibrator corrects it." if case.pairs else known
    if case.pairs:
        return "Use a calibrator with a bias, such as bias-corrected temperature."
    use = "Use a calibrator with a bias for each class, such as bias-corrected temperature."
    return f"{use} {known}"


@rule(
    "Chidambaram & Ge 2024, Section 3",
    looks_for="constant or few different probabilities",
)
def few_confidences(case: Case) -> Finding | None:
    """One confidence for all rows (mean replacement), or a few (histogram binning), can be
    calibrated but is not sharp (Chidambaram & Ge 2024, Section 3)."""
    plan = case.summary.plan
    (shown,) = lens_rows(case.evidence.sample, plan.lens)
    n, values = len(shown.rows), np.unique(shown.view.outputs.astype(np.float32))
    if n < ENOUGH_ROWS or len(values) > min(FEW_VALUES, n // 10):
        return None
    one, several = ("confidence", "confidences")
    if case.event is not None:
        name = class_words(case.event)
        one, several = (f"probability of {name}", f"probabilities of {name}")
    numbers = {"confidences": len(values), "rows": n}
    if values.tolist() in ([1.0], *([] if case.event is None else ([0.0], [0.0, 1.0]))):
        return Finding(
            "warning",
            f"Every {one} is {' or '.join(f'{value:g}' for value in values)}: these are decisions, "
            "not probabilities.",
            clause="these are decisions, not probabilities",
            advice=("Audit the probabilities that the decisions were made from.",),
            numbers=numbers,
        )
    if len(values) > 1:
        return Finding(
            "note",
            f"Only {len(values)} different {several} in {n:,} rows, as after binning, voting or "
            "rounding: rows that differ get the same one.",
            clause=f"only {len(values)} different {several} in {n:,} rows",
            advice=("If outputs were binned or rounded, audit the original ones.",),
            numbers=numbers,
        )
    same = f"every row has the same {one}, {short_number(values[0])}"
    what = "right from wrong" if case.event is None else "rows with the event from others"
    text = f"{same[0].upper()}{same[1:]}, which does not separate {what}. "
    if case.ece.p_value >= NOT_REFUTED:
        text += "A calibration error cannot detect that."
    elif case.event is None:
        right = percent(case.estimates["accuracy"])
        text += f"It is also wrong: the model is right in {right} of the rows."
    else:
        rate = percent(case.estimates["observed"])
        text += f"It is also wrong: {class_words(case.event)} happened in {rate} of the rows."
    return Finding(
        "warning",
        text,
        clause=same,
        advice=(OWN_OUTPUTS,),
        numbers=numbers,
    )


@rule("Yang, Zhan & Gan 2023, Section 3", looks_for="groups the model misjudges")
def miscalibrated_group(case: Case) -> Finding | None:
    """A model that is calibrated over all rows can be miscalibrated in every group (Yang et al.
    2023, Section 3)."""
    wrong = [group for group in case.groups if group.error.miscalibrated]
    if not wrong:
        return None
    worst = case.groups.worst()[0]
    group, error = str(worst.population), worst.error
    if worst.verdict == "miscalibrated":
        how = (
            f"calibration error {short_number(error.estimate)}, {short_number(error.null_mean)} "
            "expected if calibrated"
        )
    else:
        # risks can be far below 1%
        share, happens = (percent, "observed") if worst.risk else (whole_percent, "right")
        predicted, observed = share(worst.predicted), share(worst.observed)
        stated = predicted if worst.risk else f"predicted {predicted}"
        how = f"{worst.verdict} ({stated}, {happens} {observed})"
    total = len(case.groups)
    count = f"All {total}" if len(wrong) == total else f"{len(wrong)} of {total}"
    others = f" {count} groups are miscalibrated." if len(wrong) > 1 else ""
    before, (left, which) = before_words(case), _left_groups(case)
    return Finding(
        "warning",
        f"{capitalised(f'{before}the worst group is {group}')} ({counted(worst.rows)}): {how}."
        f"{others}{f' {capitalised(left)}: {which}.' if left else ''}",
        clause=f"{before}the worst group is {group}: {how}{f'; {left}' if left else ''}",
        advice=_group_advice(case, worst),
        numbers={
            "groups": len(wrong),
            "value": float(error.estimate),
            "predicted": float(worst.predicted),
            "observed": float(worst.observed),
        },
    )


def _left_groups(case: Case) -> tuple[str, str]:
    """How many known groups are misjudged after the recommended repair, in a clause, with those
    that were not before; and the rates of these groups."""
    best, budget = case.selected, case.budget
    if best is None or budget is None or not budget.found.given_groups:
        return "", ""
    left = budget.misjudged(len(case.groups)) if helps(best, case.material) else []
    if not left:
        return "", ""
    total = len(case.groups)
    count = f"{len(left)} of {total} groups" if total > 1 else "the group"
    fine = {str(group.population) for group in case.groups if not group.error.miscalibrated}
    new = [one.rule for one in left if one.rule in fine]
    worse = f"; {enumerated(new)} {'was' if len(new) == 1 else 'were'} not before" if new else ""
    rates = "; ".join(
        f"{one.rule} (predicted {whole_percent(one.stated)}, observed "
        f"{whole_percent(one.observed)})"
        for one in left[:MOST_NAMED]
    )
    return f"{best.title} leaves {count} off{worse}", rates


def before_words(case: Case) -> str:
    """Of an error of the original outputs, if the verdict advises to recalibrate."""
    return "before recalibration, " if helps(case.selected, case.material) else ""


def _group_advice(case: Case, worst: Group) -> Advice:
    """A calibrator for the groups, if one can be used and does not lose to others."""
    repair, again = calibrate_groups(case), "then audit the groups again on other rows"
    best = case.repair_of_groups
    if best is not None and helps(best, case.material):
        return (f"Audit the groups again on other rows, after {best.title}.",)
    if repair is None:
        columns = " and ".join(worst.population.columns)
        inputs = "an input" if len(worst.population.columns) == 1 else "inputs"
        return (f"Let the model use {columns} as {inputs}, {again}.",)
    return (f"Calibrate by group, {again}: ", repair, ".")


def calibrate_groups(case: Case) -> Calibrate | None:
    """A calibrator for each group of a column; for groups of several columns, one that corrects
    groups that overlap. If calibrators were compared, the best of those that use groups. None
    without usable columns, if all of them are worse than the best calibrator, or if the verdict
    advises one of them already."""
    columns = case.group_columns
    if not columns or helps(case.repair_of_groups, case.material):
        return None
    method = "per_group" if len(columns) == 1 else "multicalibration"
    tried = [one for one in case.repairs if "groups" in METHODS[one.name][0].needs]
    if tried:
        best = min(tried, key=lambda one: float(one.log_score))
        if not best.worse_by.low <= 0:
            return None
        method = best.name
    return Calibrate(method, uses="groups", columns=columns)


@rule(
    "Kirchenbauer, Oaks & Heim 2022, Appendix A.1",
    looks_for="miscalibrated classes that a mean over classes hides",
)
def miscalibrated_class(case: Case) -> Finding | None:
    """Each class against the others: a mean over classes hides the worst class (Yang et al. 2023,
    Example 2; Kirchenbauer et al. 2022, Appendix A.1)."""
    K = len(case.class_errors)
    wrong = [error for error in case.class_errors if error.miscalibrated]
    if K <= 2 or not wrong:
        return None
    worst = max(wrong, key=lambda error: float(error.estimate))
    which = f"1 of the {K} classes is miscalibrated, {worst.title}"
    if len(wrong) > 1:
        some = f"{len(wrong)} of the" if len(wrong) < K else "all"
        which = f"{some} {K} classes are miscalibrated, {worst.title} most"
    which = f"{before_words(case)}{which}"
    return Finding(
        "warning",
        f"{capitalised(which)}: its calibration error is {short_number(worst.estimate)}, where "
        f"{short_number(worst.null_mean)} is expected if calibrated ({p_words(worst.adjusted)}, "
        f"corrected for {len(case.class_errors)} classes).",
        clause=which,
        advice=_class_advice(case),
        numbers={"classes": len(wrong), "value": float(worst.estimate)},
    )


def _class_advice(case: Case) -> Advice:
    """Which calibrator to use for single classes: the recommended one, if many were compared."""
    see = "See its reliability diagram."
    if case.selected is None or not case.compared:
        return ("Compare calibrators, some of which correct single classes: ", Calibrate(), ".")
    raw, best = case.repair("identity"), case.selected
    lower = raw is not None and best.classwise_ece < raw.classwise_ece
    if raw is None or not (lower and helps(best, case.material)):
        return (see,)
    return (
        f"Audit the classes again on other rows: {best.title} lowers their mean calibration error "
        f"from {number(raw.classwise_ece)} to {number(best.classwise_ece)}.",
    )


@rule(
    "Chidambaram & Ge 2024, Section 3",
    looks_for="repairs that lower the calibration error and worsen the score",
)
def better_error_worse_score(case: Case) -> Finding | None:
    """Mean replacement has the lowest ECE and the worst scores. Histogram binning and isotonic
    regression can lower the ECE and make the log loss infinite (Chidambaram & Ge 2024, Section 3
    and Tables 1 to 6)."""
    raw = case.repair("identity")
    if raw is None:
        return None
    worse = {
        repair: words
        for repair in case.repairs
        if repair.ece < raw.ece - MATERIAL and (words := _worse_score(repair, raw))
    }
    if not worse:
        return None
    listed = "; ".join(
        f"{repair.title}: ECE {short_number(repair.ece)} instead of {short_number(raw.ece)}, but "
        f"{words}"
        for repair, words in worse.items()
    )
    return Finding(
        "note",
        "Some repairs lower the calibration error but worsen the probabilities. "
        f"{listed[0].upper()}{listed[1:]}.",
        clause="some repairs lower the calibration error but worsen the probabilities",
        advice=("Choose repairs by a proper score, not by calibration error and accuracy alone.",),
        numbers={"repairs": len(worse)},
    )


def _worse_score(repair: Repair, raw: Repair) -> str:
    """Which proper score is clearly worse; empty if none is."""
    if math.isinf(repair.log_score) and math.isfinite(raw.log_score):
        return "an infinite log loss"
    if repair.gain.high < -CLEAR_LOSS:  # a mean of paired differences from the original outputs
        return f"a log loss {percent(repair.log_score / raw.log_score - 1)} higher"
    if repair.brier_change.low > CLEAR_LOSS * raw.brier_score:  # paired too
        return f"a Brier score {percent(repair.brier_score / raw.brier_score - 1)} higher"
    return ""


@rule(
    "Kirchenbauer, Oaks & Heim 2022, Section 5.1",
    looks_for="repairs that help the most probable class and harm the next ones",
)
def top_better_rest_worse(case: Case) -> Finding | None:
    """Repairs that lower the top-1 error can leave other ranks miscalibrated, or make them so
    (Kirchenbauer et al. 2022, Section 5.1 and Figure 1)."""
    raw = case.repair("identity")
    if raw is None or not raw.ece > raw.ece_chance:
        return None
    harmful = [
        repair
        for repair in case.repairs
        if repair.ece < raw.ece - MATERIAL and _lower_ranks_worse(repair, raw)
    ]
    if not harmful:
        return None
    listed = "; ".join(
        f"{repair.title}: {short_number(repair.ece)} instead of {short_number(raw.ece)} for the "
        f"most probable class, but {short_number(repair.topk_ece)} instead of "
        f"{short_number(raw.topk_ece)} for the most probable few"
        for repair in harmful
    )
    return Finding(
        "warning" if any(repair.selected for repair in harmful) else "note",
        f"Some repairs help the most probable class but harm the next ones. {capitalised(listed)}.",
        clause="some repairs help the most probable class but harm the next ones",
        advice=(
            "If you use more than the most probable class, as for a short list or a ranking, "
            "compare the errors of the ranks too.",
        ),
        numbers={"repairs": len(harmful)},
    )


def _lower_ranks_worse(repair: Repair, raw: Repair) -> bool:
    """Whether the top-k error is clearly worse: above the 95% limit, by a material amount, and
    with an interval above the original error."""
    x = repair.topk_ece
    return x > repair.topk_chance and x > raw.topk_ece + MATERIAL and x.low > raw.topk_ece


PITFALLS: tuple[VerdictRule[Case], ...] = (
    judged_on_its_own_rows,
    calibrated_but_not_for_all,
    low_error_high_loss,
    blind_temperature,
    few_confidences,
    miscalibrated_group,
    miscalibrated_class,
    better_error_worse_score,
    top_better_rest_worse,
)
