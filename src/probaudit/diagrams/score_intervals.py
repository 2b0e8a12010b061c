"""Scores with their intervals, one below the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.proper_scores import bayes_risk, brier_score, log_score
from ..text import number
from .diagram import HIGH, LOW, Diagram
from .picture import MARGIN, Axis, Mark, Panel, Picture, Points, Rule, Text


@dataclass(frozen=True, eq=False)
class ScoreIntervals(Diagram):
    """Estimates by name with their 95% intervals.

    normalised : the same, divided by the score of the base-rate forecast.
    """

    names: tuple[str, ...]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    normalised: np.ndarray
    normalised_low: np.ndarray
    normalised_high: np.ndarray
    title: str = "Scores"

    @classmethod
    def of(
        cls,
        estimates: Mapping[str, Estimate],
        normalised: Mapping[str, Estimate] | None = None,
        *,
        title: str = "Scores",
    ) -> ScoreIntervals:
        """From estimates by name, and (for all or some of the names) normalised ones."""
        if not estimates:
            raise InputError("estimates", "must have at least one")
        beside = dict(normalised or {})
        unknown = [name for name in beside if name not in estimates]
        if unknown:
            raise InputError("normalised", "must have names of `estimates`", repr(unknown[0]))
        rows = [(float(e), e.low, e.high) for e in estimates.values()]
        nothing = Estimate(math.nan)
        others = [
            (float(e), e.low, e.high) for e in (beside.get(name, nothing) for name in estimates)
        ]
        plain, normal = np.array(rows, float).T, np.array(others, float).T
        return cls(
            names=tuple(map(str, estimates)),
            value=plain[0],
            low=plain[1],
            high=plain[2],
            normalised=normal[0],
            normalised_low=normal[1],
            normalised_high=normal[2],
            title=title,
        )

    def columns(self) -> dict[str, np.ndarray]:
        columns = {
            "name": np.array(self.names, object),
            "value": self.value,
            LOW: self.low,
            HIGH: self.high,
        }
        if np.isnan(self.normalised).all():
            return columns
        return columns | {
            "value / base rate": self.normalised,
            "ratio, 95% low": self.normalised_low,
            "ratio, 95% high": self.normalised_high,
        }

    def picture(self) -> Picture:
        panels = [self._panel("value", self.value, self.low, self.high)]
        if not np.isnan(self.normalised).all():
            ends = self.normalised, self.normalised_low, self.normalised_high
            panels.append(self._panel("1 = base-rate forecast", *ends, reference=1.0))
        caption = "Each model's score with its 95% interval."
        if len(panels) > 1:
            caption += " Normalised scores above 1 are worse than the base-rate forecast."
        return Picture(tuple(panels), self.title, self._description(), caption)

    def _panel(
        self,
        title: str,
        value: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        reference: float | None = None,
    ) -> Panel:
        shown = np.flatnonzero(np.isfinite(value))
        places, names = shown * 1.0, np.array(self.names, object)[shown]
        detail = {"score": names, "value": value[shown], "from": low[shown], "to": high[shown]}
        ends = (
            np.where(np.isfinite(low), low, value)[shown],
            np.where(np.isfinite(high), high, value)[shown],
        )
        points = Points(value[shown], places, *ends, across=True, role="observed", detail=detail)
        least = min(0.0, *ends[0].tolist()) if len(shown) else 0.0
        most = max([*ends[1].tolist(), 0.0 if reference is None else reference]) or 1.0
        marks: list[Mark] = [] if reference is None else [Rule(x=reference, role="reference")]
        marks += [points]
        marks += [
            Text(None, k, "infinite" if np.isinf(x) else number(x))
            for k, x in enumerate(value)
            if not np.isnan(x)
        ]
        axis = Axis(title, least, most + MARGIN * (most - least))
        return Panel(
            tuple(marks), axis, Axis("", categories=self.names), "normalised" if reference else ""
        )

    def _description(self) -> str:
        def shown(name: str, value: float, low: float, high: float) -> str:
            known = math.isfinite(low) and math.isfinite(high)
            span = f" ({number(low)} to {number(high)})" if known else ""
            return f"{name} {number(value)}{span}"

        ends = zip(self.names, self.value, self.low, self.high, strict=True)
        return f"{self.title} with 95% intervals: " + ", ".join(shown(*row) for row in ends) + "."


@takes_row_options
def score_intervals_diagram(
    y_true: Any, y_proba: Any = None, *, costs: Any = None, **options: Unpack[RowOptions]
) -> ScoreIntervals:
    """The log loss, the Brier score and the error rate (with costs, the Bayes risk), plain and
    normalised.

    >>> score_intervals_diagram([1, 0, 1, 1], [0.9, 0.2, 0.4, 0.7]).names
    ('log loss', 'Brier score', 'error rate')
    """
    rows = rows_of(y_true, y_proba, **options)
    table = 1.0 - np.eye(rows.n_classes) if costs is None else costs
    both = []
    for normalize in (False, True):
        risk = bayes_risk(rows, costs=table, normalize=normalize)
        found = {
            "log loss": log_score(rows, normalize=normalize),
            "Brier score": brier_score(rows, normalize=normalize),
        }
        both.append(found | {"error rate" if costs is None else "risk": risk})
    return ScoreIntervals.of(*both)
