"""Audits as text for the terminal."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..audits.dependence import rows_words
from ..audits.finding import Finding, Spelling, as_call, spelled
from ..calibration.validation import NAMES, TOO_HIGH, TOO_LOW
from ..estimate import Estimate
from ..text import MISSING, class_words, enumerated, number, p_value, percent
from . import summary
from .budget_section import HEADERS, cells, loss_parts, notes_of
from .next_steps import next_steps
from .number_table import NumberTable
from .summary import is_constant, is_pairs

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.decision import Decision
    from ..comparisons.decision import Choice
    from ..diagrams.budget import LossBudget
    from ..grouping.budget import Budget
    from ..grouping.region_table import Region
    from ..states import Summary

LABELS = {
    "accuracy": "accuracy",
    "log_score": "log loss",
    "brier_score": "Brier score (0 to 2)",
    "error_rate": "error rate",
    "reject_risk": "risk with reject",
    "cost_risk": "risk, your costs",
}
SELECTIVE = {
    "aurc": "area under the risk-coverage curve (AURC)",
    "excess_aurc": "excess AURC",
    "confidence_auroc": "AUROC of confidence against correctness",
    "accuracy_at_80": "accuracy of the 80% most confident rows",
    "coverage_at_risk_5": "largest coverage with at most 5% errors",
}
EXACT = ("predicted", "auc", "confidence_auroc")  # of a constant output
CONSTANT = (
    "all rows have the same output, so its mean has no sampling error, the AUC is 0.5 by "
    "definition, and slope and intercept are undefined"
)
RISK = ("observed", "predicted", "observed_expected", "slope", "ici", "brier_skill", "auc")
METHOD = "bias-corrected temperature"  # the calibrator of calibration losses
SHOWN_REGIONS = 5
SHOWN_GROUPS = 12
MARKS = {
    "bad": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "good": ("✓", "bold green"),
    "note": ("·", "dim"),
}


def interval(x: Estimate) -> str:
    """The 95% interval of an error or a score."""
    return f"{number(x.low)} to {number(x.high)}" if math.isfinite(x.low) else MISSING


def interval_of(name: str, x: Estimate) -> str:
    """The 95% interval of a measure of a risk or a confidence, which is exact for a constant."""
    return "exact" if name in EXACT and x.low == x.high else interval(x)


def share_interval(x: Estimate) -> str:
    """The 95% interval of a share."""
    return f"{percent(x.low)} to {percent(x.high)}" if math.isfinite(x.low) else MISSING


def finding_table(findings: Sequence[Finding], spell: Spelling) -> Table:
    """Findings, a mark before each finding; `spell` writes the actions of its advice."""
    table = Table.grid(padding=(0, 1))
    for finding in findings:
        mark, style = MARKS[finding.level]
        text = Text(finding.text)
        if finding.advice and finding.level in ("bad", "warning"):
            text.append(f"\n→ {finding.advice_text(spell)}", "dim")
        table.add_row(Text(mark, style=style), text)
    return table


def scores(audit: Audit) -> Table:
    """The estimates, normalised beside plain."""
    table = NumberTable("", "value", "95% interval", "relative", "95% interval")
    for name, label in LABELS.items():
        if name not in audit.estimates:
            continue
        x = audit.estimates[name]
        ratio = audit.estimates.get(f"{name}.normalized")
        row = [label, number(x), interval(x)]
        row += ["", ""] if ratio is None else [number(ratio), interval(ratio)]
        table.add_row(*row)
    return table


def calibration(audit: Audit) -> Text:
    """The share of the log loss that the selected calibrator removes."""
    text, best = Text(), audit.selected
    if best is not None and best.name != "identity" and math.isfinite(best.gain):
        text.append("calibration loss  ").append(percent(best.gain), "bold").append(
            f" of the log loss ({share_interval(best.gain)}), "
        )
        text.append(f"removed by {best.title} in cross-validation")
        text.append("; see below for other calibrators" if len(audit.repairs) > 2 else "")
    return text


def errors(audit: Audit) -> Table:
    """The calibration errors beside those expected if calibrated."""
    table = NumberTable(
        "calibration error", "value", "95% interval", "if calibrated", "95% limit", "p"
    )
    for error in audit.errors:
        if error.name.startswith("top_label.") and error.name != "top_label.ece":
            continue
        null = [number(error.null_mean), number(error.null_high), p_value(error.p_value)]
        table.add_row(error.short_title, number(error.estimate), interval(error.estimate), *null)
    return table


def risks(audit: Audit) -> Table:
    """The most important measures of the event or the confidence, and of selective prediction."""
    what = "confidence" if is_pairs(audit) else f"risk of {class_words(audit.event)}"
    table = NumberTable(
        "selective prediction" if audit.validation is None else what, "value", "95% interval"
    )
    for name in () if audit.validation is None else RISK:
        table.add_row(NAMES[name], number(audit[name]), interval_of(name, audit[name]))
    for name in ("aurc", "accuracy_at_80"):
        table.add_row(SELECTIVE[name], number(audit[name]), interval(audit[name]))
    return table


def groups(audit: Audit) -> Table:
    """Predicted and observed rate of each group, the worst first."""
    table = NumberTable("group, worst first", "rows", "predicted", "observed", "95% interval", "")
    for group in audit.groups.worst()[:SHOWN_GROUPS]:
        x = group.observed
        cells = [
            f"{group.rows:,}",
            percent(group.predicted),
            percent(x),
            share_interval(x),
            group.verdict,
        ]
        table.add_row(Text(str(group.population)), *cells)
    if len(audit.groups) > SHOWN_GROUPS:
        table.add_row(f"and {len(audit.groups) - SHOWN_GROUPS} more")
    return table


def group_words(audit: Audit) -> list[str]:
    """What predicted and observed rates of groups are, and which columns were cut into ranges."""
    groups = audit.groups
    if not groups:
        return []
    what = (
        f"mean probability and rate of class {audit.summary.plan.event_class}"
        if groups[0].risk
        else "mean predicted probability and accuracy"
    )
    cut = f"; {groups.cut_words}" if groups.cut else ""
    return [f"groups: {what}; labels by the test of the calibration error{cut}"]


def repairs(audit: Audit) -> Table:
    """The scores after each calibrator; a star marks the recommended one."""
    table = NumberTable(
        "repair, cross-validated", "log loss", "Brier", "ECE", "accuracy", "gain", "95% interval"
    )
    for repair in audit.repairs:
        gain, mark = repair.gain, "*" if repair.recommended else " "
        values = [
            number(repair.log_score),
            number(repair.brier_score),
            number(repair.ece),
            percent(repair.accuracy),
            percent(gain) if math.isfinite(gain.low) else MISSING,
            share_interval(gain),
        ]
        style = "bold" if repair.recommended else ""
        table.add_row(f"{mark} {repair.title}", *values, style=style)
    return table


def verdict(found: Decision | Choice, title: str, facts: str) -> Text:
    """The grade and what was judged, then the headline and the sentence in numbers."""
    text = Text.assemble((found.words.upper(), MARKS[found.level][1]))
    text.append(f"  {title}" if title else "", "bold").append(f"  {facts}\n", "dim")
    return text.append(found.headline, "bold").append(f"\n{found.sentence}".rstrip())


def summary_table(audit: Audit) -> Table:
    """The most important numbers, before and after recalibration."""
    names = summary.headers(audit)
    table = NumberTable(*names)
    for row in summary.rows(audit):
        table.add_row(*summary.cells(row, names))
    return table


def most_important(audit: Audit, spell: Spelling) -> list[Text]:
    """The two most important findings in short, and what to do first."""
    found = []
    for level, clause in summary.clauses(audit):
        mark, style = MARKS[level]
        found.append(Text.assemble((f"{mark} ", style), clause))
    return found + _first_step(audit, spell)


def _first_step(audit: Audit, spell: Spelling) -> list[Text]:
    """The command that fits the recommended calibrator, or else the first step; one with a command,
    if there is one. A line that ends with a command is not wrapped, so that it can be copied."""
    steps = next_steps(audit)
    runs = [step for step in steps if not all(isinstance(part, str) for part in step.advice)]
    advice = next((step.advice for step in runs or steps), ())
    fit = summary.command(audit, spell)
    if not fit and not advice:
        return []
    line = Text.assemble(("→ ", "bold"), fit or spelled(advice, spell))
    if fit or not isinstance(advice[-1], str):
        line.no_wrap, line.overflow = True, "ignore"
    return [line]


def first_screen(
    audit: Audit, title: str = "", spell: Spelling = as_call, more: str = ""
) -> RenderableType:
    """The verdict, the summary and the next step; `more` says how to see the rest."""
    foot = filter(None, [summary.sample_words(audit), more])
    steps = [*most_important(audit, spell), *(Text(line, "dim") for line in foot)]
    return spaced(_verdict(audit, title), summary_table(audit), Group(*steps) if steps else None)


def spaced(first: RenderableType, *others: RenderableType | None) -> Group:
    """The parts that have content, with a blank line between them."""
    shown = [part for part in others if part is not None and getattr(part, "row_count", True)]
    return Group(first, *(line for part in shown for line in ("", part)))


def _verdict(audit: Audit, title: str) -> Text:
    return verdict(audit.decision, title or audit.title, facts(audit))


def render(audit: Audit, title: str = "", spell: Spelling = as_call) -> RenderableType:
    """All of the audit for a console; `spell` writes the actions of its advice."""
    found = loss_parts(audit)
    foot = [
        "relative: divided by the score of the base-rate forecast; below 1 is better",
        "if calibrated: mean error of a calibrated model with the same outputs, and its 95% limit",
        *([CONSTANT] if audit.validation is not None and is_constant(audit) else []),
        *group_words(audit),
        *([] if found is None else notes_of(audit, found)),
    ]
    parts: list[RenderableType] = [summary_table(audit)]
    parts += [finding_table(audit.findings, spell), scores(audit)]
    parts += [text] if (text := calibration(audit)) else []
    parts += [errors(audit), risks(audit)]
    parts += [groups(audit)] if audit.groups else []
    if found is not None and audit.budget is not None:
        parts += [budget(found), misjudged(audit, audit.budget)]
    parts += [repairs(audit)] if audit.repairs else []
    return spaced(_verdict(audit, title), *parts, Text("\n".join(foot), style="dim"))


def facts(audit: Audit) -> str:
    """The number of rows, and what their outputs are."""
    return f"{rows_words(audit.evidence)}, {outputs_words(audit.summary)}"


def outputs_words(summary: Summary) -> str:
    """The kind of outputs: a number of classes, or a confidence and its correctness."""
    if summary.plan.kind == "pairs":
        return "confidence and correctness"
    return f"{len(summary.plan.classes):,} classes"


def grouped_by(audit: Audit) -> str:
    """The columns whose values are the groups, in words; empty if regions are learned.

    >>> from types import SimpleNamespace
    >>> grouped_by(SimpleNamespace(choices={"regions": ["site", "sex"]}))
    'site and sex'
    """
    chosen = audit.choices.get("regions", "tree")
    names = [str(name) for name in chosen] if isinstance(chosen, (list, tuple)) else []
    return enumerated(names)


def budget(found: LossBudget) -> Table:
    """The loss budget relative to the base-rate forecast."""
    table = NumberTable(found.words, *HEADERS[1:])
    for row in found.rows:
        table.add_row(*cells(row))
    return table


def predicted_words(found: Budget) -> str:
    """The header of predicted probabilities in a table of regions."""
    return "calibrated" if found.calibrator else "predicted"


def region_words(audit: Audit, region: Region) -> str:
    """How a region is misjudged, in the words of groups."""
    if audit.event is None or region.of_class not in (None, audit.event):
        return region.verdict.replace("-", "")
    return TOO_HIGH if region.stated > region.observed else TOO_LOW


def misjudged(audit: Audit, found: Budget) -> Table:
    """The groups the model misjudges, the largest losses first."""
    columns = grouped_by(audit)
    title = Text("groups the model misjudges" + (f", by {columns}" if columns else ""))
    table = NumberTable(title, "rows", predicted_words(found), "observed", "95% interval")
    shown = found.misjudged(SHOWN_REGIONS)
    for region in shown:
        table.add_row(
            Text(f"{region.rule}: {region_words(audit, region)}"),
            f"{region.rows:,}",
            percent(region.stated),
            percent(region.observed),
            f"{percent(region.low)} to {percent(region.high)}",
        )
    if not shown:
        table.add_row("none detected", "", "", "", "")
    return table


def overview(audits: Mapping[str, Audit]) -> Table:
    """Several audits, one row each."""
    table = NumberTable(
        "classifier", "accuracy", "relative log loss", "95% interval", "relative Brier score"
    )
    for name, audit in audits.items():
        log = audit["log_score.normalized"]
        mark, style = MARKS[audit.decision.level]
        table.add_row(
            Text.assemble((mark, style), f" {name}"),
            percent(audit["accuracy"]),
            number(log),
            interval(log),
            number(audit["brier_score.normalized"]),
        )
    return table


def as_text(audit: Audit, *, full: bool = False) -> str:
    """The audit as plain text: the first screen, or all of it."""
    more = "All numbers: .to_text(), .to_frame(), .to_html(path)"
    spell = audit.spelling
    shown = render(audit, spell=spell) if full else first_screen(audit, spell=spell, more=more)
    return plain_text(shown, width=100)


def plain_text(content: RenderableType, width: int) -> str:
    """What a console of this width would show, without colours."""
    console = Console(file=io.StringIO(), width=width, no_color=True, legacy_windows=False)
    console.print(content, crop=False)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines)
