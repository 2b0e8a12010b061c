"""Files and frames in, `Predictions` out: .npz, .csv, .parquet, .arrow, and frames of any library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import as_array, as_numbers, from_arrow, is_missing
from .errors import InputError
from .predictions import OnBadRows, Predictions, class_list

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
    classes : the class of each output, in order, where the column names do not say it; where they do, the order to use.

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
        "sample_weight": None if weight is None else as_numbers(table[_one(table, weight, "weight")], weight),
        "features": None if features is None else _matrix(table, _match(table, features, "features"), "features"),
        "feature_names": _feature_names(table, features),
        "columns": None if columns is None else {name: table[name] for name in _match(table, columns, "columns")},
        "on_bad_rows": on_bad_rows,
        "tolerance": tolerance,
    }
    names = {} if weight is None else {"sample_weight": weight}
    if confidence is not None and correct is not None:
        stated = as_numbers(table[_one(table, confidence, "confidence")], confidence)
        right = table[_one(table, correct, "correct")]
        names |= {"probs": confidence, "y": correct}
        return Predictions.from_confidence(stated, right, names=names, classes=classes, **extras)
    pattern = given[kind] if asked else "p_*"
    assert pattern is not None
    matched = _match(table, pattern, kind)
    labels = table[_one(table, label, "label")]
    stars = _stars(matched, pattern)
    named = _typed(stars, labels)
    if classes is not None:
        listed = class_list(classes, "classes")
        classes = _typed(listed, labels) or tuple(listed)
        if named and set(named) == set(classes):
            matched = [matched[named.index(c)] for c in classes]
    elif len(matched) > 1:
        if named is None:
            rule = "pass `classes`, the label of each output column in order"
            raise InputError(label, rule, f"labels are {labels.dtype}, but classes are named {_listed(stars)}")
        classes = named
    outputs = _matrix(table, matched, kind)
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    return Predictions(
        labels,
        outputs,
        from_logits=kind == "logits",
        from_log_probs=kind == "log_probs",
        classes=classes,
        names=names | {"y": label, "probs": pattern if isinstance(pattern, str) else ", ".join(pattern)},
        **extras,
    )


def read_outputs(
    source: Any,
    classes: Sequence[Any],
    *,
    from_logits: bool,
    probs: Pattern | None = None,
    logits: Pattern | None = None,
    log_probs: Pattern | None = None,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Outputs without labels, in the order of the classes, and the other columns.

    from_logits : what is expected: logits (log-probabilities will do), or probabilities. What is there is declared, as ever.
    """
    given = {"probs": probs, "logits": logits, "log_probs": log_probs}
    asked = [name for name, value in given.items() if value is not None] or ([] if from_logits else ["probs"])
    if len(asked) != 1 or (asked[0] == "probs") == from_logits:
        wanted = "logits, or log-probabilities," if from_logits else "probabilities"
        raise InputError(
            asked[-1] if asked else "logits", f"{wanted} are needed, and no other outputs", ", ".join(asked) or "none"
        )
    table, pattern = _table(source), given[asked[0]] or "p_*"
    matched = _match(table, pattern, asked[0])
    stars = [str(name) for name in _stars(matched, pattern)]
    wanted_names = [str(c) for c in classes]
    if len(matched) > 1 and sorted(stars) == sorted(wanted_names):
        matched = [matched[stars.index(name)] for name in wanted_names]
    elif len(matched) > 1 and stars != matched:
        raise InputError(asked[0], f"needs a column for each of {_listed(wanted_names)}", f"found {_listed(stars)}")
    outputs = _matrix(table, matched, asked[0])
    if outputs.shape[1] not in (len(classes), len(classes) - 1):
        raise InputError(asked[0], f"needs {len(classes)} columns", outputs.shape[1])
    others = {name: table[name] for name in table if name not in matched}
    return outputs, {name: column for name, column in others.items() if column.shape[:1] == outputs.shape[:1]}


def _table(source: Any) -> Mapping[str, np.ndarray]:
    """Named columns of a file or frame, each read as numpy when it is asked for."""
    if isinstance(source, (str, Path)):
        return _file(Path(source))
    import narwhals as nw

    try:
        frame = nw.from_native(source, eager_only=True)
        names = list(frame.columns)
    except TypeError:
        raise InputError("source", "must be a path or a data frame", type(source).__name__) from None
    except nw.exceptions.DuplicateError as problem:
        raise InputError("source", "column names must differ", " ".join(str(problem).split())) from None
    return _Columns(names, lambda name: _series(frame[name], name), "the frame")


def _series(series: Any, name: str) -> np.ndarray:
    """A column of a frame by way of Arrow, which stacks lists fast; values of mixed types as the objects they are."""
    import pyarrow as pa

    try:
        column = series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return as_array(series, name)
    return from_arrow(column, name)


def _file(path: Path) -> Mapping[str, np.ndarray]:
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError("source", f"must end in one of {', '.join(SUFFIXES)}", str(path))
    if not path.is_file():
        raise InputError("source", "must be a file that exists", str(path))
    try:
        if form == "npz":
            return _npz(path)
        table = _arrow(path, form)
        return _Columns(table.column_names, lambda name: _column(table[name], name, path, form), str(path))
    except InputError:
        raise
    except (ValueError, OSError, EOFError, KeyError, RuntimeError) as problem:
        raise InputError("source", f"must be a readable {form} file", f"{path}: {_first_line(problem)}") from None
    except Exception as problem:  # zipfile.BadZipFile and others that only a damaged file raises
        if type(problem).__module__.split(".")[0] in ("zipfile", "zlib", "pyarrow"):
            rule = f"must be a readable {form} file"
            raise InputError("source", rule, f"{path}: {_first_line(problem)}") from None
        raise


