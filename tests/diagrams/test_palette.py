"""Colours: what a reader with any colour vision can tell apart, on light and dark pages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from probaudit.diagrams.palette import COLOURS, SERIES, colour, shape
from probaudit.diagrams.picture import JUDGED

DIRECTIONS = ("over", "under")
MODELS = ("original", "recalibrated")
WHITE, DARK = "#FFFFFF", "#14181D"  # the backgrounds of a page
# linear RGB as seen by each reader (Machado, Oliveira & Fernandes 2009, severity 1)
VISION = {
    "all cones": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.01182, 0.04294, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)


def linear(text: str) -> np.ndarray:
    parts = np.array([int(text[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, two: str) -> float:
    low, high = sorted(float(TO_XYZ[1] @ linear(text)) + 0.05 for text in (one, two))
    return high / low


def seen(text: str, vision: np.ndarray) -> np.ndarray:
    """A colour in CIELAB."""
    xyz = TO_XYZ @ np.clip(vision @ linear(text), 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("role", sorted(JUDGED))
def test_marks_of_rates_stand_out_on_light_and_dark(role):
    assert contrast(COLOURS[role], WHITE) >= 3
    assert contrast(COLOURS[role], DARK) >= 3


@pytest.mark.parametrize("vision", VISION)
def test_directions_are_told_apart_from_each_other_and_from_models(vision):
    pairs = [*itertools.product(DIRECTIONS, MODELS), DIRECTIONS]
    pairs += [(direction, "agrees") for direction in DIRECTIONS]
    for one, two in pairs:
        far = np.linalg.norm(
            seen(COLOURS[one], VISION[vision]) - seen(COLOURS[two], VISION[vision])
        )
        assert far > 15, (one, two)


def test_a_direction_has_its_own_colour_in_every_cycle():
    others = {mark for role, mark in COLOURS.items() if role not in JUDGED} | set(SERIES)
    for role in ("over", "under", "mixed"):
        assert COLOURS[role] not in others
        assert colour(role, ["black", "red"]) == COLOURS[role]
    assert colour("observed", ["black", "red"]) == "black"  # a curve follows rcParams
    assert len({shape(role) for role in ("over", "under", "mixed", "agrees")}) == 4
