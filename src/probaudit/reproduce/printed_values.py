"""The numbers that the papers print, or that their code gives where a figure shows none."""

from __future__ import annotations

import csv
import functools
import math
from importlib import resources

from .outcome import Row


@functools.cache
def printed_values(paper: str) -> dict[tuple[str, str, str], float]:
    """The printed numbers of a paper by part, row and column, from `printed/PAPER.csv`.

    >>> printed_values("proper_scores")["Table 2", "SST2 GPT2-0sh, raw", "NCE"]
    0.917
    """
    text = (resources.files(__package__) / "printed" / f"{paper}.csv").read_text("utf-8")
    found = csv.DictReader(text.splitlines())
    return {(one["part"], one["row"], one["column"]): float(one["value"]) for one in found}


def row_beside(
    paper: str,
    part: str,
    row: str,
    column: str,
    ours: object,
    *,
    tolerance: float = math.nan,
    source: str = "",
    decimals: int = 3,
) -> Row:
    """Our number with its interval, if it has one, beside the printed one, if there is one."""
    return Row(
        row,
        column,
        float(ours),  # type: ignore[arg-type]
        printed_values(paper).get((part, row, column), math.nan),
        source or part,
        float(getattr(ours, "low", math.nan)),
        float(getattr(ours, "high", math.nan)),
        tolerance,
        decimals,
    )