def _column(column: Any, name: str, path: Path, form: str) -> np.ndarray:
    """A column of a file, checked: to read text whose offsets are damaged would end the process."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowException as problem:
        raise InputError("source", f"must be a readable {form} file", f"{path}: {_first_line(problem)}") from None
    return from_arrow(column, name)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]


def _npz(path: Path) -> Mapping[str, np.ndarray]:
    with path.open("rb") as stream:  # opened here, because numpy leaves a damaged file open
        stored = np.load(stream, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise ValueError("a single array without a name, as of an .npy file")
        arrays = {name: stored[name] for name in stored.files}
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def _arrow(path: Path, form: str) -> Any:
    if form == "csv":
        from pyarrow import csv

        return csv.read_csv(path)
    if form == "parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        form_of_file = pa.ipc.open_file if source.read(6) == b"ARROW1" else pa.ipc.open_stream
        source.seek(0)
        return form_of_file(source).read_all()


class _Columns(Mapping[str, np.ndarray]):
    """Named columns, each read as numpy when it is asked for."""

    def __init__(self, names: Sequence[str], column: Callable[[str], np.ndarray], source: str) -> None:
        self._names, self._column = dict.fromkeys(names), column
        for name in self._names:
            if not isinstance(name, str):
                raise InputError("source", "column names must be text", f"{source} has a column {name!r}")
            if len(names) > len(self._names) and names.count(name) > 1:
                raise InputError("source", "column names must differ", f"{source} has two columns {name!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> np.ndarray:
        return self._column(name)


def _match(table: Mapping[str, np.ndarray], pattern: Pattern, argument: str) -> list[str]:
    """Column names that a pattern names, in the order of the file; several patterns in the order given."""
    patterns = [part.strip() for part in pattern.split(",")] if isinstance(pattern, str) else list(pattern)
    if not patterns:
        raise InputError(argument, "needs at least one column")
    found: list[str] = []
    for part in patterns:
        names = [part] if part in table else [name for name in table if fnmatchcase(name, part)]
        if not names:
            rule = f"the columns are {_listed(list(table))}"
            raise InputError(argument, rule, f"no column matches {part!r}")
        found += [name for name in names if name not in found]
    return found


def _feature_names(table: Mapping[str, np.ndarray], features: Pattern | None) -> list[str] | None:
    """The names of feature columns; a matrix has none."""
    names = [] if features is None else _match(table, features, "features")
    return names if len(names) > 1 else None


def _one(table: Mapping[str, np.ndarray], name: str, argument: str) -> str:
    if name not in table:
        raise InputError(argument, f"the columns are {_listed(list(table))}", f"there is no column {name!r}")
    return name


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")


def _matrix(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> np.ndarray:
    """Columns side by side, in the widest of their floating-point formats."""
    columns = [as_numbers(table[name], name) for name in names]
    if len(columns) == 1:
        return columns[0][:, None] if columns[0].ndim == 1 else columns[0]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1:
            raise InputError(argument, "several columns must each hold one number per row", f"{name!r} is a matrix")
        if len(column) != len(columns[0]):
            raise InputError(argument, f"columns must be of one length ({len(columns[0])})", f"{name!r}: {len(column)}")
    matrix = np.empty((len(columns[0]), len(columns)), np.result_type(*columns))
    for k, column in enumerate(columns):
        matrix[:, k] = column
    return matrix


def _stars(names: list[str], pattern: Pattern) -> list[Any]:
    """What the star of a pattern stands for in each name; the names themselves if there is any other wildcard."""
    if not isinstance(pattern, str):
        pattern = ",".join(pattern)
    if pattern.count("*") != 1 or any(sign in pattern for sign in ",?["):
        return list(names)
    before, after = pattern.strip().split("*")
    return [name[len(before) : len(name) - len(after)] for name in names]


def _typed(classes: list[Any], labels: np.ndarray) -> tuple[Any, ...] | None:
    """Class names of the labels' type: a name in a file is text, the labels may be integers or booleans.

    None if the names are not those of such labels.
    """
    kind = _kind(labels)
    if not all(isinstance(c, str) for c in classes) or kind not in "biuf":
        return tuple(classes)
    if kind == "b":
        truth = {"false": False, "true": True, "0": False, "1": True}
        return tuple(truth[c.lower()] for c in classes) if all(c.lower() in truth for c in classes) else None
    return tuple(int(c) for c in classes) if all(re.fullmatch(r"-?\d+", c) for c in classes) else None


def _kind(labels: np.ndarray) -> str:
    """The numpy kind of labels; that of the first label present if they are objects, as where some are missing."""
    if labels.dtype.kind != "O":
        return labels.dtype.kind
    return np.asarray(next((value for value in labels.flat if not is_missing(value)), None)).dtype.kind


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
    matrix = _matrix(table, columns, "costs")
    if named:
        given = [str(c) for c in first.tolist()]
        wanted = [str(c) for c in classes]
        if sorted(given) != sorted(wanted):
            raise InputError("costs", f"needs one row for each of {_listed(wanted)}", f"{path} has {_listed(given)}")
        matrix = matrix[[given.index(c) for c in wanted]]
    return Cost(matrix, "cost", tuple(columns))
