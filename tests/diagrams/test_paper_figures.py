"""Figures for papers: displays inside given axes, rcParams, overlays, folds and options."""

import itertools

import numpy as np
import pytest
from cycler import cycler
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import probaudit as pb
from probaudit import diagrams
from probaudit.diagrams import palette
from probaudit.diagrams.matplotlib_drawer import draw
from probaudit.diagrams.picture import Axis, Panel, Picture, Points

from .test_drawers import CALLS, THREE, TWO

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


def two(function, *rows, **choices):
    """The diagrams of two models on the same rows."""
    return [diagrams.named(function)(TWO.y, p, *rows, **choices) for p in (TWO.mcs, TWO.cal)]


NO_FIT = {"calibrator": "none", "resamples": 20}
OVER = {
    "grouping_diagram": ([np.c_[TWO.y, TWO.mcs]], {"lens": pb.Binary()}),
    "interval_wise_diagram": ([], {"resamples": 20}),
    "risk_curve_diagram": ([], {"calibrator": "none"}),
    "top_k_diagram": ([], {"resamples": 20}),
}


@pytest.mark.parametrize("function", OVER)
def test_other_diagrams_overlay_models_too(function):
    (rows, choices), ax = OVER[function], Figure(figsize=(6, 5)).add_subplot()
    first, second = two(function, *rows, **choices)
    axes = first.plot(ax, name="A").axes_
    assert second.plot(ax, name="B").axes_ == axes
    names = [name.split(":")[0] for name in legend_names(ax)]
    assert names.count("A") == names.count("B") >= 1
    handles = dict(zip(legend_names(ax), ax.get_legend().legend_handles, strict=True))
    colours = [face_or_line(h) for name, h in handles.items() if name[0] in "AB"]
    assert len(set(colours)) == len(colours)


def test_diagrams_of_stacked_bars_refuse_overlays():
    for found, reason in (
        (two("decision_regions_diagram", [[0, 1, 0.1], [5, 0, 0.1]]), "stacked bars would hide"),
        (two("partition_composition_diagram", TWO.y == 0), "stacked bars fill"),
        (two("loss_budget_diagram", np.c_[TWO.y, TWO.mcs], **NO_FIT), "stacked bars have a colour"),
    ):
        ax = Figure().add_subplot()
        found[0].plot(ax, name="A")
        before = len(ax.get_children())
        with pytest.raises(pb.InputError, match=reason) as raised:
            found[1].plot(ax, name="B")
        assert raised.value.argument == "ax"
        assert len(ax.get_children()) == before


def test_overlays_need_the_same_axes_panels_and_categories():
    ax = Figure().add_subplot()
    reliability(ax=ax)
    with pytest.raises(pb.InputError, match="same axes"):
        diagrams.SweepDisplay.from_predictions(TWO.y, TWO.mcs, ax=ax)
    with pytest.raises(pb.InputError, match=r"same panels.*1 and 2 panels"):
        diagrams.ScoreIntervalsDisplay.from_predictions(TWO.y, TWO.mcs, ax=ax)
    ax, by = Figure().add_subplot(), np.where(np.arange(400) % 2, "a", "b")
    errors = diagrams.named("group_errors_diagram")
    errors(TWO.y, TWO.mcs, by=by, resamples=20).plot(ax)
    other = errors(TWO.y, TWO.mcs, by=np.where(by == "a", "a", "c"), resamples=20)
    with pytest.raises(pb.InputError, match=r"same categories.*'b \(200\)', 'c \(200\)'"):
        other.plot(ax)


