"""Processes that start with an empty cache, or where none can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import probaudit as pb
from probaudit.kernels import compiling

SOURCE = Path(pb.__file__).parents[1]
START = """
import hashlib, sys
import numpy as np
import probaudit as pb
from probaudit.kernels import isotonic, laplace_kernel, signatures, twins

rng = np.random.default_rng(0)
x, y = np.sort(rng.random(500)), rng.random(500)
found = hashlib.sha256()
"""
# kernels that compile in less than a second each, in another order in every other process
FEW = """
twins.SECONDS = 0
jobs = {
    "decayed": lambda: laplace_kernel.decayed_products(y, x, 0.1),
    "pooled": lambda: isotonic.pool_adjacent_violators(y, np.ones(500), y.copy()),
    "read": lambda: isotonic.read_curve(np.stack([x, y]), x),
}
names = sorted(jobs, reverse=int(sys.argv[1]) % 2 == 1)
done = {name: jobs[name]() for name in names}
for name in sorted(done):
    found.update(name.encode() + np.asarray(done[name]).tobytes())
"""
AUDIT = """
p = rng.random(2000)
labels = (rng.random(2000) < p).astype(int)
found.update(pb.audit(labels, p).to_json().encode())
laplace_kernel.decayed_products(y, x, 0.1)
"""
PASS = """
twins.SECONDS = 0
p = rng.dirichlet([1, 1, 1], 1000).astype(sys.argv[1])
found.update(repr(float(pb.log_score(np.arange(1000) % 3, p))).encode())
"""
END = """
stats = [kernel.stats for kernel in signatures.kernels().values()]
print(found.hexdigest(), sum(sum(one.cache_misses.values()) for one in stats))
"""


def environment(**settings):
    return {k: v for k, v in os.environ.items() if k != "PROBAUDIT_QUIET"} | settings


def started(script, argument, cache):
    return subprocess.Popen(
        [sys.executable, "-c", START + script + END, argument],
        env=environment(NUMBA_CACHE_DIR=str(cache)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results(script, arguments, cache):
    """The hash that each of several processes prints, and how many kernels it compiled."""
    jobs = [started(script, argument, cache) for argument in arguments]
    outputs = [job.communicate() for job in jobs]
    assert [job.returncode for job in jobs] == [0] * len(jobs), outputs
    return [(out.split()[0], int(out.split()[1])) for out, _ in outputs]


def test_four_processes_that_start_cold_together_agree(tmp_path):
    each = results(FEW, "0123", tmp_path)
    assert len({found for found, _ in each}) == 1
    assert sum(compiled for _, compiled in each) >= 3
    ((again, compiled),) = results(FEW, "0", tmp_path)
    assert again == each[0][0]
    assert compiled == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_that_compile_a_pass_together_agree(tmp_path):
    kinds = ("float32", "float64") * 4
    each = results(PASS, kinds, tmp_path)
    for kind in (0, 1):
        assert len({found for found, _ in each[kind::2]}) == 1
    assert {compiled for _, compiled in results(PASS, kinds[:2], tmp_path)} == {0}


@pytest.fixture(scope="module")
def read_only():
    """A command that runs another one where the package is on a read-only file system."""
    for namespace in (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]):
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = [*namespace, "sh", "-c", script, str(SOURCE)]
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], capture_output=True).returncode
        ):
            return command
    pytest.skip("no read-only file system can be mounted here")


def test_an_audit_needs_no_folder_that_can_be_written(read_only, tmp_path):
    """HOME and NUMBA_CACHE_DIR are in /proc, where not even root can create a folder."""
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "/proc/none")
    script = START + f"print(open('{SOURCE}/file', 'w'))"
    refused = subprocess.run([*read_only, sys.executable, "-c", script], capture_output=True)
    assert b"Read-only file system" in refused.stderr
    script = START + "from probaudit.kernels import compiling; compiling.PATIENCE = 0" + AUDIT + END
    run = subprocess.run(
        [*read_only, sys.executable, "-c", script],
        env=environment(**nowhere),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines() == [compiling.EVERY]
    found, compiled = run.stdout.split()
    assert int(compiled) >= 1
    ((normal, _),) = results(AUDIT, "0", tmp_path)
    assert found == normal
