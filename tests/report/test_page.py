"""Pages: text stays text, nothing is loaded, and figures show the numbers of their diagrams."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from probaudit.audits.finding import Calibrate, Finding, NameGroups
from probaudit.diagrams.diagram import Diagram
from probaudit.diagrams.picture import Axis, Line, Panel, Picture, Points
from probaudit.report.page import (
    Columns,
    CommandLine,
    Control,
    Facts,
    Figure,
    FindingList,
    KeyFigure,
    LossBar,
    LossBars,
    Page,
    Section,
    Segment,
    StepList,
    Table,
    Words,
    as_html,
    as_summary,
)
from probaudit.report.page.colours import PALETTE
from probaudit.report.page.page import _library as library

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'><iframe src=javascript:alert(1)>",
    "</style><style>*{display:none}</style>",
    "</title><h1>x</h1>",
    "<!-- comment",
    "--><b>x</b>",
    "]]><x>",
    "<a href='javascript:alert(1)'>x</a>",
    "{{ 7 * 7 }}",
    "{% for x in y %}",
    "${alert(1)}",
    "`${alert(1)}`",
    "&lt;b&gt;",
    "&#60;b&#62;",
    "\\u003cscript\\u003e",
    "\u2028alert(1)\u2029",
    "<math><mtext></math>",
    "<base href='//example.org'>",
    "<meta http-equiv=refresh content=0>",
    "<link rel=stylesheet href=//example.org/x>",
    "<object data=x>",
    "<form action=x><input name=y>",
    "<details open ontoggle=alert(1)>",
    "<template><p>x",
    "</textarea><b>",
    "</noscript><b>x</b>",
    "x' onmouseover='alert(1)",
    'x" onmouseover="alert(1)',
    "<ScRiPt >alert(1)</sCrIpT>",
]


@dataclass(frozen=True)
class Curve(Diagram):
    name: str = "curve"

    def picture(self) -> Picture:
        x = np.linspace(0, 1, 5)
        marks = (Line(x, x**2, name=self.name), Points(x, x, detail={self.name: [self.name] * 5}))
        panel = Panel(
            marks, Axis(self.name, 0, 1), Axis("y", 0, 1, categories=None), title=self.name
        )
        return Picture((panel,), self.name, self.name, self.name)

    def columns(self) -> dict[str, np.ndarray]:
        return {self.name: np.array([self.name] * 5, object), "y": np.arange(5) / 3}


def page(text: str) -> Page:
    """A page that shows a text wherever a page can show text."""
    figure = Figure(
        "curve",
        {(text,): Curve(text), ("other",): Curve("other")},
        [Control(text, (text, "other"))],
    )
    table = Table(text, (text, text), ((text, text),), words=(0, 1), tips={text: text})
    parts = [Segment(0.5, text, "rest"), Segment(0.7, text, "calibration")]
    columns = Columns(
        [Figure("inner", {(): Curve(text)}, large=True)],
        [LossBars(text, [LossBar(text, parts)]), CommandLine(text, text)],
    )
    blocks = (
        Words(text),
        FindingList([Finding("bad", text, advice=(text,))]),
        StepList([Finding("bad", text, advice=(text,), reference=text)]),
        Facts([(text, text)]),
        table,
        figure,
        columns,
    )
    return Page(
        text,
        text,
        text,
        "bad",
        [
            Section("one", text, blocks, text),
            Section("two", text, [Words(text)], text, folded=True),
            Section("three", text, [Words(text)], headed=False),
        ],
        [KeyFigure(text, text, text)],
        text,
        grade=text,
        lead=text,
        markdown=text,
    )


class Elements(HTMLParser):
    """Every start tag with the names of its attributes, and all text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def elements(text: str) -> Elements:
    parser = Elements()
    parser.feed(as_html(page(text)))
    return parser


@pytest.fixture(scope="module")
def harmless() -> Elements:
    return elements("plain words")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_adds_no_element(payload, harmless):
    found = elements(payload)
    assert found.found == harmless.found
    assert payload in found.text


def test_the_policy_allows_only_inline_content_of_the_page():
    text = as_html(page("plain words"))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    policy = policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for part in (*scripts, style):
        assert (
            f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"
            in policy
        )
    assert len(scripts) == 2
    markup = re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!#)', markup)


def test_figures_show_their_diagrams():
    text = as_html(page("plain words"))
    (data,) = re.findall(
        r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL
    )
    figures = json.loads(data)["figures"]["curve"]
    assert set(figures) == {"0", "1"}
    layer = figures["1"]["spec"]["layer"][0]
    assert layer["data"]["values"]["y"] == [0, 0.0625, 0.25, 0.5625, 1]
    assert figures["1"]["columns"]["y"] == ["0.0000", "0.3333", "0.6667", "1.0000", "1.3333"]


def test_figures_in_columns_are_drawn():
    (data,) = re.findall(r'id="figures">(.*?)</script>', as_html(page("plain words")), re.DOTALL)
    assert set(json.loads(data)["figures"]) == {"curve", "inner"}


def test_bars_share_a_scale_on_which_the_longest_fits():
    parts = [Segment(0.5, "a", "rest"), Segment(0.25, "b", "calibration")]
    short, long = LossBar("short", parts), LossBar("long", [*parts, Segment(0.5, "c", "grouping")])
    assert LossBars("", [short]).base_rate == pytest.approx(100 / 1.03, abs=1e-3)
    bars = LossBars("", [short, long])
    assert bars.end == pytest.approx(1.25 * 1.03)
    widths = [width for _, _, width in long.places(bars.end)]
    assert widths == pytest.approx([50 / bars.end, 25 / bars.end, 50 / bars.end], abs=1e-3)
    assert not long.broken


