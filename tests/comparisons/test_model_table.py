"""The table of a comparison: the given order, the best in bold, ties, Markdown and LaTeX; and at
most three findings."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import probaudit as pb
from probaudit import calibrators
from probaudit.comparisons.metrics import METRICS, PUBLISHED
from probaudit.comparisons.model_table import ModelTable
from probaudit.report.comparison_page import comparison_page
from probaudit.text import number
from tests.conftest import softmax

NAMES = ("z_raw 50%", "a|near & {same}", "mean")


@pytest.fixture(scope="module")
def found():
    """The names are not in alphabetical order, nor in that of any metric."""
    world = pb.simulate.gaussian_posteriors(2000, 3, seed=1)
    noise = np.random.default_rng(0).normal(0, 0.02, world.cal.shape)
    near = softmax(np.log(world.cal) + noise)
    mean = calibrators.MeanReplacement().fit(world.mcs, world.y).predict_proba(world.mcs)
    models = dict(zip(NAMES, (world.cal, near, mean), strict=True))
    return pb.compare(models, world.y, resamples=200, repair=False)


def column(found, name):
    (cells,) = zip(*ModelTable.of(found, [name]).cells, strict=True)
    return cells


def test_the_best_and_its_ties_are_those_of_the_paired_differences(found):
    """Against the differences from the best model, taken as the reference."""
    world = pb.simulate.gaussian_posteriors(2000, 3, seed=1)
    again = {}
    for name in PUBLISHED:
        cells = column(found, name)
        values = [float(found[m][name]) for m in found.names]
        best = int(np.argmin(values) if METRICS[name].lower else np.argmax(values))
        assert [cell.text for cell in cells] == [number(x) for x in values]
        assert cells[best].best
        assert not cells[best].tied
        reference = found.names[best]
        if reference not in again:
            mean = calibrators.MeanReplacement().fit(world.mcs, world.y)
            noise = np.random.default_rng(0).normal(0, 0.02, world.cal.shape)
            outputs = (
                world.cal,
                softmax(np.log(world.cal) + noise),
                mean.predict_proba(world.mcs),
            )
            again[reference] = pb.compare(
                dict(zip(NAMES, outputs, strict=True)),
                world.y,
                reference=reference,
                resamples=200,
                repair=False,
            )
        for model, cell in zip(found.names, cells, strict=True):
            if not cell.best:
                gap = again[reference].differences[model][name]
                assert cell.tied == (gap.low <= 0 <= gap.high), (name, model)
    assert column(found, "log_score")[1].tied or column(found, "log_score")[0].tied
    assert not column(found, "log_score")[2].tied


def test_an_infinite_score_is_neither_best_nor_tied(found):
    zero = dict(found.estimates["mean"]) | {"log_score": pb.Estimate(np.inf)}
    one = replace(found, estimates=dict(found.estimates) | {"mean": zero})
    assert (column(one, "log_score")[2].text, column(one, "log_score")[2].tied) == ("∞", False)
    every = {m: dict(found.estimates[m]) | {"log_score": pb.Estimate(np.inf)} for m in NAMES}
    cells = column(replace(found, estimates=every), "log_score")
    assert not any(cell.best or cell.tied for cell in cells)
    assert not any(cell.best or cell.tied for cell in column(found, "entropy"))


def test_markdown(found):
    lines = found.to_markdown().splitlines()
    header = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert header == [
        "model",
        "accuracy ↑",
        "log loss ↓",
        "Brier score ↓",
        "ECE ↓",
        "classwise ECE ↓",
        "MCE ↓",
        "ACE ↓",
        "SmoothECE ↓",
    ]
    rows = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:5]]
    assert [row[0] for row in rows] == [r"z\_raw 50%", r"a\|near \& \{same\}", "mean"]
    assert all(len(row) == len(header) for row in rows)
    for k, name in enumerate(PUBLISHED):
        bold = [row[k + 1].startswith("**") for row in rows]
        tied = [row[k + 1].endswith("†") for row in rows]
        assert bold == [cell.best for cell in column(found, name)]
        assert tied == [cell.tied for cell in column(found, name)]
    assert "† tied with the best: the paired 95% interval" in lines[-1]
    assert found.to_markdown(["ece"]).splitlines()[0] == "| model | ECE ↓ |"
    with pytest.raises(pb.InputError, match="must list some of accuracy, log_score"):
        found.to_markdown(["nll"])


def test_latex(found):
    text = found.to_latex(caption="Models & costs.")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [row.split(" & ")[0] for row in rows[1:]] == [
        r"z\_raw 50\%",
        r"a\textbar{}near \& \{same\}",
        "mean",
    ]
    cells = [re.split(r"(?<!\\) & ", row.removesuffix(r" \\")) for row in rows]
    assert {len(row) for row in cells} == {1 + len(PUBLISHED)}
    for k, name in enumerate(PUBLISHED):
        for row, cell in zip(cells[1:], column(found, name), strict=True):
            expected = rf"\textbf{{{cell.text}}}" if cell.best else cell.text
            assert row[k + 1] == expected + r"\rlap{$^{\dagger}$}" * cell.tied
    assert r"\caption{Models \& costs. Bold: best of 3 models" in text
    assert text.count("{") == text.count("}")
    assert text.isascii()


def test_at_most_three_findings_and_each_once(found):
    """Many rules fire: the others are notes, which no finding repeats."""
    costs, models = 1 - np.eye(3), {}
    world = pb.simulate.gaussian_posteriors(2000, 3, seed=1)
    mean = calibrators.MeanReplacement().fit(world.mcs, world.y).predict_proba(world.mcs)
    zero = world.cal.copy()
    zero[int(np.flatnonzero(world.y == 0)[0])] = [0, 0.5, 0.5]
    broken = world.mcs.copy()
    broken[3] = [0.5, 0.4, 0.4]
    models = {"raw": broken, "cal": world.cal, "mean": mean, "zero": zero}
    got = pb.compare(models, world.y, costs=costs, repair=False, resamples=50, on_bad_rows="drop")
    assert len(got.findings) == 3
    assert len(got.notes) >= 2
    every = (*got.findings, *got.notes)
    assert len({finding.rule for finding in every}) == len(every)
    assert sum(finding.rule == "best_by_score" for finding in got.findings) == 1
    page = comparison_page(got)
    shown = [
        finding
        for section in page.sections
        for block in section.blocks
        if block.kind == "findings"
        for finding in block.findings
    ]
    # the headline has the best model, and the rest follows once
    assert sorted(f.rule for f in shown) == sorted(
        f.rule for f in every if f.rule != "best_by_score"
    )
    assert [section.name for section in page.sections] == [
        "summary",
        "calibration",
        "numbers",
        "paper",
        "methods",
    ]
    assert got.to_dict()["notes"][0]["rule"] == got.notes[0].rule
    text = " ".join(got.to_text().split())
    for finding in every:
        assert text.count(finding.text) == 1, finding.rule


def test_models_keep_their_order_everywhere(found):
    page = comparison_page(found)
    tables = [b for s in page.sections if s.name == "models" for b in s.blocks if b.kind == "table"]
    assert all([row[0] for row in table.rows] == list(NAMES) for table in tables)
    assert found.forest().models == NAMES[1:]
    assert found.reliability().models == NAMES
