"""Row sources: files (.parquet, .arrow, .csv, .jsonl) that may exceed memory, read in batches.

Files are read in the order of their paths, and rows are numbered in that order, from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from ..choices.scores import Cost
from ..data.arrays import as_numbers, from_arrow
from ..data.columns import Columns
from ..data.predictions import Predictions
from ..data.work import Progress
from ..errors import InputError
from ..files.layout import Layout, ReadOptions, check_vectors, dialect_of, layout_of
from ..files.paths import files_of, fixed_part, folders_of, is_readable
from ..files.reading import read
from ..files.row_files import RowFile, joint_schema, open_files
from ..files.tables import is_text, readable, stored_fit
from ..states import Plan, weight_exponent
from ..text import counted

BATCH_VALUES = 2**22  # values read at a time
# bytes read at a time by all threads together if columns are read in place; half of it if readers
# hold more than LITTLE_HELD bytes besides
IN_PLACE_BYTES = 2**26
LITTLE_HELD = 2**28
LEAST_ROWS, MOST_ROWS, FEW_ROWS = 2**12, 2**18, 2**10


class Piece(NamedTuple):
    """The rows of one group of a file, which one thread reads."""

    file: int
    group: int
    first_row: int
    rows: int


@dataclass(frozen=True, eq=False)
class RowSource:
    """Files that are read in batches, as often as needed. `scan` creates it.

    files : in the order in which they are read. layout : which columns are what. schema : of the
        columns that are needed.
    pieces : of all files, in order. batch_rows : the number of rows read at a time. options : those
        of `read`.
    given : the paths, folders and patterns that name the files. stamps : path, size and
        modification time of each file when it was opened.
    first_rows : they have the kind, classes and features of all rows.
    """

    files: tuple[RowFile, ...] = field(repr=False)
    layout: Layout
    schema: Any
    pieces: tuple[Piece, ...]
    batch_rows: int
    options: ReadOptions
    given: tuple[Path, ...] = field(repr=False)
    stamps: tuple[tuple[str, int, int], ...] = field(repr=False)
    first_rows: Predictions = field(default=cast(Any, None), repr=False)  # read by `scan_files`

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.pieces[-1].first_row + self.pieces[-1].rows

    def __len__(self) -> int:
        return self.n

    @property
    def classes(self) -> tuple[Any, ...]:
        return tuple(self.layout.classes or ())

    def __repr__(self) -> str:
        files = str(self.files[0].path) if len(self.files) == 1 else f"{len(self.files):,} files"
        return f"RowSource({files}, {counted(self.n)}, {len(self.classes)} classes)"

    def read(self) -> Predictions:
        """Read all rows into memory."""
        if files_of(self.given) != tuple(file.path for file in self.files):
            raise InputError(
                "source", "must not change while it is read", "files were added or removed"
            )
        return read(self.given, **self.options)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, Predictions]]:
        """Blocks of rows in order, each with the number of its first row. With `rows`, all blocks
        but the last have that many rows."""
        batches = (part for piece in self.pieces for part in self.batches(piece))
        for start, batch in batches if rows is None else _cut(batches, rows):
            yield start, numbered(self.predictions, batch, start)

    def batches(
        self, piece: Piece, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """The rows of a piece as Arrow batches, each with the number of its first row.

        columns : the columns to read; by default all that are needed.
        """
        import pyarrow as pa

        file, first, end = self.files[piece.file], piece.first_row, piece.first_row + piece.rows
        schema = (
            self.schema
            if columns is None
            else pa.schema([self.schema.field(name) for name in columns])
        )
        with readable(file.path):
            for batch in file.batches(piece.group, schema, self.batch_rows):
                if batch.num_rows == 0:
                    continue
                if first + batch.num_rows > end:
                    raise InputError(
                        "source",
                        "must not change while it is read",
                        f"{file.path} has more rows than before",
                    )
                yield first, _as(batch, schema)
                first += batch.num_rows
        if first != end:
            raise InputError(
                "source",
                "must not change while it is read",
                f"{file.path} has fewer rows than before",
            )

    def predictions(self, batch: Any, *, in_place: bool = False) -> Predictions:
        """The rows of an Arrow batch. Outputs are a column-ordered matrix or, with `in_place`,
        `Columns` that are not copied."""
        rows = self.layout.predictions(_Batch(batch), _columns if in_place else _by_column)
        rows.zero_rounding_errors()
        return rows

    def read_in_place(self, threads: int, readers: int) -> RowSource:
        """The same rows in larger batches, for threads that read columns in place (`predictions`).

        Files store each column contiguously; small batches would be read at half the speed. Larger
        batches help only if each output has its own column and all have the same type.
        """
        kind, *others = {str(self.schema.field(name).type) for name in self.layout.outputs}
        if len(self.layout.outputs) == 1 or others or kind not in ("float", "double"):
            return self
        little_held = readers * self.held_bytes <= LITTLE_HELD
        size = IN_PLACE_BYTES if little_held else IN_PLACE_BYTES // 2
        values = max(BATCH_VALUES, size // (threads * (4 if kind == "float" else 8)))
        return replace(self, batch_rows=max(self.batch_rows, _batch_rows(len(self.schema), values)))

    def column_groups(self, count: int) -> list[list[str]]:
        """The needed columns in at most `count` groups, each of which can be read by itself."""
        names = self.schema.names
        count = min(count, len(names)) if all(file.columns_apart for file in self.files) else 1
        return [
            names[len(names) * i // count : len(names) * (i + 1) // count] for i in range(count)
        ]

    @property
    def held_bytes(self) -> int:
        """The approximate memory of an open piece, besides the rows read from it."""
        first = self.pieces[0]
        return self.files[first.file].held_bytes(first.group, self.schema.names)

    def plan(self, costs: Mapping[str, Cost] | None = None, reject_cost: float = 0.1) -> Plan:
        """The plan for these rows. Reads all weights, if there are any."""
        plan = Plan.of(self.first_rows, costs, reject_cost)
        return (
            plan
            if self.layout.weight is None
            else replace(plan, weight_exponent=self._weight_exponent())
        )

    def _weight_exponent(self) -> int:
        name, largest = str(self.layout.weight), [0.0]
        with Progress(self.n, work="reading weights") as bar:
            for _, batch in (part for piece in self.pieces for part in self.batches(piece, [name])):
                weights = as_numbers(_Batch(batch)[name], name).astype(np.float64)
                largest.append(float(np.max(weights, initial=0.0, where=np.isfinite(weights))))
                bar.advance(len(weights))
        return weight_exponent(np.array(largest))

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies these rows: files with sizes and times, column types and the layout."""
        choices = hashlib.sha256(repr((self.layout, str(self.schema))).encode()).hexdigest()[:16]
        return {"files": [list(stamp) for stamp in self.stamps], "rows": self.n, "choices": choices}

    def check_unchanged(self) -> None:
        """Raise if a file has changed since it was opened."""
        for file, stamp in zip(self.files, self.stamps, strict=True):
            with readable(file.path):
                if _stamp(file.path) != stamp:
                    raise InputError(
                        "source", "must not change while it is read", f"{file.path} has changed"
                    )

    def would_read(self, path: Path) -> bool:
        """Whether a file, if it existed, would be one of those that are read."""
        path = path.resolve()
        return is_readable(path) and any(_may_name(given, path) for given in self.given)


