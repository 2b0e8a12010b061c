"""The grouping diagram: a calibration curve, and regions with the same prediction but different
outcomes (Perez-Lebel et al. 2023, Figure 5)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..errors import InputError
from ..grouping.loss import GroupingLoss, GroupingRates
from ..grouping.loss import grouping_rates as find_rates
from ..text import whole_percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Bars, Line, Mark, Panel, Picture, Points, Rule

HIDDEN_GROUPS = "Hidden groups (same prediction, different outcomes)"
THIN = 10  # rows; bins and regions with fewer are not drawn
MOST_INTERVALS = 60  # regions; with more, intervals would overlap


@dataclass(frozen=True, eq=False)
class GroupingDiagram(GroupingRates, Diagram):
    """`GroupingRates` that can be drawn. The further apart the rates of the regions of a bin, the
    greater the grouping loss. Regions whose rates do not differ significantly from that of their
    bin are grey."""

    percents = ("predicted in the bin", "observed in the bin", "predicted", "observed", LOW, HIGH)
    in_files = ("bin", "rows of the bin", "predicted in the bin", "observed in the bin")

    @classmethod
    def of_grouping(cls, found: GroupingLoss) -> GroupingDiagram:
        """From a grouping loss of a single event."""
        if found.diagram is None:
            raise InputError(
                "lens", "must have a single event", way_out=("use a lens such as TopLabel()",)
            )
        return cls(
            **{field.name: getattr(found.diagram, field.name) for field in fields(GroupingDiagram)}
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Regions, each with its bin; those that differ from their bin first."""
        columns = self._columns()
        order = np.argsort(~self.region_differs, kind="stable")
        return {name: column[order] for name, column in columns.items()}

    def _columns(self) -> dict[str, np.ndarray]:
        return {
            "region": self.region_rule,
            "bin": self.region_bin + 1,
            "rows": self.region_rows,
            "predicted": self.region_stated,
            "observed": self.region_observed,
            LOW: self.region_low,
            HIGH: self.region_high,
            "differs from its bin": self.region_differs,
            "rows of the bin": self.rows[self.region_bin],
            "predicted in the bin": self.stated[self.region_bin],
            "observed in the bin": self.observed[self.region_bin],
        }

    def picture(self) -> Picture:
        thick = _thick(self.rows)
        stated, observed, rows = self.stated[thick], self.observed[thick], self.rows[thick]
        gap = float(np.diff(stated).min()) if len(stated) > 1 else 1.0
        half, share = min(0.04, 0.45 * gap), rows / self.rows.sum()
        detail = {"predicted": stated, "observed": observed, "rows": rows}
        histogram = Bars(
            stated - half, stated + half, 0 * share, share, role="density", detail=detail
        )
        curve = Line(stated, observed, role="observed", name="bins", detail=detail)
        bins = Points(stated, observed, role="observed", detail=detail)
        x = Axis("predicted probability", 0.0, 1.0, percent=True)
        above = Panel(
            (Rule(role="reference"), *self._region_marks(), curve, bins),
            x,
            Axis("observed rate", 0.0, 1.0, percent=True),
            square=True,
        )
        y = Axis("rows", 0.0, percent=True)
        below = Panel((histogram,), x, y, share=0.22, histogram=True)
        return Picture(
            (above, below),
            HIDDEN_GROUPS,
            self._description(),
            self._caption(),
        )

    @property
    def _with_intervals(self) -> bool:
        return len(self.region_bin) <= MOST_INTERVALS

    def _caption(self) -> str:
        parts = ["Each point is a region of rows with similar predictions: the further apart the "]
        parts[0] += "regions of one bin are, the more loss hidden groups cause."
        if self._with_intervals:
            parts.append("Vertical lines are 95% intervals (Clopper & Pearson 1934).")
        left_out = [
            (int((~_thick(rows)).sum()), what)
            for rows, what in ((self.rows, "bin"), (self.region_rows, "region"))
        ]
        if any(count for count, _ in left_out):
            words = " and ".join(
                f"{count:,} {what}{'s' * (count > 1)}" for count, what in left_out if count
            )
            parts.append(f"Not drawn: {words} of fewer than {THIN} rows.")
        if self.region_rows.max() < THIN:
            parts.append(f"Every region has fewer than {THIN} rows: the rates are imprecise.")
        return " ".join(parts)

    def _region_marks(self) -> list[Mark]:
        """Regions with a rate significantly above or below that of their bin, in front of those
        without a significant difference."""
        higher, differs = self.region_observed > self.observed[self.region_bin], self.region_differs
        kinds = [
            ("null", "region like its bin", ~differs),
            ("under", "region above its bin", differs & higher),
            ("over", "region below its bin", differs & ~higher),
        ]
        marks: list[Mark] = []
        for role, name, kind in kinds:
            those = kind & _thick(self.region_rows)
            if those.any():
                shown = {key: column[those] for key, column in self._columns().items()}
                low, high = (shown[LOW], shown[HIGH]) if self._with_intervals else (None, None)
                detail = {key: shown[key] for key in ("region", "predicted", "observed", "rows")}
                area = shown["rows"] / self.region_rows.max()
                place = (shown["predicted"], shown["observed"], low, high, area)
                marks.append(Points(*place, role=role, name=name, detail=detail))
        return marks

    def _description(self) -> str:
        apart = int(self.region_differs.sum())
        spread = max(
            np.ptp(self.region_observed[self.region_bin == b]) for b in np.unique(self.region_bin)
        )
        return (
            f"Grouping diagram of {len(self.stated)} bins and {len(self.region_bin)} regions."
            f" The rate of {apart} regions differs significantly from that of their bin."
            f" Within a bin, rates differ by up to {whole_percent(spread)}."
        )


def _thick(rows: np.ndarray) -> np.ndarray:
    """Which bins or regions have enough rows to be drawn; all if none has."""
    enough = rows >= THIN
    return enough if enough.any() else np.ones(len(rows), bool)


def grouping_diagram(
    y_true: Any, y_proba: Any = None, features: Any = None, **choices: Any
) -> GroupingDiagram:
    """The calibration curve and two regions of each of ten bins, learned from one half of the rows
    and evaluated on the other (Perez-Lebel et al. 2023, Figure 5). Arguments as in
    `probaudit.grouping_rates`.

    >>> from probaudit.choices.lenses import Binary
    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(4000)
    >>> grouping_diagram(world.y, world.scores, world.features, lens=Binary()).region_differs.any()
    np.True_
    """
    found = find_rates(y_true, y_proba, features, **choices)
    return GroupingDiagram(
        **{field.name: getattr(found, field.name) for field in fields(GroupingDiagram)}
    )
