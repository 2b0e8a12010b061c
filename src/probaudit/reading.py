"""Files and frames in, `Predictions` out: .npz, .csv, .parquet, .arrow, and frames of any library."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from .arrays import as_array, as_numbers, from_arrow, is_missing
from .errors import InputError
from .predictions import OnBadRows, Predictions, class_list
from .writing import arrow_table, first_line

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
    """Read predictions from files (.npz, .csv, .parquet, .arrow) or a frame (pandas, polars, pyarrow, ...).

    source : a path, a folder, a pattern such as "day-*.parquet", a list of paths, or a frame. Files are taken in the order of
        their paths.

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
    table = _table(source)
    layout = layout_of(
        table,
        lambda name: table[name],
        label=label,
        probs=probs,
        logits=logits,
        log_probs=log_probs,
        confidence=confidence,
        correct=correct,
        weight=weight,
        features=features,
        columns=columns,
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
    classes: Sequence[Any] | None
    on_bad_rows: OnBadRows
    tolerance: float | None


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what. Made of its column names and the type of its labels, before any row is looked at.

    kind : one of OUTPUTS. label : the column with the true class or, of a stated confidence, with its correctness.
    """

    kind: str
    outputs: tuple[str, ...]
    label: str
    weight: str | None
    features: tuple[str, ...] | None
    columns: tuple[str, ...] | None
    classes: tuple[Any, ...] | None
    names: Mapping[str, str]
    on_bad_rows: OnBadRows
    tolerance: float | None

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that hold numbers, whatever they look like."""
        weight = () if self.weight is None else (self.weight,)
        return (*self.outputs, *weight, *(self.features or ()))

    @property
    def needed(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        return tuple(dict.fromkeys((self.label, *self.numeric, *(self.columns or ()))))

    def predictions(self, table: Mapping[str, np.ndarray], matrix: Callable[..., np.ndarray] | None = None) -> Predictions:
        """The rows of a table. `matrix` puts columns side by side; its default in the order of memory of rows."""
        matrix = _matrix if matrix is None else matrix
        names = None if self.features is None or len(self.features) < 2 else self.features
        parts: dict[str, Any] = {
            "sample_weight": None if self.weight is None else as_numbers(table[self.weight], self.weight),
            "features": None if self.features is None else _matrix(table, list(self.features), "features"),
            "feature_names": names,
            "columns": None if self.columns is None else {name: table[name] for name in self.columns},
            "classes": self.classes,
            "names": self.names,
            "on_bad_rows": self.on_bad_rows,
            "tolerance": self.tolerance,
        }
        if self.kind == "confidence":
            stated = as_numbers(table[self.outputs[0]], self.outputs[0])
            return Predictions.from_confidence(stated, table[self.label], **parts)
        outputs = matrix(table, list(self.outputs), self.kind)
        if outputs.ndim == 2 and outputs.shape[1] == 1:
            outputs = outputs[:, 0]
        logits, log_probs = self.kind == "logits", self.kind == "log_probs"
        return Predictions(table[self.label], outputs, from_logits=logits, from_log_probs=log_probs, **parts)


def layout_of(table: Collection[str], labels_of: Callable[[str], np.ndarray], **options: Unpack[ReadOptions]) -> Layout:
    """What the columns of a table are, given the options of `read`.

    labels_of : gives a column of labels, of which only the type is looked at.
    """
    given = {name: options.get(name) for name in OUTPUTS}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise InputError(asked[1], f"give one kind of output, not also `{asked[0]}`", repr(given[asked[1]]))
    confidence, correct, weight = options.get("confidence"), options.get("correct"), options.get("weight")
    if (confidence is None) != (correct is None):
        raise InputError("correct", "`confidence` and `correct` go together")
    features, columns = options.get("features"), options.get("columns")
    parts: dict[str, Any] = {
        "weight": None if weight is None else _one(table, weight, "weight"),
        "features": None if features is None else tuple(_match(table, features, "features")),
        "columns": None if columns is None else tuple(_match(table, columns, "columns")),
        "on_bad_rows": options.get("on_bad_rows", "error"),
        "tolerance": options.get("tolerance"),
    }
    names = {} if weight is None else {"sample_weight": weight}
    classes = options.get("classes")
    if confidence is not None and correct is not None:
        names |= {"probs": confidence, "y": correct}
        outputs, label = (_one(table, confidence, "confidence"),), _one(table, correct, "correct")
        listed = None if classes is None else tuple(class_list(classes, "classes"))
        return Layout("confidence", outputs, label, classes=listed, names=names, **parts)
    kind = asked[0] if asked else "probs"
    pattern: Any = given[kind] if asked else "p_*"
    matched = _match(table, pattern, kind)
    label = _one(table, options.get("label", "label"), "label")
    labels, stars = labels_of(label), _stars(matched, pattern)
    named = _typed(stars, labels)
    order: tuple[Any, ...] | None = None
    if classes is not None:
        plain = class_list(classes, "classes")
        order = _typed(plain, labels) or tuple(plain)
        if named and set(named) == set(order):
            matched = [matched[named.index(c)] for c in order]
    elif len(matched) > 1:
        if named is None:
            rule = "pass `classes`, the label of each output column in order"
            raise InputError(label, rule, f"labels are {labels.dtype}, but classes are named {_listed(stars)}")
        order = named
    names |= {"y": label, "probs": pattern if isinstance(pattern, str) else ", ".join(pattern)}
    return Layout(kind, tuple(matched), label, classes=order, names=names, **parts)


def read_outputs(
    source: Any,
    classes: Sequence[Any],
    *,
    from_logits: bool,
    probs: Pattern | None = None,
    logits: Pattern | None = None,
    log_probs: Pattern | None = None,
) -> tuple[np.ndarray, Any]:
    """Outputs without labels, in the order of the classes, and the other columns as an Arrow table: of one, as they are.

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
    if type(source).__module__.split(".")[0] == "pyarrow":
        return outputs, source.drop_columns(matched)
    others = {name: table[name] for name in table if name not in matched}
    return outputs, arrow_table({name: column for name, column in others.items() if column.shape[:1] == outputs.shape[:1]})


def _table(source: Any) -> Mapping[str, np.ndarray]:
    """Named columns of files or a frame, each read as numpy when it is asked for."""
    if is_path(source):
        files = files_of(source)
        return _file(files[0]) if len(files) == 1 else _many(files)
    import narwhals as nw

    try:
        frame = nw.from_native(source, eager_only=True)
        names = list(frame.columns)
    except TypeError:
        raise InputError("source", "must be a path or a data frame", type(source).__name__) from None
    except nw.exceptions.DuplicateError as problem:
        raise InputError("source", "column names must differ", " ".join(str(problem).split())) from None
    return _Columns(names, lambda name: _series(frame[name], name), "the frame")


def is_path(source: Any) -> bool:
    """Whether a source is a path or a list of paths."""
    several = isinstance(source, (list, tuple)) and len(source) > 0 and all(isinstance(p, (str, Path)) for p in source)
    return several or isinstance(source, (str, Path))


def files_of(source: Any) -> tuple[Path, ...]:
    """The files of a path, a folder, a pattern such as "day-*.parquet", or a list of these; sorted by path, each once.

    Of a folder, those that can be read, in folders inside it too; names that begin with a dot or an underscore are left out.
    """
    if not is_path(source):
        raise InputError("source", "must be a path or a list of paths", type(source).__name__)
    found: set[Path] = set()
    for path in [source] if isinstance(source, (str, Path)) else source:
        found.update(_expanded(Path(path)))
    return tuple(sorted(found))


def _expanded(path: Path) -> list[Path]:
    if path.is_dir():
        inside = [p for p in path.rglob("*") if not any(part[0] in "._" for part in p.relative_to(path).parts)]
        files = [p for p in inside if p.suffix.lower() in SUFFIXES and p.is_file()]
        if not files:
            rule = f"must be a file that exists, or a folder with files that end in one of {', '.join(SUFFIXES)}"
            raise InputError("source", rule, str(path))
        return files
    if any(sign in path.name for sign in "*?[") and not path.exists():
        files = [p for p in path.parent.glob(path.name) if p.suffix.lower() in SUFFIXES and p.is_file()]
        if not files:
            raise InputError("source", "must match a file that can be read", str(path))
        return files
    form_of(path)
    if not path.is_file():
        raise InputError("source", "must be a file that exists", str(path))
    return [path]


def form_of(path: Path) -> str:
    """What kind of file it is, by its name."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError("source", f"must end in one of {', '.join(SUFFIXES)}", str(path))
    return form


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What a damaged or missing file raises becomes an InputError."""
    rule = f"must be a readable {form_of(path)} file"
    try:
        yield
    except InputError:
        raise
    except MemoryError as problem:
        raise InputError("source", rule, f"{path}: needs more memory than there is; {first_line(problem)}") from None
    except (ValueError, OSError, EOFError, KeyError, RuntimeError) as problem:
        raise InputError("source", rule, f"{path}: {first_line(problem)}") from None
    except Exception as problem:  # zipfile.BadZipFile and others that only a damaged file raises
        if type(problem).__module__.split(".")[0] in ("zipfile", "zlib", "pyarrow"):
            raise InputError("source", rule, f"{path}: {first_line(problem)}") from None
        raise


def _many(files: Sequence[Path]) -> Mapping[str, np.ndarray]:
    """The columns of several files that have the same ones, one file after the other."""
    import pyarrow as pa

    tables = []
    for path in files:
        if form_of(path) == "npz":
            raise InputError("source", "an .npz file must be read alone", str(path))
        with readable(path):
            tables.append(_arrow(path, form_of(path)))
            check_same_columns(tables[0].column_names, tables[-1].column_names, path)
    with readable(files[0]):
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowTypeError as problem:
            raise InputError("source", "all files need columns of the same types", first_line(problem)) from None
    return _Columns(table.column_names, lambda name: _column(table[name], name, files[0]), f"{len(files)} files")


def check_same_columns(first: Sequence[str], names: Sequence[str], path: Path) -> None:
    if sorted(first) != sorted(names):
        odd = sorted(set(first) ^ set(names)) or ["one twice"]
        rule = "all files need the same columns"
        raise InputError("source", rule, f"{path} has {'no' if odd[0] in first else 'another'} column {odd[0]!r}")


def _series(series: Any, name: str) -> np.ndarray:
    """A column of a frame by way of Arrow, which stacks lists fast; values of mixed types as the objects they are."""
    import pyarrow as pa

    try:
        column = series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return as_array(series, name)
    return from_arrow(column, name)


def _file(path: Path) -> Mapping[str, np.ndarray]:
    form = form_of(path)
    if not path.is_file():
        raise InputError("source", "must be a file that exists", str(path))
    with readable(path):
        if form == "npz":
            return _npz(path)
        table = _arrow(path, form)
        return _Columns(table.column_names, lambda name: _column(table[name], name, path), str(path))


def _column(column: Any, name: str, path: Path) -> np.ndarray:
    """A column of a file, checked: to read text whose offsets are damaged would end the process."""
    with readable(path):
        column.validate(full=True)
    return from_arrow(column, name)


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

        with parquet.ParquetFile(path) as file:
            table = file.read()
            check_rows_said(path, file.metadata, table.num_rows)
            return table
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        form_of_file = pa.ipc.open_file if source.read(6) == b"ARROW1" else pa.ipc.open_stream
        source.seek(0)
        return form_of_file(source).read_all()


def check_rows_said(path: Path, metadata: Any, found: int) -> None:
    """A damaged .parquet file may hold other numbers of rows in other places."""
    if metadata.num_rows != found:
        raise InputError("source", "must have as many rows as it says", f"{path} says {metadata.num_rows:,}, has {found:,}")


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


def _match(table: Collection[str], pattern: Pattern, argument: str) -> list[str]:
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


def _one(table: Collection[str], name: str, argument: str) -> str:
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
