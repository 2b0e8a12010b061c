"""The estimates of Perez-Lebel et al. 2023, as in the authors' code
(github.com/aperezlebel/beyond_calibration): samples, split, trees, and differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calibration.resampling import percentile
from ..choices.partitions import Partition
from ..estimate import Estimate
from ..grouping.event_loss import PARTS
from ..grouping.features import Features
from ..grouping.loss import GroupingLoss
from ..grouping.regions import Division, Level, Regions
from ..simulate import GroupedWorld, neural_outputs

# The calibration curve, and what is subtracted for binning.
PROTOCOL: dict[str, Any] = {"curve": "knn", "induced": "bins"}


def published_sample(seed: int, n: int = 10_000) -> GroupedWorld:
    """A sample of Figure 4: the world of `neural_outputs`, drawn by the generator of the code.

    numpy's multivariate normal is written out: the signs of its directions depend on the linear
    algebra library.
    """
    random = np.random.RandomState(seed)
    z = random.standard_normal((n, 2)) * (-np.sqrt(10.0), 1.0)
    features = z @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    scores = 1 / (1 + np.exp(-features.sum(axis=1)))
    truth = scores + np.tanh(z[:, 1] / 2) * np.minimum(scores, 1 - scores)
    y = random.binomial(1, truth)
    world = neural_outputs(1)
    return GroupedWorld(features, y, scores, truth, world.grouping_loss, world.log_grouping_loss)


def published_split(outputs: np.ndarray, bins: Partition) -> np.ndarray:
    """Half of each bin for evaluation, as a mask. A bin of one row is for learning."""
    from sklearn.model_selection import train_test_split

    cells = bins.cells(outputs)
    test = np.zeros(len(cells), bool)
    for cell in np.flatnonzero(np.bincount(cells) > 1):
        rows = np.flatnonzero(cells == cell)
        test[train_test_split(rows, test_size=0.5, random_state=0)[1]] = True
    return test


@dataclass(frozen=True)
class PublishedTree(Regions):
    """Scikit-learn's regression tree, with one region for each `ratio` test rows of the bin."""

    ratio: float = 30

    def divide(self, features: Features, level: Level) -> Division:
        from sklearn.tree import DecisionTreeRegressor

        train, test = level.train, level.test
        least = len(train) // max(1, int(len(test) // self.ratio))
        if len(train) < 2 * least or not least:
            return Division.unsplit(len(test))
        tree = DecisionTreeRegressor(min_samples_leaf=least, random_state=0)
        tree.fit(features.values[train], level.hits[train])
        return Division(tree.apply(features.values[test]), str)


def difference(
    first: GroupingLoss, second: GroupingLoss, part: str = "lower_bound", *, times: float = 1.0
) -> Estimate:
    """A part of the first loss minus `times` that of the second. Both are of as many rows, and so
    have the same resamples: the interval is paired."""
    k = PARTS.index(part)
    value = float(getattr(first, part)) - times * float(getattr(second, part))
    if first.deviations is None or second.deviations is None:
        return Estimate(value)
    low, high = percentile(value + first.deviations[:, k] - times * second.deviations[:, k])
    return Estimate(value, low=low, high=high)
