"""Scores and errors as scorers of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.row_index import common_index
from ..errors import InputError


@dataclass(frozen=True)
class Scorer:
    """Judges a fitted classifier on rows, as scikit-learn asks: larger is better."""

    metric: Callable[..., Any]
    greater_is_better: bool
    options: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        for needed in ("predict_proba", "classes_"):
            if not hasattr(estimator, needed):
                name = type(estimator).__name__
                way_out = ("pass a fitted classifier, such as LogisticRegression()",)
                rule = f"must be a classifier with `{needed}`"
                raise InputError("estimator", rule, name, way_out=way_out)
        common_index({"X": X, "y": y, "sample_weight": sample_weight})
        classes = np.asarray(estimator.classes_).tolist()
        options = {"classes": classes, "sample_weight": sample_weight} | dict(self.options)
        value = float(self.metric(y, estimator.predict_proba(X), **options))
        return value if self.greater_is_better else -value


def as_scorer(
    metric: Callable[..., Any], *, greater_is_better: bool = False, **options: Any
) -> Scorer:
    """A function of (y_true, y_proba) as a scorer for `cross_val_score`, `GridSearchCV` and others.

    Unlike one of `sklearn.metrics.make_scorer`, it takes the order of the classes from the
    classifier, so that labels may be text.

    metric : a score or an error, such as `log_score` or `calibration_error`.
    greater_is_better : False for scores and errors; the scorer then returns the negative value, as
        "neg_log_loss" does.
    options : of the metric, such as `lens` or `partition`.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from probaudit import log_score
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> names = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    >>> ours = cross_val_score(GaussianNB(), X, names, scoring=as_scorer(log_score))
    >>> np.allclose(ours, cross_val_score(GaussianNB(), X, names, scoring="neg_log_loss"))
    True
    """
    if not callable(metric):
        way_out = ("pass a function, such as log_score",)
        raise InputError("metric", "must be a function", repr(metric), way_out=way_out)
    return Scorer(metric, greater_is_better, options)
