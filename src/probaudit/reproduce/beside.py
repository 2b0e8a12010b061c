"""Printed numbers beside ours, as a diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..diagrams.diagram import Diagram
from ..diagrams.picture import Axis, Mark, Panel, Picture, Points
from ..text import number
from .outcome import Row

SPREAD = 0.5  # of the series of a category, in units of the distance between categories


@dataclass(frozen=True, eq=False)
class PrintedBesideOurs(Diagram):
    """Two panels with the same axes: the numbers that the paper prints, and ours with their 95%
    intervals.

    x : the title of the axis of numbers. place, series : of each row.
    """

    x: str
    rows: tuple[Row, ...]
    places: tuple[str, ...]
    series: tuple[str, ...]

    @classmethod
    def of(
        cls, rows: Sequence[Row], form: Literal["", "columns", "series"]
    ) -> dict[tuple[str], PrintedBesideOurs]:
        """The diagrams of a table by name, as in `papers.Part`."""
        columns = dict.fromkeys(row.column for row in rows if np.isfinite(row.printed))
        if not columns or not form:
            return {}
        if form == "series":
            kept = tuple(row for row in rows if row.column in columns)
            places, series = tuple(r.column for r in kept), tuple(r.row for r in kept)
            return {("all",): cls("value", kept, places, series)}
        found = {}
        for column in columns:
            kept = tuple(row for row in rows if row.column == column)
            names = [row.row.rpartition(", ") for row in kept]
            places = tuple(place or series for place, _, series in names)
            series = tuple(series if place else "" for place, _, series in names)
            found[(column,)] = cls(column, kept, places, series)
        return found

    def columns(self) -> dict[str, np.ndarray]:
        names = ("printed", "ours", "low", "high")
        labels = {"row": [row.row for row in self.rows], "column": [r.column for r in self.rows]}
        return {name: np.array(values, object) for name, values in labels.items()} | {
            name: np.array([getattr(row, name) for row in self.rows], float) for name in names
        }

    def picture(self) -> Picture:
        values = self.columns()
        shown = np.concatenate([values[name] for name in ("printed", "ours", "low", "high")])
        shown = shown[np.isfinite(shown)]
        low, high = min(0.0, float(shown.min())), max(0.0, float(shown.max()))
        margin = 0.04 * (high - low or 1.0)
        axis = Axis(self.x, low - margin * (low < 0), high + margin)
        panels = tuple(self._panel(title, values, axis) for title in ("printed", "ours"))
        worst = max(
            (abs(row.difference) for row in self.rows if np.isfinite(row.difference)), default=0.0
        )
        caption = f"Largest difference: {number(worst)}."
        if np.isfinite(values["low"]).any():
            caption += " Bars: 95% intervals."
        listed = "; ".join(
            f"{row.row}, {row.column}: {number(row.printed, 3)} and {number(row.ours, 3)}"
            for row in self.rows
        )
        title = "Printed and computed here" + (f": {self.x}" if self.x != "value" else "")
        return Picture(panels, title, f"{title}. {listed}.", caption, columns=2)

    def _panel(self, title: str, values: dict[str, np.ndarray], axis: Axis) -> Panel:
        names, series = tuple(dict.fromkeys(self.places)), tuple(dict.fromkeys(self.series))
        ours = title == "ours"
        marks: list[Mark] = []
        for k, one in enumerate(series):
            at = np.array([s == one for s in self.series]) & np.isfinite(values[title])
            place = np.array([float(names.index(name)) for name in self.places])[at]
            place += SPREAD * ((k + 0.5) / len(series) - 0.5)
            value = values[title][at]
            ends = {
                side: np.where(np.isfinite(values[side][at]), values[side][at], value)
                for side in ("low", "high")
                if ours
            }
            role = f"series {k}" if one else "observed" if ours else "rest"
            detail = {"row": values["row"][at], "column": values["column"][at], title: value}
            marks.append(
                Points(value, place, **ends, across=True, role=role, name=one, detail=detail)
            )
        return Panel(tuple(marks), axis, Axis("", categories=names), title=title)
