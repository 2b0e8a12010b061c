"""`calibrate` and `apply` on the command line, as a newcomer would use them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit import calibrators
from probaudit.cli import app

NAMES = np.array(["ant", "bee", "cat"])


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def frame(seed, kind="p"):
    world = pb.simulate.gaussian_posteriors(1000, 3, seed=seed)
    outputs = world.mcs if kind == "p" else np.log(world.mcs) + 7.0
    columns = {f"{kind}_{name}": outputs[:, k] for k, name in enumerate(NAMES)}
    return pd.DataFrame({"id": np.arange(len(outputs)), "label": NAMES[world.y]} | columns)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "preds.csv"
    frame(0).to_csv(path, index=False)
    return path


def test_calibrate_then_apply_repairs(file, tmp_path):
    saved, other, out = tmp_path / "cal.json", tmp_path / "new.parquet", tmp_path / "out.parquet"
    result = run("calibrate", file, "-o", saved)
    assert result.exit_code == 0, result.output
    assert "mean_replacement" in result.output
    assert "never chosen" in result.output
    assert "of it is gone" in result.output
    fresh = frame(1)
    shuffled = fresh[["p_cat", "id", "p_ant", "label", "p_bee"]]  # columns find their classes by name
    shuffled.to_parquet(other)
    applied = run("apply", saved, other, "-o", out)
    assert applied.exit_code == 0, applied.output
    assert f"{len(fresh):,} rows" in applied.output
    found = pd.read_parquet(out)
    assert found["id"].tolist() == fresh["id"].tolist()
    assert found["label"].tolist() == fresh["label"].tolist()
    probs = found[[f"p_{name}" for name in NAMES]].to_numpy()
    expected = calibrators.load(saved).predict_proba(fresh[[f"p_{name}" for name in NAMES]].to_numpy())
    np.testing.assert_array_equal(probs, expected)
    before, after = (pb.log_score(pb.read(data)) for data in (fresh, found))
    assert after < 0.8 * before


def test_one_method_logits_and_csv(tmp_path):
    file, saved, out = tmp_path / "z.csv", tmp_path / "cal.json", tmp_path / "out.csv"
    frame(0, "z").to_csv(file, index=False)
    assert run("calibrate", file, "--logits", "z_*", "--method", "temperature", "-o", saved).exit_code == 0
    assert calibrators.load(saved).from_logits
    unlabelled = frame(1, "z").drop(columns="label")
    unlabelled.to_csv(file, index=False)
    assert run("apply", saved, file, "--logits", "z_*", "-o", out).exit_code == 0
    found = pd.read_csv(out)
    assert list(found.columns) == ["id", "p_ant", "p_bee", "p_cat"]
    np.testing.assert_allclose(found.iloc[:, 1:].sum(axis=1), 1)


def test_a_binary_column(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(400)
    data = pd.DataFrame({"label": (rng.random(400) < p**2).astype(int), "p": p})
    file, saved, out = tmp_path / "b.csv", tmp_path / "cal.json", tmp_path / "out.csv"
    data.to_csv(file, index=False)
    assert run("calibrate", file, "--probs", "p", "--method", "beta", "-o", saved).exit_code == 0
    assert run("apply", saved, file, "--probs", "p", "-o", out).exit_code == 0
    found = pd.read_csv(out)
    assert list(found.columns) == ["label", "p_0", "p_1"]
    assert pb.log_score(data["label"], found["p_1"]) < pb.log_score(data["label"], p)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "{file}", "-o", "{tmp}/cal.json", "--method", "magic"], "must be one of identity"),
        (["calibrate", "{file}", "-o", "{tmp}/none/cal.json", "--method", "temperature"], "folder must exist"),
        (["calibrate", "{file}", "-o", "{tmp}/cal.json", "--folds", "1"], "`cv`"),
        (["calibrate", "{file}", "-o", "{tmp}/cal.json", "--score", "ece"], "must be one of log, brier"),
        (["apply", "{tmp}/none.json", "{file}", "-o", "{tmp}/out.csv"], "readable JSON"),
        (["apply", "{file}", "{file}", "-o", "{tmp}/out.csv"], "must be JSON"),
        (["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.txt"], "must end in .parquet or .csv"),
        (["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.csv", "--logits", "p_*"], "probabilities are needed"),
        (["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.csv", "--probs", "p_*t"], "needs a column for each"),
        (["apply", "{tmp}/good.json", "{tmp}/two.csv", "-o", "{tmp}/out.csv"], "needs a column for each of ant, bee, cat"),
    ],
)
def test_bad_input_exits_with_two_and_writes_nothing(file, tmp_path, arguments, words):
    calibrators.save(
        calibrators.TemperatureScaling(classes=NAMES.tolist()).fit([[0.6, 0.2, 0.2], [0.3, 0.4, 0.3]], ["ant", "cat"]),
        tmp_path / "good.json",
    )
    frame(0).drop(columns="p_bee").to_csv(tmp_path / "two.csv", index=False)
    before = sorted(tmp_path.iterdir())
    result = run(*(a.format(file=file, tmp=tmp_path) for a in arguments))
    assert result.exit_code == 2
    assert words in result.output
    assert sorted(tmp_path.iterdir()) == before
