"""The files that GitHub, editors and pre-commit read agree with the project."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
PEERS = ROOT / "benchmarks" / "peers.txt"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def test_the_workflow_runs_every_python_that_numba_supports():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    job = workflow["jobs"]["test"]
    assert [step.get("run") for step in job["steps"]][-1] == "make test PYTHON=python"
    tested = [_minor(version) for version in job["strategy"]["matrix"]["python"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = _minor(project["requires-python"].removeprefix(">="))
    classifiers = metadata("numba").get_all("Classifier")
    newest = max(_minor(c) for c in re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers)))
    assert tested == list(range(oldest, newest + 1))


def test_the_hook_is_a_target_of_make():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert {hook["entry"].split()[-1] for hook in hooks} <= TARGETS


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "RELEASING.md"])
def test_every_target_that_a_page_names_exists(page):
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"(?:`make |^make (?=[a-z-]+ +#))([a-z-]+)", text, re.MULTILINE))
    assert named
    assert named <= TARGETS


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_issue_forms_have_what_github_requires(form):
    parsed = yaml.safe_load(form.read_text("utf-8"))
    assert {"name", "description", "body"} <= parsed.keys()
    ids = [field["id"] for field in parsed["body"] if field["type"] != "markdown"]
    assert ids
    assert len(set(ids)) == len(ids)


def test_there_are_two_forms():
    assert [form.stem for form in FORMS] == ["bug", "idea"]


def test_the_page_of_peers_has_the_versions_that_are_installed():
    pinned = dict(re.findall(r"^([a-z-]+)==(.+)$", PEERS.read_text("utf-8"), re.MULTILINE))
    page = (ROOT / "docs" / "peers-measured.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| ([a-z-]+) \| (\d[\d.]*) \|$", page, re.MULTILINE))
    peers = {name: one for name, one in pinned.items() if name != "torch"}
    assert shown.pop("probaudit")
    assert shown == peers
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"TORCH := torch=={pinned['torch']}\n" in makefile


def test_the_line_length_is_the_same_everywhere():
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    assert f"max_line_length = {ruff['line-length']}\n" in (ROOT / ".editorconfig").read_text()
