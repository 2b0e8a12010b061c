"""Typical mistakes on files and the command line: each message has the rule, the value found and a
way out. `{...}` in a message stands for any text."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app

# the command, and the message
MISTAKES = {
    "misspelled file": (
        "audit pred.csv",
        "`FILE`: must be a file that exists (found: pred.csv). The nearest name is 'preds.csv'.",
    ),
    "columns in several options": (
        "audit preds.csv --probs p_ant --probs p_bee",
        "`--probs`: must be given once (found: 2 times). Separate several columns with commas.",
    ),
    "ending without a format": (
        "audit preds.txt",
        "`FILE`: must end in one of {...} (found: preds.txt). Save it in one of these formats, or "
        "rename it if it has one of them.",
    ),
    "spreadsheet": (
        "audit preds.xlsx",
        "`FILE`: must end in one of {...} (found: preds.xlsx). Save the sheet as CSV.",
    ),
    "compressed parquet": (
        "audit preds.parquet.gz",
        "`FILE`: only .csv, .tsv and .jsonl files may be compressed as a whole (found: "
        "preds.parquet.gz). Decompress it.",
    ),
    "semicolons": (
        "audit semicolons.csv",
        "`FILE`: values must be separated by commas (found: ';' in semicolons.csv). Pass `--sep "
        "';'`.",
    ),
    "decimal commas": (
        "audit semicolons.csv --sep ';'",
        "`p_ant`: must hold numbers (row 0: '0,{...}'). Pass `--decimal ','` if a comma precedes "
        "decimals in the file.",
    ),
    "decimal commas between commas": (
        "audit preds.csv --decimal ,",
        "`--decimal`: must differ from the separator of values (found: ','). Pass the separator of "
        "the file, such as `--sep ';'`.",
    ),
    "separator of a table": (
        "audit preds.parquet --sep ';'",
        "`--sep`: applies to .csv and .tsv files only (found: preds.parquet). Leave it out.",
    ),
    "UTF-16, as spreadsheets export": (
        "audit wide.csv",
        "`FILE`: text must be encoded as UTF-8 (found: wide.csv is UTF-16). Save it as CSV in "
        "UTF-8.",
    ),
    "empty standard input": (
        "audit -",
        "`FILE`: standard input must have rows (found: 0 bytes). Pipe a file into it.",
    ),
    "format of a file": (
        "audit preds.csv --format csv",
        "`--format`: applies to standard input; the ending of a file tells its format (found: "
        "csv). Leave it out, or pipe the file in and give - as its name.",
    ),
    "misspelled label": (
        "audit preds.csv --label lable",
        "`--label`: must be one of the columns label, {...} (found: there is no column 'lable'). "
        "The nearest name is 'label'.",
    ),
    "misspelled group": (
        "audit preds.csv --groups sexx",
        "`--groups`: must be one of the columns label, {...} (found: no column matches 'sexx'). "
        "The nearest name is 'sex'.",
    ),
    "array under another name": (
        "audit preds.npz",
        "`--probs`: must be one of the columns label, probs (found: no column matches 'p_*'). Name "
        "the columns with outputs: pass `--probs`, `--logits` or `--confidence`.",
    ),
    "percentages": (
        "audit percent.csv",
        "`p_*`: a probability must lie between 0 and 1 (row 0: {...}). Divide percentages by 100.",
    ),
    "percent signs": (
        "audit signs.csv",
        "`p_ant`: must hold numbers (row 0: '{...}%'). Remove the percent signs and divide by 100.",
    ),
    "logits as probabilities": (
        "audit logits.csv",
        "`p_*`: a probability must lie between 0 and 1 (row 0: {...} for class 'ant'). Declare "
        "logits with `--logits`.",
    ),
    "confidence without correctness": (
        "audit preds.csv --confidence sure",
        "`--correct`: confidence and correctness go together. Pass both `--confidence` and "
        "`--correct`.",
    ),
    "correctness in other words": (
        "audit preds.csv --confidence sure --correct right",
        "`right`: must be a truth value: true / false, {...} (row 0: 'perhaps'). Pass `--classes`, "
        "the words for false and true.",
    ),
    "label without a column": (
        "audit dog.csv",
        "`label`: must be one of the classes 'ant', 'bee', 'cat' (row 5: label 'dog'). To leave "
        "out and count rows with this label, pass `--ignore-label 'dog'`.",
    ),
    "check without thresholds": (
        "check preds.csv",
        "`--max`: at least one threshold is required (found: none). Pass --max or --min, such as "
        "--max log_score.normalized=1.",
    ),
    "misspelled threshold": (
        "check preds.csv --max smoth_ece=0.1",
        "`--max`: must name one of accuracy, {...} (found: 'smoth_ece'). The nearest name is "
        "'smooth_ece'.",
    ),
    "threshold by its usual name": (
        "check preds.csv --max log_loss=0.5",
        "`--max`: must name one of accuracy, {...} (found: 'log_loss'). Use log_score.",
    ),
    "threshold of groups without groups": (
        "check preds.csv --max 'groups.*.gap=5%'",
        "`--max`: there are no groups (found: 'groups.*.gap'). Pass `--groups COLUMN`.",
    ),
    "threshold of a calibrator without one": (
        "check preds.csv --max calibration_loss.relative=5% --no-repair",
        "`--max`: requires a calibrator, and none was tried (found: 'calibration_loss.relative'). "
        "Leave out `--no-repair`, and pass rows of two classes, at least five of one and two of "
        "the other.",
    ),
    "folder that does not exist": (
        "audit preds.csv --json out/audit.json",
        "`--json`: must be a file in a folder that exists (found: out/audit.json). Create the "
        "folder.",
    ),
    "file and calibrator swapped": (
        "apply preds.csv calibrator.json -o out.csv",
        "`CALIBRATOR`: must be JSON (found: preds.csv: {...}). Name the calibrator first, then the "
        "file with outputs.",
    ),
    "resuming without a checkpoint": (
        "audit preds.csv --resume",
        "`--resume`: requires a checkpoint. Pass `--checkpoint`.",
    ),
}
# messages of typer, in a box
USAGE = {
    "pattern that the shell expanded": (
        "audit preds.csv dog.csv",
        "unexpected extra argument(s) (dog.csv). Quote a pattern, such as 'day-*.csv'.",
    ),
    "option without its value": (
        "audit preds.csv --logits --probs p_ant",
        "Invalid value for --logits: needs a value (found: the next option, --probs).",
    ),
    "misspelled option": ("audit preds.csv --lable y", "No such option: --lable"),
    "misspelled command": ("adit preds.csv", "No such command 'adit'. Did you mean 'audit'?"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    world, names = pb.simulate.gaussian_posteriors(60, 3, seed=0), np.array(["ant", "bee", "cat"])
    outputs = [f"p_{name}" for name in names]
    frame = pd.DataFrame(world.cal, columns=outputs)
    frame.insert(0, "label", names[world.y])
    frame = frame.assign(sex="f", sure=world.cal.max(axis=1), right="perhaps")

    def changed(**columns):
        return frame.assign(**columns)

    for name in ("preds.csv", "preds.txt", "preds.xlsx", "preds.parquet.gz"):
        frame.to_csv(folder / name, index=False, compression=None)
    frame.to_parquet(folder / "preds.parquet")
    frame.to_csv(folder / "semicolons.csv", index=False, sep=";", decimal=",")
    frame.to_csv(folder / "wide.csv", index=False, encoding="utf-16")
    changed(**{name: 100 * frame[name] for name in outputs}).to_csv(
        folder / "percent.csv", index=False
    )
    changed(p_ant=frame["p_ant"].map("{:.0%}".format)).to_csv(folder / "signs.csv", index=False)
    changed(**{name: np.log(frame[name]) for name in outputs}).to_csv(
        folder / "logits.csv", index=False
    )
    changed(label=[*frame["label"][:5], "dog", *frame["label"][6:]]).to_csv(
        folder / "dog.csv", index=False
    )
    np.savez(folder / "preds.npz", label=world.y, probs=world.cal)
    (folder / "calibrator.json").write_text("{}")
    return folder


def run(files, command, monkeypatch):
    monkeypatch.chdir(files)
    result = CliRunner().invoke(app, shlex.split(command), input="", env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize(("command", "message"), MISTAKES.values(), ids=MISTAKES)
def test_rule_value_and_way_out(files, monkeypatch, command, message):
    expected = re.escape(f"error: {message}\n").replace(re.escape("{...}"), ".+")
    assert re.fullmatch(expected, run(files, command, monkeypatch))


@pytest.mark.parametrize(("command", "message"), USAGE.values(), ids=USAGE)
def test_usage(files, monkeypatch, command, message):
    assert message in run(files, command, monkeypatch)
