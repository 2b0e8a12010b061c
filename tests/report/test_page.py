"""Pages: text stays text, nothing is loaded, and figures show the numbers of their diagrams."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pytest

from probaudit.audits.finding import Finding
from probaudit.diagrams.diagram import Diagram
from probaudit.diagrams.picture import Axis, Line, Panel, Picture, Points
from probaudit.report.page import (
    Control,
    Facts,
    Figure,
    FindingList,
    KeyFigure,
    Page,
    Section,
    Table,
    Words,
    as_html,
)

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
    table = Table(text, (text, text), ((text, text),), words=(0, 1))
    blocks = (
        Words(text),
        FindingList([Finding("bad", text, advice=(text,))]),
        Facts([(text, text)]),
        table,
        figure,
    )
    return Page(
        text,
        text,
        text,
        "bad",
        [Section("one", text, blocks, text)],
        [KeyFigure(text, text, text)],
        text,
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
    assert [point["y"] for point in layer["data"]["values"]] == [0, 0.0625, 0.25, 0.5625, 1]
    assert figures["1"]["columns"]["y"] == ["0", "0.3333", "0.6667", "1", "1.333"]


def test_a_page_is_small():
    assert len(as_html(page("plain words"))) < 1_100_000
