"""Stacked bars of losses on the scale of the base-rate forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...diagrams.palette import colour
from .colours import css_variable

LONGEST = 3.0  # relative to the base-rate forecast; a longer bar is broken
LEAST_SEGMENT = 0.01  # of the base-rate loss; shorter segments are listed below the bar
MARGIN = 1.03  # the length of the axis of loss bars, relative to the longest


@dataclass(frozen=True)
class Segment:
    """A part of a loss bar: its share of the loss of the base-rate forecast, its label, and its
    role, which sets its colour (as in `diagrams.palette`)."""

    share: float
    words: str
    role: str

    @property
    def fill(self) -> str:
        return f"var({css_variable(colour(self.role))})"

    @property
    def on_dark(self) -> bool:
        """Whether black letters inside have a contrast below 4.5; they are then white, but black
        in dark mode, which has brighter colours."""
        return (_luminance(colour(self.role)) + 0.05) / 0.05 < 4.5


@dataclass(frozen=True)
class LossBar:
    label: str
    segments: Sequence[Segment]

    @property
    def length(self) -> float:
        return sum(max(0.0, part.share) for part in self.segments)

    @property
    def broken(self) -> bool:
        """Whether the bar is too long to be drawn as a whole."""
        return self.length > LONGEST

    @property
    def drawn(self) -> list[Segment]:
        """The segments that are long enough to be seen, on the same scale in all bars."""
        return [part for part in self.segments if part.share >= LEAST_SEGMENT]

    @property
    def small(self) -> str:
        """The segments that are not drawn, as text."""
        return ", ".join(part.words for part in self.segments if part not in self.drawn)

    def places(self, end: float) -> list[tuple[Segment, float, float]]:
        """Each drawn segment with its left end and its width in percent of an axis from 0 to
        `end`."""
        shares = [max(0.0, part.share) for part in self.drawn]
        at = (np.minimum(np.cumsum([0.0, *shares]), LONGEST) / end * 100).round(3).tolist()
        return [
            (part, left, round(right - left, 3))
            for part, left, right in zip(self.drawn, at, at[1:], strict=False)
            if right > left
        ]

    @property
    def description(self) -> str:
        return f"{self.label}: {'; '.join(part.words for part in self.segments)}"


@dataclass(frozen=True)
class LossBars:
    """Stacked bars on one scale from 0, with a mark at 1, the loss of the base-rate forecast. A bar
    above `LONGEST` is broken there."""

    kind: ClassVar[str] = "bars"
    scale_words: str
    bars: Sequence[LossBar]

    @property
    def end(self) -> float:
        """The end of the axis, so that the longest bar and the mark at 1 are on it."""
        return MARGIN * min(LONGEST, max([1.0, *(bar.length for bar in self.bars)]))

    @property
    def base_rate(self) -> float:
        """The place of the base-rate forecast in percent of the axis."""
        return round(100 / self.end, 3)


def _luminance(colour: str) -> float:
    """The relative luminance of a colour such as "#0072B2", as in WCAG 2."""
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
