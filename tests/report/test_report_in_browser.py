"""The report in a real browser: it works offline, without errors, and is accessible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import probaudit as pb
from tests.report.browsing import BROWSER, NO_BROWSER, SCREENSHOTS, Opened
from tests.report.test_page import PAYLOADS

pytestmark = pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)

SECTIONS = [
    "summary",
    "next",
    "budget",
    "calibration",
    "actions",
    "groups",
    "classes",
    "repairs",
    "numbers",
    "methods",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """A report with everything in it, on three classes with hostile names."""
    rng = np.random.default_rng(0)
    n, names = 4000, PAYLOADS[:3]
    logits = rng.normal(0, 2, (n, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    group = rng.integers(0, 2, n)
    logits[group == 1] *= 2
    q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = pb.audit(
        np.array(names)[y],
        q,
        classes=names,
        features={PAYLOADS[3]: group + rng.normal(0, 0.1, n), "noise": rng.normal(0, 1, n)},
        columns={PAYLOADS[4]: np.array(PAYLOADS[5:7])[group]},
        costs=1 - np.eye(3),
        repair="compare",
    )
    path = tmp_path_factory.mktemp("report") / "report <b>.html"
    found.to_html(path, title=PAYLOADS[7])
    return path


@pytest.fixture
def opened(browser, report):
    opened = Opened(browser, report)
    yield opened
    opened.page.context.close()


def test_no_error_and_no_request(opened, report):
    opened.screenshot("light")
    assert opened.said == []
    assert opened.asked == [report.as_uri()]


def test_no_section_is_empty(opened):
    assert [
        section.get_attribute("id") for section in opened.page.locator("main section").all()
    ] == SECTIONS
    for section in opened.page.locator("main section").all():
        assert len(section.text_content()) > 80  # also of folded sections


def test_hostile_names_are_shown_as_text(opened):
    page = opened.page
    assert page.locator("script").count() == 3
    assert (
        page.locator(
            "iframe, object, embed, base, link, form:not(.vega-bindings), main img, main b"
        ).count()
        == 0
    )
    text = page.locator("body").inner_text()
    for name in (*PAYLOADS[:3], PAYLOADS[7]):
        assert name in text


def test_every_chart_has_a_description_and_a_table(opened):
    for figure in opened.page.locator("figure[id]").all():
        assert len(figure.locator(".chart").get_attribute("aria-label")) > 40
        assert figure.locator(".chart svg").count() == 1
        tables = figure.locator("details tbody tr")
        if figure.get_attribute("id") == "repair-gains":  # the table of its section is the same
            assert tables.count() == 0
            tables = opened.page.locator("#repairs .table tbody tr")
        assert tables.count() >= 1


CLIPPED = """[...document.querySelectorAll("main *")].filter(e => {
    if (e.closest("svg, .hidden") || !e.checkVisibility()) return false;
    const style = getComputedStyle(e);
    if (e.scrollWidth <= e.clientWidth + 1 || !e.clientWidth) return false;
    if (style.overflowX === "visible") return false;
    const cue = e.closest(".table")?.querySelector(".cue");
    return cue ? cue.hidden : !e.closest(".numbers.cut");
}).map(e => `${e.closest("figure, section").id} ${e.className}`)"""
BEYOND = """width => [...document.querySelectorAll("main *")]
    .filter(e => e.checkVisibility() && !e.closest(".scroll, .hidden, svg"))
    .filter(e => e.getBoundingClientRect().right > width + 1)
    .map(e => `${e.tagName} ${e.className}`)"""


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_nothing_is_cut_off_without_a_cue(browser, report, width):
    """Also of tables that are folded at first."""
    opened = Opened(browser, report, viewport={"width": width, "height": 900})
    page = opened.page
    page.evaluate("document.querySelectorAll('.fold, .numbers').forEach(e => e.open = true)")
    page.wait_for_timeout(300)
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(BEYOND, width) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def test_controls_change_the_chart_and_its_table(opened):
    figure = opened.page.locator("#reliability")
    figure.scroll_into_view_if_needed()
    assert figure.locator("select").count() >= 2
    for select in figure.locator("select").all():
        before = (
            figure.locator(".chart svg").inner_html(),
            figure.locator("details table").inner_text(),
        )
        shown = figure.get_attribute("data-shown")
        select.select_option(index=1)
        opened.page.wait_for_selector(f"#reliability:not([data-shown='{shown}'])")
        assert figure.locator(".chart svg").inner_html() != before[0]
    assert opened.said == []


def test_controls_work_by_keyboard(opened):
    page = opened.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    figure = page.locator("#reliability")
    figure.scroll_into_view_if_needed()
    shown = figure.get_attribute("data-shown")
    figure.locator("select").first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(f"#reliability:not([data-shown='{shown}'])")


def test_a_click_on_a_class_opens_its_diagram(opened):
    page = opened.page
    page.locator("#class-rates").scroll_into_view_if_needed()
    other = page.locator("#class-reliability")
    names = other.locator("select").first.locator("option").all_text_contents()
    for place, target in ((1, "circle"), (2, "label")):
        shown = other.get_attribute("data-shown")
        if target == "label":
            page.locator("#class-rates .chart .role-axis-label text").last.click(force=True)
        else:
            # the hollow points of what the model says come first
            page.locator("#class-rates .chart .mark-symbol path").nth(place).click(force=True)
        page.wait_for_selector(f"#class-reliability:not([data-shown='{shown}'])")
        assert other.get_attribute("data-shown").split(",")[0] == str(place)
        assert other.locator(".chart-title").text_content() == f"Reliability of {names[place]}"
    assert opened.said == []


def test_hovering_shows_the_numbers(opened):
    figure = opened.page.locator("#reliability")
    figure.scroll_into_view_if_needed()
    figure.locator(".chart svg .mark-symbol path").first.hover(force=True)
    opened.page.wait_for_selector("#vg-tooltip-element.visible")
    assert "rows" in opened.page.locator("#vg-tooltip-element").inner_text()


def background(opened: Opened) -> str:
    return opened.page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_mode_follows_the_system_and_the_button(browser, report):
    dark, light = (
        Opened(browser, report, color_scheme="dark"),
        Opened(browser, report, color_scheme="light"),
    )
    assert background(dark) != background(light)
    dark.screenshot("dark")
    label = "getComputedStyle(document.querySelector('.chart svg .role-axis-label text')).fill"
    assert dark.page.evaluate(label) != light.page.evaluate(label)
    light.page.locator("#theme").click()
    assert background(dark) == background(light)
    assert dark.said == light.said == []


def test_a_phone_shows_everything_without_scrolling_sideways(browser, report):
    phone = Opened(browser, report, viewport={"width": 390, "height": 844})
    phone.screenshot("phone")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    for chart in phone.page.locator(".chart").all():
        assert chart.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    assert phone.scale() > 0.97  # labels keep their size
    assert phone.said == []


def test_a_phone_has_room_for_a_finger(browser, report):
    phone = Opened(browser, report, viewport={"width": 390, "height": 844})
    phone.page.evaluate(
        "document.querySelectorAll('.fold, .numbers, nav details').forEach(e => e.open = true)"
    )
    targets = phone.page.locator("button, select, summary, nav a, input").all()
    small = [
        one.evaluate("e => e.outerHTML")
        for one in targets
        if one.is_visible() and one.bounding_box()["height"] < 40
    ]
    assert small == []
    buttons = [one.bounding_box()["y"] for one in phone.page.locator(".top button").all()]
    assert len(set(buttons)) == 1  # in one row


def test_the_command_is_on_the_first_screen(browser, report):
    opened = Opened(browser, report, viewport={"width": 1280, "height": 800})
    for part in (
        ".grade",
        ".headline",
        "#before-after .chart",
        ".bars",
        "#summary .table",
        ".command",
    ):
        box = opened.page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= 800, part


PAPER_HEIGHT = (297 - 22) / 25.4 * 96  # px of the content of a page
BLOCKS = """() => matchMedia("print").addEventListener("change", (print) => {
  if (print.matches) window.blocks = [...document.querySelectorAll("figure, .columns")]
    .filter((block) => block.checkVisibility())
    .map((block) => [block.id || block.className, block.getBoundingClientRect().height]);
})"""


def test_no_block_takes_most_of_a_printed_page(opened):
    """What is kept together on paper is low, also where a chart fills the rest of a page."""
    opened.page.evaluate(BLOCKS)
    opened.page.pdf(format="A4", prefer_css_page_size=True)
    blocks = opened.page.evaluate("window.blocks")
    assert len(blocks) > 8
    assert [(n, h) for n, h in blocks if h > 0.55 * PAPER_HEIGHT] == []


ON_PAPER = """() => matchMedia("print").addEventListener("change", (print) => {
  if (print.matches) window.onPaper = [...document.querySelectorAll(".chart svg")]
    .filter((svg) => svg.clientWidth)
    .map((svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width);
})"""


def test_printing(opened):
    """Charts are drawn for the width of their column on paper, and again for the screen."""
    widths = "all => all.map(svg => svg.viewBox.baseVal.width)"
    on_screen = opened.page.locator("main > section:not(:has(.fold)) .chart svg")
    before = on_screen.evaluate_all(widths)
    opened.page.evaluate(ON_PAPER)
    pdf = opened.page.pdf(format="A4")
    scales = opened.page.evaluate("window.onPaper")
    assert len(scales) >= len(before)
    assert min(scales) * 12 * 0.75 >= 7  # pt of labels with 12 px
    for _ in range(50):  # until the charts are drawn again
        if (after := on_screen.evaluate_all(widths)) == before:
            break
        opened.page.wait_for_timeout(100)
    assert after == before
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 50_000
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "print.pdf").write_bytes(pdf)


LAYOUT = """() => matchMedia("print").addEventListener("change", (print) => {
  if (!print.matches) return;
  const height = document.documentElement.clientHeight;
  const shown = (selector) =>
    [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
  const used = [];
  shown("h2, h3, p, li, tr, pre, figure, dl").forEach((block) => {
    const { bottom, height: own } = block.getBoundingClientRect();
    const k = Math.floor((bottom - 2) / height);
    if (own > 1) used[k] = Math.max(used[k] || 0, bottom / height - k);
  });
  const boxes = shown("table").map((e) => e.getBoundingClientRect());
  const meet = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const few = document.querySelector(".few").getBoundingClientRect();
  window.layout = {
    used: Array.from(used, (share) => share || 0),
    wide: shown(".scroll").filter((e) => e.scrollWidth > e.clientWidth + 1).length,
    overlaps: boxes.flatMap((a, k) => boxes.slice(k + 1).filter((b) => meet(a, b))).length,
    few: [Math.floor((few.top + 2) / height), Math.floor((few.bottom - 2) / height)],
    letters: ["bar > svg text", "bar .base text"].map((of) =>
      parseFloat(getComputedStyle(document.querySelector("." + of)).fontSize)),
  };
});"""


def test_printed_pages_are_full_and_nothing_overlaps(opened):
    """Charts fill the pages, no table covers its neighbour, and that of thresholds is whole."""
    opened.page.evaluate(LAYOUT)
    opened.page.pdf(format="A4", prefer_css_page_size=True)
    found = opened.page.evaluate("window.layout")
    *full, last = found["used"]
    assert min(full) > 0.7
    assert np.mean(full) > 0.87
    assert last > 0.2
    assert found["wide"] == 0
    assert found["overlaps"] == 0
    assert found["few"][0] == found["few"][1]
    assert len(set(found["letters"])) == 1