def scan_files(source: Any, **options: Unpack[ReadOptions]) -> RowSource:
    """The row source of files; arguments as for `engines.choosing.scan`."""
    paths = folders_of(source)
    stamps = tuple(_stamp(path) for path in paths)
    files = tuple(open_files(paths, dialect_of(options)))
    names = files[0].names
    layout = _layout(names, files[0].schema, options)
    schema = _schema(files, layout)
    layout = _layout(names, schema, options)  # counting the rows of a CSV may change its types
    layout = replace(layout, calibrator_fit=stored_fit(source))
    pieces = _pieces(files)
    if not pieces:
        raise InputError(layout.names["probs"], "needs at least one row", "is empty")
    given = [source] if isinstance(source, (str, Path)) else source
    opened = RowSource(
        files=files,
        layout=layout,
        schema=schema,
        pieces=pieces,
        batch_rows=FEW_ROWS,
        options=options,
        given=tuple(Path(name) for name in given),
        stamps=stamps,
    )
    start, batch = next(part for piece in pieces for part in opened.batches(piece))
    # these have the number of outputs and the format of all rows
    first = numbered(opened.predictions, batch, start)
    width = 1 if first.probs.ndim == 1 else first.probs.shape[1]
    decided = replace(layout, classes=first.class_order, tolerance=first.row_tolerance)
    size = _batch_rows(len(schema) + width)
    return replace(opened, layout=decided, batch_rows=size, first_rows=first)


def _pieces(files: Sequence[RowFile]) -> tuple[Piece, ...]:
    """The groups of all files that have rows, with the numbers of their first rows."""
    pieces, start = [], 0
    for i, file in enumerate(files):
        for group, rows in enumerate(file.groups):
            if rows < 0 or start + rows >= 2**63:
                rule = f"must be a readable {file.path.suffix} file"
                raise InputError("source", rule, f"{file.path} has {rows} rows")
            if rows:
                pieces.append(Piece(i, group, start, rows))
                start += rows
    return tuple(pieces)


def numbered(read: Callable[[Any], Predictions], content: Any, start: int) -> Predictions:
    """`read(content)`, where an error names a row by its number among all rows. `start` is the
    number of the first row."""
    try:
        return read(content)
    except InputError as problem:
        row = None if problem.row is None else problem.row + start
        raise InputError(
            problem.argument, problem.rule, problem.value, row=row, way_out=problem.way_out
        ) from None


