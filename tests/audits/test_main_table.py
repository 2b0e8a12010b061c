"""The main numbers of an audit as Markdown and LaTeX."""

from __future__ import annotations

import pytest

import probaudit as pb


@pytest.fixture(scope="module")
def audit():
    world = pb.simulate.gaussian_posteriors(300, 2, seed=0)
    return pb.audit(world.y, world.cal, classes=["no_50%", "a|b"], repair=False)


def test_markdown(audit):
    header, rule, *rows = audit.to_markdown().splitlines()
    assert header == "|  | value | 95% interval |"
    assert rule == "| --- | ---: | ---: |"
    accuracy, ece = audit["accuracy"], audit["ece"]
    bounds = f"{accuracy.low:.4f} to {accuracy.high:.4f}"
    assert rows[0] == f"| accuracy | {float(accuracy):.4f} | {bounds} |"
    assert any(
        row.startswith(rf"| class a\|b, 15 equal bins (ECE) | {float(ece):.4f} |") for row in rows
    )
    assert rows[-2:] == ["", "300 rows"]


def test_latex(audit):
    text = audit.to_latex(caption="Model_1.")
    assert r"\caption{Model\_1. 300 rows.}" in text
    assert r"log loss / base rate & " in text
    assert text.count(r" \\") == len(audit.to_markdown().splitlines()) - 3
    assert r"class a\textbar{}b, 15 equal bins (ECE) & " in text
