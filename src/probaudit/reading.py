"""Files and frames in, `Predictions` out: .npz, .csv, .parquet, .arrow, and frames of any library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InputError
from .predictions import OnBadRows, Predictions

Pattern = str | Sequence[str]

OUTPUTS = ("probs", "logits", "log_probs", "confidence")
SUFFIXES = {".npz": "npz", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow"}


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
    classes: Sequence[Any] | None = None,
    on_bad_rows: OnBadRows = "error",
    tolerance: float | None = None,
) -> Predictions:
    """Read predictions from a file (.npz, .csv, .parquet, .arrow) or a frame (pandas, polars, pyarrow, ...).

    label : the column with the true class.
    probs, logits, log_probs : the columns with the outputs, as names or patterns such as "p_*" (the default for probs).
        What the star stands for names the class; one single column belongs to the second of two classes; a column
        of lists, or a 2-D array of an .npz, holds all classes.
    confidence, correct : for systems that only say how sure they are; takes the place of label and outputs.
    weight, features, columns : sample weights, feature columns, and other columns to keep by name.
    classes : the class of each output, in order, where the column names do not say it.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"label": ["cat", "dog"], "p_dog": [0.1, 0.8], "p_cat": [0.9, 0.2]})
    >>> read(frame).classes
    ('dog', 'cat')
    """
    given = dict(zip(OUTPUTS, (probs, logits, log_probs, confidence), strict=True))
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise InputError(asked[1], f"give one kind of output, not also `{asked[0]}`", repr(given[asked[1]]))
    if (confidence is None) != (correct is None):
        raise InputError("correct", "`confidence` and `correct` go together")
    table = _table(source)
    kind = asked[0] if asked else "probs"
    extras: dict[str, Any] = {
        "sample_weight": None if weight is None else _numbers(table, _one(table, weight, "weight"), "weight"),
        "features": None if features is None else _matrix(table, _match(table, features, "features"), "features"),
        "columns": None if columns is None else {name: table[name] for name in _match(table, columns, "columns")},
        "on_bad_rows": on_bad_rows,
        "tolerance": tolerance,
    }
    if confidence is not None and correct is not None:
        stated = _numbers(table, _one(table, confidence, "confidence"), "confidence")
        names = {"probs": confidence, "y": correct}
        return Predictions.from_confidence(
            stated, table[_one(table, correct, "correct")], names=names, classes=classes, **extras
        )
    pattern = given[kind] if asked else "p_*"
    assert pattern is not None
    matched = _match(table, pattern, kind)
    labels = table[_one(table, label, "label")]
    outputs = _matrix(table, matched, kind)
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    if classes is not None:
        classes = _typed(list(classes), labels, label)
    elif len(matched) > 1:
        classes = _typed(_stars(matched, pattern), labels, label)
    return Predictions(
        labels,
        outputs,
        from_logits=kind == "logits",
        from_log_probs=kind == "log_probs",
        classes=classes,
        names={"y": label, "probs": pattern if isinstance(pattern, str) else ", ".join(pattern)},
        **extras,
    )


def _table(source: Any) -> Mapping[str, np.ndarray]:
    """Named columns of a file or frame, each read as numpy when it is asked for."""
    if isinstance(source, (str, Path)):
        return _file(Path(source))
    import narwhals as nw

    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        raise InputError("source", "must be a path or a data frame", type(source).__name__) from None
    return _ArrowColumns(frame.to_arrow(), "source")


def _file(path: Path) -> Mapping[str, np.ndarray]:
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError("source", f"must end in one of {', '.join(SUFFIXES)}", str(path))
    if not path.is_file():
        raise InputError("source", "must be a file that exists", str(path))
    try:
        if form == "npz":
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        return _ArrowColumns(_arrow(path, form), str(path))
    except InputError:
        raise
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError) as problem:
        raise InputError("source", f"must be a readable {form} file", f"{path}: {_first_line(problem)}") from None
    except Exception as problem:  # zipfile.BadZipFile and others that only a damaged file raises
        if type(problem).__module__.split(".")[0] in ("zipfile", "zlib", "pyarrow"):
            rule = f"must be a readable {form} file"
            raise InputError("source", rule, f"{path}: {_first_line(problem)}") from None
        raise


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]


def _arrow(path: Path, form: str) -> Any:
    if form == "csv":
        from pyarrow import csv

        return csv.read_csv(path)
    if form == "parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    from pyarrow import feather

    return feather.read_table(path)


class _ArrowColumns(Mapping[str, np.ndarray]):
    """The columns of an Arrow table as numpy arrays; a column of lists becomes two-dimensional."""

    def __init__(self, table: Any, source: str) -> None:
        self._table = table
        names = table.column_names
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError("source", "column names must differ", f"{source} has two columns {twice[0]!r}")

    def __iter__(self) -> Any:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table.column_names)

    def __getitem__(self, name: str) -> np.ndarray:
        import pyarrow as pa

        column = self._table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (
            pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type) or pa.types.is_large_list(column.type)
        ):
            return np.asarray(column.to_numpy())
        column = column.combine_chunks()
        lengths = column.value_lengths().to_numpy(zero_copy_only=False) if len(column) else np.empty(0)
        odd = np.flatnonzero(lengths != (lengths[0] if len(lengths) else 0))
        if len(odd):
            rule = f"every list must have the {lengths[0]:g} entries of the first"
            raise InputError(name, rule, f"{lengths[odd[0]]:g} entries", row=int(odd[0]))
        return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), -1)


def _match(table: Mapping[str, np.ndarray], pattern: Pattern, argument: str) -> list[str]:
    """Column names that a pattern names, in the order of the file; several patterns in the order given."""
    patterns = [part.strip() for part in pattern.split(",")] if isinstance(pattern, str) else list(pattern)
    found: list[str] = []
    for part in patterns:
        names = [part] if part in table else [name for name in table if fnmatchcase(name, part)]
        if not names:
            rule = f"the columns are {_listed(list(table))}"
            raise InputError(argument, rule, f"no column matches {part!r}")
        found += [name for name in names if name not in found]
    return found


def _one(table: Mapping[str, np.ndarray], name: str, argument: str) -> str:
    if name not in table:
        raise InputError(argument, f"the columns are {_listed(list(table))}", f"there is no column {name!r}")
    return name


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")


def _numbers(table: Mapping[str, np.ndarray], name: str, argument: str) -> np.ndarray:
    values = table[name]
    if values.dtype.kind == "O":  # a column with nulls
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            pass
    if values.dtype.kind not in "fiub":
        raise InputError(argument, f"column {name!r} must hold numbers", f"has type {values.dtype}")
    return values


def _matrix(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> np.ndarray:
    """Columns side by side, in the widest of their floating-point formats."""
    if len(names) == 1:
        return _numbers(table, names[0], argument)
    columns = [_numbers(table, name, argument) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1:
            raise InputError(argument, "several columns must each hold one number per row", f"{name!r} is a matrix")
        if len(column) != len(columns[0]):
            raise InputError(argument, f"columns must be of one length ({len(columns[0])})", f"{name!r}: {len(column)}")
    floats = {column.dtype for column in columns if column.dtype.kind == "f"}
    dtype = np.result_type(*floats) if floats and all(c.dtype.kind == "f" for c in columns) else np.dtype(np.float64)
    matrix = np.empty((len(columns[0]), len(columns)), dtype)
    for k, column in enumerate(columns):
        matrix[:, k] = column
    return matrix


def _stars(names: list[str], pattern: Pattern) -> list[Any]:
    """What the star of a pattern stands for in each name; the names themselves if there is no single star."""
    if not isinstance(pattern, str) or pattern.count("*") != 1 or "," in pattern:
        return list(names)
    before, after = pattern.split("*")
    return [name[len(before) : len(name) - len(after)] for name in names]


def _typed(classes: list[Any], labels: np.ndarray, label: str) -> tuple[Any, ...]:
    """Class names of the labels' type: a name in a file is text, the labels may be integers or booleans."""
    if not all(isinstance(c, str) for c in classes) or labels.dtype.kind not in "biuf":
        return tuple(classes)
    if labels.dtype.kind == "b":
        truth = {"false": False, "true": True, "0": False, "1": True}
        if all(c.lower() in truth for c in classes):
            return tuple(truth[c.lower()] for c in classes)
    elif all(re.fullmatch(r"-?\d+", c) for c in classes):
        return tuple(int(c) for c in classes)
    rule = "pass `classes`, the label of each output column in order"
    raise InputError(label, rule, f"labels are {labels.dtype}, but classes are named {_listed(classes)}")


def read_costs(path: Path, classes: Sequence[Any]) -> Any:
    """A cost matrix from a CSV: a header with the decisions, then a row for each class.

    If the first column holds text it names the class of its row, and rows may stand in any order; else they stand in
    the order of the classes.
    """
    from .scores import Cost

    table = _file(path)
    names = list(table)
    if all(re.fullmatch(r"-?[\d.]+(e-?\d+)?", name.strip()) for name in names):
        raise InputError("costs", "needs a header that names the decisions", f"{path} begins with {', '.join(names)}")
    first = table[names[0]]
    named = first.dtype.kind in "OUS" or names[0] in ("", "class")
    columns = names[1:] if named else names
    if not columns:
        raise InputError("costs", "needs at least one decision", str(path))
    matrix = np.column_stack([_numbers(table, name, "costs") for name in columns])
    if named:
        given = [str(c) for c in first.tolist()]
        wanted = [str(c) for c in classes]
        if sorted(given) != sorted(wanted):
            raise InputError("costs", f"needs one row for each of {_listed(wanted)}", f"{path} has {_listed(given)}")
        matrix = matrix[[given.index(c) for c in wanted]]
    return Cost(matrix, "cost", tuple(columns))
