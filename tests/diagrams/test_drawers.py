"""Both drawers draw every diagram of the package; tests compare marks, not pixels."""

import base64
import json
import re
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib import rc_context, rcParams
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import probaudit as pb
from probaudit import diagrams
from probaudit.diagrams import palette, picture, vega_drawer
from probaudit.diagrams.diagram import HIGH, LOW
from probaudit.diagrams.matplotlib_drawer import draw
from probaudit.diagrams.picture import Axis, Band, Bars, Line, Panel, Picture, Points, Rule, Text

THREE = pb.simulate.gaussian_posteriors(400, 3, seed=1)
TWO = pb.simulate.gaussian_posteriors(400, 2, seed=2)
WORLD = pb.simulate.neural_outputs(1500)
COSTS = [[0, 1, 0.1], [5, 0, 0.1]]
CALLS = {
    "calibration_sharpness_diagram": lambda f: f(THREE.y, THREE.mcs),
    "classwise_diagram": lambda f: f(THREE.y, THREE.mcs),
    "decision_curve_diagram": lambda f: f(TWO.y, TWO.mcs, others={"other": TWO.cal}),
    "decision_regions_diagram": lambda f: f(TWO.y, TWO.mcs, COSTS),
    "group_errors_diagram": lambda f: f(THREE.y, THREE.mcs, resamples=20),
    "grouping_diagram": lambda f: f(WORLD.y, WORLD.scores, WORLD.features, lens=pb.Binary()),
    "interval_wise_diagram": lambda f: f(TWO.y, TWO.mcs, resamples=20),
    "loss_budget_diagram": lambda f: f(
        WORLD.y, WORLD.scores, WORLD.features, calibrator="none", resamples=20
    ),
    "partition_composition_diagram": lambda f: f(THREE.y, THREE.mcs, THREE.y == 0),
    "reliability_diagram": lambda f: f(THREE.y, THREE.mcs),
    "risk_coverage_diagram": lambda f: f(THREE.y, THREE.mcs),
    "risk_curve_diagram": lambda f: f(TWO.y, TWO.mcs),
    "score_intervals_diagram": lambda f: f(THREE.y, THREE.mcs),
    "smooth_calibration_diagram": lambda f: f(THREE.y, THREE.mcs),
    "sweep_diagram": lambda f: f(THREE.y, THREE.mcs),
    "top_k_diagram": lambda f: f(THREE.y, THREE.mcs, resamples=20),
}

X, Y = np.array([0.1, 0.5, 0.4]), np.array([0.2, np.nan, 0.123456789])
EVERYTHING = Picture(
    (
        Panel(
            (
                Band(X, Y - 0.1, Y + 0.1, role="null", name="range"),
                Line(
                    X,
                    Y,
                    role="model",
                    name="model",
                    detail={"rows": np.array([1, 2, 30000]), "who": ["a", "b", "c"]},
                ),
                Line(X, Y, dashed=True, step=True, role="series 3"),
                Points(
                    X,
                    X,
                    X - 0.05,
                    X + 0.05,
                    size=np.array([0.25, 0.5, 1.0]),
                    role="observed",
                    name="observed",
                ),
                Points(X, X, X - 0.05, X + 0.05, across=True, role="over"),
                Rule(role="reference", name="diagonal"),
                Rule(x=0.3, role="reference"),
                Rule(y=0.7, role="reject"),
                Text(0.2, 0.9, "costs $5\nand 50% more", anchor="end"),
            ),
            Axis("x", 0, 1, percent=True),
            Axis("y"),
            title="first",
            square=True,
        ),
        Panel(
            (
                Bars(X, X + 0.1, 0 * X, X * 1e5, role="density", name="rows"),
                Bars(X, X + 0.1, 0 * X, X, faint=True),
            ),
            Axis("x", 0, 1),
            Axis("rows", 0),
            share=0.3,
        ),
        Panel(
            (Points(np.array([1.0, 10, 100]), np.arange(3.0), role="under"),),
            Axis("cost", scale="log"),
            Axis("", categories=('a "quoted" </script>', "it's\\", "c[0]")),
        ),
    ),
    title="Everything <b>",
    description='All marks & "axes"',
    caption="What to look for. " * 8,
)


