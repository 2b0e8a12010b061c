"""Files on the command line: standard input, dialects, arrays, and quiet commands."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import probaudit as pb
from probaudit import calibrators
from probaudit.cli.commands import app

DOCS = Path(__file__).parents[2] / "docs"
WORLD = pb.simulate.gaussian_posteriors(400, 2, seed=0)
FRAME = pd.DataFrame({"label": WORLD.y, "p_0": WORLD.cal[:, 0], "p_1": WORLD.cal[:, 1]})
CSV = FRAME.to_csv(index=False)


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "preds.csv"
    path.write_text(CSV)
    return path


def numbers(result):
    """The estimates of an audit that was printed as JSON."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["estimates"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (CSV.encode(), []),
        (CSV.replace(",", "\t").encode(), ["--format", "tsv"]),
        (
            FRAME.to_csv(index=False, sep=";", decimal=",").encode(),
            ["--sep", ";", "--decimal", ","],
        ),
        (gzip.compress(CSV.encode()), ["--format", "csv.gz"]),
        ("\n".join(map(json.dumps, FRAME.to_dict("records"))), ["--format", "jsonl"]),
        (FRAME.to_parquet(), ["--format", "parquet"]),
    ],
)
def test_standard_input(file, content, options):
    piped = run("audit", "-", *options, "--no-repair", "--json", "-", stdin=content)
    assert numbers(piped) == numbers(run("audit", file, "--no-repair", "--json", "-"))


def test_standard_input_is_named_and_its_commands_run_again():
    shown = run("audit", "-", stdin=CSV.replace("0.9", "0,9").replace(",", ";"))
    assert shown.exit_code == 2
    assert "';' in standard input" in shown.output
    first = run("audit", "-", "--format", "csv", stdin=CSV)
    assert "standard input  400 rows" in first.output
    again = [line for line in first.output.splitlines() if "probaudit" in line]
    assert all(" - " in line for line in again)
    repeated = run("audit", "-", stdin=CSV)  # nothing is left of the first run
    assert repeated.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "-", "--format", "xlsx"], "must end in one of"),
        (["compare", "-", "-"], "standard input can be read only once"),
    ],
)
def test_standard_input_that_is_refused(arguments, words):
    result = run(*arguments, stdin=CSV)
    assert result.exit_code == 2
    assert words in result.output


def test_standard_input_that_is_not_text_names_its_format():
    archive, array = io.BytesIO(), io.BytesIO()
    np.savez(archive, label=[0, 1], p=[0.1, 0.9])
    np.save(array, [0.1, 0.9])
    for content, form in (
        (gzip.compress(CSV.encode()), "csv.gz"),
        (FRAME.to_parquet(), "parquet"),
        ('\n{"label": 1, "p_1": 0.9}', "jsonl"),
        (archive.getvalue(), "npz"),
        (array.getvalue(), "npy"),
    ):
        result = run("audit", "-", stdin=content)
        assert result.exit_code == 2
        assert f"Pass `--format {form}`." in " ".join(result.output.split())


def test_an_array_needs_a_file_of_labels(tmp_path):
    np.save(tmp_path / "p.npy", np.full((3, 2), 0.5))
    result = run("audit", tmp_path / "p.npy", "--label", "labels.csv")
    assert result.exit_code == 2
    words = " ".join(result.output.split())
    assert "`--label`: must be a .npy file of its own" in words
    assert "(found: labels.csv). Pass `--label 'labels.npy'`." in words


def test_a_file_and_standard_input_are_compared(file):
    result = run("compare", file, "-", stdin=CSV)
    assert result.exit_code == 0, result.output
    assert "standard-input" in result.output


