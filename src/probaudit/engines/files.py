"""Files that are read some rows at a time: what columns and how many rows they have, and their rows as Arrow batches."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..reading import check_rows_said, check_same_columns, files_of, form_of, readable
from ..writing import conform, first_line

CSV_BYTES = 2**23  # of a .csv file are read at a time; no line can be longer
READ_BYTES = 2**16  # of a column are read at a time
WIDER = {"null": "int64", "int64": "double"}  # the types that a column of a .csv file may turn out to have; else text


class RowFile(ABC):
    """A file of rows. `groups` are parts that can be read apart: how many rows each has."""

    path: Path
    schema: Any
    names: list[str]
    groups: list[int]

    @abstractmethod
    def batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        """The rows of a group as Arrow batches of some columns, at most so many at a time."""


def open_file(path: Path) -> RowFile:
    """The file, opened as far as to know its columns."""
    with readable(path):
        form = form_of(path)
        if form == "npz":
            raise InputError("source", "an .npz file must be read whole; use `read`", str(path))
        found: RowFile = ParquetRows(path) if form == "parquet" else ArrowRows(path) if form == "arrow" else CsvRows(path)
        found.names = list(found.schema.names)  # here, as names of another encoding raise
        return found


class ParquetRows(RowFile):
    """The groups are row groups."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.path = path
        with parquet.ParquetFile(path) as file:
            self._metadata, self.schema = file.metadata, file.schema_arrow
        self.groups = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        check_rows_said(path, self._metadata, sum(self.groups))

    def batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        from pyarrow import parquet

        options = {"metadata": self._metadata, "pre_buffer": False, "buffer_size": READ_BYTES}
        with parquet.ParquetFile(self.path, **options) as file:
            yield from file.iter_batches(rows, row_groups=[group], columns=schema.names, use_threads=False)


class ArrowRows(RowFile):
    """An Arrow file, or a stream in a file; read from front to end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as reader:
            self.schema = reader.schema
        with self._opened([0] if self.schema.names else None) as reader:  # one column is enough to count rows
            self.groups = [sum(batch.num_rows for batch in _each(reader))]

    def _opened(self, columns: Sequence[int] | None = None) -> Any:
        """A reader, of the columns with these places only where the file allows that."""
        import pyarrow as pa

        source = pa.OSFile(str(self.path))  # not mapped: a file that shrinks meanwhile would end the process
        whole = source.read(6) == b"ARROW1"
        source.seek(0)
        if not whole:
            return pa.ipc.open_stream(source)
        return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=columns))

    def batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        with self._opened([self.schema.get_field_index(name) for name in schema.names]) as reader:
            for batch in _each(reader):
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)


def _each(reader: Any) -> Iterator[Any]:
    """The batches of a reader of a file or of a stream."""
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


class CsvRows(RowFile):
    """A .csv file: types are known, and rows counted, only after a first look at all of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as reader:
            self.schema = reader.schema
        self.groups = []

    def _opened(self, columns: Sequence[str] | None = None, types: dict[str, Any] | None = None) -> Any:
        from pyarrow import csv

        convert = csv.ConvertOptions(include_columns=columns, column_types=types)
        return csv.open_csv(self.path, csv.ReadOptions(block_size=CSV_BYTES), convert_options=convert)

    def look(self, types: dict[str, Any]) -> dict[str, Any]:
        """Count the rows; widen the types of the columns given until they hold every value."""
        import pyarrow as pa

        while True:
            try:
                with self._opened(list(types), types) as reader:
                    self.groups = [sum(batch.num_rows for batch in reader)]
                return types
            except pa.ArrowInvalid as problem:
                found = re.search(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)", str(problem))
                name = self.schema.names[int(found[1])] if found else None
                if name not in types or types[name] == pa.string():
                    raise
                types = {**types, name: pa.type_for_alias(WIDER.get(str(types[name]), "string"))}

    def batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        with self._opened(schema.names, dict(zip(schema.names, schema.types, strict=True))) as reader:
            for batch in reader:
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)


FEW_ROWS = 2**10  # tell how many bytes a row has
PART_BYTES = 2**25  # of all columns that are read together


def parts_of(source: Any) -> Iterator[Any]:
    """All columns of files, some rows at a time, as Arrow tables of one schema; an .npz file whole, as its path."""
    paths = files_of(source)
    files = {path: open_file(path) for path in paths if form_of(path) != "npz"}
    schema = _common_schema(list(files.values())) if files else None
    for path in paths:
        if path in files:
            yield from _tables(files[path], schema)
        else:
            yield path


def _common_schema(files: Sequence[RowFile]) -> Any:
    """All columns in the order of the first file, of types wide enough for every file."""
    import pyarrow as pa

    names = files[0].names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("source", "column names must differ", f"{files[0].path} has two columns {twice!r}")
    for file in files:
        check_same_columns(names, file.names, file.path)
    sheets = [file for file in files if isinstance(file, CsvRows)]
    tables = [file for file in files if not isinstance(file, CsvRows)] or sheets[:1]
    schema = tables[0].schema.remove_metadata()  # that of a frame tells of its rows, which are no longer the only ones
    for file in tables[1:]:
        try:
            schema = pa.unify_schemas([schema, file.schema], promote_options="permissive")
        except pa.ArrowException as problem:
            rule = "all files need columns of the same types"
            raise InputError("source", rule, f"{file.path}: {first_line(problem)}") from None
    types = {name: schema.field(name).type for name in names}
    for sheet in sheets:
        with readable(sheet.path):
            types = sheet.look(types)
    return pa.schema([schema.field(name).with_type(types[name]) for name in names])


def _tables(file: RowFile, schema: Any) -> Iterator[Any]:
    """The rows of a file in parts that fit into memory; checked, as to write damaged offsets would end the process."""
    import pyarrow as pa

    with readable(file.path):
        few = next((batch for group in range(len(file.groups)) for batch in file.batches(group, schema, FEW_ROWS)), None)
        rows = 1 if few is None else max(1, PART_BYTES * few.num_rows // max(1, few.nbytes))
        for group in range(len(file.groups)):
            for batch in file.batches(group, schema, rows):
                batch.validate(full=True)
                yield conform(pa.Table.from_batches([batch]), schema, str(file.path))
