"""Labels beside curves."""

from __future__ import annotations

import numpy as np

from probaudit.diagrams.direct_labels import directly_labelled
from probaudit.diagrams.picture import Axis, Band, Line, Panel, Picture, Text

X = np.linspace(0, 1, 21)


def picture(*marks: Line | Band) -> Picture:
    panel = Panel(marks, Axis("x", 0, 1), Axis("y", 0, 1))
    return Picture((panel,), "title", "description", "Caption.")


def labels(found: Picture) -> dict[str, Text]:
    return {mark.text: mark for mark in found.panels[0].marks if isinstance(mark, Text)}


def test_a_label_is_beside_its_own_curve():
    low, high = Line(X, 0.2 + 0 * X, name="low"), Line(X, 0.7 + 0 * X, name="high")
    found = directly_labelled(picture(low, high))
    for name, y in (("low", 0.2), ("high", 0.7)):
        text = labels(found)[name]
        assert 0.03 < abs(text.y - y) < 0.08
        assert 0 < text.x < 1
    assert not any(mark.name for mark in found.panels[0].marks)


def test_no_label_where_a_curve_leaves_the_panel():
    steep = Line(X, 0.9 - 3 * X, name="steep")
    assert labels(directly_labelled(picture(steep)))["steep"].x < 0.35


def test_no_label_covers_the_marker():
    (text,) = labels(directly_labelled(picture(Line(X, 0 * X + 0.5, name="curve")), 0.5)).values()
    half = 0.021 * len("curve") / 2
    assert abs(text.x - 0.5) > half


def test_curves_that_coincide_keep_their_legend():
    one, two = Line(X, X, name="one"), Line(X, X + 0.005, name="two")
    found = directly_labelled(picture(one, two))
    assert labels(found) == {}
    assert [mark.name for mark in found.panels[0].marks] == ["one", "two"]


def test_the_caption_names_a_band():
    band = Band(X, 0 * X, 0 * X + 0.3, name="95% interval")
    found = directly_labelled(picture(band, Line(X, 0 * X + 0.15, name="curve")))
    assert found.caption == "Caption. Band: 95% interval."
    assert found.panels[0].marks[0].name == ""


def test_the_legend_names_all_curves_if_one_has_no_room():
    """The curve at the bottom has room above it, but two others coincide."""
    curves = [
        Line(X, 0.8 + 0 * X, name="one"),
        Line(X, 0.8 + 0.005 * X, name="two"),
        Line(X, 0.1 + 0 * X, name="three"),
    ]
    found = directly_labelled(picture(*curves))
    assert list(labels(found)) == []
    assert [mark.name for mark in found.panels[0].marks] == ["one", "two", "three"]
