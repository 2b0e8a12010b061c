"""Files and frames in, `Predictions` out: .npz, .csv, .tsv, .parquet, .arrow, and frames of any library."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from .arrays import as_array, as_numbers, from_arrow, in_class_order, is_missing
from .errors import InputError
from .paths import Folders, folders_of, form_of, is_path, separator_of
from .predictions import OnBadRows, Predictions, class_list
from .words import listed
from .writing import arrow_table, first_line

Pattern = str | Sequence[str]

OUTPUTS = ("probs", "logits", "log_probs", "confidence")
MOMENT = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?"  # a date, with or without a time
SAVED_AS = "text must be saved as UTF-8"


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
    """Read predictions from files (.npz, .csv, .tsv, .parquet, .arrow) or a frame (pandas, polars, pyarrow, ...).

    source : a path, a folder, a pattern such as "day-*.parquet" or "runs/**/*.csv", a list of paths, or a frame. Files are
        taken in the order of their paths. Folders called name=value, inside a folder or pattern, give a column of that name.

    label : the column with the true class.
    probs, logits, log_probs : the columns with the outputs, as names or patterns such as "p_*" (the default for probs).
        What the star stands for names the class; one single column belongs to the second of two classes; a column
        of lists, or a 2-D array of an .npz, holds all classes.
    confidence, correct : for systems that only say how sure they are; takes the place of label and outputs.
    weight, features, columns : sample weights, feature columns (numbers, booleans or text), other columns to keep by name.
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
        lambda name: _holds_text(table, name),
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
    texts : those of the features that hold text; the others are numbers.
    """

    kind: str
    outputs: tuple[str, ...]
    label: str
    weight: str | None
    features: tuple[str, ...] | None
    texts: tuple[str, ...]
    columns: tuple[str, ...] | None
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
        return tuple(dict.fromkeys((self.label, *self.numeric, *(self.features or ()), *(self.columns or ()))))

    def predictions(self, table: Mapping[str, np.ndarray], matrix: Callable[..., np.ndarray] | None = None) -> Predictions:
        """The rows of a table. `matrix` puts columns side by side; its default in the order of memory of rows."""
        matrix = _matrix if matrix is None else matrix
        features = self._features(table)
        named = isinstance(features, dict) or self.features is None or len(self.features) < 2
        label = _as_classes(table[self.label], self.classes)
        parts: dict[str, Any] = {
            "sample_weight": None if self.weight is None else as_numbers(table[self.weight], self.weight),
            "features": features,
            "feature_names": None if named else self.features,
            "columns": None if self.columns is None else {name: table[name] for name in self.columns},
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
        return {name: table[name] if name in self.texts else as_numbers(table[name], name) for name in self.features}


def layout_of(
    table: Collection[str],
    labels_of: Callable[[str], np.ndarray],
    holds_text: Callable[[str], bool] = lambda name: False,
    **options: Unpack[ReadOptions],
) -> Layout:
    """What the columns of a table are, given the options of `read`.

    labels_of : gives a column of labels, of which only the type is looked at. holds_text : says it of a column of features.
    """
    given = {name: options.get(name) for name in OUTPUTS}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise InputError(asked[1], f"give one kind of output, not also `{asked[0]}`", repr(given[asked[1]]))
    confidence, correct, weight = options.get("confidence"), options.get("correct"), options.get("weight")
    if (confidence is None) != (correct is None):
        raise InputError("correct", "`confidence` and `correct` go together")
    columns, asked_features = options.get("columns"), options.get("features")
    features = None if asked_features is None else tuple(_match(table, asked_features, "features"))
    parts: dict[str, Any] = {
        "weight": None if weight is None else _one(table, weight, "weight"),
        "features": features,
        "texts": tuple(name for name in features or () if holds_text(name)),
        "columns": None if columns is None else tuple(_match(table, columns, "columns")),
        "on_bad_rows": options.get("on_bad_rows", "error"),
        "tolerance": options.get("tolerance"),
    }
    names = {} if weight is None else {"sample_weight": str(weight)}
    classes = options.get("classes")
    if confidence is not None and correct is not None:
        names |= {"probs": str(confidence), "y": str(correct)}
        outputs, label = (_one(table, confidence, "confidence"),), _one(table, correct, "correct")
        stated = None if classes is None else tuple(class_list(classes, "classes"))
        return Layout("confidence", outputs, label, classes=stated, names=names, **parts)
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
        if named and len(named) == len(order) and set(named) == set(order):
            matched = [matched[named.index(c)] for c in order]
        else:
            matched = in_class_order(matched, plain) or matched
    elif len(matched) > 1:
        if named is None:
            rule = "pass `classes`, the label of each output column in order"
            raise InputError(label, rule, f"labels are {labels.dtype}, but classes are named {listed(stars)}")
        order = named
    names |= {"y": label, "probs": pattern if isinstance(pattern, str) else ", ".join(map(str, pattern))}
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
    if len(matched) > 1:
        matched = _for_classes(matched, _stars(matched, pattern), classes, asked[0])
    outputs = _matrix(table, matched, asked[0])
    if outputs.shape[1] not in (len(classes), len(classes) - 1):
        raise InputError(asked[0], f"needs {len(classes)} columns", outputs.shape[1])
    if type(source).__module__.split(".")[0] == "pyarrow":
        return outputs, source.drop_columns(matched)
    others = {name: table[name] for name in table if name not in matched}
    return outputs, arrow_table({name: column for name, column in others.items() if column.shape[:1] == outputs.shape[:1]})


def _for_classes(names: list[str], stars: list[str], classes: Sequence[Any], argument: str) -> list[str]:
    """Columns in the order of the classes, if their names tell them; as listed, if they tell nothing."""
    ordered, numbers = in_class_order(names, classes), _typed(stars, np.array(classes))
    if ordered is None and numbers is not None and len(numbers) == len(classes) and set(numbers) == set(classes):
        ordered = [names[numbers.index(c)] for c in classes]  # numbers may be spelled in several ways
    if ordered is None and stars != names:
        raise InputError(argument, f"needs a column for each of {listed([str(c) for c in classes])}", f"found {listed(stars)}")
    if ordered is None and len(names) == len(classes) - 1:
        ordered = in_class_order(names, classes[1:])
        for c in classes[1:] if ordered is None else ():
            if in_class_order(names, [other for other in classes if other != c]):
                raise InputError(argument, f"only the first class, {classes[0]}, may be left out", f"no column is of {c}")
    return ordered or names


def _table(source: Any) -> Mapping[str, np.ndarray]:
    """Named columns of files or a frame, each read as numpy when it is asked for."""
    if is_path(source):
        files = folders_of(source)
        path, folders = next(iter(files.items()))
        return _many(files) if len(files) > 1 or folders else _file(path)
    import narwhals as nw

    try:
        frame = nw.from_native(source, eager_only=True)
        names = list(frame.columns)
    except TypeError:
        raise InputError("source", "must be a path or a data frame", type(source).__name__) from None
    except nw.exceptions.DuplicateError as problem:
        raise InputError("source", "column names must differ", " ".join(str(problem).split())) from None
    get = frame.get_column
    return _Columns(names, lambda name: _series(get(name), str(name)), "the frame", lambda name: _type_of_series(get(name)))


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
        if form_of(path) == "csv" and (isinstance(problem, UnicodeDecodeError) or "invalid UTF8" in str(problem)):
            raise InputError("source", SAVED_AS, f"{path} is not UTF-8") from None
        raise InputError("source", rule, f"{path}: {first_line(problem)}") from None
    except Exception as problem:  # zipfile.BadZipFile and others that only a damaged file raises
        if type(problem).__module__.split(".")[0] in ("zipfile", "zlib", "pyarrow"):
            raise InputError("source", rule, f"{path}: {first_line(problem)}") from None
        raise


def _many(files: Mapping[Path, Folders]) -> Mapping[str, np.ndarray]:
    """The columns of several files that have the same ones, one file after the other, and those that their folders name."""
    import pyarrow as pa

    tables, first = [], next(iter(files))
    for path, folders in files.items():
        if form_of(path) == "npz":
            raise InputError("source", "an .npz file must be read alone", str(path))
        with readable(path):
            table = _arrow(path, form_of(path))
            for name, value in folders.items():
                if name not in table.column_names:
                    table = table.append_column(name, pa.repeat(value, len(table)))
            tables.append(table)
            check_same_columns(tables[0].column_names, table.column_names, path)
    with readable(first):
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowTypeError as problem:
            raise InputError("source", "all files need columns of the same types", first_line(problem)) from None
    return _arrow_columns(table, first, f"{len(files)} files")


def check_same_columns(first: Sequence[str], names: Sequence[str], path: Path) -> None:
    if sorted(first) != sorted(names):
        odd = sorted(set(first) ^ set(names)) or ["one twice"]
        rule = "all files need the same columns"
        raise InputError("source", rule, f"{path} has {'no' if odd[0] in first else 'another'} column {odd[0]!r}")


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, or categories of it."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(kind) in ("string", "large_string", "string_view")


def _holds_text(table: Mapping[str, np.ndarray], name: str) -> bool:
    if not isinstance(table, _Columns):
        return table[name].dtype.kind in "US"
    kind = table.type_of(name)
    return kind is not None and is_text(kind)


def _type_of_series(series: Any) -> Any:
    """The Arrow type of a column of a frame; None if its values are of mixed types."""
    import pyarrow as pa

    try:
        return series.to_arrow().type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


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
        return _arrow_columns(table, path, str(path))


def _arrow_columns(table: Any, path: Path, source: str) -> _Columns:
    def type_of(name: str) -> Any:
        return table.schema.field(name).type

    return _Columns(table.column_names, lambda name: _column(table[name], name, path), source, type_of)


def _column(column: Any, name: str, path: Path) -> np.ndarray:
    """A column of a file, checked: to read text whose offsets are damaged would end the process."""
    with readable(path):
        column.validate(full=True)
        check_text({name: column.type}, path)
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

        check_separator(path)
        return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator_of(path)))
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


def check_separator(path: Path) -> None:
    """Raise if the header of a text file has values, but not separated as they should be."""
    with path.open("rb") as file:
        header = file.readline(2**16).decode("latin-1")
    wanted = separator_of(path)
    found = next((sign for sign in ";\t|," if sign in header and wanted not in header), None)
    if found is not None and "\0" not in header:
        rule = f"values must be separated by {'commas' if wanted == ',' else 'tabs'}"
        raise InputError("source", rule, f"{path}: found {found!r}")


def check_text(types: Mapping[str, Any], path: Path) -> None:
    """Raise if a column of a text file, of which these are the types, is in no encoding that can be read."""
    odd = [name for name, kind in types.items() if str(kind) in ("binary", "large_binary")]
    if odd and form_of(path) == "csv":
        raise InputError("source", SAVED_AS, f"{path}: column {odd[0]!r} is not UTF-8")


def check_rows_said(path: Path, metadata: Any, found: int) -> None:
    """A damaged .parquet file may hold other numbers of rows in other places."""
    if metadata.num_rows != found:
        raise InputError("source", "must have as many rows as it says", f"{path} says {metadata.num_rows:,}, has {found:,}")


def column_names(names: Sequence[Any], source: str) -> dict[str, Any]:
    """The names of columns as text, each with what it was: frames may have numbers for names."""
    found: dict[str, Any] = {}
    for name in names:
        if str(name) in found:
            raise InputError("source", "column names must differ", f"{source} has two columns {str(name)!r}")
        found[str(name)] = name
    return found


class _Columns(Mapping[str, np.ndarray]):
    """Named columns, each read as numpy when it is asked for. `type_of` gives the Arrow type of one, or None."""

    def __init__(
        self, names: Sequence[Any], column: Callable[[Any], np.ndarray], source: str, type_of: Callable[[Any], Any]
    ) -> None:
        self._names, self._column, self._type_of = column_names(names, source), column, type_of

    def type_of(self, name: str) -> Any:
        return self._type_of(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> np.ndarray:
        return self._column(self._names[name])


def _match(table: Collection[str], pattern: Pattern, argument: str) -> list[str]:
    """Column names that a pattern names, in the order of the file; several patterns in the order given."""
    given = [pattern] if isinstance(pattern, int) else pattern
    patterns = [part.strip() for part in given.split(",")] if isinstance(given, str) else [str(part) for part in given]
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
        raise InputError(argument, f"the columns are {listed(list(table))}", f"there is no column {text!r}")
    return str(text)


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
        pattern = ",".join(map(str, pattern))
    if pattern.count("*") != 1 or any(sign in pattern for sign in ",?["):
        return list(names)
    before, after = pattern.strip().split("*")
    return [name[len(before) : len(name) - len(after)] for name in names]


def _typed(classes: list[Any], labels: np.ndarray) -> tuple[Any, ...] | None:
    """Class names of the labels' type: a name in a file is text, the labels may be numbers or booleans. Where these are dates,
    it is they that become text (`_as_classes`).

    None if the names are not those of such labels.
    """
    kind = _kind(labels)
    if not all(isinstance(c, str) for c in classes) or kind not in "biufM":
        return tuple(classes)
    if kind == "M":
        return tuple(classes) if all(re.fullmatch(MOMENT, c) for c in classes) else None
    if kind == "b":
        truth = {"false": False, "true": True, "0": False, "1": True}
        found = [truth.get(c.lower()) for c in classes]
    else:
        found = [_number(c, whole=kind != "f") for c in classes]
    return None if None in found else tuple(found)


def _number(text: str, *, whole: bool) -> Any:
    """The number that a text is, or None; whole numbers as such, however they are spelled.

    >>> _number("01", whole=True), _number("1.0", whole=True), _number("0.5", whole=False), _number("0.5", whole=True)
    (1, 1, 0.5, None)
    """
    if re.fullmatch(r"-?\d+(\.0*)?", text):
        return int(text.split(".")[0])
    return float(text) if re.fullmatch(r"-?\d*\.\d+", text) and not whole else None


def _as_classes(labels: np.ndarray, classes: tuple[Any, ...] | None) -> np.ndarray:
    """Labels that are dates as text, if classes are: each in the spelling of the class that is the same moment."""
    if labels.dtype.kind != "M" or not classes or not all(isinstance(c, str) for c in classes):
        return labels
    texts = np.full(labels.shape, None, object)
    known = ~np.isnat(labels)
    texts[known] = labels[known].astype(str)
    for name in classes:
        if re.fullmatch(MOMENT, name):
            texts[labels == np.datetime64(name)] = name
    return texts


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

    try:
        table = _file(path)
    except InputError as problem:
        raise InputError("costs", problem.rule, problem.value) from None
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
            raise InputError("costs", f"needs one row for each of {listed(wanted)}", f"{path} has {listed(given)}")
        matrix = matrix[[given.index(c) for c in wanted]]
    return Cost(matrix, "cost", tuple(columns))
