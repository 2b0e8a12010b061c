"""The pass over rows of many classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .narrow import narrow_probabilities

if TYPE_CHECKING:
    from ..rules import InputRows, Options
    from ..tallies import Target


def wide_probabilities(
    rows: InputRows,
    bits: np.ndarray,
    target: Target,
    options: Options,
    most: np.ndarray,
    scale: float,
) -> int:
    """`bits` and `most`, by which the kernel finds invalid values, are not needed."""
    return wide_logits(rows, target, options, scale)


def wide_logits(rows: InputRows, target: Target, options: Options, scale: float) -> int:
    return narrow_probabilities(rows, target, options, round(np.log2(scale)))
