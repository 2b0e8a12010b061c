"""Colours by role, from the colour-blind-safe palette of Okabe & Ito (2008)."""

from __future__ import annotations

from collections.abc import Sequence

from .picture import CONTEXT

BLACK_OR_WHITE = "#808080"  # replaces black; visible on light and dark
SERIES = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    BLACK_OR_WHITE,
    "#F0E442",
)

COLOURS = {
    "model": "#009E73",
    "observed": "#0072B2",
    "original": "#D55E00",
    "recalibrated": "#0072B2",
    "reference": BLACK_OR_WHITE,
    "null": BLACK_OR_WHITE,
    "over": "#D55E00",
    "under": "#56B4E9",
    "thin": BLACK_OR_WHITE,
    "calibration": "#E69F00",
    "grouping": "#CC79A7",
    "rest": "#999999",
    "density": "#999999",
    "reject": "#F0E442",
}

SHAPES = {"over": "triangle-down", "under": "triangle-up"}
SERIES_SHAPES = ("circle", "square", "diamond", "cross", "triangle-right")
PAPER = "white"  # inside hollow points; a page has its own background
FAINT = 0.34  # opacity of bands and faint bars


def colour(role: str, cycle: Sequence[str] = SERIES) -> str:
    """The colour of a role. Series use the palette in order. Another `cycle` replaces the colours
    of the palette, but not grey.

    >>> colour("series 1") == colour("series 9")
    True
    """
    kind, _, number = role.partition(" ")
    if role in CONTEXT:
        return COLOURS[role]
    place = int(number) if kind == "series" else SERIES.index(COLOURS[role])
    return cycle[place % len(cycle)]


def shape(role: str) -> str:
    """The shape of a point, so that directions and series do not differ by colour alone.

    >>> shape("over"), shape("observed"), shape("series 1")
    ('triangle-down', 'circle', 'square')
    """
    kind, _, number = role.partition(" ")
    if kind == "series":
        return SERIES_SHAPES[int(number) % len(SERIES_SHAPES)]
    return SHAPES.get(role, "circle")
