"""Rows in files that need not fit into memory: .parquet, .arrow and .csv, alone, in lists, in
folders, by patterns.

Files are taken in the order of their paths. Rows are numbered through them in that order, from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from ..choices.scores import Cost
from ..data.arrays import as_numbers, from_arrow
from ..data.columns import Columns
from ..data.predictions import Predictions
from ..data.progress import Progress
from ..errors import InputError
from ..files.paths import SUFFIXES, files_of, fixed_part, folders_of
from ..files.reading import Layout, ReadOptions, layout_of, read
from ..files.row_files import RowFile, joint_schema, open_files
from ..files.tables import is_text, readable
from ..states import Plan, weight_exponent
from ..text import counted

BATCH_VALUES = 2**22  # values read at a time
# the same for all threads together, if no value is copied; half of it where readers hold much
APART_BYTES = 2**26
MUCH_HELD = 2**28
LEAST_ROWS, MOST_ROWS, FEW_ROWS = 2**12, 2**18, 2**10


class Piece(NamedTuple):
    """Rows that are read one after the other: a group of a file."""

    file: int
    group: int
    first_row: int
    rows: int


@dataclass(frozen=True, eq=False)
class RowSource:
    """Files that can be read again and again, some rows at a time. `scan` makes it.

    files : in the order in which they are read. layout : what their columns are. schema : of the
        columns that are needed.
    pieces : of all files, in order. batch_rows : how many rows are read at a time. options : as
        `read` takes them.
    given : the paths, folders and patterns that name the files. stamps : path, size and time of
        each when it was opened.
    first_batch : the first rows as an Arrow batch, with the number of the first one.
    """

    files: tuple[RowFile, ...] = field(repr=False)
    layout: Layout
    schema: Any
    pieces: tuple[Piece, ...]
    batch_rows: int
    options: ReadOptions
    given: tuple[Path, ...] = field(repr=False)
    stamps: tuple[tuple[str, int, int], ...] = field(repr=False)
    first_batch: tuple[int, Any] = field(default=(0, None), repr=False)

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
        """All rows, in memory."""
        if files_of(self.given) != tuple(file.path for file in self.files):
            raise InputError(
                "source", "must not change while it is read", "there are other files than before"
            )
        return read(self.given, **self.options)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, Predictions]]:
        """The rows in order, some at a time, with the number of the first. With `rows`, so many
        each time but the last."""
        batches = (part for piece in self.pieces for part in self.batches(piece))
        for start, batch in batches if rows is None else _cut(batches, rows):
            yield start, numbered(self.predictions, batch, start)

    def batches(
        self, piece: Piece, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """The rows of a piece as Arrow batches, with the number of the first; of some columns only,
        if they are named."""
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
                "source", "must have as many rows as it says", f"{file.path} has fewer"
            )

    def predictions(self, batch: Any, *, apart: bool = False) -> Predictions:
        """The rows of an Arrow batch. Outputs are a matrix, by column; or `Columns` where they are,
        if these may be `apart`."""
        return self.layout.predictions(_Batch(batch), _columns_apart if apart else _by_column)

    def apart(self, threads: int, readers: int) -> RowSource:
        """The same rows, to be read by so many threads and left where they are (`predictions`):
        more at a time.

        Files have the values of a column side by side, and few of each at a time would be read at
        half the speed. It helps only outputs in columns of their own, of one type.
        """
        kind, *others = {str(self.schema.field(name).type) for name in self.layout.outputs}
        if len(self.layout.outputs) == 1 or others or kind not in ("float", "double"):
            return self
        size = APART_BYTES if readers * self.held_bytes <= MUCH_HELD else APART_BYTES // 2
        values = max(BATCH_VALUES, size // (threads * (4 if kind == "float" else 8)))
        return replace(self, batch_rows=max(self.batch_rows, _batch_rows(len(self.schema), values)))

    def column_groups(self, count: int) -> list[list[str]]:
        """The columns that are needed, in at most so many parts that can be read apart without
        reading more."""
        names = self.schema.names
        count = min(count, len(names)) if all(file.columns_apart for file in self.files) else 1
        return [
            names[len(names) * i // count : len(names) * (i + 1) // count] for i in range(count)
        ]

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes to have a piece open, beside the rows that are read of
        it."""
        first = self.pieces[0]
        return self.files[first.file].held_bytes(first.group, self.schema.names)

    def plan(self, costs: Mapping[str, Cost] | None = None, reject_cost: float = 0.1) -> Plan:
        """The plan for these rows. If they have weights, these are looked at, all of them."""
        plan = Plan.of(self.first_rows, costs, reject_cost)
        return (
            plan
            if self.layout.weight is None
            else replace(plan, weight_exponent=self._weight_exponent())
        )

    @cached_property
    def first_rows(self) -> Predictions:
        """A few rows, which show the form of all rows."""
        start, batch = self.first_batch
        return numbered(self.predictions, batch, start)

    def _weight_exponent(self) -> int:
        name, largest = str(self.layout.weight), [0.0]
        with Progress(self.n, work="looking at weights") as bar:
            for _, batch in (part for piece in self.pieces for part in self.batches(piece, [name])):
                weights = as_numbers(_Batch(batch)[name], name).astype(np.float64)
                largest.append(float(np.max(weights, initial=0.0, where=np.isfinite(weights))))
                bar.advance(len(weights))
        return weight_exponent(np.array(largest))

    @property
    def identity(self) -> dict[str, Any]:
        """What makes these the rows they are: files with sizes and times, the types of columns and
        what they mean."""
        choices = hashlib.sha256(repr((self.layout, str(self.schema))).encode()).hexdigest()[:16]
        return {"files": [list(stamp) for stamp in self.stamps], "rows": self.n, "choices": choices}

    def check_unchanged(self) -> None:
        """Raise if a file is not what it was when it was opened."""
        for file, stamp in zip(self.files, self.stamps, strict=True):
            with readable(file.path):
                if _stamp(file.path) != stamp:
                    raise InputError(
                        "source", "must not change while it is read", f"{file.path} has changed"
                    )

    def would_read(self, path: Path) -> bool:
        """Whether a file, once it is there, is one of those that are read."""
        path = path.resolve()
        return path.suffix.lower() in SUFFIXES and any(
            _may_name(given, path) for given in self.given
        )


