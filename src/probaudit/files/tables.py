"""Tables: the named columns of files and of data frames, converted to numpy when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..data.arrays import as_array, from_arrow
from ..data.calibrator_fit import CalibratorFit
from ..errors import InputError
from .csv_files import NOT_UTF8, check_text, read_csv
from .dialect import COMMAS, Dialect
from .json_lines import read_jsonl
from .paths import ARRAYS, Folders, ending_of, folders_of, form_of, is_path
from .writing import FIT_KEY, first_line


def table_of(source: Any, dialect: Dialect = COMMAS) -> Mapping[str, np.ndarray]:
    """The columns of files or a data frame of any library, by name."""
    if is_path(source):
        files = folders_of(source)
        dialect.check_used(files)
        path, folders = next(iter(files.items()))
        if all(form_of(path) == "npy" for path in files):
            return _npy_columns(list(files))
        several = len(files) > 1 or folders
        return _many(files, dialect) if several else table_of_file(path, dialect)
    dialect.check_used(())
    import narwhals as nw

    try:
        frame = nw.from_native(source, eager_only=True)
        names = list(frame.columns)
    except TypeError:
        raise InputError(
            "source", "must be a path or a data frame", type(source).__name__
        ) from None
    except nw.exceptions.DuplicateError as problem:
        raise InputError(
            "source", "column names must differ", " ".join(str(problem).split())
        ) from None
    get = frame.get_column
    return _Columns(
        names,
        lambda name: _series(get(name), str(name)),
        "the frame",
        lambda name: _type_of_series(get(name)),
    )


def stored_fit(source: Any) -> CalibratorFit | None:
    """The fit of the calibrator that made the outputs, if `apply` stored it in the (first) file.
    Only .parquet files can store it."""
    path = next(iter(folders_of(source))) if is_path(source) else None
    if path is None or form_of(path) != "parquet":
        return None
    from pyarrow import parquet

    with readable(path):
        stored = (parquet.read_schema(path).metadata or {}).get(FIT_KEY)
        return None if stored is None else CalibratorFit.from_json(stored)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged or missing file into an InputError."""
    rule = f"must be a readable {form_of(path)} file"
    try:
        yield
    except InputError:
        raise
    except MemoryError as problem:
        raise InputError(
            "source", rule, f"{path}: not enough memory, {first_line(problem)}"
        ) from None
    except (ValueError, OSError, EOFError, KeyError, RuntimeError) as problem:
        if form_of(path) == "csv" and (
            isinstance(problem, UnicodeDecodeError) or "invalid UTF8" in str(problem)
        ):
            raise InputError("source", NOT_UTF8, f"{path} is not UTF-8") from None
        raise InputError("source", rule, f"{path}: {first_line(problem)}") from None
    except Exception as problem:  # zipfile.BadZipFile and others that only a damaged file raises
        if type(problem).__module__.split(".")[0] in ("zipfile", "zlib", "pyarrow"):
            raise InputError("source", rule, f"{path}: {first_line(problem)}") from None
        raise


def _many(files: Mapping[Path, Folders], dialect: Dialect) -> Mapping[str, np.ndarray]:
    """The columns of several files with equal column names, concatenated, and the columns that
    their folders name."""
    import pyarrow as pa

    tables, first = [], next(iter(files))
    for path, folders in files.items():
        if form_of(path) in ARRAYS:
            rule = f"an {ending_of(path)} file must be read alone"
            raise InputError("source", rule, str(path))
        with readable(path):
            table = _arrow(path, form_of(path), dialect)
            for name, value in folders.items():
                if name not in table.column_names:
                    table = table.append_column(name, pa.repeat(value, len(table)))
            tables.append(table)
            check_same_columns(tables[0].column_names, table.column_names, path)
    with readable(first):
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowTypeError as problem:
            raise InputError(
                "source", "all files need columns of the same types", first_line(problem)
            ) from None
    return _arrow_columns(table, first, f"{len(files)} files")


