"""Row files: .parquet, .arrow, .csv and .jsonl files that are read as Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.work import Progress
from ..errors import InputError
from .csv_files import check_separator, check_text, count_rows, open_csv
from .dialect import COMMAS, Dialect
from .json_lines import each_block, flat
from .paths import ARRAYS, Folders, ending_of, folders_of, form_of
from .tables import check_row_count, check_same_columns, readable
from .writing import conform, first_line

Reached = Callable[[int], None]  # called with the number of bytes read so far

# values per group of an Arrow file; at least one batch of rows
GROUP_VALUES = 2**21
HELD_BYTES = 2**21 + 2**17  # largest memory of an open column
READ_BYTES = 2**16  # read from a column at a time


class RowFile(ABC):
    """A file of rows. `groups` holds the number of rows of each part that can be read by itself.

    columns_apart : whether some columns can be read without the others.
    folders : values of columns that the names of its folders add.
    """

    path: Path
    schema: Any
    names: list[str]
    groups: list[int]
    folders: Folders
    columns_apart = False

    def add_folders(self, folders: Folders) -> None:
        """Append the columns that folders name. A column of the file wins over a folder of the same
        name."""
        import pyarrow as pa

        own = list(self.schema.names)  # raises if a name is not UTF-8
        self.folders = {name: value for name, value in folders.items() if name not in own}
        self.schema = pa.schema(
            [*self.schema, *(pa.field(name, value.type) for name, value in self.folders.items())]
        )
        self.names = [*own, *self.folders]

    def held_bytes(self, group: int, names: Collection[str]) -> int:
        """The approximate memory of an open group, besides the rows read from it."""
        return 0

    def batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        """The rows of a group as Arrow batches of some columns, with at most `rows` rows each."""
        import pyarrow as pa

        if not any(name in self.folders for name in schema.names):
            yield from self._own_batches(group, schema, rows)
            return
        own = [field for field in schema if field.name not in self.folders] or [
            pa.field(self.names[0], pa.binary())
        ]
        for batch in self._own_batches(group, pa.schema(own), rows):
            added = {name: pa.repeat(value, batch.num_rows) for name, value in self.folders.items()}
            columns = [
                added[name] if name in added else batch.column(name) for name in schema.names
            ]
            yield pa.record_batch(columns, names=schema.names)

    @abstractmethod
    def _own_batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        """As `batches`, for one or more columns of the file itself."""


def open_files(files: Mapping[Path, Folders], dialect: Dialect = COMMAS) -> list[RowFile]:
    """Open files and read their schemas, which must have the same columns. Also counts the rows of
    Arrow and JSON files."""
    dialect.check_used(files)
    found: list[RowFile] = []
    paths = list(files)
    with _bar(paths) as bar:
        for path, reached in _each_of(paths, bar):
            found.append(_open_file(path, files[path], reached, dialect))
            check_same_columns(found[0].names, found[-1].names, path)
    names = found[0].names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            "source", "column names must differ", f"{paths[0]} has two columns {twice!r}"
        )
    return found


def _open_file(path: Path, folders: Folders, reached: Reached, dialect: Dialect) -> RowFile:
    with readable(path):
        form = form_of(path)
        if form in ARRAYS:
            rule = f"an {ending_of(path)} file must be read whole, in memory"
            raise InputError("source", rule, str(path))
        if form == "arrow":
            found: RowFile = ArrowRows(path, reached)
        elif form == "jsonl":
            found = JsonRows(path, reached)
        else:
            found = ParquetRows(path) if form == "parquet" else CsvRows(path, dialect)
        found.add_folders(folders)
        return found


def _size(path: Path) -> int:
    with readable(path):
        return path.stat().st_size


def _bar(paths: Sequence[Path]) -> Progress:
    """A progress bar for a pass over whole files."""
    return Progress(sum(map(_size, paths)), unit="bytes", work="counting rows")


def _each_of(paths: Sequence[Path], bar: Progress) -> Iterator[tuple[Path, Reached]]:
    """The files in order, each with a function that moves the bar to the bytes read so far."""
    start = 0
    for path in paths:
        end = start + _size(path)

        def reached(read: int, start: int = start, end: int = end) -> None:
            bar.reach(min(start + read, end))

        yield path, reached
        bar.reach(start := end)


class ParquetRows(RowFile):
    """The groups are row groups."""

    columns_apart = True

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.path = path
        with parquet.ParquetFile(path) as file:
            self._metadata, self.schema = file.metadata, file.schema_arrow
        self.groups = [
            self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)
        ]
        check_row_count(path, self._metadata, sum(self.groups))

    def held_bytes(self, group: int, names: Collection[str]) -> int:
        """One data page and one dictionary page per column, of 1 MiB each unless the column is
        smaller."""
        metadata = self._metadata.row_group(group)
        columns = (metadata.column(i) for i in range(metadata.num_columns))
        used = (column for column in columns if column.path_in_schema.split(".")[0] in names)
        return sum(min(2 * column.total_uncompressed_size, HELD_BYTES) for column in used)

    def _own_batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        from pyarrow import parquet

        count = self.groups[group]
        # Few and equal batches: each one goes through all columns.
        parts = max(1, -(-count // rows))
        rows = max(1, -(-count // parts))
        options = {"metadata": self._metadata, "pre_buffer": False, "buffer_size": READ_BYTES}
        with parquet.ParquetFile(self.path, **options) as file:
            yield from file.iter_batches(
                rows, row_groups=[group], columns=schema.names, use_threads=False
            )


class ArrowRows(RowFile):
    """An Arrow file, whose groups are runs of batches; or an Arrow stream, which is one group."""

    def __init__(self, path: Path, reached: Reached) -> None:
        import pyarrow as pa

        self.path = path
        with pa.OSFile(str(path)) as source:
            self._indexed = source.read(6) == b"ARROW1"  # the file format, not the stream format
            source.seek(0)
            with self._reader(source) as reader:
                self.schema = reader.schema
        counts = []
        # one column is enough to count rows
        for batch, read in self._each([0] if self.schema.names else None):
            counts.append(batch.num_rows)
            reached(read)
        most = max(1, GROUP_VALUES // max(1, len(self.schema)))
        self._groups = runs_of(counts, most) if self._indexed else [range(len(counts))]
        self.groups = [sum(counts[group.start : group.stop]) for group in self._groups]

    def _reader(self, source: Any, columns: Sequence[int] | None = None) -> Any:
        """A reader. It reads only these columns if the format allows it."""
        import pyarrow as pa

        if not self._indexed:
            return pa.ipc.open_stream(source)
        return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=columns))

    def _each(
        self, columns: Sequence[int] | None, some: range | None = None
    ) -> Iterator[tuple[Any, int]]:
        """All or some batches, each with the position in the file after it (approximate for the
        file format)."""
        import pyarrow as pa

        # Not memory-mapped: a file that shrinks while it is read would crash the process.
        with pa.OSFile(str(self.path)) as source, self._reader(source, columns) as reader:
            if not self._indexed:
                yield from ((batch, source.tell()) for batch in reader)
                return
            count, size = reader.num_record_batches, source.size()
            for i in range(count) if some is None else some:
                yield reader.get_batch(i), size * (i + 1) // count

    def _own_batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        columns = [self.schema.get_field_index(name) for name in schema.names]
        for batch, _ in self._each(columns, self._groups[group]):
            for first in range(0, batch.num_rows, rows):
                yield batch.slice(first, rows)


def runs_of(counts: Iterable[int], most: int) -> list[range]:
    """Runs of consecutive parts with at most `most` rows in total; a larger part is a run by
    itself.

    >>> runs_of([3, 4, 9, 1, 1], 8)
    [range(0, 2), range(2, 3), range(3, 5)]
    """
    found: list[range] = []
    held = 0
    for place, rows in enumerate(counts):
        if found and held + rows <= most:
            found[-1] = range(found[-1].start, place + 1)
        else:
            found.append(range(place, place + 1))
            held = 0
        held += rows
    return found


class CsvRows(RowFile):
    """A CSV file. A first pass, `count_rows`, finds its types and number of rows."""

    def __init__(self, path: Path, dialect: Dialect = COMMAS) -> None:
        self.path, self._dialect = path, dialect
        check_separator(path, dialect)
        with open_csv(path, dialect=dialect) as reader:
            self.schema = reader.schema
        self.groups = []

    def count_rows(self, types: dict[str, Any], reached: Reached) -> dict[str, Any]:
        """Count the rows; widen the types of the columns given until they hold every value."""
        rows, types = count_rows(self.path, self.schema.names, types, reached, self._dialect)
        self.groups = [rows]
        return types

    def _own_batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        types = dict(zip(schema.names, schema.types, strict=True))
        with open_csv(self.path, schema.names, types, self._dialect) as reader:
            for batch in reader:
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)


class JsonRows(RowFile):
    """A file of JSON objects, one per line. A first pass finds its types and number of rows."""

    def __init__(self, path: Path, reached: Reached) -> None:
        import pyarrow as pa

        self.path = path
        self._nested, rows = pa.schema([]), 0
        for table, read in each_block(path):
            self._nested = pa.unify_schemas(
                [self._nested, table.schema], promote_options="permissive"
            )
            rows += len(table)
            reached(read)
        self.schema = flat(self._nested.empty_table()).schema
        self.groups = [rows]

    def _own_batches(self, group: int, schema: Any, rows: int) -> Iterator[Any]:
        import pyarrow as pa

        roots = {name.split(".")[0] for name in schema.names} | set(schema.names)
        nested = pa.schema([field for field in self._nested if field.name in roots])
        for table, _ in each_block(self.path, nested):
            yield from flat(table).select(schema.names).to_batches(rows)


FEW_ROWS = 2**10  # enough to estimate the bytes of a row
PART_BYTES = 2**25  # of all columns of a batch


def parts_of(source: Any, dialect: Dialect = COMMAS) -> Iterator[Any]:
    """All columns of files as Arrow tables of one schema, in batches; for an .npz or .npy file, its
    path."""
    paths = folders_of(source)
    dialect.check_used(paths)
    tables = {path: folders for path, folders in paths.items() if form_of(path) not in ARRAYS}
    files = dict(zip(tables, open_files(tables, dialect), strict=True)) if tables else {}
    schema = joint_schema(list(files.values()), next(iter(files.values())).names) if files else None
    for path in paths:
        if path in files:
            yield from _tables(files[path], schema)
        else:
            yield path


def joint_schema(
    files: Sequence[RowFile], names: Sequence[str], numeric: Collection[str] | None = None
) -> Any:
    """The schema of some columns, with types wide enough for all files. Also counts the rows of CSV
    files.

    numeric : columns of CSV files that must be numbers; the others must have the same kind in all
        files. Without it, a column that is numeric in one CSV file and text in another is text.
    """
    import pyarrow as pa

    def own_schema(file: RowFile) -> Any:
        # drops the metadata that pandas adds
        return pa.schema([file.schema.field(name) for name in names])

    sheets = [file for file in files if isinstance(file, CsvRows)]
    first, *others = [file for file in files if not isinstance(file, CsvRows)] or sheets
    schema = own_schema(first)
    for file in others:
        try:
            schema = pa.unify_schemas([schema, own_schema(file)], promote_options="permissive")
        except pa.ArrowException as problem:
            if numeric is None and isinstance(file, CsvRows):
                continue
            rule = "all files need columns of the same types"
            raise InputError("source", rule, f"{file.path}: {first_line(problem)}") from None
    if not sheets:
        return schema
    added = {name for sheet in sheets for name in sheet.folders}
    types = {
        f.name: pa.float64() if f.name in (numeric or ()) else f.type
        for f in schema
        if f.name not in added
    }
    with _bar([sheet.path for sheet in sheets]) as bar:
        for sheet, (_, reached) in zip(
            sheets, _each_of([sheet.path for sheet in sheets], bar), strict=True
        ):
            with readable(sheet.path):
                types = sheet.count_rows(types, reached)
                check_text(types, sheet.path)
    return pa.schema([f.with_type(types.get(f.name, f.type)) for f in schema])


def _tables(file: RowFile, schema: Any) -> Iterator[Any]:
    """The rows of a file in validated batches that fit into memory: writing damaged offsets would
    crash the process."""
    import pyarrow as pa

    with readable(file.path):
        few = next(
            (
                batch
                for group in range(len(file.groups))
                for batch in file.batches(group, schema, FEW_ROWS)
            ),
            None,
        )
        rows = 1 if few is None else max(1, PART_BYTES * few.num_rows // max(1, few.nbytes))
        for group in range(len(file.groups)):
            for batch in file.batches(group, schema, rows):
                batch.validate(full=True)
                yield conform(pa.Table.from_batches([batch]), schema, str(file.path))
