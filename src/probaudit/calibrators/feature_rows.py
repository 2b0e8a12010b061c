"""Rows with features, from which groups are learned: their checks, and a split that does not depend
on their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.arrays import as_numbers
from ..errors import InputError
from .base import Sample

LARGEST = 1e100  # of a feature, so that products do not overflow


def feature_table(features: Any, n: int | None, d: int | None) -> np.ndarray:
    """Features as [n, d] in float64, checked. Any number of rows or columns is valid if n or d is
    None."""
    table = as_numbers(features, "features").astype(np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] == 0 or n not in (None, len(table)):
        rule = "must be [rows, features]" + ("" if n is None else f" with {n} rows")
        raise InputError("features", rule, f"has shape {table.shape}")
    if d not in (None, table.shape[1]):
        rule = f"must have the {d} columns that the groups were learned from"
        raise InputError("features", rule, table.shape[1])
    invalid = ~(np.abs(table) <= LARGEST)
    if invalid.any():
        row, column = np.argwhere(invalid)[0]
        raise InputError(
            "features", f"must be finite and within ±{LARGEST:g}", table[row, column], row=int(row)
        )
    return table


def distinct(sample: Sample, points: np.ndarray, seed: int) -> tuple[Sample, np.ndarray]:
    """The distinct rows with their weights added, in an order that depends only on their values and
    the seed."""
    keys = _row_keys(seed, sample.codes[:, None], sample.values, points)
    order = np.argsort(keys, kind="stable")
    sample, points, keys = sample.take(order), points[order], keys[order]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    same = (sample.codes[again] == sample.codes[again - 1]) & (
        points[again] == points[again - 1]
    ).all(axis=1)
    same &= (sample.values[again] == sample.values[again - 1]).all(axis=1)
    firsts = np.delete(np.arange(len(keys)), again[same])
    weights = np.add.reduceat(sample.weights, firsts)
    merged = Sample(sample.values[firsts], sample.from_logits, sample.codes[firsts], weights)
    return merged, points[firsts]


def _row_keys(seed: int, *tables: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row (SplitMix64, Steele et al. 2014, figure 16).

    >>> np.unique(_row_keys(0, np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))).size
    2
    """
    keys = np.full(len(tables[0]), seed, np.uint64)
    for table in tables:
        for column in table.T:
            keys ^= (column.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            keys += np.uint64(0x9E3779B97F4A7C15)
            keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            keys ^= keys >> np.uint64(31)
    return keys


def first_share(sample: Sample, share: float) -> np.ndarray:
    """Whether each row is among the first of its class, up to a share of the class's weight."""
    chosen = np.zeros(len(sample), bool)
    for code in np.unique(sample.codes):
        rows = np.flatnonzero(sample.codes == code)
        weights = sample.weights[rows]
        middle = (np.cumsum(weights) - weights / 2) / weights.sum()
        # a row at the border stays on its side, however sums of weights are rounded
        chosen[rows] = middle < share - 1e-9
    return chosen
