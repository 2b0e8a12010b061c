"""`probaudit reproduce`: pages, JSON, what is left out, errors, and resuming."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from probaudit.cli import reproduce as command
from probaudit.cli.commands import app
from probaudit.reproduce import running
from probaudit.reproduce.data_folder import DataFolder
from probaudit.reproduce.outcome import Outcome, Row
from probaudit.reproduce.papers import MODULES, Experiment, Paper, Part, paper
from probaudit.reproduce.reproduction import SCHEMA
from tests.report.browsing import Opened

DOCS = Path(__file__).parents[2] / "docs"
VALIDATOR = Draft202012Validator(json.loads((DOCS / "reproduction-1.schema.json").read_text()))


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture(scope="module")
def quick(folder, tmp_path_factory):
    """Quick runs of papers on generated predictions, with fewer repetitions: what each printed, and
    its folder."""
    output = tmp_path_factory.mktemp("output")
    settings, most = running._settings, {"trials": 2, "resamples": 10}

    def fewer(experiment, mode):
        found = settings(experiment, mode)
        return found | {name: min(n, found[name]) for name, n in most.items() if name in found}

    @functools.cache
    def of(number):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "_settings", fewer)
            result = run(number, "--quick", "--data", folder, "--output", output)
        assert result.exit_code == 0, result.output
        return result.output, output

    return of


@pytest.mark.parametrize("number", MODULES)
def test_json_matches_the_schema(quick, number):
    content = json.loads((quick(number)[1] / f"paper-{number}.json").read_text())
    assert list(VALIDATOR.iter_errors(content)) == []
    assert content["schema"] == SCHEMA
    assert content["mode"] == "quick"
    ran = [one["name"] for part in content["parts"] for one in part["experiments"]]
    left = [one["name"] for one in content["left_out"]]
    assert sorted(ran + left) == sorted(one.name for one in paper(number).experiments)
    assert content["findings"]


def test_the_schema_is_valid_and_rejects_other_content(quick):
    Draft202012Validator.check_schema(VALIDATOR.schema)
    content = json.loads((quick(2)[1] / "paper-2.json").read_text())
    assert not VALIDATOR.is_valid(content | {"mode": "slow"})
    assert not VALIDATOR.is_valid(content | {"more": 1})


@pytest.mark.parametrize("number", MODULES)
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_open_without_messages(quick, browser, number, width):
    opened = Opened(
        browser,
        quick(number)[1] / f"paper-{number}.html",
        viewport={"width": width, "height": 900},
    )
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("file:")] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    text = opened.page.inner_text("main")
    assert "Where our numbers agree, where not, and why" in text
    assert "ours (printed)" in text


def test_the_terminal_names_what_is_left_out(quick):
    printed, _ = quick(2)
    assert "left out: Table 2, SITW XvPLDA requires ferrer_sitw_plda.npz in the folder" in printed
    printed, output = quick(5)
    assert "left out: Table 1, ImageNet ViT requires imagenet_vit_base.npz" in printed
    assert f"Page written to {output / 'paper-5.html'}" in printed


def test_without_data_the_rest_runs(tmp_path):
    result = run(2, "--quick", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    content = json.loads((tmp_path / "paper-2.json").read_text())
    ran = [one["name"] for part in content["parts"] for one in part["experiments"]]
    assert {"figure-1", "figure-4", "table-1", "figure-7", "figure-8-left"} <= set(ran)
    assert not any(name.startswith("table-2") for name in ran)
    assert all("in --data FOLDER" in one["reason"] for one in content["left_out"])
    assert not (tmp_path / "paper-5.html").exists()
    # the paper's own samples: every number agrees without any file
    rows = [row for part in content["parts"] for one in part["experiments"] for row in one["rows"]]
    assert len([row for row in rows if row["agrees"]]) > 150
    assert [row for row in rows if row["agrees"] is False] == []
    assert run(5, "--quick", "--output", tmp_path).exit_code == 0


# --- errors


def test_unknown_paper(tmp_path):
    result = run(7, "--output", tmp_path)
    assert result.exit_code == 2
    assert "`PAPERS`: must be among" in result.output
    assert "(found: 7)" in result.output


def test_folder_absent(tmp_path):
    result = run(2, "--data", tmp_path / "nothing", "--output", tmp_path)
    assert result.exit_code == 2
    assert "`--data`: must be a folder that exists" in result.output


def test_output_that_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    result = run(2, "--output", tmp_path / "file")
    assert result.exit_code == 2
    assert "`--output`: could not be written" in result.output


BAD = {
    "no array of outputs": {"labels": np.zeros(3, int)},
    "two kinds": {
        "labels": np.zeros(3, int),
        "logits": np.zeros((3, 2)),
        "probs": np.full((3, 2), 0.5),
    },
    "other lengths": {"labels": np.zeros(3, int), "logits": np.zeros((4, 2))},
    "label without a column": {"labels": np.array([0, 1, 2]), "logits": np.zeros((3, 2))},
    "NaN": {"labels": np.array([0, 1, 1]), "logits": np.full((3, 2), np.nan)},
    "sums": {"labels": np.array([0, 1, 1]), "probs": np.full((3, 2), 0.4)},
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_stop_before_any_work(tmp_path, case):
    np.savez(tmp_path / "ferrer_sst2_gpt2.npz", **BAD[case])
    result = run(2, "--quick", "--data", tmp_path, "--output", tmp_path / "output")
    assert result.exit_code == 2
    assert "`--data`: a file must have" in result.output
    assert "ferrer_sst2_gpt2.npz" in result.output
    assert not list(tmp_path.rglob("*.json"))


def test_a_file_that_is_no_archive(tmp_path):
    (tmp_path / "ferrer_sst2_gpt2.npz").write_bytes(b"nonsense")
    result = run(2, "--quick", "--data", tmp_path, "--output", tmp_path / "output")
    assert result.exit_code == 2
    assert "ferrer_sst2_gpt2.npz" in result.output


# --- resuming


class Counted:
    """Experiments that count their runs; the second one can be interrupted."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.interrupt = False

    def first(self, value):
        self.ran.append("first")
        return Outcome((Row("a", "x", value),))

    def second(self, rows, value):
        if self.interrupt:
            raise KeyboardInterrupt
        self.ran.append("second")
        return Outcome((Row("b", "x", value * len(rows)),))

    def paper(self, value=1.0, packages=()):
        settings = {"value": value}
        experiments = (
            Experiment("first", "First", self.first, settings, {"value": 9.0}),
            Experiment("second", "Second", self.second, settings, settings, ("rows",), packages),
        )
        return Paper(2, "counted", "", (Part("p", "P", "", experiments),), lambda found: [])


