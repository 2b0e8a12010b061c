"""Classifiers trained on data sets of scikit-learn, as a first example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..data.predictions import Predictions
from ..files.writing import write_table

REPORTS = ("breast cancer, naive Bayes", "digits, random forest")


def _classifiers() -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "naive Bayes": GaussianNB(),
        "random forest": RandomForestClassifier(100, random_state=0),
        "neighbours": KNeighborsClassifier(5),
        "neural network": make_pipeline(
            StandardScaler(), MLPClassifier((64,), max_iter=500, random_state=0)
        ),
    }


def trained(seed: int = 0) -> Iterator[tuple[str, str, Predictions]]:
    """Train on one half and predict the other: data set, classifier, predictions."""
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.model_selection import train_test_split

    for name, load in (("breast cancer", load_breast_cancer), ("digits", load_digits)):
        data = load()
        classes = [str(c) for c in data.target_names]
        x, x_test, y, y_test = train_test_split(
            data.data, data.target, test_size=0.5, stratify=data.target, random_state=seed
        )
        for method, model in _classifiers().items():
            probs = model.fit(x, y).predict_proba(x_test)
            names = [str(feature) for feature in data.feature_names]
            rows = Predictions(
                np.array(classes)[y_test],
                probs,
                classes=classes,
                features=x_test,
                feature_names=names,
            )
            yield name, method, rows


def save(folder: Path, name: str, rows: Predictions) -> Path:
    """Write predictions as `probaudit audit` reads them."""
    path = folder / f"{name.replace(' ', '-')}.parquet"
    columns = {"label": rows.y} | {
        f"p_{c}": rows.probs[:, k] for k, c in enumerate(rows.class_order)
    }
    if rows.features is not None:
        columns |= {f"f_{c}": rows.features[:, k] for k, c in enumerate(rows.feature_names or ())}
    write_table(path, columns)
    return path
