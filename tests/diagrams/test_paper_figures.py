"""Figures for papers: displays inside given axes, rcParams, overlays, folds and options."""

import numpy as np
import pytest
from cycler import cycler
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import probaudit as pb
from probaudit import diagrams
from probaudit.diagrams import palette

from .test_drawers import CALLS, TWO

OVERLAID = (
    "ReliabilityDisplay",
    "SmoothCalibrationDisplay",
    "DecisionCurveDisplay",
    "RiskCoverageDisplay",
    "CalibrationSharpnessDisplay",
    "SweepDisplay",
    "ScoreIntervalsDisplay",
    "GroupErrorsDisplay",
    "ClasswiseDisplay",
)
CURVES = OVERLAID[:6]


@pytest.fixture(scope="module", params=CALLS)
def display(request):
    diagram = CALLS[request.param](diagrams.named(request.param))
    (name,) = (name for name, found in diagrams.DISPLAYS.items() if found == request.param)
    return diagrams.named(name)(diagram)


def reliability(**options):
    return diagrams.ReliabilityDisplay.from_predictions(TWO.y, TWO.mcs, **options)


def legend_names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def inside(box, area):
    slack = 0.5  # px
    return (
        box.x0 >= area.x0 - slack
        and box.x1 <= area.x1 + slack
        and box.y0 >= area.y0 - slack
        and box.y1 <= area.y1 + slack
    )


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_everything_is_inside_the_given_axes(display, layout):
    """Frames of panels in all cases; of several panels also their labels, titles and legend."""
    figure = Figure(figsize=(10, 8), layout=layout)
    grid = figure.subplots(2, 2)
    ax = grid[1, 0]
    display.plot(ax)
    figure.draw_without_rendering()
    assert set(figure.axes) == set(grid.flat)  # panels are children of the given axes
    assert display.axes_ == (ax,) or set(display.axes_) == set(ax.child_axes)
    area = ax.get_window_extent()
    for one in display.axes_:
        assert inside(one.get_window_extent(), area)
    if display.ax_ is not ax:
        boxes = [one.get_tightbbox() for one in display.axes_]
        assert all(inside(box, area) for box in boxes)
        for k, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:k])
        assert min(one.get_window_extent().height for one in display.axes_) > 15
    assert ax.get_title() == ""


def test_default_figures_are_landscape_or_square_without_a_caption(display):
    display.plot()
    width, height = display.figure_.get_size_inches()
    assert width >= height
    caption = display.diagram.picture().caption
    assert caption
    texts = [
        text.get_text() for text in display.figure_.findobj(match=lambda a: hasattr(a, "get_text"))
    ]
    assert not any(caption[:20] in text for text in texts)


def test_compact_figures_are_as_wide_as_a_column(display):
    display.plot(compact=True)
    assert display.figure_.get_size_inches()[0] == pytest.approx(3.3)
    display.figure_.draw_without_rendering()
    page = display.figure_.bbox
    for one in display.axes_:
        assert inside(one.get_tightbbox(), page)


def test_rcparams_are_obeyed():
    with rc_context(
        {
            "font.size": 17,
            "lines.linewidth": 3.5,
            "axes.prop_cycle": cycler(color=["#123456", "#abcdef"]),
            "axes.spines.top": False,
            "figure.figsize": (9, 5),
            "axes.grid": False,
        }
    ):
        found = diagrams.RiskCoverageDisplay.from_predictions(TWO.y, TWO.mcs, name="A")
        diagrams.RiskCoverageDisplay.from_predictions(TWO.y, TWO.cal, name="B", ax=found.ax_)
    ax = found.ax_
    assert tuple(found.figure_.get_size_inches()) == (9, 5)
    assert ax.xaxis.label.get_fontsize() == 17
    assert {text.get_fontsize() for text in ax.get_legend().get_texts()} == {17}
    assert {label.get_fontsize() for label in ax.get_xticklabels()} == {17}
    assert not ax.spines["top"].get_visible()
    models = {line.get_label(): line for line in ax.lines if line.get_label() in "AB"}
    assert [to_hex(models[name].get_color()) for name in "AB"] == ["#123456", "#abcdef"]
    assert models["A"].get_linewidth() == 3.5


