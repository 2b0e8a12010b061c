"""The mean entropy of the outputs: how spread out the probabilities are, whatever the labels."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from ..choices.scores import Log
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..engines.good_rows import GoodRows
from ..estimate import Estimate
from .decision_cost import row_mean
from .row_scores import CHUNK


@takes_row_options
def output_entropy(
    y_true: Any, y_proba: Any = None, *, normalize: bool = False, **options: Unpack[RowOptions]
) -> Estimate:
    """The mean over rows of -sum_k p_k log p_k, in nats (Kirchenbauer et al. 2022, Figure 11).

    For a calibrated model it is the expected log loss. An entropy below the log loss is a sign of
    overconfidence, one above it of underconfidence.

    normalize : divide by log K, the entropy of equal probabilities. Other arguments as in
        `log_score`; labels are checked, but have no effect.

    >>> output_entropy([0, 1, 1], [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]], normalize=True).value
    0.6666666666666666
    """
    rows = rows_of(y_true, y_proba, **options)
    good = GoodRows.of(rows)
    scale = math.log(rows.n_classes) if normalize else 1.0
    words = "mean entropy of the outputs" + (", divided by log K" if normalize else "")
    found = row_mean(rows, good, row_entropies(good.probs) / scale, None, words)
    found.high = min(found.high, math.log(rows.n_classes) / scale)
    return found


def row_entropies(probs: np.ndarray) -> np.ndarray:
    """The entropy of each row."""
    step = max(1, CHUNK // probs.shape[1])
    parts = [Log().entropy(probs[i : i + step]) for i in range(0, len(probs), step)]
    return np.concatenate(parts)
