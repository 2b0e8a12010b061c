"""Curves of several folds as one: their mean, in a band of one standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError
from .diagram import Diagram
from .picture import Band, Line, Mark, Panel, Picture, Points, Rule

POINTS = 201


@dataclass(frozen=True, eq=False)
class FoldCurves(Diagram):
    """The curve of a diagram in several folds, interpolated at common places `x`.

    y : [folds, places], NaN outside the range of a fold. mean, deviation : over folds, where all
        of them have a value; `deviation` is the standard deviation.
    first : the picture of the first fold, for titles and axes. top : the highest axis of a fold.
    """

    x: np.ndarray
    y: np.ndarray
    references: tuple[Line, ...]
    first: Picture
    top: float

    @classmethod
    def of_diagrams(cls, diagrams: Sequence[Diagram]) -> FoldCurves:
        """From the diagrams of at least two folds, each of a single curve.

        >>> from probaudit.diagrams import reliability_diagram
        >>> folds = [([0, 1], [0.25, 0.75]), ([0, 1, 1, 0], [0.25, 0.75, 0.75, 0.75])]
        >>> found = FoldCurves.of_diagrams([reliability_diagram(*fold) for fold in folds])
        >>> found.x[[0, -1]], found.mean[[0, -1]].round(3), found.deviation[[0, -1]].round(3)
        (array([0.25, 0.75]), array([0.   , 0.833]), array([0.   , 0.236]))
        """
        if len(diagrams) < 2:
            raise InputError("folds", "must be at least 2", len(diagrams))
        pictures = [diagram.picture().folded(hist=False) for diagram in diagrams]
        curves = [_curve(picture) for picture in pictures]
        ends = np.array([(np.nanmin(x), np.nanmax(x)) for x, _ in curves])
        x = np.linspace(ends[:, 0].min(), ends[:, 1].max(), POINTS)
        if pictures[0].panels[0].x.categories is not None:
            x = np.arange(ends[:, 1].max() + 1)
        lines = [
            [mark for mark in picture.panels[0].marks if isinstance(mark, Line) and not mark.series]
            for picture in pictures
        ]
        references = tuple(
            replace(group[0], x=x, y=_at(x, [(m.x, m.y) for m in group]).mean(axis=0), detail={})
            for group in zip(*lines, strict=True)
        )
        top = max(picture.panels[0].extent("y")[1] for picture in pictures)
        return cls(x, _at(x, curves), references, pictures[0], top)

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.y.mean(axis=0))

    @property
    def deviation(self) -> np.ndarray:
        return np.asarray(self.y.std(axis=0, ddof=1))

    def columns(self) -> dict[str, np.ndarray]:
        panel = self.first.panels[0]
        folds = {f"fold {k + 1}": values for k, values in enumerate(self.y)}
        measures = {f"{panel.y.title}, mean": self.mean, "standard deviation": self.deviation}
        return {panel.x.title or "x": self.x} | measures | folds

    def picture(self) -> Picture:
        panel, mean, deviation = self.first.panels[0], self.mean, self.deviation
        low, high = mean - deviation, mean + deviation
        highest = 1.05 * float(np.nanmax(high, initial=0.0))
        y = replace(panel.y, high=min(self.top, highest or self.top))
        if panel.square:
            low, high, y = np.maximum(0.0, low), np.minimum(1.0, high), panel.y
        detail = {"x": self.x, "mean": mean, "deviation": deviation}
        words = f"mean of {len(self.y)} folds"
        marks: list[Mark] = [
            *(mark for mark in panel.marks if isinstance(mark, Rule)),
            *self.references,
            Band(self.x, low, high, role="observed", name="one standard deviation"),
            Line(self.x, mean, role="observed", name=words, detail=detail),
        ]
        shown = Panel(tuple(marks), panel.x, y, panel.title, square=panel.square)
        description = f"{self.first.title}: {words}, with one standard deviation between folds."
        return Picture((shown,), self.first.title, description, description)


def _curve(picture: Picture) -> tuple[np.ndarray, np.ndarray]:
    """The curve of a picture: its line, or a line through its points."""
    marks = [mark for panel in picture.panels for mark in panel.marks if mark.series]
    lines = [mark for mark in marks if isinstance(mark, Line)]
    points = [mark for mark in marks if isinstance(mark, Points)]
    drawn = lines or points
    usable = len(picture.panels) == 1 and len(picture.series) == 1 and len(lines) <= 1 and drawn
    if not usable or picture.panels[0].y.categories is not None:
        raise InputError(
            "folds",
            "must be diagrams of a single curve",
            picture.title,
            way_out=("use `from_predictions` for each fold",),
        )
    x, y = (np.concatenate([getattr(mark, side) for mark in drawn]) for side in ("x", "y"))
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _at(x: np.ndarray, curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Each curve at the places x, NaN outside its range."""
    return np.stack([np.interp(x, *curve, left=np.nan, right=np.nan) for curve in curves])