def test_costs_have_the_dialect_of_the_rows(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", sep=";", decimal=",", index=False)
    (tmp_path / "costs.csv").write_text("no;yes\n0;0,5\n5;0\n")
    options = ["--sep", ";", "--decimal", ",", "--costs", tmp_path / "costs.csv", "--no-repair"]
    found = numbers(run("audit", tmp_path / "a.csv", *options, "--json", "-"))
    expected = pb.bayes_risk(WORLD.y, WORLD.cal, costs=[[0, 0.5], [5, 0]])
    assert found["cost_risk"]["value"] == pytest.approx(float(expected))


@pytest.mark.parametrize(("thresholds", "passed"), [(["ece=1"], True), (["ece=1", "ece=0"], False)])
def test_a_check_as_json_alone(file, tmp_path, thresholds, passed):
    bounds = [word for text in thresholds for word in ("--max", text)]
    result = run("check", file, *bounds, "--no-repair", "--json", "-")
    found = json.loads(result.stdout)
    schema = json.loads((DOCS / "check-1.schema.json").read_text())
    Draft202012Validator(schema).validate(found)
    assert found["passed"] is passed
    assert result.exit_code == (0 if passed else 1)
    assert [one["passed"] for one in found["thresholds"]] == [True, False][: len(thresholds)]
    assert found["thresholds"][0]["value"] == found["audit"]["calibration"]["value"]
    written = run("check", file, *bounds, "--no-repair", "--json", tmp_path / "check.json")
    assert json.loads((tmp_path / "check.json").read_text()) == found
    assert "ece = " in written.output


def test_quiet_commands_print_errors_and_failures_only(file, tmp_path):
    for words in (
        ["audit", file, "--no-repair", "--html", tmp_path / "a.html"],
        ["check", file, "--max", "ece=1"],
        ["calibrate", file, "-o", tmp_path / "c.json"],
        ["apply", tmp_path / "c.json", file, "-o", tmp_path / "out.csv"],
        ["compare", file, file, "--name", "a", "--name", "b"],
    ):
        result = run(*words, "--quiet")
        assert (result.exit_code, result.output) == (0, ""), result.output
    failed = run("check", file, "--max", "ece=0", "--min", "accuracy=0", "-q")
    assert failed.exit_code == 1
    assert re.fullmatch(r"FAIL ece = .*\n", failed.output)
    assert "error: `FILE`" in run("audit", "none.csv", "-q").output
    assert json.loads(run("audit", file, "-q", "--no-repair", "--json", "-").stdout)["rows"] == 400


def test_a_crash_is_no_failed_check(file, monkeypatch):
    monkeypatch.setattr("probaudit.cli.audit.audit_rows", lambda *a, **o: 1 // 0)
    result = run("check", file, "--max", "ece=1")
    assert result.exit_code == 3
    assert "internal error: ZeroDivisionError" in result.stderr
    assert "Traceback" in result.stderr


def test_a_missing_package_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    result = run("audit", file, "--no-repair")
    assert result.exit_code == 2
    assert "error: this needs rich: pip install rich" in result.stderr


def test_a_missing_extra_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run("audit", file, "--no-repair", "--engine", "dask")
    assert result.exit_code == 2
    assert "Run `pip install 'probaudit[dask]'`." in " ".join(result.stderr.split())


def test_the_command_line_without_typer():
    code = "import sys; sys.modules['typer'] = None; from probaudit.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: this needs typer: pip install typer\n")


def test_a_closed_pipe_is_no_failed_check(file):
    code = "import os; os.close(0)"
    words = f"{sys.executable} -m probaudit check {file} --max ece=1 --no-repair --json -"
    script = f"set -o pipefail; {words} | {sys.executable} -c '{code}'; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--json - > /dev/full", "error: output could not be written: No space left on device\n"),
        ("> /dev/full", "error: output could not be written: No space left on device\n"),
        ("--html /dev/full", "error: `--html`: could not be written (found: /dev/full: "),
        ("--json /dev/full", "error: `--json`: could not be written (found: /dev/full: "),
        ("--json - >&-", ""),
    ],
)
def test_a_full_disk_is_no_internal_error(file, options, words):
    script = f"{sys.executable} -m probaudit check {file} --max ece=1 --no-repair {options}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == (2 if words else 0), done.stderr
    assert done.stderr.startswith(words)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["-h"], ["audit", "-h"], ["monitor", "--help"]])
def test_help_has_panels(words):
    shown = run(*words)
    assert shown.exit_code == 0
    panels = ["Judge", "Repair"] if len(words) == 1 else ["Columns", "Rows", "Output"]
    assert all(f"─ {panel} " in shown.output for panel in panels)
    assert "--help" in shown.output


