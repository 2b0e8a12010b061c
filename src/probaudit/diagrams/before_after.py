"""The reliability of an event before and after calibration, in one panel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..choices.partitions import EqualWidth
from ..text import whole_percent
from .diagram import Diagram
from .picture import Axis, Line, Mark, Panel, Picture, Points, Rule, Text

BINS = 10
FEW = 10  # rows: bins with fewer are left out if others have more
LEAST_SHARE = 0.02  # of the rows, for a bin to be named
ORIGINAL, RECALIBRATED = "original", "recalibrated"
ROLES = {ORIGINAL: "over", RECALIBRATED: "observed"}


@dataclass(frozen=True, eq=False)
class BeforeAfter(Diagram):
    """Bins of equal width of the original outputs and, if there are any, of the recalibrated ones:
    rows, mean prediction and observed rate of each bin. `places` are the numbers of the bins."""

    percents = ("predicted", "observed")

    series: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    places: dict[str, np.ndarray]
    event: str
    left_out: int = 0

    @classmethod
    def of_grids(cls, before: FineGrid, after: FineGrid | None, *, event: str) -> BeforeAfter:
        grids = {ORIGINAL: before} | ({} if after is None else {RECALIBRATED: after})
        series, places, left_out = {}, {}, 0
        for name, grid in grids.items():
            cells = grid.cells(EqualWidth(BINS).grid_cells(grid.place, grid.rows[grid.kept]))
            shown = cells.rows >= min(FEW, int(cells.rows.max()))
            left_out += int((~shown).sum())
            series[name] = (cells.rows[shown], cells.outputs[shown], cells.targets[shown])
            places[name] = cells.number[shown]
        return cls(series, places, event, left_out)

    def columns(self) -> dict[str, np.ndarray]:
        names = np.repeat(list(self.series), [len(one[0]) for one in self.series.values()])
        rows, predicted, observed = (
            np.concatenate([one[k] for one in self.series.values()]) for k in range(3)
        )
        return {"outputs": names, "rows": rows, "predicted": predicted, "observed": observed}

    def picture(self) -> Picture:
        largest = max(float(one[0].max()) for one in self.series.values())
        marks: list[Mark] = [Rule(role="reference")]
        for name, (rows, predicted, observed) in self.series.items():
            detail = {"rows": rows, "predicted": predicted, "observed": observed}
            role = ROLES[name] if len(self.series) > 1 else "observed"
            after = name == RECALIBRATED
            # no line across bins that are left out
            gaps = np.flatnonzero(np.diff(self.places[name]) > 1) + 1
            x = np.insert(predicted, gaps, (predicted[gaps - 1] + predicted[gaps]) / 2)
            y = np.insert(observed, gaps, np.nan)
            marks.append(Line(x, y, role=role, dashed=after))
            marks.append(
                Points(
                    predicted,
                    observed,
                    size=rows / largest,
                    role=role,
                    name=name if len(self.series) > 1 else "",
                    detail=detail,
                )
            )
        panel = Panel(
            (*marks, *self._label()),
            Axis(f"predicted probability of {self.event}", 0, 1, percent=True),
            Axis("observed", 0, 1, percent=True),
            square=True,
        )
        left = f" Bins with fewer than {FEW} rows are left out."
        caption = f"{BINS} bins of equal width; larger points have more rows."
        caption += left if self.left_out else ""
        return Picture((panel,), f"Reliability of {self.event}", self._description(), caption)

    def _label(self) -> list[Mark]:
        """The bin with the largest gap, of those that are not small, in words."""
        rows, predicted, observed = self.series[ORIGINAL]
        enough = rows >= LEAST_SHARE * rows.sum()
        worst = int(np.argmax(enough * np.abs(predicted - observed)))
        x, y = float(predicted[worst]), float(observed[worst])
        if abs(x - y) < 0.02:
            return []
        text = f"largest gap: says {whole_percent(x)}, happens {whole_percent(y)}"
        # in the corner on the other side of the diagonal
        return [Text(0.02, 0.96, text) if x > y else Text(0.98, 0.04, text, "end")]

    def _description(self) -> str:
        parts = []
        for name, (rows, predicted, observed) in self.series.items():
            gap = float(rows @ np.abs(predicted - observed) / rows.sum())
            parts.append(f"{name}: mean distance from the diagonal {gap:.3f}")
        return f"Reliability diagram of {self.event}. {'; '.join(parts)}."
