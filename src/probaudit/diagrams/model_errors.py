"""Calibration errors of several models side by side, by group or by interval of the output
(Kirchenbauer et al. 2022, Figures 3 and 13, for several interventions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..text import number
from .diagram import SHARE, Diagram, stacked
from .group_errors import GroupErrors
from .interval_wise import IntervalWise
from .lens_table import grouped
from .picture import Axis, Bars, Mark, Panel, Picture, Points

Errors = GroupErrors | IntervalWise


@dataclass(frozen=True, eq=False)
class ErrorsByModel(Diagram):
    """The errors of several models by group (`group_errors_diagram`) or by interval of the output
    (`interval_wise_diagram`). Groups are in the order of the first model.

    each : the diagram of each model, by name.
    """

    percents = (SHARE,)

    each: Mapping[str, Errors]

    @classmethod
    def of_models(
        cls, function: Callable[..., Errors], models: Mapping[str, Any], y_true: Any, **choices: Any
    ) -> ErrorsByModel:
        """From outputs by name. `choices` are arguments of the diagram function.

        >>> from probaudit.diagrams import group_errors_diagram
        >>> from probaudit.simulate import gaussian_posteriors
        >>> world = gaussian_posteriors(1000, 3)
        >>> models = {"original": world.mcs, "calibrated": world.cal}
        >>> found = ErrorsByModel.of_models(group_errors_diagram, models, world.y, resamples=20)
        >>> sorted(found.groups)
        ['0', '1', '2']
        """
        if not isinstance(models, Mapping) or not models:
            raise InputError("models", "must map names to outputs", type(models).__name__)
        return cls({str(name): function(y_true, p, **choices) for name, p in models.items()})

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of any model."""
        return tuple(dict.fromkeys(str(g) for one in self.each.values() for g in one.name))

    def columns(self) -> dict[str, np.ndarray]:
        return stacked("model", {name: one.columns() for name, one in self.each.items()})

    def picture(self) -> Picture:
        groups, marks = self.groups, []
        place = {group: k for k, group in enumerate(groups)}
        for s, (model, (at, width)) in enumerate(
            zip(self.each, grouped(len(groups), len(self.each)), strict=True)
        ):
            marks += self._marks(
                model, at[[place[str(g)] for g in self.each[model].name]], width, s
            )
        axis = Axis("calibration error", 0.0)
        share = min(1.6, 0.25 + 0.035 * len(groups) * (1 + len(self.each)))
        panel = Panel(tuple(marks), axis, Axis("", categories=groups), share=share)
        caption = "Errors with 95% intervals; grey bars show the 95% limit if calibrated."
        first = next(iter(self.each.values()))
        by = f"by {first.by}" if isinstance(first, GroupErrors) else "by confidence range"
        return Picture((panel,), f"Calibration errors {by}", self._description(), caption)

    def _marks(self, model: str, at: np.ndarray, width: float, s: int) -> list[Mark]:
        one = self.each[model]
        detail = {
            "model": [model] * len(one.name),
            "group": one.name,
            "error": one.error,
            "95% limit if calibrated": one.null_high,
        }
        ends = np.zeros(len(at)), one.error
        style: dict[str, Any] = {"role": f"series {s}", "name": model, "detail": detail}
        limit: dict[str, Any] = {"role": "null", "name": "95% limit if calibrated"}
        return [
            Bars.lying(at, *ends, thickness=0.8 * width, **style),
            Bars.lying(
                at, ends[0], one.null_high, thickness=width, faint=True, detail=detail, **limit
            ),
            Points(one.error, at, one.low, one.high, across=True, role="reference"),
        ]

    def _description(self) -> str:
        words = []
        for model, one in self.each.items():
            errors = ", ".join(
                f"{group} {number(error, 3)}"
                for group, error in zip(one.name, one.error, strict=True)
            )
            words.append(f"{model}: {errors}")
        return f"Calibration errors of {len(self.each)} models. {'; '.join(words)}."
