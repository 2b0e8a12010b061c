"""What a notebook displays: one output per result, and tables instead of arrays."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import probaudit as pb
from probaudit.text import TextTable, number, p_value, percent

THREE = pb.simulate.gaussian_posteriors(800, 3, seed=1)
TWO = pb.simulate.gaussian_posteriors(800, 2, seed=2)
WORLD = pb.simulate.neural_outputs(3000)


def results():
    models = {"raw": THREE.mcs, "cal": THREE.cal}
    yield pb.audit(THREE.y, THREE.mcs, repair=False)
    yield pb.compare(models, THREE.y, resamples=50, repair=False)
    yield pb.multilabel_table(np.column_stack([TWO.y, 1 - TWO.y]), TWO.mcs)


@pytest.fixture(scope="module", params=["audit", "comparison", "multilabel"])
def result(request):
    return dict(zip(("audit", "comparison", "multilabel"), results(), strict=True))[request.param]


def pretend(monkeypatch, *types: str) -> None:
    """IPython with a frontend that displays these types."""
    shell = SimpleNamespace(display_formatter=SimpleNamespace(active_types=list(types)))
    module = ModuleType("IPython")
    module.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_a_notebook_has_the_result_once(result, monkeypatch):
    pretend(monkeypatch, "text/plain", "text/html")
    shown = result._repr_mimebundle_()
    assert shown == {"text/html": result._repr_html_(), "text/plain": result.headline}


def test_a_terminal_has_the_whole_text(result, monkeypatch):
    pretend(monkeypatch, "text/plain")
    assert result._repr_mimebundle_()["text/plain"] == repr(result)
    monkeypatch.delitem(sys.modules, "IPython")
    assert result._repr_mimebundle_()["text/plain"] == repr(result)


def test_a_comparison_says_everything_once():
    models = {"raw": THREE.mcs, "cal": THREE.cal, "raw²": THREE.mcs**1.0}
    found = pb.compare(models, THREE.y, resamples=50, repair=False)
    text = re.sub(r"<[^>]*>", "", found._repr_html_()).replace("&#39;", "'")
    told = [finding.text for finding in found.findings if finding is not found.best]
    for words in (found.headline, found.decision.sentence, *told):
        assert text.count(words) == 1, words


REGIONS = pb.grouping_loss(WORLD.y, WORLD.scores, WORLD.features, lens=pb.Binary()).regions
RISK = pb.risk_curve(TWO.y, TWO.mcs)
RATES = pb.grouping_rates(WORLD.y, WORLD.scores, WORLD.features, lens=pb.Binary())
BUDGET = pb.loss_budget(WORLD.y, WORLD.scores, WORLD.features, resamples=20)
CHOICE = pb.select_calibrator(THREE.y, THREE.mcs, candidates=["temperature", "identity"])
TEST = pb.calibration_test(THREE.y, THREE.mcs, resamples=99)
TABLES = {
    "risk curve": (RISK, len(RISK.thresholds), number(RISK.risk[0])),
    "test": (TEST, 1, number(TEST.null_high)),
    "regions": (REGIONS, len(REGIONS), percent(REGIONS[0].observed)),
    "decision curve": (pb.decision_curve(TWO.y, TWO.mcs), 99, "treat all"),
    "risk coverage": (pb.risk_coverage(THREE.y, THREE.mcs), 100, "excess AURC"),
    "grades": (pb.grade_table(TWO.y, TWO.mcs, scale=[0.2, 0.5]), 3, "predicted"),
    "grouping rates": (RATES, len(RATES.region_rows), percent(RATES.region_low[0])),
    "budget": (BUDGET, 8, number(BUDGET.after.total)),
    "choice": (CHOICE, len(CHOICE.candidates), "* temperature"),
    "best threshold": (pb.best_threshold(TWO.y, TWO.mcs, [[0, 1], [5, 0]]), 2, "0.167"),
    "sweep": (pb.partition_sweep(THREE.y, THREE.mcs, resamples=20), 8, "stable"),
    "validation": (
        pb.validation_table(TWO.y, TWO.mcs, groups=np.where(TWO.y == 1, "<b>", "c")),
        3,
        "group = <b>",
    ),
    "groups": (
        pb.audit(THREE.y, THREE.mcs, columns={"g": THREE.y % 2}, repair=False).groups,
        2,
        "q",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_tables(name):
    """The same numbers printed and displayed, and all of them in the frame."""
    table, rows, words = TABLES[name]
    text, page = repr(table), table._repr_html_()
    assert words in text
    assert "array(" not in text
    assert len(text.splitlines()) >= 2
    assert "<table>" in page
    if name != "groups":  # whose page has its own words
        assert words.replace("<b>", "&lt;b&gt;") in page
        assert "<b>" not in page
    frame = table.to_frame()
    assert len(frame) == rows


def test_frames_have_the_numbers():
    frame = RISK.to_frame()
    assert frame.threshold.tolist() == RISK.thresholds.tolist()
    assert frame.risk.tolist() == RISK.risk.tolist()
    (line,) = TEST.to_frame().to_dict("records")
    assert line["value"] == TEST.value
    assert line["excess"] == TEST.value - TEST.null_mean
    frame = REGIONS.to_frame()
    assert frame.predicted.tolist() == [region.stated for region in REGIONS]
    assert frame.rule.tolist() == [region.rule for region in REGIONS]


def test_a_test_prints_its_p_value_as_the_report_does():
    assert repr(TEST).splitlines()[-1].endswith(p_value(TEST.p_value))
    assert "11 of 99 thresholds; to_frame() has all." in repr(RISK)


def test_text_tables_escape_names():
    table = TextTable("a < b", ("", "x"), [["<script>", "1 & 2"]], note='"')
    assert table.html() == (
        "<div><table><caption>a &lt; b</caption><thead><tr><th></th><th>x</th></tr></thead>"
        '<tbody><tr><th style="text-align:left">&lt;script&gt;</th><td>1 &amp; 2</td></tr></tbody>'
        "</table>"
        "<p>&quot;</p></div>"
    )
