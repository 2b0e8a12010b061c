"""Several models on the same rows: labels and weights checked, classes in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from ..data.classes import are_names
from ..data.predictions import IGNORED, Predictions
from ..engines.good_rows import survey
from ..errors import InputError
from ..files.reading import read


@dataclass(frozen=True)
class SameRows:
    """The rows of each model, all with the same labels, weights and order of classes.

    kept : the rows that are valid for all models; None if no row was left out.
    dropped : invalid rows by model and rule.
    set_aside, given : the number of rows that are invalid for some model, and of all rows.
    ignored : rows with the ignored label, in words; empty if no label is ignored.
    """

    models: Mapping[str, Predictions]
    kept: np.ndarray | None
    dropped: Mapping[str, Mapping[str, int]]
    set_aside: int
    given: int
    ignored: str = ""

    @property
    def first(self) -> Predictions:
        return next(iter(self.models.values()))


def same_rows(models: Any, y_true: Any = None, *, least: int = 2, **options: Any) -> SameRows:
    """The rows of models, from outputs by name: arrays, with `y_true` and `options`, or
    Predictions, which have their own.

    least : the least number of models, 1 or 2.

    >>> found = same_rows({"a": [0.9, 0.2], "b": [0.8, 0.4]}, [1, 0])
    >>> found.models["b"]
    Predictions(2 rows, 2 classes, probabilities)
    """
    if not isinstance(models, Mapping) or len(models) < least:
        many = "1 model" if len(models) == 1 else f"{len(models)} models"
        given = many if isinstance(models, Mapping) else type(models).__name__
        number = "two models" if least > 1 else "one model"
        raise InputError(
            "models",
            f"must map the names of at least {number} to outputs",
            given,
            way_out=('pass outputs by name, then the labels: {"a": p, "b": q}, y_true',),
        )
    for name in models:
        if not isinstance(name, str) or not name:
            raise InputError("models", "names must be non-empty strings", repr(name))
    arrays = [name for name, value in models.items() if not isinstance(value, Predictions)]
    if arrays and y_true is None:
        raise InputError(
            "y_true", "is required, unless all models are Predictions", f"{arrays[0]!r} is not"
        )
    extra = [
        name
        for name, value in (options | {"y_true": y_true}).items()
        if value is not None and value is not False
    ]
    if not arrays and extra:
        raise InputError(extra[0], "must not be given if all models are Predictions")
    taken = {
        name: value
        if isinstance(value, Predictions)
        else _predictions(name, y_true, value, options)
        for name, value in models.items()
    }
    first_name, first = next(iter(taken.items()))
    return _valid_for_all(
        {name: _aligned(name, rows, first_name, first) for name, rows in taken.items()}
    )


def _valid_for_all(models: dict[str, Predictions]) -> SameRows:
    """The rows that are valid for all models."""
    surveys = {name: survey(rows) for name, rows in models.items()}
    dropped = {
        name: {rule: n for rule, n in found.summary.bad.items() if n}
        for name, found in surveys.items()
    }
    first, good = next(iter(models.values())), [found.good for found in surveys.values()]
    summary = next(iter(surveys.values())).summary
    ignored = "" if first.ignore_label is None else summary.ignored_words
    if all(np.array_equal(rows, good[0]) for rows in good):
        return SameRows(models, None, dropped, summary.dropped, len(first), ignored)
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), good)
    if not len(common):
        raise InputError("models", "must have some rows that are valid for all models", dropped)
    meant = first.codes != IGNORED
    weighty = int(
        (meant if first.sample_weight is None else meant & (first.sample_weight != 0)).sum()
    )
    return SameRows(
        models={name: rows.take(common) for name, rows in models.items()},
        kept=common,
        dropped=dropped,
        set_aside=weighty - len(common),
        given=len(first),
        ignored=ignored,
    )


def read_models(
    files: Sequence[str | Path],
    reader: Callable[..., Predictions] = read,
    *,
    outputs: Sequence[tuple[str, str]] = (),
    names: Sequence[str] = (),
    reading: Mapping[str, Any] | None = None,
) -> dict[str, Predictions]:
    """Models from files: one per file, or one per set of columns of a single file.

    outputs : the kind of outputs, "probs", "logits" or "log_probs", with the pattern of their
        columns, as in `read`; for several files, one for all of them, or one per file.
    names : names of the models, in order; by default the names of the files, or the patterns
        without their star.
    reader, reading : the function that reads a file, `read` or one with the same arguments; and its
        other options.
    """
    if len(files) == 1:
        if len(outputs) < 2:
            raise InputError(
                "probs",
                "must be given twice or more for one file, such as 'a_*' and 'b_*'",
                len(outputs),
            )
        sources: list[tuple[str | Path, dict[str, Any]]] = [
            (files[0], {kind: pattern}) for kind, pattern in outputs
        ]
        called = [pattern.replace("*", "").strip("_-. ") or pattern for _, pattern in outputs]
    else:
        if len(outputs) not in (0, 1, len(files)):
            rule = f"must be one set of columns for all files, or one for each of the {len(files)}"
            raise InputError(outputs[-1][0], rule, f"{len(outputs)} sets")
        each = list(outputs) * len(files) if len(outputs) == 1 else list(outputs)
        sources = [(file, dict(each[k : k + 1])) for k, file in enumerate(files)]
        stems = [Path(file).stem for file in files]
        called = stems if len(set(stems)) == len(stems) else [str(file) for file in files]
    if names and len(names) != len(sources):
        raise InputError("name", f"must name each of the {len(sources)} models", len(names))
    called = list(names) or called
    if len(set(called)) < len(called):
        raise InputError("name", "must differ between models", ", ".join(called))
    return {
        name: reader(file, **columns, **(reading or {}))
        for name, (file, columns) in zip(called, sources, strict=True)
    }


def _predictions(name: str, y_true: Any, outputs: Any, options: Mapping[str, Any]) -> Predictions:
    return Predictions(
        y_true, outputs, names={"y": "y_true", "probs": name, "classes": "classes"}, **options
    )


def _aligned(name: str, rows: Predictions, first_name: str, first: Predictions) -> Predictions:
    """The rows with classes in the order of the first model. Raises unless labels, weights and
    clusters are those of the first."""
    if rows is first:
        return rows
    if rows.pairs != first.pairs:
        raise InputError(
            name, f"must be a confidence if and only if {first_name!r} is one", repr(rows)
        )
    if len(rows) != len(first):
        raise InputError(
            name, f"must have as many rows as {first_name!r} ({len(first):,})", f"{len(rows):,}"
        )
    if rows.class_order != first.class_order:
        if set(rows.class_order) != set(first.class_order):
            odd = sorted(map(repr, set(rows.class_order) ^ set(first.class_order)))
            raise InputError(
                name,
                f"must have the same classes as {first_name!r}",
                f"not in both: {', '.join(odd[:5])}",
            )
        # an event of two classes may be the default, which the order of classes determines
        event = first.event if rows.event is None else rows.event
        rows = replace(
            rows,
            y=_reordered_labels(rows, first.class_order),
            probs=_reordered(rows, first.class_order),
            classes=first.class_order,
            event=event,
        )
    if rows.event_class != first.event_class:
        raise InputError(name, f"must have the event of {first_name!r}", repr(rows.event_class))
    if not rows.pairs:  # each system answers by itself, so correctness may differ
        differ = np.flatnonzero(rows.codes != first.codes)
        rule = f"labels must equal those of {first_name!r}"
        _check_equal(name, rule, differ, rows.y, first.y)
    if (rows.sample_weight is None) != (first.sample_weight is None):
        raise InputError(name, f"must have weights if and only if {first_name!r} has")
    if rows.sample_weight is not None and first.sample_weight is not None:
        differ = np.flatnonzero(
            ~np.isclose(rows.sample_weight, first.sample_weight, rtol=1e-9, atol=0, equal_nan=True)
        )
        rule = f"weights must equal those of {first_name!r}"
        _check_equal(name, rule, differ, rows.sample_weight, first.sample_weight)
    if (rows.clusters is None) != (first.clusters is None):
        raise InputError(name, f"must have clusters if and only if {first_name!r} has")
    if rows.cluster_numbers is not None and first.cluster_numbers is not None:
        differ = np.flatnonzero(rows.cluster_numbers != first.cluster_numbers)
        rule = f"clusters must equal those of {first_name!r}"
        _check_equal(name, rule, differ, rows.clusters, first.clusters)
    return rows


def _check_equal(name: str, rule: str, differ: np.ndarray, values: Any, expected: Any) -> None:
    """Raise at the first row that differs, if any does."""
    if len(differ):
        row = int(differ[0])
        pair = f"{_value_text(values[row])}, not {_value_text(expected[row])}"
        more = f"; {len(differ):,} rows differ" if len(differ) > 1 else ""
        way_out = ("pass models of the same rows in the same order",)
        raise InputError(name, rule, pair + more, row=row, way_out=way_out)


def _value_text(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _reordered_labels(rows: Predictions, classes: tuple[Any, ...]) -> np.ndarray:
    """The labels with classes in another order: only positions of classes change."""
    known = (rows.codes >= 0) & (rows.codes < rows.n_classes)
    if rows.y.dtype.kind in "USTM" or not are_names(classes):
        return np.asarray(rows.y)
    place = np.array([classes.index(c) for c in rows.class_order])
    return np.where(known, place[np.where(known, rows.codes, 0)], rows.y)


def _reordered(rows: Predictions, classes: tuple[Any, ...]) -> np.ndarray:
    """Outputs with classes in another order. A single column of two classes becomes that of the
    other class."""
    if rows.probs.ndim == 2:
        return np.asarray(rows.probs[:, [rows.class_order.index(c) for c in classes]])
    if rows.from_logits:
        return np.asarray(-rows.probs)
    second = rows.probs.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.log(-np.expm1(second)) if rows.from_log_probs else 1 - second
    return np.column_stack([second, first])
