"""The figures of Perez-Lebel et al. 2023: curves of bounds (Figure 4), worlds (Figures 9 to 12),
losses of networks (Figures 7, 13 and 14), and grouping diagrams side by side (Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..diagrams.diagram import HIGH, LOW, Diagram, stacked
from ..diagrams.grouping import GroupingDiagram
from ..diagrams.picture import Axis, Band, Line, Mark, Panel, Picture, Points, Rule
from ..text import number

SPREAD = 0.6  # of the series of a category, in units of the distance between categories


@dataclass(frozen=True, eq=False)
class BoundCurves(Diagram):
    """Parts of the grouping loss against a setting, one panel for each setting.

    x : the values of each setting by its name.
    parts : by the same name and the name of the part, mean and standard deviation [2, values].
    truth : the grouping loss of the population.
    """

    x: Mapping[str, np.ndarray]
    parts: Mapping[str, Mapping[str, np.ndarray]]
    truth: float
    trials: int

    def columns(self) -> dict[str, np.ndarray]:
        return stacked(
            "setting",
            {
                name: {"value": x * 1.0}
                | {part: values[0] for part, values in self.parts[name].items()}
                | {f"{part}, sd": values[1] for part, values in self.parts[name].items()}
                for name, x in self.x.items()
            },
        )

    def picture(self) -> Picture:
        top = 2 * self.truth  # as in the paper
        panels = []
        for k, (name, x) in enumerate(self.x.items()):
            marks: list[Mark] = []
            for role, (part, (mean, sd)) in enumerate(self.parts[name].items()):
                marks.append(Band(x * 1.0, mean - sd, mean + sd, role=f"series {role}"))
                detail = {name: x, part: mean, "standard deviation": sd}
                line = Line(x * 1.0, mean, role=f"series {role}", name=part, detail=detail)
                marks.append(line)
            ends = np.array([x.min(), x.max()]) * 1.0
            truth = np.full(2, self.truth)
            marks.append(Line(ends, truth, dashed=True, role="reference", name="true loss"))
            y = Axis("" if k else "grouping loss", 0.0, top)
            panels.append(Panel(tuple(marks), Axis(name, *ends.tolist()), y))
        caption = f"Means over {self.trials} samples, with bands of one standard deviation."
        listed = "; ".join(
            f"at {name} {x[-1]:g}, {part} {number(values[0][-1])}"
            for name, x in self.x.items()
            for part, values in self.parts[name].items()
        )
        description = (
            f"Parts of the grouping loss; the true loss is {number(self.truth)}. {listed}."
        )
        return Picture(tuple(panels), "As Figure 4", description, caption, columns=2)


@dataclass(frozen=True, eq=False)
class WorldDiagram(Diagram):
    """Worlds by name, each with two panels: scores and true probabilities (or their difference)
    against a feature; and true probabilities against scores, with the calibration curve.

    feature, score, truth : of some rows. curve : mean score and observed rate of each bin, [2, m].
    axis : the title of the axis of features.
    gap : whether to draw the difference, for a feature that scores do not depend on.
    """

    feature: Mapping[str, np.ndarray]
    score: Mapping[str, np.ndarray]
    truth: Mapping[str, np.ndarray]
    curve: Mapping[str, np.ndarray]
    axis: str
    title: str
    gap: bool = False

    def columns(self) -> dict[str, np.ndarray]:
        each = {
            name: {
                self.axis: self.feature[name],
                "score": self.score[name],
                "true probability": self.truth[name],
            }
            for name in self.score
        }
        return stacked("world", each)

    def picture(self) -> Picture:
        panels = []
        for name, score in self.score.items():
            x, truth, (stated, observed) = self.feature[name], self.truth[name], self.curve[name]
            detail = {self.axis: x, "score": score, "true probability": truth}
            if self.gap:
                against: tuple[Mark, ...] = (
                    Points(x, truth - score, role="grouping", detail=detail),
                )
                y = Axis("true probability − score", -0.55, 0.55)
            else:
                against = (
                    Points(x, truth, role="grouping", name="true probability", detail=detail),
                    Points(x, score, role="model", name="score", detail=detail),
                )
                y = Axis("probability", 0.0, 1.0)
            panels.append(Panel(against, Axis(self.axis), y, title=name))
            points = Points(score, truth, role="grouping", name="true probability", detail=detail)
            rates = {"score": stated, "observed": observed}
            curve = Line(stated, observed, role="observed", name="calibration curve", detail=rates)
            right = Axis("score", 0.0, 1.0)
            marks = (Rule(role="reference"), points, curve)
            panels.append(Panel(marks, right, Axis("true probability", 0.0, 1.0)))
        rows = len(next(iter(self.score.values())))
        caption = f"Points: {rows} rows. The calibration curve is that of all rows."
        return Picture(tuple(panels), self.title, f"{self.title}. {caption}", caption, columns=2)


@dataclass(frozen=True, eq=False)
class Losses(Diagram):
    """Numbers with 95% intervals in panels. Each row of a panel is a place with several series.

    panel, place, series : names, one for each number.
    """

    panel: Sequence[str]
    place: Sequence[str]
    series: Sequence[str]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    x: str
    title: str
    caption: str = ""

    def columns(self) -> dict[str, np.ndarray]:
        names = {"panel": self.panel, "place": self.place, "series": self.series}
        named = {name: np.array(values, object) for name, values in names.items()}
        return named | {self.x: self.value, LOW: self.low, HIGH: self.high}

    def picture(self) -> Picture:
        columns = self.columns()
        panels, places, series = (
            tuple(dict.fromkeys(names)) for names in (self.panel, self.place, self.series)
        )
        low, high = min(0.0, float(self.low.min())), max(0.0, float(self.high.max()))
        margin = 0.04 * (high - low)
        axis = Axis(self.x, low - margin * (low < 0), high + margin)
        drawn = []
        for panel in panels:
            marks: list[Mark] = [Rule(x=0.0, role="reference")] if low < 0 else []
            for k, one in enumerate(series):
                at = (columns["panel"] == panel) & (columns["series"] == one)
                y = np.array([float(places.index(name)) for name in columns["place"][at]])
                y += SPREAD * ((k + 0.5) / len(series) - 0.5)
                detail = {name: columns[name][at] for name in ("place", "series", self.x)}
                marks.append(
                    Points(
                        *(self.value[at], y, self.low[at], self.high[at]),
                        across=True,
                        role=f"series {k}",
                        name=one,
                        detail=detail,
                    )
                )
            title = panel if len(panels) > 1 else ""
            drawn.append(Panel(tuple(marks), axis, Axis("", categories=places), title=title))
        shown = zip(self.panel, self.place, self.series, self.value, strict=True)
        listed = "; ".join(f"{' '.join(filter(None, names))} {number(v)}" for *names, v in shown)
        caption = f"{self.caption} Bars: 95% intervals.".strip()
        return Picture(
            tuple(drawn), self.title, f"{self.title}. {listed}.", caption, columns=len(drawn)
        )


@dataclass(frozen=True, eq=False)
class GroupingDiagrams(Diagram):
    """Grouping diagrams by name, side by side."""

    each: Mapping[str, GroupingDiagram]
    title: str

    def columns(self) -> dict[str, np.ndarray]:
        return stacked("diagram", {name: one.columns() for name, one in self.each.items()})

    def picture(self) -> Picture:
        panels, words = [], []
        for k, (name, one) in enumerate(self.each.items()):
            drawn = one.picture()
            left = k % 2 == 0
            last = k + 2 >= len(self.each)
            curves = drawn.panels[0]
            x = replace(curves.x, title="confidence" if last else "")
            y = replace(curves.y, title="correct" if left else "")
            panels.append(replace(curves, x=x, y=y, title=name))
            words.append(f"{name}: {drawn.description}")
        caption = "The further apart the regions of a bin, the greater the grouping loss;"
        caption += " vertical lines are 95% intervals."
        return Picture(tuple(panels), self.title, " ".join(words), caption, columns=2)
