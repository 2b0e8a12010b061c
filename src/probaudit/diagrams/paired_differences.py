"""The forest plot: differences of models from a reference, with paired intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..estimate import Estimate
from ..text import number
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Mark, Panel, Picture, Points, Rule, Text

STACKED = 12  # models; the panels of more models are in two columns
MARGIN = 0.08  # on each side of the intervals, as a share of their range


@dataclass(frozen=True, eq=False)
class PairedDifferences(Diagram):
    """Differences of models from a reference by metric, each with a paired 95% interval.

    metric, model : of each difference. value, low, high : the model minus the reference.
    verdict : "better" or "worse" if the interval lies on one side of 0, else "tied"; "different"
        for a metric of which neither direction is better.
    lower : by metric, whether lower values are better; None if neither direction is.
    order : all models in the order of their colours, as in a diagram of all of them.
    """

    metric: tuple[str, ...]
    model: tuple[str, ...]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reference: str
    lower: Mapping[str, bool | None]
    order: tuple[str, ...]

    @classmethod
    def of(
        cls,
        differences: Mapping[str, Mapping[str, Estimate]],
        reference: str,
        *,
        lower: Mapping[str, bool | None] | None = None,
        order: Sequence[str] = (),
    ) -> PairedDifferences:
        """From differences by metric and model. Lower values are better unless `lower` says
        otherwise. The reference has the first colour unless `order` is given.

        >>> gap = Estimate(-0.02, low=-0.03, high=-0.01)
        >>> PairedDifferences.of({"log loss": {"new": gap}}, "old").verdict
        ('better',)
        """
        lines = [(k, m, x) for k, each in differences.items() for m, x in each.items()]
        if not lines:
            raise InputError("differences", "must have at least one")
        value, low, high = np.array([(float(x), x.low, x.high) for *_, x in lines]).T
        known: dict[str, bool | None] = dict.fromkeys(differences, True)
        return cls(
            metric=tuple(k for k, *_ in lines),
            model=tuple(m for _, m, _ in lines),
            value=value,
            low=low,
            high=high,
            reference=reference,
            lower=known | dict(lower or {}),
            order=tuple(order) or tuple(dict.fromkeys([reference, *(m for _, m, _ in lines)])),
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.metric))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.model))

    @property
    def verdict(self) -> tuple[str, ...]:
        return tuple(
            _verdict(*row, lower=self.lower[metric])
            for metric, *row in zip(self.metric, self.value, self.low, self.high, strict=True)
        )

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "metric": np.array(self.metric, object),
            "model": np.array(self.model, object),
            f"difference from {self.reference}": self.value,
            LOW: self.low,
            HIGH: self.high,
            "verdict": np.array(self.verdict, object),
        }

    def picture(self) -> Picture:
        columns = 1 if len(self.models) <= STACKED else 2
        panels = tuple(self._panel(metric) for metric in self.metrics)
        caption = f"Each model minus {self.reference} on the same rows, with paired 95% intervals."
        if "tied" in self.verdict:
            caption += " A hollow point is a tie: its interval contains 0."
        title = f"Differences from {self.reference}"
        return Picture(panels, title, self._description(), caption, min(columns, len(panels)))

    def _panel(self, metric: str) -> Panel:
        of = np.flatnonzero(np.array(self.metric, object) == metric)
        places = {model: float(k) for k, model in enumerate(self.models)}
        at = np.array([places[self.model[k]] for k in of])
        value, low, high = self.value[of], self.low[of], self.high[of]
        low, high = (np.where(np.isfinite(end), end, value) for end in (low, high))
        verdict = np.array([self.verdict[k] for k in of], object)
        left, right = _range(np.concatenate([value, low, high]))
        marks: list[Mark] = [Rule(x=0.0, role="reference")]
        for k in np.flatnonzero(np.isfinite(value)).tolist():
            chosen, model = slice(k, k + 1), self.model[of[k]]
            detail: dict[str, Any] = {
                "model": np.array(self.model, object)[of][chosen],
                "difference": [number(x) for x in value[chosen]],
                "95% interval": [
                    f"{number(a)} to {number(b)}"
                    for a, b in zip(self.low[of][chosen], self.high[of][chosen], strict=True)
                ],
            }
            marks.append(
                Points(
                    value[chosen],
                    at[chosen],
                    low[chosen],
                    high[chosen],
                    across=True,
                    role=f"series {self.order.index(model)}",
                    hollow=bool(verdict[k] == "tied"),
                    detail=detail,
                )
            )
        marks += [
            Text(None, place, f"{'infinite' if math.isinf(x) else number(x)}, {found}")
            for x, place, found in zip(value, at, verdict, strict=True)
            if not math.isnan(x)
        ]
        way = {True: "lower is better", False: "higher is better", None: ""}[self.lower[metric]]
        title = f"{metric} ({way})" if way else metric
        return Panel(tuple(marks), Axis("", left, right), Axis("", categories=self.models), title)

    def _description(self) -> str:
        words = []
        for metric in self.metrics:
            each = [
                f"{self.model[k]} {number(self.value[k])} ({number(self.low[k])} to "
                f"{number(self.high[k])}, {self.verdict[k]})"
                for k in range(len(self.metric))
                if self.metric[k] == metric
            ]
            words.append(f"{metric}: {', '.join(each)}")
        head = f"Forest plot of differences from {self.reference} with paired 95% intervals."
        return f"{head} {'; '.join(words)}."


def _verdict(value: float, low: float, high: float, *, lower: bool | None) -> str:
    below, above = (value < 0, value > 0) if math.isinf(value) else (high < 0, low > 0)
    if not below and not above:
        return "tied"
    return "different" if lower is None else "better" if below == lower else "worse"


def _range(values: np.ndarray) -> tuple[float, float]:
    """The ends of an axis that shows 0 and all finite values."""
    shown = np.append(values[np.isfinite(values)], 0.0)
    low, high = float(shown.min()), float(shown.max())
    span = high - low or 1.0
    return low - MARGIN * span, high + MARGIN * span
