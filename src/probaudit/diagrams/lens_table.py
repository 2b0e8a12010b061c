"""Calibration errors of several models under several lenses (Kirchenbauer et al. 2022, Sections 5.1
and 5.2): a table, and a dot plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimate import Estimate
from ..text import number
from .diagram import HIGH, LOW, Diagram
from .picture import MARGIN, Axis, Mark, Panel, Picture, Points, Text

GROUP = 0.8  # the width of the bars of a category
COLUMNS = 2  # of panels
DEFINITION = "definition"
WORDS = {
    "top label": "most probable class",
    "classwise": "each class, on average",
    "full": "all classes together",
}


def lens_words(lens: str) -> str:
    """The name of a lens as the title of a panel.

    >>> lens_words("top label"), lens_words("top 3"), lens_words("class yes")
    ('most probable class', 'true class among the 3 most probable', 'class yes')
    """
    kind, _, count = lens.partition(" ")
    if kind == "top" and count.isdigit():
        return f"true class among the {count} most probable"
    return WORDS.get(lens, lens)


def grouped(categories: int, series: int) -> Iterator[tuple[np.ndarray, float]]:
    """The places of the bars of each series beside those of the others, and their thickness.

    >>> [(place.tolist(), width) for place, width in grouped(2, 2)]
    [([-0.2, 0.8], 0.4), ([0.2, 1.2], 0.4)]
    """
    width = GROUP / series
    for s in range(series):
        yield np.arange(categories) + (s - (series - 1) / 2) * width, width


@dataclass(frozen=True, eq=False, repr=False)
class LensTable(Diagram):
    """Calibration errors by lens and model, each with a 95% interval for the error of the
    population. `table["top 2"]["model"]` is an estimate.

    estimates : by lens and model. definition : the partition and the distance.
    """

    in_files = (DEFINITION,)

    estimates: Mapping[str, Mapping[str, Estimate]]
    definition: str

    @property
    def lenses(self) -> tuple[str, ...]:
        return tuple(self.estimates)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(next(iter(self.estimates.values())))

    def __getitem__(self, lens: str) -> Mapping[str, Estimate]:
        if lens not in self.estimates:
            raise KeyError(f"{lens!r}; the lenses are {', '.join(self.lenses)}")
        return self.estimates[lens]

    def __repr__(self) -> str:
        rows = [("", *self.models)]
        rows += [(lens, *(_cell(x) for x in found.values())) for lens, found in self._items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, f"calibration errors, {self.definition}; 95% intervals"])

    def _items(self) -> list[tuple[str, Mapping[str, Estimate]]]:
        return list(self.estimates.items())

    def _values(self, model: str, name: str) -> np.ndarray:
        return np.array([getattr(found[model], name) for found in self.estimates.values()])

    def columns(self) -> dict[str, np.ndarray]:
        names = {"calibration error": "value", LOW: "low", HIGH: "high"}
        names |= {"debiased": "debiased", "rows": "n"}
        columns = {
            "lens": np.tile(np.array(self.lenses, object), len(self.models)),
            "model": np.repeat(np.array(self.models, object), len(self.lenses)),
        }
        columns |= {
            title: np.concatenate([self._values(model, name) for model in self.models])
            for title, name in names.items()
        }
        return columns | {DEFINITION: np.full(len(columns["lens"]), self.definition, object)}

    def picture(self) -> Picture:
        panels = tuple(self._panel(lens) for lens in self.lenses)
        caption = "Lines are 95% intervals of the error of the population. "
        caption += "Their bins follow the outputs, so they differ a little from the ECE."
        title = "Calibration error by event"
        columns = min(COLUMNS, len(panels))
        return Picture(panels, title, self._description(), caption, columns)

    def _panel(self, lens: str) -> Panel:
        """The error of each model under a lens, on a scale of its own."""
        marks: list[Mark] = []
        most = 0.0
        for k, (model, found) in enumerate(self.estimates[lens].items()):
            bar = found.error_bar
            value, low, high = (np.array([end]) for end in bar)
            detail = {"model": [model], "error": value, "from": [found.low], "to": [found.high]}
            style: dict[str, Any] = {"role": f"series {k}", "detail": detail}
            marks.append(Points(value, np.array([float(k)]), low, high, across=True, **style))
            marks.append(Text(None, float(k), number(bar[0], 3)))
            most = max([most, *(float(end) for end in bar if np.isfinite(end))])
        across = Axis("", 0.0, (1 + MARGIN) * most or 1.0)
        return Panel(tuple(marks), across, Axis("", categories=self.models), lens_words(lens))

    def _description(self) -> str:
        words = [
            f"{lens}: " + ", ".join(f"{model} {number(x, 3)}" for model, x in found.items())
            for lens, found in self._items()
        ]
        return f"Calibration errors by lens and model, {self.definition}. {'; '.join(words)}."


def _cell(x: Estimate) -> str:
    if np.isnan(x.low):
        return number(x)
    return f"{number(x)} ({number(x.low)} to {number(x.high)})"
