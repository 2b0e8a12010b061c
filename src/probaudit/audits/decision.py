"""The decision of an audit: one of four grades, an imperative headline, and a sentence that says in
numbers why.

- **do not use**: even after the recommended repair, the log loss is not lower than that of the
  base-rate forecast, and these rows rule out that it is lower by a material share;
- **recalibrate first**: the recommended repair removes at least a material share of the log loss,
  and the interval of the gain excludes 0; or it makes an infinite log loss finite; or a test
  detects miscalibration, and no repair was tried;
- **cannot tell**: these rows could not have detected a material gain, do not show that the
  probabilities are better than the base-rate forecast, or fitted the calibrator that made the
  probabilities;
- **use** otherwise.

A share is material from 1% of the log loss on, unless `audit(material=...)` says otherwise. The
headline of *recalibrate first* grades the gain: below 10% of the log loss the probabilities are
slightly off, below 30% clearly, and from there on badly; or by the difference between the mean
prediction and what happened, at least clearly from 5 percentage points on, and badly from 20 on.
Probabilities with a clearly larger log
loss than the base-rate forecast are called that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..calibration.validation import Validation
from ..estimate import Estimate
from ..scoring.intervals import Z95
from ..text import (
    capitalised,
    class_words,
    counted,
    number,
    percent,
    short_number,
    whole_percent,
)
from .case import Case, off_on_average
from .finding import Action, Calibrate, Finding, Level, between_shares
from .repairs import Repair, helps
from .verdict import recommended_fit

Grade = Literal["use", "recalibrate", "do_not_use", "cannot_tell"]
GRADES: dict[Grade, str] = {
    "use": "Use",
    "recalibrate": "Recalibrate first",
    "do_not_use": "Do not use",
    "cannot_tell": "Cannot tell",
}
LEVELS: dict[Grade, Level] = {
    "use": "good",
    "recalibrate": "warning",
    "do_not_use": "bad",
    "cannot_tell": "note",
}
HEADLINES: dict[Grade, str] = {
    "use": "Use these probabilities",
    "recalibrate": "Recalibrate before use",
    "do_not_use": "Do not use these probabilities",
    "cannot_tell": "Collect more rows before you trust these probabilities",
}
# How far off the probabilities are: by the share of the log loss that recalibration removes, or by
# the significant difference between what is predicted on average and what happened.
SEVERITIES = ((0.3, 0.2, "badly"), (0.1, 0.05, "clearly"), (0.0, 0.0, "slightly"))
SEVERITY_WORDS = "; ".join(
    f"{how} off: recalibration removes {whole_percent(gain)} of the log loss or more, or "
    f"predictions differ from outcomes by {100 * gap:.0f} points or more on average"
    for gain, gap, how in SEVERITIES[:-1]
)
OTHER_ROWS = "Judge these probabilities on other rows"  # than those that fitted their calibrator
INSTEAD: dict[Grade, str] = {  # of recalibrating
    "do_not_use": "Recalibration alone does not make these probabilities useful.",
    "cannot_tell": "Collect more labelled rows before you recalibrate.",
}
FINDINGS = 3  # shown after the sentence
LEAST_CHANGE = 0.005  # of the accuracy, from which the sentence mentions it
NEAR = 0.03  # difference of shares, below which they have a decimal
JUST = 1.25  # times the limit, up to which an error is just above it
LEFT = 0.01  # significant difference after recalibration, from which the sentence mentions it
# from this log loss on, relative to the base-rate forecast, probabilities are hardly better
HARDLY_BETTER = 0.95
UNDETECTED = 0.05  # p-value of the calibration error, from which none is detected
NOT_BETTER = "nothing shows that the probabilities are better than the base-rate forecast"
# What the sentence says already; if it advises to recalibrate, also that there is an error.
SAID = (
    "against_class_frequencies",  # the headline or the sentence
    "miscalibration_costs",
    "good_decisions_bad_probabilities",
    "few_rows",
)
ERROR = "against_chance"


@dataclass(frozen=True)
class Decision:
    """What to do with the probabilities.

    headline : in the imperative. sentence : what the model predicts and what happened, and the gain
        of recalibration.
    findings : what else matters, at most three. material : the share of the log loss from which a
        gain matters. rows_needed : how many rows would detect such a gain.
    action : how to fit the recommended calibrator, if the grade advises it.
    severe : whether the probabilities are badly off, worse than the base-rate forecast, or gave
        an outcome that happened probability 0.
    """

    grade: Grade
    headline: str
    sentence: str
    findings: tuple[Finding, ...]
    material: float
    rows_needed: int | None
    action: Calibrate | None = None
    severe: bool = False

    @property
    def words(self) -> str:
        """The grade in words."""
        return GRADES[self.grade]

    @property
    def level(self) -> Level:
        return "bad" if self.severe else LEVELS[self.grade]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "grade": self.grade,
            "headline": self.headline,
            "sentence": self.sentence,
            "findings": [finding.rule for finding in self.findings],
            "material": self.material,
            "rows_needed": self.rows_needed,
        }


def decide(case: Case, findings: Sequence[Finding]) -> Decision:
    """The decision, given all findings of an audit."""
    needed = rows_to_detect(case)
    detected = any(finding.rule == ERROR and _matters(finding) for finding in findings)
    grade = _grade(case, needed, detected=detected)
    worst = case.groups.worst()[0] if case.groups else None
    wrong = worst is not None and worst.error.miscalibrated
    headline, severe = HEADLINES[grade], False
    if grade == "recalibrate":
        severity, severe = _severity(case)
        headline += f": {severity}"
    if grade == "cannot_tell" and case.own_fits:
        headline = OTHER_ROWS
    if grade == "use" and wrong:
        headline += f", but not for {worst.population}" if worst is not None else ""
    said = (*SAID, ERROR) if grade == "recalibrate" else SAID
    same = next((finding for finding in findings if finding.numbers.get("confidences") == 1), None)
    if grade == "do_not_use" and same is not None:
        said = (*said, same.rule, ERROR)
        apart = f"{capitalised(same.clause)}, so it cannot tell rows apart."
        parts = [apart, agreement_words(case)]
    else:
        sure = grade != "cannot_tell"
        parts = [agreement_words(case, sure=sure), *_reasons(case, grade, needed)]
    findings = settled(findings, grade)
    shown = [finding for finding in findings if finding.rule not in said and _matters(finding)]
    if wrong:  # known groups are the same groups, however found
        shown = [finding for finding in shown if finding.rule != "hidden_groups"]
    shown.sort(key=lambda finding: finding.level != "bad")
    return Decision(
        grade=grade,
        headline=f"{headline}.",
        sentence=" ".join(filter(None, parts)),
        findings=tuple(shown[:FINDINGS]),
        material=case.material,
        rows_needed=needed,
        action=recommended_fit(case) if grade == "recalibrate" else None,
        severe=severe,
    )


def settled(findings: Sequence[Finding], grade: Grade) -> tuple[Finding, ...]:
    """The findings. None advises to recalibrate if these rows cannot tell whether that helps, or if
    it does not make the probabilities useful."""
    instead = INSTEAD.get(grade)
    if instead is None:
        return tuple(findings)
    return tuple(
        replace(finding, advice=(instead,)) if any(map(_recalibrates, finding.advice)) else finding
        for finding in findings
    )


def _recalibrates(part: str | Action) -> bool:
    """Whether a part of an advice fits a calibrator to all rows, not to groups."""
    return isinstance(part, Calibrate) and not part.uses


def _severity(case: Case) -> tuple[str, bool]:
    """How serious the miscalibration is, by what the recommended repair gains, and whether that is
    severe."""
    repair = case.selected
    if repair is None:
        return "the probabilities are miscalibrated", False
    if not math.isfinite(repair.gain):
        return _certain_words(case), True
    if _worse_than_base_rate(case):
        return "the probabilities are worse than the base-rate forecast", True
    gap = abs(float(case.estimates["gap"])) if off_on_average(case) else 0.0
    how = next(words for gain, off, words in SEVERITIES if repair.gain >= gain or gap >= off)
    return f"the probabilities are {how} off", how == SEVERITIES[0][-1]


def _certain_words(case: Case) -> str:
    """That the log loss is infinite. With two outcomes, probability 0 for one is certainty."""
    rows = counted(sum(infinite.count for infinite in case.infinite_rows.values()))
    if case.pairs or case.summary.plan.n_classes == 2:
        return f"the model was certain and wrong in {rows}"
    return f"the true class had probability 0 in {rows}"


def _worse_than_base_rate(case: Case) -> bool:
    return case.estimates["log_score.normalized"].low > 1


def _matters(finding: Finding) -> bool:
    return finding.level in ("bad", "warning")


def _grade(case: Case, needed: int | None, *, detected: bool) -> Grade:
    after = normalised_after(case)
    if math.isnan(after):
        return "cannot_tell"
    if not math.isfinite(after) or after.low > 1:
        return "do_not_use"
    if after.high >= 1 and after.low > 1 - case.material:
        return "do_not_use"
    if helps(case.selected, case.material) or (case.selected is None and detected):
        return "recalibrate"
    few = needed is None or not case.effective_rows >= needed or case.too_few
    return "cannot_tell" if few or case.own_fits or not after.high < 1 else "use"


def normalised_after(case: Case) -> Estimate:
    """The log loss after the recommended repair, divided by that of the base-rate forecast."""
    repair, before = case.selected, case.estimates["log_score.normalized"]
    if repair is None or repair.name == "identity":
        return before
    return repair.normalized


def rows_to_detect(case: Case) -> int | None:
    """How many independent rows detect a material gain: so many that its expected interval excludes
    0. Log-likelihood ratios of mean g have a variance of about 2 g (they are nearly normal, and
    their exponentials have mean 1), so that n rows detect a mean gain of g if g exceeds
    1.96 (2 g / n)^(1/2), that is with n = 2 x 1.96^2 / g."""
    repair, score = case.selected, case.estimates["log_score"]
    loss = float(score) if math.isfinite(score) or repair is None else float(repair.log_score)
    gain = case.material * loss
    return math.ceil(2 * Z95**2 / gain) if 0 < gain < math.inf else None


def agreement_words(case: Case, *, sure: bool = True) -> str:
    """What the model predicts on average and what happened, with the direction of the error.

    sure : whether the grade is. Otherwise the sentence says that only the average is known.
    """
    risk, estimates = case.validation, case.estimates
    predicted, observed, gap = (estimates[name] for name in ("predicted", "observed", "gap"))
    first, second = rates(predicted, observed)
    if risk is not None and not case.pairs:
        how = "too high" if predicted > observed else "too low"
        event = class_words(case.event)
        if not off_on_average(case):
            text = _event_words(event, first, second, "and")
            return _with_slope(risk, text) if sure else f"{capitalised(text)}."
        if sure:
            return f"Probabilities {how}: {_event_words(event, first, second, 'but')}."
        return (
            f"The average probability of {event} is {how} ({first} predicted, {second} happened)."
        )
    if not off_on_average(case):
        return f"{capitalised(_answer_words(first, second, 'and'))}."
    how = "Overconfident" if gap > 0 else "Underconfident"
    return f"{how}: {_answer_words(first, second, 'but')}."


def _event_words(event: str, predicted: str, observed: str, link: str) -> str:
    return (
        f"the model predicts {predicted} on average for {event}, {link} it happened in {observed} "
        "of the rows"
    )


def _answer_words(predicted: str, observed: str, link: str) -> str:
    return f"the model predicts {predicted} on average {link} is right {observed} of the time"


def _with_slope(risk: Validation, text: str) -> str:
    """The agreement of an event that is right on average; its risks may be too extreme."""
    slope = risk.slope
    if not math.isfinite(slope.low) or slope.low <= 1 <= slope.high:
        return f"{capitalised(text)}."
    how = "too extreme" if slope < 1 else "not extreme enough"
    return f"{capitalised(text)}. Single risks are {how} (calibration slope {number(slope, 2)})."


def rates(*shares: float) -> list[str]:
    """Shares in whole percent; to 0.1% if one is below 10% or if they are near each other."""
    near = len(set(map(percent, shares))) > 1 and max(shares) - min(shares) < NEAR
    words = percent if near or min(shares) < 0.1 else whole_percent
    return [words(x) for x in shares]


def _reasons(case: Case, grade: Grade, needed: int | None) -> list[str]:
    """Why the grade: the gain of the recommended repair, or what is missing."""
    repair, after = case.selected, normalised_after(case)
    if grade == "do_not_use":
        even = "" if repair is None or repair.name == "identity" else f", even after {repair.title}"
        return [f"No better than the base-rate forecast{even}: {_ratio_words(after)}."]
    if grade == "cannot_tell":
        return [_too_few_words(case, needed), *_not_better(after)]
    sure = _sure_words(case) if grade == "use" else ""
    first = [_base_rate_words(case, grade), sure, gain_words(case)]
    return [*first, _hardly_better_words(case, grade)]


def _sure_words(case: Case) -> str:
    """The evidence for probabilities that can be used."""
    ece, lower = case.ece, 1 - float(normalised_after(case))
    if not (ece.p_value >= UNDETECTED and lower > 1 - HARDLY_BETTER):
        return ""
    return (
        f"The log loss is {whole_percent(lower)} lower than that of the base-rate forecast, and no "
        f"calibration error is detected (p = {ece.p_value:.2f})."
    )


def _base_rate_words(case: Case, grade: Grade) -> str:
    """How much worse than the base-rate forecast the original outputs are."""
    ratio = case.estimates["log_score.normalized"]
    if grade != "recalibrate" or not (math.isfinite(ratio) and ratio.high >= 1):
        return ""
    if not _worse_than_base_rate(case):
        if ratio < 1:
            return (
                "As given, their log loss is not clearly lower than that of the base-rate forecast."
            )
        times = f"{number(ratio, 2)} times that of the base-rate forecast"
        return f"As given, their log loss is {times}."
    always = ""
    if case.pairs or case.validation is not None:
        always = f", which always predicts {rates(case.estimates['observed'])[0]}"
    return f"The log loss is {number(ratio, 2)} times that of the base-rate forecast{always}."


def _hardly_better_words(case: Case, grade: Grade) -> str:
    """That the advised probabilities are hardly better than the base-rate forecast, if so."""
    after = normalised_after(case)
    if not after >= HARDLY_BETTER:
        return ""
    start = "Even then," if grade == "recalibrate" and case.selected is not None else "But"
    if after >= 1:
        return f"{start} {NOT_BETTER}." if case.selected is not None else ""
    lower = Estimate(1 - after, low=1 - after.high, high=1 - after.low)
    return (
        f"{start} the probabilities are hardly better than the base-rate forecast: the log loss is "
        f"{percent(lower)} lower ({between_shares(lower.low, lower.high)})."
    )


def _ratio_words(after: Estimate) -> str:
    """The log loss against that of the base-rate forecast."""
    if not math.isfinite(after):
        return "the log loss is infinite"
    ratio = number(after, 2)
    return (
        "the log loss is as high" if ratio == "1.00" else f"the log loss is {ratio} times as high"
    )


def _not_better(after: Estimate) -> list[str]:
    if math.isnan(after) or after.high < 1:
        return []
    return [f"So far, {NOT_BETTER}."]


def _too_few_words(case: Case, needed: int | None) -> str:
    if needed is None:
        return (
            "All rows have the same outcome."
            if case.one_outcome
            else "The log loss is 0: these rows cannot show an error."
        )
    if math.isnan(case.effective_rows):
        return "All rows are in one cluster, which tells nothing about other clusters."
    exact = math.isclose(100 * case.material, round(100 * case.material))
    share = whole_percent(case.material) if exact else percent(case.material)
    rows = counted(round(case.effective_rows))
    if case.effective_rows >= needed:
        limit = short_number(case.error_limit)
        few = f"On {rows}, the calibration error of a calibrated model can be as high as {limit}."
        return few if case.too_few else ""
    rows += "" if round(case.effective_rows) == case.rows else " (effective)"
    return (
        f"{rows} are too few to tell whether recalibration would help (by {share} of the log loss "
        f"or more); about {two_digits(needed)} are needed."
    )


def two_digits(rows: int) -> str:
    """A number of rows to two digits."""
    return f"{round(rows, 2 - len(str(rows))):,}"


def gain_words(case: Case) -> str:
    """The gain of the recommended repair, and how it changes the accuracy."""
    repair = case.selected
    if repair is None:
        return "No calibrator was tried."
    if repair.name == "identity":
        tried = [one for one in case.repairs if not one.control and one.name != "identity"]
        if len(tried) == 1:
            return f"Recalibration by {tried[0].title} does not help."
        return f"None of {len(tried)} calibrators helps."
    if not math.isfinite(repair.gain):
        return (
            f"Recalibration by {repair.title} makes the infinite log loss finite "
            f"({number(repair.log_score, 3)}){_accuracy_words(case, repair)}."
            f"{_left_words(case, repair)}"
        )
    if not helps(repair, case.material):
        return f"Recalibration is not needed: {repair.title} {_change_words(repair.gain)}."
    needs = recommended_fit(case).needs
    link = f", which needs {needs} in new rows, " if needs else " "
    return (
        f"Recalibration by {repair.title}{link}{_change_words(repair.gain)}"
        f"{_accuracy_words(case, repair)}.{_left_words(case, repair)}"
    )


def _change_words(gain: Estimate) -> str:
    """How recalibration changes the log loss, with the interval in the same direction."""
    x, low, high = float(gain), gain.low, gain.high
    verb, what = "removes", "of"
    if x < 0:
        verb, what, x, low, high = "adds", "to", -x, -high, -low
    words = percent if max(x, abs(low)) < 0.1 else whole_percent
    span = f"{words(low)} to {words(high)}"
    return f"{verb} {words(x)} {what} the log loss (cross-validated, 95% interval {span})"


def _left_words(case: Case, repair: Repair) -> str:
    """The error that recalibration leaves: a significant difference that is not small, else the
    calibration error, with its 95% limit if calibrated."""
    gap = repair.gap
    if gap.low <= 0 <= gap.high or abs(gap) < LEFT:
        if not math.isfinite(repair.ece_chance):
            return ""
        left, limit = short_number(repair.ece), short_number(repair.ece_chance)
        if float(repair.ece) <= repair.ece_chance or left == limit or not repair.ece.low > 0:
            return " No clear calibration error is left."
        just = "just " if repair.ece < JUST * repair.ece_chance else ""
        return (
            f" An ECE of {left} is left, {just}above the 95% limit of a calibrated model ({limit})."
        )
    points = round(100 * abs(gap))
    first, second = whole_percent(repair.predicted), whole_percent(repair.observed)
    if abs(round(100 * repair.predicted) - round(100 * repair.observed)) != points:
        first, second = percent(repair.predicted), percent(repair.observed)
    by = f"by {points} {'point' if points == 1 else 'points'}"
    if case.validation is not None and not case.pairs:
        how = "high" if gap > 0 else "low"
        return f" It is then still too {how} {by}: {first} predicted, {second} happened."
    how = "overconfident" if gap > 0 else "underconfident"
    return f" The model is then still {how} {by}: {first} predicted, {second} right."


def _accuracy_words(case: Case, repair: Repair) -> str:
    before, after = float(case.estimates["accuracy"]), float(repair.accuracy)
    if case.pairs:
        return ""
    noise = Z95 * math.sqrt(2 * before * (1 - before) / max(case.effective_rows, 1))
    first, second = rates(before, after)
    if not abs(after - before) >= LEAST_CHANGE:
        return f" and hardly changes accuracy ({', then '.join(dict.fromkeys((first, second)))})"
    if not abs(after - before) >= noise:
        return f"; accuracy goes from {first} to {second}, which may be chance"
    verb = "lifts" if after > before else "lowers"
    return f" and {verb} accuracy from {first} to {second}"