def scan(source: Any, **options: Unpack[ReadOptions]) -> RowSource:
    """As `read`, but the rows stay in their files, which may be larger than memory.

    source : a .parquet, .arrow, .csv or .tsv file, a folder of them, a pattern such as
        "day-*.parquet" or "runs/**/*.csv", or a list of paths. Files are taken in the order of
        their paths. Folders called name=value give columns, as for `read`.
    options : as for `read`.
    """
    paths = folders_of(source)
    stamps = tuple(_stamp(path) for path in paths)
    files = tuple(open_files(paths))
    names = files[0].names
    layout = _layout(names, files[0].schema, options)
    schema = _schema(files, layout)
    layout = _layout(names, schema, options)  # a .csv may have told more
    pieces, start = [], 0
    for i, file in enumerate(files):
        for group, rows in enumerate(file.groups):
            if rows < 0 or start + rows >= 2**63:
                raise InputError(
                    "source",
                    f"must be a readable {file.path.suffix} file",
                    f"{file.path} has {rows} rows",
                )
            if rows:
                pieces.append(Piece(i, group, start, rows))
                start += rows
    if not pieces:
        raise InputError(layout.names["probs"], "needs at least one row", "is empty")
    given = tuple(Path(name) for name in ([source] if isinstance(source, (str, Path)) else source))
    found = RowSource(
        files, layout, schema, tuple(pieces), _batch_rows(len(schema)), options, given, stamps
    )
    few = replace(found, batch_rows=FEW_ROWS)
    batch = next(part for piece in few.pieces for part in few.batches(piece))
    found = replace(found, first_batch=batch)
    first = found.first_rows  # they show the number of outputs and the format of all rows
    width = 1 if first.probs.ndim == 1 else first.probs.shape[1]
    decided = replace(layout, classes=first.class_order, tolerance=first.row_tolerance)
    return replace(found, layout=decided, batch_rows=_batch_rows(len(schema) + width))


