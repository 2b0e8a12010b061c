"""What rows hold, and the rules they must keep."""

from __future__ import annotations

import numpy as np

from .compiling import inline
from .elementary import exp

PROBABILITIES, PAIRS, LOGITS, LOG_PROBABILITIES = 0, 1, 2, 3
GOOD, BAD_LABEL, BAD_WEIGHT, BAD_VALUE, BAD_SUM = 0, 1, 2, 3, 4

LOGIT_LIMIT = 2.0**20


@inline
def row_status(row, label, weight, classes, tolerance, kind):
    """Which rule a row breaks, if any. Slow and plain: called when a quick look found something
    odd."""
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
