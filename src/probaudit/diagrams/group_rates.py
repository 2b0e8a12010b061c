"""Predicted and observed rates of groups: a dot plot, the largest gap first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..calibration.label_measures import OVERCONFIDENT, UNDERCONFIDENT
from ..calibration.validation import TOO_HIGH, TOO_LOW
from ..estimate import Estimate
from ..text import percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Line, Mark, Panel, Picture, Points

DIRECTIONS = {
    "": "agrees",
    TOO_HIGH: "over",
    OVERCONFIDENT: "over",
    TOO_LOW: "under",
    UNDERCONFIDENT: "under",
}
OBSERVED = {  # names of the marks of observed rates
    "agrees": "observed, no clear error",
    "over": "observed, predicted too high",
    "under": "observed, predicted too low",
    "mixed": "observed, right on average but not at each output",
}


@dataclass(frozen=True, eq=False)
class GroupRates(Diagram):
    """The predicted and the observed rate of each group, the latter with a 95% interval.

    names : of the groups, the largest gap first.
    verdict : of the test of each group, "" if it is not found to be misjudged. The marks show it.
    risk : whether an event is judged, or else whether answers are right.
    what : what is compared, such as groups or classes.
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
    total: int = 0  # the number of groups, if not all are shown

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
        gaps = [abs(predicted - observed) for predicted, observed in rates]
        order = np.argsort(np.negative(gaps), kind="stable")
        sorted_rates = [rates[k] for k in order]
        return cls(
            tuple(names[k] for k in order),
            np.array([float(predicted) for predicted, _ in sorted_rates]),
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
        roles = np.array([DIRECTIONS.get(verdict, "mixed") for verdict in self.verdict])
        kinds = [(roles == role, role, name) for role, name in OBSERVED.items()]
        marks: list[Mark] = [
            Line(np.array([a, b]), np.array([y, y]), role="reference", dashed=True)
            for a, b, y in zip(self.predicted, self.observed, place, strict=True)
        ]
        marks.append(
            Points(self.predicted, place, role="rest", name="predicted", detail=detail, hollow=True)
        )
        for of, role, name in kinds:
            if of.any():
                marks.append(
                    Points(
                        self.observed[of],
                        place[of],
                        self.low[of],
                        self.high[of],
                        role=role,
                        name=name,
                        across=True,
                        detail={
                            key: list(np.asarray(column)[of]) for key, column in detail.items()
                        },
                    )
                )
        rate = "rate" if self.risk else "accuracy"
        across = Axis(rate, *self._ends(), percent=True)
        panel = Panel(tuple(marks), across, Axis("", categories=self.names))
        caption = (
            f"Predicted and observed {rate}, the largest difference first, with 95% intervals."
        )
        if self.total > len(self.names):
            caption += f" These {len(self.names)} of {self.total:,} differ most."
        return Picture(
            (panel,), f"Predicted and observed {rate} by {self.what}", self._description(), caption
        )

    def _ends(self) -> tuple[float | None, float | None]:
        """Ends of the axis at 0 or 1 if rates are near; shares beyond them are impossible."""
        shown = np.r_[self.predicted, self.low, self.high]
        low, high = float(shown.min()), float(shown.max())
        margin = 0.1 * (high - low)
        return (0.0 if low - margin <= 0 else None), (1.0 if high + margin >= 1 else None)

    def _description(self) -> str:
        first = f"{percent(self.predicted[0])} predicted, {percent(self.observed[0])} observed"
        return (
            f"Predicted and observed rates by {self.what}, {len(self.names)} shown. The largest "
            "difference: "
            f"{self.names[0]}, {first}."
        )