@dataclass(frozen=True, eq=False)
class Given(diagrams.Diagram):
    """A diagram that shows a given picture."""

    given: Picture

    def picture(self):
        return self.given

    def columns(self):
        return {"x": X, "y": Y}


@pytest.fixture(scope="module", params=[*CALLS, "everything"])
def found(request):
    name = request.param
    return Given(EVERYTHING) if name == "everything" else CALLS[name](diagrams.named(name))


def test_every_diagram_is_tested():
    assert set(CALLS) == set(diagrams.DIAGRAMS)


def test_every_diagram_has_a_display():
    for name, function in diagrams.DISPLAYS.items():
        display = getattr(diagrams, name)
        assert issubclass(display, diagrams.Display)
        assert display is getattr(diagrams, name)
        assert (display.__name__, display.function) == (name, function)
    assert set(diagrams.DISPLAYS.values()) == set(CALLS)


def test_tables_have_names_for_people(found):
    columns = found.columns()
    assert len({len(column) for column in columns.values()}) == 1
    assert not {"low", "high", "null", "stated", "left", "right", "share"} & set(columns)
    assert not any("_" in name or not name for name in columns)
    assert set(found.percents) <= set(columns)
    places = {name: k for k, name in enumerate(columns)}
    if LOW in places:  # right after its number, before the other end
        assert places[HIGH] == places[LOW] + 1
    shares = [panel for panel in found.picture().panels if panel.x.percent or panel.y.percent]
    if shares and not any(panel.histogram for panel in shares) and len(columns) > 2:
        assert found.percents, "the axis is in percent, the table is not"


def same(found, expected):
    np.testing.assert_allclose(
        np.asarray(found, float), np.asarray(expected, float), rtol=1e-5, atol=1e-12
    )


def test_matplotlib_draws_the_marks(found):
    shown = found.picture().folded()
    drawing = found.plot()
    assert len(drawing.axes_) == len(shown.panels)
    for panel, ax in zip(shown.panels, drawing.axes_, strict=True):
        lines, collections, patches, texts = (
            iter(ax.lines),
            iter(ax.collections),
            iter(ax.patches),
            iter(ax.texts),
        )
        for mark in panel.marks:
            if isinstance(mark, Line):
                line = next(lines)
                same(line.get_xdata(), mark.x)
                same(line.get_ydata(), mark.y)
                assert line.get_color() == palette.colour(mark.role)
                assert (line.get_drawstyle() == "steps-post") == mark.step
            elif isinstance(mark, Rule):
                line = next(lines)
                ends = panel.diagonal()
                same(
                    line.get_xdata(),
                    [mark.x] * 2 if mark.x is not None else [0, 1] if mark.y is not None else ends,
                )
                same(
                    line.get_ydata(),
                    [mark.y] * 2 if mark.y is not None else [0, 1] if mark.x is not None else ends,
                )
            elif isinstance(mark, Band):
                vertices = np.concatenate([path.vertices for path in next(collections).get_paths()])
                for x, low, high in zip(mark.x, mark.low, mark.high, strict=True):
                    for y in (low, high):
                        assert np.isnan(y) or np.isclose(vertices, [x, y]).all(axis=1).any()
            elif isinstance(mark, Points):
                if mark.low is not None:
                    segments = next(collections)
                    assert isinstance(segments, LineCollection)
                    along = 0 if mark.across else 1
                    same(
                        [s[:, along] for s in segments.get_segments()],
                        np.column_stack([mark.low, mark.high]),
                    )
                points = next(collections)
                same(points.get_offsets(), np.column_stack([mark.x, mark.y]))
                if mark.size is not None:
                    largest = (1.8 * rcParams["lines.markersize"]) ** 2
                    same(points.get_sizes() / largest, np.maximum(mark.size, 0.2))
            elif isinstance(mark, Bars):
                for left, right, bottom, top in zip(
                    mark.left, mark.right, mark.bottom, mark.top, strict=True
                ):
                    bar = next(patches)
                    same([bar.get_x(), bar.get_width(), bar.get_y()], [left, right - left, bottom])
                    same(bar.get_height(), top - bottom)
            elif isinstance(mark, Text):
                text = next(texts)
                if mark.x is None:  # in the margin
                    assert text.xy == (1.0, mark.y)
                else:
                    assert text.get_position() == (mark.x, mark.y)
                assert text.get_text().replace(r"\$", "$") == mark.text
        assert all(next(left, None) is None for left in (lines, collections, patches, texts))
        same(sorted(ax.get_xlim()), panel.extent("x"))
        same(sorted(ax.get_ylim()), panel.extent("y"))
    assert drawing._repr_png_().startswith(b"\x89PNG")


