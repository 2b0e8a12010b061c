from __future__ import annotations

import pytest

from tests.report.browsing import BROWSER, NO_BROWSER, QUIET


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the browser tests need playwright"
    )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()
