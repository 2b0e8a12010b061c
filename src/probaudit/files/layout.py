"""Layouts: which columns of a table are labels, outputs, weights, features and clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypedDict, Unpack

import numpy as np

from ..data.arrays import as_numbers
from ..data.calibrator_fit import CalibratorFit
from ..data.classes import (
    Pattern,
    as_truth,
    class_list,
    in_class_order,
    labels_as_text,
    typed_as,
    wildcard_parts,
)
from ..data.populations import crossing
from ..data.predictions import OnBadRows, Predictions
from ..errors import Argument, InputError, nearest
from ..text import listed
from .dialect import Dialect

OUTPUTS = ("probs", "logits", "log_probs", "confidence")


class ReadOptions(TypedDict, total=False):
    """The options of `read`."""

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
    event: Any
    on_bad_rows: OnBadRows
    tolerance: float | None
    ignore_label: Any
    sep: str | None
    decimal: str


def dialect_of(options: ReadOptions) -> Dialect:
    """The dialect of CSV files that the options choose."""
    return Dialect(options.get("sep"), options.get("decimal", "."))


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what. Column names and the type of the labels decide it, before
    any row is read.

    kind : one of OUTPUTS. label : the column with the true class, or with the correctness if the
        output is a confidence.
    texts : the features that hold text; all others are numbers.
    names : what error messages call each argument of `Predictions`.
    calibrator_fit : that the file stores, if any.
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
    event: Any
    names: Mapping[str, str]
    on_bad_rows: OnBadRows
    tolerance: float | None
    ignore_label: Any
    calibrator_fit: CalibratorFit | None = None

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that must hold numbers."""
        return self.outputs if self.weight is None else (*self.outputs, self.weight)

    @property
    def needed(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        clusters = () if self.clusters is None else (self.clusters,)
        features, columns = self.features or (), self.columns or ()
        return tuple(dict.fromkeys((self.label, *self.numeric, *features, *columns, *clusters)))

    def predictions(
        self, table: Mapping[str, np.ndarray], matrix: Callable[..., np.ndarray] | None = None
    ) -> Predictions:
        """The rows of a table. `matrix` joins the output columns; by default into a C-ordered
        array."""
        matrix = matrix_of if matrix is None else matrix
        features = self._features(table)
        named = isinstance(features, dict) or self.features is None or len(self.features) < 2
        label = labels_as_text(table[self.label], self.classes)
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
            "event": self.event,
            "names": self.names,
            "on_bad_rows": self.on_bad_rows,
            "tolerance": self.tolerance,
            "ignore_label": self.ignore_label,
            "calibrator_fit": self.calibrator_fit,
        }
        if self.kind == "confidence":
            if not any(isinstance(name, str) for name in self.classes or ()):
                label = as_truth(label, self.label, strict=self.on_bad_rows == "error")
            confidence = as_numbers(table[self.outputs[0]], self.outputs[0])
            return Predictions.from_confidence(confidence, label, **parts)
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
            return matrix_of(table, list(self.features), "features")
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
    """The layout of a table with these column names, for the options of `read`.

    labels_of : returns a column of labels; only its type is used. holds_text : whether a feature
        column holds text.
    """
    kind, pattern = requested_outputs(options)
    other_columns = _other_columns(table, holds_text, options)
    names = _names(options)
    classes = options.get("classes")
    order: tuple[Any, ...] | None
    if kind == "confidence":
        correct = options.get("correct")
        names |= {"probs": str(pattern), "y": str(correct)}
        outputs, label = [one_column(table, pattern, kind)], one_column(table, correct, "correct")
        order = None if classes is None else tuple(class_list(classes, "classes"))
    else:
        outputs = matching_columns(table, pattern, kind)
        label = one_column(table, options.get("label", "label"), "label")
        outputs, order = _in_class_order(outputs, pattern, classes, label, labels_of(label))
        names |= {
            "y": label,
            "probs": pattern if isinstance(pattern, str) else ", ".join(map(str, pattern)),
        }
    layout = Layout(
        kind=kind,
        outputs=tuple(outputs),
        label=label,
        classes=order,
        event=options.get("event"),
        names=names,
        on_bad_rows=options.get("on_bad_rows", "error"),
        tolerance=options.get("tolerance"),
        ignore_label=_ignored(options.get("ignore_label"), labels_of(label)),
        **other_columns,
    )
    _check_clusters(layout)
    return layout


def requested_outputs(options: ReadOptions) -> tuple[str, Any]:
    """The kind of output, one of OUTPUTS, and its columns. Raises unless exactly one is given."""
    given = {name: options.get(name) for name in OUTPUTS}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise InputError(
            asked[1],
            "give one kind of output",
            repr(given[asked[1]]),
            way_out=("leave out this one or ", Argument(asked[0])),
        )
    if (options.get("confidence") is None) != (options.get("correct") is None):
        raise InputError(
            "correct",
            "confidence and correctness go together",
            way_out=("pass both ", Argument("confidence"), " and ", Argument("correct")),
        )
    return (asked[0], given[asked[0]]) if asked else ("probs", "p_*")


def _other_columns(
    table: Collection[str], holds_text: Callable[[str], bool], options: ReadOptions
) -> dict[str, Any]:
    """The fields of a layout besides labels and outputs."""

    def some(argument: str) -> tuple[str, ...] | None:
        pattern: Any = options.get(argument)
        return None if pattern is None else tuple(matching_columns(table, pattern, argument))

    def one(argument: str) -> str | None:
        name = options.get(argument)
        return None if name is None else one_column(table, name, argument)

    features = some("features")
    return {
        "weight": one("weight"),
        "features": features,
        "texts": tuple(name for name in features or () if holds_text(name)),
        "columns": some("columns"),
        "clusters": one("clusters"),
    }


