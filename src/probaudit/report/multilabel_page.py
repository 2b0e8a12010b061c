"""The page of a multilabel model, and its table for the terminal: labels from the worst on, macro
and micro."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as TerminalTable
from rich.text import Text

from ..audits.finding import Level
from ..calibration.label_measures import NAMES, LabelMeasures
from ..diagrams.reliability import Reliability
from ..estimate import Estimate
from ..text import counted, number, p_value, percent
from .number_table import NumberTable
from .page import Control, Figure, Page, Section, Table, Words
from .sections import diagrams_section, provenance_section

if TYPE_CHECKING:
    from ..audits.multilabel import MultilabelTable

SHOWN_LABELS = 20  # in the terminal
RATES = ("predicted", "observed")
MAIN = {
    "predicted": "predicted",
    "observed": "observed",
    "slope": "slope",
    "ici": "ICI",
    "auc": "AUC",
    "average_precision": "AP",
}
# at most three intervals fit into a table of the page
MORE = {
    "Errors of calibration": ("slope", "in_the_large", "ici"),
    "Ratio and scores": ("observed_expected", "brier", "log_loss"),
    "Ranking": ("auc", "average_precision"),
}
RESAMPLES = 199


def multilabel_page(found: MultilabelTable, title: str = "") -> Page:
    """The page of a multilabel model."""
    level: Level = "bad" if any(one.verdict for one in found) else "good"
    sections = [_labels(found), _together(found), _diagrams(found), _provenance(found)]
    title = title or "Can the probabilities of these labels be trusted?"
    return Page(title, facts(found), found.headline, level, sections)


def multilabel_summary(found: MultilabelTable) -> Page:
    """The summary that a notebook displays."""
    return Page("Labels", facts(found), found.headline, "note", [_labels(found), _together(found)])


def facts(found: MultilabelTable) -> str:
    """The number of rows and labels."""
    return f"{counted(found.rows)}, {len(found):,} {'label' if len(found) == 1 else 'labels'}"


def render(found: MultilabelTable, title: str = "") -> RenderableType:
    """The table for a console."""
    head = Text.assemble((title or "labels", "bold"), f"  {facts(found)}")
    table = NumberTable("label", "events", *MAIN.values(), "")
    for one in found.labels[:SHOWN_LABELS]:
        _add(table, one)
    if len(found) > SHOWN_LABELS:
        table.add_row(f"and {len(found) - SHOWN_LABELS} more")
    table.add_section()
    for one in (found.macro, found.micro):
        _add(table, one)
    note = (
        "macro: mean over labels; micro: all cells pooled; ICI: mean distance of predicted and "
        "observed rates; AP: average precision"
    )
    parts = (Text(found.headline), table, Text(note, style="dim"))
    return Group(head, *(Padding(part, (1, 0, 0, 0)) for part in parts))


def _add(table: TerminalTable, one: LabelMeasures) -> None:
    values = [_value(name, getattr(one, name)) for name in MAIN]
    table.add_row(Text(one.label), f"{one.events:,}", *values, one.verdict)


def _value(name: str, x: float) -> str:
    return percent(x) if name in RATES else number(x, 3)


def _with_interval(name: str, x: Estimate) -> str:
    if not math.isfinite(x.low):
        return _value(name, x)
    return f"{_value(name, x)} ({_value(name, x.low)} to {_value(name, x.high)})"


def _cells(one: LabelMeasures, names: Iterable[str]) -> list[str]:
    return [_with_interval(name, getattr(one, name)) for name in names]


def _labels(found: MultilabelTable) -> Section:
    wrong = [k for k, one in enumerate(found.labels) if one.verdict]
    first = Table(
        "Predicted and observed rates",
        ("label", "rows", "events", *RATES, "p", ""),
        [
            [
                one.label,
                f"{one.rows:,}",
                f"{one.events:,}",
                *_cells(one, RATES),
                p_value(one.adjusted),
                one.verdict,
            ]
            for one in found.labels
        ],
        (0, 6),
        wrong,
    )
    others = [
        Table(
            caption,
            ("label", *(NAMES[name] for name in names)),
            [[one.label, *_cells(one, names)] for one in found.labels],
            marked=wrong,
        )
        for caption, names in MORE.items()
    ]
    lead = (
        "Worst first: significantly miscalibrated labels are marked, p is adjusted for the number "
        "of labels (Holm). In parentheses: 95% intervals."
    )
    return Section("labels", "Labels", [first, *others], lead)


def _together(found: MultilabelTable) -> Section:
    rows = [
        [words, *(_with_interval(name, getattr(one, name)) for one in (found.macro, found.micro))]
        for name, words in NAMES.items()
    ]
    table = Table("Macro and micro", ("", "macro", "micro"), rows)
    lead = (
        "Macro: the mean over labels. Micro: all cells of the table pooled as one event. Intervals "
        "allow for dependence between the labels of a row."
    )
    return Section("together", "All labels", [table], lead)


def _diagrams(found: MultilabelTable) -> Section:
    drawn = {
        (label,): Reliability.of_grid(grid, event=f"label {label}", resamples=RESAMPLES)
        for label, grid in found.grids.items()
    }
    if not drawn:
        return diagrams_section([Words("No label was drawn.")])
    control = Control("label", tuple(label for (label,) in drawn))
    return diagrams_section([Figure("reliability", drawn, [control])])


def _provenance(found: MultilabelTable) -> Section:
    data = [("rows", f"{found.rows:,}"), ("labels", f"{len(found):,}")]
    return provenance_section(data, found.settings, pairs=False)
