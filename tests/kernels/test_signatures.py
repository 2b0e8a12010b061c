"""The listed signatures are those of ordinary use."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app
from probaudit.kernels import signatures
from probaudit.kernels.numba_private import LLVM, works

LISTED = [(name, s) for name, found in signatures.listed().items() for s in found]

USE = """
import json, sys
import numpy as np
import probaudit as pb
from probaudit.kernels import signatures, twins

twins.SECONDS = 0
rng = np.random.default_rng(0)
p = rng.random(2000)
y = (rng.random(2000) < p).astype(int)
pb.log_score(y, np.c_[1 - p, p])
pb.log_score(y, np.c_[1 - p, p].astype(np.float32))
pb.log_score(y, np.log(np.c_[1 - p, p]), from_logits=True)
pb.log_score(rng.integers(10, size=2000), rng.dirichlet(np.ones(10), 2000))
pb.audit(y, p)
used = {name: [list(map(signatures.spelled, s)) for s in kernel.signatures]
        for name, kernel in signatures.kernels().items()}
print(json.dumps(used))
"""


@pytest.mark.parametrize("name", signatures.listed())
def test_types_are_read_as_they_are_written(name):
    assert name in signatures.kernels()
    for spelling in signatures.listed()[name]:
        for part in spelling:
            assert signatures.spelled(signatures.parsed(part)) == part


STALE = "run benchmarks/record_signatures.py"


@pytest.mark.parametrize("name", signatures.listed())
def test_listed_signatures_fit_the_arguments(name):
    """A kernel that takes other arguments now, or a tuple that has other fields, makes the list
    stale."""
    arguments = inspect.signature(signatures.kernels()[name].py_func).parameters
    for spelling in signatures.listed()[name]:
        assert len(spelling) == len(arguments), f"{STALE}: {name} takes {list(arguments)}"
        for kind in map(signatures.parsed, spelling):
            fields = getattr(kind, "fields", ())
            assert len(fields) == len(getattr(kind, "types", ())), f"{STALE}: {name} has {kind}"


@pytest.mark.timeout(600)
def test_ordinary_use_needs_only_listed_signatures():
    run = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    used = json.loads(run.stdout)
    assert used["narrow.narrow_probabilities"], "the script must use kernels"
    missing = {
        name: [s for s in found if s not in signatures.listed().get(name, [])]
        for name, found in used.items()
    }
    assert not any(missing.values()), f"{STALE}; missing: {missing}"


def test_warm_up_compiles_what_is_listed(monkeypatch):
    name = "laplace_kernel.decayed_products"
    monkeypatch.setattr(signatures, "listed", lambda: {name: signatures_of(name)})
    assert len(signatures.wanted()) == len(signatures_of(name))
    pb.warm_up(jobs=1)
    assert pb.warm_up(jobs=1, progress=False) == 0
    kernel = signatures.kernels()[name]
    compiled = [list(map(signatures.spelled, s)) for s in kernel.signatures]
    assert all(s in compiled for s in signatures_of(name))
    run = CliRunner().invoke(app, ["warm-up", "--jobs", "1"])
    assert run.exit_code == 0
    assert run.stdout.startswith("Kernels compiled: 0.")


def test_warm_up_compiles_in_several_processes(tmp_path):
    """In an empty cache: each signature is compiled once, and this process only loads them."""
    few = {"laplace_kernel.decayed_products", "isotonic.read_curve"}
    script = (
        "import json, sys\n"
        "import probaudit as pb\n"
        "from probaudit.kernels import signatures\n"
        "every, few = signatures.listed(), sys.argv[1:]\n"
        "signatures.listed = lambda: {name: every[name] for name in few}\n"
        "todo = len(signatures.wanted())\n"
        "print(todo, pb.warm_up(jobs=2), pb.warm_up(jobs=2))\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", script, *sorted(few)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    todo, first, again = map(int, done.stdout.split())
    assert first == todo == 2
    assert again == 0
    assert len(list(tmp_path.rglob("*.nbi"))) == todo


def signatures_of(name):
    return [s for found, s in LISTED if found == name]


@pytest.mark.skipif(not works(LLVM), reason="this numba has no generated code")
def test_without_generated_code_no_signature_reads_columns(monkeypatch):
    everything = len(signatures.wanted())
    monkeypatch.setattr(signatures, "works", lambda part: False)
    without = [name for name, s in LISTED if "u8:1" in json.dumps(s)]
    assert without
    assert len(signatures.wanted()) < everything
