"""A scikit-learn classifier wrapped with its calibrator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

import probaudit as pb
from probaudit.calibrators import (
    BiasCorrectedTemperature,
    CalibratedModel,
    PerGroup,
    TemperatureScaling,
)
from probaudit.errors import InputError


def world(n: int = 600, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose features repeat each other, so that naive Bayes is far too sure."""
    X, y = make_classification(
        n,
        20,
        n_informative=5,
        n_redundant=15,
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=0.6,
        random_state=seed,
    )
    return X, y


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that says how many rows, and which weight, it was fitted to."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.classes_ = np.unique(y)
        self.rows_, self.weight_ = (
            len(y),
            None if sample_weight is None else float(np.sum(sample_weight)),
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        p = 1 / (1 + np.exp(-np.asarray(X)[:, 0]))
        others = np.repeat(
            ((1 - p) / (len(self.classes_) - 1))[:, None], len(self.classes_) - 1, axis=1
        )
        return np.column_stack([others, p])


@pytest.mark.parametrize(
    "model",
    [
        CalibratedModel(LogisticRegression()),
        CalibratedModel(LinearSVC(), method="decision_function"),
    ],
)
def test_scikit_learn_contract(model: CalibratedModel) -> None:
    # many tiny fits: threads would only wait for each other
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # scikit-learn's own checks warn
        results = check_estimator(model, on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_the_calibrator_sees_only_rows_left_out() -> None:
    X, y = world()
    model = CalibratedModel(GaussianNB()).fit(X, y)
    left_out = cross_val_predict(
        GaussianNB(), X, y, cv=KFold(5, shuffle=True, random_state=0), method="predict_proba"
    )
    direct = BiasCorrectedTemperature().fit(left_out, y)
    expected = direct.predict_proba(GaussianNB().fit(X, y).predict_proba(X))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
    assert model.fit_report_ == direct.fit_report_
    stratified = CalibratedModel(GaussianNB(), stratify=True).fit(X, y)
    by_splitter = CalibratedModel(
        GaussianNB(), cv=StratifiedKFold(5, shuffle=True, random_state=0)
    ).fit(X, y)
    assert stratified.fit_report_ == by_splitter.fit_report_ != model.fit_report_
    with pytest.raises(InputError, match="`stratify`"):
        CalibratedModel(GaussianNB(), cv=GroupKFold(3), stratify=True).fit(X, y)
    with pytest.raises(InputError, match=r"`calibrator`.*PerGroup"):
        CalibratedModel(GaussianNB(), PerGroup()).fit(X, y)


def test_it_improves_an_overconfident_model() -> None:
    X, y = world(4000)
    fit, test = slice(0, 2000), slice(2000, None)
    raw = GaussianNB().fit(X[fit], y[fit]).predict_proba(X[test])
    found = CalibratedModel(GaussianNB()).fit(X[fit], y[fit]).predict_proba(X[test])
    assert pb.log_score(y[test], found) < 0.8 * pb.log_score(y[test], raw)
    assert pb.calibration_error(y[test], found) < 0.5 * pb.calibration_error(y[test], raw)


def test_a_neighbour_vote_of_its_own_rows_would_mislead() -> None:
    """With one neighbour, a row's own vote is always right; only rows left out show how often
    others are."""
    X, y = world(800, classes=2)
    model = CalibratedModel(KNeighborsClassifier(1), TemperatureScaling()).fit(X[:400], y[:400])
    confidence = model.predict_proba(X[400:]).max(axis=1)
    right = model.predict(X[400:]) == y[400:]
    assert confidence.mean() == pytest.approx(right.mean(), abs=0.06)
    assert right.mean() < 0.95


@pytest.mark.parametrize("labels", [np.array([5, 9, 2]), np.array(["no", "yes", "maybe"])])
def test_labels_of_any_kind(labels: np.ndarray) -> None:
    X, y = world()
    model = CalibratedModel(LogisticRegression()).fit(X, labels[y])
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    plain = CalibratedModel(LogisticRegression()).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), plain[:, np.argsort(labels)], atol=1e-3)
    assert np.mean(model.predict(X) == labels[plain.argmax(axis=1)]) > 0.99


