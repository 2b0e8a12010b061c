"""Pitfalls: numbers that look well, or repairs that look like repairs, for the wrong reason."""

from __future__ import annotations

import math

import numpy as np

from ..calibration.views import lens_rows
from ..choices.lenses import TopLabel
from ..text import counted
from .finding import Case, Finding, Rule, between_shares, number, percent
from .repairs import Repair

LOW_ECE = 0.02
COSTLY = 0.02  # the share of a score that must surely be lost to be called much
SURE = 0.005  # the same, to be called something
FEW_VALUES = 20
ENOUGH_ROWS = 100
MATERIAL = 0.005  # by which a calibration error must have changed
NOT_REFUTED = 0.05  # the p-value from which a claim of calibration stands
# relative difference of two mean log scores of the same rows, if these were kept in float32
SAME_SCORE = 1e-7


def answer(case: Case) -> str:
    """What the usual calibration error looks at."""
    return "the stated answer" if case.summary.plan.kind == "pairs" else "the most probable class"


def calibrated_but_not_for_all(case: Case) -> Finding | None:
    """Perez-Lebel et al. 2023, Sections 2 and 4.1: a calibrated model can have any grouping loss,
    and no map of its outputs removes it."""
    if case.budget is None or case.ece.p_value < 0.01:
        return None
    low = case.budget.grouping.low / case.budget.total
    if not low > SURE:
        return None
    score = case.budget.score_words(pairs=case.summary.plan.kind == "pairs")
    return Finding(
        "warning",
        "calibrated_but_not_for_all",
        "Right on average, wrong for some: the calibration error is what is expected if calibrated, and yet hidden groups with "
        f"the same prediction have different outcomes (at least {percent(low)} of the {score}). Recalibration cannot repair "
        "this.",
        "See the groups the model misjudges; calibrate by group, or give the model the features that set them apart.",
        "Perez-Lebel, Le Morvan & Varoquaux 2023, Sections 2 and 4",
    )


