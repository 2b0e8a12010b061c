"""Files are written whole or not at all, and what is no file is not replaced by one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import probaudit as pb
from probaudit.errors import InputError
from probaudit.files.writing import write_bytes, write_table, write_tables, write_text

COLUMNS = {"a": np.arange(3), "b": np.array(["x", "y", "z"])}
WRITERS = {
    "text": lambda path: write_text(path, "abc"),
    "bytes": lambda path: write_bytes(path, b"abc"),
    "csv": lambda path: write_table(path, COLUMNS),
    "parquet": lambda path: write_table(path, COLUMNS),
}


@pytest.mark.parametrize("form", WRITERS)
def test_a_folder_is_refused(tmp_path, form):
    (tmp_path / f"x.{form}").mkdir()
    with pytest.raises(InputError, match="not a folder"):
        WRITERS[form](tmp_path / f"x.{form}")
    assert os.listdir(tmp_path) == [f"x.{form}"]


@pytest.mark.parametrize("form", WRITERS)
def test_a_link_stays_a_link(tmp_path, form):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / f"x.{form}", tmp_path / "there" / "y"
    link.symlink_to(target)
    for _ in range(2):  # at first it leads nowhere
        WRITERS[form](link)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert target.stat().st_size > 2
        assert os.listdir(target.parent) == ["y"]


@pytest.mark.parametrize("form", ["text", "bytes", "csv"])
def test_a_pipe_is_written_to(tmp_path, form):
    WRITERS[form](tmp_path / f"file.{form}")
    pipe, read = tmp_path / f"pipe.{form}", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    WRITERS[form](pipe)
    reader.join(10)
    assert read == [(tmp_path / f"file.{form}").read_bytes()]
    assert pipe.is_fifo()


def test_a_device_is_written_to(tmp_path):
    link = tmp_path / "null.json"
    link.symlink_to(os.devnull)
    write_text(link, "abc")
    assert Path(os.devnull).is_char_device()
    assert link.is_symlink()


@pytest.mark.parametrize("name", ["x" * 300, "x.csv/y.csv"])
def test_names_that_cannot_be(tmp_path, name):
    (tmp_path / "x.csv").write_text("a")
    with pytest.raises(InputError, match="path"):
        write_text(tmp_path / name, "abc")
    assert os.listdir(tmp_path) == ["x.csv"]


def test_the_longest_name(tmp_path):
    name = "x" * os.pathconf(tmp_path, "PC_NAME_MAX")
    write_text(tmp_path / name, "abc")
    assert os.listdir(tmp_path) == [name]


def test_what_is_raised_meanwhile_is_passed_on(tmp_path):
    def parts():
        yield pa.table(COLUMNS)
        raise ZeroDivisionError

    for form in ("csv", "parquet"):
        with pytest.raises(ZeroDivisionError):
            write_tables(tmp_path / f"x.{form}", parts())
    assert os.listdir(tmp_path) == []


def test_parts_are_put_together_by_name(tmp_path):
    one = pa.table({"a": [1], "b": ["x"]})
    assert write_tables(tmp_path / "x.csv", [one, one.select(["b", "a"])]) == 2
    assert (tmp_path / "x.csv").read_text() == '"a","b"\n1,"x"\n1,"x"\n'
    for other in (
        one.select(["a"]),
        one.append_column("c", [[1]]),
        pa.table({"a": ["one"], "b": ["x"]}),
    ):
        with pytest.raises(InputError, match="source"):
            write_tables(tmp_path / "y.csv", [one, other])
    assert os.listdir(tmp_path) == ["x.csv"]


FULL = """
import resource, sys
from typer.testing import CliRunner
from probaudit.cli.commands import app

source, calibrator = sys.argv[1:]
commands = {
    "a.json": ["audit", source, "--no-repair", "--json"],
    "a.html": ["audit", source, "--no-repair", "--html"],
    "c.json": ["calibrate", source, "--method", "isotonic", "-o"],
    "o.csv": ["apply", calibrator, source, "-o"],
    "o.parquet": ["apply", calibrator, source, "-o"],
}
for output, command in commands.items():
    assert CliRunner().invoke(app, [*command, f"../{output}"]).exit_code == 0
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
for output, command in commands.items():
    done = CliRunner().invoke(app, [*command, output])
    print(output, done.exit_code, done.output.splitlines()[-1])
"""


def test_a_full_disk_is_told_in_a_line_and_nothing_is_left(tmp_path):
    world = pb.simulate.gaussian_posteriors(600, 3, seed=0)
    write_table(
        tmp_path / "x.parquet", {"label": world.y} | {f"p_{k}": world.mcs[:, k] for k in range(3)}
    )
    pb.calibrators.save(
        pb.calibrators.TemperatureScaling().fit(world.mcs, world.y), tmp_path / "cal.json"
    )
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", FULL, tmp_path / "x.parquet", tmp_path / "cal.json"]
    quiet = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tmp_path / "out", env=quiet, capture_output=True, text=True, timeout=100
    )
    said = done.stdout.splitlines()
    assert [line.split()[:2] for line in said] == [
        [name, "2"] for name in ("a.json", "a.html", "c.json", "o.csv", "o.parquet")
    ]
    assert all("File too large" in line for line in said)
    assert done.stderr == ""
    assert os.listdir(tmp_path / "out") == []
