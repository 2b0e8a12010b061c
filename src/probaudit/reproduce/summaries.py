"""Sentences about outcomes, for the findings of a paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..text import listed, number
from .outcome import Claim, Outcome, Row


def rows_of(outcomes: Iterable[Outcome], *columns: str) -> list[Row]:
    """The rows that can be compared, of these columns or of all."""
    return [
        row
        for outcome in outcomes
        for row in outcome.rows
        if row.agrees is not None and (not columns or row.column in columns)
    ]


def largest_difference(rows: Sequence[Row]) -> float:
    found = [abs(row.difference) for row in rows if math.isfinite(row.difference)]
    return max(found, default=math.nan)


def agreement(rows: Sequence[Row], decimals: int = 4) -> str:
    """How many of these rows agree, and the largest difference.

    >>> agreement([Row("a", "NCE", 0.5, 0.501, tolerance=0.002)])
    'all 1 within tolerance, largest difference 0.0010'
    """
    differing = [f"{row.row}, {row.column}" for row in rows if row.agrees is False]
    largest = f"largest difference {number(largest_difference(rows), decimals)}"
    if not differing:
        return f"all {len(rows)} within tolerance, {largest}"
    return f"{len(rows) - len(differing)} of {len(rows)} within tolerance ({largest}); not:" + (
        f" {listed(differing)}"
    )


def verdicts(claims: Sequence[Claim], ending: str) -> str:
    """How many claims with this ending hold; names those that do not. A claim is "NAME: ENDING".

    >>> verdicts([Claim("VGG16: ECE falls", "", -1.0, -2.0, -0.5, True)], "ECE falls")
    'holds on 1 of 1'
    """
    found = [claim for claim in claims if claim.statement.endswith(f": {ending}")]
    words = f"holds on {sum(claim.holds is True for claim in found)} of {len(found)}"
    for holds, meaning in ((None, "undecided"), (False, "the opposite on")):
        names = [c.statement.removesuffix(f": {ending}") for c in found if c.holds is holds]
        words += f"; {meaning}: {listed(names)}" if names else ""
    return words
