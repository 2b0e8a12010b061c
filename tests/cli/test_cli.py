"""The command line, as a newcomer would use it: output, files and exit codes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli import demo
from probaudit.cli.commands import app
from probaudit.data import work as progress


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def without_advice(text):
    """An audit's JSON without commands, which name the file."""
    found = json.loads(text)
    for finding in found["findings"]:
        del finding["advice"]
    return found


@pytest.fixture
def frame():
    world = pb.simulate.gaussian_posteriors(500, 3, seed=0)
    names = np.array(["ant", "bee", "cat"])
    return pd.DataFrame(
        {"label": names[world.y]} | {f"p_{name}": world.cal[:, k] for k, name in enumerate(names)}
    )


@pytest.fixture
def file(frame, tmp_path):
    path = tmp_path / "preds.csv"
    frame.to_csv(path, index=False)
    return path


def test_audit_prints_the_verdict_and_the_scores(file):
    result = run("audit", file)
    assert result.exit_code == 0
    assert "Collect more rows before you trust these probabilities." in result.output
    assert len(result.output.splitlines()) <= 20
    assert "Better than the base-rate forecast" in run("audit", file, "--full").output
    assert "preds.csv" in result.output
    assert "500 rows, 3 classes" in result.output


def test_json_to_a_file_and_to_standard_output(file, tmp_path):
    out = tmp_path / "out.json"
    assert run("audit", file, "--json", out).exit_code == 0
    printed = run("audit", file, "--json", "-")
    assert json.loads(printed.output) == json.loads(out.read_text())


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
def test_every_format_gives_the_same_audit(frame, file, tmp_path, suffix):
    path = tmp_path / f"preds.{suffix}"
    options = []
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "arrow":
        frame.to_feather(path)
    else:
        np.savez(path, label=frame["label"].to_numpy(str), p=frame.filter(like="p_").to_numpy())
        options = ["--probs", "p", "--classes", "ant,bee,cat"]
    first, second = run("audit", file, "--json", "-"), run("audit", path, *options, "--json", "-")
    assert second.exit_code == 0, second.output
    assert without_advice(first.output) == without_advice(second.output)


def test_logits_costs_weights_and_confidence(frame, tmp_path):
    for name in ("ant", "bee", "cat"):
        frame[f"z_{name}"] = np.log(frame.pop(f"p_{name}"))
    frame["w"] = 2.0
    frame.to_csv(tmp_path / "z.csv", index=False)
    (tmp_path / "costs.csv").write_text(
        "class,ant,bee,cat,ask\ncat,9,9,0,1\nant,0,1,1,1\nbee,1,0,1,1\n"
    )
    result = run(
        "audit",
        tmp_path / "z.csv",
        "--logits",
        "z_*",
        "--weight",
        "w",
        "--costs",
        tmp_path / "costs.csv",
        "--json",
        "-",
    )
    assert result.exit_code == 0, result.output
    matrix = [[0, 1, 1, 1], [1, 0, 1, 1], [9, 9, 0, 1]]
    expected = pb.bayes_risk(
        frame["label"],
        frame.filter(like="z_").to_numpy(),
        matrix,
        classes=["ant", "bee", "cat"],
        from_logits=True,
    )
    assert json.loads(result.output)["estimates"]["cost_risk"]["value"] == pytest.approx(expected)
    pd.DataFrame({"sure": [0.9, 0.8, 0.3], "right": [True, True, False]}).to_csv(
        tmp_path / "c.csv", index=False
    )
    pairs = ("--confidence", "sure", "--correct", "right")
    stated = run("audit", tmp_path / "c.csv", *pairs, "--full")
    assert stated.exit_code == 0
    assert "Only the confidence" in stated.output


def test_bad_rows_stop_or_are_dropped(file):
    lines = file.read_text().splitlines()
    lines[3] = "ant,0.5,0.2,0.2"
    file.write_text("\n".join(lines) + "\n")
    stopped = run("audit", file)
    assert stopped.exit_code == 2
    assert "`p_*`: a row must sum to 1 within 1e-05 (row 2: sums to 0.9)" in stopped.output
    assert "raise `--tolerance` or leave them out with `--drop-bad-rows`" in stopped.output
    dropped = run("audit", file, "--drop-bad-rows", "--full")
    assert dropped.exit_code == 0
    assert "1 of 500 rows was left out: 1 whose outputs do" in " ".join(dropped.output.split())
    assert run("audit", file, "--tolerance", "0.2").exit_code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "nope"], "`--label`: .*label, p_ant, p_bee, p_cat.*'nope'"),
        (["--probs", "q_*"], r"`--probs`: .*'q_\*'"),
        (["--probs", "p_*", "--logits", "p_*"], "give one kind of output"),
        (["--classes", "ant,bee"], "needs one name for each of the 3 classes"),
        (
            ["--classes", "ant,bee,dog"],
            "must be one of the classes 'ant', 'bee', 'dog'",
        ),
        (["--confidence", "p_ant"], "go together"),
        (["--reject-cost", "2"], r"must lie in \[0, 1\)"),
        (["--json", "no/such/folder.json"], "folder that exists"),
        (["--groups", "regn"], "`--groups`: .*'regn'"),
        (["--confidence", "p_ant"], r"\. \w+ both `--confidence` and `--correct`"),
        (
            ["--probs", "p_*", "--logits", "p_*"],
            r"`--logits`: .*one kind of output \(found: 'p_\*'\)\. .*`--probs`\.",
        ),
        (["--costs", "none.csv"], r"`--costs`: must be a file that exists \(found: none.csv\)"),
        (["--resume"], "`--resume`: "),
        (["--reject-cost", "2"], "`--reject-cost`: "),
        (["--classes", "ant,bee"], "`--classes`: "),
    ],
)
def test_bad_input_exits_with_2_and_says_why(file, options, words):
    result = run("audit", file, *options)
    assert result.exit_code == 2
    assert re.search(words, result.output), result.output
    assert "Traceback" not in result.output