def test_models_are_matched_by_class_and_by_group():
    """The worst class or group of one model need not be that of the other."""
    rng = np.random.default_rng(0)
    y, by = rng.integers(0, 2, 3000), np.repeat(["a", "b"], 1500)
    outputs = [np.where(by == worse, 0.9 * y, 0.5 * y + 0.2) for worse in "ab"]
    found = [diagrams.named("group_errors_diagram")(y, p, by=by, resamples=20) for p in outputs]
    assert found[0].name.tolist() == found[1].name.tolist()[::-1]
    ax = Figure().add_subplot()
    for one, name in zip(found, "AB", strict=True):
        one.plot(ax, name=name)
    shown = [text.get_text() for text in ax.get_yticklabels()]
    assert [name[0] for name in shown] == found[0].name.tolist()
    for one, container in zip(found, [c for c in ax.containers if len(c) == 2], strict=True):
        widths = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in container}
        expected = dict(zip(one.name.tolist(), one.error, strict=True))
        drawn = {shown[place][0]: width for place, width in widths.items()}
        assert drawn == pytest.approx(expected)
    other = THREE.mcs * [1, 4, 1]
    outputs = (THREE.mcs, other / other.sum(axis=1, keepdims=True))
    classes = [diagrams.named("classwise_diagram")(THREE.y, p) for p in outputs]
    assert classes[0].classes != classes[1].classes
    ax = Figure(figsize=(8, 8)).add_subplot()
    axes, _ = (one.plot(ax, name=name).axes_ for one, name in zip(classes, "AB", strict=True))
    for name, panel in zip(classes[0].classes, axes, strict=True):
        assert panel.get_title() == f"class {name}"  # errors of one model would mislead
        drawn = {tuple(at) for c in panel.collections for at in np.round(c.get_offsets(), 9)}
        for one in classes:
            own = one.each[one.classes.index(name)]
            points = np.round(np.column_stack([own.stated, own.observed]), 9)
            assert {tuple(at) for at in points} <= drawn


def test_bars_of_many_models_stand_side_by_side():
    ax = Figure().add_subplot()
    for k in range(4):
        (one, _) = two("interval_wise_diagram", resamples=20)
        axes = one.plot(ax, name=f"model {k}").axes_
    bars = [bar.get_window_extent() for bar in axes[1].patches]
    assert len(bars) == 4 * 3
    assert not any(one.overlaps(other) for k, one in enumerate(bars) for other in bars[:k])
    places = [bar.get_y() + bar.get_height() / 2 for bar in axes[1].patches]
    np.testing.assert_allclose(np.mean(np.reshape(places, (4, 3)), axis=0), [0, 1, 2], atol=1e-9)


def test_histograms_of_models_share_a_scale():
    """Of calibration and sharpness too, where the density tells how sharp each model is."""
    ax = Figure().add_subplot()
    found = two("calibration_sharpness_diagram")
    for one, name in zip(found, "AB", strict=True):
        one.plot(ax, name=name, hist=True)
    edges = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 101]
    heights = [max(edge) for edge in edges if min(edge) >= 0 and max(edge) < 0.25]
    peaks = [one.density.max() for one in found]
    assert peaks[0] != pytest.approx(peaks[1])
    assert heights[0] / heights[1] == pytest.approx(peaks[0] / peaks[1])


def test_references_of_models_are_drawn_once_or_in_their_colour():
    ax = Figure().add_subplot()
    rows = TWO.y, np.r_[np.zeros(200, int), TWO.y[200:]]
    for name, y in zip("AB", rows, strict=True):
        diagrams.DecisionCurveDisplay.from_predictions(y, TWO.mcs, ax=ax, name=name)
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert [to_hex(line.get_color()) for line in dashed] == [
        palette.COLOURS["reference"],
        palette.SERIES[1].lower(),
    ]
    flat = [line for line in ax.lines if not np.any(line.get_ydata())]
    assert len(flat) == 1  # to act on none is the same for all


