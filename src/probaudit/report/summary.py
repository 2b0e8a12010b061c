"""The summary of an audit: before and after the recommended repair. The terminal, the page and the
text to copy show the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..audits.finding import ApplyCalibrator, Level, Spelling
from ..text import MISSING, capitalised, class_words, counted, number, percent
from .page import LossBar, LossBars, Segment

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.repairs import Repair

ECE = "ECE, 15 bins (95% limit)"
RELATIVE = "log loss / base rate"
AFTER = "recalibrated"
SHOWN_FINDINGS = 2
FEW_ROWS = 500  # below, or if it contains 1, the summary shows the interval of the log loss


class SummaryRow(NamedTuple):
    """A number before and after recalibration; "" if there is none."""

    name: str
    before: str
    after: str = ""


def repaired(audit: Audit) -> Repair | None:
    """The recommended calibrator; None if the verdict advises none."""
    best = audit.recommended
    return best if best is not None and best.name != "identity" else None


def is_pairs(audit: Audit) -> bool:
    """Whether rows have a confidence and its correctness, not class probabilities."""
    return audit.summary.plan.kind == "pairs"


def is_constant(audit: Audit) -> bool:
    """Whether all rows have the same output."""
    return int((audit.evidence.judged.rows > 0).sum()) == 1


def one_tried(audit: Audit) -> bool:
    """Whether only the default calibrator was tried."""
    return len(audit.repairs) == 2


def headers(audit: Audit) -> tuple[str, ...]:
    """The headers of the summary table."""
    return ("", "original") if repaired(audit) is None else ("", "original", AFTER)


def rows(audit: Audit) -> list[SummaryRow]:
    """What the model predicts, what happened, and the most important errors and scores."""
    best, ece = repaired(audit), audit.errors[0]
    event = audit.validation is not None and audit.event is not None
    observed = f"observed ({class_words(audit.event) if event else 'right'})"
    found = [
        SummaryRow(
            "predicted, on average",
            percent(audit["predicted"]),
            "" if best is None else percent(best.predicted),
        ),
        SummaryRow(
            observed, percent(audit["observed"]), "" if best is None else percent(best.observed)
        ),
    ]
    if event:
        after = "" if best is None else percent(best.accuracy)
        found.append(SummaryRow("accuracy", percent(audit["accuracy"]), after))
    after = "" if best is None else _with_limit(best.ece, best.ece_chance)
    found.append(SummaryRow(ECE, _with_limit(ece.estimate, ece.null_high), after))
    loss = audit["log_score.normalized"]
    unsure = audit.summary.rows < FEW_ROWS or loss.low < 1 <= loss.high
    span = f" ({short(loss.low)} to {short(loss.high)})" if unsure else ""
    before = short(loss) + (span if math.isfinite(loss.low) else "")
    found.append(SummaryRow(RELATIVE, before, "" if best is None else short(best.normalized)))
    return found


def sample_words(audit: Audit) -> str:
    """That recalibrated numbers come from a sample of the rows, if they do."""
    if repaired(audit) is None or not audit.evidence.sampled:
        return ""
    return f"recalibrated: a sample of {counted(len(audit.evidence.sample))}"


def short(x: float) -> str:
    """An error in the summary: three decimals."""
    return MISSING if math.isnan(x) else number(x, 3)


def _with_limit(error: float, limit: float) -> str:
    """An error with the 95% limit of a calibrated model that has the same outputs."""
    if not math.isfinite(limit):
        return short(error)
    above = error > limit and short(error) != short(limit)
    return f"{short(error)} ({'>' if above else '≤'} {short(limit)})"


def cells(row: SummaryRow, headers: Sequence[str]) -> tuple[str, ...]:
    """The cells of a row under these headers."""
    known = {"": row.name, "original": row.before, AFTER: row.after}
    return tuple(known[header] for header in headers)


def scale_words(score: str) -> str:
    """The scale of loss bars."""
    return f"{capitalised(score)}: 0 is perfect, 1 is the base-rate forecast"


def loss_bars(audit: Audit) -> LossBars | None:
    """The log loss on the scale of the base-rate forecast, before and after recalibration; None
    if the rows have a single class, or if it stays infinite."""
    before, best = float(audit["log_score.normalized"]), repaired(audit)
    scale = scale_words("log loss")
    if math.isnan(before) or (math.isinf(before) and best is None):
        return None
    if best is None:
        text = short(before)
        return LossBars(scale, (LossBar(f"original, {text}", (Segment(before, text, "rest"),)),))
    after = float(best.normalized)
    removed = round(before, 3) - round(after, 3)  # so that the shown parts add up
    gone = "infinite" if math.isinf(before) else f"{short(removed)} removable"
    parts = (
        Segment(after, f"{short(after)} stays", "rest"),
        Segment(before - after, gone, "calibration"),
    )
    bars = (
        LossBar(f"original, {short(before)}", parts),
        LossBar(f"recalibrated, {short(after)}", (Segment(after, short(after), "recalibrated"),)),
    )
    return LossBars(scale, bars)


def clauses(audit: Audit) -> list[tuple[Level, str]]:
    """The two most important findings in short, below the sentence of the verdict; without what
    the headline says."""
    found = [
        (finding.level, finding.clause or finding.text.removesuffix("."))
        for finding in audit.decision.findings
    ]
    return [
        (level, f"{capitalised(clause)}.")
        for level, clause in found
        if clause not in audit.headline
    ][:SHOWN_FINDINGS]


def command(audit: Audit, spell: Spelling) -> str:
    """The command that fits the recommended calibrator; "" if none is advised."""
    action = audit.decision.action
    return "" if action is None else spell(action)


def next_command(audit: Audit, spell: Spelling) -> str:
    """The command that applies it, to other rows than those that fitted it."""
    action = audit.decision.action
    return "" if action is None else spell(ApplyCalibrator(action.uses))


def as_markdown(audit: Audit, title: str, facts: str, spell: Spelling) -> str:
    """The summary as Markdown, for a message or a pull request."""
    names = headers(audit)
    lines = [
        f"## {title}",
        "",
        f"**{audit.decision.words}.** {audit.headline} {audit.decision.sentence}",
        "",
        f"| {' | '.join(names)} |",
        f"|{'---|' * len(names)}",
        *(f"| {' | '.join(cells(row, names))} |" for row in rows(audit)),
        "",
        *(f"- {finding.text}" for finding in audit.decision.findings),
    ]
    if fit := command(audit, spell):
        lines += ["", f"`{fit}`"]
    return "\n".join([*lines, "", f"{facts}. probaudit."])