def check_same_columns(first: Sequence[str], names: Sequence[str], path: Path) -> None:
    if sorted(first) != sorted(names):
        odd = sorted(set(first) ^ set(names)) or ["one twice"]
        rule = "all files need the same columns"
        raise InputError(
            "source", rule, f"{path} has {'no' if odd[0] in first else 'another'} column {odd[0]!r}"
        )


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, or categories of it."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(kind) in ("string", "large_string", "string_view")


def holds_text(table: Mapping[str, np.ndarray], name: str) -> bool:
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
    """A column of a frame. Arrow stacks lists fast; values of mixed types stay objects."""
    import pyarrow as pa

    try:
        column = series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return as_array(series, name)
    return from_arrow(column, name)


def table_of_file(path: Path, dialect: Dialect = COMMAS) -> Mapping[str, np.ndarray]:
    form = form_of(path)
    if not path.is_file():
        raise InputError("source", "must be a file that exists", str(path))
    if form == "npy":
        return _npy_columns([path])
    with readable(path):
        if form == "npz":
            return _npz(path)
        table = _arrow(path, form, dialect)
        return _arrow_columns(table, path, str(path))


def _arrow_columns(table: Any, path: Path, source: str) -> _Columns:
    def type_of(name: str) -> Any:
        return table.schema.field(name).type

    return _Columns(
        table.column_names, lambda name: _column(table[name], name, path), source, type_of
    )


def _column(column: Any, name: str, path: Path) -> np.ndarray:
    """A validated column of a file: reading text with damaged offsets would crash the process."""
    with readable(path):
        column.validate(full=True)
        check_text({name: column.type}, path)
    return from_arrow(column, name)


def _npz(path: Path) -> Mapping[str, np.ndarray]:
    with path.open("rb") as stream:  # opened here, because numpy leaves a damaged file open
        stored = np.load(stream, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise ValueError("an .npy file, a single array without a name")
        arrays = {name: stored[name] for name in stored.files}
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def read_array(path: Path) -> np.ndarray:
    """The array of an .npy file."""
    with readable(path), path.open("rb") as stream:
        array = np.load(stream, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("an .npz file, several arrays with names")
        return array


def _npy_columns(paths: Sequence[Path]) -> Mapping[str, np.ndarray]:
    """The arrays of .npy files as columns: the fields of structured arrays by their names, any
    other array by the name of its file."""
    names: list[str] = []
    arrays = []
    for path in paths:
        array = read_array(path)
        fields = array.dtype.names
        names += [path.stem] if fields is None else fields
        arrays += [array] if fields is None else [array[name] for name in fields]
    return dict(zip(column_names(names, f"{len(paths)} files"), arrays, strict=True))


def _arrow(path: Path, form: str, dialect: Dialect) -> Any:
    if form == "csv":
        return read_csv(path, dialect)
    if form == "jsonl":
        return read_jsonl(path)
    if form == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            table = file.read()
            check_row_count(path, file.metadata, table.num_rows)
            return table
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        form_of_file = pa.ipc.open_file if source.read(6) == b"ARROW1" else pa.ipc.open_stream
        source.seek(0)
        return form_of_file(source).read_all()


def check_row_count(path: Path, metadata: Any, found: int) -> None:
    """Raise if the metadata of a .parquet file does not match its rows, as in a damaged file."""
    if metadata.num_rows != found:
        raise InputError(
            "source",
            "must have the number of rows in its metadata",
            f"{path} has {found:,}, not {metadata.num_rows:,}",
        )


def column_names(names: Sequence[Any], source: str) -> dict[str, Any]:
    """Column names as text, each with the original name: frames may use numbers as names."""
    found: dict[str, Any] = {}
    for name in names:
        if str(name) in found:
            raise InputError(
                "source", "column names must differ", f"{source} has two columns {str(name)!r}"
            )
        found[str(name)] = name
    return found


class _Columns(Mapping[str, np.ndarray]):
    """Named columns, each converted to numpy when it is used. `type_of` returns the Arrow type of a
    column, or None."""

    def __init__(
        self,
        names: Sequence[Any],
        column: Callable[[Any], np.ndarray],
        source: str,
        type_of: Callable[[Any], Any],
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
