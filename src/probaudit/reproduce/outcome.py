"""What an experiment finds: numbers beside the printed ones, claims tested, and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np

from ..diagrams.diagram import Diagram
from ..estimate import Estimate
from ..scoring.intervals import Z95
from ..text import number
from .stored_diagram import StoredDiagram


@dataclass(frozen=True)
class Row:
    """A number of ours, beside the printed one if the paper has it.

    row, column : its place in the table of its part, such as "SST2 GPT2-0sh, raw" and "NCE".
    source : where the printed value is, such as "Table 2".
    low, high : the 95% interval of our value.
    tolerance : the largest difference that counts as agreement. NaN if the two are not the same
        quantity, as for another network.
    decimals : as many as the table shows.

    >>> Row("cal", "NCE", 0.3384, printed=0.34, source="Figure 4", tolerance=0.005).agrees
    True
    """

    row: str
    column: str
    ours: float
    printed: float = math.nan
    source: str = ""
    low: float = math.nan
    high: float = math.nan
    tolerance: float = math.nan
    decimals: int = 3

    @property
    def difference(self) -> float:
        """Ours minus printed; 0 if both are infinite."""
        return 0.0 if self.ours == self.printed else self.ours - self.printed

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is within the tolerance; None if there is nothing to compare."""
        if math.isnan(self.tolerance) or math.isnan(self.printed):
            return None
        return abs(self.difference) <= self.tolerance * (1 + 1e-9)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what was measured here.

    value, low, high : the number that decides, with its 95% interval.
    holds : None if the interval does not decide.
    """

    statement: str
    source: str
    value: float
    low: float
    high: float
    holds: bool | None

    @classmethod
    def below(cls, limit: float, statement: str, source: str, measured: Any) -> Self:
        """The claim that an estimate is below a limit; its interval decides."""
        low, high = _ends(measured)
        holds = True if high < limit else False if low >= limit else None
        return cls(statement, source, float(measured), low, high, holds)

    @classmethod
    def above(cls, limit: float, statement: str, source: str, measured: Any) -> Self:
        """The claim that an estimate is above a limit; its interval decides."""
        low, high = _ends(measured)
        holds = True if low > limit else False if high <= limit else None
        return cls(statement, source, float(measured), low, high, holds)

    @property
    def measured(self) -> str:
        return number(self.value, self._decimals)

    @property
    def interval(self) -> str:
        """The 95% interval in words; "" if the number is exact."""
        if self.low == self.high:
            return ""
        return f"{number(self.low, self._decimals)} to {number(self.high, self._decimals)}"

    @property
    def _decimals(self) -> int:
        return 2 if abs(self.value) >= 1 else 4


def _ends(measured: Any) -> tuple[float, float]:
    """The interval of an estimate; a plain number is exact."""
    value = float(measured)
    return float(getattr(measured, "low", value)), float(getattr(measured, "high", value))


def mean_estimate(values: np.ndarray) -> Estimate:
    """The mean of independent values, with a normal 95% interval.

    >>> mean_estimate(np.array([1.0, 1.0, 1.0])).interval
    (1.0, 1.0)
    """
    mean, half = float(values.mean()), Z95 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Estimate(mean, low=mean - half, high=mean + half, n=len(values))


@dataclass(frozen=True)
class Outcome:
    """Rows, claims, figures by name, and notes for the reader."""

    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    figures: Mapping[str, Diagram] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain values that `of_dict` reads back. Numbers that are not finite are null or
        text."""
        return {
            "rows": [_plain(asdict(row)) for row in self.rows],
            "claims": [_plain(asdict(claim)) for claim in self.claims],
            "figures": {
                name: StoredDiagram.of(figure).to_dict() for name, figure in self.figures.items()
            },
            "notes": list(self.notes),
        }

    @classmethod
    def of_dict(cls, stored: Mapping[str, Any]) -> Self:
        return cls(
            tuple(_read(Row, row) for row in stored["rows"]),
            tuple(_read(Claim, claim) for claim in stored["claims"]),
            {name: StoredDiagram.of_dict(one) for name, one in stored["figures"].items()},
            tuple(stored["notes"]),
        )


def plain_number(value: float) -> float | str | None:
    """A number as JSON can represent it.

    >>> plain_number(0.5), plain_number(math.inf), plain_number(math.nan)
    (0.5, 'inf', None)
    """
    return None if math.isnan(value) else value if math.isfinite(value) else str(value)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: plain_number(value) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def _read(kind: type[Any], stored: Mapping[str, Any]) -> Any:
    """The inverse of `_plain` for a dataclass: in a field of numbers, null is NaN."""
    numbers = {one.name for one in fields(kind) if one.type == "float"}
    return kind(
        **{name: _number(value) if name in numbers else value for name, value in stored.items()}
    )


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
