"""Colours by role. Those of models and parts are from the colour-blind-safe palette of Okabe & Ito
(2008). The direction of an error has colours of its own, so that no colour means two things."""

from __future__ import annotations

from collections.abc import Sequence

from .picture import CONTEXT, JUDGED

BLACK_OR_WHITE = "#808080"  # replaces black; visible on light and dark
INK = "#5B6773"  # darker; visible on light and dark
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
    "observed": INK,
    "original": "#D55E00",
    "recalibrated": "#0072B2",
    "reference": BLACK_OR_WHITE,
    "null": BLACK_OR_WHITE,
    "limit": BLACK_OR_WHITE,
    "over": "#B026E0",
    "under": "#1C8C54",
    "mixed": "#8C6D1F",
    "agrees": INK,
    "thin": "#949494",
    "calibration": "#E69F00",
    "grouping": "#CC79A7",
    "rest": "#999999",
    "density": "#999999",
    "sharpness": "#56B4E9",
    "reject": "#F0E442",
}

SHAPES = {"over": "triangle-down", "under": "triangle-up", "mixed": "diamond", "limit": "tick"}
SERIES_SHAPES = ("circle", "square", "diamond", "cross", "triangle-right")
PAPER = "white"  # inside hollow points; a page has its own background
FAINT = 0.34  # opacity of bands and faint bars
FAINTER = 0.18  # the same for those of a model on a page, which also have edges


def colour(role: str, cycle: Sequence[str] = SERIES) -> str:
    """The colour of a role. Series use the palette in order. Another `cycle` replaces the colours
    of the palette, but neither grey nor those of directions. A single curve then has its first.

    >>> colour("series 1") == colour("series 9"), colour("over", ["black"])
    (True, '#B026E0')
    """
    kind, _, number = role.partition(" ")
    if kind == "series":
        return cycle[int(number) % len(cycle)]
    known = COLOURS[role]
    if role in CONTEXT | JUDGED or cycle is SERIES:
        return known
    return cycle[(SERIES.index(known) if known in SERIES else 0) % len(cycle)]


def shape(role: str) -> str:
    """The shape of a point, so that directions and series do not differ by colour alone.

    >>> shape("over"), shape("observed"), shape("series 1")
    ('triangle-down', 'circle', 'square')
    """
    kind, _, number = role.partition(" ")
    if kind == "series":
        return SERIES_SHAPES[int(number) % len(SERIES_SHAPES)]
    return SHAPES.get(role, "circle")
