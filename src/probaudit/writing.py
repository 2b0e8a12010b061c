"""Files are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from .errors import InputError


def write_text(path: Path, text: str) -> None:
    with _replacing(path) as name:
        name.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    with _replacing(path) as name:
        name.write_bytes(content)


def write_table(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Columns as a .parquet or .csv file; a matrix becomes a column of lists."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise InputError("output", "must end in .parquet or .csv", str(path))
    table = pa.table({key: pa.array(column if column.ndim == 1 else list(column)) for key, column in columns.items()})
    with _replacing(path) as name:
        if path.suffix.lower() == ".csv":
            csv.write_csv(table, name)
        else:
            parquet.write_table(table, name)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside the path, moved to it at the end: a reader never sees half a file."""
    if not path.parent.is_dir():
        raise InputError("path", "its folder must exist", str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
