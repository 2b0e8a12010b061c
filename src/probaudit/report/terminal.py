"""Audits for the terminal."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..audits.dependence import rows_words
from ..audits.finding import percent
from ..estimate import Estimate

if TYPE_CHECKING:
    from ..audits.audit import Audit
    from ..comparisons.comparison import Comparison
    from ..grouping.budget import Budget

LABELS = {
    "accuracy": "accuracy",
    "log_score": "log score",
    "brier_score": "Brier score",
    "error_rate": "error rate",
    "reject_risk": "risk with reject",
    "cost_risk": "risk, your costs",
}
BUDGET = {
    "calibration": "calibration",
    "grouping, at least": "grouping",
    "the rest": "rest",
    "total": "total",
}
METHOD = "bias-corrected temperature"  # the calibrator that calibration losses are of
SERVED = 5
NOISE = 15  # decimals beyond which there is only rounding
SHOWN_GROUPS = 12
MARKS = {
    "bad": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "good": ("✓", "bold green"),
    "note": ("·", "dim"),
}


def number(x: float) -> str:
    """Four decimals, or three digits if it is small; what is left by rounding is nothing.

    >>> number(0.25), number(0.00025), number(-1e-17)
    ('0.2500', '2.50e-04', '0.0000')
    """
    x = round(float(x), NOISE) + 0.0
    return (
        ("∞" if x > 0 else "−∞")
        if math.isinf(x)
        else "–"
        if math.isnan(x)
        else f"{x:.4f}"
        if abs(x) >= 1e-3 or x == 0
        else f"{x:.2e}"
    )


def interval(x: Estimate) -> str:
    return f"{number(x.low)} to {number(x.high)}" if math.isfinite(x.low) else "–"


def findings(audit: Audit | Comparison) -> Table:
    """The verdict, a mark before each finding."""
    table = Table.grid(padding=(0, 1))
    for finding in audit.findings:
        mark, style = MARKS[finding.level]
        text = Text(finding.text)
        if finding.advice and finding.level in ("bad", "warning"):
            text.append(f"\n→ {finding.advice}", "dim")
        table.add_row(Text(mark, style=style), text)
    return table


def scores(audit: Audit) -> Table:
    """The estimates, normalised beside plain."""
    table = number_table("", "value", "95% interval", "normalised", "95% interval")
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
    """What a calibrator would gain."""
    text, loss = Text(), audit.estimates.get("calibration_loss.relative")
    if loss is not None and math.isfinite(loss):
        span = f" ({percent(loss.low)} to {percent(loss.high)})" if math.isfinite(loss.low) else ""
        text.append("calibration loss  ").append(percent(loss), "bold").append(
            f" of the log score{span}, "
        )
        text.append(f"removed by {METHOD} on rows it did not see")
        text.append("; other repairs are compared below" if audit.repairs else "")
    return text


def errors(audit: Audit) -> Table:
    """The calibration errors beside what chance alone would give."""
    table = number_table("calibration error", "value", "95% interval", "chance alone", "up to", "p")
    for error in audit.errors:
        chance = [number(error.null_mean), number(error.null_high), f"{error.p_value:.3g}"]
        table.add_row(error.title, number(error.estimate), interval(error.estimate), *chance)
    return table


def groups(audit: Audit) -> Table:
    """How sure the model is in each group, and how often it is right."""
    table = number_table("group", "rows", "stated", "right", "95% interval", "")
    for group in audit.groups[:SHOWN_GROUPS]:
        x = group.observed
        cells = [
            f"{group.rows:,}",
            percent(group.stated),
            percent(x),
            f"{percent(x.low)} to {percent(x.high)}",
            group.verdict,
        ]
        table.add_row(Text(f"{group.column} = {group.value}"), *cells)
    if len(audit.groups) > SHOWN_GROUPS:
        table.add_row(f"and {len(audit.groups) - SHOWN_GROUPS} more")
    return table


def repairs(audit: Audit) -> Table:
    """What calibrators would make of the probabilities; a star before the one to take."""
    table = number_table(
        "repair, out of fold", "log", "Brier", "ECE", "accuracy", "gain", "95% interval"
    )
    for repair in audit.repairs:
        gain, mark = repair.gain, "*" if repair.recommended else " "
        shares = (
            [percent(gain), f"{percent(gain.low)} to {percent(gain.high)}"]
            if math.isfinite(gain.low)
            else ["–", "–"]
        )
        values = [
            number(repair.log_score),
            number(repair.brier_score),
            number(repair.ece),
            f"{repair.accuracy:.2%}",
        ]
        table.add_row(
            f"{mark} {repair.title}", *values, *shares, style="bold" if repair.recommended else ""
        )
    return table


def render(audit: Audit, title: str = "") -> RenderableType:
    summary = audit.summary
    answer = (
        "confidence and correctness"
        if summary.plan.kind == "pairs"
        else f"{len(summary.plan.classes)} classes"
    )
    head = Text.assemble(
        (title or audit.title or "audit", "bold"), f"  {rows_words(audit.evidence)}, {answer}"
    )
    foot = [
        "normalised: divided by the best constant forecast (or decision); below 1 is better than not looking",
        "chance alone: the error of a calibrated model with the same outputs, on average and at most (95%)",
        *([] if audit.budget is None else budget_words(audit, audit.budget)),
    ]
    parts: list[RenderableType] = [findings(audit), scores(audit)]
    parts += [text] if (text := calibration(audit)) else []
    parts.append(errors(audit))
    parts += [groups(audit)] if audit.groups else []
    if audit.budget is not None:
        parts += [
            budget(audit.budget, audit.budget.score_words(pairs=is_pairs(audit))),
            served(audit.budget, parted_by(audit)),
        ]
    parts += [repairs(audit)] if audit.repairs else []
    return Group(
        head,
        *(Padding(part, (1, 0, 0, 0)) for part in (*parts, Text("\n".join(foot), style="dim"))),
    )


def number_table(first: str, *others: str) -> Table:
    """A table whose columns but the first are numbers; where there is little room, it is the first
    that gives way."""
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        header_style="dim",
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column(first, overflow="fold")
    for title in others:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def is_pairs(audit: Audit) -> bool:
    """Whether a stated confidence is judged, and no classes."""
    return audit.summary.plan.kind == "pairs"


def parted_by(audit: Audit) -> str:
    """The columns whose values are the groups that are looked for, in words; nothing if regions are
    learned or come otherwise.

    >>> from types import SimpleNamespace
    >>> parted_by(SimpleNamespace(choices={"regions": ["site", "sex"]}))
    'site and sex'
    """
    chosen = audit.choices.get("regions", "tree")
    names = [str(name) for name in chosen] if isinstance(chosen, (list, tuple)) else []
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def budget_words(audit: Audit, found: Budget) -> list[str]:
    """Why the numbers of a budget are not those of the verdict and of the scores."""
    pairs = is_pairs(audit)
    words = [
        f"calibration in the budget: removed by {found.calibrator_words} on rows it was not fitted to, plus the "
        "calibration error left after it (without finite-sample bias); grouping and rest are those of the recalibrated outputs"
        if found.calibrator
        else "calibration in the budget: without finite-sample bias; outputs were not recalibrated"
    ]
    if (score := found.score_words(pairs=pairs)) != "Brier score":
        summed = "right and wrong" if pairs else "all classes"
        words.append(
            f"{score}: (p - y)², counted once, where the Brier score is summed over {summed}"
        )
    return words


def budget(found: Budget, score: str) -> Table:
    """Where the score goes, before and after calibration."""
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        header_style="dim",
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column(score, overflow="fold")
    budgets = [found] if found.after is None else [found, found.after]
    for title in ("original", "after calibration")[: len(budgets)]:
        table.add_column(title, justify="right", no_wrap=True)
        table.add_column("", justify="right", no_wrap=True)
    for label, name in BUDGET.items():
        cells = []
        for one in budgets:
            part = getattr(one, name)
            cells += [number(part), percent(part / one.total) if one.total else ""]
        table.add_row(label, *cells)
    return table


def stated_words(found: Budget) -> str:
    """What the probabilities of a table of regions are."""
    return "calibrated" if found.calibrator else "stated"


def served(found: Budget, columns: str = "") -> Table:
    """The regions that are badly served, the largest losses first; `columns` are those whose values
    are the regions."""
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        header_style="dim",
        pad_edge=False,
        collapse_padding=True,
    )
    for title in ("rows", stated_words(found), "observed", "95% interval"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(
        Text("who is badly served" + (f", by {columns}" if columns else "")), overflow="fold"
    )
    shown = found.misjudged(SERVED)
    for region in shown:
        span, who = (
            f"{region.low:.2f} to {region.high:.2f}",
            f"{region.rule}: {region.verdict.replace('-', '')}",
        )
        table.add_row(
            f"{region.rows:,}", f"{region.stated:.2f}", f"{region.observed:.2f}", span, Text(who)
        )
    if not shown:
        table.add_row("", "", "", "", f"no {'group' if columns else 'region'} is found to be")
    return table


def overview(audits: Mapping[str, Audit]) -> Table:
    """Several audits, a row each."""
    table = number_table("classifier", "accuracy", "log / naive", "95% interval", "Brier / naive")
    for name, audit in audits.items():
        log = audit["log_score.normalized"]
        mark, style = MARKS[audit.findings[0].level]
        table.add_row(
            Text.assemble((mark, style), f" {name}"),
            f"{audit['accuracy']:.1%}",
            number(log),
            f"{log.low:.2f} to {log.high:.2f}" if math.isfinite(log.low) else "–",
            number(audit["brier_score.normalized"]),
        )
    return table


def as_text(audit: Audit) -> str:
    """The audit as plain text, for repr and print."""
    console = Console(file=io.StringIO(), width=100, no_color=True, legacy_windows=False)
    console.print(render(audit))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines)
