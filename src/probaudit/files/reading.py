"""Files and frames in, `Predictions` out: .npz, .csv, .tsv, .parquet, .arrow, and frames of any
library."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from ..data.arrays import as_numbers, in_class_order
from ..data.predictions import OnBadRows, Predictions, class_list
from ..errors import Argument, InputError
from ..text import listed
from .class_names import Pattern, as_classes, for_classes, stars_of, typed_as
from .tables import holds_text, table_of, table_of_file
from .writing import arrow_table

OUTPUTS = ("probs", "logits", "log_probs", "confidence")


def read(
    source: Any,
    *,
    label: str = "label",
    probs: Pattern | None = None,
    logits: Pattern | None = None,
    log_probs: Pattern | None = None,
    confidence: str | None = None,
    correct: str | None = None,
    weight: str | None = None,
    features: Pattern | None = None,
    columns: Pattern | None = None,
    clusters: str | None = None,
    classes: Sequence[Any] | None = None,
    on_bad_rows: OnBadRows = "error",
    tolerance: float | None = None,
) -> Predictions:
    """Read predictions from files (.npz, .csv, .tsv, .parquet, .arrow) or a frame (pandas, polars,
    pyarrow, ...).

    source : a path, a folder, a pattern such as "day-*.parquet" or "runs/**/*.csv", a list of
        paths, or a frame. Files are taken in the order of their paths. Folders called name=value,
        inside a folder or pattern, give a column of that name.

    label : the column with the true class.
    probs, logits, log_probs : the columns with the outputs, as names or patterns such as "p_*" (the
        default for probs). What the star stands for names the class; one single column belongs to
        the second of two classes; a column of lists, or a 2-D array of an .npz, holds all classes.
    confidence, correct : for systems that only say how sure they are; takes the place of label and
        outputs.
    weight, features, columns : sample weights, feature columns (numbers, booleans or text), other
        columns to keep by name.
    clusters : the column that says which rows are dependent, such as a patient's visits: rows with
        the same value are one cluster, the unit of intervals, tests and folds.
    classes : the class of each output, in order, where the column names do not say it; where they
        do, the order to use.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": ["cat", "dog"], "p_dog": [0.1, 0.8], "p_cat": [0.9, 0.2]})
    >>> read(frame).classes
    ('dog', 'cat')
    """
    table = table_of(source)
    layout = layout_of(
        table,
        lambda name: table[name],
        lambda name: holds_text(table, name),
        label=label,
        probs=probs,
        logits=logits,
        log_probs=log_probs,
        confidence=confidence,
        correct=correct,
        weight=weight,
        features=features,
        columns=columns,
        clusters=clusters,
        classes=classes,
        on_bad_rows=on_bad_rows,
        tolerance=tolerance,
    )
    return layout.predictions(table)


class ReadOptions(TypedDict, total=False):
    """What `read` takes besides its source."""

    label: str
    probs: Pattern | None
    logits: Pattern | None
    log_probs: Pattern | None
    confidence: str | None
    correct: str | None
    weight: str | None
    features: Pattern | None
    columns: Pattern | None
    clusters: str | None
    classes: Sequence[Any] | None
    on_bad_rows: OnBadRows
    tolerance: float | None


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what. Made of its column names and the type of its labels,
    before any row is looked at.

    kind : one of OUTPUTS. label : the column with the true class or, of a stated confidence, with
        its correctness.
    texts : those of the features that hold text; the others are numbers.
    """

    kind: str
    outputs: tuple[str, ...]
    label: str
    weight: str | None
    features: tuple[str, ...] | None
    texts: tuple[str, ...]
    columns: tuple[str, ...] | None
    clusters: str | None
    classes: tuple[Any, ...] | None
    names: Mapping[str, str]
    on_bad_rows: OnBadRows
    tolerance: float | None

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that hold numbers, whatever they look like."""
        return self.outputs if self.weight is None else (*self.outputs, self.weight)

    @property
    def needed(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        units = () if self.clusters is None else (self.clusters,)
        return tuple(
            dict.fromkeys(
                (self.label, *self.numeric, *(self.features or ()), *(self.columns or ()), *units)
            )
        )

    def predictions(
        self, table: Mapping[str, np.ndarray], matrix: Callable[..., np.ndarray] | None = None
    ) -> Predictions:
        """The rows of a table. `matrix` puts columns side by side; its default in the order of
        memory of rows."""
        matrix = _matrix if matrix is None else matrix
        features = self._features(table)
        named = isinstance(features, dict) or self.features is None or len(self.features) < 2
        label = as_classes(table[self.label], self.classes)
        parts: dict[str, Any] = {
            "sample_weight": None
            if self.weight is None
            else as_numbers(table[self.weight], self.weight),
            "features": features,
            "feature_names": None if named else self.features,
            "columns": None
            if self.columns is None
            else {name: table[name] for name in self.columns},
            "clusters": None if self.clusters is None else table[self.clusters],
            "classes": self.classes,
            "names": self.names,
            "on_bad_rows": self.on_bad_rows,
            "tolerance": self.tolerance,
        }
        if self.kind == "confidence":
            stated = as_numbers(table[self.outputs[0]], self.outputs[0])
            return Predictions.from_confidence(stated, label, **parts)
        outputs = matrix(table, list(self.outputs), self.kind)
        if outputs.ndim == 2 and outputs.shape[1] == 1:
            outputs = outputs[:, 0]
        logits, log_probs = self.kind == "logits", self.kind == "log_probs"
        return Predictions(label, outputs, from_logits=logits, from_log_probs=log_probs, **parts)

    def _features(self, table: Mapping[str, np.ndarray]) -> Any:
        """A matrix of numbers; or columns by name, if some hold text."""
        if self.features is None:
            return None
        if not self.texts:
            return _matrix(table, list(self.features), "features")
        return {
            name: table[name] if name in self.texts else as_numbers(table[name], name)
            for name in self.features
        }


def layout_of(
    table: Collection[str],
    labels_of: Callable[[str], np.ndarray],
    holds_text: Callable[[str], bool] = lambda name: False,
    **options: Unpack[ReadOptions],
) -> Layout:
    """What the columns of a table are, given the options of `read`.

    labels_of : gives a column of labels, of which only the type is looked at. holds_text : says it
        of a column of features.
    """
    given = {name: options.get(name) for name in OUTPUTS}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise InputError(
            asked[1],
            "give one kind of output",
            repr(given[asked[1]]),
            way_out=("leave out this one or ", Argument(asked[0])),
        )
    confidence, correct, weight = (
        options.get("confidence"),
        options.get("correct"),
        options.get("weight"),
    )
    if (confidence is None) != (correct is None):
        raise InputError(
            "correct",
            "confidence and correctness go together",
            way_out=("give both ", Argument("confidence"), " and ", Argument("correct")),
        )
    columns, asked_features, clusters = (
        options.get("columns"),
        options.get("features"),
        options.get("clusters"),
    )
    features = None if asked_features is None else tuple(_match(table, asked_features, "features"))
    parts: dict[str, Any] = {
        "weight": None if weight is None else _one(table, weight, "weight"),
        "features": features,
        "texts": tuple(name for name in features or () if holds_text(name)),
        "columns": None if columns is None else tuple(_match(table, columns, "columns")),
        "clusters": None if clusters is None else _one(table, clusters, "clusters"),
        "on_bad_rows": options.get("on_bad_rows", "error"),
        "tolerance": options.get("tolerance"),
    }
    names = {} if weight is None else {"sample_weight": str(weight)}
    names |= {} if clusters is None else {"clusters": str(clusters)}
    classes = options.get("classes")
    if confidence is not None and correct is not None:
        names |= {"probs": str(confidence), "y": str(correct)}
        outputs, label = (_one(table, confidence, "confidence"),), _one(table, correct, "correct")
        stated = None if classes is None else tuple(class_list(classes, "classes"))
        return _checked(Layout("confidence", outputs, label, classes=stated, names=names, **parts))
    kind = asked[0] if asked else "probs"
    pattern: Any = given[kind] if asked else "p_*"
    matched = _match(table, pattern, kind)
    label = _one(table, options.get("label", "label"), "label")
    labels, stars = labels_of(label), stars_of(matched, pattern)
    named = typed_as(stars, labels)
    order: tuple[Any, ...] | None = None
    if classes is not None:
        plain = class_list(classes, "classes")
        order = typed_as(plain, labels) or tuple(plain)
        if named and len(named) == len(order) and set(named) == set(order):
            matched = [matched[named.index(c)] for c in order]
        else:
            matched = in_class_order(matched, plain) or matched
    elif len(matched) > 1:
        if named is None:
            raise InputError(
                label,
                "labels must be the classes that output columns are named after",
                f"labels are {labels.dtype}, but classes are named {listed(stars)}",
                way_out=(
                    "pass ",
                    Argument("classes"),
                    ", the label of each output column in order",
                ),
            )
        order = named
    names |= {
        "y": label,
        "probs": pattern if isinstance(pattern, str) else ", ".join(map(str, pattern)),
    }
    return _checked(Layout(kind, tuple(matched), label, classes=order, names=names, **parts))


def _checked(layout: Layout) -> Layout:
    """The layout, unless its clusters are a column that must mean something else."""
    others = {layout.label: "labels", layout.weight: "weights"} | dict.fromkeys(
        layout.outputs, "outputs"
    )
    if layout.clusters is not None and layout.clusters in others:
        rule = (
            f"must not be the column of the {others[layout.clusters]}: name the column that says "
            "which rows are dependent"
        )
        raise InputError("clusters", rule, repr(layout.clusters))
    return layout


def read_outputs(
    source: Any,
    classes: Sequence[Any],
    *,
    from_logits: bool,
    probs: Pattern | None = None,
    logits: Pattern | None = None,
    log_probs: Pattern | None = None,
) -> tuple[np.ndarray, Any]:
    """Outputs without labels, in the order of the classes, and the other columns as an Arrow table:
    of one, as they are.

    from_logits : what is expected: logits (log-probabilities will do), or probabilities. What is
        there is declared, as ever.
    """
    given = {"probs": probs, "logits": logits, "log_probs": log_probs}
    asked = [name for name, value in given.items() if value is not None] or (
        [] if from_logits else ["probs"]
    )
    if len(asked) != 1 or (asked[0] == "probs") == from_logits:
        wanted = "logits, or log-probabilities," if from_logits else "probabilities"
        raise InputError(
            asked[-1] if asked else "logits",
            f"{wanted} are needed, and no other outputs",
            ", ".join(asked) or "none",
        )
    table, pattern = table_of(source), given[asked[0]] or "p_*"
    matched = _match(table, pattern, asked[0])
    if len(matched) > 1:
        matched = for_classes(matched, stars_of(matched, pattern), classes, asked[0])
    outputs = _matrix(table, matched, asked[0])
    if outputs.shape[1] not in (len(classes), len(classes) - 1):
        raise InputError(asked[0], f"needs {len(classes)} columns", outputs.shape[1])
    if type(source).__module__.split(".")[0] == "pyarrow":
        return outputs, source.drop_columns(matched)
    others = {name: table[name] for name in table if name not in matched}
    return outputs, arrow_table(
        {name: column for name, column in others.items() if column.shape[:1] == outputs.shape[:1]}
    )


def read_besides(source: Any, takes: str, columns: Pattern) -> np.ndarray:
    """Columns that a calibrator takes besides outputs (`Calibrator.takes`): features as a matrix,
    or one column of groups."""
    table = table_of(source)
    names = _match(table, columns, takes)
    if takes == "features":
        return _matrix(table, names, takes)
    if len(names) > 1:
        raise InputError(takes, "must be one column", ", ".join(names))
    return table[names[0]]


def _match(table: Collection[str], pattern: Pattern, argument: str) -> list[str]:
    """Column names that a pattern names, in the order of the file; several patterns in the order
    given."""
    given = [pattern] if isinstance(pattern, int) else pattern
    patterns = (
        [part.strip() for part in given.split(",")]
        if isinstance(given, str)
        else [str(part) for part in given]
    )
    if not patterns:
        raise InputError(argument, "needs at least one column")
    found: list[str] = []
    for part in patterns:
        names = [part] if part in table else [name for name in table if fnmatchcase(name, part)]
        if not names:
            rule = f"the columns are {listed(list(table))}"
            raise InputError(argument, rule, f"no column matches {part!r}")
        found += [name for name in names if name not in found]
    return found


def _one(table: Collection[str], name: Any, argument: str) -> str:
    text = name if name is None else str(name)
    if text not in table:
        raise InputError(
            argument, f"the columns are {listed(list(table))}", f"there is no column {text!r}"
        )
    return str(text)


def _matrix(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> np.ndarray:
    """Columns side by side, in the widest of their floating-point formats."""
    columns = [as_numbers(table[name], name) for name in names]
    if len(columns) == 1:
        return columns[0][:, None] if columns[0].ndim == 1 else columns[0]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1:
            raise InputError(
                argument,
                "several columns must each hold one number per row",
                f"{name!r} is a matrix",
            )
        if len(column) != len(columns[0]):
            raise InputError(
                argument,
                f"columns must be of one length ({len(columns[0])})",
                f"{name!r}: {len(column)}",
            )
    matrix = np.empty((len(columns[0]), len(columns)), np.result_type(*columns))
    for k, column in enumerate(columns):
        matrix[:, k] = column
    return matrix


def read_costs(path: Path, classes: Sequence[Any]) -> Any:
    """A cost matrix from a CSV: a header with the decisions, then a row for each class.

    If the first column holds text it names the class of its row, and rows may stand in any order;
    else they stand in the order of the classes.
    """
    from ..choices.scores import Cost

    try:
        table = table_of_file(path)
    except InputError as problem:
        raise InputError("costs", problem.rule, problem.value) from None
    names = list(table)
    if all(re.fullmatch(r"-?[\d.]+(e-?\d+)?", name.strip()) for name in names):
        raise InputError(
            "costs",
            "needs a header that names the decisions",
            f"{path} begins with {', '.join(names)}",
        )
    first = table[names[0]]
    named = first.dtype.kind in "OUS" or names[0] in ("", "class")
    columns = names[1:] if named else names
    if not columns:
        raise InputError("costs", "needs at least one decision", str(path))
    matrix = _matrix(table, columns, "costs")
    if named:
        given = [str(c) for c in first.tolist()]
        wanted = [str(c) for c in classes]
        if sorted(given) != sorted(wanted):
            raise InputError(
                "costs",
                f"needs one row for each of {listed(wanted)}",
                f"{path} has {listed(given)}",
            )
        matrix = matrix[[given.index(c) for c in wanted]]
    return Cost(matrix, "cost", tuple(columns))
