"""Sorting networks sort: by the 0-1 principle, if they sort all sequences of zeros and ones."""

from __future__ import annotations

from itertools import product

import pytest

from probaudit.kernels.sixteen import falling, merged


def exchange(x, y):
    return max(x, y), min(x, y)


@pytest.mark.parametrize("size", range(10))
def test_falling_order(size):
    for values in product((0, 1), repeat=size):
        assert falling(values, exchange) == sorted(values, reverse=True)


@pytest.mark.parametrize("first", range(12))
@pytest.mark.parametrize("second", range(10))
def test_falling_sequences_are_merged(first, second):
    for i, j in product(range(first + 1), range(second + 1)):
        a, b = [1] * i + [0] * (first - i), [1] * j + [0] * (second - j)
        assert merged(a, b, exchange) == sorted(a + b, reverse=True)
