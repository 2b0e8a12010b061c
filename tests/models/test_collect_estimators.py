"""Predictions collected from scikit-learn estimators, pipelines and callables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import probaudit as pb

FRAME, CODES = load_iris(return_X_y=True, as_frame=True)
X = FRAME.to_numpy()
Y = load_iris().target_names[CODES]


def test_probabilities_inputs_and_class_order():
    model = GaussianNB().fit(X, Y)
    rows = pb.collect(model, (X, Y), batch_size=40)
    assert rows.kind == "probabilities"
    assert rows.classes == ("setosa", "versicolor", "virginica")
    np.testing.assert_allclose(rows.probs, model.predict_proba(X))
    np.testing.assert_array_equal(rows.features, X)
    np.testing.assert_array_equal(rows.codes, CODES)


def test_class_order_is_that_of_the_model():
    """Labels 7, 3 and 5 are sorted in `classes_`."""
    labels = np.array([7, 3, 5])[CODES]
    rows = pb.collect(GaussianNB().fit(X, labels), (X, labels))
    assert rows.classes == (3, 5, 7)
    assert pb.log_score(rows) < 0.5


@pytest.mark.parametrize(
    ("outputs", "method"),
    [("logits", "decision_function"), ("log_probabilities", "predict_log_proba")],
)
def test_declared_outputs_name_the_method(outputs, method):
    model = LogisticRegression(max_iter=500).fit(X, Y)
    rows = pb.collect(model, (X, Y), outputs=outputs)
    assert rows.kind == outputs
    np.testing.assert_allclose(rows.probs, getattr(model, method)(X), rtol=1e-6)
    np.testing.assert_allclose(rows.probabilities(), model.predict_proba(X), rtol=1e-6)


def test_margins_must_be_declared_as_logits():
    model = LinearSVC().fit(X[:100], Y[:100])
    with pytest.raises(pb.InputError, match=r'must have predict_proba.*`outputs="logits"`'):
        pb.collect(model, (X[:100], Y[:100]))
    rows = pb.collect(model, (X[:100], Y[:100]), outputs="logits")
    np.testing.assert_allclose(rows.probs, model.decision_function(X[:100]))
    assert rows.classes == ("setosa", "versicolor")


def test_a_pipeline_gives_transformed_features():
    model = make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(X, Y)
    rows = pb.collect(model, (X, Y))
    np.testing.assert_allclose(rows.probs, model.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(rows.features, model[:-1].transform(X))
    scaled = pb.collect(model, (X, Y), layer="standardscaler")
    np.testing.assert_allclose(scaled.features, model[:1].transform(X))
    np.testing.assert_allclose(scaled.probs, rows.probs, rtol=1e-9)
    assert pb.collect(model, (X, Y), layer=None).features is None


def test_names_of_features_are_kept():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME, Y)
    assert pb.collect(model, (FRAME, Y)).feature_names == tuple(FRAME.columns)
    plain = pb.collect(LogisticRegression(max_iter=500).fit(FRAME, Y), (FRAME, Y))
    assert plain.feature_names == tuple(FRAME.columns)
    np.testing.assert_array_equal(plain.features, X)


def test_sparse_features_become_dense():
    frame = pd.DataFrame({"colour": np.array(["red", "blue"])[CODES % 2], "size": X[:, 0]})
    encode = make_column_transformer(
        (OneHotEncoder(), ["colour"]), remainder="passthrough", sparse_threshold=1.0
    )
    model = make_pipeline(encode, LogisticRegression()).fit(frame, Y)
    assert sparse.issparse(model[:-1].transform(frame))
    rows = pb.collect(model, (frame, Y), batch_size=64)
    assert rows.features.shape == (150, 3)
    assert rows.feature_names[-1] == "remainder__size"


def test_very_wide_sparse_features_are_refused():
    texts = np.array(["one two", "three four"])[CODES % 2]
    model = make_pipeline(HashingVectorizer(n_features=2**15), LogisticRegression()).fit(texts, Y)
    with pytest.raises(pb.InputError, match=r"sparse features must have at most 10,000 columns"):
        pb.collect(model, (texts, Y))
    assert pb.collect(model, (texts, Y), layer=None).features is None


def test_batches_of_a_loader():
    model = GaussianNB().fit(X, Y)
    parts = ((X[a : a + 50], Y[a : a + 50]) for a in (0, 50, 100))
    np.testing.assert_allclose(pb.collect(model, parts).probs, model.predict_proba(X))


def test_columns_of_the_rows():
    site = np.where(X[:, 0] > 5.5, "north", "south")
    rows = pb.collect(GaussianNB().fit(X, Y), (X, Y, {"site": site}), batch_size=7)
    np.testing.assert_array_equal(rows.columns["site"], site)
    with pytest.raises(pb.InputError, match=r"site must have one value for each row \(150\)"):
        pb.collect(GaussianNB().fit(X, Y), (X, Y, {"site": site[:3]}))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (LogisticRegression(), {}, r"`model`: must be a fitted classifier, with `classes_`"),
        (LinearRegression(), {}, r"`model`: must have predict_proba"),
        (IsolationForest(), {"outputs": "logits"}, r"must be a fitted classifier"),
        (GaussianNB().fit(X, Y), {"layer": "scale"}, r"`layer`: a classifier without such steps"),
        (GaussianNB().fit(X, Y), {"classes": ["a"]}, r"`classes`: must not be given for a model"),
        (
            make_pipeline(StandardScaler(), GaussianNB()).fit(X, Y),
            {"layer": "gaussiannb"},
            r"`layer`: must be a step before the last \(standardscaler\)",
        ),
        (
            KNeighborsClassifier().fit(X, np.column_stack([CODES, CODES])),
            {},
            r"`model`: must predict one label per row \(found: 2 labels\)",
        ),
        ("a name", {}, r"`model`: must be a PyTorch module, a scikit-learn classifier, or"),
    ],
)
def test_invalid_models_are_refused(model, options, message):
    with pytest.raises(pb.InputError, match=message):
        pb.collect(model, (X, Y), **options)


def halves(x):
    p = np.clip(x[:, 0] / 10, 0, 1)
    return np.column_stack([1 - p, p])


def test_a_callable_declares_its_outputs():
    labels = (CODES > 0).astype(int)
    with pytest.raises(pb.InputError, match=r"`outputs`: must be declared for a callable"):
        pb.collect(halves, (X, labels))
    rows = pb.collect(halves, (X, labels), outputs="probabilities", classes=["no", "yes"])
    np.testing.assert_allclose(rows.probs, halves(X))
    assert rows.features is None
    assert rows.classes == ("no", "yes")


def test_a_callable_may_return_features():
    rows = pb.collect(
        lambda x: (halves(x), x[:, 1:3]), (X, CODES > 0), outputs="probabilities", batch_size=11
    )
    np.testing.assert_array_equal(rows.features, X[:, 1:3])
    with pytest.raises(pb.InputError, match=r"`model`: must return outputs, or a pair"):
        pb.collect(lambda x: (x, x, x), (X, CODES), outputs="logits")
    with pytest.raises(pb.InputError, match=r"`layer`: applies to PyTorch modules and pipelines"):
        pb.collect(halves, (X, CODES), outputs="logits", layer="head")


def test_batch_options_are_checked():
    with pytest.raises(pb.InputError, match=r"`batch`: must not be given with a tuple"):
        pb.collect(halves, (X, CODES), outputs="logits", batch=tuple)
    with pytest.raises(pb.InputError, match=r"`batch_size`: must be at least 1"):
        pb.collect(halves, (X, CODES), outputs="logits", batch_size=0)