def low_error_high_loss(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.5.2: ECE sees one number of each forecast and no proper score,
    so that it can be small where a calibrator would gain much."""
    x = case.estimates.get("calibration_loss.relative")
    small = case.ece.estimate < LOW_ECE
    if x is None or not ((small or case.ece.p_value >= 0.01) and x.low > COSTLY):
        return None
    size = "is small" if small else "is not more than chance would give"
    blind = (
        "sees only the means of bins"
        if case.summary.plan.kind == "pairs"
        else "looks at the most probable class only"
    )
    return Finding(
        "warning",
        "low_error_high_loss",
        f"The usual calibration error {size} ({case.ece.estimate:.3g}), and yet a calibrator (bias-corrected temperature) "
        f"would remove {percent(x)} of the log score ({between_shares(x.low, x.high)}): that error {blind}.",
        "Judge by the calibration loss; look at the errors of each class and of the ranks.",
        "Ferrer & Ramos 2025, Section 2.5.2",
    )


def blind_temperature(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.4.2: a temperature scales all log-posteriors alike, and cannot
    repair wrong priors; a bias can."""
    plain, corrected = case.repair("temperature"), case.repair("bias_corrected_temperature")
    if plain is None or corrected is None:
        return None
    gap = float(plain.log_score) - float(corrected.log_score)
    widths = sum((repair.worse_by.high - repair.worse_by.low) / 2 for repair in (plain, corrected))
    if not (math.isfinite(gap) and gap > widths and gap > SURE * plain.log_score):
        return None
    shifted = "mean accuracy" if case.summary.plan.kind == "pairs" else "class frequencies"
    return Finding(
        "warning",
        "blind_temperature",
        f"Temperature scaling misses a shift of the {shifted}: it leaves a log score of {plain.log_score:.3g}, where "
        f"bias correction leaves {corrected.log_score:.3g}.",
        "`probaudit calibrate FILE -o calibrator.json --method bias_corrected_temperature`; if the frequencies in use are "
        "known, correct for them (`calibrators.PriorCorrection`).",
        "Ferrer & Ramos 2025, Section 2.4.2",
    )


def better_error_worse_score(case: Case) -> Finding | None:
    """Chidambaram & Ge 2024, Section 3 and Tables 1 to 6: mean replacement has the lowest ECE and
    the worst scores; histogram binning and isotonic regression lower ECE at an infinite log
    score."""
    raw = case.repair("identity")
    if raw is None:
        return None
    worse = {
        repair: words
        for repair in case.repairs
        if repair.ece < raw.ece - MATERIAL and (words := _worse(repair, raw))
    }
    if not worse:
        return None
    said = "; ".join(
        f"{repair.title}: ECE {repair.ece:.3g} instead of {raw.ece:.3g}, but {words}"
        for repair, words in worse.items()
    )
    return Finding(
        "note",
        "better_error_worse_score",
        f"Some repairs lower the calibration error and make the probabilities worse. {said[0].upper()}{said[1:]}.",
        "Choose repairs by a proper score, never by calibration error and accuracy alone.",
        "Chidambaram & Ge 2024, Section 3",
    )


def _worse(repair: Repair, raw: Repair) -> str:
    """Which proper score surely fell, in words; nothing if none did."""
    if math.isinf(repair.log_score) and math.isfinite(raw.log_score):
        return "an infinite log score"
    if repair.gain.high < -SURE:  # a mean of paired differences from the raw outputs
        return f"a log score {repair.log_score / raw.log_score - 1:.0%} worse"
    if repair.brier_change.low > SURE * raw.brier_score:  # paired too
        return f"a Brier score {repair.brier_score / raw.brier_score - 1:.0%} worse"
    return ""


def few_confidences(case: Case) -> Finding | None:
    """Chidambaram & Ge 2024, Section 3: one confidence for all (mean replacement), or a few
    (histogram binning), is calibrated, not sharp."""
    (seen,) = lens_rows(case.evidence.sample, TopLabel())
    n, values = len(seen.rows), np.unique(seen.view.outputs.astype(np.float32))
    if n < ENOUGH_ROWS or len(values) > min(FEW_VALUES, n // 10):
        return None
    reference = "Chidambaram & Ge 2024, Section 3"
    if len(values) == 1 and values[0] == 1:
        text = "Every answer is stated with certainty: these are decisions, not probabilities."
        return Finding(
            "warning",
            "few_confidences",
            text,
            "Audit the probabilities that the decisions came from.",
            reference,
        )
    if len(values) == 1:
        text = (
            f"Every row has the same confidence, {values[0]:.3g}: it says how often the model is right, and nothing about any "
            "row. No calibration error can see that."
            if case.ece.p_value >= NOT_REFUTED
            else f"Every row has the same confidence, {values[0]:.3g}, which says nothing about any row, and not how often the "
            f"model is right: that is {case.estimates['accuracy']:.1%}."
        )
        return Finding(
            "warning",
            "few_confidences",
            text,
            "Audit the model's own outputs, before they were replaced.",
            reference,
        )
    text = (
        f"There are only {len(values)} different confidences in {n:,} rows, as from histogram binning, a few votes or "
        "rounding: rows that differ are told the same."
    )
    return Finding(
        "note",
        "few_confidences",
        text,
        "If outputs were binned or rounded, audit them as they were before.",
        reference,
    )


def top_better_rest_worse(case: Case) -> Finding | None:
    """Kirchenbauer et al. 2022, Section 5.1 and Figure 1: repairs that lower the top-1 error can
    leave, or make, other ranks wrong."""
    raw = case.repair("identity")
    if raw is None or not raw.ece > raw.ece_chance:
        return None
    found = [
        repair
        for repair in case.repairs
        if repair.ece < raw.ece - MATERIAL and _lower_ranks_worse(repair, raw)
    ]
    if not found:
        return None
    said = "; ".join(
        f"{repair.title}: {repair.ece:.3g} instead of {raw.ece:.3g} for the most probable class, but {repair.topk_ece:.3g} "
        f"instead of {raw.topk_ece:.3g} for the most probable few"
        for repair in found
    )
    return Finding(
        "warning" if any(repair.recommended for repair in found) else "note",
        "top_better_rest_worse",
        f"Some repairs help the first guess and harm the next ones. {said[0].upper()}{said[1:]}.",
        "If more than the most probable class is used (a short list, a ranking), compare the errors of the ranks too.",
        "Kirchenbauer, Oaks & Heim 2022, Section 5.1",
    )


def _lower_ranks_worse(repair: Repair, raw: Repair) -> bool:
    """Surely so: beyond chance, by something, and with an interval above what it was."""
    x = repair.topk_ece
    return x > repair.topk_chance and x > raw.topk_ece + MATERIAL and x.low > raw.topk_ece


def miscalibrated_class(case: Case) -> Finding | None:
    """Yang et al. 2023, Example 2, and Kirchenbauer et al. 2022, Appendix A.1: each class against
    the others; a mean over classes hides the worst."""
    K = len(case.class_errors)
    if K <= 2:
        return None
    wrong = [error for error in case.class_errors if error.miscalibrated]
    if not wrong:
        return None
    worst = max(wrong, key=lambda error: error.excess)
    name = f"class {worst.name.partition('.')[2]}"
    who = f"1 of the {K} classes is miscalibrated, {name}"
    if len(wrong) > 1:
        who = f"{len(wrong)} of the {K} classes are miscalibrated, {name} most"
    return Finding(
        "warning",
        "miscalibrated_class",
        f"{who}: its calibration error is {number(worst.estimate)}, {number(worst.null_mean)} expected if calibrated "
        "(Holm's correction, family-wise level 1%).",
        "Look at its reliability diagram; vector scaling and Dirichlet calibration repair single classes.",
        "Kirchenbauer, Oaks & Heim 2022, Appendix A.1",
    )


def miscalibrated_group(case: Case) -> Finding | None:
    """Yang et al. 2023, Section 3: calibration within each group of rows; a model calibrated over
    all can be wrong in each."""
    wrong = [group for group in case.groups if group.error.miscalibrated]
    if not wrong:
        return None
    worst = max(wrong, key=lambda group: group.error.excess)
    who, error = f"{worst.column} = {worst.value} ({counted(worst.rows)})", worst.error
    if worst.verdict == "miscalibrated":
        said = f"calibration error {number(error.estimate)}, {number(error.null_mean)} expected if calibrated"
    else:
        said = f"{worst.verdict}, predicts {worst.stated:.0%}, right {worst.observed:.0%}"
    others = (
        f" ({len(wrong)} of {len(case.groups)} groups are miscalibrated)" if len(wrong) > 1 else ""
    )
    return Finding(
        "warning",
        "miscalibrated_group",
        f"Worst group: {who}: {said}{others}.",
        "Calibrate each group by itself (`calibrators.PerGroup`), and audit the groups again.",
        "Yang, Zhan & Gan 2023, Section 3",
    )


def judged_on_its_own_rows(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Sections 2.4.2 and 2.5.2: a calibrator judged on the rows that fitted it
    looks better than it is.

    A fit keeps the number of its rows and their mean log score after it. Other rows do not have
    both the same.
    """
    if case.calibrator is None:
        return None
    report, score = case.calibrator.fit_report_, float(case.estimates["log_score"])
    if report.n != case.summary.rows or not abs(score - report.score_after) <= SAME_SCORE * abs(
        score
    ):
        return None
    return Finding(
        "bad",
        "judged_on_its_own_rows",
        f"The calibrator is judged on the very rows that fitted it: the same {report.n:,} rows, the same log score of "
        f"{score:.4g}. What it seems to gain here it need not gain on others.",
        "Audit rows that the calibrator has not seen; or audit the raw outputs, whose calibration loss is cross-validated.",
        "Ferrer & Ramos 2025, Section 2.4.2",
    )


# Each pitfall, and in a few words what it looks for.
LOOKED_FOR: dict[Rule, str] = {
    judged_on_its_own_rows: "a calibrator judged on the rows that fitted it",
    calibrated_but_not_for_all: "calibrated on average, but with grouping loss",
    low_error_high_loss: "a low calibration error beside a high calibration loss",
    blind_temperature: "temperature scaling that misses a shift of the class frequencies",
    few_confidences: "constant or few different confidences",
    miscalibrated_group: "groups the model misjudges",
    miscalibrated_class: "miscalibrated classes that a mean over classes hides",
    better_error_worse_score: "repairs that lower the calibration error and worsen the score",
    top_better_rest_worse: "repairs that help the first guess and harm the next ones",
}
PITFALLS: tuple[Rule, ...] = tuple(LOOKED_FOR)
