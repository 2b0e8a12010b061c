"""Pages in Chromium, for tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NO_BROWSER = "no Chromium on this machine"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


class Opened:
    """A page with its console messages and requests."""

    def __init__(self, browser: Any, path: Path, **choices: Any) -> None:
        # a page that still scrolls moves its targets away from the pointer
        usual = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce"}
        self.page = browser.new_context(**(usual | choices)).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("figure[id]:not([data-shown])", state="detached")

    def scale(self) -> float:
        """How far the most shrunken chart is scaled down to fit."""
        scales = "all => all.map(e => e.getBoundingClientRect().width / e.viewBox.baseVal.width)"
        found: list[float] = self.page.locator(".chart svg").evaluate_all(scales)
        return min(scale for scale in found if scale > 0)

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
