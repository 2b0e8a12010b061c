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
    half = 0.023 * len("curve") / 2
    assert abs(text.x - 0.5) > half


def test_a_corner_names_curves_that_coincide():
    one, two = Line(X, X, name="one"), Line(X, X + 0.005, name="two", dashed=True)
    found = directly_labelled(picture(one, two))
    assert list(labels(found)) == ["— one", "╌ two"]
    assert all(text.x < 0.1 and text.y > 0.8 for text in labels(found).values())
    assert not any(mark.name for mark in found.panels[0].marks)


def test_the_legend_names_curves_if_there_is_no_room():
    x = np.linspace(0, 1, 400)
    waves = {"first curve": np.cos(60 * x), "second curve": np.cos(60 * x + 0.5)}
    full = [Line(x, 0.5 + 0.5 * wave, name=name) for name, wave in waves.items()]
    found = directly_labelled(picture(*full))
    assert labels(found) == {}
    assert [mark.name for mark in found.panels[0].marks] == list(waves)


def test_a_steep_line_has_its_label_at_its_side():
    """Beside a flat curve at the top, there is no room above or below the line."""
    fall = Line(X, 0.9 - 2.2 * X, name="act on all rows", role="reference", dashed=True)
    flat = Line(X, 0.95 + 0 * X, name="model")
    text = labels(directly_labelled(picture(flat, fall), 0.6))["act on all rows"]
    own = (0.9 - text.y) / 2.2  # where the line is at the height of its label
    begins = text.x - (0.023 * len(text.text) if text.anchor == "end" else 0)
    assert text.anchor in ("start", "end")
    assert abs(text.x - own) < 0.03  # it begins or ends at the line
    assert begins > own or text.x < own


def test_steep_curves_that_coincide_have_no_labels_at_their_sides():
    one = Line(X, 0.05 + 0.85 * X**6, name="one")
    two = Line(X, 0.055 + 0.85 * X**6, name="two")
    assert list(labels(directly_labelled(picture(one, two)))) == ["— one", "— two"]


def test_the_caption_names_a_band():
    band = Band(X, 0 * X, 0 * X + 0.3, name="95% interval")
    found = directly_labelled(picture(band, Line(X, 0 * X + 0.15, name="curve")))
    assert found.caption == "Caption. The band is the 95% interval."
    assert found.panels[0].marks[0].name == ""


def test_a_side_names_all_curves_if_one_has_no_room():
    """The curve at the bottom has room above it, but two others coincide."""
    curves = [
        Line(X, 0.8 + 0 * X, name="one"),
        Line(X, 0.8 + 0.005 * X, name="two"),
        Line(X, 0.1 + 0 * X, name="three"),
    ]
    found = directly_labelled(picture(*curves))
    assert list(labels(found)) == ["— one", "— two", "— three"]
