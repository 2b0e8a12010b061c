"""The examples and links of the documentation work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("papers/*.md"), *ROOT.glob("*.md")])
CALLS = re.findall(
    r"`([a-z_]+\(y, p[^`]*\))`", (DOCS / "calibration-errors.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_the_table_run(call):
    many, two = pb.simulate.gaussian_posteriors(300, 7), pb.simulate.gaussian_posteriors(300, 2)
    names = {name: getattr(pb, name) for name in pb.__all__}
    events = ("calibration_l", "indices", "_test(y, p)", "differences", "decomposition", "Binary")
    world = two if any(name in call for name in events) else many
    assert (
        eval(call, names | {"y": world.y, "p": world.cal, "group": np.arange(len(world.y)) % 3})
        is not None
    )


def test_the_table_has_calls():
    assert len(CALLS) > 20


# The tests of states, monitoring and clusters run the examples of their pages.
@pytest.mark.parametrize(
    "page", ["comparing", "dependent-rows", "labels-and-pixels", "risk-and-decisions"]
)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some examples write files
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    promised = re.findall(r'# Prints "(.*?)"', "".join(blocks))
    printed = capsys.readouterr().out
    assert all(text in printed for text in promised)


def test_examples_of_models_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "from-models.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if "torch" in block:
            torch = pytest.importorskip(
                "torch", reason="torch is not installed; other examples ran"
            )
            torch.set_num_threads(1)
        exec(block, names)
    assert names["found"]["accuracy"] > 0.9


def test_worked_cases_run_from_a_file_to_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "worked-cases.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    commands = re.findall(r"```bash\nprobaudit (.*?)\n```", text.replace("\\\n", ""))
    shown = {
        "clinic": "sex = female",
        "loans": "segment = small firms",
        "answers": "topic = law",
        "boxes": "area = ",
        "maps": "24 clusters (one per image)",
    }
    assert len(commands) == len(shown)
    for command, (name, finding) in zip(commands, shown.items(), strict=True):
        done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        assert finding in done.output
        assert finding in Path(f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    # `test_site` checks links to pages that the gallery makes, which end with .rst
    local = [link for link in links if not link.startswith("http") and link[-4:] != ".rst"]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_wraps_at_100_characters(page):
    if page.name == "known-truth.md":
        pytest.skip("a script writes this page, with one line per reason")
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []


def test_thresholds_that_the_gate_page_names_exist():
    """Those of the table that chooses a threshold."""
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| to fail if | pass |")
    names = re.findall(r"--max ([a-z_.]+)=", table.partition("\n\n")[0])
    world = pb.simulate.gaussian_posteriors(300, 2)
    assert len(names) == 5
    assert set(names) <= set(pb.audit(world.y, world.cal).flat())