def test_fonts_scale_with_rcparams():
    """All letters have sizes relative to font.size."""
    sizes = []
    for size in (8, 16):
        with rc_context({"font.size": size}):
            found = diagrams.named("sweep_diagram")(TWO.y, TWO.mcs).plot()
        found.figure_.draw_without_rendering()
        texts = found.figure_.findobj(match=lambda artist: hasattr(artist, "get_fontsize"))
        sizes.append([text.get_fontsize() for text in texts if text.get_text()])
    np.testing.assert_allclose(min(sizes[1]), 2 * min(sizes[0]))
    np.testing.assert_allclose(max(sizes[1]), 2 * max(sizes[0]))


@pytest.mark.parametrize("name", OVERLAID)
def test_two_models_on_one_axes(name):
    ax = Figure(figsize=(6, 5)).add_subplot()
    one = getattr(diagrams, name)
    first = one.from_predictions(TWO.y, TWO.mcs, ax=ax, name="A")
    second = one.from_predictions(TWO.y, TWO.cal, ax=ax, name="B")
    assert first.axes_ == second.axes_
    names = legend_names(ax)
    assert names.count("A") == names.count("B") == 1
    assert len(set(names)) == len(names)
    assert not any(ax.texts for ax in second.axes_)
    handles, labels = ax.get_legend().legend_handles, legend_names(ax)
    colours = [face_or_line(handles[labels.index(name)]) for name in "AB"]
    assert colours == [colour.lower() for colour in palette.SERIES[:2]]


def face_or_line(handle):
    if hasattr(handle, "get_offsets"):
        return to_hex(handle.get_facecolor()[0])
    return to_hex(handle.get_color() if hasattr(handle, "get_color") else handle.get_facecolor())


def test_the_axes_show_all_models():
    ax = Figure().add_subplot()
    found = [
        diagrams.SweepDisplay.from_predictions(TWO.y, p, ax=ax).diagram for p in (TWO.mcs, TWO.cal)
    ]
    tops = [one.picture().panels[0].extent("y")[1] for one in found]
    assert tops[0] < tops[1]
    assert ax.get_ylim()[1] == pytest.approx(tops[1])


def test_given_colours_and_cleared_axes():
    ax = Figure().add_subplot()
    reliability(ax=ax, name="A", color="black")
    marks = [one for one in ax.collections if one.get_label() == "A"]
    assert to_hex(marks[0].get_facecolor()[0]) == "#000000"
    ax.clear()
    reliability(ax=ax, name="B")
    assert legend_names(ax) == ["B", "95% range if calibrated"]


def test_overlays_that_would_hide_something():
    ax = Figure().add_subplot()
    reliability(ax=ax)
    with pytest.raises(pb.InputError, match="same axes"):
        diagrams.SweepDisplay.from_predictions(TWO.y, TWO.mcs, ax=ax)
    ax = Figure().add_subplot()
    diagrams.TopKDisplay.from_predictions(TWO.y, TWO.mcs, resamples=20, ax=ax)
    with pytest.raises(pb.InputError, match="hide"):
        diagrams.TopKDisplay.from_predictions(TWO.y, TWO.cal, resamples=20, ax=ax)


def test_title_legend_and_histogram():
    plain = reliability()
    assert plain.ax_.get_title() == plain.diagram.picture().title
    assert legend_names(plain.ax_)
    bars = len(plain.ax_.patches)
    bare = reliability(title=False, legend=False, hist=False)
    assert bare.ax_.get_title() == ""
    assert bare.ax_.get_legend() is None
    assert bars - len(bare.ax_.patches) == plain.diagram.histogram.shape[1]
    assert reliability(title="Ours", hist=True).ax_.get_title() == "Ours"
    heights = [patch.get_height() for patch in plain.ax_.patches[: bars - len(bare.ax_.patches)]]
    rows = plain.diagram.histogram[2]
    np.testing.assert_allclose(heights / max(heights), rows / rows.max())
    assert 0 < max(heights) < 0.25
    assert plain.ax_.get_xlabel() == bare.ax_.get_xlabel() != ""


