"""Rows that are judged again and again, under several lenses or group by group: the good ones, as
probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..calibration.views import lens_of
from ..choices.lenses import Lens, View
from ..choices.partitions import Partition
from ..choices.selections import Selection
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows


@dataclass(frozen=True, eq=False)
class Judged:
    """Good rows of given ones: logits are turned into probabilities once, and not by every estimate
    anew. Choices made for all rows are cut down to them."""

    predictions: Predictions
    lens: Lens
    rows: GoodRows

    @classmethod
    def of(cls, given: Predictions, lens: Lens) -> Judged:
        rows = GoodRows.of(given)
        weights = None if given.sample_weight is None else rows.weights
        plain = Predictions(
            rows.labels,
            rows.probs,
            sample_weight=weights,
            clusters=None if given.clusters is None else given.clusters[rows.places],
            tolerance=given.row_tolerance,
            names=given.names,
        )
        return cls(plain, lens_of(given, lens), rows)

    def partition(self, partition: Partition) -> Partition:
        return partition.select(self.rows.places, self.rows.total)

    def mask(self, where: Selection) -> np.ndarray:
        """Which of these rows are chosen and have any weight."""
        chosen = where.select(self.rows.places, self.rows.total).mask(
            View(self.rows.probs, self.rows.labels)
        )
        return np.asarray(chosen & (self.rows.weights > 0))
