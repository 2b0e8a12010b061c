"""The metadata of the package, the packages that it needs, and what is said of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import probaudit
from probaudit.data.extras import EXTRAS, how_to_install, needed

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "installing.md").read_text()


def names(requirements):
    return {re.split(r"[\[<>= ]", text)[0].lower() for text in requirements}


def test_the_citation_is_current():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == probaudit.__version__
    assert citation["authors"] == PROJECT["authors"] == [{"name": "probaudit developers"}]
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]


def test_extras_are_documented():
    table = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", PAGE, re.MULTILINE)
    extras = PROJECT["optional-dependencies"]
    assert {extra: set(packages.split(", ")) for extra, packages in table} == {
        extra: names(packages) | ({"distributed"} if extra == "dask" else set())
        for extra, packages in extras.items()
    }
    assert set(EXTRAS.values()) == set(extras)


def test_a_missing_package_is_named_with_its_extra():
    missing = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib.figure")
    assert how_to_install(missing) == "this needs matplotlib: pip install 'probaudit[plots]'"
    with pytest.raises(ImportError, match="needs no_such_thing") as caught:
        needed("no_such_thing", "It")
    assert how_to_install(caught.value) == "It needs no_such_thing: pip install no_such_thing"
    own = ModuleNotFoundError("No module named 'probaudit.x'", name="probaudit.x")
    assert how_to_install(own) is None
    assert how_to_install(ImportError("cannot import name 'x'")) is None


CORE_TRIED = """
import sys
from pathlib import Path

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import probaudit as pb

world = pb.simulate.gaussian_posteriors(300, 2, seed=0)
np.savez("a.npz", label=world.y, probs=world.mcs)
found = pb.audit(pb.read("a.npz", probs="probs"))
found.to_html("a.html")
found.to_json("a.json")
print(found)
pb.select_calibrator(world.y, world.mcs, candidates=["temperature", "identity"])
pb.calibration_error(world.y, world.mcs, interval=True)
for call in (
    lambda: pb.read("a.csv"),
    lambda: pb.diagrams.reliability_diagram(world.y, world.mcs[:, 1]).save("a.svg"),
    lambda: found.to_frame(),
):
    try:
        call()
    except ImportError as problem:
        print(problem)
"""


def test_the_core_set_suffices_for_arrays(tmp_path):
    (command,) = re.findall(r"pip install --no-deps (.*?)\n```", PAGE, re.DOTALL)
    core = set(command.replace("\\\n", " ").split()) - {"probaudit"}
    assert core - {"llvmlite", "joblib", "cloudpickle", "markupsafe"} <= names(
        PROJECT["dependencies"]
    )
    left_out = names(PROJECT["dependencies"]) - core
    assert left_out == {"pyarrow", "typer"}
    missing = [*left_out, "pandas", "matplotlib", "pygments", "markdown_it", "pydantic", "click"]
    (tmp_path / "a.csv").write_text("label,p_0,p_1\n0,0.5,0.5\n")
    done = subprocess.run(
        [sys.executable, "-c", f"MISSING = {missing}\n{CORE_TRIED}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "Reading these files needs pyarrow: pip install pyarrow",
        "Drawing needs matplotlib: pip install 'probaudit[plots]'",
        "A data frame needs pandas: pip install pandas",
    ]
    assert (tmp_path / "a.html").stat().st_size > 100_000


def test_the_default_install_is_light():
    """The table of sizes adds up, and every package in it is required (or of the extra)."""
    rows = re.findall(r"^\| (.*?) \| ([\d–]+) \| ([\d–]+) \| ([\d–]+) \|$", PAGE, re.MULTILINE)
    totals = re.findall(r"\*\*(\d+)\*\*", PAGE)
    for column, (total, limit) in enumerate(zip(totals, (600, 700, 410), strict=True), 1):
        added = sum(int(row[column]) for row in rows if row[column] != "–")
        assert abs(added - int(total)) <= 3  # rounded
        assert int(total) <= limit
    assert names(PROJECT["dependencies"]) <= set(re.findall(r"[\w-]+", PAGE.lower()))
