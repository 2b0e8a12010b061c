"""Comparisons as text for the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..audits.finding import Spelling, as_call
from ..estimate import Estimate
from ..text import MISSING, counted, number, percent
from .terminal import METHOD, findings, interval, number_table, outputs_words, plain_text

if TYPE_CHECKING:
    from ..comparisons.comparison import Comparison

# Labels by the name of an estimate, each with whether lower is better (None for neither).
Columns = dict[str, tuple[str, bool | None]]

# The columns of Chidambaram & Ge 2024, Table 1; then further calibration errors and losses.
SCORES: Columns = {
    "accuracy": ("accuracy", False),
    "ece": ("ECE", True),
    "ace": ("ACE", True),
    "smooth_ece": ("SmoothECE", True),
    "log_score": ("log loss", True),
    "brier_score": ("Brier score", True),
}
ERRORS: Columns = {
    "top_label.ece": ("top-label ECE", True),
    "classwise_ece": ("classwise ECE", True),
    "overconfidence": ("over- confidence", True),
    "underconfidence": ("under- confidence", True),
    "risk_too_high": ("risk too high", True),
    "risk_too_low": ("risk too low", True),
    "mce": ("MCE", True),
    "average_calibration_error": ("ACE, unweighted", True),
    "entropy": ("entropy", None),
}
MORE: Columns = {
    "log_score.normalized": ("log loss / base rate", True),
    "calibration_loss": ("calibration loss", True),
    "calibration_loss.relative": ("of the log loss", True),
    "sharpness_gap": ("sharpness gap", True),
    "grouping_loss": ("grouping, at least", True),
    "cost_risk": ("your costs", True),
}
DIFFERENCES = (
    "log_score",
    "brier_score",
    "cost_risk",
    "accuracy",
    "ece",
    "smooth_ece",
    *ERRORS,
    "calibration_loss",
    "sharpness_gap",
)
# The page shows all of these differences, the terminal leaves some errors out.
ONLY_ON_PAGE = ("top_label.ece", "mce", "average_calibration_error", "entropy")
ALL = SCORES | ERRORS | MORE
LABELS = {name: label.replace("- ", "") for name, (label, _) in ALL.items()}


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


def models(found: Comparison, columns: Columns, *, ranked: bool = False) -> Table | None:
    """A row for each model, the best of each column in bold; None if no model has any of the
    columns."""
    shown = [
        name for name in columns if any(name in found.estimates[model] for model in found.names)
    ]
    if not shown:
        return None
    titles = [_two_lines(columns[name][0]) for name in shown] + ["rank"] * ranked
    table = _table(*titles)
    best = {name: _best(found, name, less=columns[name][1]) for name in shown}
    for model in found.names:
        cells = [_cell(found.estimates[model].get(name), name, best[name]) for name in shown]
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


def _best(found: Comparison, name: str, *, less: bool | None) -> float:
    if less is None:
        return math.nan
    values = [
        float(parts[name])
        for parts in found.estimates.values()
        if name in parts and not math.isnan(parts[name])
    ]
    return (min if less else max)(values, default=math.nan)


def cell_text(x: Estimate | None, name: str) -> str:
    """An estimate in a table, as a share if it is one."""
    if x is None:
        return MISSING
    return percent(x) if name.endswith(".relative") else number(x)


def _cell(x: Estimate | None, name: str, best: float) -> Text:
    return Text(cell_text(x, name), style="bold" if x is not None and float(x) == best else "")


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
    less = ALL[name][1]
    if less is None:
        return "lower" if x < 0 else "higher", ""
    return ("better", "green") if (x < 0) == less else ("worse", "yellow")


def render(found: Comparison, title: str = "", spell: Spelling = as_call) -> RenderableType:
    """The comparison for a console; `spell` writes the actions of its advice."""
    head = Text.assemble((title or "comparison", "bold"), f"  {facts(found)}")
    parts: list[RenderableType] = [head, Padding(findings(found, spell), (1, 0))]
    for columns, ranked in ((SCORES, True), (ERRORS, False), (MORE, False)):
        table = models(found, columns, ranked=ranked)
        parts += [] if table is None else [Padding(table, (0, 0, 1, 0))]
    caption = Text(f"differences from {found.reference!r}, paired", style="bold")
    foot = [
        rank_words(found),
        "unclear: the interval contains 0",
        *scores_of(found),
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
