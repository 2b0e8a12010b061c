"""Rows, claims and figures, and that storing them changes nothing."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import probaudit as pb
from probaudit.diagrams.matplotlib_drawer import image
from probaudit.diagrams.picture import Axis, Bars, Panel, Picture, Rule, Text
from probaudit.reproduce.beside import PrintedBesideOurs
from probaudit.reproduce.outcome import Claim, Outcome, Row
from probaudit.reproduce.stored_diagram import StoredDiagram
from probaudit.reproduce.summaries import agreement, verdicts


@pytest.mark.parametrize(
    ("ours", "printed", "tolerance", "agrees"),
    [
        (0.503, 0.5, 0.002, False),
        (0.501, 0.5, 0.002, True),
        (0.502, 0.5, 0.002, True),
        (math.inf, math.inf, 0.1, True),
        (1.0, math.inf, 0.1, False),
        (0.5, math.nan, 0.1, None),
        (0.5, 0.5, math.nan, None),
    ],
)
def test_agreement_of_a_row(ours, printed, tolerance, agrees):
    assert Row("a", "b", ours, printed, tolerance=tolerance).agrees is agrees


@pytest.mark.parametrize(
    ("low", "high", "below", "above"),
    [(-2.0, -1.0, True, False), (1.0, 2.0, False, True), (-1.0, 1.0, None, None)],
)
def test_the_interval_decides_a_claim(low, high, below, above):
    measured = pb.Estimate((low + high) / 2, low=low, high=high)
    assert Claim.below(0.0, "", "", measured).holds is below
    assert Claim.above(0.0, "", "", measured).holds is above
    assert Claim.below(0.0, "", "", -0.5).holds is True  # a plain number is exact


def diagrams():
    world = pb.simulate.gaussian_posteriors(300, 2, seed=0)
    panel = Panel(
        (
            Bars(np.array([0.0]), np.array([1.0]), np.zeros(1), np.array([math.nan]), faint=True),
            Rule(x=0.5),
            Text(0.1, 0.2, "word", "end"),
        ),
        Axis("x", 0, 1),
        Axis("", categories=("inf", "b")),
        square=True,
    )
    made = Picture((panel,), "title", "description", "caption", columns=1)
    return {
        "reliability": pb.diagrams.reliability_diagram(world.y, world.mcs),
        "sharpness": pb.diagrams.calibration_sharpness_diagram(world.y, world.mcs),
        "risk": pb.diagrams.risk_curve_diagram(world.y, world.mcs),
        "regions": pb.diagrams.decision_regions_diagram(world.y, world.mcs, costs=1 - np.eye(2)),
        "made": StoredDiagram(made, {"x": np.array([1, 2]), "name": np.array(["a", None], object)}),
    }


@pytest.mark.parametrize("name", diagrams())
def test_stored_diagrams_draw_the_same(name):
    diagram = diagrams()[name]
    stored = json.loads(json.dumps(StoredDiagram.of(diagram).to_dict(), allow_nan=False))
    again = StoredDiagram.of_dict(stored)
    assert StoredDiagram.of(again).to_dict() == stored
    assert image(again.picture(), "png") == image(diagram.picture(), "png")
    for column, values in diagram.columns().items():
        np.testing.assert_array_equal(again.columns()[column], values)


def test_outcomes_survive_storing():
    outcome = Outcome(
        (Row("a", "NLL", math.inf, math.inf, "Table 1", tolerance=1.0), Row("b", "x", 0.1)),
        (Claim("s", "t", 1.0, -math.inf, math.nan, None),),
        {},
        ("note",),
    )
    again = Outcome.of_dict(json.loads(json.dumps(outcome.to_dict(), allow_nan=False)))
    assert again.to_dict() == outcome.to_dict()
    assert again.rows[0] == outcome.rows[0]
    assert math.isnan(again.rows[1].printed)
    assert again.claims[0].holds is None
    assert again.claims[0].low == -math.inf


def test_a_row_named_like_infinity_stays_text():
    row = Outcome.of_dict(Outcome((Row("inf", "-inf", 1.0),)).to_dict()).rows[0]
    assert (row.row, row.column) == ("inf", "-inf")


def test_both_panels_have_the_same_axes():
    rows = [Row("VGG16, TS", "ECE", 5.0, 2.0), Row("VGG16, HB", "ECE", -1.0, 3.0, low=-2, high=0)]
    drawn = PrintedBesideOurs.of([*rows, Row("VGG16, TS", "NLL", 1.0)], "columns")
    assert list(drawn) == [("ECE",)]  # NLL has no printed number
    picture = drawn["ECE",].picture()
    printed, ours = picture.panels
    assert printed.extent("x") == ours.extent("x")
    assert printed.extent("x")[0] < -2
    assert [mark.name for mark in ours.marks] == ["TS", "HB"]
    assert ours.y.categories == ("VGG16",)
    np.testing.assert_array_equal(ours.marks[1].low, [-2])
    series = PrintedBesideOurs.of(rows, "series")["all",].picture()
    assert series.panels[0].y.categories == ("ECE",)
    assert PrintedBesideOurs.of(rows, "") == {}


def test_sentences():
    rows = [Row("a", "x", 1.0, 1.1, tolerance=0.01), Row("b", "x", 1.0, 1.0, tolerance=0.01)]
    words = "1 of 2 within tolerance (largest difference 0.1000); not: a, x"
    assert agreement(rows) == words
    claims = [
        Claim("A: ECE falls", "", 0, 0, 0, True),
        Claim("B: ECE falls", "", 0, 0, 0, None),
        Claim("C: ECE falls", "", 0, 0, 0, False),
        Claim("C: ACE falls", "", 0, 0, 0, False),
    ]
    words = "holds on 1 of 3; undecided: B; the opposite on: C"
    assert verdicts(claims, "ECE falls") == words