def column(layer, name):
    return [np.nan if row[name] is None else row[name] for row in layer["data"]["values"]]


def test_vega_draws_the_marks(found):
    shown = found.picture()
    whole = vega_drawer.spec(shown)
    panels = whole.get("concat", [whole])
    assert len(panels) == len(shown.panels)
    names = (
        [row["name"] for row in panels[0]["layer"].pop()["data"]["values"]]
        if has_legend(shown)
        else []
    )
    assert names == list(
        dict.fromkeys(mark.name for panel in shown.panels for mark in panel.marks if mark.name)
    )
    for panel, drawn in zip(shown.panels, panels, strict=True):
        layers = iter(drawn["layer"])
        for mark in panel.marks:
            layer = next(layers)
            if isinstance(mark, Points) and mark.low is not None:
                along = "x" if mark.across else "y"
                same(column(layer, along), mark.low)
                same(column(layer, along + "2"), mark.high)
                layer = next(layers)
            if isinstance(mark, (Line, Points)):
                same(column(layer, "x"), mark.x)
                same(column(layer, "y"), mark.y)
                if isinstance(mark, Points) and mark.size is not None:
                    same(
                        np.array(column(layer, "size")) / 300,
                        np.maximum(mark.size, 81 / 300),
                    )
            elif isinstance(mark, (Band, Bars)):
                ends = {"x": "x", "y": "low", "y2": "high"}
                if isinstance(mark, Bars):
                    ends = {"x": "left", "x2": "right", "y": "bottom", "y2": "top"}
                for field, name in ends.items():
                    same(column(layer, field), getattr(mark, name))
            elif isinstance(mark, Rule):
                at = {side: layer["encoding"][side].get("datum") for side in ("x", "y")}
                assert at == {
                    side: None if end is None else pytest.approx(end)
                    for side, end in (("x", mark.x), ("y", mark.y))
                }
            else:
                assert layer["mark"]["text"] == mark.text.split("\n")
                x = {"value": "width"} if mark.x is None else {"datum": pytest.approx(mark.x)}
                assert layer["encoding"]["x"] == x
                same(layer["encoding"]["y"]["datum"], mark.y)
            if mark.detail and not isinstance(mark, Band):
                tooltip = layer["encoding"]["tooltip"]
                assert [shown["title"] for shown in tooltip] == list(mark.detail)
                for entry, values in zip(tooltip, mark.detail.values(), strict=True):
                    if np.asarray(values).dtype.kind in "iuf":
                        same(column(layer, entry["field"]), values)
            if mark.name:
                assert layer["encoding"]["color"] == {"datum": mark.name}
            elif not isinstance(mark, Text):
                assert layer["mark"]["color"] in (
                    palette.colour(mark.role),
                    vega_drawer._paint(mark),
                )
        assert next(layers, None) is None
        for side in ("x", "y"):
            same(drawn["encoding"][side]["scale"]["domain"], panel.extent(side))
    assert whole["description"] == shown.description


def has_legend(shown):
    return any(mark.name for panel in shown.panels for mark in panel.marks)


def test_altair_accepts_the_specification():
    """`from_dict` validates against the schema of Vega-Lite."""
    import altair as alt

    several = Given(EVERYTHING).to_vega_lite()
    one = Given(Picture(EVERYTHING.panels[:1], "One", "one")).to_vega_lite(theme="dark")
    assert isinstance(alt.Chart.from_dict(several), alt.ConcatChart)
    assert isinstance(alt.Chart.from_dict(one), alt.LayerChart)
    assert several["$schema"] == alt.SCHEMA_URL.replace(alt.SCHEMA_VERSION, "v6")
    assert json.dumps(several, allow_nan=False)


