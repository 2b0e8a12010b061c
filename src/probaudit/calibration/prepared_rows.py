"""Rows prepared for many estimates: several lenses, or group by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..choices.lenses import Lens, View
from ..choices.partitions import Partition
from ..choices.selections import Selection
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from .views import lens_of


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The good rows of given ones, as probabilities. Logits are converted once, not by every
    estimate. `partition` and `mask` restrict choices made for all rows to the good ones."""

    predictions: Predictions
    lens: Lens
    rows: GoodRows

    @classmethod
    def of(cls, given: Predictions, lens: Lens) -> PreparedRows:
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
        """Which of these rows a selection keeps and have a positive weight."""
        chosen = where.select(self.rows.places, self.rows.total).mask(
            View(self.rows.probs, self.rows.labels)
        )
        return np.asarray(chosen & (self.rows.weights > 0))