def test_completion_of_commands_and_options():
    for typed, completed in (
        ("probaudit mo", "monitor"),
        ("probaudit audit --conf", "--confidence"),
    ):
        shell = {"_PROBAUDIT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": ""}
        environment = os.environ | shell | {"COMP_CWORD": str(len(typed.split()) - 1)}
        command = [sys.executable, "-m", "probaudit"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert completed in done.stdout.split(), done.stderr


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_apply_keeps_the_format_of_numbers(tmp_path, kind, suffix):
    model = calibrators.TemperatureScaling().fit(WORLD.mcs, WORLD.y)
    calibrators.save(model, tmp_path / "c.json")
    text = np.where(WORLD.y, "yes", "no")
    arrays = {"label": WORLD.y, "probs": WORLD.mcs.astype(kind), "file": text, "allow_pickle": text}
    np.savez(tmp_path / "a.npz", **{k: v for k, v in arrays.items() if k in ("label", "probs")})
    FRAME.assign(file=text, allow_pickle=text).astype({"p_0": kind, "p_1": kind}).to_parquet(
        tmp_path / "a.parquet"
    )
    source = tmp_path / f"a.{suffix}"
    outputs = ["--probs", "probs"] if suffix == "npz" else []
    result = run("apply", tmp_path / "c.json", source, *outputs, "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "out.npz") as found:
        original = arrays["probs"] if suffix == "npz" else FRAME[["p_0", "p_1"]].to_numpy(kind)
        assert found["probs"].dtype == kind
        assert np.allclose(found["probs"], model.predict_proba(original), rtol=1e-6)
        assert found["classes"].tolist() == [0, 1]
        assert np.array_equal(found["label"], WORLD.y)
        if suffix == "parquet":  # names that numpy.savez cannot store
            assert np.array_equal(found["allow_pickle"], text)
    options = ["--probs", "probs", "--classes", "0,1", "--no-repair"]
    assert run("audit", tmp_path / "out.npz", *options).exit_code == 0
    table = run("apply", tmp_path / "c.json", source, *outputs, "-o", tmp_path / "out.parquet")
    assert table.exit_code == 0
    assert pd.read_parquet(tmp_path / "out.parquet")["p_1"].dtype == kind


def test_text_that_an_npz_file_cannot_hold(tmp_path):
    calibrators.save(calibrators.TemperatureScaling().fit(WORLD.mcs, WORLD.y), tmp_path / "c.json")
    FRAME.assign(note=[None] + ["x"] * 399).to_parquet(tmp_path / "a.parquet")
    result = run("apply", tmp_path / "c.json", tmp_path / "a.parquet", "-o", tmp_path / "out.npz")
    assert result.exit_code == 2
    assert "`note`: an .npz file holds numbers, or text in every row (row 0: None)" in result.output
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("suffix", "engine"),
    [
        *((suffix, engine) for suffix in ("csv", "parquet") for engine in ("memory", "stream")),
        ("npz", "memory"),
    ],
)
def test_labels_that_are_positions_of_named_classes(tmp_path, suffix, engine):
    """As torchvision stores them: labels 0..K-1, names apart."""
    path, options = tmp_path / f"a.{suffix}", ["--classes", "no,yes", "--engine", engine]
    if suffix == "npz":
        np.savez(path, label=WORLD.y, probs=WORLD.cal)
        options += ["--probs", "probs"]
    else:
        (FRAME.to_csv if suffix == "csv" else FRAME.to_parquet)(path, index=False)
    result = run("audit", path, *options, "--quiet", "--no-repair", "--json", "-")
    assert result.exit_code == 0, result.output
    expected = pb.log_score(WORLD.y, WORLD.cal)
    found = json.loads(result.stdout)
    assert found["estimates"]["log_score"]["value"] == pytest.approx(float(expected), rel=1e-12)
    assert found["event"] == "yes"


def test_names_of_columns_and_labels_that_are_positions(tmp_path):
    frame = FRAME.rename(columns={"p_0": "p_no", "p_1": "p_yes"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    result = run("audit", tmp_path / "a.csv")
    assert "the classes in the order of the labels 0, 1 and so on." in " ".join(
        result.output.split()
    )
    assert run("audit", tmp_path / "a.csv", "--classes", "no,yes", "--no-repair").exit_code == 0
    outputs = ["--classes", "no,yes", "-o", tmp_path / "c.json", "--method", "temperature"]
    assert run("calibrate", tmp_path / "a.csv", *outputs).exit_code == 0
    applied = tmp_path / "out.parquet"
    assert run("apply", tmp_path / "c.json", tmp_path / "a.csv", "-o", applied).exit_code == 0
    names = ["--classes", "no,yes"]
    assert run("check", applied, *names, "--max", "ece=0.9", "--no-repair").exit_code == 0
    assert run("compare", tmp_path / "a.csv", applied, *names, "--no-repair").exit_code == 0
