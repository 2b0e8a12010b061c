"""Charts in a real browser: values and labels are in sight and cover no marks."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from probaudit.diagrams.paired_differences import PairedDifferences
from probaudit.diagrams.reliability import reliability_diagram
from probaudit.estimate import Estimate
from probaudit.report.page import Figure, Page, Section
from probaudit.report.page.page import as_html
from tests.report.browsing import BROWSER, NO_BROWSER, Opened

pytestmark = pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)

BOXES = """all => all.map(e => e.getBoundingClientRect())
    .map(box => [box.left, box.top, box.right, box.bottom])"""


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """A forest plot whose intervals reach both ends of the axis, and a reliability diagram."""
    gaps = {
        "a model with a long name": Estimate(-0.1243, low=-0.2, high=-0.1),
        "linear": Estimate(0.4161, low=0.3, high=0.5),
    }
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**2).astype(int)
    blocks = [
        Figure("forest", {(): PairedDifferences.of({"log loss": gaps, "ECE": gaps}, "old")}),
        Figure("reliability", {(): reliability_diagram(y, p, bins=8, resamples=19)}, large=True),
    ]
    found = Page("Charts", "", "A headline", "note", [Section("charts", "Charts", blocks)])
    path = tmp_path_factory.mktemp("charts") / "charts.html"
    path.write_text(as_html(found), "utf-8")
    return path


def boxes(opened: Opened, selector: str) -> np.ndarray:
    return np.array(opened.page.locator(selector).evaluate_all(BOXES))


@pytest.mark.parametrize("width", [390, 1280])
def test_values_of_a_forest_plot_cover_no_marks(browser, path, width):
    opened = Opened(browser, path, viewport={"width": width, "height": 900})
    values = opened.page.locator("#forest .mark-text.role-mark text").all_text_contents()
    assert sorted(values) == sorted(["−0.1243, better", "0.4161, worse"] * 2)
    texts = boxes(opened, "#forest .mark-text.role-mark text")
    marks = np.vstack(
        [
            boxes(opened, f"#forest .mark-{kind}")
            for kind in ("symbol.role-mark path", "rule.role-mark line")
        ]
    )
    assert texts[:, 0].min() > marks[:, 2].max()  # a column of its own
    (chart,) = boxes(opened, "#forest .chart")
    assert texts[:, 2].max() <= chart[2] + 1  # none is clipped
    assert opened.scale() > 0.95
    assert opened.said == []


def test_a_table_beside_a_square_chart_is_not_cut(browser, path):
    opened = Opened(browser, path, viewport={"width": 1280, "height": 900})
    room = "e => [e.scrollWidth, e.clientWidth]"
    wide, seen = opened.page.locator("#reliability .numbers .scroll").evaluate(room)
    assert 250 < seen <= 560
    assert wide <= seen


def test_files_have_both_ends_of_intervals_as_numbers(browser, path):
    opened = Opened(browser, path, accept_downloads=True)
    page = opened.page
    heads = page.locator("#reliability .numbers th").all_text_contents()
    assert heads == ["rows", "predicted", "observed", "95% interval", "verdict"]
    page.locator("#reliability .export summary").click()
    with page.expect_download() as waiting:
        page.locator("#reliability [data-save=csv]").click()
    first, *rows = csv.reader(io.StringIO(Path(waiting.value.path()).read_text("utf-8-sig")))
    assert {"from", "to", "95% interval, low", "95% interval, high"} <= set(first)
    assert len(rows) == 8
    cells = page.locator("#reliability .numbers tbody tr").first.locator("td").all_text_contents()
    low, high = (rows[0][first.index(f"95% interval, {end}")] for end in ("low", "high"))
    assert cells[3] == f"{low} to {high}"
