"""The pages that `make docs` built open in a browser: light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browsing import BROWSER, NO_BROWSER, QUIET

pytestmark = pytest.mark.docs
SITE = Path(__file__).parents[1] / "docs" / "build"
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.parts and path.stem not in ("genindex", "search")
)
SCREENS = {
    "wide": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()


def test_there_are_pages():
    assert {"index.html", "start.html", "command-line.html", "glossary.html"} <= set(PAGES)
    assert len([page for page in PAGES if page.startswith("reports/")]) == 7


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_need_no_network_and_fit(browser, screen):
    context = browser.new_context(**SCREENS[screen])
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda x: said.append(x.text) if x.type in ("error", "warning") else None)
    wrong = {}
    for name in PAGES:
        asked.clear()
        said.clear()
        page.goto((SITE / name).as_uri())
        found = [url for url in asked if url.startswith(("http:", "https:", "//"))] + said
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append("wider than the window")
        images = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        found += page.evaluate(images)
        if found:
            wrong[name] = found
    context.close()
    assert wrong == {}


def test_embedded_reports_are_drawn(browser):
    page = browser.new_page()
    for name in PAGES:
        if name.startswith("fields/plot_"):
            page.goto((SITE / name).as_uri())
            page.locator("iframe.report").scroll_into_view_if_needed()
            frame = page.frame_locator("iframe.report")
            frame.locator("figure svg").first.wait_for(timeout=30_000)
            assert frame.locator("h1").inner_text()