def numbered(read: Callable[[Any], Predictions], content: Any, start: int) -> Predictions:
    """Rows read, the first of which has this number: an error names a row by its number among all
    rows."""
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
    """Whether a path, a folder or a pattern may name a file; a pattern of folders, any file in its
    place."""
    root = fixed_part(given)
    alike = (
        root == given or given.suffix.lower() not in SUFFIXES or fnmatchcase(path.name, given.name)
    )
    return alike and path.is_relative_to(root.resolve())


def _stamp(path: Path) -> tuple[str, int, int]:
    about = path.stat()
    return str(path), about.st_size, about.st_mtime_ns


def _batch_rows(columns: int, values: int = BATCH_VALUES) -> int:
    return max(LEAST_ROWS, min(MOST_ROWS, values // columns))


def _schema(files: Sequence[RowFile], layout: Layout) -> Any:
    """The types of the columns that are needed, wide enough for all files."""
    import pyarrow as pa

    schema = joint_schema(files, layout.needed, layout.numeric)
    wide = (
        {layout.label}
        if layout.label in schema.names and _widened(schema.field(layout.label).type, layout)
        else set()
    )
    return pa.schema([pa.field(f.name, pa.int64() if f.name in wide else f.type) for f in schema])


def _widened(kind: Any, layout: Layout) -> bool:
    """Whether labels are whole numbers that are needed as int64: Arrow then makes it of them,
    faster than it would be done later. Two columns are scored with labels of a byte
    (`Predictions.block`)."""
    import pyarrow as pa

    needed = kind != pa.int8() or len(layout.outputs) != 2
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64() and needed


def _labels_like(kind: Any) -> np.ndarray:
    """Labels of an Arrow type, as numpy would have them: what they are called decides nothing, only
    their type."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return (
        np.array([""], object)
        if is_text(kind)
        else np.asarray(pa.array([], kind).to_numpy(zero_copy_only=False))
    )


def _as(batch: Any, schema: Any) -> Any:
    """The columns of a schema, in its order and of its types; checked, as to read damaged offsets
    would end the process."""
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
    """The same rows, so many at a time."""
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


def _columns_apart(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> Any:
    """Columns where they are, if they are of one type and can be looked at there."""
    columns = [table[name] for name in names]
    alike = len({column.dtype for column in columns}) == 1 and columns[0].dtype in (
        np.float32,
        np.float64,
    )
    if len(names) > 1 and alike and all(column.ndim == 1 for column in columns):
        return Columns(columns)
    return _by_column(table, names, argument)


def _by_column(table: Mapping[str, np.ndarray], names: list[str], argument: str) -> np.ndarray:
    """As rows side by side, but with each column in one stretch of memory, as it is in the file."""
    first = as_numbers(table[names[0]], names[0])
    if len(names) == 1:
        return first[:, None] if first.ndim == 1 else first
    columns = [first, *(as_numbers(table[name], name) for name in names[1:])]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1:
            raise InputError(
                argument,
                "several columns must each hold one number per row",
                f"{name!r} is a matrix",
            )
    matrix = _kept_memory((len(columns), len(first)), np.result_type(*columns))
    for k, column in enumerate(columns):
        matrix[k] = column
    return matrix.T


def _kept_memory(shape: tuple[int, int], kind: np.dtype) -> np.ndarray:
    """Room for a matrix, from Arrow's pool, which keeps what was freed: new pages of memory would
    cost more than the copy."""
    import pyarrow as pa

    return np.frombuffer(pa.allocate_buffer(shape[0] * shape[1] * kind.itemsize), kind).reshape(
        shape
    )


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