def vega_svg(shown):
    """Vega compiles and runs the specification."""
    import vl_convert

    return vl_convert.vegalite_to_svg(vega_drawer.document(shown))


def test_svg_of_vega_has_text_and_marks(found):
    """Titles, names and axes appear as text."""
    shown = found.picture()
    svg = vega_svg(shown)
    words = "".join(part.split("<")[0] for part in svg.split(">"))
    texts = [shown.title, shown.caption] + [
        text for p in shown.panels for text in (p.x.title, p.y.title, p.title)
    ]
    for text in texts:
        assert "".join(escaped(text).split()) in "".join(words.split())
    assert "NaN" not in svg


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def test_names_are_text():
    svg = vega_svg(EVERYTHING)
    assert "</script>" not in svg
    assert "Everything <b>" not in svg
    for name in EVERYTHING.panels[2].y.categories:
        assert escaped(name) in svg.replace("&quot;", '"'), name
    drawing = draw(EVERYTHING)
    names = [tick.get_text() for tick in drawing.axes_[2].get_yticklabels()]
    assert names == [name.replace("$", r"\$") for name in EVERYTHING.panels[2].y.categories]


def test_the_first_category_is_on_top():
    drawing = draw(EVERYTHING)
    low, high = drawing.axes_[2].get_ylim()
    assert low > high
    assert vega_drawer.spec(EVERYTHING)["concat"][2]["encoding"]["y"]["scale"]["reverse"] is True


def test_the_decision_curve_shows_all_thresholds_and_its_band():
    outputs = np.full(400, 0.3)  # useful up to 0.3 only
    found = diagrams.net_benefit.decision_curve_diagram(TWO.y, outputs)
    (panel,) = found.picture().panels
    (band,) = (mark for mark in panel.marks if isinstance(mark, Band))
    assert panel.extent("x") == (0.0, 1.0)
    assert panel.extent("y")[1] > band.high.max()
    few = diagrams.net_benefit.decision_curve_diagram(TWO.y, outputs, thresholds=[0.1, 0.2])
    assert 0.2 < few.picture().panels[0].extent("x")[1] < 0.25


def test_probabilities_are_in_percent():
    names = ("reliability_diagram", "smooth_calibration_diagram", "grouping_diagram")
    for name in names:
        found = CALLS[name](getattr(diagrams, name))
        panel = found.picture().panels[0]
        assert panel.x.percent
        assert panel.y.percent
        assert {"predicted", "observed"} <= set(found.percents)


def test_ticks_of_a_short_axis_differ():
    marks = (Points(np.array([-0.002, 0.002]), np.array([0.0, 1.0])),)
    axes = Axis("gain", percent=True), Axis("y", percent=True)
    drawn = vega_drawer.spec(Picture((Panel(marks, *axes),), "t", "d"))
    assert drawn["encoding"]["x"]["axis"]["format"] == ".2%"
    assert drawn["encoding"]["y"]["axis"]["format"] == ".0%"


def test_dashed_lines_are_dashed_in_the_legend():
    dashed = Line(X, Y, dashed=True, role="reference", name="same decision")
    solid = Line(X, Y, role="model", name="model")
    drawn = vega_drawer.spec(Picture((Panel((dashed, solid), Axis("x"), Axis("y")),), "t", "d"))
    entry = drawn["layer"][-1]["encoding"]
    assert entry["color"]["scale"]["range"] == [
        palette.colour("reference"),
        palette.colour("model"),
    ]
    dashes, line = entry["shape"]["scale"]["range"]
    assert dashes.count("Z") == 3
    assert line.count("Z") == 1


