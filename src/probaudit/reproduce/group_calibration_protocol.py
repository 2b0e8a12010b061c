"""Yang et al. 2023, Section 3: the rows of a network, groups learned from validation rows, and
methods over random splits of the test rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from ..calibration.errors import calibration_error
from ..calibrators.base import Calibrator
from ..calibrators.group_calibration import GroupCalibration
from ..calibrators.repeated_splits import (
    Metric,
    Procedure,
    RepeatedSplits,
    repeated_splits,
    resampled_t_test,
)
from ..choices.lenses import TopLabel
from ..data.predictions import Predictions
from ..diagrams.diagram import Diagram
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.proper_scores import log_score
from .stored_diagram import StoredDiagram
from .trained import Networks, Recipe

HELD_OUT = 0.1  # the share of the test rows that fit the calibrators


def accuracy(rows: Predictions) -> float:
    return float(np.mean(np.asarray(rows.probs).argmax(axis=1) == rows.codes))


METRICS: dict[str, Metric] = {
    "ECE": partial(calibration_error, lens=TopLabel()),
    "log loss": log_score,
    "accuracy": accuracy,
}


@dataclass(frozen=True)
class Sets:
    """The validation rows and the test rows of a network, with logits and features.

    partitions : the number to learn, U.
    """

    validation: Predictions
    test: Predictions
    partitions: int

    @classmethod
    def trained(cls, networks: Networks, recipe: Sequence[Any], rows: int, partitions: int) -> Self:
        """Of a network trained here on Fashion-MNIST.

        recipe : the values of a `Recipe`. rows : of the validation rows.
        """
        chosen = Recipe(*recipe)
        validation = networks.outputs(chosen, "calibration").take(np.arange(rows))
        return cls(validation, networks.outputs(chosen, "test"), partitions)

    @classmethod
    def given(cls, validation: Predictions, test: Predictions, rows: int, partitions: int) -> Self:
        """Of two files of the data folder, which must have features. At most `rows` validation rows
        are used."""
        for one in (validation, test):
            if one.features is None or not one.from_logits:
                rule = "files for group calibration must have the arrays `logits` and `features`"
                raise InputError("data", rule, repr(one))
        kept = np.arange(min(rows, len(validation)))
        return cls(validation.take(kept), test, partitions)

    def learned(self, **choices: Any) -> GroupCalibration:
        """Groups learned from the validation rows. Calibrators are fitted later."""
        model = GroupCalibration(
            **{"n_partitions": self.partitions} | choices,
            from_logits=True,
            classes=range(self.test.n_classes),
        )
        rows = self.validation
        return model.learn_groups(rows.probs, rows.codes, features=rows.features)

    def splits(
        self, methods: Mapping[str, Calibrator | Procedure], count: int, **choices: Any
    ) -> RepeatedSplits:
        """Methods over random splits of the test rows, 10% of which fit the calibrators."""
        choices = {"metrics": METRICS} | choices
        return repeated_splits(self.test, methods=methods, splits=count, share=HELD_OUT, **choices)


def with_groups(model: GroupCalibration, base: Calibrator | None = None) -> Procedure:
    """Calibrators fitted to the training rows of a split, in groups that are learned already.

    base : the calibrator of a group; temperature scaling unless given.
    """

    def procedure(train: Predictions, test: Predictions) -> np.ndarray:
        own = copy.copy(model)
        own.base = base
        own.fit_calibrators(train.probs, train.codes, features=train.features)
        return own.predict_proba(test.probs, features=test.features)

    return procedure


def split_mean(found: RepeatedSplits, method: str, metric: str) -> Estimate:
    """The mean over splits, with a 95% interval corrected for rows that splits share."""
    values = found.of(method, metric)
    if not np.isfinite(values).all():
        return Estimate(float(values.mean()))
    test = resampled_t_test(values, found.test_to_train)
    return Estimate(test.value, low=test.low, high=test.high, n=found.test_rows)


def split_difference(
    found: RepeatedSplits, method: str, baseline: str, metric: str, times: float = 1.0
) -> Estimate:
    """A method minus another, as the corrected resampled t-test gives it."""
    test = found.difference(method, metric, baseline)
    return Estimate(times * test.value, low=times * test.low, high=times * test.high)


def titled(diagram: Diagram, title: str) -> Diagram:
    """The same diagram with another title."""
    return StoredDiagram(replace(diagram.picture(), title=title), diagram.columns())
