"""The examples of the README and of the guides run, and the output that they show is current."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from typer.testing import CliRunner

import probaudit as pb
from probaudit import calibrators
from probaudit.cli.commands import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# How many blocks of Python each guide has. Each runs alone.
GUIDES = {"command-line": 1, "python": 5, "repair": 1, "hidden-groups": 1}
TEXT = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in GUIDES}


def blocks(text: str) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_readme_is_short_and_has_a_small_picture():
    assert len(README.splitlines()) <= 120
    (picture,) = re.findall(r"!\[[^]]*\]\((.*?)\)", README)
    assert (ROOT / picture).stat().st_size < 150_000


def test_the_readme_runs_from_a_model_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(README):
        exec(block, names)
    assert "Recalibrate" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("guide", GUIDES)
def test_the_python_examples_of_the_guides_run(guide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    percentages = {"label": ["cat", "dog"], "pct cat": ["80%", "35%"], "pct dog": [20, 65]}
    pd.DataFrame(percentages).to_csv("percentages.csv", index=False)
    found = blocks(TEXT[guide])
    assert len(found) == GUIDES[guide]
    for block in found:
        exec(block, {})
    if guide == "command-line":
        assert pb.read("probabilities.csv").probs.tolist() == [[0.8, 0.2], [0.35, 0.65]]


def test_the_score_shown_is_current():
    names: dict[str, object] = {}
    code = blocks(TEXT["python"])[0]
    exec("\n".join(line for line in code.splitlines() if line[:2] in ("y ", "p ")), names)
    assert f"# {pb.log_score(names['y'], names['p']):.4f} with its interval" in code


SHELL = re.findall(r"```console\n(.*?)```", "\n".join([README, *TEXT.values()]), re.DOTALL)
COMMANDS = dict.fromkeys(
    re.findall(r"^probaudit (?!demo)(.*?)(?:\s+#.*)?$", "\n".join(SHELL), re.MULTILINE)
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = pb.simulate.gaussian_posteriors(600, 2, variance=0.15, seed=0)
    frame = pd.DataFrame(
        {
            "label": np.array(["cat", "dog"])[world.y],
            "p_cat": world.cal[:, 0],
            "p_dog": world.cal[:, 1],
        }
    )
    extra = {"f_0": np.arange(len(frame)) % 7, "hospital": np.arange(len(frame)) % 2}
    extra |= {"sex": np.arange(len(frame)) % 2, "race": np.arange(len(frame)) % 3}
    frame.assign(**extra, f_1=world.cal[:, 0]).to_parquet("preds.parquet")
    frame.to_parquet("day-1.parquet")
    frame.rename(columns={"p_cat": "proba_cat", "p_dog": "proba_dog"}).to_parquet("new.parquet")
    pd.DataFrame({"label": world.y, "p": world.cal[:, 1]}).to_csv("preds.csv", index=False)
    np.savez("preds.npz", labels=world.y, logits=np.log(world.cal))
    images, maps = world.y.reshape(20, 1, -1), world.cal.reshape(20, 1, -1, 2)
    np.savez("maps.npz", label=images, probs=np.moveaxis(maps, -1, 1))
    pd.DataFrame(
        {"y_cat": world.y == 0, "y_dog": world.y, "p_cat": world.cal[:, 0], "p_dog": 0.5}
    ).to_csv("tags.csv", index=False)
    pd.DataFrame({"sure": world.cal.max(axis=1), "right": world.y == 0}).to_csv(
        "answers.csv", index=False
    )
    frame.to_csv("semicolons.csv", index=False, sep=";", decimal=",")
    own = {"species": frame["label"], "s1": frame["p_cat"], "s2": frame["p_dog"]}
    pd.DataFrame(own | {"score cat": own["s1"], "score dog": own["s2"]}).to_csv("animals.csv")
    up = {f"score {name}": np.ceil(frame[f"p_{name}"] * 1000) / 1000 for name in ("cat", "dog")}
    pd.DataFrame({"species": frame["label"]} | up).to_csv("rounded.csv")
    loans = pd.DataFrame({"default": np.array(["no", "yes"])[world.y], "risk": world.cal[:, 1]})
    loans.to_csv("loans.csv", index=False)
    loans.to_csv("kredite.csv", index=False, sep=";", decimal=",")
    np.save("probs.npy", world.cal)
    np.save("labels.npy", world.y)
    frame.to_parquet("reference.parquet")
    Path("days").mkdir()
    frame.to_parquet("days/2026-03-01.parquet")
    frame.assign(patient=np.arange(len(frame)) // 4).to_parquet("visits.parquet")
    Path("costs.csv").write_text("no,yes\n0,1\n5,0\n")
    fitted = calibrators.TemperatureScaling(classes=["cat", "dog"]).fit(
        world.cal, np.array(["cat", "dog"])[world.y]
    )
    calibrators.save(fitted, "calibrator.json")
    squared = frame.assign(p_cat=world.cal[:, 0] ** 2, p_dog=1 - world.cal[:, 0] ** 2)
    for name in ("other.parquet", "calibrated.parquet"):
        squared.to_parquet(name)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output


def test_every_command_is_found():
    assert len(COMMANDS) == 29


def test_the_output_shown_is_current(shared, tmp_path, monkeypatch):
    data = np.load(shared / "data" / "ferrer_pneumoniamnist_resnet50.npz")
    p = softmax(data["logits"].astype(np.float64), axis=1)
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"label": data["labels"], "p_0": p[:, 0], "p_1": p[:, 1]}).to_csv(
        "preds.csv", index=False
    )
    shown = CliRunner().invoke(app, ["audit", "preds.csv"], env={"COLUMNS": "100"}).output
    printed = "\n".join(line.rstrip() for line in shown.splitlines())
    (block,) = re.findall(
        r"```console\n\$ probaudit audit preds.csv\n(.*?)```", TEXT["command-line"], re.DOTALL
    )
    assert printed.startswith(block.rstrip())