def _names(options: ReadOptions) -> dict[str, str]:
    """What error messages call weights and clusters."""
    given = {"sample_weight": options.get("weight"), "clusters": options.get("clusters")}
    return {name: str(column) for name, column in given.items() if column is not None}


def _ignored(label: Any, labels: np.ndarray) -> Any:
    """The ignored label in the type of the labels."""
    typed = None if label is None else typed_as([label], labels)
    if label is not None and typed is None:
        raise InputError("ignore_label", "must be of the type of the labels", repr(label))
    return None if typed is None else typed[0]


def _in_class_order(
    outputs: list[str], pattern: Pattern, classes: Any, label: str, labels: np.ndarray
) -> tuple[list[str], tuple[Any, ...] | None]:
    """Output columns and their classes, in the order of the given classes if there are any. The
    classes are None for a single column without given classes."""
    parts = wildcard_parts(outputs, pattern)
    named = typed_as(parts, labels)
    if classes is not None:
        plain = class_list(classes, "classes")
        order = typed_as(plain, labels) or tuple(plain)
        if named and len(named) == len(order) and set(named) == set(order):
            return [outputs[named.index(c)] for c in order], order
        return in_class_order(outputs, plain) or outputs, order
    if len(outputs) == 1:
        return outputs, None
    if named is None:
        raise InputError(
            label,
            "labels must be the classes that output columns are named after",
            f"labels are {labels.dtype}, but classes are named {listed(parts)}",
            way_out=("pass ", Argument("classes"), _order_words(labels)),
        )
    return outputs, named


def _order_words(labels: np.ndarray) -> str:
    """The order in which classes must be given."""
    if labels.dtype.kind in "iu":
        return ", the classes in the order of the labels 0, 1 and so on"
    return ", the label of each output column in order"


def _check_clusters(layout: Layout) -> None:
    """Raise if the clusters are a column that has another meaning."""
    others = {layout.label: "labels", layout.weight: "weights"} | dict.fromkeys(
        layout.outputs, "outputs"
    )
    if layout.clusters is not None and layout.clusters in others:
        raise InputError(
            "clusters",
            f"must not be the column of the {others[layout.clusters]}",
            repr(layout.clusters),
            way_out=("name the column that identifies dependent rows",),
        )


def matching_columns(table: Collection[str], pattern: Pattern, argument: str) -> list[str]:
    """The columns that a pattern matches, in the order of the table; several patterns in the given
    order."""
    patterns = split_names([pattern] if isinstance(pattern, (int, str)) else pattern, table)
    if not patterns:
        raise InputError(argument, "needs at least one column")
    matched: list[str] = []
    for part in patterns:
        names = [part] if part in table else _matches(table, part)
        if argument == "columns":  # those of groups
            names = list(crossing(part, table)) or names
        if not names:
            raise _no_column(table, part, f"no column matches {part!r}", argument)
        matched += [name for name in names if name not in matched]
    return matched


def _matches(table: Iterable[str], pattern: str) -> list[str]:
    """The names that a pattern matches. Its brackets list letters, as in a shell; if nothing
    matches, they stand for themselves.

    >>> _matches(["p [%]", "p 1"], "p [12]"), _matches(["p [%]", "p 1"], "* [%]")
    (['p 1'], ['p [%]'])
    """
    literal = pattern.replace("[", "[[]")
    found = [[name for name in table if fnmatchcase(name, each)] for each in (pattern, literal)]
    return found[0] or found[1]


def split_names(given: Iterable[Any], table: Collection[str]) -> list[str]:
    """Names or patterns, several of which may be separated by commas. The name of a column is not
    split.

    >>> split_names(["a, b*", "c,d"], ["c,d"])
    ['a', 'b*', 'c,d']
    """
    texts = map(str, given)
    return [
        part.strip() for text in texts for part in ([text] if text in table else text.split(","))
    ]


def one_column(table: Collection[str], name: Any, argument: str) -> str:
    text = name if name is None else str(name)
    if text not in table:
        raise _no_column(table, str(text), f"there is no column {text!r}", argument)
    return str(text)


def _no_column(table: Collection[str], name: str, problem: str, argument: str) -> InputError:
    rule = f"must be one of the columns {listed(list(table))}"
    way_out = nearest(name, table)
    if not way_out and name == "p_*":
        kinds = Argument("probs"), ", ", Argument("logits"), " or ", Argument("confidence")
        way_out = ("name the columns with outputs: pass ", *kinds)
    return InputError(argument, rule, problem, way_out=way_out)


def matrix_of(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> np.ndarray:
    """Columns as one C-ordered matrix, in the widest of their floating-point formats."""
    columns = [as_numbers(table[name], name) for name in names]
    if len(columns) == 1:
        return columns[0][:, None] if columns[0].ndim == 1 else columns[0]
    check_vectors(names, columns, argument)
    for name, column in zip(names, columns, strict=True):
        if len(column) != len(columns[0]):
            raise InputError(
                argument,
                f"columns must have the same length ({len(columns[0])})",
                f"{name!r}: {len(column)}",
            )
    matrix = np.empty((len(columns[0]), len(columns)), np.result_type(*columns))
    for k, column in enumerate(columns):
        matrix[:, k] = column
    return matrix


def check_vectors(names: Sequence[str], columns: Sequence[np.ndarray], argument: str) -> None:
    """Raise if one of several columns is a matrix, such as a column of lists."""
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1:
            raise InputError(
                argument,
                "several columns must each hold one number per row",
                f"{name!r} is a matrix",
            )