def _layout(names: Sequence[str], schema: Any, options: ReadOptions) -> Layout:
    def type_of(name: str) -> Any:
        return schema.field(name).type

    return layout_of(
        names,
        lambda name: _labels_like(type_of(name)),
        lambda name: is_text(type_of(name)),
        **options,
    )


def _may_name(given: Path, path: Path) -> bool:
    """Whether a path, folder or pattern may name a file. A pattern of folders may name any file
    below its fixed part."""
    root = fixed_part(given)
    matches = root == given or not is_readable(given) or fnmatchcase(path.name, given.name)
    return matches and path.is_relative_to(root.resolve())


def _stamp(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns


def _batch_rows(columns: int, values: int = BATCH_VALUES) -> int:
    return max(LEAST_ROWS, min(MOST_ROWS, values // columns))


def _schema(files: Sequence[RowFile], layout: Layout) -> Any:
    """The schema of the needed columns, with types wide enough for all files."""
    import pyarrow as pa

    schema = joint_schema(files, layout.needed, layout.numeric)
    wide = (
        {layout.label}
        if layout.label in schema.names and _widened(schema.field(layout.label).type, layout)
        else set()
    )
    return pa.schema([pa.field(f.name, pa.int64() if f.name in wide else f.type) for f in schema])


def _widened(kind: Any, layout: Layout) -> bool:
    """Whether Arrow should cast integer labels to int64, which is faster than a later cast. For two
    output columns, int8 labels stay int8 (`Predictions.block`)."""
    import pyarrow as pa

    needed = kind != pa.int8() or len(layout.outputs) != 2
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64() and needed


def _labels_like(kind: Any) -> np.ndarray:
    """An array with the numpy type of labels of an Arrow type. Its values are not used."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return (
        np.array([""], object)
        if is_text(kind)
        else np.asarray(pa.array([], kind).to_numpy(zero_copy_only=False))
    )


def _as(batch: Any, schema: Any) -> Any:
    """The columns of a schema, in its order and types. They are validated, because reading damaged
    offsets would crash the process."""
    import pyarrow as pa

    batch = batch if batch.schema.names == schema.names else batch.select(schema.names)
    batch.validate()
    for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
        if not pa.types.is_primitive(kind):
            batch.column(name).validate(full=True)
    if batch.schema.equals(schema):
        return batch
    pairs = zip(batch.columns, schema.types, strict=True)
    columns = [column if column.type == kind else column.cast(kind) for column, kind in pairs]
    return pa.record_batch(columns, schema=schema)


def _cut(batches: Iterator[tuple[int, Any]], rows: int) -> Iterator[tuple[int, Any]]:
    """The same rows in batches of `rows` rows."""
    import pyarrow as pa

    waiting: list[Any] = []
    held = first = 0
    for start, batch in batches:
        first = start if not held else first
        waiting.append(batch)
        held += batch.num_rows
        while held >= rows:
            table = pa.concat_batches(waiting)
            yield first, table.slice(0, rows)
            waiting, held, first = [table.slice(rows)], held - rows, first + rows
    if held:
        yield first, pa.concat_batches(waiting)


def _columns(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> Any:
    """Output columns without a copy, if all are float32 or all float64; otherwise a matrix."""
    columns = [table[name] for name in names]
    same_type = len({column.dtype for column in columns}) == 1
    floats = same_type and columns[0].dtype in (np.float32, np.float64)
    if len(names) > 1 and floats and all(column.ndim == 1 for column in columns):
        return Columns(columns)
    return _by_column(table, names, argument)


def _by_column(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> np.ndarray:
    """Output columns as one column-ordered matrix."""
    first = as_numbers(table[names[0]], names[0])
    if len(names) == 1:
        return first[:, None] if first.ndim == 1 else first
    columns = [first, *(as_numbers(table[name], name) for name in names[1:])]
    check_vectors(names, columns, argument)
    matrix = _pooled_memory((len(columns), len(first)), np.result_type(*columns))
    for k, column in enumerate(columns):
        matrix[k] = column
    return matrix.T


def _pooled_memory(shape: tuple[int, int], kind: np.dtype) -> np.ndarray:
    """An empty matrix in memory of Arrow's pool, which reuses freed memory: new pages would cost
    more than the copy."""
    import pyarrow as pa

    buffer = pa.allocate_buffer(shape[0] * shape[1] * kind.itemsize)
    return np.frombuffer(buffer, kind).reshape(shape)


class _Batch(Mapping[str, np.ndarray]):
    """The columns of an Arrow batch as numpy."""

    def __init__(self, batch: Any) -> None:
        self._columns = dict(zip(batch.schema.names, batch.columns, strict=True))

    def __getitem__(self, name: str) -> np.ndarray:
        return from_arrow(self._columns[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
