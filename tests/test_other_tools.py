"""The recipes of docs/other-tools.md run, with the tools that are installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import probaudit as pb

PAGE = (Path(__file__).parents[1] / "docs" / "other-tools.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
# mlflow.utils.validation; newer versions allow ":" too
MLFLOW_NAMES = re.compile(r"^[/\w.\- ]*$")


@pytest.fixture(scope="module")
def groups():
    world = pb.simulate.gaussian_posteriors(400, 2)
    sex = np.where(np.arange(400) % 2, "f", "(other) ä=b")
    return pb.audit(world.y, world.mcs[:, 1], columns={"sex": sex}, repair=False)


def run(recipe: str, names: dict[str, object]) -> dict[str, object]:
    blocks = re.findall(r"```python\n(.*?)```", RECIPES[recipe], re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, names)
    return names


def test_scikit_learn():
    names = run("scikit-learn", {})
    assert (np.asarray(names["errors"]) > 0).all()
    assert (np.asarray(names["losses"]) > 0).all()
    assert names["search"].best_params_["calibrator"] in names["candidates"]  # type: ignore[attr-defined]
    probability = np.asarray(names["probability"])
    assert probability.shape == np.asarray(names["score"]).shape
    assert names["calibrated"].classes_.tolist() == [0, 1, 2]  # type: ignore[attr-defined]


def test_mlflow(groups, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path}/runs")
    numbers = run("MLflow", {"found": groups})["numbers"]
    stored = mlflow.last_active_run().data.metrics
    assert stored["ece"] == pytest.approx(groups["ece"])
    assert stored.keys() == numbers.keys()  # type: ignore[attr-defined]


def test_names_for_mlflow(groups):
    names = [re.sub(r"[^\w./ -]", "_", name) for name in groups.flat()]
    assert r're.sub(r"[^\w./ -]", "_", name)' in RECIPES["MLflow"]
    assert all(MLFLOW_NAMES.match(name) for name in names)
    assert len(set(names)) == len(names)
    assert not all(MLFLOW_NAMES.match(name) for name in groups.flat())


def test_weights_and_biases(groups, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    run("Weights & Biases", {"found": groups})
    wandb.teardown()  # waits until the file is complete
    (stored,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"groups.sex=f.gap" in stored.read_bytes()
