"""The shell of a page in a real browser: contents, copy and save, folds, bars, tooltips, print."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from probaudit.audits.finding import Finding
from probaudit.diagrams.palette import COLOURS as COLOUR_OF
from probaudit.diagrams.picture import Axis, Panel, Picture, Points
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
    Table,
    Words,
    as_html,
)
from probaudit.report.page.colours import PALETTE
from probaudit.report.page.loss_bars import _luminance
from tests.report.browsing import BROWSER, NO_BROWSER, Opened
from tests.report.test_page import Curve

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
pytestmark = pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)

AXE = Path(__file__).parents[2] / ".venv" / "axe" / "package" / "axe.min.js"
COMMAND = "probaudit calibrate rows.csv \\\n  -o calibrator.json"
ECE = "Mean distance between predicted probability and observed frequency."
PHONE = {"width": 390, "height": 844}


def sample() -> Page:
    """A page with every kind of block."""
    bars = [
        LossBar("original, 0.92", [Segment(0.9, "0.90 stays", "rest")]),
        LossBar(
            "recalibrated, 1.62",
            [Segment(0.02, "0.02 hidden groups", "grouping"), Segment(1.6, "1.60", "calibration")],
        ),
        LossBar("broken, 4.00", [Segment(4, "4.00", "rest"), Segment(0.005, "0.005", "null")]),
    ]
    rows = [("ECE", "1,821", "−0.5", 'a "b", c'), ("=1+1", "2", "3", "")]
    headers = ("name", "rows", "difference", "words")
    table = Table("Numbers", headers, rows, tips={"ECE": ECE, "rows": "Number of rows."})
    wide = Table(
        "Many columns",
        [f"column {k}" for k in range(14)],
        [[f"row {r}", *["12.3% to 45.6%"] * 13] for r in range(3)],
    )
    options = {("one",): Curve("one"), ("two",): Curve("two")}
    sections = [
        Section(
            "summary",
            "Summary",
            [
                Columns(
                    [Figure("main", {(): Curve("main")}, large=True)],
                    [LossBars("Log loss", bars), table, CommandLine(COMMAND, "Do this")],
                )
            ],
            headed=False,
        ),
        Section("charts", "Charts", [Figure("choice", options, [Control("of", ("one", "two"))])]),
        Section("wide", "Wide table", [wide, FindingList([Finding("bad", "A finding.")])]),
        Section(
            "folded", "Folded", [Words("Inside."), Figure("in", {(): Curve("in")})], folded=True
        ),
        Section("facts", "Facts", [Facts([("rows", "1,821")])]),
    ]
    return Page(
        "A sample",
        "1,821 rows",
        "Recalibrate before use.",
        "bad",
        sections,
        [KeyFigure("accuracy", "58.6%", "95% interval 56% to 61%")],
        grade="Recalibrate first",
        lead="It says 78% and is right 59% of the time.",
        markdown="**Recalibrate first.**",
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(as_html(sample()), "utf-8")
    return path


@pytest.fixture
def opened(browser, path):
    allowed = ["clipboard-read", "clipboard-write"]
    opened = Opened(browser, path, permissions=allowed, reduced_motion="reduce")
    yield opened
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("blob:")] == [path.as_uri()]
    opened.page.context.close()


def clipboard(opened: Opened) -> str:
    return opened.page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n")


def press(opened: Opened, selector: str) -> None:
    """Press a button, and wait until it reports success."""
    button = opened.page.locator(selector)
    button.click()
    sync_api.expect(button).to_have_text(re.compile("Copied|Saved"))


def download(opened: Opened, selector: str) -> tuple[str, bytes]:
    with opened.page.expect_download() as waiting:
        press(opened, selector)
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_the_summary_and_the_command_are_copied(opened):
    press(opened, "[data-copy=summary]")
    assert clipboard(opened) == "**Recalibrate first.**"
    press(opened, "[data-copy=code]")
    assert clipboard(opened) == COMMAND
    sync_api.expect(opened.page.locator("[data-copy=code]")).to_have_text("Copy")


def test_a_table_is_copied_and_saved_as_csv(opened):
    press(opened, "#summary .table [data-copy]")
    rows = list(csv.reader(io.StringIO(clipboard(opened))))
    assert rows == [
        ["name", "rows", "difference", "words"],
        ["ECE", "1821", "-0.5", 'a "b", c'],
        ["'=1+1", "2", "3", ""],
    ]
    name, content = download(opened, "#summary .table [data-save]")
    assert name == "a-sample-summary.csv"
    assert list(csv.reader(io.StringIO(content.decode()))) == rows


def test_the_first_screen_is_saved(opened):
    """Headline, chart and table, on paper in the colour of the theme."""
    papers, marked = set(), []
    for _ in range(2):
        name, content = download(opened, "header [data-save=png]")
        assert name == "a-sample-summary.png"
        pixels = imread(io.BytesIO(content), format="png")
        papers.add(tuple(pixels[0, 0].tolist()))
        marked.append(float((pixels != pixels[0, 0]).any(axis=2).mean()))
        opened.page.click("#theme")
    assert len(papers) == 2
    assert min(marked) > 0.02
    width = opened.page.locator("header").bounding_box()["width"]
    assert pixels.shape[1] == pytest.approx(2 * (width + 48), abs=2)


@pytest.mark.parametrize("figure", ["main", "choice"])
def test_a_chart_is_saved(opened, figure):
    menu = opened.page.locator(f"#{figure} .export")
    menu.locator("summary").click()
    name, content = download(opened, f"#{figure} [data-save=png]")
    assert name == f"a-sample-{figure}.png"
    assert content.startswith(b"\x89PNG")
    assert len(content) > 5000
    name, content = download(opened, f"#{figure} [data-save=svg]")
    assert content.startswith(b"<svg")
    assert b"var(" not in content  # colours are those of the page
    assert figure.replace("choice", "one").encode() in content
    name, content = download(opened, f"#{figure} [data-save=csv]")
    assert content.decode().splitlines()[1].endswith(",0.0000")
    opened.page.keyboard.press("Escape")
    assert menu.get_attribute("open") is None


def test_a_chart_is_copied(opened):
    opened.page.locator("#choice .export summary").click()
    press(opened, "#choice [data-copy=csv]")
    assert clipboard(opened).startswith("one,y\none,0.0000\n")
    press(opened, "#choice [data-copy=svg]")
    assert clipboard(opened).startswith("<svg")
    press(opened, "#choice [data-copy=png]")
    kinds = "navigator.clipboard.read().then(items => items.flatMap(item => item.types))"
    assert opened.page.evaluate(kinds) == ["image/png"]
    opened.page.locator("h1").click()
    assert opened.page.locator("#choice .export").get_attribute("open") is None


def test_a_choice_changes_what_is_exported(opened):
    opened.page.locator("#choice select").select_option("two")
    opened.page.wait_for_selector("#choice[data-shown='1']")
    opened.page.locator("#choice .export summary").click()
    _, content = download(opened, "#choice [data-save=csv]")
    assert content.startswith(b"two,y")
    assert opened.page.locator("#choice .chart-title").inner_text() == "two"


def test_contents_show_where_the_reader_is(opened):
    page, here = opened.page, opened.page.locator("nav a[aria-current]")
    assert here.all_inner_texts() == ["Summary"]
    page.locator("#charts").evaluate("e => e.scrollIntoView({behavior: 'instant'})")
    sync_api.expect(here).to_have_text("Charts")
    assert page.locator("nav").bounding_box()["y"] < 40  # it stays in sight
    page.locator("nav a", has_text="Facts").click()
    assert here.all_inner_texts() == ["Facts"]
    page.mouse.move(600, 400)
    page.mouse.wheel(0, -10_000)
    sync_api.expect(here).to_have_text("Summary")


def test_a_link_opens_a_folded_section(opened):
    page = opened.page
    inside = page.locator("#folded .narrow")
    assert not inside.is_visible()
    page.locator("nav a", has_text="Folded").click()
    assert inside.is_visible()
    assert page.locator("#in svg").bounding_box()["width"] > 300


def test_contents_collapse_on_a_narrow_screen(browser, path):
    phone = Opened(browser, path, viewport=PHONE)
    link = phone.page.locator("nav a", has_text="Facts")
    assert not link.is_visible()
    assert phone.page.locator("nav summary").inner_text() == "Contents: Summary"
    phone.page.locator("nav summary").click()
    link.click()
    assert not link.is_visible()
    assert phone.page.locator("nav summary").inner_text() == "Contents: Facts"
    assert phone.said == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_nothing_is_wider_than_the_screen(browser, path, width):
    opened = Opened(browser, path, viewport={"width": width, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = """[...document.querySelectorAll("body *")]
        .filter(e => e.childNodes.length && e.checkVisibility() && e.textContent.trim())
        .map(e => parseFloat(getComputedStyle(e).fontSize))"""
    assert min(opened.page.evaluate(sizes)) >= 12
    assert opened.page.locator(".page").bounding_box()["width"] <= 1240
    assert opened.said == []


def test_a_wide_table_has_a_cue(opened):
    assert opened.page.locator("#wide .cue").is_visible()
    assert not opened.page.locator("#summary .cue").is_visible()


@dataclass(frozen=True)
class Square(Curve):
    """A square diagram with a wide table."""

    more: int = 0

    def picture(self) -> Picture:
        picture = super().picture()
        return replace(picture, panels=(replace(picture.panels[0], square=True),))

    def columns(self) -> dict[str, np.ndarray]:
        words = np.full(5, "12.3% to 45.6%", object)
        return super().columns() | {f"column {k}": words for k in range(self.more)}


def test_numbers_stand_beside_a_large_chart_or_below_it(browser, tmp_path):
    """A table that fits beside the chart is open there; another one is closed, and opens below."""
    figures = [
        Figure("few", {(): Square("few")}, large=True),
        Figure("many", {(): Square("many", 5)}, large=True),
    ]
    path = tmp_path / "page.html"
    sections = [Section("charts", "Charts", figures)]
    path.write_text(as_html(Page("Charts", "", "Charts.", "note", sections)), "utf-8")
    opened = Opened(browser, path, viewport={"width": 1280, "height": 900})
    few, many = (opened.page.locator(f"#{name} .numbers") for name in ("few", "many"))
    assert few.locator("table").is_visible()
    assert not many.locator("table").is_visible()
    many.locator("summary").click()
    for numbers, name in ((few, "few"), (many, "many")):
        chart = opened.page.locator(f"#{name} .chart").bounding_box()
        box = numbers.bounding_box()
        assert (box["x"] > chart["x"] + chart["width"]) == (name == "few")
        assert (box["y"] >= chart["y"] + chart["height"]) == (name == "many")
        assert numbers.locator(".scroll").evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    assert opened.said == []
    opened.page.context.close()
    phone = Opened(browser, path, viewport=PHONE)
    assert not phone.page.locator("table").first.is_visible()
    phone.page.locator("#many .numbers summary").click()
    sync_api.expect(phone.page.locator("#many .numbers")).to_have_class(re.compile("cut"))
    phone.page.context.close()


def test_long_lines_of_code_go_on_indented(browser, path):
    phone = Opened(browser, path, viewport={"width": 220, "height": 800})
    line = phone.page.locator(".command .line").first
    first, *others = line.locator("span").evaluate_all("all => all.map(e => e.offsetLeft)")
    assert line.bounding_box()["height"] > 30  # it takes two lines
    assert min(others) > first
    phone.page.context.close()


def test_bars_have_their_labels_inside_or_beside(opened):
    bars = opened.page.locator(".bar")
    assert bars.nth(0).locator("text.fits").all_text_contents() == ["0.90 stays"]
    assert not bars.nth(0).locator("li").is_visible()
    assert bars.nth(1).locator("text.fits").all_text_contents() == ["1.60"]
    assert bars.nth(1).locator("li").first.is_visible()
    assert opened.page.locator(".bar svg.break").count() == 1
    assert "longer than drawn" in bars.nth(2).inner_text()
    assert "too short to draw: 0.005" in bars.nth(2).inner_text()


def test_names_are_explained_by_mouse_and_by_keyboard(opened):
    page, tip = opened.page, opened.page.locator("#tip")
    name = page.locator("tbody .tip")
    assert not tip.is_visible()
    name.hover()
    assert tip.inner_text() == ECE
    page.mouse.move(0, 0)
    assert not tip.is_visible()
    name.focus()
    assert tip.is_visible()
    assert name.get_attribute("aria-describedby") == "tip"
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_the_buttons_print_and_change_the_theme(opened):
    page = opened.page
    page.evaluate("window.print = () => { window.printed = true; }")
    page.locator("#print").click()
    assert page.evaluate("window.printed")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_print_opens_folded_sections_and_hides_controls(opened):
    page = opened.page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#folded .narrow").is_visible()
    for hidden in ("nav", "button", "select", ".numbers", ".export"):
        assert not any(found.is_visible() for found in page.locator(hidden).all())
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert not page.locator("#folded .narrow").is_visible()


def test_print_opens_folded_sections_without_a_script(browser, path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert not page.locator("#folded .narrow p").is_visible()
    page.emulate_media(media="print")
    assert page.locator("#folded .narrow p").bounding_box()["height"] > 0
    context.close()


def test_code_breaks_between_words_only(browser, path):
    phone = Opened(browser, path, viewport={"width": 320, "height": 800})
    heights = "words => words.map(word => word.offsetHeight)"
    words = phone.page.locator(".command .line span")
    assert words.count() == 6
    assert max(words.evaluate_all(heights)) < 30


def test_focus_is_visible(opened):
    for selector in ("#theme", "nav a", ".tip", "select", ".export summary", ".scroll"):
        opened.page.locator(selector).first.focus()
        opened.page.keyboard.press("Shift")  # the last input is the keyboard
        style = opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", selector


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed; run `make browser`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_serious_problem_of_accessibility(browser, path, scheme, width):
    opened = Opened(browser, path, color_scheme=scheme, viewport={"width": width, "height": 800})
    opened.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    opened.page.evaluate(AXE.read_text("utf-8"))
    found = opened.page.evaluate("axe.run()")["violations"]
    assert [
        (problem["id"], [node["html"][:200] for node in problem["nodes"]])
        for problem in found
        if problem["impact"] in ("serious", "critical")
    ] == []


COLOURS = """names => names.map(name => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = name;
    const found = getComputedStyle(probe).color.match(/[0-9.]+/g).map(Number);
    probe.remove();
    return found;
})"""


def contrasts(opened: Opened, pairs: list[tuple[str, str]]) -> list[float]:
    """The contrast of each pair of CSS colours, as in WCAG 2."""
    found = []
    for pair in pairs:
        colours = opened.page.evaluate(COLOURS, list(pair))
        texts = ["#" + "".join(f"{int(part):02x}" for part in parts[:3]) for parts in colours]
        low, high = sorted(_luminance(text) + 0.05 for text in texts)
        found.append(high / low)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_stand_out_from_the_paper(browser, path, scheme):
    opened = Opened(browser, path, color_scheme=scheme)
    names = sorted({f"var(--mark-{mark[1:].lower()})" for mark in PALETTE})
    assert min(contrasts(opened, [(name, "var(--paper)") for name in names])) >= 3
    texts = [(name.replace("--mark", "--text"), "var(--paper)") for name in names]
    assert min(contrasts(opened, texts)) >= 4.5
    labels = [(Segment(1, "", role).on_dark, Segment(1, "", role).fill) for role in COLOUR_OF]
    pairs = [(fill, "var(--on-dark)" if white else "#000000") for white, fill in labels]
    assert min(contrasts(opened, pairs)) >= 4.5


def test_numbers_stand_before_words_on_a_phone(browser, tmp_path):
    """Wide tables scroll: numbers come first, headers have one line, and a shadow behind the
    numbers marks what is out of sight."""
    names = ["calibrator", *(f"a long name of column {k}" for k in range(8)), "verdict"]
    table = Table("Repairs", names, [names] * 3, words=(0, 9))
    path = tmp_path / "verdicts.html"
    path.write_text(as_html(Page("verdicts", "", "", "note", [Section("a", "A", [table])])))
    phone = Opened(browser, path, viewport=PHONE, device_scale_factor=2)
    head = phone.page.locator("table").first.locator("thead th")
    assert head.all_text_contents() == names
    assert max(head.evaluate_all("all => all.map(e => e.offsetHeight)")) < 35
    scroll = phone.page.locator(".table .scroll")
    sync_api.expect(scroll).to_have_class(re.compile("more"))
    scroll.evaluate("e => e.scrollTo(9999, 0)")
    sync_api.expect(scroll).not_to_have_class(re.compile("more"))
    # rules of a row are in line where each row has a whole number of pixels
    heights = scroll.locator("tbody tr").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert all(height == round(height) for height in heights)
    phone.page.context.close()


def test_the_verdict_stands_above_the_buttons_on_a_phone(browser, path):
    phone = Opened(browser, path, viewport=PHONE)
    tops = [phone.page.locator(f"header {of}").first.bounding_box()["y"] for of in ("h2", ".tools")]
    assert tops[0] < tops[1]
    phone.page.context.close()


def test_a_lone_bar_stands_above_the_numbers(browser, tmp_path):
    bars = LossBars("loss", [LossBar("original, 0.50", [Segment(0.5, "0.50", "rest")])])
    table = Table("Key numbers", ("", "original"), [("accuracy", "70%")])
    path = tmp_path / "page.html"
    section = Section("summary", "Summary", [Columns([bars], [table])])
    path.write_text(as_html(Page("t", "", "h", "note", [section])), "utf-8")
    opened = Opened(browser, path)
    bar, numbers = (opened.page.locator(name).bounding_box() for name in (".bars", ".table"))
    assert numbers["y"] >= bar["y"] + bar["height"]
    assert numbers["width"] == pytest.approx(bar["width"], abs=1)
    opened.page.context.close()


def test_the_base_rate_is_marked_at_each_bar(opened):
    """The same line at each bar, and no text covers it."""
    lines = opened.page.locator(".bar .base line")
    assert lines.count() == 3
    boxes = [line.bounding_box() for line in lines.all()]
    assert len({round(box["x"]) for box in boxes}) == 1
    texts = opened.page.locator(".bar .beside").all()
    for box, text in zip(boxes, texts, strict=True):
        if text.is_visible():
            assert text.bounding_box()["y"] >= box["y"] + box["height"] - 3


@dataclass(frozen=True)
class Long(Curve):
    """A dot plot of categories with names of several lines."""

    names: tuple[str, ...] = ()

    def picture(self) -> Picture:
        at = np.arange(len(self.names), dtype=float)
        dots = Points(at, at, at - 0.1, at + 0.1, across=True)
        axis = Axis("gain", 0.0, 1.0 * len(at), percent=True)
        panel = Panel((dots,), axis, Axis("", categories=self.names))
        return Picture((panel,), "Gains", "Gains of calibrators.")


@pytest.fixture(scope="module")
def dots(tmp_path_factory) -> Path:
    """A dot plot without a table of its own, beside a higher chart."""
    names = ("one", "a calibrator with quite a long name for each group of the rows", "two")
    figures = [
        Figure("dots", {(): Long("dots", names * 2)}, tabled=False),
        Figure("square", {(): Square("square")}),
    ]
    path = tmp_path_factory.mktemp("dots") / "page.html"
    sections = [Section("charts", "Charts", figures)]
    path.write_text(as_html(Page("Charts", "", "Charts.", "note", sections)), "utf-8")
    return path


def test_labels_of_several_lines_are_centred_on_their_dots(browser, dots):
    phone = Opened(browser, dots, viewport=PHONE)
    boxes = "all => all.map(e => e.getBoundingClientRect()).map(b => [b.top, b.bottom])"
    chart = phone.page.locator("#dots .chart")
    labels, marks = (
        np.array(chart.locator(of).evaluate_all(boxes))
        for of in (".role-axis-label >> nth=1 >> text", ".mark-symbol.role-mark path")
    )
    assert len(labels) == len(marks) == 6
    assert np.ptp(labels, axis=1).max() > 30  # three lines
    np.testing.assert_allclose(labels.mean(axis=1), marks.mean(axis=1), atol=3)
    assert (labels[1:, 0] >= labels[:-1, 1]).all()  # none touches the next one
    assert phone.page.locator("#dots .numbers").count() == 0
    phone.page.context.close()


def test_the_lower_of_two_charts_is_as_high_as_the_other(browser, dots):
    opened = Opened(browser, dots, viewport={"width": 1280, "height": 900})
    bottom = "e => e.getBoundingClientRect().bottom"
    for _ in range(50):
        ends = [
            opened.page.locator(f"#{of} .chart svg").evaluate(bottom) for of in ("dots", "square")
        ]
        if abs(ends[0] - ends[1]) < 30:
            break
        opened.page.wait_for_timeout(100)
    assert ends[0] == pytest.approx(ends[1], abs=30)
    opened.page.context.close()


def test_the_labels_at_the_ends_of_an_axis_are_centred(browser, dots):
    opened = Opened(browser, dots)
    across = opened.page.locator("#square .chart .role-axis-label").first.locator("text")
    anchors = across.evaluate_all("all => all.map(e => e.getAttribute('text-anchor'))")
    assert set(anchors) == {"middle"}
    inside = """svg => [...svg.querySelectorAll("text")].every(e => {
        const [own, all] = [e.getBoundingClientRect(), svg.getBoundingClientRect()];
        return own.left >= all.left - 1 && own.right <= all.right + 1;
    })"""
    for chart in opened.page.locator(".chart svg").all():
        assert chart.evaluate(inside)
    opened.page.context.close()
