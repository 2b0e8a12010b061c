"""Comparisons as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..audits.finding import (
    ApplyCalibrator,
    Calibrate,
    Calls,
    Finding,
    Spelling,
    as_call,
)
from ..comparisons.metrics import DIFFERENCES, LABELS, METRICS, tables
from ..comparisons.model_table import TIED, TIED_WORDS, ModelTable
from ..estimate import Estimate
from ..text import counted, number
from .number_table import NumberTable
from .terminal import METHOD, finding_table, interval, outputs_words, plain_text, spaced, verdict

if TYPE_CHECKING:
    from ..comparisons.comparison import Comparison

BEST = "*"
# on the first screen
FIRST = ("accuracy", "log_score", "log_score.calibrated", "brier_score", "ece", "classwise_ece")
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
    above, below = ("predicted too high", "predicted too low")
    if found.event is None:
        above, below = ("overconfidence", "underconfidence")
    words.append(f"{above}, {below}: the parts of the ECE from bins above and below the rate")
    if any("calibration_loss" in parts for parts in found.estimates.values()):
        words.append(f"calibration loss: what {METHOD} removes of the log loss, out of fold")
        words.append(f"log loss after recalibration: after {METHOD}, out of fold")
    if found.budgets:
        score = next(iter(found.budgets.values())).score_words(pairs=is_pairs(found))
        words.append(f"grouping: the least that hidden groups cost of the {score}")
    return words


def models(
    found: Comparison, columns: Iterable[str], *, ranked: bool = False, decimals: int = 4
) -> Table | None:
    """A row for each model, the best of each column in bold; None if no model has any of the
    columns."""
    shown = ModelTable.of(found, columns, decimals)
    if not shown.metrics:
        return None
    labels = [SHORTER.get(metric.label, metric.label) for metric in shown.metrics]
    table = NumberTable("", *map(_two_lines, labels), *["rank"] * ranked)
    for model, row in zip(found.names, shown.cells, strict=True):
        cells = [
            Text(cell.text + (BEST if cell.best else TIED if cell.tied else " "), style)
            for cell, style in ((cell, "bold" if cell.best else "") for cell in row)
        ]
        cells += [Text(rank(found, model))] if ranked else []
        table.add_row(Text(model), *cells)
    return table


def _two_lines(title: str) -> str:
    """A title broken at the space nearest its middle, to keep the column narrow; a blank is above
    the marks."""
    spaces = [place for place, letter in enumerate(title) if letter == " "]
    if not spaces:
        return f"{title} "
    at = min(spaces, key=lambda place: abs(place - len(title) / 2))
    return f"{title[:at]} \n{title[at + 1 :]} "


def rank(found: Comparison, model: str) -> str:
    """The rank by the deciding score; with = if another model shares it."""
    ranks = found.ranks[found.score]
    shared = sum(rank == ranks[model] for rank in ranks.values()) > 1
    return f"{ranks[model]}{'=' if shared else ' '}"


def rank_words(found: Comparison) -> str:
    """How ranks are defined."""
    score = LABELS[found.score]
    return f"rank: by the {score}, 1 + the number of clearly better models; = marks ties"


def differences(found: Comparison, model: str) -> Table:
    """A model minus the reference, with paired intervals."""
    table = NumberTable(Text(f"{model} minus {found.reference}"), "difference", "95% interval", "")
    table.columns[-1].justify = "left"
    parts = found.differences[model]
    for name in DIFFERENCES:
        if name in parts and name not in ONLY_ON_PAGE:
            x = parts[name]
            table.add_row(LABELS[name], number(x), interval(x), Text(*judgement(x, name)))
    return table


def judgement(x: Estimate, name: str) -> tuple[str, str]:
    if math.isinf(x):
        return ("worse", "yellow") if x > 0 else ("better", "green")
    if x.low == x.high == 0:
        return "equal", "dim"
    if not x.low > 0 and not x.high < 0:
        return "tied", "dim"
    less = METRICS[name].lower
    if less is None:
        return "lower" if x < 0 else "higher", ""
    return ("better", "green") if (x < 0) == less else ("worse", "yellow")


def other_findings(found: Comparison) -> list[Finding]:
    """The findings that the decision does not tell."""
    return [finding for finding in found.findings if finding is not found.best]


def repair_commands(found: Comparison) -> tuple[str, str]:
    """How to fit a calibrator to the best model, and to apply it to new rows."""
    model = found.decision.models[0]
    spell = found.spellings.get(model, Calls(("y_true", f"models[{model!r}]")))
    return spell(Calibrate()), spell(ApplyCalibrator())


def first_screen(
    found: Comparison, title: str = "", spell: Spelling = as_call, more: str = ""
) -> RenderableType:
    """The decision, the table of models and the findings; `more` says how to see the rest."""
    foot = [f"{BEST} best; {TIED} tied with the best; rank by the {LABELS[found.score]}", more]
    step = Text("→ ", "bold").append(repair_commands(found)[0], "not bold")
    return spaced(
        verdict(found.decision, title, facts(found)),
        models(found, FIRST, ranked=True, decimals=3),
        finding_table(other_findings(found), spell),
        step if found.decision.recalibrate else None,
        Text("\n".join(filter(None, foot)), "dim"),
    )


def render(found: Comparison, title: str = "", spell: Spelling = as_call) -> RenderableType:
    """All of the comparison for a console; `spell` writes the actions of its advice."""
    foot = [
        f"{BEST} best; {TIED} {TIED_WORDS}",
        rank_words(found),
        "tied: the interval of the difference contains 0",
        *scores_of(found),
        *(f"note: {finding.text}" for finding in found.notes),
    ]
    return spaced(
        verdict(found.decision, title, facts(found)),
        finding_table(other_findings(found), spell),
        *(
            models(found, columns, ranked=place == 0)
            for place, columns in enumerate(tables(found.metrics))
        ),
        *(differences(found, model) for model in found.differences),
        Text("\n".join(foot), style="dim"),
    )


def as_text(found: Comparison, *, full: bool = False) -> str:
    """The comparison as plain text: the first screen, or all of it."""
    more = "All numbers: .to_text(), .to_frame(), .to_html(path)"
    return plain_text(render(found) if full else first_screen(found, more=more), width=100)