def test_missing_file_and_unknown_option_exit_with_2(tmp_path):
    missing = run("audit", tmp_path / "none.csv")
    assert missing.exit_code == 2
    assert missing.output.startswith("error: `FILE`: ")
    assert run("audit", tmp_path / "none.csv", "--unknown").exit_code == 2
    assert run("nothing").exit_code == 2


@pytest.mark.parametrize(
    ("thresholds", "code"),
    [
        (["--max", "log_score.normalized=1"], 0),
        (["--max", "log_score.normalized=1%"], 1),
        (["--min", "accuracy=50%", "--max", "dropped_rows=0"], 0),
        (["--min", "accuracy=50%", "--min", "rows=501"], 1),
        (["--max", "nonsense=1"], 2),
        (["--max", "accuracy"], 2),
        ([], 2),
    ],
)
def test_check_has_three_exit_codes(file, thresholds, code):
    result = run("check", file, *thresholds)
    assert result.exit_code == code, result.output
    if code == 1:
        assert "FAIL" in result.output


def test_an_infinite_log_score_fails_a_check(tmp_path):
    path = tmp_path / "zero.csv"
    path.write_text("label,p\n1,0.0\n0,0.2\n1,0.9\n")
    assert run("check", path, "--probs", "p", "--max", "log_score=1e300").exit_code == 1


@pytest.fixture
def few_rows(monkeypatch):
    """The first rows of the data sets of the demo."""
    for name, rows in {"load_breast_cancer": 240, "load_digits": 400}.items():
        data = getattr(datasets, name)()
        data.data, data.target = data.data[:rows], data.target[:rows]
        monkeypatch.setattr(datasets, name, lambda data=data: data)


def check_demo(folder, classifiers):
    result = run("demo", "--output", folder)
    assert result.exit_code == 0, result.output
    written = sorted(path.name for path in folder.iterdir())
    assert len(written) == 2 * 2 * classifiers + 3
    assert [name for name in written if name.endswith(".html")] == [
        "breast-cancer-naive-Bayes.html",
        "digits-compared.html",
        "digits-random-forest.html",
    ]
    path = folder / "digits-random-forest.parquet"
    again = run("audit", path, "--features", "f_*", "--json", "-")
    stored = json.loads((folder / "digits-random-forest.json").read_text())
    found = json.loads(again.output)["estimates"]
    # The demo compares repairs, so that its budget is recalibrated by the recommended one.
    fitted = {"grouping_loss", "grouping_loss.relative"}
    assert {k: v for k, v in found.items() if k not in fitted} == {
        k: v for k, v in stored["estimates"].items() if k not in fitted
    }


def test_demo_trains(few_rows):
    found = {(data, method): rows for data, method, rows in demo.trained()}
    assert {data: [m for d, m in found if d == data] for data, _ in found} == {
        data: list(demo._classifiers()) for data in ("breast cancer", "digits")
    }
    assert len(found) == 10
    assert all(len(rows) == (120 if data != "digits" else 200) for (data, _), rows in found.items())


def test_demo_audits_and_writes(few_rows, tmp_path, monkeypatch):
    every = demo._classifiers()
    fewer = {name: every[name] for name in ("naive Bayes", "random forest")}
    monkeypatch.setattr(demo, "_classifiers", lambda: fewer)
    check_demo(tmp_path / "demo", 2)


@pytest.mark.slow
def test_the_whole_demo(tmp_path):
    check_demo(tmp_path / "demo", 5)


def test_names_of_columns_are_no_options(tmp_path):
    times = pd.to_datetime(["2024-05-01", "2024-05-02"])
    pd.DataFrame(
        {"label": [0, 1], "score": times, "p_a": [0.1, 0.8], "p_b": [0.9, 0.2]}
    ).to_parquet(tmp_path / "rows.parquet")
    command = ["calibrate", tmp_path / "rows.parquet", "-o", tmp_path / "cal.json"]
    assert re.search("`score`: .*datetime64", run(*command, "--probs", "score").output)
    assert (
        "`--score`: " in run(*command, "--classes", "0,1", "--folds", "2", "--score", "ece").output
    )
    assert "Pass `--classes`" in run(*command).output


