"""Where the loss goes: the loss budget on the scale of the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..choices.scores import as_score
from ..diagrams.budget import ERROR, NAMES, BudgetPart, LossBudget
from ..text import capitalised, percent
from .page import Columns, LossBar, LossBars, Section, Segment, Table, Words
from .sections import budget_section
from .summary import scale_words

if TYPE_CHECKING:
    from ..audits.audit_result import Audit

HEADERS = ("", "loss", "95% interval", "share")
SHORT = {
    NAMES["removed"]: "removable",
    NAMES["left"]: "error left",
    NAMES["grouping"]: "hidden groups",
    NAMES["rest"]: "the rest",
}
TIPS = {
    NAMES["removed"]: "the loss that the calibrator removes from rows it was not fitted to",
    NAMES["left"]: "of the recalibrated outputs, without the part that sampling noise adds",
    ERROR: "of the outputs, without the part that sampling noise adds",
    NAMES["grouping"]: "rows with the same recalibrated prediction and different outcomes: a model "
    "that used the features better would avoid at least this loss",
    NAMES["rest"]: "noise, and hidden groups that these features do not reveal",
}


def loss_parts(audit: Audit) -> LossBudget | None:
    """The budget as the page and the terminal show it."""
    if audit.budget is None:
        return None
    return LossBudget.of_budget(audit.budget, pairs=audit.summary.plan.kind == "pairs")


def where_the_loss_goes(audit: Audit) -> Section | None:
    found = loss_parts(audit)
    if found is None:
        return None
    score = _score(audit)
    bars = LossBars(scale_words(score), [_bar(*next(found.bars))])
    notes = [Words(text) for text in notes_of(audit, found)]
    caption = f"Parts of the {score} (base-rate forecast = 1)"
    table = Table(caption, HEADERS, [cells(row) for row in found.rows], tips=TIPS)
    return budget_section([Columns([bars, *notes], [table])], score=score)


def cells(row: BudgetPart) -> tuple[str, ...]:
    """A total or a part, as a row of a table."""
    return row.name, row.text, row.interval, percent(row.share)


def notes_of(audit: Audit, found: LossBudget) -> list[str]:
    """What to know about these numbers: at most two sentences."""
    best, notes = audit.selected, []
    if best is not None and best.corrects_groups:
        uses = f"{capitalised(best.title)} uses groups or features"
        notes.append(f"{uses}: what it removes includes differences between groups.")
    elif audit.budget is not None and audit.budget.score != "log":
        notes.append("The log loss is infinite, so these are parts of the Brier score.")
    return notes + list(filter(None, [found.not_detected]))


def _score(audit: Audit) -> str:
    return "" if audit.budget is None else as_score(audit.budget.score).words()


def _bar(total: BudgetPart, parts: list[BudgetPart]) -> LossBar:
    segments = [
        Segment(one.shown, f"{one.text} {SHORT.get(one.name, one.name)}", one.role) for one in parts
    ]
    return LossBar(f"{total.name}, {total.text}", segments)
