"""The cache of kernels without the private parts of numba. PROBAUDIT_PLAIN_NUMBA=1 selects it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from probaudit.kernels import compiling, numba_private
from probaudit.kernels.plain_cache import PlainlyCached


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache."""
    monkeypatch.setattr(numba_private, "BROKEN", dict.fromkeys(numba_private.PARTS, "gone"))
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    return tmp_path


def scale(x, factor=3):
    return x * factor


def fresh():
    """The kernel as a new process has it."""
    found = compiling.kernel(scale)
    assert isinstance(found, PlainlyCached)
    return found


def counts(run):
    return sum(run.stats.cache_hits.values()), sum(run.stats.cache_misses.values())


def test_each_signature_has_files_of_its_own(cache):
    run = fresh()
    assert (run(1.5), run(2), run(2, 5), run(1.5)) == (4.5, 6, 10, 4.5)
    assert len(run.signatures) == len(list(cache.rglob("*.nbi"))) == 3
    assert len(list(cache.rglob("*.nbc"))) == 3
    assert counts(run) == (0, 3)
    again = fresh()
    assert again(2.5) == 7.5
    assert counts(again) == (1, 0)


def test_code_of_other_sources_is_ignored(monkeypatch):
    fresh()(1.5)
    monkeypatch.setattr(compiling, "source_stamp", lambda: "of another version")
    run = fresh()
    assert run(1.5) == 4.5
    assert counts(run) == (0, 1)


@pytest.mark.parametrize("damage", ["truncated", "foreign"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_cache_only_costs_a_compilation(cache, damage, kind):
    fresh()(1.5)
    (path,) = cache.rglob(f"*.{kind}")
    path.write_bytes(path.read_bytes()[:10] if damage == "truncated" else b"not a cache")
    run = fresh()
    assert run(1.5) == 4.5
    assert counts(run) == (0, 1)


def test_a_full_disk_only_costs_compilations(monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    assert fresh()(np.arange(2.0)).tolist() == [0, 3]


def test_errors_of_a_kernel_reach_the_caller():
    with pytest.raises(TypingError):
        fresh()("text", 2.5)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_kernels_pass_their_tests_without_private_parts(tmp_path):
    """In an empty cache, all code is compiled as numba's public interface allows."""
    settings = {"PROBAUDIT_PLAIN_NUMBA": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    options = ["-q", "-p", "no:cacheprovider", "--timeout", "1200"]
    command = [sys.executable, "-m", "pytest", str(Path(__file__).parent), *options]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