def test_a_class_that_a_fold_lacks_keeps_its_column() -> None:
    X, y = world(200, classes=2)
    y = np.append(y, 2)  # one row: the fold that leaves it out has never met its class
    X = np.concatenate([X, [X[0] + 50]])
    for estimator, method in (
        (LogisticRegression(), "predict_proba"),
        (LinearSVC(), "decision_function"),
    ):
        model = CalibratedModel(estimator, method=method).fit(X, y)
        probs = model.predict_proba(X)
        assert probs.shape == (201, 3)
        assert np.isfinite(probs).all()
        np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-12)
        assert model.fit_report_.n == 200
        assert model.fit_report_.status.startswith("1 rows have no out-of-fold output")


def test_weights_reach_both_and_zero_is_absent() -> None:
    X, y = world(300)
    w = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    model = CalibratedModel(Recorder()).fit(X, y, sample_weight=w)
    assert model.estimator_.weight_ == w.sum()
    assert model.estimator_.rows_ == (w > 0).sum() == model.fit_report_.n
    direct = BiasCorrectedTemperature().fit(model.estimator_.predict_proba(X), y, w)
    np.testing.assert_allclose(model.calibrator_.bias_, direct.bias_, atol=1e-6)
    assert CalibratedModel(Recorder()).fit(X, y).estimator_.weight_ is None
    absent = CalibratedModel(LogisticRegression()).fit(X, y, sample_weight=w)
    kept = CalibratedModel(LogisticRegression()).fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    np.testing.assert_allclose(absent.predict_proba(X), kept.predict_proba(X), atol=1e-10)
    piped = CalibratedModel(make_pipeline(StandardScaler(), LogisticRegression())).fit(
        X, y, sample_weight=w
    )  # takes no weights
    assert piped.fit_report_.n == (w > 0).sum()


def test_rows_of_a_cluster_share_a_fold() -> None:
    """Copies of rows in both parts would let one neighbour look sure of everything."""
    X, y = world(300, classes=2)
    X, y, clusters = np.repeat(X, 4, axis=0), np.repeat(y, 4), np.repeat(np.arange(300), 4)
    leaky, honest = (
        CalibratedModel(KNeighborsClassifier(1)).fit(X, y, clusters=c) for c in (None, clusters)
    )
    assert leaky.fit_report_.score_after < 0.05 < 0.2 < honest.fit_report_.score_after
    by_splitter = CalibratedModel(KNeighborsClassifier(1), cv=GroupKFold(5)).fit(
        X, y, clusters=clusters
    )
    assert by_splitter.fit_report_.score_after == pytest.approx(
        honest.fit_report_.score_after, abs=0.1
    )


def test_any_calibrator_of_either_output() -> None:
    X, y = world(400, classes=2)
    for estimator, method in (
        (LinearSVC(), "decision_function"),
        (LogisticRegression(), "predict_proba"),
    ):
        model = CalibratedModel(estimator, TemperatureScaling(), method=method).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), clone(estimator).fit(X, y).predict(X))
        assert model.calibrator_.from_logits == (method == "decision_function")


def test_bad_input_is_named() -> None:
    X, y = world(90)
    cases = [
        (CalibratedModel(LogisticRegression(), method="predict"), (X, y), "`method`"),
        (CalibratedModel(LogisticRegression(), "temperature"), (X, y), "`calibrator`"),
        (CalibratedModel(LogisticRegression(), cv=1), (X, y), "`cv`"),
        (
            CalibratedModel(LogisticRegression(), cv=RepeatedKFold(n_splits=3, n_repeats=2)),
            (X, y),
            "`cv`.*one test fold at most",
        ),
        (CalibratedModel(LogisticRegression()), (X, np.zeros(90)), "`y`.*two classes"),
        (CalibratedModel(LogisticRegression()), (X[:2], [0, 1]), "`y`.*two rows"),
        (
            CalibratedModel(SVC(decision_function_shape="ovo"), method="decision_function"),
            world(200, 4),
            "`estimator`",
        ),
    ]
    for model, rows, words in cases:
        with pytest.raises(InputError, match=words):
            model.fit(*rows)
    with pytest.raises(InputError, match=r"`cv`.*two classes"):
        CalibratedModel(
            LogisticRegression(), cv=[(np.flatnonzero(y == 0), np.flatnonzero(y > 0))]
        ).fit(X, y)
