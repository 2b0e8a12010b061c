"""What others paste into their pipelines: the GitHub action, the GitLab job and the Dockerfile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import probaudit as pb
from probaudit.cli.commands import app

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}
CI = (ROOT / "docs" / "ci.md").read_text()
BLOCKS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", CI, re.DOTALL)]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with predictions, and programs in place of `pip` and `probaudit`."""
    monkeypatch.chdir(tmp_path)
    world = pb.simulate.gaussian_posteriors(400, 2, seed=0)
    rows = zip(world.y, world.cal[:, 0], world.cal[:, 1], strict=True)
    lines = ["label,p_0,p_1,sex", *(f"{y},{p},{q},{i % 2}" for i, (y, p, q) in enumerate(rows))]
    Path("preds.csv").write_text("\n".join(lines) + "\n")
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv("preds.csv"), "preds.parquet")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, line in {
        "probaudit": f'exec "{sys.executable}" -m probaudit "$@"',
        "pip": 'echo "$@" >> installed.txt',
        "python": 'echo "$@" >> installed.txt',
    }.items():
        program = programs / name
        program.write_text(f"#!/bin/bash\n{line}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def shell(script, **environment):
    """Run a step as GitHub and GitLab do."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def check(**given):
    """Run the check of the action with some inputs, and defaults for all others."""
    inputs = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | given
    step = STEPS["Check"]
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)
        for name, text in step["env"].items()
        if "runner." not in text
    }
    files = {"GITHUB_OUTPUT": "output.txt", "GITHUB_STEP_SUMMARY": "summary.md"}
    return shell(step["run"], **environment, **files)


def test_the_action_passes(workplace):
    done = check(
        file="preds.csv",
        max="ece=1\ngroups.*.gap.low=50%\n",
        min="accuracy=50%",
        options="--groups sex --no-repair",
        html="report.html",
    )
    assert done.returncode == 0, done.stderr
    assert Path("output.txt").read_text() == "passed=true\n"
    assert Path("summary.md").read_text().count("ok   ") == 3
    found = json.loads(Path("probaudit-check.json").read_text())
    assert [one["threshold"] for one in found["thresholds"]] == [
        "ece",
        "groups.*.gap.low",
        "accuracy",
    ]
    assert Path("report.html").is_file()


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"file": "preds.csv", "max": "ece=0", "options": "--no-repair"}, 1),
        ({"file": "none.csv", "max": "ece=0"}, 2),
        ({"file": "preds.csv"}, 2),
        ({"file": "$(touch injected).csv", "max": "$(touch injected)"}, 2),
    ],
)
def test_the_action_fails_as_check_does(workplace, inputs, code):
    done = check(**inputs)
    assert done.returncode == code, done.stderr
    assert Path("output.txt").read_text() == "passed=false\n"
    assert not Path("injected").exists()


def test_the_action_installs_what_is_asked_for(workplace):
    step = STEPS["Install"]
    assert step["env"] == {"REQUIREMENT": "${{ inputs.requirement }}"}
    assert shell(step["run"], REQUIREMENT="probaudit==9 evil").returncode == 0
    assert Path("installed.txt").read_text().endswith("--quiet probaudit==9 evil\n")


def test_the_action_is_complete():
    assert ACTION["runs"]["using"] == "composite"
    assert all("shell" in step for step in STEPS.values())  # which composite actions require
    assert "default" not in ACTION["inputs"]["file"]
    used = re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text())
    assert set(used) == set(ACTION["inputs"])
    (example,) = (block for block in BLOCKS if isinstance(block, list))
    assert set(example[0]["with"]) <= set(ACTION["inputs"])


def test_the_gitlab_job_runs(workplace):
    (job,) = (block["probaudit"] for block in BLOCKS if isinstance(block, dict))
    script = "\n".join(job["script"]).replace("ece.high=0.03", "ece.high=1")
    done = shell(script)
    assert done.returncode == 0, done.stderr
    assert all(Path(path).is_file() for path in job["artifacts"]["paths"])
    assert Path("installed.txt").read_text() == "install --quiet probaudit\n"
    assert shell("\n".join(job["script"]).replace("0.03", "0")).returncode == 1


def test_the_dockerfile_names_commands_that_exist():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    instructions = [line.split(None, 1) for line in text.splitlines() if line[:1] not in ("", "#")]
    names = [name for name, _ in instructions]
    assert names[0] == "FROM"
    assert set(names) <= {"FROM", "ARG", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}
    assert ["ENTRYPOINT", '["probaudit"]'] in instructions
    for name, content in instructions:
        if name == "RUN":
            assert subprocess.run(["bash", "-n", "-c", content]).returncode == 0
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    used = re.findall(r"probaudit ([a-z-]+)", re.sub(r"(?m)^#.*", "", text))
    assert [name.replace("-", "_") for name in used] == ["warm_up"]
    assert "warm_up" in {name.replace("-", "_") for name in known}


def test_the_json_of_the_page_has_the_fields_of_a_check():
    (shown,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", CI, re.DOTALL))
    schema = json.loads((ROOT / "docs" / "check-1.schema.json").read_text())
    from jsonschema import Draft202012Validator

    Draft202012Validator(schema).validate(shown)
