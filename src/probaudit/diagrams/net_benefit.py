"""Decision curves: the net benefit of acting on a probability, at each threshold (Vickers & Elkin
2006)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import event_lens
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..scoring.decision_curve import DecisionCurve, decision_curve_of
from ..scoring.events import EventTable
from ..text import whole_percent
from .before_after import RECALIBRATED, ROLES
from .diagram import HIGH, LOW, Diagram, stacked
from .picture import MARGIN, Axis, Band, Line, Mark, Panel, Picture
from .reliability import event_name

BANDS = 2  # curves; the intervals of more would hide each other
SHOWN_LOSS = 0.25  # below 0, as a share of the event rate


@dataclass(frozen=True, eq=False)
class DecisionCurves(Diagram):
    """Decision curves of one or several models of the same rows, by name. `event` is in words."""

    percents = ("threshold",)

    curves: Mapping[str, DecisionCurve]
    event: str

    @property
    def first(self) -> DecisionCurve:
        return next(iter(self.curves.values()))

    def columns(self) -> dict[str, np.ndarray]:
        return stacked(
            "model",
            {
                name: {
                    "threshold": curve.thresholds,
                    "net benefit": curve.net_benefit,
                    LOW: curve.low,
                    HIGH: curve.high,
                    "act on all rows": curve.treat_all,
                    "act on none": curve.treat_none,
                }
                for name, curve in self.curves.items()
            },
            named=len(self.curves) > 1,
        )

    def picture(self) -> Picture:
        t, rate = self.first.thresholds, self.first.rate
        marks: list[Mark] = [
            Line(t, self.first.treat_all, dashed=True, role="reference", name="act on all rows"),
            Line(t, np.zeros(len(t)), role="reference", name="act on none"),
        ]
        for k, (name, curve) in enumerate(self.curves.items()):
            role = ROLES.get(name, "observed" if len(self.curves) == 1 else f"series {k}")
            if len(self.curves) <= BANDS:
                marks.append(Band(t, curve.low, curve.high, role=role, name="95% interval"))
            detail = {"threshold": t, "net benefit": curve.net_benefit}
            marks.append(
                Line(
                    t,
                    curve.net_benefit,
                    name == RECALIBRATED,
                    role=role,
                    name=name,
                    detail=detail,
                )
            )
        right = min(1.0, (1 + MARGIN) * float(t.max()))
        across = Axis("decision threshold", 0.0, right, percent=True)
        top = max(rate, *(float(np.nanmax(mark.values("y"))) for mark in marks))
        up = Axis("net benefit", -SHOWN_LOSS * rate, (1 + MARGIN) * top)
        caption = (
            "Net benefit is the events acted on per row, less the false alarms, weighted by the "
            "odds of the threshold. The probabilities are useful if their curve is above both grey "
            "lines."
        )
        title = "Net benefit of acting on the probability"
        return Picture((Panel(tuple(marks), across, up),), title, self._description(), caption)

    def _description(self) -> str:
        parts = []
        for name, curve in self.curves.items():
            share = whole_percent(float(np.mean(curve.useful)))
            parts.append(f"{name}: better than acting on all or none at {share} of the thresholds")
        return f"Net benefit against the decision threshold. {'; '.join(parts)}."


@takes_row_options
def decision_curve_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    others: Mapping[str, Any] | None = None,
    thresholds: Any = None,
    **options: Unpack[RowOptions],
) -> DecisionCurves:
    """The net benefit of acting on the probability of an event, at each threshold; see
    `decision_curve`.

    others : outputs of other models for the same rows, by name.

    >>> found = decision_curve_diagram([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], thresholds=[0.2, 0.5])
    >>> found.columns()["net benefit"].round(4)
    array([0.4375, 0.25  ])
    """
    rows = rows_of(y_true, y_proba, **options)
    event = event_name(rows, event_lens(rows))
    models = with_others("model", rows, others)
    curves = {
        name: decision_curve_of(EventTable.of(one), thresholds) for name, one in models.items()
    }
    return DecisionCurves(curves, event)


def with_others(name: str, rows: Any, others: Mapping[str, Any] | None) -> dict[str, Any]:
    """The rows under a name, and those of other models with the same labels."""
    if name in (others or {}):
        raise InputError("others", "must not use the name of another curve", repr(name))
    return {name: rows} | {
        other: replace(rows, probs=outputs) for other, outputs in (others or {}).items()
    }