def test_a_bar_beyond_three_is_broken():
    long = LossBar("long", [Segment(2, "a", "rest"), Segment(2, "b", "calibration")])
    bars = LossBars("", [long])
    assert long.broken
    assert sum(width for _, _, width in long.places(bars.end)) == pytest.approx(
        100 / 1.03, abs=0.01
    )


def test_segments_below_one_percent_are_listed_not_drawn():
    parts = [Segment(0.5, "a", "rest"), Segment(0.004, "b", "grouping"), Segment(0, "c", "null")]
    bar = LossBar("bar", parts)
    assert [part.words for part in bar.drawn] == ["a"]
    assert bar.small == "b, c"


def test_every_colour_of_the_diagrams_adapts_to_the_theme():
    text = as_html(page("plain words"))
    assert all(f"--mark-{mark[1:].lower()}:" in text for mark in PALETTE)
    (data,) = re.findall(r'id="figures">(.*?)</script>', text, re.DOTALL)
    assert not re.search('"#[0-9A-Fa-f]{6}"', data)
    assert "var(--mark-" in data


def test_a_name_that_looks_like_a_colour_stays_a_name():
    (variant,) = Figure("curve", {(): Curve("#0072B2")}).shown.values()
    assert variant.spec["layer"][0]["encoding"]["color"] == {"datum": "#0072B2"}
    assert variant.columns["#0072B2"][0] == "#0072B2"


def test_the_summary_of_a_notebook_has_no_controls_and_no_figures():
    text = as_summary(page("plain words"))
    assert not re.search("<(button|figure|select|svg|script|style)", text)
    assert text.count("plain words") > 20


def test_the_page_has_the_licences_of_its_scripts():
    text = as_html(page("plain words"))
    assert "University of Washington Interactive Data Lab" in text
    assert "Mike Bostock" in text


def test_pages_and_files_need_neither_altair_nor_vl_convert(tmp_path):
    """Tests use both as oracles; users need not install them."""
    code = """
import sys
sys.modules["altair"] = sys.modules["vl_convert"] = None
from probaudit.diagrams import reliability_diagram
from probaudit.report.page import as_html
from tests.report.test_page import page
assert "vegaEmbed" in as_html(page("plain words"))
found = reliability_diagram([0, 1, 1, 0], [0.2, 0.8, 0.6, 0.4])
for kind in ("png", "svg", "pdf"):
    found.save(sys.argv[1] + "/a." + kind)
assert found._repr_html_() and found.to_vega_lite()
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=root)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_copy_that_was_not_installed_says_what_to_run(monkeypatch):
    def missing(name):
        raise FileNotFoundError(name)

    library.cache_clear()
    monkeypatch.setattr("probaudit.report.page.page._text", missing)
    with pytest.raises(FileNotFoundError, match="pip install -e"):
        library()


def test_a_page_is_small():
    assert len(as_html(page("plain words"))) < 1_100_000


def test_runs_of_blocks_that_fit_half_of_a_printed_page():
    """Narrow tables, half figures with another one beside them, and text."""
    narrow, wide = Table("", ("a",) * 4, ()), Table("", ("a",) * 5, ())
    pair = [Figure(name, {(): Curve(name)}) for name in ("one", "two")]
    blocks = [narrow, Words("text"), wide, *pair, wide, Figure("lone", {(): Curve("lone")})]
    runs = Section("numbers", "Numbers", blocks).runs
    assert runs == [
        (True, blocks[:2]),
        (False, [wide]),
        (True, pair),
        (False, blocks[5:]),
    ]


def test_a_heading_tells_two_figures_of_one_diagram_apart():
    plain, headed = (Figure("curve", {(): Curve("a")}, heading=h).first for h in ("", "Detail"))
    assert headed.title == f"Detail: {plain.title[0].lower()}{plain.title[1:]}"


def test_a_step_ends_in_code_to_copy():
    ends = Finding("note", "why", advice=("Compare: ", Calibrate(), "."))
    within = Finding("note", "why", advice=("Use groups (", NameGroups(), ")."))
    steps = StepList([ends, within])
    assert steps.code(ends) == "probaudit calibrate FILE -o calibrator.json"
    assert steps.sentence(ends) == [(False, "Compare:")]
    assert steps.code(within) == ""
    assert [code for code, _ in steps.sentence(within)] == [False, True, False]
    html = as_html(Page("t", "", "h", "note", [Section("next", "What to do", [steps])]))
    assert html.count('<li><p class="do">') == 2
    assert "<code>probaudit calibrate FILE -o calibrator.json</code></pre>" in html
    assert "Use groups (<code>--groups COLUMN</code>)." in html


def test_a_heading_stays_with_a_figure_but_not_with_a_table():
    wide = Figure("a", {(): Curve("a")}, large=True)
    half = [Figure(name, {(): Curve(name)}) for name in ("b", "c")]
    table = Table("t", ("a",), [("1",)])
    assert Section("s", "s", [wide, table]).opening == [wide]
    assert Section("s", "s", [*half, table]).opening == half
    assert Section("s", "s", [table, wide]).opening == []
    for blocks in ([wide, table], [*half, table], [table, wide]):
        section = Section("s", "s", blocks)
        assert [*section.opening, *section.others] == blocks
