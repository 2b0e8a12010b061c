"""`audit`, `check` and `compare` warn if their rows fitted the calibrator of the outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app

RULE = "judged_on_its_own_rows"
WARNING = "rows fitted the calibrator"


def run(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def rows(seed, n=1000):
    """Rows of three classes. The labels do not depend on the seed."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    z = rng.normal(size=(n, 3)) + 2 * np.eye(3)[y]
    p = np.exp(4 * z) / np.exp(4 * z).sum(axis=1, keepdims=True)
    columns = {f"p_{k}": p[:, k] for k in range(3)}
    return pd.DataFrame({"label": y, "w": rng.gamma(2, size=n), **columns})


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows(0).to_parquet("own.parquet")
    rows(0).sample(frac=1, random_state=1).to_parquet("shuffled.parquet")
    rows(1).to_parquet("other.parquet")


def test_rows_that_fitted_the_calibrator_are_recognised(files):
    run("calibrate", "own.parquet", "-o", "cal.json")
    for name, own in {"own": True, "shuffled": True, "other": False}.items():
        run("apply", "cal.json", f"{name}.parquet", "-o", "out.parquet")
        assert parquet.read_schema("out.parquet").metadata
        for engine in ("memory", "stream"):
            quick = ["--engine", engine, "--no-repair"]
            printed = run("audit", "out.parquet", "--json", "audit.json", *quick)
            checked = run("check", "out.parquet", "--min", "accuracy=1%", *quick)
            compared = run("compare", f"{name}.parquet", "out.parquet", *quick)
            assert all((WARNING in text) == own for text in (printed, checked, compared))
            found = json.loads(Path("audit.json").read_text(encoding="utf-8"))
            assert (RULE in [finding["rule"] for finding in found["findings"]]) == own
            assert (found["headline"] == "Judge these probabilities on other rows.") == own


@pytest.mark.parametrize("fit", [["--engine", "stream"], ["--method", "isotonic"]])
def test_other_fits_store_their_rows(files, fit):
    run("calibrate", "own.parquet", "-o", "cal.json", *fit)
    for name, own in {"own": True, "shuffled": True, "other": False}.items():
        run("apply", "cal.json", f"{name}.parquet", "-o", "out.parquet")
        printed = run("audit", "out.parquet", "--no-repair")
        assert (WARNING in printed) == own


def test_rows_of_no_calibrator_are_judged(files):
    assert WARNING not in run("audit", "own.parquet")


def test_weights_count(files):
    run("calibrate", "own.parquet", "--weight", "w", "--method", "temperature", "-o", "cal.json")
    run("apply", "cal.json", "shuffled.parquet", "-o", "out.parquet")
    assert WARNING in run("audit", "out.parquet", "--weight", "w")


def test_few_rows_with_the_same_labels_are_no_false_alarm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows(0, 60).to_parquet("own.parquet")
    run("calibrate", "own.parquet", "--method", "temperature", "-o", "cal.json")
    for seed in range(1, 6):
        rows(seed, 60).to_parquet("other.parquet")
        run("apply", "cal.json", "other.parquet", "-o", "out.parquet")
        assert WARNING not in run("audit", "out.parquet")


def test_a_calibrator_that_learns_nothing_has_no_rows(files):
    run("calibrate", "own.parquet", "--method", "identity", "-o", "cal.json")
    run("apply", "cal.json", "own.parquet", "-o", "out.parquet")
    assert WARNING not in run("audit", "out.parquet")


def test_the_page_and_python_know_the_file_too(files):
    run("calibrate", "own.parquet", "-o", "cal.json")
    run("apply", "cal.json", "own.parquet", "-o", "out.parquet")
    audit = pb.audit(pb.read("out.parquet"), repair=False)
    assert audit.headline == "Judge these probabilities on other rows."
    assert audit.findings[0].rule == RULE
    assert WARNING in audit.to_text()
    assert pb.audit(pb.scan("out.parquet"), repair=False).findings[0].rule == RULE
    found = pb.compare({"a": pb.read("own.parquet"), "b": pb.read("out.parquet")}, repair=False)
    assert (found.decision.grade, found.decision.models) == ("cannot_tell", ("b",))
    assert found.headline == "Compare these models on other rows."
    assert found.findings[0].rule == RULE


def test_compare_takes_the_calibrators_of_models():
    own, other = rows(0), rows(1)
    columns = ["p_0", "p_1", "p_2"]
    p, y = own[columns].to_numpy(), own["label"].to_numpy()
    fitted = pb.calibrators.TemperatureScaling().fit(p, y)

    def compared(q):
        models = {"original": q, "calibrated": fitted.predict_proba(q)}
        return pb.compare(models, y, repair=False, calibrators={"calibrated": fitted})

    assert list(compared(p).own_fits) == ["calibrated"]
    assert not compared(other[columns].to_numpy()).own_fits
    with pytest.raises(pb.InputError, match="must be named like models"):
        pb.compare({"a": p, "b": p}, y, calibrators={"c": fitted})
    with pytest.raises(pb.InputError, match="must be fitted calibrators"):
        pb.compare({"a": p, "b": p}, y, calibrators={"a": pb.calibrators.TemperatureScaling()})
