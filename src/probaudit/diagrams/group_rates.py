"""What the model says in each group and what happened: a dot plot, the largest gap first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..estimate import Estimate
from ..text import percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Line, Mark, Panel, Picture, Points


@dataclass(frozen=True, eq=False)
class GroupRates(Diagram):
    """The predicted and the observed rate of each group, the latter with a 95% interval.

    names : of the groups, the largest gap first. risk : whether an event is judged, or else whether
        answers are right. what : what is compared, such as groups or classes.
    """

    percents = ("predicted", "observed", LOW, HIGH)

    names: tuple[str, ...]
    predicted: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray
    verdict: tuple[str, ...]
    risk: bool
    what: str = "group"

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        rates: Sequence[tuple[Estimate, Estimate]],
        rows: Sequence[int],
        verdicts: Sequence[str],
        *,
        risk: bool,
    ) -> GroupRates:
        """From the predicted and the observed rate of each group."""
        order = np.argsort([-abs(says - happened) for says, happened in rates], kind="stable")
        sorted_rates = [rates[k] for k in order]
        return cls(
            tuple(names[k] for k in order),
            np.array([float(says) for says, _ in sorted_rates]),
            np.array([float(x) for _, x in sorted_rates]),
            np.array([x.low for _, x in sorted_rates]),
            np.array([x.high for _, x in sorted_rates]),
            np.array([rows[k] for k in order]),
            tuple(verdicts[k] for k in order),
            risk,
        )

    def columns(self) -> dict[str, np.ndarray]:
        columns = {
            self.what: np.array(self.names, object),
            "rows": self.rows,
            "predicted": self.predicted,
            "observed": self.observed,
            LOW: self.low,
            HIGH: self.high,
        }
        judged = {"verdict": np.array(self.verdict, object)} if any(self.verdict) else {}
        return columns | judged

    def picture(self) -> Picture:
        place = np.arange(len(self.names), dtype=float)
        detail = {name: list(column) for name, column in self.columns().items()}
        says, happened = ("predicted", "happened") if self.risk else ("says", "is right")
        marks: list[Mark] = [
            Line(np.array([a, b]), np.array([y, y]), role="reference")
            for a, b, y in zip(self.predicted, self.observed, place, strict=True)
        ]
        marks += [
            Points(self.predicted, place, role="over", name=says, detail=detail),
            Points(
                self.observed,
                place,
                self.low,
                self.high,
                role="observed",
                name=f"{happened}, with 95% interval",
                across=True,
                detail=detail,
            ),
        ]
        panel = Panel(tuple(marks), Axis("", percent=True), Axis("", categories=self.names))
        caption = "The largest difference first."
        title = f"Predicted and observed by {self.what}"
        return Picture((panel,), title, self._description(), caption)

    def _description(self) -> str:
        first = f"{percent(self.predicted[0])} predicted, {percent(self.observed[0])} observed"
        return (
            f"Predicted and observed rates by {self.what}, {len(self.names)} shown. The largest "
            "difference: "
            f"{self.names[0]}, {first}."
        )