def test_the_columns_of_a_list_stand_in_the_order_of_their_names(frame, file):
    """As those of a pattern do: `--classes` says the order of the classes, not what is in columns
    that have names."""
    plain = run("audit", file, "--json", "-", "--no-repair")
    listed = run(
        "audit",
        file,
        "--json",
        "-",
        "--no-repair",
        "--probs",
        "p_cat,p_ant,p_bee",
        "--classes",
        "ant,bee,cat",
    )
    assert json.loads(listed.output)["estimates"] == json.loads(plain.output)["estimates"]


def test_advice_can_be_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = pb.simulate.gaussian_posteriors(1000, 3, seed=0)
    names = np.array(["ant", "bee", "cat"])
    columns = {f"proba {name}": world.mcs[:, k] for k, name in enumerate(names)}
    pd.DataFrame({"target": names[world.y]} | columns).to_csv("my preds.csv", index=False)
    done = run(
        "audit",
        "my preds.csv",
        "--label",
        "target",
        "--probs",
        "proba *",
        "--json",
        "audit.json",
        "--full",
    )
    typed = re.findall("`(probaudit [^`]*)`", " ".join(done.output.split()))
    assert len(typed) > 1
    shutil.copy("my preds.csv", "NEW_ROWS.csv")  # rows that fitted nothing
    for command in sorted(set(typed), reverse=True):  # calibrate, then apply
        assert run(*shlex.split(command)[1:]).exit_code == 0, command
    assert (tmp_path / "calibrated.parquet").exists()
    assert "probaudit calibrate 'my preds.csv' --probs 'proba *'" in (
        tmp_path / "audit.json"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["probaudit", "probaudit.cli.commands"])
def test_the_module_runs_and_knows_its_version(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"probaudit {pb.__version__}\n"


def test_a_progress_bar_appears_only_for_those_who_wait(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    with progress.Progress(10, show=True) as bar:
        bar.advance(5)
        assert bar._bar is None
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.Progress(10, show=True) as bar:
        bar._timer.join(10)
        assert (bar._bar.tasks[0].description, bar._bar.tasks[0].completed) == ("rows", 0)
        bar.advance(15)
        assert (bar._bar.tasks[0].description, bar._bar.tasks[0].completed) == ("rows", 10)
    with progress.Progress(10, show=False) as bar:
        assert not bar._timer.is_alive()


def test_features_and_groups(tmp_path):
    world = pb.simulate.unfair_groups(3000)
    data = {"label": world.y, "p": world.scores, "group": world.group}
    data |= {f"f_{k}": world.features[:, k] for k in range(world.features.shape[1])}
    pd.DataFrame(data).to_csv(tmp_path / "rows.csv", index=False)
    groups = run("audit", tmp_path / "rows.csv", "--probs", "p", "--groups", "group", "--full")
    assert groups.exit_code == 0, groups.output
    assert "group = " in groups.output
    assert "hidden groups (at least)" in groups.output
    features = run("audit", tmp_path / "rows.csv", "--probs", "p", "--features", "f_*", "--full")
    assert features.exit_code == 0, features.output
    assert "groups the model misjudges" in features.output
    rows = pb.read(tmp_path / "rows.csv", probs="p", features="f_*")
    assert list(rows.feature_names) == [name for name in data if name.startswith("f_")]
    with pytest.raises(pb.InputError, match="one name for each"):
        pb.Predictions(world.y, world.scores, features=world.features, feature_names=["one"])
    assert run("audit", tmp_path / "rows.csv", "--probs", "p", "--groups", "nothing").exit_code == 2


def test_lines_have_no_blanks_at_their_ends(file):
    for command in (["audit", file], ["audit", file, "--full"], ["compare", file, file]):
        text = run(*command, *(["--name", "a", "--name", "b"] if command[0] == "compare" else []))
        assert text.exit_code == 0, text.output
        assert not [line for line in text.output.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("outputs", ["mcs", "cal"])
def test_the_printed_command_can_be_copied(outputs, tmp_path, monkeypatch):
    """It stays on one line, also on a narrow terminal."""
    monkeypatch.chdir(tmp_path)
    world = pb.simulate.gaussian_posteriors(5000, 2)
    chance = getattr(world, outputs)[:, 1]
    rows = pd.DataFrame({"what happened": world.y, "predicted chance": chance})
    rows.to_csv("NEW_ROWS.csv", index=False)
    columns = ["--label", "what happened", "--probs", "predicted chance"]
    audited = CliRunner().invoke(app, ["audit", "NEW_ROWS.csv", *columns], env={"COLUMNS": "60"})
    (line,) = (line for line in audited.output.splitlines() if line.startswith("→"))
    _, *arguments = shlex.split(line[line.index("probaudit") :].strip("`"))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
