"""The command `demo`: classifiers trained on data sets of scikit-learn, as a first example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..audits.audit import audit_rows
from ..audits.audit_result import Audit
from ..audits.finding import Commands
from ..data.predictions import Predictions
from ..files.writing import write_table
from .outputs import console

REPORTS = ("breast cancer, naive Bayes", "digits, random forest")


def demo(
    output: Annotated[Path, typer.Option(help="folder for predictions and audits")] = Path(
        "probaudit-demo"
    ),
) -> None:
    """Train classifiers on data sets of scikit-learn, and audit them."""
    from ..comparisons.comparison import compare
    from ..report.terminal import first_screen, overview

    screen = console()
    output.mkdir(parents=True, exist_ok=True)
    models: dict[str, dict[str, Predictions]] = {}
    audits: dict[str, dict[str, Audit]] = {}
    for data, method, rows in trained():
        models.setdefault(data, {})[method] = rows
        audits.setdefault(data, {})[method] = _audited(output, data, method, rows)
    for data, by_method in audits.items():
        screen.print(f"\n[bold]{data}[/bold]\n")
        screen.print(overview(by_method))
    compare(models["digits"]).to_html(
        output / "digits-compared.html", title="digits, five classifiers"
    )
    screen.print()
    shown = audits["breast cancer"]["naive Bayes"]
    screen.print(first_screen(shown, REPORTS[0], shown.spelling))
    reports = ", ".join(str(path) for path in sorted(output.glob("*.html")))
    screen.print(f"\nOpen in a browser: {reports}", soft_wrap=True)
    screen.print(
        f"Then try: probaudit audit {output}/digits-random-forest.parquet --html report.html"
    )


def _audited(folder: Path, data: str, method: str, rows: Predictions) -> Audit:
    """Audit predictions; save them, the audit and, for some, a report."""
    title = f"{data}, {method}"
    reported = title in REPORTS
    path = save(folder, f"{data} {method}", rows)
    audit = audit_rows(rows, title=title, repair="compare" if reported else None)
    audit = replace(audit, spelling=Commands(str(path)))
    audit.to_json(path.with_suffix(".json"))
    if reported:
        audit.to_html(path.with_suffix(".html"))
    return audit


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
    """Train on one half of the rows and predict the other. Yields data set, classifier and
    predictions."""
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
    """Write predictions to a file that `probaudit audit` can read."""
    path = folder / f"{name.replace(' ', '-')}.parquet"
    columns = {"label": rows.y} | {
        f"p_{c}": rows.probs[:, k] for k, c in enumerate(rows.class_order)
    }
    if rows.features is not None:
        columns |= {f"f_{c}": rows.features[:, k] for k, c in enumerate(rows.feature_names or ())}
    write_table(path, columns)
    return path
