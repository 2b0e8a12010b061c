"""Writing files atomically: text, bytes and tables."""

from __future__ import annotations

import contextlib
import os
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data.calibrator_fit import CalibratorFit
from ..errors import InputError

FIT_KEY = b"probaudit.calibrator_fit"  # in the metadata of a .parquet file


def write_text(path: Path, text: str) -> None:
    with _replacing(path) as name:
        name.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    with _replacing(path) as name:
        name.write_bytes(content)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to an .npz file. Nothing is pickled: text is stored as text and must not
    be missing."""
    plain = {}
    for name, array in arrays.items():
        if array.dtype.kind == "O":
            odd = next((i for i, value in enumerate(array) if not isinstance(value, str)), None)
            if odd is not None:
                rule = "an .npz file holds numbers, or text in every row"
                raise InputError(name, rule, repr(array[odd]), row=odd)
            array = array.astype(str)
        plain[name] = array
    # not by `savez`, whose own arguments are no names for arrays
    with _replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in plain.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def write_table(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns to a .parquet or .csv file; a matrix becomes a column of lists."""
    write_tables(path, [arrow_table(columns)])


def write_tables(path: Path, parts: Iterable[Any], fit: CalibratorFit | None = None) -> int:
    """Write Arrow tables to one .parquet or .csv file with the columns of the first; returns the
    number of rows.

    fit : of the calibrator that made the outputs; a .parquet file stores it (`tables.stored_fit`).

    If a table fails, nothing is written.
    """
    from pyarrow import csv, parquet

    form = path.suffix.lower()
    if form not in (".parquet", ".pq", ".csv"):
        raise InputError("output", "must end in .parquet, .csv or .npz", str(path))
    rows, writer, schema = 0, None, None
    with _replacing(path) as name, contextlib.ExitStack() as stack:
        for table in parts:
            if writer is None:
                stored = None if fit is None else {FIT_KEY: fit.to_json()}
                schema = table.schema.with_metadata(stored)
                writer = stack.enter_context(
                    (csv.CSVWriter if form == ".csv" else parquet.ParquetWriter)(name, schema)
                )
            writer.write_table(conform(table, schema, "a later part"))
            rows += len(table)
        stack.close()
        if writer is None:
            raise InputError("source", "needs at least one row", "is empty")
    return rows


def arrow_table(columns: Mapping[str, np.ndarray]) -> Any:
    """Columns as an Arrow table; a matrix becomes a column of lists."""
    import pyarrow as pa

    arrays = {}
    for name, column in columns.items():
        try:
            arrays[name] = pa.array(column if column.ndim == 1 else list(column))
        except pa.ArrowException as problem:
            raise InputError(name, "must be a column of a table", first_line(problem)) from None
    return pa.table(arrays)


def with_columns(table: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """An Arrow table with columns added at the end; they replace columns of the same names."""
    import pyarrow as pa

    more, kept = (
        arrow_table(columns),
        table.select([name for name in table.column_names if name not in columns]),
    )
    return pa.Table.from_arrays(
        [*kept.columns, *more.columns], schema=pa.schema([*kept.schema, *more.schema])
    )


def conform(table: Any, schema: Any, whose: str) -> Any:
    """The columns of a schema, in its order and types. A cast that would change a value raises."""
    import pyarrow as pa

    odd = sorted({*table.column_names} ^ {*schema.names})
    if odd:
        found = f"{whose} has {'no' if odd[0] in schema.names else 'another'} column {odd[0]!r}"
        raise InputError("source", "all files need the same columns", found)
    try:
        return table.select(schema.names).cast(schema)
    except (ValueError, pa.ArrowException) as problem:
        rule = "all files need columns of the same types"
        raise InputError("source", rule, f"{whose}: {first_line(problem)}") from None


def first_line(problem: BaseException) -> str:
    """The first line of an error message."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary file in the same folder, renamed at the end: readers never see half a file.

    A link stays a link: its target is replaced. A pipe or a device is written directly.
    """
    temporary = None
    try:
        if path.is_dir():
            raise InputError("path", "must be a file, not a folder", str(path))
        target = Path(os.path.realpath(path))
        if path.exists() and not target.is_file():
            yield path
            return
        if not target.parent.is_dir():
            raise InputError("path", "its folder must exist", str(path))
        temporary = target.with_name(f".probaudit-{secrets.token_hex(8)}")
        yield temporary
        os.replace(temporary, target)
    except BaseException as problem:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        if isinstance(problem, OSError):
            rule = "could not be written"
            raise InputError(
                "path", rule, f"{path}: {problem.strerror or first_line(problem)}"
            ) from None
        if type(problem).__module__.startswith("pyarrow"):
            raise InputError(
                "path", "its format must support these columns", f"{path}: {first_line(problem)}"
            ) from None
        raise
