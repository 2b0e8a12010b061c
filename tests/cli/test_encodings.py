"""Terminals that lack signs: in a process of its own where arguments or streams are its own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app


@pytest.fixture
def file(tmp_path):
    world = pb.simulate.gaussian_posteriors(500, 3, seed=0)
    path = tmp_path / "preds.csv"
    header = "label,p_0,p_1,p_2"
    np.savetxt(path, np.c_[world.y, world.cal], "%.9g", ",", header=header, comments="")
    return path


def in_a_process(encoding, *words):
    """The exit code and both outputs where PYTHONIOENCODING sets the encoding."""
    environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "60"}
    command = [sys.executable, "-m", "probaudit", *words]
    done = subprocess.run(command, capture_output=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def in_this_process(encoding, *words):
    done = CliRunner(charset=encoding).invoke(app, words, env={"COLUMNS": "60"})
    return done.exit_code, done.stdout_bytes, done.stderr_bytes


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize(
    ("started", "words"),
    [
        (in_this_process, "--help"),
        (in_a_process, "audit nö_日.csv"),
        (in_this_process, "compare {file} {file} --name − --name →"),
    ],
)
def test_help_and_errors_without_signs(file, encoding, started, words):
    """No command fails because a terminal lacks a sign."""
    code, printed, problem = started(encoding, *words.format(file=file).split())
    assert code == (2 if "nö" in words else 0), problem
    assert b"Traceback" not in problem
    assert printed or problem
    if "→" in words:
        assert "'->'" in printed.decode(encoding)


@pytest.mark.parametrize(
    ("started", "encoding"),
    [(in_this_process, "cp1252"), (in_a_process, "ascii"), (in_this_process, "utf-8")],
)
def test_a_terminal_without_signs_gets_ascii(file, started, encoding):
    code, printed, problem = started(encoding, "audit", str(file), "--full")
    assert code == 0, problem
    text = printed.decode(encoding)
    assert "Collect more rows" in text
    assert ("\u2212" in text) == (encoding == "utf-8")  # a minus sign
    assert max(map(len, text.splitlines())) <= 60