def test_keywords_of_artists():
    found = diagrams.SmoothCalibrationDisplay.from_predictions(
        TWO.y,
        TWO.mcs,
        line_kw={"lw": 5},
        band_kw={"alpha": 0.7},
        reference_kw={"ls": ":"},
        hist_kw={"color": "red"},
        legend_kw={"title": "models"},
    )
    by_name = {line.get_label(): line for line in found.ax_.lines}
    assert by_name["observed"].get_linewidth() == 5
    assert any(band.get_alpha() == 0.7 for band in found.ax_.collections)
    assert any(line.get_linestyle() == ":" for line in found.ax_.lines)
    assert any(line.get_color() == "red" for line in found.ax_.lines)
    assert found.ax_.get_legend().get_title().get_text() == "models"
    marked = reliability(marker_kw={"marker": "s", "s": 9}, interval_kw={"lw": 7})
    assert any(7 in one.get_linewidths() for one in marked.ax_.collections)
    assert any(list(one.get_sizes()) == [9] for one in marked.ax_.collections[1:])


@pytest.mark.parametrize(
    ("function", "options", "argument"),
    [
        ("sweep_diagram", {"hist": True}, "hist"),
        ("reliability_diagram", {"line_kw": {"lw": 1}}, "line_kw"),
        ("decision_curve_diagram", {"color": "red"}, "color"),
        ("loss_budget_diagram", {"name": "A"}, "name"),
        ("loss_budget_diagram", {"legend": True}, "legend"),
        ("reliability_diagram", {"legend": False, "legend_kw": {"ncols": 2}}, "legend_kw"),
        ("reliability_diagram", {"compact": True, "ax": "given"}, "compact"),
    ],
)
def test_no_option_is_ignored(function, options, argument):
    found = CALLS[function](diagrams.named(function))
    if "ax" in options:
        options = options | {"ax": Figure().add_subplot()}
    with pytest.raises(pb.InputError) as raised:
        found.plot(**options)
    assert raised.value.argument == argument


def test_unknown_options():
    with pytest.raises(TypeError, match="colour"):
        diagrams.named("sweep_diagram")(TWO.y, TWO.mcs).plot(colour="red")
    with pytest.raises(TypeError, match="lines_kw"):
        reliability(lines_kw={})


def folds(p, count=4):
    return [(TWO.y[k::count], p[k::count]) for k in range(count)]


@pytest.mark.parametrize("name", CURVES)
def test_folds_have_a_mean_and_a_band(name):
    one, ax = getattr(diagrams, name), Figure().add_subplot()
    found = one.from_folds(folds(TWO.mcs), ax=ax, name="A")
    one.from_folds(folds(TWO.cal), ax=ax, name="B")
    assert {"A", "B", "one standard deviation"} <= set(legend_names(ax))
    curves = found.diagram
    kept = np.isfinite(curves.mean)
    assert kept.any()
    (line,) = (line for line in ax.lines if line.get_label() == "A")
    np.testing.assert_allclose(line.get_ydata()[kept], curves.y.mean(axis=0)[kept])
    bands = [band for band in ax.collections if len(band.get_paths())]
    assert len(bands) == 2
    assert found.diagram.to_frame().shape == (len(curves.x), 7)


def test_folds_of_the_same_rows_have_no_deviation():
    """The mean of equal curves is the curve, which passes through the points of the diagram."""
    found = diagrams.ReliabilityDisplay.from_folds([(TWO.y, TWO.mcs)] * 3).diagram
    np.testing.assert_allclose(found.deviation, 0, atol=1e-12)
    one = diagrams.reliability_diagram(TWO.y, TWO.mcs)
    np.testing.assert_allclose(found.mean, np.interp(found.x, one.stated, one.observed))


def test_folds_without_a_single_curve():
    with pytest.raises(pb.InputError, match="at least 2"):
        diagrams.ReliabilityDisplay.from_folds(folds(TWO.mcs, 1))
    with pytest.raises(pb.InputError, match="single curve"):
        diagrams.TopKDisplay.from_folds(folds(TWO.mcs), resamples=20)
    with pytest.raises(pb.InputError, match="sample_weight"):
        diagrams.ReliabilityDisplay.from_folds(folds(TWO.mcs), sample_weight=np.ones(100))