@pytest.fixture
def counted(tmp_path, monkeypatch):
    found = Counted()
    np.savez(tmp_path / "rows.npz", labels=[0, 1, 1], probs=[[0.5, 0.5], [0.1, 0.9], [0.2, 0.8]])
    monkeypatch.setattr(command, "paper", lambda number: found.paper())
    return found


def again(found, tmp_path, **options):
    """Run once more; returns which experiments ran."""
    found.ran.clear()
    data = DataFolder.of(tmp_path)
    result = running.reproduce(
        found.paper(**options), tmp_path / "out", data, quick=True, report=lambda line: None
    )
    return found.ran, result


def test_an_interrupted_run_resumes(counted, tmp_path):
    command_line = (2, "--quick", "--data", tmp_path, "--output", tmp_path / "out")
    counted.interrupt = True
    result = run(*command_line)
    assert result.exit_code == 130
    assert "Interrupted. Complete results are stored: repeat the command." in result.output
    assert counted.ran == ["first"]
    counted.interrupt = False
    result = run(*command_line)
    assert result.exit_code == 0, result.output
    assert counted.ran == ["first", "second"]
    assert "First: stored" in result.output
    content = json.loads((tmp_path / "out" / "paper-2.json").read_text())
    values = [one["rows"][0]["ours"] for one in content["parts"][0]["experiments"]]
    assert values == [1.0, 3.0]


def test_what_invalidates_a_stored_result(counted, tmp_path, monkeypatch):
    assert again(counted, tmp_path)[0] == ["first", "second"]
    assert again(counted, tmp_path)[0] == []
    assert again(counted, tmp_path, value=2.0)[0] == ["first", "second"]
    np.savez(tmp_path / "rows.npz", labels=[0, 1], probs=[[0.5, 0.5], [0.1, 0.9]])
    ran, result = again(counted, tmp_path, value=2.0)
    assert ran == ["second"]
    assert result.rows[1].ours == 4.0
    stored = tmp_path / "out" / "stored" / "paper-2" / "quick" / "first.json"
    stored.write_text(stored.read_text()[:50])
    assert again(counted, tmp_path, value=2.0)[0] == ["first"]
    monkeypatch.setattr(running, "__version__", "0.0.0")
    assert again(counted, tmp_path, value=2.0)[0] == ["first", "second"]
    running._source.cache_clear()
    monkeypatch.setitem(MODULES, 2, "sharpness")  # other modules, so other source
    assert again(counted, tmp_path, value=2.0)[0] == ["first", "second"]


def test_quick_and_full_results_are_kept_apart(counted, tmp_path):
    again(counted, tmp_path)
    full = running.reproduce(
        counted.paper(), tmp_path / "out", DataFolder.of(None), report=lambda line: None
    )
    assert [row.ours for row in full.rows] == [9.0]
    assert full.left_out[0].reason == "requires rows.npz in --data FOLDER"
    assert again(counted, tmp_path)[0] == []


def test_missing_packages(counted, tmp_path):
    ran, result = again(counted, tmp_path, packages=("no_such_package",))
    assert ran == ["first"]
    assert result.left_out[0].reason == "requires no_such_package, which is not installed"
    assert "1 experiments are left out" not in result.headline
    assert "1 experiment is left out" in result.headline


def test_experiments_have_names_of_their_own():
    for number in MODULES:
        names = [one.name for one in paper(number).experiments]
        assert len(set(names)) == len(names)
        parts = [part.name for part in paper(number).parts]
        assert len(set(parts)) == len(parts)


def test_the_headline_counts(counted, tmp_path):
    _, result = again(counted, tmp_path)
    rows = (Row("a", "x", 1.0, 1.0, tolerance=0.1), Row("b", "x", 1.0, 2.0, tolerance=0.1))
    done = {"first": replace(result.done["first"], outcome=Outcome(rows))}
    assert replace(result, done=done).headline == "1 of 2 reference numbers are reproduced."
