"""Reading predictions: files (.csv, .tsv, .jsonl, .parquet, .arrow, .npz, .npy) and data frames of
any library.

`csv_files.py` parses CSV, `json_lines.py` parses JSON, `tables.py` reads all formats as named
columns, and `layout.py` decides which column is what.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.classes import Pattern, order_columns, wildcard_parts
from ..data.keywords import with_known_keywords
from ..data.predictions import OnBadRows, Predictions
from ..errors import Argument, InputError
from ..text import listed
from .dialect import COMMAS, Dialect
from .layout import (
    ReadOptions,
    layout_of,
    matching_columns,
    matrix_of,
    one_column,
    requested_outputs,
)
from .paths import files_of, form_of, is_path
from .tables import holds_text, read_array, stored_fit, table_of, table_of_file
from .writing import arrow_table


@with_known_keywords
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
    event: Any = None,
    on_bad_rows: OnBadRows = "error",
    tolerance: float | None = None,
    ignore_label: Any = None,
    sep: str | None = None,
    decimal: str = ".",
) -> Predictions:
    """Read predictions from files (.csv, .tsv, .jsonl, .parquet, .arrow, .npz, .npy) or a frame
    (pandas, polars, pyarrow, ...). Text files may be compressed (.csv.gz, .csv.zst).

    source : a path, a folder, a pattern such as "day-*.parquet" or "runs/**/*.csv", a list of
        paths, or a frame. Files are read in the order of their paths. A folder named name=value,
        below a given folder or pattern, adds a column of that name.

    label : the column with the true class.
    probs, logits, log_probs : the columns with the outputs, as names or patterns such as "p_*" (the
        default for probs). The part that the star matches names the class. A single column belongs
        to the second of two classes. A column of lists, or a 2-D array in an .npz file, holds all
        classes.
    confidence, correct : for models that report only a confidence; used instead of label and
        outputs. Correctness is true or false, 1 or 0, or text: yes / no, true / false,
        correct / incorrect, right / wrong (`TRUTH_VALUES`).
    weight, features, columns : sample weights; feature columns (numbers, booleans or text); other
        columns to keep by name ("a*b" names the columns a and b, if both exist).
    clusters : the column that identifies dependent rows, such as the visits of one patient. Rows
        with the same value form a cluster, the unit of intervals, tests and folds.
    classes : the class of each output column, in order. Required if the column names do not contain
        the classes; otherwise it sets their order.
    event : the class whose probability is judged as a risk; by default the second of two classes.
    ignore_label : rows with this label are left out and counted.
    sep, decimal : of CSV files: the separator of values, by default a comma, or a tab in .tsv
        files; and the mark before decimals, a point or a comma.

    In a .jsonl file each line is one object; {"score": {"value": 1}} has a column `score.value`. An
    .npy file has one array, called like the file, which holds the outputs unless other columns are
    named. `label`, `correct`, `weight` and `clusters` may be paths of other .npy files.

    Arrays may be dense: labels [n, ...] and outputs [n, K, ...], see `Predictions`.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": ["cat", "dog"], "p_dog": [0.1, 0.8], "p_cat": [0.9, 0.2]})
    >>> read(frame).classes
    ('dog', 'cat')
    """
    table = table_of(source, Dialect(sep, decimal))
    array = only_array(source, table)
    probs, logits, log_probs, confidence = (
        named_by_file(name, source, array) for name in (probs, logits, log_probs, confidence)
    )
    if probs is logits is log_probs is confidence is None:
        probs = array
    table = with_arrays(table, (label, correct, weight, clusters))
    if array is not None and confidence is None and label not in table:
        raise InputError(
            "label",
            "must be a .npy file of its own, as the array of outputs has no named columns",
            label,
            way_out=("pass ", Argument("label", "'labels.npy'")),
        )
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
        event=event,
        on_bad_rows=on_bad_rows,
        tolerance=tolerance,
        ignore_label=ignore_label,
    )
    return replace(layout, calibrator_fit=stored_fit(source)).predictions(table)


def only_array(source: Any, table: Mapping[str, np.ndarray]) -> str | None:
    """The column of a single .npy file that has only one."""
    if is_path(source) and len(table) == 1 and form_of(files_of(source)[0]) == "npy":
        return next(iter(table))
    return None


def named_by_file(name: Any, source: Any, array: str | None) -> Any:
    """The only array of a .npy file, if `name` is that of the file; `name` otherwise."""
    if array is None or not isinstance(name, str):
        return name
    return array if Path(name) in (Path(source), Path(Path(source).name)) else name


def with_arrays(
    table: Mapping[str, np.ndarray], names: Sequence[str | None]
) -> Mapping[str, np.ndarray]:
    """A table with the arrays of .npy files added, under the paths that name them as columns."""
    paths = [name for name in names if str(name).endswith(".npy") and name not in table]
    if not paths:
        return table
    return {name: table[name] for name in table} | {
        str(path): read_array(Path(str(path))) for path in paths
    }


def read_outputs(
    source: Any,
    classes: Sequence[Any],
    *,
    from_logits: bool,
    probs: Pattern | None = None,
    logits: Pattern | None = None,
    log_probs: Pattern | None = None,
) -> tuple[np.ndarray, Any]:
    """Outputs without labels, in the order of the classes; and the other columns as an Arrow table.

    from_logits : whether logits are required (log-probabilities are accepted too) or probabilities.
        The caller declares what the columns hold; it is never guessed.
    """
    table = table_of(source)
    array = only_array(source, table)
    kinds = {"probs": probs, "logits": logits, "log_probs": log_probs}
    given = {kind: named_by_file(name, source, array) for kind, name in kinds.items()}
    asked = [name for name, value in given.items() if value is not None] or (
        [] if from_logits else ["probs"]
    )
    if len(asked) != 1 or (asked[0] == "probs") == from_logits:
        wanted = "logits or log-probabilities" if from_logits else "probabilities"
        raise InputError(
            asked[-1] if asked else "logits",
            f"outputs must be {wanted}, given once",
            ", ".join(asked) or "none",
        )
    pattern = given[asked[0]] or array or "p_*"
    matched = matching_columns(table, pattern, asked[0])
    if len(matched) > 1:
        matched = order_columns(matched, wildcard_parts(matched, pattern), classes, asked[0])
    outputs = matrix_of(table, matched, asked[0])
    if outputs.ndim != 2:
        raise InputError(
            asked[0],
            "must be [rows, classes]",
            f"has shape {outputs.shape}",
            way_out=("apply the calibrator to the rows of dense outputs in Python",),
        )
    if outputs.shape[1] not in (len(classes), len(classes) - 1):
        raise InputError(asked[0], f"needs {len(classes)} columns", outputs.shape[1])
    if type(source).__module__.split(".")[0] == "pyarrow":
        return outputs, source.drop_columns(matched)
    others = {name: table[name] for name in table if name not in matched}
    return outputs, arrow_table(
        {name: column for name, column in others.items() if column.shape[:1] == outputs.shape[:1]}
    )


def read_multilabel(
    source: Any,
    *,
    labels: Pattern = "y_*",
    probs: Pattern | None = None,
    logits: Pattern | None = None,
    log_probs: Pattern | None = None,
    weight: str | None = None,
    clusters: str | None = None,
    sep: str | None = None,
    decimal: str = ".",
) -> dict[str, Any]:
    """The arguments of `multilabel_table`: labels and outputs [n, K], names, weights and clusters.

    Columns of labels and of outputs are matched by the parts of their names that the stars match.
    Without stars, by their order; then both are lists of names. A single column holds all labels (a
    2-D array, or lists).
    """
    options = ReadOptions(probs=probs, logits=logits, log_probs=log_probs)
    kind, pattern = requested_outputs(options)
    table = table_of(source, Dialect(sep, decimal))
    called, matched = (
        matching_columns(table, columns, argument)
        for columns, argument in ((labels, "labels"), (pattern, kind))
    )
    names, theirs = wildcard_parts(called, labels), wildcard_parts(matched, pattern)
    starred = "*" in f"{labels}", "*" in f"{pattern}"
    if len(called) > 1 and len(matched) > 1 and starred[0] != starred[1]:
        option = kind if starred[0] else "labels"
        rule = "must be a pattern with a star, as the other columns are, to match names"
        raise InputError(option, rule, f"{pattern if starred[0] else labels}")
    if len(called) > 1 and all(starred):
        if sorted(names) != sorted(theirs):
            raise InputError(kind, f"needs a column for each of {listed(names)}", listed(theirs))
        matched = [matched[theirs.index(name)] for name in names]
    found: dict[str, Any] = {
        "y_true": matrix_of(table, called, "labels"),
        "y_proba": matrix_of(table, matched, kind),
        "names": names if len(called) > 1 else None,
    }
    for argument, name in (("sample_weight", weight), ("clusters", clusters)):
        if name is not None:
            option = "weight" if argument == "sample_weight" else argument
            found[argument] = table[one_column(table, name, option)]
    kinds = {"logits": "from_logits", "log_probs": "from_log_probs"}
    return found | ({kinds[kind]: True} if kind in kinds else {})


def read_besides(source: Any, takes: str, columns: Pattern) -> np.ndarray:
    """Columns that a calibrator takes besides outputs (`Calibrator.takes`): features as a matrix,
    or columns of groups; [n] if there is one."""
    table = table_of(source)
    names = matching_columns(table, columns, takes)
    if takes == "features":
        return matrix_of(table, names, takes)
    if len(names) == 1:
        return table[names[0]]
    return np.column_stack([table[name].astype(object) for name in names])


def read_costs(path: Path, classes: Sequence[Any], dialect: Dialect = COMMAS) -> Any:
    """A cost matrix from a CSV file: a header with the decisions, then a row for each class.

    If the first column holds text, it names the class of each row, and rows may be in any order.
    Otherwise rows are in the order of the classes.
    """
    from ..choices.scores import Cost

    try:
        table = table_of_file(path, dialect)
    except InputError as problem:
        raise InputError("costs", problem.rule, problem.value, way_out=problem.way_out) from None
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
    try:
        matrix = matrix_of(table, columns, "costs")
    except InputError as problem:
        value = f"{path}, column {problem.argument!r}: {problem.value}"
        raise InputError("costs", problem.rule, value, way_out=problem.way_out) from None
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
