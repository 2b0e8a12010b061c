"""Each quantity is one number in verdict, tables, charts, terminal, JSON and `calibrate`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import probaudit as pb
from probaudit.report import summary
from probaudit.report.audit_page import audit_page
from probaudit.report.decision_section import threshold_rule
from probaudit.report.page import Columns, Figure, LossBars, Page, Table, ThresholdSlider
from probaudit.report.terminal import is_constant
from probaudit.report.threshold_words import Acting
from probaudit.scoring.operating_points import OperatingPoints
from probaudit.scoring.risk_coverage import risk_coverage_of
from probaudit.text import number, percent


def outputs(seed: int) -> tuple[pb.Predictions, dict[str, Any]]:
    """Varied rows: two to five classes, pairs, weights, clusters and groups; calibrated, wrong
    temperatures and biases, constant and certain outputs."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.integers(150, 700)), int(rng.integers(2, 6))
    truth = rng.normal(size=(n, classes)) * rng.uniform(0.5, 2.5)
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    y[:classes] = np.arange(classes)
    stated = truth * rng.choice([0.5, 1.0, 1.0, 2.0, 3.0]) + rng.choice([0, 0, 1]) * rng.normal(
        size=classes
    )
    if seed % 10 == 7:
        stated = np.zeros_like(stated)
    p = np.exp(stated - stated.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    more: dict[str, Any] = {}
    if seed % 3 == 0:
        more["columns"] = {"site": rng.choice(["a", "b", "c"], n), "age": rng.normal(50, 9, n)}
    if seed % 5 == 1:
        more["sample_weight"] = rng.gamma(2, size=n)
    if seed % 7 == 2:
        more["clusters"] = np.arange(n) // 3
    choices = {"regions": list(more["columns"])} if "columns" in more else {}
    if seed % 6 == 4:
        right = p.argmax(axis=1) == y
        return pb.Predictions.from_confidence(p.max(axis=1), right, **more), choices
    return pb.Predictions(y, p, **more), choices


def blocks(page: Page) -> list[Any]:
    return [
        inner
        for part in page.sections
        for block in part.blocks
        for inner in ((*block.left, *block.right) if isinstance(block, Columns) else (block,))
    ]


@pytest.mark.parametrize("seed", range(30))
def test_each_quantity_is_one_number(seed):
    rows, choices = outputs(seed)
    audit = pb.audit(rows, repair="compare" if seed % 2 else None, **choices)
    found, page = json.loads(audit.to_json()), audit_page(audit)
    short, full = repr(audit), audit.to_text()
    _verdict(audit, page, found, short, full)
    _summary(audit, page, found, full)
    _decisions(audit, page)
    if audit.repairs:
        _repairs(audit, page, found, full, rows, choices)
    if audit.budget is not None:
        _budget(audit, page, found, full)


def _verdict(audit: pb.Audit, page: Page, found: dict[str, Any], short: str, full: str) -> None:
    decision = found["decision"]
    assert page.headline == audit.headline == found["headline"] == decision["headline"]
    assert page.lead == decision["sentence"]
    for text in (short, full):
        flat = " ".join(text.split())
        assert audit.headline in flat
        assert decision["sentence"] in flat
    assert audit.headline in page.markdown
    assert len(decision["findings"]) <= 3
    assert len(short.splitlines()) <= 22


def _summary(audit: pb.Audit, page: Page, found: dict[str, Any], full: str) -> None:
    shown = blocks(page)
    tables = {block.caption: block for block in shown if isinstance(block, Table)}
    rows = {row[0]: row[1] for row in next(iter(tables.values())).rows}
    ece = found["errors"][0]["value"]
    limit = found["errors"][0]["null_high"]
    above = limit is not None and number(ece, 3) != number(limit, 3) and ece > limit
    limited = "" if limit is None else f" ({'>' if above else '≤'} {number(limit, 3)})"
    shown_ece = next(text for name, text in rows.items() if name.startswith("ECE"))
    assert shown_ece == number(ece, 3) + limited
    assert found["calibration"]["value"] == ece
    errors = next(block for name, block in tables.items() if name.startswith("Calibration error"))
    assert errors.rows[0][1] == number(ece)
    figures = {block.name: block for block in shown if isinstance(block, Figure)}
    varied = int((audit.evidence.judged.rows > 0).sum()) > 1
    assert ("reliability" in figures) == varied  # no diagram of a single point
    if varied:
        # the chart may start with fewer bins; the ECE has 15
        variants = figures["reliability"].variants
        first = next(iter(variants))
        drawn = variants[(*first[:-1], "15 equal bins")] if first else variants[first]
        assert drawn.error == ece
    assert number(ece) in full
    log = found["estimates"]["log_score.normalized"]["value"]
    shown_loss = rows["log loss / base rate"].split(" (")[0]  # few rows: with the interval
    assert shown_loss == number(np.inf if log is None else log, 3)
    assert rows["predicted, on average"] == percent(found["estimates"]["predicted"]["value"])
    for bars in (block for block in shown if isinstance(block, LossBars)):
        assert bars.bars[0].label.endswith(number(log, 3))


def _decisions(audit: pb.Audit, page: Page) -> None:
    """The slider, the curves, `decision_curve`, `risk_coverage` and the repair agree."""
    shown = blocks(page)
    if is_constant(audit):  # all rows are treated alike
        assert not any(isinstance(block, ThresholdSlider) for block in shown)
        return
    (slider,) = (block for block in shown if isinstance(block, ThresholdSlider))
    rule = threshold_rule(audit)
    best = summary.repaired(audit)
    assert list(rule.points) == ["original", "recalibrated"][: 1 if best is None else 2]
    for place, (name, one) in enumerate(rule.points.items()):
        column = [[row[place] for row in at.cells] for at in slider.positions]
        least = slider.low - 1
        assert column == [rule.cells(one, k) for k in range(least, 99)]
        if isinstance(rule, Acting):
            _acting(audit, one, name, {b.name: b for b in shown if isinstance(b, Figure)})
        else:
            _answering(audit, one, name)


def _acting(audit: pb.Audit, one: OperatingPoints, name: str, figures: dict[str, Figure]) -> None:
    (curves,) = figures["net-benefit"].variants.values()
    (risks,) = figures["risk"].variants.values()
    curve, place = curves.curves[name], risks.names.index(name)
    odds = one.thresholds / (1 - one.thresholds)
    drawn = np.searchsorted(one.thresholds, curve.thresholds)  # fewer if rows are few
    np.testing.assert_array_equal(one.thresholds[drawn], curve.thresholds)
    np.testing.assert_array_equal((one.hits - odds * one.false_alarms)[drawn], curve.net_benefit)
    np.testing.assert_array_equal(one.thresholds[drawn], risks.thresholds)
    np.testing.assert_allclose(risks.drawn[place], one.relative_cost[drawn], rtol=1e-12)
    best = audit.recommended
    whole = audit["predicted"] if name == "original" else best.predicted
    everything = OperatingPoints.of(curve.event, np.array([1e-300]))
    assert everything.predicted_hits[0] == pytest.approx(float(whole))
    assert one.rate == pytest.approx(
        float(audit["observed"] if name == "original" else best.observed)
    )
    if name == "original":
        np.testing.assert_array_equal(curve.net_benefit, audit.decision_curve.net_benefit[drawn])
    if audit.summary.plan.n_classes == 2 and not (curve.event.p == 0.5).any():
        accuracy = audit["accuracy"] if name == "original" else best.accuracy
        assert 1 - one.false_alarms[49] - one.misses[49] == pytest.approx(float(accuracy))


def _answering(audit: pb.Audit, one: OperatingPoints, name: str) -> None:
    best = audit.recommended
    found = audit.risk_coverage if name == "original" else risk_coverage_of(best.out_of_fold.top)
    accuracy = audit["accuracy"] if name == "original" else best.accuracy
    assert one.rate == pytest.approx(float(accuracy))
    for k in np.flatnonzero(one.acted > 0)[::10].tolist():
        coverage = min(float(one.acted[k]), 1.0)
        right = one.hits[k] / one.acted[k]
        assert right == pytest.approx(float(found.accuracy_at(coverage)), abs=1e-9)


def _repairs(
    audit: pb.Audit,
    page: Page,
    found: dict[str, Any],
    full: str,
    rows: pb.Predictions,
    choices: dict[str, Any],
) -> None:
    (best,) = (repair for repair in found["repairs"] if repair["selected"])
    gain = best["gain"]["value"]
    table = next(
        block
        for block in blocks(page)
        if isinstance(block, Table) and block.headers[0] == "calibrator"
    )
    marked = next(row for row in table.rows if row[0] == best["title"])
    advised = [repair["title"] for repair in found["repairs"] if repair["recommended"]]
    assert [table.rows[place][0] for place in table.marked] == advised
    assert len(advised) == (audit.grade in ("use", "recalibrate"))
    assert audit.grade != "recalibrate" or advised == [best["title"]]
    if gain is not None:
        assert marked[table.headers.index("gain")] == percent(gain)
        assert percent(gain) in full
    if audit.grade == "recalibrate":
        columns = summary.rows(audit)
        assert columns[-1].after == number(best["normalized"]["value"], 3)
        assert best["title"].lower() in audit.decision.sentence.lower()
    if len(audit.repairs) > 2:
        groups = tuple(choices.get("regions", ())) or None
        chosen = pb.select_calibrator(rows, groups=groups)
        assert chosen.chosen == best["name"]
        if gain is not None and best["name"] != "identity":
            assert float(chosen.gain) == pytest.approx(gain, abs=1e-12)


def _budget(audit: pb.Audit, page: Page, found: dict[str, Any], full: str) -> None:
    """The budget has the totals of the summary and the gain of the selected calibrator."""
    budget, shown = found["budget"], _section(page, "budget")
    (bars,) = (block for block in shown if isinstance(block, LossBars))
    (table,) = (block for block in shown if isinstance(block, Table))
    rows = {row[0]: row for row in table.rows}
    total = budget["total"]["value"]
    assert total == found["estimates"][f"{budget['score']}_score.normalized"]["value"]
    assert rows["original"][1] == number(total, 3)
    for row in table.rows:
        assert " ".join(row) in " ".join(full.split())
    totals = [rows[name] for name in ("original", "recalibrated") if name in rows]
    (bar,) = bars.bars  # the other bar is in the summary
    assert bar.label == f"original, {rows['original'][1]}"
    for place, whole in enumerate(totals):
        parts = [row for row in table.rows if row not in totals]
        parts = [row for row in parts if place == 0 or not row[0].startswith("removable")]
        for column in (1, 3):
            printed = sum(_printed(row[column]) for row in parts)
            assert printed == pytest.approx(_printed(whole[column]), abs=1e-9)
        words = [part.words.split()[0] for part in bar.segments]
        if place == 0:
            assert sorted(words) == sorted(row[1] for row in parts if _printed(row[1]) > 0)
    best = next((repair for repair in found["repairs"] if repair["selected"]), None)
    if best is None:
        return
    if best["name"] == "identity":
        assert budget["after"] is None
        assert len(totals) == 1
        return
    assert audit.budget.calibrator_words == best["title"]
    if budget["score"] != "log":
        return
    assert budget["after"]["total"] == best["normalized"]
    removed, gain = budget["removed"]["value"], best["gain"]["value"]
    assert removed == total - best["normalized"]["value"]
    assert removed == pytest.approx(gain * total, abs=1e-12)
    raw = next(repair for repair in found["repairs"] if repair["name"] == "identity")
    assert best["log_score"]["value"] == pytest.approx((1 - gain) * raw["log_score"]["value"])
    line = rows["removable by recalibration"]
    if audit.grade != "do_not_use":
        (repairs,) = (block for block in _section(page, "repairs") if isinstance(block, Table))
        marked = next(row for row in repairs.rows if row[0] == best["title"])
        assert line[3] == marked[repairs.headers.index("gain")]
    if audit.grade == "recalibrate":
        (first,) = (block for block in _section(page, "summary") if isinstance(block, LossBars))
        assert f"{line[1]} removable" in [part.words for part in first.bars[0].segments]
        assert [one.label for one in first.bars] == [f"{name}, {x}" for name, x, *_ in totals]


def _section(page: Page, name: str) -> list[Any]:
    (section,) = (section for section in page.sections if section.name == name)
    return blocks(replace(page, sections=[section]))


def _printed(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-").rstrip("%"))


def test_the_budget_is_that_of_a_repair_of_groups():
    world = pb.simulate.unfair_groups(2000, {"a": -0.5, "b": 0.5})
    audit = pb.audit(
        world.y, world.scores, columns={"group": world.group}, regions=["group"], repair="compare"
    )
    best = audit.recommended
    assert best.corrects_groups
    assert audit.budget.calibrator_words == best.title
    assert audit.budget.after.total is best.normalized
    page = audit_page(audit)
    _budget(audit, page, json.loads(audit.to_json()), audit.to_text())
    assert audit.grade == "recalibrate"
    assert _fits(audit) == {"miscalibration_costs"}  # one calibrator is recommended, once


def test_a_repair_of_groups_with_a_small_gain_is_advised_for_the_group():
    world = pb.simulate.unfair_groups(2000, {"a": -0.2, "b": 0.2})
    audit = pb.audit(world.y, world.scores, columns={"group": world.group}, repair="compare")
    assert audit.grade == "use"
    assert audit.headline == "Use these probabilities, but not for group = a."
    assert _fits(audit) == {"miscalibrated_group"}


def _fits(audit: pb.Audit) -> set[str]:
    """The findings whose advice is to fit a calibrator."""
    actions = {finding.rule: finding.to_dict()["actions"] for finding in audit.findings}
    return {name for name, some in actions.items() if "calibrate" in [a["kind"] for a in some]}


def test_top_k_has_one_definition():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(6, 0.4), 800)
    y = (p.cumsum(axis=1) < rng.random((800, 1))).sum(axis=1).clip(max=5)
    audit = pb.audit(y, p**1.5 / (p**1.5).sum(axis=1, keepdims=True), repair=False)
    (figure,) = (
        block for block in blocks(audit_page(audit)) if getattr(block, "name", "") == "top-k"
    )
    (diagram,) = figure.variants.values()
    names = {1: "ece"} | {k: f"topk_ece.{k}" for k in diagram.ks[1:].tolist()}
    assert diagram.error[0] == pytest.approx([audit[names[k]] for k in diagram.ks.tolist()])


@pytest.mark.parametrize("logits", [False, True])
def test_the_risk_curve_is_that_of_the_recommended_repair(logits):
    rng = np.random.default_rng(0)
    z = rng.normal(size=900)
    y = (rng.random(900) < 1 / (1 + np.exp(-z))).astype(int)
    stated = 2.5 * z
    audit = pb.audit(y, stated if logits else 1 / (1 + np.exp(-stated)), from_logits=logits)
    assert audit.grade == "recalibrate"
    figures = {
        block.name: block for block in blocks(audit_page(audit)) if isinstance(block, Figure)
    }
    (curves,) = figures["risk"].variants.values()
    assert curves.names == ("original", "recalibrated")
    after = OperatingPoints.of(audit.recommended.out_of_fold.judged, curves.thresholds)
    assert (curves.risk[1] / curves.naive).tolist() == pytest.approx(after.relative_cost.tolist())
