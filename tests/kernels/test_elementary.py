"""exp and log of the kernels against mpmath; the cache that must never break a run."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from probaudit.kernels import compiling, elementary


@compiling.kernel
def exp_of(x, out):
    for i in range(x.size):
        out[i] = elementary.exp(x[i])


@compiling.kernel
def log_of(x, out):
    for i in range(x.size):
        out[i] = elementary.log(x[i])


def ulps(values: np.ndarray, exact: list[mpmath.mpf]) -> float:
    return max(
        float(abs(mpmath.mpf(float(v)) - e) / np.spacing(abs(v)))
        for v, e in zip(values, exact, strict=True)
    )


def test_exp_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = -np.r_[
        0.0,
        5e-324,
        2.0**-53,
        rng.uniform(0, 1, 200),
        rng.uniform(0, 707, 300),
        10.0 ** -rng.uniform(0, 20, 100),
    ]
    out = np.empty_like(x)
    exp_of(x, out)
    with mpmath.workprec(120):
        assert ulps(out, [mpmath.exp(mpmath.mpf(float(v))) for v in x]) < 2


def test_exp_of_what_is_too_small_is_zero():
    x = np.array([-np.inf, -1e300, -746.0])
    out = np.ones(3)
    exp_of(x, out)
    assert out.tolist() == [0, 0, 0]


def test_log_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.r_[
        5e-324,
        2.2250738585072014e-308,
        1 - 2.0**-53,
        1 + 2.0**-52,
        0.5,
        rng.random(300),
        10.0 ** -rng.uniform(0, 323, 200),
        1 - 10.0 ** -rng.uniform(0, 15, 100),
        1 + rng.uniform(0, 1e6, 100),
    ]
    x = x[(x > 0) & (x != 1)]
    out = np.empty_like(x)
    log_of(x, out)
    with mpmath.workprec(120):
        assert ulps(out, [mpmath.log(mpmath.mpf(float(v))) for v in x]) < 2


def test_log_of_one_is_zero():
    out = np.ones(1)
    log_of(np.ones(1), out)
    assert out[0] == 0


def test_each_signature_has_cache_files_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def double(x):
        return x + x

    first = compiling.kernel(double)
    assert first(1.0) == 2.0
    assert first(1) == 2
    indices = list(tmp_path.rglob("*.nbi"))
    assert len(indices) == 2
    again = compiling.kernel(double)
    assert again(1.5) == 3.0
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("damage", ["truncated", "foreign"])
def test_a_damaged_cache_only_costs_a_compilation(tmp_path, monkeypatch, damage):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def triple(x):
        return x * 3

    assert compiling.kernel(triple)(2.0) == 6.0
    for path in [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]:
        path.write_bytes(path.read_bytes()[:10] if damage == "truncated" else b"not a cache")
    assert compiling.kernel(triple)(2.0) == 6.0


def test_a_cache_that_cannot_be_written_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)

    def quarter(x):
        return x / 4

    assert compiling.kernel(quarter)(8.0) == 2.0