def test_an_overlay_keeps_the_letters_of_a_compact_figure():
    found = diagrams.RiskCoverageDisplay.from_predictions(TWO.y, TWO.mcs, name="A", compact=True)
    (size,) = {text.get_fontsize() for text in found.ax_.get_legend().get_texts()}
    width = {line.get_label(): line.get_linewidth() for line in found.ax_.lines}["A"]
    diagrams.RiskCoverageDisplay.from_predictions(TWO.y, TWO.cal, name="B", ax=found.ax_)
    assert {text.get_fontsize() for text in found.ax_.get_legend().get_texts()} == {size}
    assert {line.get_label(): line.get_linewidth() for line in found.ax_.lines}["B"] == width
    assert found.figure_.get_size_inches()[0] == pytest.approx(3.3)


def boxes_of(ax):
    """Points and intervals of axes, in pixels."""
    for collection in ax.collections:
        yield from ax.transData.transform(collection.get_offsets())
        if hasattr(collection, "get_segments"):
            for segment in collection.get_segments():
                yield from ax.transData.transform(np.linspace(*segment, 50))


@pytest.mark.parametrize("compact", [False, True])
def test_the_legend_of_a_new_figure_hides_no_mark(compact):
    """With intervals near all corners, the legend stands below the axes."""
    y, p = np.tile([0, 1], 15), np.repeat((np.arange(15) + 0.5) / 15, 2)
    found = diagrams.ReliabilityDisplay.from_predictions(y, p, compact=compact, hist=False)
    found.figure_.draw_without_rendering()
    legend = found.ax_.get_legend().get_window_extent()
    assert not any(legend.contains(x, y) for x, y in boxes_of(found.ax_))
    assert inside(legend, found.figure_.bbox)
    assert legend.y1 <= found.ax_.xaxis.get_tightbbox().y0
    width, height = found.figure_.get_size_inches()
    assert width == pytest.approx(3.3) if compact else width >= height


def test_a_given_place_of_the_legend_is_kept():
    found = reliability(legend_kw={"loc": "center"})
    found.figure_.draw_without_rendering()
    box, area = found.ax_.get_legend().get_window_extent(), found.ax_.bbox
    middle = [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]
    np.testing.assert_allclose(middle, [(area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2], atol=1.5)


@pytest.mark.parametrize("size", [(6.4, 4.8), (12, 9)])
def test_numbers_of_narrow_axes_do_not_overlap(size):
    x = np.array([-0.0045, 0.0047])
    panel = Panel((Points(x, np.arange(2.0)),), Axis("x"), Axis("", categories=("a", "b")))
    with rc_context({"figure.figsize": size}):
        found = draw(Picture((panel,) * 4, "Narrow", "narrow"))
    found.figure_.draw_without_rendering()
    for ax in found.axes_:
        low, high = ax.get_xlim()
        shown = [t for t in ax.xaxis.get_major_ticks() if low <= t.get_loc() <= high]
        boxes = [tick.label1.get_window_extent() for tick in shown]
        assert boxes
        assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))


def test_titles_of_new_figures_are_not_clipped(display):
    for compact in (False, True):
        display.plot(compact=compact)
        display.figure_.draw_without_rendering()
        (host, *_) = display.figure_.axes
        for ax in (host, *display.axes_):
            assert inside(ax.title.get_window_extent(), display.figure_.bbox)


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
        ("loss_budget_diagram", {"legend": True}, "legend"),
        ("loss_budget_diagram", {"legend_kw": {"ncols": 2}}, "legend_kw"),
        ("top_k_diagram", {"color": "red"}, "color"),
        ("reliability_diagram", {"legend": False, "legend_kw": {"ncols": 2}}, "legend_kw"),
        ("reliability_diagram", {"compact": True}, "compact"),
    ],
)
def test_no_option_is_ignored(function, options, argument):
    found = CALLS[function](diagrams.named(function))
    ax = Figure().add_subplot()
    with pytest.raises(pb.InputError) as raised:
        found.plot(ax, **options)
    assert raised.value.argument == argument
    assert not ax.has_data()  # refused before anything is drawn
    assert not ax.child_axes


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
