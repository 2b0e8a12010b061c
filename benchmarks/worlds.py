"""Rows for the benchmarks: labels and outputs of a moderately confident classifier."""

from __future__ import annotations

import numpy as np

SHAPES = {"50,000 x 1,000 float32": (50_000, 1_000, np.float32),
          "1,000,000 x 10 float32": (1_000_000, 10, np.float32),
          "5,000,000 x 2 float64": (5_000_000, 2, np.float64)}  # fmt: skip


def rows(n: int, classes: int, dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, logits and probabilities."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    z = rng.standard_normal((n, classes), dtype=np.float32 if dtype is np.float32 else np.float64)
    z *= 2
    z[np.arange(n), y] += 3
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return y, z.astype(dtype, copy=False), p.astype(dtype, copy=False)
