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

from ..estimates.estimate import Estimate

if TYPE_CHECKING:
    from ..budget import Budget
    from .audit import Audit

LABELS = {
    "accuracy": "accuracy",
    "log_score": "log score",
    "brier_score": "Brier score",
    "error_rate": "error rate",
    "reject_risk": "risk with reject",
    "cost_risk": "risk, your costs",
}
BUDGET = {"calibration": "calibration", "grouping, at least": "grouping", "the rest": "rest", "total": "total"}
SERVED = 5
MARKS = {"bad": ("✗", "bold red"), "warning": ("!", "bold yellow"), "good": ("✓", "bold green"), "note": ("·", "dim")}


def number(x: float) -> str:
    return "∞" if math.isinf(x) else "–" if math.isnan(x) else f"{x:.4f}" if abs(x) >= 1e-3 or x == 0 else f"{x:.2e}"


def interval(x: Estimate) -> str:
    return f"{number(x.low)} to {number(x.high)}" if math.isfinite(x.low) else "–"


def findings(audit: Audit) -> Table:
    """The verdict, a mark before each finding."""
    table = Table.grid(padding=(0, 1))
    for finding in audit.findings:
        mark, style = MARKS[finding.level]
        table.add_row(Text(mark, style=style), Text(finding.text))
    return table


def scores(audit: Audit) -> Table:
    """The estimates, normalised beside plain."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True)
    for title in ("value", "95% interval", "normalised", "95% interval"):
        table.add_column(title, justify="right", no_wrap=True)
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
    """What a calibrator would gain, and the calibration error beside what chance alone would give."""
    found = audit.calibration
    text = Text()
    loss = audit.estimates.get("calibration_loss.relative")
    if loss is not None and math.isfinite(loss):
        span = f" ({loss.low:.1%} to {loss.high:.1%})" if math.isfinite(loss.low) else ""
        text.append("calibration loss         ").append(f"{loss:.1%}", "bold").append(f" of the log score{span}\n")
    text.append("calibration error (ECE)  ").append(number(found.value), "bold")
    if math.isfinite(found.null_mean):
        chance = f"{number(found.null_mean)}, up to {number(found.null_high)}"
        text.append(f"   chance alone: {chance} (p = {found.p_value:.3g})")
    return text


def render(audit: Audit, title: str = "") -> RenderableType:
    summary = audit.summary
    answer = "confidence and correctness" if summary.plan.kind == "pairs" else f"{len(summary.plan.classes)} classes"
    head = Text.assemble((title or "audit", "bold"), f"  {summary.rows:,} rows, {answer}")
    foot = Text(
        "normalised: divided by the best constant forecast (or decision); below 1 is better than not looking", style="dim"
    )
    parts: list[RenderableType] = [head, Padding(findings(audit), (1, 0)), scores(audit)]
    parts += [Padding(calibration(audit), (1, 0, 0, 0)), Padding(foot, (1, 0, 0, 0))]
    if audit.budget is not None:
        parts += [Padding(budget(audit.budget), (1, 0, 0, 0)), Padding(served(audit.budget), (1, 0, 0, 0))]
    return Group(*parts)


def budget(found: Budget) -> Table:
    """Where the score goes, before and after calibration."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", pad_edge=False)
    table.add_column("Brier score, " + ("all classes" if "Classwise" in found.definition else "top label"), no_wrap=True)
    budgets = [found] if found.after is None else [found, found.after]
    for title in ("as it is", "after calibration")[: len(budgets)]:
        table.add_column(title, justify="right", no_wrap=True)
        table.add_column("", justify="right", no_wrap=True)
    for label, name in BUDGET.items():
        cells = []
        for one in budgets:
            part = getattr(one, name)
            cells += [number(part), f"{part / one.total:.1%}" if one.total else ""]
        table.add_row(label, *cells)
    return table


def served(found: Budget) -> Table:
    """The regions that are badly served, the largest losses first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", pad_edge=False)
    for title in ("rows", "stated", "observed", "95% interval"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("who is badly served", overflow="fold")
    shown = found.badly_served(SERVED)
    for region in shown:
        span, who = f"{region.low:.2f} to {region.high:.2f}", f"{region.rule}: {region.verdict}"
        table.add_row(f"{region.rows:,}", f"{region.stated:.2f}", f"{region.observed:.2f}", span, who)
    if not shown:
        table.add_row("", "", "", "", "no region is found to be")
    return table


def overview(audits: Mapping[str, Audit]) -> Table:
    """Several audits, a row each."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", pad_edge=False)
    table.add_column("classifier", no_wrap=True)
    for title in ("accuracy", "log / naive", "95% interval", "Brier / naive"):
        table.add_column(title, justify="right", no_wrap=True)
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
