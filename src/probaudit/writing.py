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


def write_table(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Columns as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    with _replacing(path) as name:
        parquet.write_table(pa.table({key: pa.array(column) for key, column in columns.items()}), name)


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
