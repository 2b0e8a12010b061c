"""Kernels index arrays without checks. Here some run with checks, in another process.

`make test-bounds` runs the whole suite that way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from probaudit.kernels.compiling import kernel
from probaudit.kernels.numba_private import LLVM, works

SMALL = """
import sys

import numpy as np
import probaudit as pb
from probaudit.engines.memory import evidence_of
from probaudit.kernels.compiling import kernel
from probaudit.states import Plan

@kernel
def beyond(values, i):
    return values[i]

try:
    beyond(np.zeros(3), 3)
except IndexError:
    print("checked")

rng = np.random.default_rng(0)
for K in map(int, sys.argv[1].split(",")):
    z = rng.normal(size=(50, K))
    y = rng.integers(K, size=50)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    kinds = {
        "plain": pb.Predictions(y, p),
        "columns": pb.Predictions(y, np.asfortranarray(p)),
        "logits": pb.Predictions(y, z, from_logits=True),
        "weighted": pb.Predictions(y, p, sample_weight=rng.random(50)),
    }
    for kind in sys.argv[2].split(","):
        evidence_of(kinds[kind], Plan.of(kinds[kind]), threads=1)
print("passed")
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("classes", "kinds"),
    [
        ("3,40", "columns"),
        pytest.param("2,3,40", "plain,columns,logits,weighted", marks=pytest.mark.slow),
    ],
)
def test_small_passes_stay_inside_their_arrays(tmp_path: Path, classes, kinds):
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    command = [sys.executable, script, classes, kinds]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=880)
    assert done.stdout.split() == ["checked", "passed"], done.stderr
    stored = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")}
    wide = "wide_columns.wide_columns" if works(LLVM) else "wide.wide_probabilities"
    assert stored >= {"narrow.narrow_probabilities", wide}, (
        f"kernels must run, and their code must be where NUMBA_CACHE_DIR says (found: {stored})"
    )


def test_code_with_and_without_checks_is_stored_apart(tmp_path: Path, monkeypatch):
    def halve(x):
        return x / 2

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    for count, checks in enumerate((None, 1), 1):
        monkeypatch.setattr("numba.config.BOUNDSCHECK", checks)
        assert kernel(halve)(3.0) == 1.5
        assert len(list(tmp_path.rglob("*.nbi"))) == count
