"""The command `monitor`: a folder of days against a reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app
from probaudit.cli.monitor import days_of

DRIFT = 4  # the day whose labels are flipped


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def frame(rows, seed, flipped=False):
    world = pb.simulate.gaussian_posteriors(rows, 2, seed=seed)
    y = 1 - world.y if flipped else world.y
    return pd.DataFrame({"label": y, "p_0": world.cal[:, 0], "p_1": world.cal[:, 1]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("monitored")
    frame(4000, 99).to_parquet(path / "reference.parquet")
    (path / "days").mkdir()
    for day in range(1, 7):
        frame(600, day, day == DRIFT).to_csv(path / "days" / f"2026-03-0{day}.csv", index=False)
    (path / "days" / "_notes.csv").write_text("not read\n")
    return path


def test_the_day_of_the_drift_is_found(folder):
    result = run("monitor", folder / "reference.parquet", folder / "days")
    assert result.exit_code == 1, result.output
    days = re.findall(r"^(2026\S+)  600 rows  (ok|ALARM)", result.output, re.MULTILINE)
    assert days == [
        (f"2026-03-0{day}.csv", "ALARM" if day == DRIFT else "ok") for day in range(1, 7)
    ]
    assert "3,600 rows, 6 checks of the last block, against a reference of 4,000" in result.output
    assert "The log loss rose from" in result.output


def test_a_quiet_monitor_prints_alarms_only(folder):
    result = run("monitor", folder / "reference.parquet", folder / "days", "-q")
    assert result.exit_code == 1
    assert re.fullmatch(r"2026-03-04\.csv  600 rows  ALARM  log_score worse, .*\n", result.output)


def test_days_without_drift_pass(folder):
    calm = folder / "days" / "2026-03-0[123].csv"
    result = run("monitor", folder / "reference.parquet", calm)
    assert result.exit_code == 0, result.output
    assert "No alarm so far." in result.output


def test_the_result_as_json(folder, tmp_path):
    options = ["--json", "-", "--ignore", "priors=1"]
    result = run("monitor", folder / "reference.parquet", folder / "days", *options)
    found = json.loads(result.stdout)
    assert found["schema"] == "probaudit.monitoring/1"
    assert (found["passed"], found["reference_rows"]) == (False, 4000)
    assert [bool(day["alarms"]) for day in found["days"]] == [False] * 3 + [True] + [False] * 2
    assert found["settings"]["ignore"] == {"priors": 1.0}
    measures = {alarm["measure"] for alarm in found["days"][DRIFT - 1]["alarms"]}
    monitor = pb.Monitor(
        pb.read(folder / "reference.parquet"),
        window=1,
        every=1,
        by="blocks",
        ignore={"priors": 1.0},
    )
    own = [monitor.update(pb.read(path)) for path in days_of(folder / "days")]
    assert measures == {alarm.measure for alarm in own[DRIFT - 1]} - {"priors"}
    written = run(
        "monitor", folder / "reference.parquet", folder / "days", *options, "--json", tmp_path / "m"
    )
    assert written.exit_code == 1
    assert json.loads((tmp_path / "m").read_text()) == found


def test_windows_of_rows(folder):
    options = ["--by", "rows", "--window", 1200, "--every", 600]
    result = run("monitor", folder / "reference.parquet", folder / "days", *options)
    assert "3,600 rows, 5 checks of the last 1,200 rows" in result.output
    assert "2026-03-01.csv  600 rows  the window is not full" in result.output
    assert "2026-03-05.csv  600 rows  ALARM" in result.output  # it still covers the fourth


def test_a_subfolder_is_one_day(tmp_path):
    frame(2000, 0).to_parquet(tmp_path / "reference.parquet")
    for day in (1, 2):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        for part in (0, 1):
            path = tmp_path / "days" / f"day={day}" / f"{part}.parquet"
            frame(300, 10 * day + part).to_parquet(path)
    assert [path.name for path in days_of(tmp_path / "days")] == ["day=1", "day=2"]
    result = run("monitor", tmp_path / "reference.parquet", tmp_path / "days")
    assert result.exit_code == 0, result.output
    assert "day=2  600 rows  ok" in result.output


def test_a_confidence_with_words(tmp_path):
    for name, seed in (("reference", 0), ("day", 1)):
        world = pb.simulate.gaussian_posteriors(1000, 3, seed=seed)
        right = np.where(world.cal.argmax(axis=1) == world.y, "yes", "no")
        rows = pd.DataFrame({"sure": world.cal.max(axis=1), "right": right})
        rows.to_csv(tmp_path / f"{name}.csv", index=False, sep=";")
    options = ["--confidence", "sure", "--correct", "right", "--sep", ";"]
    result = run("monitor", tmp_path / "reference.csv", tmp_path / "day.csv", *options)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ignore", "accuracy"], "`--ignore`: must have the form MEASURE=VALUE"),
        (["--ignore", "acuracy=1"], "`--ignore`: must name measures: log_score"),
        (["--window", "0"], "`--window`: must be a whole number"),
        (["--window", "3", "--every", "2"], "`--every`: must divide the window of 3"),
        (["--alpha", "5"], "`--alpha`: must lie inside"),
    ],
)
def test_options_that_are_refused(folder, options, words):
    result = run("monitor", folder / "reference.parquet", folder / "days", *options)
    assert result.exit_code == 2
    assert words in result.output


def test_a_bad_row_is_named_with_its_day(folder, tmp_path):
    bad = tmp_path / "2026-03-01.csv"
    frame(10, 1).assign(p_1=2.0).to_csv(bad, index=False)
    result = run("monitor", folder / "reference.parquet", bad)
    assert result.exit_code == 2
    assert str(bad) in result.output
    assert "row 0" in result.output
    empty = tmp_path / "empty"
    empty.mkdir()
    missing = run("monitor", folder / "reference.parquet", empty)
    assert "`DAYS`: must be a file that exists, or a folder with files" in missing.output


def test_the_page_names_what_is_printed():
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    assert "probaudit monitor reference.parquet days/" in page
