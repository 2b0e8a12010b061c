"""The verdict: rules that look at the numbers and say in plain words what follows from them."""

from __future__ import annotations

import math

import numpy as np

from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..estimate import Estimate
from ..scoring.clusters import FEW_CLUSTERS
from ..text import counted
from .dependence import clustered_rows
from .finding import (
    LEVELS,
    Case,
    Finding,
    Level,
    Rule,
    between,
    between_shares,
    number,
    p_words,
    percent,
)
from .groups import MOST_GROUPS, ungrouped_columns
from .lens_errors import LensError
from .pitfalls import PITFALLS, answer, miscalibrated_class, miscalibrated_group

FEW_ROWS = 100
FEW_OF_A_CLASS = 10
SURELY, PERHAPS = 0.01, 0.05  # p-values below which an error is called one, or may be one
UNSEEN_ERROR = 0.05  # 95% limit of a calibrated model's error beyond which nothing is claimed
WORTH_REPAIRING = 0.005  # the share of a score that a calibrator must surely gain to be recommended
SMALL_LOSS = 0.05  # the share of a score that must surely not be lost, to say that it is not
# a normalised score that these rows would have to rule out before a model is called hardly better
PLAUSIBLE_GAIN = 0.9
# a search for hidden groups in a smaller share of the rows is reported with its share
MOST_ROWS = 0.9
SHOWN_ROWS = 5
BAD_ROWS = {
    "label": "with a label that is no class",
    "weight": "with a weight that is no weight",
    "value": "with an output out of range",
    "sum": "whose outputs do not sum to 1",
}
OPENINGS: dict[Level, str] = {
    "bad": "Do not use these probabilities as they are",
    "warning": "Use these probabilities with care",
    "good": "As far as these rows show, these probabilities can be used",
    "note": "These rows say little",
}
UNDECIDED = "Cannot tell from these rows whether these probabilities can be used"


def judge(case: Case) -> tuple[Finding, ...]:
    """All findings, the gravest first."""
    found = [finding for rule in (*RULES, *PITFALLS) if (finding := rule(case)) is not None]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def headline(findings: tuple[Finding, ...]) -> str:
    """The gravest finding in one sentence, with what it means for those who want to use the
    probabilities. Good news from rows that could not have shown a problem is none."""
    gravest = findings[0]
    few = next((finding for finding in findings if finding.rule == "few_rows"), None)
    undecided = gravest.level == "good" and few is not None
    shown = few if undecided and few is not None else gravest
    clause = shown.short or shown.text.split(":")[0].rstrip(".")
    return (
        f"{UNDECIDED if undecided else OPENINGS[gravest.level]}: {clause[0].lower()}{clause[1:]}."
    )


