"""What to do after an audit: what the grade asks for, then what the most important findings advise.
The page and the terminal show the same steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..audits.decision import LEFT, rates, two_digits
from ..audits.finding import Action, CheckNewRows, Finding, JudgeCalibrated
from ..text import capitalised, class_words, counted, number, percent
from .summary import is_constant, is_pairs, repaired, short

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.repairs import Repair

LIMIT_STEP = 1000  # a limit for new rows is rounded up to 1 / 1000
MUCH_LESS = 0.75  # times the error that is left, from which another calibrator is named
LEAST_P = 0.05  # from this p-value on, an error could be chance
SAME_LOSS = 0.0005  # relative difference of two losses that are shown as the same


def next_steps(audit: Audit) -> list[Finding]:
    """Each step as the advice of a finding; the text is the reason."""
    of_grade = {
        "use": _use,
        "recalibrate": _recalibrate,
        "do_not_use": _do_not_use,
        "cannot_tell": _cannot_tell,
    }
    return [*of_grade[audit.grade](audit), *audit.decision.findings]


def _step(*advice: str | Action, why: str = "") -> Finding:
    return Finding("note", why, advice=advice)


def _use(audit: Audit) -> list[Finding]:
    first = _step("Use the probabilities without recalibration.")
    high = audit["log_score.normalized"].high
    if not math.isfinite(high):
        return [first]
    limit = math.ceil(LIMIT_STEP * high) / LIMIT_STEP
    why = (
        f"The check fails if their log loss is more than {number(limit, 3)} times that of the "
        "base-rate forecast: the upper end of the 95% interval of these rows."
    )
    return [first, _step("Check later rows with labels: ", CheckNewRows(limit), why=why)]


def _recalibrate(audit: Audit) -> list[Finding]:
    best, action = repaired(audit), audit.decision.action
    if best is None or action is None:
        why = "No calibrator was tried in this audit."
        return [_step("Fit a calibrator, and apply it to new rows: see the summary.", why=why)]
    fit = f"Recalibrate by {best.title}: fit it, and apply it to new rows (see the summary)."
    judge = "Judge the result on labelled rows that did not fit the calibrator: "
    how = JudgeCalibrated(action.uses, pairs=is_pairs(audit))
    return [
        _step(fit, why=f"{capitalised(best.title)}: {best.gloss}.{_without_columns(audit)}"),
        _step(judge, how, why="On the rows that fitted it, a calibrator looks better than it is."),
        *_if_error_is_left(audit, best),
    ]


def _if_error_is_left(audit: Audit, best: Repair) -> list[Finding]:
    """Another calibrator, if the recommended one leaves a clear error and another one less."""
    clear = not best.gap.low <= 0 <= best.gap.high and abs(best.gap) >= LEFT
    tried = (one for one in audit.repairs if not one.control and math.isfinite(one.gain.low))
    less = [one for one in tried if one.ece < MUCH_LESS * best.ece and one.gain.low > 0]
    if not (clear and less):
        return []
    other = min(less, key=lambda one: float(one.log_score))
    needs = " (it needs the same columns)" if other.corrects_groups else ""
    what = f"If the error that is left matters to you more than the log loss, use {other.title}."
    why = (
        f"It leaves an ECE of {short(other.ece)} instead of {short(best.ece)}, and removes "
        f"{percent(other.gain)} of the log loss instead of {percent(best.gain)}{needs}."
    )
    return [_step(what, why=why)]


def _without_columns(audit: Audit) -> str:
    """What the best calibrator gains that needs no columns, if the recommended one does."""
    best, action = repaired(audit), audit.decision.action
    if best is None or action is None or not action.needs:
        return ""
    others = [one for one in audit.repairs if not (one.control or one.corrects_groups)]
    other = min(others, key=lambda one: float(one.log_score))
    if other.name == "identity" or not math.isfinite(other.gain):
        return ""
    needs = action.needs.removeprefix("the ")
    return f" Without the {needs}, {other.title} removes {percent(other.gain)} of the log loss."


def _do_not_use(audit: Audit) -> list[Finding]:
    """What the finding advises that explains the grade, if one does."""
    first = _step("Improve the model: give it better features, or more rows to learn from.")
    for finding in audit.findings:
        if finding.numbers.get("confidences") == 1:
            return [_step(*finding.advice), *_base_rate(audit)]
        if finding.rule == "against_class_frequencies" and finding.level == "bad":
            first = _step(*finding.advice)
    return [first, *_base_rate(audit)]


def _base_rate(audit: Audit) -> list[Finding]:
    """To predict the base rate, unless these probabilities are the base rate."""
    (rate,), ratio = rates(audit["observed"]), float(audit["log_score.normalized"])
    if is_constant(audit) and ratio < 1 + SAME_LOSS:
        return []
    until = "predict the class frequencies in every row"
    if is_pairs(audit):
        until = f"give every answer the confidence {rate}"
    elif audit.event is not None:
        until = f"predict {rate} for {class_words(audit.event)} in every row"
    lower = "as low" if ratio < 1 + SAME_LOSS else f"{percent(1 - 1 / ratio)} lower"
    why = f"The log loss of this base-rate forecast is {lower}."
    return [_step(f"Until then, {until}.", why=why if math.isfinite(ratio) else "")]


def _cannot_tell(audit: Audit) -> list[Finding]:
    """What is missing; nothing if a finding says it."""
    if any(finding.rule == "judged_on_its_own_rows" for finding in audit.findings):
        return []
    needed, ece = audit.decision.rows_needed, audit.errors[0]
    more = "more labelled rows"
    if needed is not None and needed > audit.summary.rows:
        more = f"labelled rows, about {two_digits(needed)} in all"
    steps = [_step(f"Collect {more}, and audit them.")]
    if ece.p_value >= LEAST_P:
        why = (
            f"The ECE is {short(ece.estimate)}; that of a calibrated model would be "
            f"{short(ece.null_mean)} on average on {counted(audit.summary.rows)}."
        )
        steps.append(_step("Until then, conclude nothing from the calibration error.", why=why))
    return steps
