"""The pages of audits and comparisons say what the audits and comparisons found."""

from __future__ import annotations

import json

import numpy as np
import pytest

import probaudit as pb
from probaudit.report.audit_page import audit_page
from probaudit.report.comparison_page import comparison_page
from probaudit.report.page import Figure, FindingList, Page, Section, Table, as_html
from probaudit.report.terminal import number

SECTIONS = ["verdict", "budget", "scores", "calibration", "diagrams", "groups", "repairs", "pitfalls", "provenance"]


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(2000, 3, seed=3)


@pytest.fixture(scope="module")
def found(world):
    columns = {"site": np.array(["north", "south"])[np.arange(2000) % 2]}
    features = np.random.default_rng(0).normal(size=(2000, 2))
    costs = 1 - np.eye(3)
    return pb.audit(world.y, world.mcs, features=features, columns=columns, costs=costs, repair="compare", title="a title")


def section(page: Page, name: str) -> Section:
    return next(section for section in page.sections if section.name == name)


def table(page: Page, name: str, place: int = 0) -> Table:
    return [block for block in section(page, name).blocks if isinstance(block, Table)][place]


def figures(page: Page) -> dict[str, Figure]:
    return {block.name: block for part in page.sections for block in part.blocks if isinstance(block, Figure)}


def test_every_section_and_every_finding(found):
    page = audit_page(found)
    assert [part.name for part in page.sections] == SECTIONS
    assert page.title == "a title"
    assert page.headline == found.headline
    lists = [block for part in page.sections for block in part.blocks if isinstance(block, FindingList)]
    said = [finding for block in lists for finding in block.findings]
    assert sorted(said, key=repr) == sorted(found.findings, key=repr)


def test_tables_hold_the_numbers_of_the_audit(found):
    page = audit_page(found)
    scores = {row[0]: row[1] for row in table(page, "scores").rows}
    assert scores["log score"] == number(found["log_score"])
    assert scores["risk, your costs"] == number(found["cost_risk"])
    errors = table(page, "calibration").rows
    assert [row[1] for row in errors] == [number(error.estimate) for error in found.errors]
    assert all(row[-1] for row in errors)  # a definition each
    repairs = table(page, "repairs")
    assert [row[0] for row in repairs.rows] == [repair.title for repair in found.repairs]
    (marked,) = repairs.marked
    assert found.repairs[marked].recommended
    assert [row[0] for row in table(page, "groups").rows] == ["site = north", "site = south"]


def test_the_diagrams_are_those_of_the_evidence(found, world):
    drawn = figures(audit_page(found))
    first = drawn["reliability"].variants["the most probable class", "15 equal bins"]
    assert first.error == pytest.approx(float(pb.calibration_error(world.y, world.mcs)), abs=1e-12)
    for figure in drawn.values():
        choices = [()]
        for control in figure.controls:
            choices = [(*choice, option) for choice in choices for option in control.options]
        assert set(figure.variants) == set(choices)


@pytest.mark.parametrize("kind", ["one column", "pairs", "one class", "few rows", "sure", "weights", "many classes"])
def test_a_page_of_anything(kind):
    rng = np.random.default_rng(0)
    n = {"few rows": 3, "many classes": 400}.get(kind, 60)
    p, more = rng.random(n), {}
    y = (rng.random(n) < p).astype(int)
    if kind == "pairs":
        more = {"pairs": True}
    elif kind == "one class":
        y = np.ones(n, int)
    elif kind == "sure":
        p = np.round(p)
    elif kind == "weights":
        more = {"sample_weight": rng.exponential(size=n)}
    elif kind == "many classes":
        p = rng.dirichlet(np.full(40, 0.3), n)
        y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 39)
    if kind == "pairs":
        found = pb.audit(pb.Predictions(y, p, pairs=True), repair="compare")
    else:
        found = pb.audit(y, p, repair="compare", classes=range(40) if kind == "many classes" else [0, 1], **more)
    page = audit_page(found)
    assert [part.name for part in page.sections] == SECTIONS
    assert "NaN" not in as_html(page).partition('id="figures">')[2].partition("</script>")[0]


def test_a_comparison_page(world):
    found = pb.compare({"raw": world.mcs, "calibrated": world.cal}, world.y, resamples=50)
    page = comparison_page(found, "two models")
    assert page.title == "two models"
    assert "'calibrated' has the best log score" in page.headline
    rows = {row[0]: row for row in table(page, "models").rows}
    assert number(found["raw"]["log_score"]) in rows["raw"]
    assert figures(page)["aligned"].variants[()].models == ("raw", "calibrated")
    text = as_html(page)
    assert "calibrated: log score" in text
    assert json.loads(text.partition('id="figures">')[2].partition("</script>")[0])["figures"].keys() == figures(page).keys()


def test_notebooks_show_a_summary_without_scripts(found, world):
    compared = pb.compare({"raw": world.mcs, "calibrated": world.cal}, world.y, resamples=50)
    for shown in (found, compared):
        text = shown._repr_html_()
        assert "<table>" in text
        assert "<script" not in text
        assert "<style" not in text
