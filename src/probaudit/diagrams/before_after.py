"""The reliability of an event before and after calibration, in one panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..choices.partitions import EqualWidth
from ..scoring.intervals import wilson
from ..text import whole_percent
from .bins import FEW, bins_for, few_rows
from .diagram import HIGH, LOW, Diagram, stacked
from .picture import Axis, Line, Mark, Panel, Picture, Points, Rule, Text

BINS = 15  # as in the ECE
LEAST_GAP = 0.05  # of a bin, to be named
ORIGINAL, RECALIBRATED = "original", "recalibrated"
ROLES = {ORIGINAL: "original", RECALIBRATED: "recalibrated"}


class Bins(NamedTuple):
    """Rows, mean prediction and observed rate of each bin, with the 95% interval of the rate."""

    rows: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def columns(self) -> dict[str, np.ndarray]:
        names = ("rows", "predicted", "observed", LOW, HIGH)
        return dict(zip(names, self, strict=True))


@dataclass(frozen=True, eq=False)
class BeforeAfter(Diagram):
    """Bins of equal width of the original outputs and, if there are any, of the recalibrated ones.
    `places` are the numbers of the bins. `happened` is the verb for the observed rate."""

    percents = ("predicted", "observed", LOW, HIGH)

    series: dict[str, Bins]
    places: dict[str, np.ndarray]
    event: str
    left_out: int = 0
    bins: int = BINS
    few: int = FEW
    happened: str = "right"

    @classmethod
    def of_grids(
        cls, before: FineGrid, after: FineGrid | None, *, event: str, happened: str = "right"
    ) -> BeforeAfter:
        grids = {ORIGINAL: before} | ({} if after is None else {RECALIBRATED: after})
        series, places, left_out = {}, {}, 0
        bins = bins_for(int(before.rows.sum()), BINS)
        for name, grid in grids.items():
            cells = grid.cells(EqualWidth(bins).grid_cells(grid.place, grid.rows[grid.kept]))
            shown = cells.rows >= few_rows(cells.rows)
            left_out += int((~shown).sum())
            low, high = wilson(np.clip(cells.targets, 0, 1), cells.effective)
            fields = (cells.rows, cells.outputs, cells.targets, low, high)
            series[name] = Bins(*(field[shown] for field in fields))
            places[name] = cells.number[shown]
        return cls(series, places, event, left_out, bins, few_rows(before.rows), happened)

    @property
    def curved(self) -> bool:
        """Whether there is more than a single point to draw."""
        return any(len(one.rows) > 1 for one in self.series.values())

    def columns(self) -> dict[str, np.ndarray]:
        return stacked("outputs", {name: one.columns() for name, one in self.series.items()})

    def picture(self) -> Picture:
        largest = max(float(one.rows.max()) for one in self.series.values())
        marks: list[Mark] = [Rule(role="reference")]
        for name, one in self.series.items():
            rows, predicted, observed, low, high = one
            role = ROLES[name]
            after = name == RECALIBRATED
            # no line across a bin that is left out
            breaks = np.flatnonzero(np.diff(self.places[name]) > 1) + 1
            for run in np.split(np.arange(len(rows)), breaks):
                marks.append(Line(predicted[run], observed[run], role=role, dashed=after))
            marks.append(
                Points(
                    predicted,
                    observed,
                    low,
                    high,
                    size=rows / largest,
                    role=role,
                    detail=one.columns(),
                    hollow=after,
                )
            )
        panel = Panel(
            (*marks, *self._labels()),
            Axis("predicted probability", 0, 1, percent=True),
            Axis("observed", 0, 1, percent=True),
            square=True,
        )
        caption = (
            "On the dashed line, predictions are right; below it, too high. "
            f"{self.bins} equal bins with 95% intervals; larger points have more rows"
        )
        caption += f", and bins with fewer than {self.few} are left out" if self.left_out else ""
        caption += f".{self._worst_words()}"
        return Picture((panel,), f"Reliability of {self.event}", self._description(), caption)

    @property
    def _worst(self) -> tuple[float, ...]:
        """The bin of the original outputs that adds most to the calibration error."""
        rows, predicted, observed, *_ = columns = self.series[ORIGINAL]
        worst = int(np.argmax(rows * np.abs(predicted - observed)))
        return tuple(float(column[worst]) for column in columns)

    @property
    def _clear(self) -> bool:
        """Whether the worst bin is off by much, and its interval excludes the diagonal."""
        _, predicted, observed, low, high = self._worst
        return not low <= predicted <= high and abs(predicted - observed) >= LEAST_GAP

    def _worst_words(self) -> str:
        _, predicted, observed, *_ = self._worst
        if not self._clear:
            return ""
        of = f" of the {ORIGINAL} outputs" if len(self.series) > 1 else ""
        return (
            f" At {whole_percent(predicted)} predicted, {whole_percent(observed)} were "
            f"{self.happened}: the largest part of the error{of}."
        )

    def _labels(self) -> list[Text]:
        """The names of two curves, in the corner on the other side of the diagonal than the worst
        bin."""
        if len(self.series) == 1:
            return []
        _, x, y, *_ = self._worst
        texts = {ORIGINAL: f"● {ORIGINAL}", RECALIBRATED: f"○ {RECALIBRATED}"}
        heights = (0.96, 0.89) if x > y else (0.11, 0.04)
        side: dict[str, Any] = {"x": 0.02} if x > y else {"x": 0.98, "anchor": "end"}
        return [
            Text(y=height, text=text, role=role, **side)
            for height, (role, text) in zip(heights, texts.items(), strict=True)
        ]

    def _description(self) -> str:
        parts = []
        for name, (rows, predicted, observed, *_) in self.series.items():
            gap = float(rows @ np.abs(predicted - observed) / rows.sum())
            parts.append(f"{name}: mean distance from the diagonal {gap:.3f}")
        return f"Reliability diagram of {self.event}. {'; '.join(parts)}."
