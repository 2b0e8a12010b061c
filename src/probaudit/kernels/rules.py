"""What rows contain, and the rules they must satisfy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import inline
from .elementary import exp

PROBABILITIES, PAIRS, LOGITS, LOG_PROBABILITIES = 0, 1, 2, 3
GOOD, BAD_LABEL, BAD_WEIGHT, BAD_VALUE, BAD_SUM = 0, 1, 2, 3, 4

LOGIT_LIMIT = 2.0**20


class InputRows(NamedTuple):
    """The rows of one call. Outputs are in `values`, row by row, or in columns; one is None."""

    values: np.ndarray | None  # [n, K]
    addresses: np.ndarray | None  # [K] where each column begins
    like: np.ndarray  # [0, K] of the type of the outputs
    begin: int  # the number within the columns of the first row
    labels: np.ndarray
    weights: np.ndarray | None


class Options(NamedTuple):
    """What a pass knows about its rows, whatever they are."""

    kind: int
    tolerance: float  # of the sum of a row
    reject_cost: float


@inline
def row_status(row, label, weight, classes, options):
    """Which rule a row breaks, if any. Slow and plain: called only if a quick test failed."""
    kind, tolerance = options.kind, options.tolerance
    if not 0 <= label < classes:
        return BAD_LABEL
    if not 0.0 <= weight < np.inf:
        return BAD_WEIGHT
    total, best = 0.0, -np.inf
    for k in range(row.size):
        v = np.float64(row[k])
        if kind >= LOGITS:
            if not (-LOGIT_LIMIT <= v <= LOGIT_LIMIT or v == -np.inf):
                return BAD_VALUE
            best = v if v > best else best
            total += exp(v) if v < 1.0 else 3.0
        else:
            if not 0.0 <= v <= 1.0 + tolerance:
                return BAD_VALUE
            total += v
    if kind >= LOGITS and best == -np.inf:
        return BAD_VALUE
    if kind != LOGITS and not abs(total - 1.0) <= tolerance:
        return BAD_SUM
    return GOOD
