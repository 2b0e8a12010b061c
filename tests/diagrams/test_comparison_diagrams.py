"""The forest plot and the overlaid reliability curves: their numbers are those of the comparison,
and both drawers draw them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

import probaudit as pb
from probaudit.diagrams import OverlaidReliability, PairedDifferences, vega_drawer
from probaudit.diagrams.diagram import HIGH, LOW
from probaudit.diagrams.palette import shape
from probaudit.diagrams.picture import Line, Points, Rule, Text
from probaudit.estimate import Estimate
from probaudit.text import number

from .test_drawers import vega_svg


@pytest.fixture(scope="module")
def found():
    world = pb.simulate.gaussian_posteriors(1500, 3, seed=1)
    models = {"raw": world.mcs, "cal": world.cal, "cal <again>": world.cal.copy()}
    return pb.compare(models, world.y, reference="cal", resamples=100, repair=False)


def test_the_forest_plot_has_the_paired_differences(found):
    forest = found.forest()
    assert forest.metrics == ("log loss", "Brier score", "ECE", "accuracy")
    frame = forest.to_frame()
    for label, name in (("log loss", "log_score"), ("accuracy", "accuracy"), ("ECE", "ece")):
        for model, parts in found.differences.items():
            (line,) = frame[(frame.metric == label) & (frame.model == model)].to_dict("records")
            gap = parts[name]
            assert line[f"difference from {found.reference}"] == float(gap)
            assert (line[LOW], line[HIGH]) == gap.interval
    assert forest.verdict[:2] == ("worse", "tied")
    assert number(found.differences["raw"]["log_score"]) in forest.picture().description


@pytest.mark.parametrize(
    ("lower", "expected"),
    [(True, ("better", "worse", "tied")), (False, ("worse", "better", "tied")), (None, None)],
)
def test_verdicts_follow_the_interval_and_the_direction(lower, expected):
    gaps = {
        "a": Estimate(-0.2, low=-0.3, high=-0.1),
        "b": Estimate(0.2, low=0.1, high=0.3),
        "c": Estimate(0.2, low=-0.1, high=0.5),
    }
    got = PairedDifferences.of({"x": gaps}, "r", lower={"x": lower})
    assert got.verdict == (expected or ("different", "different", "tied"))


def test_infinite_differences_are_words(found):
    gaps = {"a": Estimate(np.inf), "b": Estimate(0.1, low=0.05, high=0.2), "c": Estimate(np.nan)}
    got = PairedDifferences.of({"log loss": gaps}, "r")
    assert got.verdict == ("worse", "worse", "tied")
    (panel,) = got.picture().panels
    assert [m.text for m in panel.marks if isinstance(m, Text)] == [
        "infinite, worse",
        "0.1000, worse",
    ]
    assert sum(len(m.x) for m in panel.marks if isinstance(m, Points)) == 1
    low, high = panel.extent("x")
    assert low < 0 < 0.2 < high
    with pytest.raises(pb.InputError, match="at least one"):
        PairedDifferences.of({"log loss": {}}, "r")


def test_models_have_one_colour_in_all_diagrams(found):
    """In the forest plot, a verdict is a word; tied models are hollow."""
    (panel,) = found.reliability().picture().panels
    colours = {mark.name: mark.role for mark in panel.marks if isinstance(mark, Line)}
    forest = found.forest(("log_score",))
    points = [m for m in forest.picture().panels[0].marks if isinstance(m, Points)]
    assert [m.role for m in points] == [colours[model] for model in forest.model]
    assert [m.hollow for m in points] == [verdict == "tied" for verdict in forest.verdict]
    assert len({shape(role) for role in colours.values()}) == len(colours)


def test_many_models_have_two_columns():
    gaps = {f"m{k}": Estimate(0.1 * k, low=0.0, high=1.0) for k in range(13)}
    both = {"log loss": gaps, "ECE": gaps}
    assert PairedDifferences.of(both, "r").picture().columns == 2


def test_the_curves_are_those_of_each_model(found):
    overlaid = found.reliability()
    assert isinstance(overlaid, OverlaidReliability)
    (panel,) = overlaid.picture().panels
    lines = [mark for mark in panel.marks if isinstance(mark, Line)]
    assert [line.name for line in lines] == ["raw", "cal", "cal <again>"]
    assert sum(isinstance(mark, Rule) for mark in panel.marks) == 1
    few = 0
    for line, one in zip(lines, found.aligned().each, strict=True):
        of = one.rows >= 10
        few += int((~of).sum())
        assert line.x.tolist() == one.stated[of].tolist()
        assert line.y.tolist() == one.observed[of].tolist()
    assert few > 0
    assert overlaid.picture().caption.endswith("Bins with fewer than 10 rows are left out.")
    # one number, one text: the error of the table, not of the grid
    for one, model in zip(overlaid.each, overlaid.models, strict=True):
        assert one.error == float(found[model]["ece"])
    assert len(overlaid.to_frame()) == sum(len(one.rows) for one in overlaid.each)


def test_every_bin_of_few_rows_is_drawn():
    world = pb.simulate.gaussian_posteriors(60, 3, seed=1)
    models = {"raw": world.mcs, "cal": world.cal}
    overlaid = pb.compare(models, world.y, resamples=20, repair=False).reliability()
    (panel,) = overlaid.picture().panels
    shown = sum(len(mark.x) for mark in panel.marks if isinstance(mark, Line))
    assert shown == sum(len(one.rows) for one in overlaid.each)
    assert "left out" not in overlaid.picture().caption


def test_both_drawers_draw_them(found):
    for diagram in (found.forest(), found.reliability()):
        panels = diagram.picture().panels
        assert len(diagram.plot().axes_) == len(panels)
        assert len(diagram.plot(Figure().add_subplot()).axes_) == len(panels)
        spec = vega_drawer.spec(diagram.picture())
        assert len(spec.get("concat", [spec])) == len(panels)
        assert json.dumps(spec, allow_nan=False)
        assert "<svg" in vega_svg(diagram.picture())


@pytest.mark.parametrize("compact", [False, True])
def test_panels_of_the_forest_plot_have_room_beside_their_texts(compact):
    gaps = {f"{kind} scaling": Estimate(-0.012, low=-0.02, high=-0.01) for kind in "abcde"}
    metrics = ("log loss", "Brier score", "ECE", "accuracy")
    found = PairedDifferences.of(dict.fromkeys(metrics, gaps), "raw").plot(compact=compact)
    found.figure_.draw_without_rendering()
    assert min(ax.get_window_extent().width for ax in found.axes_) / found.figure_.dpi > 0.6
    wide = Figure(figsize=(16, 4)).add_subplot()
    beside = PairedDifferences.of(dict.fromkeys(metrics, gaps), "raw").plot(ax=wide)
    wide.figure.draw_without_rendering()
    assert len({ax.get_window_extent().y0 for ax in beside.axes_}) == 1