def test_widths():
    one = Picture(EVERYTHING.panels[:1], "One", "one")
    assert vega_drawer.spec(one, width="container")["width"] == "container"
    narrow = vega_drawer.spec(one, width=300)
    assert narrow["width"] < 300
    assert narrow["height"] == narrow["width"]
    grid = vega_drawer.spec(EVERYTHING, width=400)
    assert {panel["width"] for panel in grid["concat"]} == {400 - grid["usermeta"]["beside"]}
    assert vega_drawer.spec(EVERYTHING, width="container")["usermeta"]["columns"] == 1
    assert "title" not in vega_drawer.spec(EVERYTHING, titled=False)
    wrapped = vega_drawer.spec(EVERYTHING, width=400)["title"]["subtitle"]
    assert max(map(len, wrapped)) <= 400 / vega_drawer.LETTER


def test_themes_differ_only_in_the_configuration():
    one = Picture(EVERYTHING.panels[1:2], "One", "one")
    light, dark = (vega_drawer.document(one, theme=name) for name in ("light", "dark"))
    assert light.pop("config") != dark.pop("config")
    assert light == dark
    assert (
        vega_drawer.configured(True)["axis"].keys() == vega_drawer.configured(False)["axis"].keys()
    )


def contrast(one, other):
    def luminance(colour):
        parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_has_contrast():
    """At least 4.5 to 1 for text (WCAG 2.2, 1.4.3), on the page's backgrounds."""
    for dark, paper in ((False, "#ffffff"), (True, "#16181d")):
        config = vega_drawer.configured(dark)
        for part in ("axis", "legend", "title", "text"):
            for key, value in config[part].items():
                if key.lower().endswith("color") and not key.startswith(("grid", "tick", "domain")):
                    assert contrast(value, paper) >= 4.5, (dark, part, key)


def test_every_role_has_a_colour():
    assert set(palette.COLOURS) == set(picture.Role.__args__)


def test_specifications_are_small():
    sizes = {
        name: len(json.dumps(vega_drawer.spec(call(diagrams.named(name)).picture())))
        for name, call in CALLS.items()
    }
    assert max(sizes.values()) < 64_000, sizes


def test_drawing_into_given_axes():
    one = Picture(EVERYTHING.panels[1:2], "Rows", "rows")
    ax = Figure().subplots()
    drawing = draw(one, ax)
    assert drawing.ax_ is ax
    assert drawing.figure_ is ax.figure
    assert drawing._repr_png_() is None  # whoever made the figure shows it
    assert ax.get_title() == ""
    assert draw(one, Figure().subplots(), title=True).ax_.get_title() == "Rows"
    axes = Figure().subplots(1, 2)
    drawing = draw(EVERYTHING, axes[1])
    assert len(drawing.axes_) == 3
    place = axes[1].get_position()
    assert all(
        ax.get_position().x0 >= place.x0 - 1e-9 and ax.get_position().x1 <= place.x1 + 1e-9
        for ax in drawing.axes_
    )
    free = Figure().add_axes((0.1, 0.1, 0.8, 0.8))
    assert len(draw(EVERYTHING, free).axes_) == 3


def test_save(tmp_path):
    shown = Given(EVERYTHING)
    for kind, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        shown.save(tmp_path / f"a{kind}")
        content = (tmp_path / f"a{kind}").read_bytes()
        assert content.startswith(start)
        shown.save(tmp_path / f"b{kind}")
        assert (tmp_path / f"b{kind}").read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 6  # nothing temporary is left
    with pytest.raises(pb.InputError, match=r"\.png"):
        shown.save(tmp_path / "a.jpeg")
    with pytest.raises(pb.InputError, match="folder"):
        shown.save(tmp_path / "none" / "a.png")


