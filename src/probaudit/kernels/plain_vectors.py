"""What `llvm_vectors` and `llvm_sixteen` do, as plain loops with the same results, for a numba for
which they cannot generate code. Columns are not read by address then (`Predictions.block`)."""

from __future__ import annotations

import numpy as np

from .compiling import inline

STRETCH = 64  # values that `at_least` compares together


@inline
def prefetch(array, i):
    pass


@inline
def add_four(sums, i, terms, j):
    flat = sums.reshape(sums.size)
    for k in range(4):
        flat[np.int64(i) + k] += terms[np.int64(j) + k]


@inline
def add_two(sums, i, terms, j):
    flat = sums.reshape(sums.size)
    for k in range(2):
        flat[np.int64(i) + k] += terms[np.int64(j) + k]


@inline
def transpose_four(source, source_place, target, target_place):
    given, wanted = source.reshape(source.size), target.reshape(target.size)
    for r in range(4):
        for k in range(4):
            wanted[target_place[0] + k * target_place[1] + r] = given[
                source_place[0] + r * source_place[1] + k
            ]


@inline
def add_transposed_four(source, source_place, sums, targets):
    given, flat = source.reshape(source.size), sums.reshape(sums.size)
    for k in range(4):
        for r in range(4):
            flat[targets[k] + r] += np.float64(given[source_place[0] + r * source_place[1] + k])


@inline
def at_least(array, i, least):
    word = np.uint64(0)
    for c in range(STRETCH):
        word |= np.uint64(array[i + c] >= least) << np.uint64(c)
    return word


@inline
def lowest_bit(word):
    found = np.uint64(0)
    while (word >> found) & np.uint64(1) == np.uint64(0):
        found += np.uint64(1)
    return found


@inline
def largest_ten(table, i, top, r):
    for lane in range(16):
        for j in range(10):
            top[j, r + lane] = 0
        for k in range(table.shape[0]):
            value = table[k, i + lane]
            for j in range(10):
                larger = value > top[j, r + lane]
                value, top[j, r + lane] = (
                    (top[j, r + lane], value) if larger else (value, top[j, r + lane])
                )
