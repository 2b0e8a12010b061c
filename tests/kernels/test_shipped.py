"""Compiled code in wheels, and the line that says that kernels compile."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

from probaudit.kernels import compiling, numba_private, targets


def double(x):
    return x + x


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A folder with the compiled code of `double`, for this machine, as a wheel would ship it."""
    if not numba_private.works(numba_private.CACHE):
        pytest.skip("this numba cannot load shipped code")
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "built"))
    built = compiling.kernel(double)
    assert built(1.5) == 3.0
    _, *target = built.targetctx.codegen().magic_tuple()
    folder = tmp_path / "compiled"
    folder.mkdir()
    for path in (tmp_path / "built").rglob("*.nb[ci]"):
        shutil.move(path, folder)
    monkeypatch.setattr(compiling, "SHIPPED", folder)
    monkeypatch.setattr(compiling, "runnable_targets", lambda: [("other", ""), tuple(target)])
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "empty"))
    return folder


def compiled():
    """How often a fresh process would compile `double`; its result must be right."""
    run = compiling.kernel(double)
    assert run(1.5) == 3.0
    return sum(run.stats.cache_misses.values())


def test_shipped_code_is_loaded(shipped, tmp_path):
    assert compiled() == 0
    assert not list((tmp_path / "empty").rglob("*.nb[ci]"))


def test_shipped_code_for_other_processors_is_ignored(shipped, monkeypatch):
    monkeypatch.setattr(compiling, "runnable_targets", lambda: [("other", "")])
    assert compiled() == 1


def test_shipped_code_of_other_sources_is_ignored(shipped, monkeypatch):
    monkeypatch.setattr(compiling, "source_stamp", lambda: "of another version")
    assert compiled() == 1


@pytest.mark.parametrize("damage", ["truncated", "foreign", "gone"])
def test_damaged_shipped_code_is_ignored(shipped, damage):
    for path in shipped.glob("*.nbc"):
        content = path.read_bytes()
        path.unlink()
        if damage != "gone":
            path.write_bytes(content[:100] if damage == "truncated" else b"not code")
    assert compiled() == 1


@pytest.fixture
def read_only(monkeypatch):
    """No folder can be written."""

    def refuse(*_):
        raise OSError("read-only file system")

    monkeypatch.setattr(compiling.notice, "kept", True)
    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", refuse)


def test_shipped_code_is_loaded_if_no_folder_can_be_written(shipped, read_only):
    assert compiled() == 0


def test_kernels_compile_if_no_folder_can_be_written(read_only):
    assert compiled() == 1
    assert compiled() == 1  # nothing was kept
    assert not compiling.notice.kept


def test_the_line_says_if_no_folder_can_be_written(notice, capsys):
    notice.kept = False
    notice(True)
    time.sleep(0.2)
    assert lines(capsys) == [compiling.EVERY]


def test_targets_run_only_where_all_their_features_are(monkeypatch):
    v3 = dict.fromkeys(targets._V3.split(), True)
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    for features, expected in (
        ({}, []),
        (v3 | {"avx2": False}, []),
        (v3, ["x86-64-v3"]),
        (dict.fromkeys(targets._V4.split(), True), ["x86-64-v4", "x86-64-v3"]),
    ):
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda found=features: found)
        found = targets.runnable_targets.__wrapped__()
        assert [name for name, _ in found] == expected


def test_no_target_runs_if_the_user_chose_a_processor(monkeypatch):
    monkeypatch.setattr("numba.config.CPU_NAME", "generic")
    assert targets.runnable_targets.__wrapped__() == []


@pytest.fixture
def notice(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 0.01)
    monkeypatch.delenv("PROBAUDIT_QUIET")
    return compiling._Notice()


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_line_says_once_that_kernels_compile(notice, capsys):
    for _ in range(2):
        notice(True)
        time.sleep(0.2)
        notice(False)
    (line,) = lines(capsys)
    assert line.startswith("probaudit: compiling")


def test_a_quick_compilation_prints_nothing(notice, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 60)
    notice(True)
    notice(False)
    notice.never()
    assert not lines(capsys)


@pytest.mark.parametrize("how", ["never", "PROBAUDIT_QUIET"])
def test_the_line_can_be_switched_off(notice, capsys, monkeypatch, how):
    if how == "never":
        notice.never()
    else:
        monkeypatch.setenv("PROBAUDIT_QUIET", "1")
        notice = compiling._Notice()
    notice(True)
    time.sleep(0.1)
    assert not lines(capsys)


def test_the_cache_reports_compilations(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "notice", seen.append)
    run = compiling.kernel(double)
    run(np.float32(1))
    run(np.float32(2))
    assert seen == [True, False]