def png_size(content):
    """Width and height in the header of a PNG file."""
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def test_files_have_the_size_and_fonts_that_were_asked_for(tmp_path):
    shown = Given(Picture(EVERYTHING.panels[1:2], "Rows <b>", "all & rows"))
    with rc_context({"figure.figsize": (5, 3), "figure.dpi": 100, "svg.fonttype": "none"}):
        for name, options in (("a", {}), ("b", {"compact": True, "title": "Ours"})):
            shown.save(tmp_path / f"{name}.png", **options)
            shown.save(tmp_path / f"{name}.svg", **options)
    with rc_context({"figure.figsize": (5, 3), "savefig.dpi": 50}):
        shown.save(tmp_path / "c.png")
    sizes = [png_size((tmp_path / f"{name}.png").read_bytes()) for name in "abc"]
    assert sizes[0] == (1000, 600)  # twice figure.dpi
    assert sizes[1][0] == 660  # 3.3 inches
    assert sizes[2] == (250, 150)
    first, second = ((tmp_path / f"{name}.svg").read_text() for name in "ab")
    assert ">Rows &lt;b&gt;</text>" in first
    assert ">Ours</text>" in second
    for content in (first, second):
        assert "<dc:description>all &amp; rows</dc:description>" in content
    with pytest.raises(TypeError, match="colour"):
        shown.save(tmp_path / "d.svg", colour="red")
    assert not (tmp_path / "d.svg").exists()


def test_notebook():
    page = Given(EVERYTHING)._repr_html_()
    start = '<figure style="margin:0"><img alt="All marks &amp; &quot;axes&quot;" width="'
    assert page.startswith(start)
    assert f"<figcaption>{EVERYTHING.caption}</figcaption></figure>" in page
    assert page.count("<") == 5
    width, content = re.search('width="([0-9]+)".*base64,([^"]+)"', page).groups()
    assert png_size(base64.b64decode(content))[0] == 2 * int(width)


def test_frame(monkeypatch):
    shown = Given(EVERYTHING)
    assert list(shown.to_frame().columns) == ["x", "y"]
    monkeypatch.setattr("probaudit.diagrams.diagram.find_spec", lambda name: None)
    assert shown.to_frame().keys() == {"x", "y"}


def test_displays():
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.where(X[:, 0] + np.random.default_rng(1).normal(size=300) > 0, "yes", "no")
    model = LogisticRegression().fit(X, y)
    shown = diagrams.ReliabilityDisplay.from_estimator(model, X, y, bins=10)
    same = diagrams.ReliabilityDisplay.from_predictions(
        y, model.predict_proba(X), classes=["no", "yes"], bins=10
    )
    assert (
        shown.diagram.error
        == same.diagram.error
        == diagrams.reliability_diagram(
            y, model.predict_proba(X), classes=["no", "yes"], bins=10
        ).error
    )
    assert shown._repr_png_().startswith(b"\x89PNG")
    ax = Figure().subplots()
    assert shown.plot(ax) is shown
    assert shown.figure_ is ax.figure
    assert shown.ax_ in ax.figure.axes
    for display in (
        diagrams.ScoreIntervalsDisplay,
        diagrams.SmoothCalibrationDisplay,
        diagrams.ClasswiseDisplay,
    ):
        assert display.from_estimator(model, X, y).figure_ is not None
    with pytest.raises(pb.InputError, match="predict_proba"):
        diagrams.ReliabilityDisplay.from_estimator(object(), X, y)
    with pytest.raises(pb.InputError, match="classes_"):
        diagrams.ReliabilityDisplay.from_estimator(type("M", (), {"predict_proba": None})(), X, y)


def test_nothing_heavy_or_global_is_touched():
    script = """
import sys, probaudit, probaudit.diagrams as d
heavy = {"matplotlib", "scipy", "sklearn", "numba", "pandas"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
found = d.reliability_diagram([0, 1, 1, 0], [0.2, 0.8, 0.6, 0.4])
assert "matplotlib" not in sys.modules
import matplotlib
before = matplotlib.rcParams.copy()
found.plot()._repr_png_()
found._repr_html_()
found.to_vega_lite()
assert not {"matplotlib.pyplot", "altair", "vl_convert"} & set(sys.modules)
assert matplotlib.rcParams.copy() == before
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)


def test_unknown_names():
    with pytest.raises(AttributeError, match="nothing"):
        diagrams.nothing  # noqa: B018
    assert "reliability_diagram" in dir(diagrams)


def test_a_drawing_is_saved_and_says_what_it_is(tmp_path):
    drawing = pb.audit(TWO.y, TWO.mcs, repair=False).plot(name="A")
    drawing.save(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
    assert repr(drawing).startswith("Drawing(1 panel, ")
    assert ".save(path)" in repr(drawing)
