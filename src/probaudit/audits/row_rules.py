"""Rules about the rows that were judged, shared by audits and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..text import counted
from .advice import Calibrate
from .finding import Finding, number, rule

FEW_ROWS = 100
SHOWN_ROWS = 5
UNDETECTED_ERROR = 0.05  # 95% limit of a calibrated model's error above which nothing is claimed
BAD_ROWS = {
    "label": "with an unknown label",
    "weight": "with an invalid weight",
    "value": "with an output out of range",
    "sum": "whose outputs do not sum to 1",
}


@dataclass(frozen=True)
class InfiniteRows:
    """Rows whose true class has probability 0: their count, and the numbers of some."""

    count: int
    numbers: tuple[int, ...] = ()
    sampled: bool = False

    @property
    def words(self) -> str:
        """The row numbers in parentheses, if there are any."""
        if not self.numbers:
            return ""
        some = "the first of the sample: " if self.sampled else "the first: "
        first = "" if len(self.numbers) == self.count else some
        rows = "row" if len(self.numbers) == 1 else "rows"
        return f" ({first}{rows} {', '.join(map(str, self.numbers))}, counted from 0)"


class JudgedRows(Protocol):
    """What these rules read. Models are keyed by name; the one of an audit has the name ""."""

    @property
    def rows(self) -> int: ...

    @property
    def pairs(self) -> bool: ...

    @property
    def dropped_rows(self) -> int: ...

    @property
    def dropped(self) -> Mapping[str, Mapping[str, int]]: ...

    @property
    def infinite_rows(self) -> Mapping[str, InfiniteRows]: ...

    @property
    def error_limit(self) -> float: ...


def impossible_rows(sample: Predictions) -> np.ndarray:
    """The rows whose true class has probability 0, in order."""
    good = survey(sample).good
    values, codes = sample.block(0, len(sample)).values[good], sample.codes[good]
    if values.shape[1] == 1:
        values = np.column_stack(
            [np.zeros(len(values)) if sample.from_logits else 1 - values[:, 0], values[:, 0]]
        )
    true = values[np.arange(len(codes)), codes]
    return good[true == (-np.inf if sample.kind in ("logits", "log_probabilities") else 0)]


@rule("Ferrer & Ramos 2025, Section 2.3.2")
def infinite_log_score(judged: JudgedRows) -> list[Finding]:
    """The log loss of a row is -log p, which is infinite where the true class has probability 0.
    Histogram binning and isotonic regression may predict 0 (Chidambaram & Ge 2024, Table 1)."""
    outcome = "the outcome" if judged.pairs else "the true class"
    return [
        Finding(
            "bad",
            f"{repr(model) if model else 'The model'} gave {outcome} probability 0 in "
            f"{counted(infinite.count)} of {judged.rows:,}{infinite.words}: its log loss is "
            "infinite.",
            clause=f"in {counted(infinite.count)} {outcome} had probability 0",
            advice=(
                "Predict exactly 0 only for what is impossible. If probabilities were rounded, use "
                "the logits instead; ",
                Calibrate(),
                " makes the log loss finite.",
            ),
            numbers={"infinite_rows": infinite.count, "rows": judged.rows},
            rows=infinite.numbers,
        )
        for model, infinite in judged.infinite_rows.items()
    ]


@rule()
def rows_set_aside(judged: JudgedRows) -> Finding | None:
    """Invalid rows that were left out: the result is about the rows that remain."""
    if not judged.dropped_rows:
        return None
    parts = [
        f"{count:,} {BAD_ROWS[broken]}{f' in {model!r}' if model else ''}"
        for model, rules in judged.dropped.items()
        for broken, count in rules.items()
        if count
    ]
    total = judged.dropped_rows + judged.rows
    one = judged.dropped_rows == 1
    left_out = f"{judged.dropped_rows:,} of {total:,} rows {'was' if one else 'were'} left out"
    return Finding(
        "warning",
        f"{left_out}: {', '.join(parts)}.",
        clause=f"{left_out} as invalid",
        advice=("Find out where they come from: in use, they need a decision too.",),
        numbers={"dropped_rows": judged.dropped_rows, "rows": judged.rows},
    )


@rule("Chidambaram & Ge 2024, Proposition 4.5")
def only_confidence(judged: JudgedRows) -> Finding | None:
    """The loss of the confidence alone can be small for a predictor that is always wrong."""
    if not judged.pairs:
        return None
    return Finding(
        "note",
        "Only the confidence is judged, against the correctness of each answer: a good score does "
        "not mean good answers. Read it together with the accuracy.",
        clause="only the confidence is judged, not the answers",
    )


@rule()
def few_rows(judged: JudgedRows) -> Finding | None:
    """Too few rows for a claim: in all, or to tell a calibrated model from one that is wrong by
    five percentage points."""
    advice = ("Collect more labelled rows before you draw conclusions or recalibrate.",)
    numbers = {"rows": judged.rows, "null_high": judged.error_limit}
    if judged.rows < FEW_ROWS:
        rows = f"only {counted(judged.rows)}"
        text = f"{rows[0].upper()}{rows[1:]}: all intervals are approximate."
        return Finding("note", text, clause=rows, advice=advice, numbers=numbers)
    if not judged.error_limit > UNDETECTED_ERROR:
        return None
    limit = f"a calibrated model has errors up to {number(judged.error_limit)} here"
    return Finding(
        "note",
        f"Too few rows to detect small calibration errors: {limit} (95% limit).",
        clause=f"{counted(judged.rows)} are too few, {limit}",
        advice=advice,
        numbers=numbers,
    )
