"""Legends in axes that are small, or that show several models."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import probaudit as pb
from probaudit import diagrams
from probaudit.diagrams.matplotlib_drawer import draw
from probaudit.diagrams.picture import Axis, Band, Line, Panel, Picture, Points

X = np.linspace(0, 1, 21)
RANGE = "95% range if calibrated"


@pytest.fixture
def small():
    """Axes as in a grid of 2 x 2."""
    return Figure().subplots(2, 2)[0, 0]


def picture(*marks, square=False):
    panel = Panel(marks, Axis("x", 0, 1), Axis("y", 0, 1), square=square)
    return Picture((panel,), "title", "description")


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def size(ax):
    (found,) = {text.get_fontsize() for text in ax.get_legend().get_texts()}
    return found


def hidden(ax):
    """The points and ends of intervals that the legend hides, in pixels."""
    box = ax.get_legend().get_window_extent()
    lines = [each for each in ax.collections if isinstance(each, LineCollection)]
    places = [each.get_offsets() for each in ax.collections]
    places += [end for each in lines for end in each.get_segments()]
    ends = [ax.transData.transform(place) for place in places]
    return [point for point in np.concatenate(ends) if box.contains(*point)]


def test_the_legend_of_a_small_reliability_diagram_hides_no_point(small):
    world = pb.simulate.gaussian_posteriors(2000, 3, seed=1)
    diagrams.reliability_diagram(world.y, world.mcs).plot(ax=small, name="a model")
    box, area = small.get_legend().get_window_extent(), small.bbox
    assert area.x0 <= box.x0 < box.x1 <= area.x1
    assert area.y0 <= box.y0 < box.y1 <= area.y1
    assert not hidden(small)
    assert size(small) == 7.5


def test_the_legend_hides_nothing_after_the_layout_of_a_grid():
    rng = np.random.default_rng(2)
    outputs = np.exp(2 * rng.normal(size=(5000, 50)))
    p = outputs / outputs.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((5000, 1))).sum(axis=1).clip(0, 49)
    figure = Figure(layout="constrained")
    ax, *others = figure.subplots(2, 2).flat
    diagrams.reliability_diagram(y, p).plot(ax=ax, name="model")
    for other in others:
        other.set(xlabel="predicted probability", ylabel="observed")
    figure.draw_without_rendering()
    assert not hidden(ax)


def test_letters_keep_their_size_where_there_is_room(small):
    draw(picture(Line(X, 0.1 + 0 * X, name="low")), small)
    assert size(small) == 10
    assert names(small) == ["low"]


@pytest.fixture
def full():
    """Points with room for one line of small letters above them, and a range behind them."""
    x = np.repeat(X, 21)
    y = np.tile(0.84 * X, 21)
    points = Points(x, y, role="observed", name="observed")
    return picture(Band(X, 0 * X, 0.8 + 0 * X, role="null", name=RANGE), points)


def test_a_short_legend_leaves_out_ranges(small, full):
    draw(full, small)
    assert names(small) == ["observed"]
    assert size(small) == 7.5
    assert not hidden(small)


def test_a_complete_legend_has_all_names(small, full):
    draw(full, small, legend=True)
    assert names(small) == [RANGE, "observed"]


def test_options_of_the_legend_are_kept(small, full):
    draw(full, small, legend_kw={"fontsize": 9})
    assert size(small) == 9


def test_rows_of_a_legend_are_even():
    """Six names that fill more than a row stand in two rows of three."""
    axes = Figure(figsize=(5, 4)).subplots()
    curve = Line(X, X, role="observed", name="observed")
    panel = Panel((curve,), Axis("x", 0, 1), Axis("y", 0, 1))
    for k in range(6):
        draw(Picture((panel, panel), "title", "description"), axes, name=f"model {k}")
    assert len(names(axes)) == 6
    assert axes.get_legend()._ncols == 3


def test_intervals_of_several_models_are_faint(small):
    y = 0.2 + 0.5 * X
    for k in range(3):
        points = Points(X, y, y - 0.1, y + 0.1, role="observed", name="observed")
        draw(picture(points), small, name=f"model {k}")
        intervals = [each for each in small.collections if not len(each.get_offsets()) > 1]
        assert len(intervals) == k + 1
        assert {each.get_alpha() for each in intervals} == {0.34 if k == 2 else None}


def test_models_without_a_colour_are_refused(small):
    curve = picture(Line(X, X, role="observed", name="observed"))
    for k in range(8):
        draw(curve, small, name=f"model {k}")
    assert len({line.get_color() for line in small.lines}) == 8
    with pytest.raises(pb.InputError, match="`ax`: needs 1 of the 8 colours") as caught:
        draw(curve, small, name="model 8")
    assert "(found: 9 models). Draw it in other axes, or" in str(caught.value)
    draw(curve, small, name="model 8", color="black")
