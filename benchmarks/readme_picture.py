"""Write docs/report.png, the picture in the README: the first screen of a report of `make demo`.

It needs Chromium, playwright and pillow, as the tests in a browser do. Run it again (`make
picture`) after a change of the report.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

from probaudit.audits.audit import audit_rows
from probaudit.cli.demo import trained

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.report.browsing import BROWSER, NO_BROWSER, QUIET, Opened  # noqa: E402

SHOWN = ("digits", "random forest")
COLOURS = 64  # enough for text and two charts; a third of the size


def main() -> None:
    if BROWSER is None:
        sys.exit(NO_BROWSER)
    rows = next(rows for data, method, rows in trained() if (data, method) == SHOWN)
    audit = audit_rows(rows, title=", ".join(SHOWN), repair="compare")
    with TemporaryDirectory() as folder, sync_playwright() as play:
        page = Path(folder, "report.html")
        audit.to_html(page)
        browser = play.chromium.launch(executable_path=BROWSER, args=QUIET)
        opened = Opened(browser, page, viewport={"width": 1200, "height": 760})
        picture = Image.open(BytesIO(opened.page.screenshot()))
    target = ROOT / "docs" / "report.png"
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
