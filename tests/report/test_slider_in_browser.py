"""The threshold slider in a real browser: mouse, keyboard, number field, print, without scripts."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

import probaudit as pb
from tests.report.browsing import BROWSER, NO_BROWSER, Opened
from tests.report.test_decision_section import rows, section
from tests.report.test_page_in_browser import AXE, clipboard, press

pytestmark = pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)
RANGE, RATIO, WORDS = "#threshold-range", "#threshold-ratio", "#threshold .happens"


@pytest.fixture(scope="module")
def audit() -> pb.Audit:
    return pb.audit(*rows(), repair=None)


@pytest.fixture(scope="module")
def path(tmp_path_factory, audit) -> Path:
    path = tmp_path_factory.mktemp("slider") / "page.html"
    audit.to_html(path)
    return path


@pytest.fixture(scope="module")
def confidences(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("slider") / "confidences.html"
    pb.audit(*rows(classes=3), repair=False).to_html(path)
    return path


@pytest.fixture
def opened(browser, path):
    opened = Opened(browser, path, permissions=["clipboard-read", "clipboard-write"])
    yield opened
    assert opened.said == []
    opened.page.context.close()


def shown(opened: Opened) -> list[list[str]]:
    table = opened.page.locator("#threshold .result tbody tr")
    found: list[list[str]] = table.evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    return found


def marker(opened: Opened, name: str) -> float:
    found: float = opened.page.evaluate(
        "name => document.getElementById(name).drawn.view.signal('marker')", name
    )
    return found


def at(audit: pb.Audit, percent: int) -> Any:
    slider, _ = section(audit)
    return slider.positions[percent - slider.low]


def is_at(opened: Opened, audit: pb.Audit, percent: int) -> None:
    """The words, the numbers and the markers are those of a threshold."""
    here = at(audit, percent)
    assert opened.page.locator("#threshold output").inner_text() == f"{percent}%"
    assert opened.page.locator(WORDS).inner_text().split() == f"{here.words} {here.label}".split()
    assert opened.page.locator(RANGE).get_attribute("aria-valuetext") == here.label
    assert shown(opened) == [list(row) for row in zip(*here.cells, strict=True)]
    for name in ("risk", "net-benefit"):
        assert marker(opened, name) == pytest.approx(percent / 100)


def test_the_slider_shows_what_happens(opened, audit):
    is_at(opened, audit, 50)
    opened.page.locator(RANGE).fill("20")
    is_at(opened, audit, 20)
    assert opened.page.locator(RATIO).input_value() == "4"
    assert "a miss costs 4 times a false alarm" in opened.page.locator(WORDS).inner_text()


def test_a_click_moves_the_slider(opened, audit):
    box = opened.page.locator(RANGE).bounding_box()
    place = {"x": 0.9 * box["width"], "y": box["height"] / 2}
    opened.page.locator(RANGE).click(position=place)
    percent = int(opened.page.locator(RANGE).input_value())
    assert 85 <= percent <= 95
    is_at(opened, audit, percent)


def test_the_slider_works_by_keyboard(opened, audit):
    opened.page.locator(RANGE).focus()
    opened.page.keyboard.press("ArrowLeft")
    is_at(opened, audit, 49)
    opened.page.keyboard.press("Home")
    is_at(opened, audit, 1)
    opened.page.keyboard.press("End")
    is_at(opened, audit, 99)
    opened.page.keyboard.press("Shift+Tab")
    assert opened.page.evaluate("document.activeElement.id") == RATIO[1:]


def test_the_ratio_moves_the_slider(opened, audit):
    ratio = opened.page.locator(RATIO)
    ratio.fill("9")
    is_at(opened, audit, 10)
    ratio.fill("7")
    assert ratio.input_value() == "7"  # while typing
    ratio.press("Enter")
    is_at(opened, audit, 13)
    assert ratio.input_value() == "6.69"  # of the nearest threshold, 0.87 / 0.13
    ratio.fill("0.25")
    is_at(opened, audit, 80)
    for wrong in ("", "0", "-3"):
        ratio.fill(wrong)
        is_at(opened, audit, 80)
    ratio.press("Enter")
    ratio.blur()
    assert ratio.input_value() == "0.25"
    ratio.fill("100000")
    is_at(opened, audit, 1)


def test_the_marker_moves_in_the_chart_and_survives_a_resize(opened):
    line = "#risk .mark-rule line"

    def share() -> float:
        found: float = opened.page.locator(line).last.evaluate(
            "e => { const at = e.getBoundingClientRect().x,"
            " frame = e.closest('svg').querySelector('.background').getBoundingClientRect();"
            " return (at - frame.x) / frame.width; }"
        )
        return found

    opened.page.locator(RANGE).fill("80")
    assert share() == pytest.approx(0.8, abs=0.01)
    opened.page.set_viewport_size({"width": 500, "height": 900})
    opened.page.wait_for_function("document.querySelector('#risk .chart svg').clientWidth < 480")
    opened.page.wait_for_timeout(300)
    assert share() == pytest.approx(0.8, abs=0.01)


def test_all_thresholds_are_copied_as_csv(opened, audit):
    opened.page.locator("#threshold .numbers > summary").click()
    press(opened, "#threshold .numbers [data-copy=csv]")
    found = list(csv.reader(io.StringIO(clipboard(opened))))
    assert len(found) == 1 + 99 * 2
    slider, _ = section(audit)
    assert found[0] == list(slider.few.headers)
    few = {(row[0], row[2]): row for row in found[1:]}
    for row in slider.few.rows:
        assert few[row[0], row[2]] == [cell.replace(",", "") for cell in row]


def test_print_shows_a_few_thresholds(opened):
    live, few = (opened.page.locator(f"#threshold .{name}") for name in ("live", "few"))
    assert live.is_visible()
    assert not few.is_visible()
    opened.page.emulate_media(media="print")
    assert not live.is_visible()
    assert few.is_visible()
    assert few.locator("tbody tr").count() == 4 * 2


def test_without_scripts_there_are_a_few_thresholds(browser, path):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    assert page.locator("#threshold .few").is_visible()
    assert not page.locator(RANGE).is_visible()
    page.context.close()


def test_confidences(browser, confidences):
    opened = Opened(browser, confidences)
    words = opened.page.locator(WORDS)
    assert "an error costs 10 times a review" in words.inner_text()
    opened.page.locator(RATIO).fill("25")
    assert opened.page.locator("#threshold output").inner_text() == "75%"
    assert "an error costs 4 times a review" in words.inner_text()
    opened.page.locator(RANGE).fill("95")
    assert "at least 95%" in words.inner_text()
    assert opened.said == []
    opened.page.context.close()


def test_a_phone_shows_the_slider_without_scrolling(browser, path):
    phone = Opened(browser, path, viewport={"width": 390, "height": 844})
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    scroll = phone.page.locator("#threshold .result .scroll")
    assert scroll.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    assert phone.said == []
    phone.page.context.close()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed; run `make browser`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_problem_of_accessibility(browser, path, confidences, scheme):
    for one in (path, confidences):
        opened = Opened(browser, one, color_scheme=scheme)
        opened.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        opened.page.evaluate(AXE.read_text("utf-8"))
        found = opened.page.evaluate("axe.run('#actions')")["violations"]
        assert [
            (problem["id"], [node["html"][:200] for node in problem["nodes"]])
            for problem in found
            if problem["impact"] in ("serious", "critical")
        ] == []
        opened.page.context.close()
