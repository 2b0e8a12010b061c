"""The recipes for logs of language-model evaluations run on logs in the format of these programs.

lm-evaluation-harness: `EvaluationTracker.save_results_samples` writes numbers of `filtered_resps`
and `target` as text. Inspect 0.3: a log of `inspect log dump`, with the fields that matter here.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app

PAGE = (Path(__file__).parents[1] / "docs" / "llm-logs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```bash\nprobaudit (.*?)\n```", PAGE.replace("\\\n", ""), re.DOTALL)
WORLD = pb.simulate.gaussian_posteriors(300, 4, seed=0)


def run(command):
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0, done.output


def test_lm_evaluation_harness(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("logs", "model")
    folder.mkdir(parents=True)
    scores = np.log(WORLD.mcs) - 20
    for task, rows in (("law", range(150)), ("math", range(150, 300))):
        lines = [
            {
                "doc_id": i,
                "doc": {"question": "line\u2028separator", "answer": int(WORLD.y[i])},
                "target": str(WORLD.y[i]),
                "arguments": {"gen_args_0": {"arg_0": "question", "arg_1": " A"}},
                "resps": [[[str(s), "False"]] for s in scores[i]],
                "filtered_resps": [[str(s), "False"] for s in scores[i]],
                "acc": float(scores[i].argmax() == WORLD.y[i]),
            }
            for i in rows
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"samples_{task}_2026-03-01.jsonl").write_text(text, encoding="utf-8")
    names: dict[str, object] = {}
    for block in BLOCKS[:2]:
        exec(block, names)
    found = pd.read_csv("answers.csv")
    assert found["confidence"].to_numpy() == pytest.approx(WORLD.mcs.max(axis=1))
    assert found["correct"].tolist() == (WORLD.mcs.argmax(axis=1) == WORLD.y).tolist()
    assert found["topic"].value_counts().to_dict() == {"law": 150, "math": 150}
    rows = pb.read("choices.npz", logits="logits")
    expected = -log_softmax(scores, axis=1)[np.arange(300), WORLD.y].mean()
    assert float(pb.log_score(rows)) == pytest.approx(expected)
    for command in COMMANDS:
        run(command)
    assert len(COMMANDS) == 2


def test_inspect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    confidence = WORLD.mcs.max(axis=1)
    right = WORLD.mcs.argmax(axis=1) == WORLD.y
    samples = [
        {
            "id": i,
            "epoch": 1,
            "target": "A",
            "scores": {"match": {"value": "C" if right[i] else "I", "answer": "A"}},
            "metadata": {"topic": "law" if i % 2 else "math"},
            "output": {
                "choices": [
                    {
                        "logprobs": {
                            "content": [
                                {"token": "A", "logprob": float(np.log(confidence[i]))},
                                {"token": ".", "logprob": 0.0},
                            ]
                        }
                    }
                ]
            },
        }
        for i in range(300)
    ]
    Path("log.json").write_text(json.dumps({"version": 2, "samples": samples}))
    exec(BLOCKS[2], {})
    found = pd.read_csv("answers.csv")
    assert found["confidence"].to_numpy() == pytest.approx(confidence)
    rows = pb.read("answers.csv", confidence="confidence", correct="correct")
    expected = pb.log_score(pb.Predictions.from_confidence(found["confidence"], right))
    assert float(pb.log_score(rows)) == pytest.approx(float(expected))
    run(f"{COMMANDS[0]} --clusters question")


def test_a_log_with_the_needed_columns_is_read_as_it_is(tmp_path):
    lines = [{"id": i, "sure": 0.9, "score": {"value": "C" if i % 4 else "I"}} for i in range(40)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = pb.read(path, confidence="sure", correct="score.value")
    assert rows.y.tolist() == [bool(i % 4) for i in range(40)]
