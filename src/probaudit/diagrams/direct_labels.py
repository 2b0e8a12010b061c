"""Labels beside curves instead of a legend, where there is room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from .picture import CONTEXT, Band, Line, Panel, Picture, Text

STEPS = 60  # places along the x axis at which a label is tried
# width of a character, as a share of a narrow panel; square panels are narrower
LETTER, IN_SQUARE = 0.023, 0.032
LINE = 0.07  # height of a label, as a share of a low panel
GAP = 0.02  # between a label and the curves around it
ENOUGH = 0.08  # of room around a label
APART = 0.04  # mean distance of another curve, so that it is clear which one a label belongs to
STEEP = 1.5  # slope, in shares of the panel, from which a label may stand beside a curve
ROUNDING = 1e-9
KEYS = {True: "╌ ", False: "— "}  # before the names of dashed and solid lines aside


Anchor = Literal["start", "middle", "end"]


class Box(NamedTuple):
    """The place of a label, in shares of the panel."""

    left: float
    right: float
    bottom: float
    top: float

    anchor: Anchor = "middle"

    @property
    def anchored(self) -> tuple[tuple[float, float], Anchor]:
        """The place of the text, which begins or ends at a curve beside it."""
        across = {"start": self.left, "end": self.right, "middle": self.middle[0]}[self.anchor]
        return (across, self.middle[1]), self.anchor

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


def directly_labelled(picture: Picture, marker: float | None = None) -> Picture:
    """A picture of one panel with labels beside its lines. If a curve has no room for a label, an
    empty corner or side names all of them; if there is none, the legend. The caption names bands.

    marker : the x of a vertical line, which no label covers.
    """
    (panel,) = picture.panels
    bands = [mark.name for mark in panel.marks if isinstance(mark, Band) and mark.name]
    lines = [mark for mark in panel.marks if isinstance(mark, Line) and mark.name]
    labels = _Labels(panel, lines, marker)
    texts = labels.beside() or labels.aside()
    named = {*bands, *texts}
    marks = [replace(mark, name="") if mark.name in named else mark for mark in panel.marks]
    marks += texts.values()
    words = [
        f"The band is the {name}." if bands.count(name) == 1 else f"The bands are {name}s."
        for name in dict.fromkeys(bands)
    ]
    caption = " ".join([picture.caption, *words])
    return replace(picture, panels=(replace(panel, marks=tuple(marks)),), caption=caption)


class _Labels:
    """Places for the labels of lines. `heights`: of each line, in shares of the panel."""

    def __init__(self, panel: Panel, lines: list[Line], marker: float | None) -> None:
        self.lines, self.letter = lines, IN_SQUARE if panel.square else LETTER
        (self.left, right), (self.low, high) = panel.extent("x"), panel.extent("y")
        self.width, self.height = right - self.left, high - self.low
        self.x = np.linspace(0, 1, STEPS)
        self.heights = [
            np.interp(
                self.x,
                (mark.x - self.left) / self.width,
                (mark.y - self.low) / self.height,
                left=np.nan,
                right=np.nan,
            )
            for mark in lines
        ]
        at = None if marker is None else (marker - self.left) / self.width
        self.taken = [] if at is None else [Box(at - GAP, at + GAP, 0.0, 1.0)]

    def beside(self) -> dict[str, Text]:
        """A label for each line; none if a curve has no room for one. Reference lines may lack
        one."""
        labels: dict[str, Text] = {}
        for k in sorted(range(len(self.lines)), key=lambda k: self.lines[k].role in CONTEXT):
            mark, boxes = self.lines[k], list(self._boxes(k))
            best = max(boxes, key=lambda found: found[0], default=None)
            if best is None and mark.role not in CONTEXT:
                return {}
            if best is not None:
                self.taken.append(best[1])
                labels[mark.name] = self._text(mark, mark.name, *best[1].anchored)
        return labels

    def aside(self) -> dict[str, Text]:
        """The names of all lines below each other in an empty corner, or at a side; none if
        there is no room."""
        names = [KEYS[mark.dashed] + mark.name for mark in self.lines]
        wide, high = self.letter * max(map(len, names), default=0), LINE * len(names)
        sides, ends = (GAP, 1 - GAP - wide), (1 - GAP - high, GAP, (1 - high) / 2)
        for bottom, left in product(ends, sides):
            box = Box(left, left + wide, bottom, bottom + high)
            if wide <= 1 - 2 * GAP and self._room(box, self.heights) > 0:
                tops = box.top - LINE * (np.arange(len(names)) + 0.5)
                return {
                    mark.name: self._text(mark, name, (left, float(top)), "start")
                    for mark, name, top in zip(self.lines, names, tops, strict=True)
                }
        return {}

    def _text(self, mark: Line, text: str, at: tuple[float, float], anchor: Anchor) -> Text:
        place = (self.left + at[0] * self.width, self.low + at[1] * self.height)
        return Text(*place, text, anchor, role=mark.role)

    def _boxes(self, k: int) -> Iterator[tuple[float, Box]]:
        """The places of the label of a line, with scores: close to the line, and away from other
        lines, other labels and the edge of the panel."""
        mark, x = self.lines[k], self.x
        own = np.where((self.heights[k] >= 0) & (self.heights[k] <= 1), self.heights[k], np.nan)
        others = [other for j, other in enumerate(self.heights) if j != k]
        # nobody takes the label of a curve for that of a reference line
        rivals = [
            other
            for line, other in zip(self.lines, self.heights, strict=True)
            if line is not mark and (mark.role in CONTEXT or line.role not in CONTEXT)
        ]
        wide = self.letter * len(mark.name)
        for at in np.flatnonzero(np.isfinite(own)).tolist():
            middle = float(x[at])
            near = np.abs(x - middle) <= wide / 2 + GAP
            confused = any(
                np.isfinite(one[near]).any() and np.nanmean(np.abs(one - own)[near]) < APART
                for one in rivals
                if np.isfinite((one - own)[near]).any()
            )
            inside = wide / 2 <= middle <= 1 - wide / 2
            if inside and not confused and np.isfinite(own[near]).all():
                for base in (own[near].max() + GAP, own[near].min() - GAP - LINE):
                    box = Box(middle - wide / 2, middle + wide / 2, base, base + LINE)
                    if (room := self._room(box, others)) >= GAP - ROUNDING:
                        yield room - abs(box.middle[1] - own[at]), box
            slope = abs(own[min(at + 1, STEPS - 1)] - own[max(at - 1, 0)]) / (2 / (STEPS - 1))
            beside = slope > STEEP and not confused
            sides: tuple[tuple[float, Anchor], ...] = (
                (middle + GAP, "start"),
                (middle - GAP - wide, "end"),
            )
            for left, anchor in sides if beside else ():
                box = Box(left, left + wide, own[at] - LINE / 2, own[at] + LINE / 2, anchor)
                if (room := self._room(box, self.heights)) > 0:
                    yield room - wide, box

    def _room(self, box: Box, lines: list[np.ndarray]) -> float:
        """The distance of a box from the edges of the panel, lines and labels, up to `ENOUGH`;
        negative if it covers one."""
        near = (self.x >= box.left - GAP / 2) & (self.x <= box.right + GAP / 2)
        beside = [one[near] for one in lines if np.isfinite(one[near]).any()]
        return min(
            ENOUGH,
            box.left + ENOUGH if box.left >= 0 else box.left,
            1 - box.right + ENOUGH if box.right <= 1 else 1 - box.right,
            box.bottom,
            1 - box.top,
            *(max(np.nanmin(one) - box.top, box.bottom - np.nanmax(one)) for one in beside),
            *(
                max(other.bottom - box.top, box.bottom - other.top)
                for other in self.taken
                if box.left < other.right and box.right > other.left
            ),
        )
