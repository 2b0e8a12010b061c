"""A scikit-learn classifier with its calibrator: the classifier is fitted to all rows, the
calibrator to out-of-fold outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)

from ..data.row_index import common_index
from ..errors import Argument, InputError
from .base import Calibrator, FitReport, checked_calibrator
from .folds import fold_numbers
from .temperature import BiasCorrectedTemperature

METHODS = ("predict_proba", "decision_function")


class CalibratedModel(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with calibrated probabilities.

    The calibrator is fitted to out-of-fold outputs: for each fold, a copy of `estimator` is fitted
    to the other folds. The calibrator is then applied to the outputs of a final copy, fitted to all
    rows.

    estimator : a scikit-learn classifier. A fitted one in a `FrozenEstimator` is not fitted again;
        the rows of `fit` must be new to it.
    calibrator : BiasCorrectedTemperature unless given. Its `from_logits` and `classes` follow from
        `method` and from y.
    cv : the number of random folds, or whatever scikit-learn's `check_cv` accepts. With `clusters`
        in `fit`, the rows of a cluster share a fold.
    method : which outputs of the estimator to calibrate: "predict_proba", or "decision_function" as
        logits.
    stratify : whether folds have the class frequencies of all rows; needs a number of folds.
    seed : the seed of the folds.

    A copy without training rows of a class gives it probability 0, or the lowest score of the row.
    For rows of that class, these outputs are unlike those of the final model, so that the
    calibrator is fitted without them.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> CalibratedModel(GaussianNB()).fit(X, y).predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    """

    classes_: np.ndarray
    estimator_: Any
    calibrator_: Calibrator
    fit_report_: FitReport

    def __init__(
        self,
        estimator: Any,
        calibrator: Calibrator | None = None,
        cv: Any = 5,
        *,
        method: str = "predict_proba",
        stratify: bool = False,
        seed: int = 0,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.method = method
        self.stratify = stratify
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None) -> Self:
        """Fit the model and its calibrator. Weights go to the estimator, if it takes them, and to
        the calibrator.

        clusters : one value per row; rows with the same value are dependent and share a fold.
        """
        if self.method not in METHODS:
            rule = 'must be "predict_proba" or "decision_function"'
            raise InputError("method", rule, repr(self.method))
        calibrator = checked_calibrator(
            BiasCorrectedTemperature() if self.calibrator is None else self.calibrator, "calibrator"
        )
        if calibrator.takes == ("groups",):
            raise InputError(
                "calibrator",
                "must not need groups",
                type(calibrator).__name__,
                way_out=("fit it to the outputs of the model",),
            )
        common_index({"X": X, "y": y, "sample_weight": sample_weight, "clusters": clusters})
        check_classification_targets(y)
        X, y, clusters = indexable(X, y, clusters)
        y = column_or_1d(y, warn=True)
        if _num_samples(X) == 0:
            raise InputError("X", "must have at least one row", "0 sample(s)")
        weights = np.ones(len(y))
        if sample_weight is not None:
            weights = np.asarray(
                _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
            )
        counted = np.flatnonzero(weights > 0)
        self.classes_ = np.unique(y[counted])
        if len(self.classes_) < 2:
            only = f"one class, {self.classes_.tolist()}"
            raise InputError("y", "needs rows of two classes or more", only)
        if isinstance(self.estimator, FrozenEstimator):  # these rows may lack classes of its own
            self.classes_ = np.union1d(self.classes_, self.estimator.classes_)
        codes = np.searchsorted(self.classes_, y[counted])
        passed = None if sample_weight is None else weights
        outputs = self._out_of_fold(X, y, passed, clusters, counted)
        rows = counted[np.isfinite(outputs[counted, codes])]
        self.calibrator_ = clone(calibrator).set_params(
            from_logits=self.method == "decision_function", classes=self.classes_.tolist()
        )
        self.calibrator_.fit(self._completed(outputs[rows]), y[rows], weights[rows])
        report, lost = self.calibrator_.fit_report_, len(counted) - len(rows)
        if lost:
            status = f"{lost} rows have no out-of-fold output; {report.status}"
            report = replace(report, status=status)
        self.fit_report_ = report
        self.estimator_ = self._fitted(X, y, passed, counted)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities, [n, K], columns in the order of `classes_`."""
        check_is_fitted(self, "calibrator_")
        return self.calibrator_.predict_proba(self._outputs(self.estimator_, X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class after calibration; the first in case of a tie."""
        check_is_fitted(self, "calibrator_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _fitted(self, X: Any, y: np.ndarray, weights: np.ndarray | None, rows: np.ndarray) -> Any:
        """A copy of the estimator fitted to some rows."""
        model = clone(self.estimator)
        part = (X, y) if len(rows) == len(y) else (_safe_indexing(X, rows), y[rows])
        if weights is not None and has_fit_parameter(model, "sample_weight"):
            return model.fit(*part, sample_weight=weights[rows])
        return model.fit(*part)

    def _outputs(self, model: Any, X: Any) -> np.ndarray:
        """The outputs of a model, one column for each of its classes. A single column of scores
        belongs to the second of two classes."""
        outputs = np.asarray(getattr(model, self.method)(X))
        if outputs.ndim == 1:
            outputs = np.column_stack([np.zeros(len(outputs)), outputs])
        if outputs.shape[1:] != (len(model.classes_),):
            size = len(model.classes_)
            rule = f"its {self.method} must have a column for each of the {size} classes"
            raise InputError("estimator", rule, f"has shape {outputs.shape}")
        return outputs

    def _out_of_fold(
        self, X: Any, y: np.ndarray, weights: np.ndarray | None, clusters: Any, counted: np.ndarray
    ) -> np.ndarray:
        """Out-of-fold outputs, [n, K]; NaN where there are none."""
        outputs = np.full((len(y), len(self.classes_)), np.nan)
        for train, test in self._folds(X, y, clusters, counted):
            test = np.intersect1d(test, counted)
            if not np.isnan(outputs[test]).all():
                raise InputError("cv", "must put each row into one test fold at most")
            train = train[np.isin(train, counted)]
            present = np.unique(y[train])
            if len(present) < 2 or not len(test):
                continue
            model = self._fitted(X, y, weights, train)
            columns = np.searchsorted(self.classes_, model.classes_)
            outputs[np.ix_(test, columns)] = self._outputs(model, _safe_indexing(X, test))
        if np.isnan(outputs).all():
            raise InputError("cv", "needs a fold whose training rows have two classes or more")
        return outputs

    def _completed(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs with values for classes that a copy was not trained on."""
        least = (
            np.nanmin(outputs, axis=1, keepdims=True) if self.method == "decision_function" else 0.0
        )
        return np.where(np.isnan(outputs), least, outputs)

    def _folds(
        self, X: Any, y: np.ndarray, clusters: Any, counted: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The training and test rows of each fold."""
        if not isinstance(self.cv, (int, np.integer)):
            if self.stratify:
                raise InputError(
                    "stratify",
                    "needs a number of folds in `cv`",
                    repr(self.cv)[:80],
                    way_out=("pass a number of folds or a stratified splitter as ", Argument("cv")),
                )
            yield from check_cv(self.cv, y, classifier=True).split(X, y, clusters)
            return
        codes = np.unique(y[counted], return_inverse=True)[1].reshape(-1)
        largest = int(np.bincount(codes).max())
        if largest < 2:
            raise InputError("y", "needs a class with two rows or more")
        some = None if clusters is None else np.asarray(_safe_indexing(clusters, counted))
        most = largest if self.stratify else len(counted)
        folds = fold_numbers(
            min(int(self.cv), most), codes, some, self.seed, stratify=self.stratify
        )
        for number in np.unique(folds):
            yield counted[folds != number], counted[folds == number]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.input_tags = own.input_tags
        tags.classifier_tags.multi_class = (
            own.classifier_tags.multi_class if own.classifier_tags else True
        )
        return tags
