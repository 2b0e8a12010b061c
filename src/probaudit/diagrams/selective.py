"""Risk-coverage curves: the error rate of a classifier that answers only where it is confident
(Geifman & El-Yaniv 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import TopLabel
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..scoring.events import EventTable
from ..scoring.risk_coverage import RiskCoverage, RiskCoverageCurve, risk_coverage_of
from ..text import number, percent
from .before_after import RECALIBRATED, ROLES
from .diagram import HIGH, LOW, Diagram, stacked
from .net_benefit import BANDS, with_others
from .picture import Axis, Band, Line, Mark, Panel, Picture

# rows answered at the start of a curve, as the rate of fewer is noise: at least, at most, a share
LEAST, MOST, SHARE = 10, 30, 0.05


@dataclass(frozen=True, eq=False)
class SelectivePrediction(Diagram):
    """Risk-coverage curves of one or several models of the same rows, by name."""

    percents = ("coverage", "error rate", LOW, HIGH)

    found: Mapping[str, RiskCoverage]

    def columns(self) -> dict[str, np.ndarray]:
        return stacked(
            "model",
            {
                name: {
                    "coverage": one.curve.coverage,
                    "error rate": one.curve.risk,
                    LOW: one.curve.low,
                    HIGH: one.curve.high,
                }
                for name, one in self.found.items()
            },
            named=len(self.found) > 1,
        )

    def picture(self) -> Picture:
        one = len(self.found) == 1
        marks: list[Mark] = []
        for k, (name, found) in enumerate(self.found.items()):
            curve = self._drawn(found)
            role = ROLES.get(name, "observed" if one else f"series {k}")
            if one:
                rate = float(found.error_rate)
                best = np.maximum(0.0, 1 - (1 - rate) / curve.coverage)
                order: dict[str, Any] = {"role": "reference", "name": "perfect order"}
                marks.append(Line(curve.coverage, best, dashed=True, **order))
            if len(self.found) <= BANDS:
                ends = curve.coverage, curve.low, curve.high
                marks.append(Band(*ends, role=role, name="95% interval"))
            detail = {"coverage": curve.coverage, "error rate": curve.risk}
            marks.append(
                Line(
                    curve.coverage,
                    curve.risk,
                    name == RECALIBRATED,
                    role=role,
                    name=name,
                    detail=detail,
                )
            )
        top = max(
            float(curve.high.max() if len(self.found) <= BANDS else curve.risk.max())
            for curve in map(self._drawn, self.found.values())
        )
        across = Axis("share of rows answered", 0.0, 1.0, percent=True)
        up = Axis("error rate", 0.0, min(1.0, 1.05 * top) or 1.0, percent=True)
        areas = ", ".join(
            f"{'' if one else f'{name} '}{number(found.aurc, 3)}"
            for name, found in self.found.items()
        )
        caption = (
            "The lower the curve, the better the confidence separates right from wrong answers. "
            f"Area under it (AURC): {areas}"
        )
        title = "Error rate if only confident rows are answered"
        panel = Panel(tuple(marks), across, up)
        return Picture((panel,), title, self._description(), f"{caption}.")

    @staticmethod
    def _drawn(found: RiskCoverage) -> RiskCoverageCurve:
        """The part of the curve at which enough rows are answered, as far as there is one."""
        answered = found.curve.coverage * found.n
        start = min(max(LEAST, SHARE * found.n), MOST, found.n)
        kept = answered >= start
        return RiskCoverageCurve(*(values[kept] for values in found.curve))

    def _description(self) -> str:
        parts = []
        for name, found in self.found.items():
            half = 1 - found.accuracy_at(0.5)
            parts.append(
                f"{name}: error rate {percent(found.error_rate)} of all rows, "
                f"{percent(half)} of the more confident half"
            )
        return f"Error rate against coverage. {'; '.join(parts)}."


@takes_row_options
def risk_coverage_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    others: Mapping[str, Any] | None = None,
    **options: Unpack[RowOptions],
) -> SelectivePrediction:
    """The error rate of the most confident rows, for each share of rows answered; see
    `risk_coverage`.

    others : outputs of other models for the same rows, by name.

    >>> diagram = risk_coverage_diagram([1, 0, 1, 1], [0.9, 0.4, 0.3, 0.8])
    >>> float(diagram.columns()["error rate"][-1])
    0.25
    """
    rows = rows_of(y_true, y_proba, **options)
    models = with_others("model", rows, others)
    return SelectivePrediction(
        {name: risk_coverage_of(EventTable.of(one, TopLabel())) for name, one in models.items()}
    )
