"""The pages of audits and comparisons show their results."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import probaudit as pb
from probaudit.audits.finding import percent
from probaudit.comparisons import comparison
from probaudit.data.work import Progress
from probaudit.diagrams.picture import Band
from probaudit.report import audit_page as audit_page_module
from probaudit.report.audit_page import audit_page
from probaudit.report.comparison_page import comparison_page
from probaudit.report.page import (
    Columns,
    Figure,
    FindingList,
    LossBars,
    Page,
    Section,
    StepList,
    Table,
    Words,
    as_html,
)
from probaudit.text import number

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
def world():
    return pb.simulate.gaussian_posteriors(2000, 3, seed=3)


@pytest.fixture(scope="module")
def found(world):
    columns = {"site": np.array(["north", "south"])[np.arange(2000) % 2]}
    features = np.random.default_rng(0).normal(size=(2000, 2))
    costs = 1 - np.eye(3)
    return pb.audit(
        world.y,
        world.mcs,
        features=features,
        columns=columns,
        costs=costs,
        repair="compare",
        title="a title",
    )


def section(page: Page, name: str) -> Section:
    return next(section for section in page.sections if section.name == name)


def blocks(part: Section) -> list[Any]:
    """All blocks of a section, those in columns too."""
    return [
        inner
        for block in part.blocks
        for inner in ((*block.left, *block.right) if isinstance(block, Columns) else (block,))
    ]


def table(page: Page, name: str, place: int = 0) -> Table:
    return [block for block in blocks(section(page, name)) if isinstance(block, Table)][place]


def figures(page: Page) -> dict[str, Figure]:
    return {
        block.name: block
        for part in page.sections
        for block in blocks(part)
        if isinstance(block, Figure)
    }


def test_the_page_has_every_section_and_finding(found):
    page = audit_page(found)
    assert [part.name for part in page.sections] == SECTIONS
    assert page.title == "a title"
    assert page.headline == found.headline
    assert (page.grade, page.lead) == (found.decision.words, found.decision.sentence)
    shown = [block for part in page.sections for block in blocks(part)]
    said = [one for block in shown if isinstance(block, FindingList) for one in block.findings]
    said += [
        one for block in shown if isinstance(block, StepList) for one in block.steps if one.rule
    ]
    assert sorted(said, key=repr) == sorted(found.findings, key=repr)
    ids = [part.name for part in page.sections] + list(figures(page))
    assert len(set(ids)) == len(ids)


def test_tables_show_the_numbers_of_the_audit(found):
    page = audit_page(found)
    scores = {row[0]: row[1] for row in table(page, "numbers").rows}
    assert scores["log loss"] == number(found["log_score"])
    assert scores["risk, your costs"] == number(found["cost_risk"])
    errors = table(page, "numbers", 1).rows
    assert [row[1] for row in errors] == [number(error.estimate) for error in found.errors]
    assert all(row[-1] for row in errors)  # a definition each
    repairs = table(page, "repairs")
    ordered = sorted(found.repairs, key=lambda one: (one.control, float(one.log_score)))
    assert [row[0] for row in repairs.rows] == [repair.title for repair in ordered]
    (marked,) = repairs.marked
    assert ordered[marked].recommended
    assert "not clearly worse than the best" in repairs.tips["verdict"]
    summary = {row[0]: row for row in table(page, "summary").rows}
    best = found.recommended
    assert summary["observed (right)"][1:3] == (percent(found["accuracy"]), percent(best.accuracy))
    both = ((found["ece"], found.errors[0].null_high), (best.ece, best.ece_chance))
    assert float(found["ece"]) > found.errors[0].null_high
    assert best.ece < best.ece_chance
    ece = tuple(
        f"{number(error, 3)} ({how} {number(limit, 3)})"
        for how, (error, limit) in zip((">", "≤"), both, strict=True)
    )
    assert summary["ECE, 15 bins (95% limit)"][1:] == ece
    assert [row[0] for row in table(page, "groups").rows] == ["site = north", "site = south"]


def test_the_diagrams_are_those_of_the_evidence(found, world):
    drawn = figures(audit_page(found))
    first = drawn["reliability"].variants["the most probable class", "original", "15 equal bins"]
    assert first.error == pytest.approx(float(pb.calibration_error(world.y, world.mcs)), abs=1e-12)
    for figure in drawn.values():
        choices = [()]
        for control in figure.controls:
            choices = [(*choice, option) for choice in choices for option in control.options]
        assert set(figure.variants) == set(choices)


def misjudged_in(figure: Figure) -> set[str]:
    """The categories with the mark of a misjudged rate."""
    (panel,) = figure.variants[()].picture().panels
    marks = [mark for mark in panel.marks if mark.role in ("over", "under", "mixed")]
    return {panel.y.categories[int(place)] for mark in marks for place in mark.y}


def test_marks_of_groups_and_classes_say_what_the_tables_say():
    """Two of six classes are wrong in one of four groups."""
    rng = np.random.default_rng(5)
    n, K = 6000, 6
    p = np.exp(rng.normal(0, 1.5, (n, K)))
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    site = rng.integers(0, 4, n)
    moved = np.where(site == 3, 0.9 * p[:, 0], 0)
    p[:, 0] -= moved
    p[:, 1] += moved
    page = audit_page(pb.audit(y, p, columns={"site": site}, repair=None))
    figure = figures(page)["group-rates"]
    said = {row[0]: row[-1] for row in table(page, "groups").rows}
    assert set(said) == set(figure.variants[()].names)
    assert misjudged_in(figure) == {
        key for key, verdict in said.items() if verdict != "no clear error"
    }
    assert 0 < len(misjudged_in(figure)) < len(said)
    # the dot plot of classes judges what it draws: how often a predicted class is right
    top, figure = p.argmax(axis=1), figures(page)["class-rates"]
    residual, spread = (y == top) - p.max(axis=1), np.sqrt(p.max(axis=1) * (1 - p.max(axis=1)))
    z = {
        f"class {k}": abs(residual[top == k].sum()) / np.sqrt((spread[top == k] ** 2).sum())
        for k in range(K)
    }
    assert set(z) == set(figure.variants[()].names)
    assert {key for key, value in z.items() if value > 4} <= misjudged_in(figure)
    assert misjudged_in(figure) <= {key for key, value in z.items() if value > 2.5}
    assert 0 < len(misjudged_in(figure)) < K


def test_a_class_that_is_right_as_often_as_predicted_is_not_marked():
    """Alarms of calibrated models among 100 classes, and of none among overconfident ones."""
    rng = np.random.default_rng(0)
    n, K = 5000, 100
    p = np.exp(rng.normal(0, 3, (n, K)))
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    fine = figures(audit_page(pb.audit(y, p, repair=False)))["class-rates"]
    assert not misjudged_in(fine)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    off = figures(audit_page(pb.audit(y, sharp, repair=False)))["class-rates"]
    assert len(misjudged_in(off)) > 10


def test_classes_that_are_off_only_together_are_called_so():
    """Each of 200 classes has eight rows; the model is underconfident everywhere."""
    rng = np.random.default_rng(0)
    n, K = 1600, 200
    y, z = rng.integers(0, K, n), rng.normal(size=(n, K))
    z[np.arange(n), y] += 3
    audit = pb.audit(y, z, from_logits=True, repair=False)
    classwise = next(one for one in audit.errors if one.name == "classwise_ece")
    assert classwise.p_value < 0.01
    assert not any(one.miscalibrated for one in audit.class_errors)
    lead = section(audit_page(audit), "classes").lead
    assert f"(mean error {number(classwise.estimate)}, where" in lead
    assert "class-reliability" not in figures(audit_page(audit))
    fair = rng.dirichlet(np.ones(5), 600)
    drawn = (fair.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    lead = section(audit_page(pb.audit(drawn, fair, repair=False)), "classes").lead
    assert lead.endswith("No class's own probability is clearly miscalibrated.")


def test_a_constant_forecast_has_no_diagram_and_no_advice_to_see_one():
    y = (np.random.default_rng(0).random(2000) < 0.3).astype(int)
    audit = pb.audit(y, np.full(2000, 0.2), repair="compare")
    assert audit.grade == "do_not_use"
    text = as_html(audit_page(audit))
    assert "See the reliability diagram" not in text
    assert "No reliability diagram" in text


def test_an_infinite_loss_has_bars_and_a_chart_of_losses():
    """No share of an infinite loss can be removed, so the chart shows losses after repair."""
    rng = np.random.default_rng(0)
    sure = np.round(rng.beta(5, 2, 2000), 1)
    rows = pb.Predictions.from_confidence(sure, rng.random(2000) < 0.8 * sure)
    audit = pb.audit(rows, repair="compare")
    count = int(((sure == 1) & (rows.y == 0)).sum() + ((sure == 0) & (rows.y == 1)).sum())
    assert f"the model was certain and wrong in {count} rows" in audit.headline
    page = audit_page(audit)
    drawn = figures(page)["repair-gains"].variants[()]
    assert drawn.what == "log loss / base rate"
    losses = {one.title: float(one.normalized) for one in audit.repairs if not one.control}
    for name, value in zip(drawn.names, drawn.values, strict=True):
        assert float(value) == losses[name] < math.inf
    assert set(drawn.left_out) == {name for name, loss in losses.items() if loss == math.inf}
    assert "original (uncalibrated)" in drawn.left_out
    assert "gain" not in table(page, "repairs").headers
    (bars,) = (block for block in blocks(section(page, "summary")) if isinstance(block, LossBars))
    original, after = bars.bars
    assert original.broken
    assert not after.broken
    steps = " ".join(
        step.advice_text(audit.spelling)
        for block in section(page, "next").blocks
        for step in block.steps
    )
    assert "calibrate" not in steps or "--method" not in steps


def test_the_page_leads_with_the_findings_of_the_terminal():
    rng = np.random.default_rng(0)
    p, site = rng.uniform(0.1, 0.9, 4000), rng.integers(0, 2, 4000)
    y = (rng.random(4000) < np.where(site == 1, 0.6 * p, p)).astype(int)
    audit = pb.audit(y, p, columns={"site": site})
    (point,) = audit_page(audit).points
    assert point[1].startswith(
        "Before recalibration, the worst group is site = 1: predicted too high ("
    )
    assert point[1] in " ".join(str(audit).split())
    assert point[1] in as_html(audit_page(audit))


def test_few_rows_have_few_bins_by_default(world):
    rows = audit_page(pb.audit(world.y[:240], world.mcs[:240]))
    drawn = figures(rows)
    for name in ("reliability", "class-reliability"):
        figure = drawn[name]
        first = figure.variants[tuple(control.options[0] for control in figure.controls)]
        assert first.bins == "4 equal-width bins"
    assert "15 equal bins" in drawn["reliability"].controls[-1].options


def test_tables_beside_charts_join_the_ends_of_intervals(found):
    shown = figures(audit_page(found))["reliability"].first
    names = ["rows", "predicted", "observed", "95% interval", "verdict"]
    assert list(shown.shown) == names
    low, high = (shown.columns[f"95% interval, {end}"] for end in ("low", "high"))
    cells = [dict(row)["95% interval"] for row in shown.table_rows]
    assert cells == [f"{a} to {b}" for a, b in zip(low, high, strict=True)]
    assert {"from", "to", "share of rows"} <= set(shown.columns)  # for files


@pytest.mark.parametrize(
    "kind", ["one column", "pairs", "one class", "few rows", "sure", "weights", "many classes"]
)
def test_pages_of_edge_cases(kind):
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
        found = pb.audit(
            y, p, repair="compare", classes=range(40) if kind == "many classes" else [0, 1], **more
        )
    page = audit_page(found)
    found_sections = [part.name for part in page.sections]
    assert found_sections == [name for name in SECTIONS if name in found_sections]
    assert {"summary", "calibration", "actions", "numbers", "methods"} <= set(found_sections)
    assert ("classes" in found_sections) == (kind == "many classes")
    assert "NaN" not in as_html(page).partition('id="figures">')[2].partition("</script>")[0]


def test_a_comparison_page(world):
    found = pb.compare({"raw": world.mcs, "calibrated": world.cal}, world.y, resamples=50)
    page = comparison_page(found, "two models")
    assert page.title == "two models"
    assert page.headline == found.headline == "Use 'calibrated'."
    assert (page.grade, page.lead) == ("Clear choice", found.decision.sentence)
    assert found.to_markdown() in page.markdown
    assert page.headline in page.markdown
    rows = {row[0]: row for row in table(page, "summary").rows}
    assert any(cell.startswith(number(found["raw"]["log_score"])) for cell in rows["raw"])
    assert [section.name for section in page.sections][:2] == ["summary", "calibration"]
    assert list(figures(page))[:2] == ["forest", "overlaid"]
    assert figures(page)["aligned"].variants[()].models == ("raw", "calibrated")
    text = as_html(page)
    assert "calibrated minus raw" in text
    sharpness = figures(page)["sharpness"].variants[()]
    tops = [one.density.max() for one in sharpness.each.values()]
    drawn = [
        max(
            mark.high.max()
            for mark in panel.marks
            if isinstance(mark, Band) and mark.role == "density"
        )
        for panel in sharpness.picture().panels
    ]
    assert drawn[0] / drawn[1] == pytest.approx(tops[0] / tops[1])  # one scale for all models
    assert (
        json.loads(text.partition('id="figures">')[2].partition("</script>")[0])["figures"].keys()
        == figures(page).keys()
    )


def stated(groups: bool = False) -> pb.Predictions:
    """Confidences that are calibrated except at one site, where they are too high."""
    rng = np.random.default_rng(0)
    confidence, site = rng.beta(5, 2, 3000), np.array(["north", "south"])[np.arange(3000) % 2]
    correct = rng.random(3000) < np.where(site == "south", confidence**2, confidence)
    return pb.Predictions.from_confidence(
        confidence, correct, columns={"site": site} if groups else None
    )


def texts(page: Page) -> str:
    """All visible text, without markup, scripts and names of the program."""
    text = re.sub(r"<(script|style|code)\b.*?</\1>", "", as_html(page), flags=re.DOTALL)
    text += "".join(re.findall(r'aria-label="([^"]*)"', text))
    return html.unescape(re.sub(r"<[^>]*>", "\n", text))


def test_texts_contain_no_code(found, world):
    compared = pb.compare(
        {"a": world.mcs, "b": world.cal}, world.y, features=np.c_[world.y], resamples=50
    )
    for page in (
        audit_page(found),
        audit_page(pb.audit(stated(), repair="compare")),
        comparison_page(compared),
    ):
        text = texts(page)
        assert not re.findall(r".*\w\((?:\w+=|\)).*", text)  # EqualWidth(bins=15), TopLabel()
        assert not re.findall(r".*(?:argmax|zero_one|brier score|`).*", text)
        assert "Brier score" in text


def test_a_confidence_is_not_called_a_class(found):
    audit = pb.audit(stated(groups=True), regions=["site"], repair="compare")
    lines = [
        line
        for line in texts(audit_page(audit)).splitlines()
        if re.search("top.label|probable class|true class", line)
    ]
    assert lines == []
    assert "ECE, 15 bins" in audit.to_text()
    assert "top label" not in audit.to_text()
    compared = pb.compare({"a": stated(), "b": stated()}, resamples=50, repair=False)
    assert "probable class" not in texts(comparison_page(compared))


def test_given_groups_are_not_called_regions():
    audit = pb.audit(stated(groups=True), regions=["site"], repair=False)
    page = audit_page(audit)
    served = table(page, "groups", 1)
    assert served.caption.startswith(
        "Misjudged: groups by site, over all their outputs, after bias-corrected "
    )
    # One map for both groups corrects their mean: what was right for the north is then too low.
    assert [(row[0], row[-1]) for row in served.rows] == [
        ("site = north", "underconfident"),  # the log loss weighs rates far from half more
        ("site = south", "overconfident"),
    ]
    assert {row[0]: row[-1] for row in table(page, "groups", 0).rows} == {
        "site = south": "overconfident",
        "site = north": "no clear error",
    }
    plain = replace(
        audit, budget=pb.loss_budget(stated(groups=True), regions=["site"], calibrator="none")
    )
    served = table(audit_page(plain), "groups", 1)
    assert served.headers[2] == "predicted"
    assert [(row[0], row[-1]) for row in served.rows] == [("site = south", "overconfident")]
    assert "groups the model misjudges, by site" in audit.to_text()
    (finding,) = (finding for finding in audit.findings if finding.rule == "hidden_groups")
    assert "what sets these groups apart" in finding.advice[0]
    even = pb.simulate.unfair_groups(3000, {"a": 0.0, "b": 0.0})
    fair = pb.audit(
        even.y, even.scores, columns={"group": even.group}, regions=["group"], repair=False
    )
    after = "After bias-corrected temperature, no single group by group is clearly misjudged."
    assert Words(after) in section(audit_page(fair), "groups").blocks
    assert "none detected" in fair.to_text()


def test_shares_are_of_the_log_loss(world):
    """A budget splits the log loss of the summary, also if only one event has enough rows."""
    few = slice(0, 900)  # too few for bounds from all classes
    for rows in (few, slice(None)):
        features = np.c_[world.y[rows]]
        found = pb.audit(world.y[rows], world.mcs[rows], features=features, repair=False)
        assert "% of the log loss (95%" in found.verdict
        assert float(found.budget.total) == found["log_score.normalized"]


def test_an_infinite_log_loss_is_replaced_by_the_brier_score(world):
    p = world.mcs.copy()
    p[:2] = np.eye(p.shape[1])[(world.y[:2] + 1) % p.shape[1]]
    found = pb.audit(world.y, p, features=np.c_[world.y], repair=False)
    assert found.budget.score == "brier"
    assert float(found.budget.total) == found["brier_score.normalized"]
    sentence = "The log loss is infinite, so these are parts of the Brier score."
    blocks = section(audit_page(found), "budget").blocks[0].left
    assert Words(sentence) in blocks
    assert sum(isinstance(block, Words) for block in blocks) <= 2
    assert sentence in " ".join(found.to_text().split())


def test_the_gain_is_the_share_that_the_budget_removes(found):
    shown = " ".join(found.to_text().split())
    best = found.recommended
    low, high = best.gain.interval
    assert (
        f"{best.gain:.1%} of the log loss ({low:.1%} to {high:.1%}), removed by {best.title}"
        in shown
    )
    (columns,) = section(audit_page(found), "budget").blocks
    (parts,) = columns.right
    line = next(row for row in parts.rows if row[0] == "removable by recalibration")
    assert line[3] == f"{best.gain:.1%}"
    assert set(parts.tips) >= {row[0] for row in parts.rows[1:-1]}


def test_wide_tables_are_split(world):
    compared = pb.compare(
        {"a": world.mcs, "b": world.cal}, world.y, features=np.c_[world.y], resamples=50
    )
    page = comparison_page(compared)
    assert len(table(page, "summary").headers) <= 8
    assert all(len(table(page, "numbers", place).headers) <= 8 for place in (0, 1))
    assert "hidden groups (at least)" in table(page, "numbers", 1).headers
    assert "bias-corrected temperature removes of the log loss" in texts(page)
    assert "hidden groups cost of the Brier score" in compared.to_text()


def test_the_same_number_has_one_format_everywhere():
    assert percent(0.6515) == percent(0.6515 + 1e-16) == percent(np.nextafter(0.6515, 1))
    assert percent(-1e-9) == "0.0%"
    assert number(-1.96e-18) == number(1.66e-33) == "0.0000"


def test_progress_names_the_current_step(found, world, monkeypatch):
    bars = []

    class Bar(Progress):
        def __enter__(self):
            bars.append(self)
            return super().__enter__()

    for module in (comparison, audit_page_module):
        monkeypatch.setattr(module, "Progress", Bar)
    audit_page(found)
    pb.compare(
        {"a": world.mcs, "b": world.cal},
        world.y,
        features=np.c_[world.y],
        resamples=50,
        repair=False,
    )
    assert [(bar._unit, bar._done, bar._total) for bar in bars] == [
        ("sections of the report", 10, 10),
        ("models", 2, 2),
        ("loss budgets", 2, 2),
    ]
    assert not any(bar._show for bar in bars)  # this is no terminal


def test_notebooks_show_a_summary_without_scripts(found, world):
    compared = pb.compare({"raw": world.mcs, "calibrated": world.cal}, world.y, resamples=50)
    for shown in (found, compared):
        text = shown._repr_html_()
        assert "<table>" in text
        assert "<script" not in text
        assert "<style" not in text


def test_without_a_reliability_chart_the_bars_stand_beside_the_table():
    y = (np.random.default_rng(0).random(400) < 0.3).astype(int)
    page = audit_page(pb.audit(y, np.full(400, 0.3), repair="compare"))
    columns, why = section(page, "summary").blocks
    assert isinstance(columns, Columns)
    assert isinstance(why, Words)
    assert "all rows have the same probability" in why.text
    assert not {"actions", "calibration"} & {part.name for part in page.sections}
    assert "repair-gains" not in figures(page)
    summary = {row[0]: row for row in columns.right[0].rows}
    assert " to " in summary["log loss / base rate"][1]  # few rows: with the interval
    assert [block.kind for block in columns.left] == ["bars"]
    assert [block.kind for block in columns.right] == ["table"]