def infinite_log_score(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.3.2: the log score of a row is -log p, which is infinite where
    the true class has posterior 0."""
    count = int(case.summary.log.infinite.sum())
    if not count:
        return None
    numbers = case.evidence.row_numbers(impossible_rows(case.evidence.sample)[:SHOWN_ROWS])
    which = (
        ""
        if len(numbers) == count
        else "the first of the sample: "
        if case.evidence.sampled
        else "the first: "
    )
    listed = f"{'row' if len(numbers) == 1 else 'rows'} {', '.join(map(str, numbers))}"
    shown = f" ({which}{listed}, counted from 0)" if numbers else ""
    rows = f"In {counted(count)}"
    happened = "what came true" if case.summary.plan.kind == "pairs" else "the true class"
    return Finding(
        "bad",
        "infinite_log_score",
        f"{rows} of {case.summary.rows:,} {happened} was given probability 0: the log score is infinite{shown}. Whatever "
        "states a probability of exactly 0 must be certain.",
        "Look at these rows. If probabilities were rounded or cut off, keep the logits instead; `probaudit calibrate FILE -o "
        "calibrator.json` makes the score finite.",
        "Ferrer & Ramos 2025, Section 2.3.2",
        numbers,
        short="some rows were told that what happened was impossible",
    )


def impossible_rows(sample: Predictions) -> np.ndarray:
    """The rows whose true class has probability 0, in order."""
    good = survey(sample).good
    values, codes = sample.block(0, len(sample)).values[good], sample.codes[good]
    if values.shape[1] == 1:
        values = np.column_stack(
            [np.zeros(len(values)) if sample.from_logits else 1 - values[:, 0], values[:, 0]]
        )
    true = values[np.arange(len(codes)), codes]
    return good[true == (-np.inf if sample.kind in ("logits", "log_probabilities") else 0)]


def against_class_frequencies(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.3.2: above 1 a system is worse than the best one that never
    looks at the input."""
    name, words = ("log_score.normalized", "log score")
    if not math.isfinite(case.estimates[name]):
        name, words = ("brier_score.normalized", "Brier score")
    x = case.estimates[name]
    if math.isnan(x) or math.isnan(x.low):
        return None
    rule, reference = "against_class_frequencies", "Ferrer & Ramos 2025, Section 2.3.2"
    pairs = case.summary.plan.kind == "pairs"
    naive = (
        "always stating the mean accuracy" if pairs else "always forecasting the class frequencies"
    )
    nothing = naive if pairs else "no model at all"
    if x.low > 1:
        text = f"Worse than {naive}: the {words} is {x:.3g} times as large ({between(x)})."
        check = "confidences and answers" if pairs else "labels, classes and columns"
        outputs = "confidences are probabilities" if pairs else "outputs are logits"
        advice = f"Check that {check} belong together, and whether {outputs}; then recalibrate."
        return Finding("bad", rule, text, advice, reference, short=f"they are worse than {nothing}")
    if x.high >= 1:
        text = f"Not clearly better than {naive}: the {words} is {x:.3g} times as large ({between(x)})."
        advice = "See below whether a calibrator would change that; if not, the model knows little, or the rows are too few."
        few = case.summary.rows < FEW_ROWS or x.low < PLAUSIBLE_GAIN
        short = (
            f"so few rows do not show them to be better than {nothing}"
            if few
            else f"they are hardly better than {nothing}"
        )
        return Finding("warning", rule, text, advice, reference, short=short)
    text = f"Better than {naive}: the {words} is {percent(1 - x)} lower ({between_shares(1 - x.high, 1 - x.low)})."
    calm = (
        ""
        if _seen_wrong(case) or _perhaps_wrong(case)
        else f", and no miscalibration is detected ({_tests(case)})"
    )
    said = "the mean accuracy" if pairs else "no model would"
    return Finding(
        "good", rule, text, reference=reference, short=f"they say more than {said}{calm}"
    )


def good_decisions_bad_probabilities(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 3.2: argmax decisions do not see a miscalibration that ruins the
    posteriors."""
    if "error_rate.normalized" not in case.estimates:
        return None
    decisions, probabilities = (
        case.estimates["error_rate.normalized"],
        case.estimates["log_score.normalized"],
    )
    if not (decisions.high < 1 and probabilities.value > 1):
        return None
    return Finding(
        "warning",
        "good_decisions_bad_probabilities",
        f"The most probable class is a good guess (accuracy {case.estimates['accuracy']:.1%}), but the probabilities are not "
        "good probabilities: recalibrate them before they are used as such.",
        "`probaudit calibrate FILE -o calibrator.json`, or use the most probable class alone.",
        "Ferrer & Ramos 2025, Section 3.2",
    )


def worse_than_constant_decision(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.3.1: decisions under the user's costs, against the best
    decision that is always the same."""
    x = case.estimates.get("cost_risk.normalized")
    if x is None or math.isnan(x.low) or x.high < 1:
        return None
    level: Level
    level, words = ("bad", "worse") if x.low > 1 else ("warning", "not clearly better")
    return Finding(
        level,
        "worse_than_constant_decision",
        f"Under your costs, deciding by these probabilities is {words} than always deciding the same: "
        f"it costs {x:.3g} times as much ({between(x)}).",
        "Recalibrate, and audit the calibrated probabilities under the same costs.",
        "Ferrer & Ramos 2025, Section 2.3.1",
    )


def rejecting_all_is_better(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 3.2 and Table 2: overconfident posteriors accept what they
    should have rejected."""
    x = case.estimates.get("reject_risk.normalized")
    if x is None or math.isnan(x.low) or x.low <= 1:
        return None
    return Finding(
        "warning",
        "rejecting_all_is_better",
        f"With a reject option at {case.summary.plan.reject_cost:g} of the cost of an error, deciding by these probabilities "
        f"costs {x:.3g} times as much as the best constant decision ({between(x)}): they are overconfident.",
        "Recalibrate before these probabilities decide which cases a person should see.",
        "Ferrer & Ramos 2025, Section 3.2",
    )


def miscalibration_costs(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.5.3: what a calibrator would gain is what miscalibration
    costs."""
    best = case.recommended
    if best is not None and best.name == "identity":
        return _nothing_better(case)
    x, after = (
        case.estimates.get("calibration_loss.relative"),
        case.estimates.get("log_score.calibrated"),
    )
    method = "bias-corrected temperature" if best is None else best.title
    option = "" if best is None else f" --method {best.name}"
    if best is not None:
        x, after = (best.gain if math.isfinite(best.gain) else None), best.log_score
    rule, reference = "miscalibration_costs", "Ferrer & Ramos 2025, Section 2.5.3"
    advice = f"`probaudit calibrate FILE -o calibrator.json{option}`, then `probaudit apply calibrator.json FILE -o OUTPUT`."
    if x is None and after is not None and math.isfinite(after):
        text = (
            f"A calibrator ({method}) would bring the log score down from infinity to {after:.3g}."
        )
        return Finding("warning", rule, text, advice, reference)
    if x is None or not math.isfinite(x.low):
        return None
    span = between_shares(x.low, x.high)
    if x.low > WORTH_REPAIRING:
        text = f"Miscalibration costs {percent(x)} of the log score ({span}): that much is repaired by {method}."
        short = f"{x:.0%} of their log score is lost by miscalibration, which a calibrator repairs"
        return Finding("warning", rule, text, advice, reference, short=short)
    if best is not None:
        text = f"Nothing to repair that these rows could show: {method} {_gain(x)} of the log score ({span})."
        return Finding(_calm(case, x), rule, text, reference=reference)
    text = (
        f"A {method} {_gain(x)} of the log score ({span}): no repair that these rows show to be worth it. Other calibrators "
        "were not tried; `probaudit calibrate FILE` compares them."
    )
    short = f"a {method} would gain nothing that these rows could show"
    return Finding(_calm(case, x), rule, text, reference=reference, short=short)


def _gain(x: Estimate) -> str:
    return f"would gain {percent(x)}" if x > 0 else f"would lose {percent(-x)}"


def _seen_wrong(case: Case) -> bool:
    """Whether any test of this audit has found miscalibration."""
    found = (rule(case) for rule in (against_chance, miscalibrated_class, miscalibrated_group))
    return any(finding is not None and finding.level == "warning" for finding in found)


def _perhaps_wrong(case: Case) -> bool:
    return any(test.p_value < PERHAPS for test in case.tests)


def _tests(case: Case) -> str:
    return "1 test" if len(case.tests) == 1 else f"{len(case.tests)} tests"


def _calm(case: Case, gain: Estimate) -> Level:
    """That nothing can be gained is good news only if it is sure, and if nothing is found to be
    wrong."""
    return "good" if gain.high < SMALL_LOSS and not _seen_wrong(case) else "note"


def _nothing_better(case: Case) -> Finding:
    """Of the repairs that were compared, none is surely better than none."""
    others = [repair for repair in case.repairs if not repair.control and repair.name != "identity"]
    best = min(others, key=lambda repair: float(repair.log_score))
    x = best.gain
    gain = f"gains {percent(x)}" if x > 0 else f"loses {percent(-x)}"
    text = (
        f"Nothing to repair that these rows could show: of {len(others)} calibrators none is surely better than to leave the "
        f"outputs as they are; the best, {best.title}, {gain} of the log score ({between_shares(x.low, x.high)}), not "
        "corrected for being the best of several."
    )
    return Finding(
        _calm(case, x), "miscalibration_costs", text, reference="Ferrer & Ramos 2025, Section 2.5.3"
    )


def against_chance(case: Case) -> Finding | None:
    """A calibrated model has a calibration error too (consistency resampling: Broecker & Smith
    2007); only what exceeds it says anything. All tests of the audit decide together."""
    reference = "Bröcker & Smith 2007 (consistency resampling); Vaicenavicius et al. 2019"
    if math.isnan(case.ece.p_value):
        return None
    worst = next(
        (test for test in case.tests if test.p_value < SURELY),
        min(case.tests, key=lambda test: test.p_value),
    )
    size = f"{number(worst.error.estimate)}, {number(worst.error.null_mean)} expected if calibrated"
    p = (
        f"{p_words(worst.p_value)}, corrected for {_tests(case)}"
        if len(case.tests) > 1
        else p_words(worst.p_value)
    )
    if worst.p_value < SURELY:
        text = (
            f"Miscalibrated: {_event(case, worst.error)} has a calibration error of {size} ({p})."
        )
        advice = "The reliability diagrams show where, the calibration loss how much it costs."
        short = f"{_event(case, worst.error)} has a calibration error of {size}"
        return Finding("warning", "against_chance", text, advice, reference, short=short)
    if worst.p_value < PERHAPS:
        text = f"Perhaps miscalibrated: {_event(case, worst.error)} has a calibration error of {size} ({p}). More rows would tell."
        return Finding("note", "against_chance", text, reference=reference)
    ece = case.ece
    size = f"{number(ece.estimate)}, {number(ece.null_mean)} expected if calibrated"
    if _too_few(case):
        text = (
            f"No miscalibration detected, but these rows are too few: {answer(case)} has a calibration "
            f"error of {size} (95% limit {number(ece.null_high)})."
        )
        return Finding("note", "against_chance", text, reference=reference)
    text = f"No miscalibration detected ({_tests(case)}): {answer(case)} has a calibration error of {size}."
    return Finding("good", "against_chance", text, reference=reference)


def _event(case: Case, error: LensError) -> str:
    """What an error is of, in a sentence."""
    group = next((group for group in case.groups if group.error is error), None)
    if group is not None:
        return f"{group.column} = {group.value}"
    if error.name in ("ece", "ace"):
        return answer(case)
    return {
        "classwise_ece": "the mean over classes",
        "full_ece": "the vector of all classes",
    }.get(error.name, error.title)


def _too_few(case: Case) -> bool:
    """Whether an error of five points could go undetected."""
    return case.summary.rows < FEW_ROWS or case.ece.null_high > UNSEEN_ERROR


def hidden_groups(case: Case) -> Finding | None:
    """Perez-Lebel et al. 2023: calibrated on average, and yet wrong for groups of rows that share
    an output. The estimate is a lower bound, so that its interval never shows that there are
    none."""
    budget = case.budget
    if budget is None:
        return None
    share, low, high = (
        float(x) / budget.total for x in (budget.grouping, *budget.grouping.interval)
    )
    score = budget.score_words(pairs=case.summary.plan.kind == "pairs")
    span, reference = (
        between_shares(low, high),
        "Perez-Lebel, Le Morvan & Varoquaux 2023, Section 4",
    )
    if not budget.found.searched:
        advice = "Use more rows, fewer bins, or groups that are known (`regions=[column]`)."
        return Finding(
            "note", "hidden_groups", "Too few rows to look for hidden groups.", advice, reference
        )
    if low <= WORTH_REPAIRING:
        text = (
            f"No hidden groups detected with these features: they cost at least {percent(max(share, 0.0))} of the {score},"
            f" a lower bound ({span}). Groups that these features do not show are not ruled out."
        )
        if budget.found.searched < MOST_ROWS:
            text += f" Only {percent(budget.found.searched)} of the rows were searched: the other bins have too few."
        return Finding("note", "hidden_groups", text, reference=reference)
    text = "Hidden groups, with the same prediction but different outcomes, cost at least"
    text += f" {percent(share)} of the {score} ({span})."
    served = next(iter(budget.misjudged(1)), None)
    if served is not None:
        text += (
            f" Among the most misjudged are {served.rows:,} rows ({served.rule}): predicted {served.stated:.2f}"
            f"{' after calibration' if budget.calibrator else ''}, observed {served.observed:.2f}."
        )
    better = (
        "know what sets these groups apart" if budget.found.given_groups else "use these features"
    )
    advice = f"A better model would {better}; until then, calibrate by group (`calibrators.PerGroup`, `GroupCalibration`)."
    short = "rows with the same prediction have different outcomes"
    return Finding("warning", "hidden_groups", text, advice, reference, short=short)


def one_class(case: Case) -> Finding | None:
    """Ferrer & Ramos 2025, Section 2.3.2: the naive forecast of a single class is certain and
    right, and leaves nothing to divide by."""
    if (case.summary.log.rows > 0).sum() > 1:
        return None
    if case.summary.plan.kind == "pairs":
        text = f"All answers are {'right' if case.estimates['accuracy'] > 0 else 'wrong'}: no confidence can tell them apart."
        return Finding(
            "warning", "one_class", text, "Audit right and wrong answers, as they come in use."
        )
    text = "All rows belong to one class: there is nothing to compare the forecasts with."
    return Finding("warning", "one_class", text, "Audit rows of all classes, as they come in use.")


def rows_set_aside(case: Case) -> Finding | None:
    """What was left out must be said: an audit is of the rows that remain."""
    summary = case.summary
    if not summary.dropped:
        return None
    total = summary.dropped + summary.rows
    parts = ", ".join(f"{count:,} {BAD_ROWS[rule]}" for rule, count in summary.bad.items() if count)
    text = f"{summary.dropped:,} of {total:,} rows {'was' if summary.dropped == 1 else 'were'} set aside: {parts}."
    return Finding(
        "warning",
        "rows_set_aside",
        text,
        "Find out where they come from: in use, they would have been decided too.",
    )


def only_confidence(case: Case) -> Finding | None:
    """Chidambaram & Ge 2024, Proposition 4.5: the loss of the confidence alone can be small for a
    predictor that is always wrong."""
    if case.summary.plan.kind != "pairs":
        return None
    return Finding(
        "note",
        "only_confidence",
        "Only the confidence in the stated answer is judged: its scores say nothing of how good the answers are. "
        "Read them with the accuracy.",
        reference="Chidambaram & Ge 2024, Proposition 4.5",
    )


def few_rows(case: Case) -> Finding | None:
    """Too few rows for a claim: in all, or to tell a calibrated model from one that is off by five
    points."""
    advice = "Gather more labelled rows before you claim or repair anything."
    if case.summary.rows < FEW_ROWS:
        rows = f"only {counted(case.summary.rows)}"
        text = f"{rows[0].upper()}{rows[1:]}: every interval here is rough."
        return Finding("note", "few_rows", text, advice, short=rows)
    if not _too_few(case):
        return None
    limit = f"a calibrated model has errors up to {number(case.ece.null_high)} here"
    text = f"Too few rows to detect small calibration errors: {limit} (95% limit)."
    return Finding(
        "note", "few_rows", text, advice, short=f"{counted(case.summary.rows)} are too few, {limit}"
    )


def few_of_a_class(case: Case) -> Finding | None:
    """Classes whose rows are too few to say anything about them."""
    present = case.summary.log.rows[case.summary.log.rows > 0]
    if len(present) < 2 or present.min() >= FEW_OF_A_CLASS:
        return None
    advice = "Gather more labelled rows of these classes before you claim anything about them."
    if case.summary.plan.kind == "pairs":
        kind = "right" if case.summary.log.rows[1] < case.summary.log.rows[0] else "wrong"
        text, advice = (
            f"Fewer than {FEW_OF_A_CLASS} answers are {kind}.",
            "Gather more labelled rows.",
        )
        return Finding("note", "few_of_a_class", text, advice)
    thin = int((present < FEW_OF_A_CLASS).sum())
    text = f"{'1 class has' if thin == 1 else f'{thin} classes have'} fewer than {FEW_OF_A_CLASS} rows."
    return Finding("note", "few_of_a_class", text, advice)


def absent_classes(case: Case) -> Finding | None:
    """A class without rows cannot be judged."""
    summary = case.summary
    absent = [
        repr(c) for c, rows in zip(summary.plan.classes, summary.log.rows, strict=True) if rows == 0
    ]
    if not absent or len(absent) == len(summary.plan.classes) - 1:
        return None
    shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
    return Finding("note", "absent_classes", f"No row belongs to {shown}.")


def columns_not_grouped(case: Case) -> Finding | None:
    """A column that was given and is not shown must be named."""
    left_out = ungrouped_columns(case.evidence) if case.evidence.sample.columns else {}
    if not left_out:
        return None
    said = ", ".join(f"{name} {why}" for name, why in left_out.items())
    text = f"Not all columns split the rows into groups: {said}; the limit is {MOST_GROUPS} values, one in each row."
    return Finding(
        "note",
        "columns_not_grouped",
        text,
        "Put values together that belong together, and audit again.",
    )


def few_clusters(case: Case) -> Finding | None:
    """Intervals of dependent rows rest on clusters, however many rows there are (Cameron, Gelbach &
    Miller 2008)."""
    rows = clustered_rows(case.evidence)
    if rows is None or rows.clusters.count >= FEW_CLUSTERS:
        return None
    count, reference = rows.clusters.count, "Cameron, Gelbach & Miller 2008"
    if count == 1:
        text = "All rows are in one cluster: they are no independent evidence, and no interval can be given."
        return Finding("warning", "few_clusters", text, "Add rows of other clusters.", reference)
    text = (
        f"The rows are in only {count} clusters: intervals (Student's t with {count - 1} degrees of freedom) and tests of "
        f"calibration are approximate below {FEW_CLUSTERS}."
    )
    return Finding("note", "few_clusters", text, "Add rows of other clusters.", reference)


RULES: tuple[Rule, ...] = (
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
