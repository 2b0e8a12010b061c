"""The sources of the site are consistent, and its examples run."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import runpy
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import PANELS, app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SCRIPTS = sorted(DOCS.glob("gallery/*/plot_*.py"))
GENERATED = {"fields", "concepts", "generated", "build", "gallery", "static"}
PAGES = sorted(
    page.relative_to(DOCS)
    for page in DOCS.rglob("*.md")
    if page.relative_to(DOCS).parts[0] not in GENERATED
)
PAPERS = [f"papers/{page.stem}" for page in sorted(DOCS.glob("papers/[1-9]*.md"))]
GUIDES = ["start", "choose", "imbalance", "costs", "groups", "deploy", "group-repairs", "reproduce"]
RUN_HERE = [*GUIDES, *PAPERS]


@pytest.fixture(scope="module")
def reference_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of a page as (language, text)."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", RUN_HERE)
def test_blocks_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    for language, text in blocks(page):
        if language == "python":
            if "onnx" in text:
                pytest.importorskip("onnxruntime")
            exec(text, names)
            said = capsys.readouterr().out
            for promised in re.findall(r'# Prints "(.*?)"', text):
                assert promised in said
            printed += said
        elif language == "bash":
            for line in text.replace("\\\n", "").splitlines():
                program, *arguments = shlex.split(line)
                if program == "probaudit":
                    done = CliRunner().invoke(app, arguments)
                    assert done.exit_code == 0, done.output
                else:
                    assert line.startswith("pip install")
    assert names


def test_the_first_gate_holds_only_after_the_repair(tmp_path, monkeypatch, capsys):
    test_blocks_run_in_order("start", tmp_path, monkeypatch, capsys)
    text = "\n".join(text for language, text in blocks("start") if language == "bash")
    (gate,) = (line for line in text.splitlines() if line.startswith("probaudit check"))
    arguments = shlex.split(gate.replace("calibrated.csv", "new.csv"))[1:]
    assert CliRunner().invoke(app, arguments).exit_code == 1


def test_every_python_block_is_run_by_a_test():
    others = [path for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_site.py"]
    tests = "".join(path.read_text(encoding="utf-8") for path in others)
    lists = [ROOT / "tests" / name for name in ("test_docs.py", "test_readme.py")]
    listed = "".join(path.read_text(encoding="utf-8") for path in lists)
    for page in PAGES:
        name = page.with_suffix("").as_posix()
        if name not in RUN_HERE and any(language == "python" for language, _ in blocks(name)):
            assert f'"{name}"' in listed or f"{name}.md" in tests, f"no test runs {page}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_and_their_options_exist(page):
    commands = typer.main.get_command(app).commands
    text = "\n".join(
        block
        for language, block in blocks(page.with_suffix("").as_posix())
        if language in ("bash", "console", "dockerfile")
    )
    lines = text.replace("\\\n", "").splitlines()
    for line in lines:
        words = shlex.split(line.partition(" #")[0].lstrip("$ "))
        if words[:1] == ["probaudit"] and words[1:] != ["COMMAND", "-h"]:
            command = commands[words[1]]
            context = typer.Context(command)
            command.make_parser(context).parse_args(words[2:])  # raises if there is no such option


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_gallery_scripts_run(script, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    with pyplot.rc_context({"backend": "agg"}):
        runpy.run_path(str(script))
        pyplot.close("all")
    reports = list(tmp_path.glob("*.html"))
    assert len(reports) == ("to_html" in script.read_text(encoding="utf-8"))


def test_there_is_one_example_per_field_and_a_page_per_paper():
    fields = [path for path in SCRIPTS if path.parent.name == "fields"]
    assert all("to_html" in path.read_text(encoding="utf-8") for path in fields)
    names = " ".join(path.stem for path in fields)
    for field in ("medicine", "credit", "ads", "language_models", "vision", "fairness"):
        assert field in names
    assert len(list(DOCS.glob("papers/[1-5]-*.md"))) == 5


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_names_in_prose_exist(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for module, name in re.findall(r"\b(pb(?:\.diagrams|\.calibrators)?|calibrators)\.(\w+)", text):
        place = {"pb": pb, "pb.diagrams": pb.diagrams}.get(module, pb.calibrators)
        assert hasattr(place, name) or name == "json", f"{module}.{name}"


def entries(page: Path) -> list[str]:
    """The pages of the toctrees of a page, as paths below docs."""
    text = page.read_text(encoding="utf-8")
    listed = []
    for toctree in re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL):
        for line in toctree.splitlines():
            if line and not line.startswith(":"):
                name = re.sub(r".*<(.*)>", r"\1", line)
                listed.append(os.path.relpath(page.parent / name, DOCS))
    return listed


def test_every_page_is_in_one_toctree(reference_pages):
    listed = [name for page in PAGES for name in entries(DOCS / page)]
    assert len(listed) == len(set(listed))
    own = {page.with_suffix("").as_posix() for page in PAGES} - {"index"}
    generated = {f"generated/api/{name}" for name in reference_pages.api()}
    generated |= {"generated/api/rows", "fields/index", "concepts/index"}
    assert set(listed) == own | generated


def test_links_into_the_gallery_lead_to_scripts():
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+\.rst)\)", text):
            target = Path(os.path.relpath((DOCS / page).parent / link, DOCS))
            name = "README.rst" if target.stem == "index" else f"{target.stem}.py"
            assert (DOCS / "gallery" / target.parent / name).exists(), link
    for script in SCRIPTS:
        for link in re.findall(r":doc:`([^`]+)`", script.read_text(encoding="utf-8")):
            found = f"{DOCS}{link}.md" if link[0] == "/" else f"{script.parent / link}.py"
            assert Path(found).exists(), link


def test_the_reference_has_every_public_name(reference_pages):
    text = "\n".join(reference_pages.api().values())
    documented = re.findall(r"auto(?:class|function):: (\S+)", text)
    modules = {"calibrators", "diagrams", "simulate", "training", "__version__"}
    assert set(pb.__all__) - modules <= set(documented)
    assert {"TemperatureScaling", "reliability_diagram", "neural_outputs"} <= set(documented)


def test_the_command_line_has_every_command_and_option(reference_pages):
    text = reference_pages.command_line()
    for functions in PANELS.values():
        for function in functions:
            name = function.__name__.replace("_", "-")
            assert f"### probaudit {name}\n" in text
    assert "| `--groups` | columns whose values are groups" in text
    assert "--help" not in text


def test_the_glossary_has_the_tooltips_of_the_report(reference_pages):
    text = reference_pages.glossary()
    assert "**if calibrated**\n: The mean error of a calibrated model" in text
    assert "**temperature scaling**\n: Divides the logits by one number." in text


def test_examples_of_the_reference_pages_run(reference_pages):
    found = doctest.testmod(reference_pages)
    assert found.attempted > 1
    assert found.failed == 0


def test_docstrings_become_definitions(reference_pages):
    lines = ["Adds `x`.", "", "x : a *number*,", "    or two", "", ">>> 2 * `3`", "6"]
    expected = ["Adds ``x``.", "", "", "x", "    a \\*number\\*,", "    or two", ""]
    assert reference_pages.as_rst(lines) == [*expected, ">>> 2 * `3`", "6"]


def test_shared_options_are_written_once(reference_pages):
    doc = pb.brier_score.__doc__
    linked = "\n".join(reference_pages.with_linked_options(doc.split("\n")))
    assert "row-options" in linked
    assert "sample_weight : one" not in linked
    assert ">>>" in linked
    assert "sample_weight\n    one weight per row" in reference_pages.row_options()


def test_generated_pages_are_written_once(reference_pages, tmp_path):
    reference_pages.write(tmp_path)
    page = tmp_path / "options.md"
    os.utime(page, (0, 0))
    reference_pages.write(tmp_path)
    assert page.stat().st_mtime == 0
