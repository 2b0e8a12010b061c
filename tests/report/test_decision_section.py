"""The section on decisions and costs: its slider, its start, and its charts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import probaudit as pb
from probaudit.diagrams.palette import colour
from probaudit.diagrams.picture import Line
from probaudit.report.decision_section import decision_section
from probaudit.report.page import Figure, Page, ThresholdSlider, as_html


def rows(classes: int = 2, n: int = 800, factor: float = 2.5) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident probabilities."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, classes))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(factor * z)
    return y, p / p.sum(axis=1, keepdims=True)


def section(audit: pb.Audit) -> tuple[ThresholdSlider, dict[str, Figure]]:
    slider, *others = decision_section(audit).blocks
    assert isinstance(slider, ThresholdSlider)
    return slider, {block.name: block for block in others if isinstance(block, Figure)}


def start(**choices: Any) -> int:
    y, p = rows()
    return section(pb.audit(y, p, repair=False, **choices))[0].start


def test_the_slider_starts_at_the_given_costs():
    assert start() == 50
    assert start(costs=[[0, 1], [4, 0]]) == 20  # 1 / (1 + 4)
    assert start(costs=[[0, 1], [4, 0]], event=0) == 80  # a false alarm of class 0 costs 4
    assert start(costs=[[0, 1], [1000, 0]]) == 1
    assert start(costs=[[0, 1], [-1, 0]]) == 50  # a miss gains


def test_the_slider_of_confidences_starts_at_the_cost_of_a_review():
    y, p = rows(classes=4)
    slider, figures = section(pb.audit(y, p, repair=False, reject_cost=0.3))
    assert slider.start == 70
    assert (slider.low, slider.high) == (25, 99)  # no confidence is below 1 / 4
    assert slider.first.ratio == 30
    assert list(figures) == ["risk-coverage"]
    assert slider.markers == {}  # the chart is by the share of rows, not by threshold


def test_the_slider_of_confidences_starts_where_rows_are_answered():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(20, 5.0), 2000)  # no confidence is near 0.9
    y = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    slider, _ = section(pb.audit(y, p, repair=False))
    assert np.mean(p.max(axis=1) >= slider.start / 100) == pytest.approx(0.5, abs=0.2)


def test_a_stated_confidence_may_be_low():
    y, p = rows()
    found = pb.audit(pb.Predictions.from_confidence(p[:, 1], y == 1), repair=False)
    assert section(found)[0].low == 1


def test_columns_before_and_after_recalibration():
    y, p = rows()
    audit = pb.audit(y, p)
    assert audit.grade == "recalibrate"
    slider, figures = section(audit)
    assert list(slider.headers) == ["of 1,000 rows", "original", "recalibrated"]
    assert {len(row) for one in slider.positions for row in one.cells} == {2}
    assert list(figures) == ["risk", "net-benefit", "risk-coverage"]
    for figure in figures.values():
        (diagram,) = figure.variants.values()
        (panel,) = diagram.picture().panels
        drawn = {
            mark.name.partition(" (")[0]: colour(mark.role)
            for mark in panel.marks
            if isinstance(mark, Line)
        }
        assert drawn["original"] == "#D55E00"
        assert drawn["recalibrated"] == "#0072B2"


def test_one_column_without_a_repair():
    y, p = rows(factor=1.0)
    slider, _ = section(pb.audit(y, p, repair=False))
    assert list(slider.headers) == ["of 1,000 rows", "original"]
    assert {len(row) for one in slider.positions for row in one.cells} == {1}


def test_a_single_class_has_no_cost_curve():
    found = pb.audit(np.zeros(50, int), np.full((50, 2), 0.5), repair=False)
    slider, figures = section(found)
    assert "risk" not in figures
    assert slider.first.cells[-1] == ("–",)


def test_a_chosen_event_of_several_classes_has_a_slider():
    y, p = rows(classes=3)
    slider, figures = section(pb.audit(y, p, event=2))
    assert slider.axis == "probability of class 2"
    assert "risk" in figures
    hits = np.mean((p[:, 2] >= 0.5) & (y == 2))
    assert slider.first.cells[1][0] == f"{round(1000 * hits):,}"


def test_the_markup_has_no_inline_style():
    y, p = rows(n=200)
    audit = pb.audit(y, p, repair=False)
    text = as_html(Page("t", "", "h", "note", [decision_section(audit)]))
    begin = text.index('<div class="slider"')
    markup = text[begin : text.index("<figure", begin)]
    assert "style=" not in markup
    assert 'type="range"' in markup
    assert markup.count("<tr") == 3 + 1 + 4  # heads, the chosen threshold, a few thresholds


def test_few_rows_have_few_thresholds():
    y, p = rows(n=60)
    _, figures = section(pb.audit(y, p, repair=False, event=1))
    for name in ("risk", "net-benefit"):
        (diagram,) = figures[name].variants.values()
        drawn = np.unique(diagram.columns()["threshold"])
        assert drawn == pytest.approx(np.arange(5, 100, 5) / 100)
