"""The good rows of predictions in memory, found in one pass and kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.predictions import Predictions
from ..states import Plan
from .memory import Survey, take_survey


@dataclass(frozen=True)
class GoodRows:
    """The good rows as plain arrays: probabilities [n, K], labels, weights (at most 1), and their
    places among all `total`."""

    probs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int

    @classmethod
    def of(cls, predictions: Predictions) -> GoodRows:
        good = survey(predictions).good
        if len(good) == len(predictions):
            probs, labels, weights = (
                predictions.probabilities(),
                predictions.codes,
                predictions.sample_weight,
            )
        else:
            probs, labels = predictions.probabilities(good), predictions.codes[good]
            weights = None if predictions.sample_weight is None else predictions.sample_weight[good]
        weights = np.ones(len(labels)) if weights is None else weights / weights.max()
        return cls(probs, labels, weights, good, len(predictions))


def survey(predictions: Predictions) -> Survey:
    """What a pass over all rows finds, found out once."""
    if "survey" not in predictions.memo:
        predictions.memo["survey"] = take_survey(predictions, Plan.of(predictions))
    found: Survey = predictions.memo["survey"]
    return found
