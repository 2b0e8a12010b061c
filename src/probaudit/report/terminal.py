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
    from .audit import Audit

LABELS = {
    "accuracy": "accuracy",
    "log_score": "log score",
    "brier_score": "Brier score",
    "error_rate": "error rate",
    "reject_risk": "risk with reject",
    "cost_risk": "risk, your costs",
}
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
    """The calibration error in one line, beside what chance alone would give."""
    found = audit.calibration
    text = Text.assemble("calibration error (ECE)  ", (number(found.value), "bold"))
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
    error = Padding(calibration(audit), (1, 0, 0, 0))
    return Group(head, Padding(findings(audit), (1, 0)), scores(audit), error, Padding(foot, (1, 0, 0, 0)))


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
