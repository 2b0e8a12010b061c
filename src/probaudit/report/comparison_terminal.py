"""Comparisons as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..audits.finding import Spelling, as_call
from ..comparisons.metrics import DIFFERENCES, LABELS, METRICS, Metric, tables
from ..comparisons.model_table import TIED, TIED_WORDS, ModelTable
from ..estimate import Estimate
from ..text import counted, number
from .terminal import METHOD, findings, interval, number_table, outputs_words, plain_text

if TYPE_CHECKING:
    from ..comparisons.comparison import Comparison

# The page shows all differences, the terminal leaves some errors out.
ONLY_ON_PAGE = ("ace", "top_label.ece", "mce", "average_calibration_error", "entropy")
# titles that are too long for a column of numbers
SHORTER = {"overconfidence": "over- confidence", "underconfidence": "under- confidence"}


def is_pairs(found: Comparison) -> bool:
    """Whether rows have a confidence and its correctness, not class probabilities."""
    return found.summaries[found.reference].plan.kind == "pairs"


def facts(found: Comparison) -> str:
    """The number of models and rows, and what the outputs are."""
    outputs = outputs_words(found.summaries[found.reference])
    judged = "" if found.event is None else f", judged: {found.judged}"
    return f"{len(found.names)} models, {counted(found.rows)}, {outputs}{judged}"


def scores_of(found: Comparison) -> list[str]:
    """What errors judge, and the score that each loss is a part of."""
    words = [f"calibration errors: of the {found.judged}, unless named otherwise"]
    above, below = ("risk too high", "risk too low")
    if found.event is None:
        above, below = ("overconfidence", "underconfidence")
    words.append(f"{above}, {below}: the parts of the ECE from bins above and below the rate")
    if any("calibration_loss" in parts for parts in found.estimates.values()):
        words.append(f"calibration loss: what {METHOD} removes of the log loss, out of fold")
    if found.budgets:
        score = next(iter(found.budgets.values())).score_words(pairs=is_pairs(found))
        words.append(f"grouping: the least that hidden groups cost of the {score}")
    return words


def models(
    found: Comparison, columns: Mapping[str, Metric], *, ranked: bool = False
) -> Table | None:
    """A row for each model, the best of each column in bold; None if no model has any of the
    columns."""
    shown = ModelTable.of(found, columns)
    if not shown.metrics:
        return None
    labels = [SHORTER.get(metric.label, metric.label) for metric in shown.metrics]
    table = _table(*map(_two_lines, labels), *["rank"] * ranked)
    # numbers stay aligned beside marks
    ties = [any(row[k].tied for row in shown.cells) for k in range(len(labels))]
    for model, row in zip(found.names, shown.cells, strict=True):
        cells = [
            Text(cell.marked + " " * (tied and not cell.tied), style="bold" if cell.best else "")
            for cell, tied in zip(row, ties, strict=True)
        ]
        cells += [Text(rank(found, model))] if ranked else []
        table.add_row(Text(model), *cells)
    return table


def _table(*titles: str) -> Table:
    """A column of names, which folds if the console is narrow, and one column per title."""
    return number_table("", *titles)


def _two_lines(title: str) -> str:
    """A title broken at the space nearest its middle, to keep the column narrow."""
    spaces = [place for place, letter in enumerate(title) if letter == " "]
    if not spaces:
        return title
    at = min(spaces, key=lambda place: abs(place - len(title) / 2))
    return f"{title[:at]}\n{title[at + 1 :]}"


def rank(found: Comparison, model: str) -> str:
    """The rank by the deciding score; with = if another model shares it."""
    ranks = found.ranks[found.score]
    shared = sum(rank == ranks[model] for rank in ranks.values()) > 1
    return f"{ranks[model]}{'=' if shared else ' '}"


def rank_words(found: Comparison) -> str:
    """How ranks are defined."""
    score = LABELS[found.score]
    return f"rank: by the {score}, 1 + the number of clearly better models; = marks ties"


def differences(found: Comparison) -> Table:
    """Each model minus the reference, with paired intervals."""
    table = _table("", "difference", "95% interval", "")
    for words in (1, 4):
        table.columns[words].justify = "left"
    for model, parts in found.differences.items():
        first = True
        for name in DIFFERENCES:
            if name in parts and name not in ONLY_ON_PAGE:
                x = parts[name]
                table.add_row(
                    Text(model if first else ""),
                    LABELS[name],
                    number(x),
                    interval(x),
                    Text(*judgement(x, name)),
                )
                first = False
    return table


def judgement(x: Estimate, name: str) -> tuple[str, str]:
    if math.isinf(x):
        return ("worse", "yellow") if x > 0 else ("better", "green")
    if x.low == x.high == 0:
        return "equal", "dim"
    if not x.low > 0 and not x.high < 0:
        return "unclear", "dim"
    less = METRICS[name].lower
    if less is None:
        return "lower" if x < 0 else "higher", ""
    return ("better", "green") if (x < 0) == less else ("worse", "yellow")


def render(found: Comparison, title: str = "", spell: Spelling = as_call) -> RenderableType:
    """The comparison for a console; `spell` writes the actions of its advice."""
    head = Text.assemble((title or "comparison", "bold"), f"  {facts(found)}")
    parts: list[RenderableType] = [head, Padding(findings(found, spell), (1, 0))]
    for place, columns in enumerate(tables(found.metrics)):
        table = models(found, columns, ranked=place == 0)
        parts += [] if table is None else [Padding(table, (0, 0, 1, 0))]
    caption = Text(f"differences from {found.reference!r}, paired", style="bold")
    foot = [
        f"bold: best; {TIED} {TIED_WORDS}",
        rank_words(found),
        "unclear: the interval contains 0",
        *scores_of(found),
        *(f"note: {finding.text}" for finding in found.notes),
    ]
    return Group(
        *parts,
        caption,
        differences(found),
        Padding(Text("\n".join(foot), style="dim"), (1, 0, 0, 0)),
    )


def as_text(found: Comparison) -> str:
    """The comparison as plain text, for repr and print."""
    return plain_text(render(found), width=110)
