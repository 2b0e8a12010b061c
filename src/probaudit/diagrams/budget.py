"""The loss budget as a waterfall: total, calibration, grouping and rest, before and after
recalibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.predictions import Predictions
from ..grouping.budget import Budget, loss_budget
from ..text import capitalised, number, whole_percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Bars, Line, Mark, Panel, Picture, Points, Text

LEAST = 0.0005  # a part below it is shown as 0

PARTS = {
    "total": "total",
    "calibration": "calibration",
    "grouping": "hidden groups (at least)",
    "rest": "the rest",
}
ROLES = {"total": "reference", "calibration": "calibration", "grouping": "grouping", "rest": "rest"}
SHARE_OF_TOTAL = "share of the total"
STAGES = ("original", "after calibration")


@dataclass(frozen=True, eq=False)
class LossBudget(Diagram):
    """Bars of a waterfall: the total from 0; calibration and grouping, each ending where the
    previous bar begins; the rest from 0.

    stage, part : "original" or "after calibration", and the part of the budget.
    value, low, high : the part and its 95% interval. share : its share of the total.
    start, end : the ends of the bar. Calibration and grouping are subtracted from right to left.
    """

    percents = (SHARE_OF_TOTAL,)

    stage: np.ndarray
    part: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    share: np.ndarray
    start: np.ndarray
    end: np.ndarray
    definition: str

    @classmethod
    def of_budget(cls, budget: Budget, *, pairs: bool = False) -> LossBudget:
        """The waterfall of a budget, and of the budget after calibration if there is one.

        pairs : whether rows have a confidence and its correctness instead of class probabilities.
        """
        budgets = [budget] if budget.after is None else [budget, budget.after]
        parts = [getattr(one, part) for one in budgets for part in PARTS]
        value, low, high = (
            np.array([getattr(part, name) for part in parts]) for name in ("value", "low", "high")
        )
        by_stage = value.reshape(-1, len(PARTS))
        total, calibration, rest = by_stage[:, 0], by_stage[:, 1], by_stage[:, 3]
        with np.errstate(invalid="ignore", divide="ignore"):
            start = np.stack([0 * total, total - calibration, rest, 0 * total], axis=1)
            end = np.stack([total, total, total - calibration, rest], axis=1)
            share = by_stage / total[:, None]
        return cls(
            stage=np.repeat(STAGES[: len(budgets)], len(PARTS)),
            part=np.tile(list(PARTS), len(budgets)),
            value=value,
            low=low,
            high=high,
            share=share.ravel(),
            start=start.ravel(),
            end=end.ravel(),
            definition=f"loss budget of the {budget.score_words(pairs=pairs)}",
        )

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "outputs": self.stage,
            "part": np.array([PARTS[part] for part in self.part], object),
            "mean loss": self.value,
            LOW: self.low,
            HIGH: self.high,
            SHARE_OF_TOTAL: self.share,
        }

    def picture(self) -> Picture:
        ends = np.r_[self.end, self.start, self.high[np.isin(self.part, ["total", "rest"])], 0.0]
        ends = ends[np.isfinite(ends)]
        low, high = min(0.0, float(ends.min())), float(ends.max()) or 1.0
        axis = Axis("mean loss", low=low, high=low + (high - low) * 1.6)
        names = Axis("", low=-0.5, high=len(PARTS) - 0.5, categories=tuple(PARTS.values()))
        stages = list(dict.fromkeys(self.stage.tolist()))
        panels = tuple(
            Panel(self._marks(stage, low, high), axis, names, title=stage) for stage in stages
        )
        return Picture(panels, "Loss budget", self._description(), self._caption())

    def _marks(self, stage: str, low: float, high: float) -> tuple[Mark, ...]:
        rows = np.flatnonzero(self.stage == stage)
        joins = [self.end[rows[0]], self.start[rows[1]], self.start[rows[2]]]
        marks: list[Mark] = [
            Line(np.array([x, x]), np.array([step, step + 1.0]), dashed=True, role="reference")
            for step, x in enumerate(joins)
            if np.isfinite(x)
        ]
        for place, row in enumerate(rows.tolist()):
            marks.append(Text(low + (high - low) * 1.58, place, self._label(row), anchor="end"))
            if np.isfinite(self.start[row] + self.end[row]):
                marks += self._bar(float(place), row)
        return tuple(marks)

    def _label(self, row: int) -> str:
        share = self.share[row]
        value = number(0.0 if abs(self.value[row]) < LEAST else self.value[row], 3)
        if self.part[row] == "total" or not np.isfinite(share):
            return value
        return f"{value} · {whole_percent(share)}"

    def _bar(self, place: float, row: int) -> list[Mark]:
        """The bar of a part, and its interval at the end that is not joined to another bar."""
        part = str(self.part[row])
        at, left, right = np.array([place]), self.start[[row]], self.end[[row]]
        detail = {name: column[[row]] for name, column in self.columns().items()}
        ends = np.minimum(left, right), np.maximum(left, right)
        marks: list[Mark] = [Bars.lying(at, *ends, thickness=0.6, role=ROLES[part], detail=detail)]
        if np.isfinite(self.low[row]):
            low, high, free = self.low[[row]], self.high[[row]], right
            if part in ("calibration", "grouping"):  # subtracted from the right end
                low, high, free = right - high, right - low, left
            marks.append(Points(free, at, low, high, across=True, role="reference"))
        return marks

    def _caption(self) -> str:
        return (
            "Recalibration removes the calibration part. A model that used the features better"
            " would remove at least the part of hidden groups. Lines are 95% intervals."
            f" {capitalised(self.definition)}."
        )

    def _description(self) -> str:
        words = [
            f"{stage}, {PARTS[part]}: {number(value, 3)} ({whole_percent(share)} of the total)"
            for stage, part, value, share in zip(
                self.stage, self.part, self.value, self.share, strict=True
            )
        ]
        return f"Waterfall of the {self.definition}. " + "; ".join(words) + "."


def loss_budget_diagram(
    y_true: Any, y_proba: Any = None, features: Any = None, **choices: Any
) -> LossBudget:
    """The loss budget as a waterfall. Arguments as in `loss_budget`.

    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(2000)
    >>> choices = {"calibrator": "none", "resamples": 20}
    >>> loss_budget_diagram(world.y, world.scores, world.features, **choices).part.tolist()
    ['total', 'calibration', 'grouping', 'rest']
    """
    pairs = isinstance(y_true, Predictions) and y_true.pairs
    return LossBudget.of_budget(loss_budget(y_true, y_proba, features, **choices), pairs=pairs)
