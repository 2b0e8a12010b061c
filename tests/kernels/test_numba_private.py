"""What numba does not promise, and what happens without it."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from probaudit.kernels import llvm_sixteen, llvm_vectors, numba_private, plain_vectors
from probaudit.kernels.compiling import _Notice, inline, kernel
from probaudit.kernels.plain_cache import PlainlyCached

PLAIN = os.environ.get("PROBAUDIT_PLAIN_NUMBA", "") not in ("", "0")


@pytest.mark.skipif(PLAIN, reason="PROBAUDIT_PLAIN_NUMBA is set")
def test_this_numba_has_every_private_part():
    lines = [f"numba {numba.__version__} lacks:", *numba_private.BROKEN.values()]
    assert not numba_private.BROKEN, "\n".join(lines)


def test_a_missing_part_is_named(monkeypatch):
    monkeypatch.setattr(numba_private, "BROKEN", {})
    with numba_private._part(numba_private.CACHE):
        numba_private._takes(plain_vectors.prefetch.py_func, "array", "index")
    assert list(numba_private.BROKEN) == ["cache"]
    assert "prefetch takes ['array', 'i'], not ['array', 'index']" in numba_private.BROKEN["cache"]
    assert not numba_private.works("cache")
    assert numba_private.works("llvm")


@pytest.mark.parametrize(("value", "is_set"), [("", False), ("0", False), ("1", True)])
def test_an_empty_variable_is_not_set(monkeypatch, value, is_set):
    monkeypatch.setattr(numba_private, "BROKEN", {})
    monkeypatch.setenv("PROBAUDIT_PLAIN_NUMBA", value)
    with numba_private._part(numba_private.CACHE):
        pass
    assert bool(numba_private.BROKEN) == is_set
    monkeypatch.setenv("PROBAUDIT_QUIET", value)
    assert _Notice()._printed == is_set


def ways(name):
    """A function in generated instructions, and in plain loops."""
    module = llvm_sixteen if hasattr(llvm_sixteen, name) else llvm_vectors
    return getattr(module, name), getattr(plain_vectors, name)


@pytest.mark.parametrize("name", ["add_four", "add_two"])
def test_plain_additions_equal_vector_additions(name):
    found = []
    for add in ways(name):

        @kernel
        def run(sums, terms, add=add):
            add(sums, np.uint64(4), terms, 8)

        sums = np.arange(12).reshape(3, 4)
        run(sums, np.arange(100, 112))
        found.append(sums)
    np.testing.assert_array_equal(*found)
    assert found[0][1, 0] == 4 + 108


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_transposes_equal_vector_transposes(dtype):
    rng, found = np.random.default_rng(0), []
    source = rng.random((6, 5)).astype(dtype)
    for transpose, add in zip(ways("transpose_four"), ways("add_transposed_four"), strict=True):

        @kernel
        def run(source, target, sums, transpose=transpose, add=add):
            transpose(source, (6, 5), target, (2, 7))
            add(source, (6, 5), sums, (0, 8, 0, 12))

        target, sums = np.zeros(4 * 7 + 2), np.ones((4, 4))
        run(source.reshape(-1), target, sums)
        found.append((target, sums))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][0][2] == source[1, 1]


def test_plain_comparisons_equal_vector_comparisons():
    values, found = np.random.default_rng(1).integers(0, 9, 80), []
    for at_least, lowest_bit in zip(ways("at_least"), ways("lowest_bit"), strict=True):

        @kernel
        def run(values, at_least=at_least, lowest_bit=lowest_bit):
            word = at_least(values, 3, 8)
            return word, lowest_bit(word)

        found.append(run(values))
    assert found[0] == found[1]
    assert found[0][1] == np.flatnonzero(values[3:] >= 8)[0]


@pytest.mark.parametrize("classes", [4, 40])
def test_the_plain_largest_ten_equal_those_of_sorting_networks(classes):
    table = np.random.default_rng(classes).random((classes, 32))
    for largest in ways("largest_ten"):

        @kernel
        def run(table, top, largest=largest):
            largest(table, 16, top, 0)

        top = np.full((10, 16), np.nan)
        run(table, top)
        expected = np.zeros((10, 16))
        ranked = -np.sort(-table[:, 16:], axis=0)[:10]
        expected[: len(ranked)] = ranked
        np.testing.assert_array_equal(top, expected)


PASS = """
import hashlib, sys
import numpy as np
import probaudit as pb
from probaudit.kernels import numba_private, twins
from probaudit.states import Plan
from probaudit.states.state import Statistics

twins.SECONDS = 0
print(len(numba_private.BROKEN))
rng = np.random.default_rng(0)
for K in map(int, sys.argv[1:]):
    p = rng.dirichlet(np.ones(K), 300)
    y = rng.integers(K, size=300)
    for values in (p, np.asfortranarray(p)):
        rows = pb.Predictions(y, values)
        state = Statistics(Plan.of(rows))
        state.update(rows.block(0, 300, by_column=True))
        print(hashlib.sha256(state.to_bytes()).hexdigest())
"""


def passes(classes, **settings):
    command = [sys.executable, "-c", PASS, *classes.split()]
    run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    broken, *states = run.stdout.split()
    return int(broken), states


@pytest.mark.timeout(600)
@pytest.mark.parametrize("classes", ["3", pytest.param("2 3 40", marks=pytest.mark.slow)])
def test_states_are_identical_without_private_parts(classes):
    normal = passes(classes, PROBAUDIT_PLAIN_NUMBA="0")
    plain = passes(classes, PROBAUDIT_PLAIN_NUMBA="1")
    assert (normal[0], plain[0]) == (0, len(numba_private.PARTS))
    assert normal[1] == plain[1]


def test_helpers_work_without_borrowing(monkeypatch):
    monkeypatch.setattr(numba_private, "BROKEN", {"borrowing": "gone", "cache": "gone"})

    @inline
    def first(values):
        return values[0]

    @kernel
    def run(values):
        return first(values)

    assert run(np.arange(3.0) + 2) == 2.0
    assert isinstance(run, PlainlyCached)
