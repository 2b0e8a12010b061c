"""Reading CSV and TSV files, whole or in batches, with the same options and column types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .paths import form_of, separator_of

BLOCK_BYTES = 2**23  # read at a time; the maximum length of a line
NOT_UTF8 = "text must be encoded as UTF-8"
CONVERSION_ERROR = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to [^:]*:[^']*(?:'(.*)')?", re.S
)


def read_csv(path: Path) -> Any:
    """The whole file as an Arrow table. Arrow infers each column's type from all its values."""
    from pyarrow import csv

    check_separator(path)
    return csv.read_csv(path, *_options(path))


def open_csv(
    path: Path, columns: Sequence[str] | None = None, types: Mapping[str, Any] | None = None
) -> Any:
    """A reader of Arrow batches. Types that are not given are inferred from the first block only;
    `count_rows` finds the types that hold all values."""
    from pyarrow import csv

    return csv.open_csv(
        path,
        *_options(path),
        csv.ConvertOptions(include_columns=columns, column_types=types),
    )


def count_rows(
    path: Path, names: Sequence[str], types: dict[str, Any], progress: Callable[[int], None]
) -> tuple[int, dict[str, Any]]:
    """The number of rows, and the first types in Arrow's order of inference that hold every value.

    names : all columns of the file. types : a first guess for the columns that are needed.
    progress : called with the number of bytes read so far.
    """
    import pyarrow as pa

    while True:
        try:
            with open_csv(path, list(types), types) as reader:
                rows = 0
                for i, batch in enumerate(reader, 1):
                    rows += batch.num_rows
                    progress(i * BLOCK_BYTES)
            return rows, types
        except pa.ArrowInvalid as problem:
            found = CONVERSION_ERROR.search(str(problem))
            name = names[int(found[1])] if found else None
            wider = _wider(types[name], found[2]) if found and name in types else None
            if name is None or wider is None:
                raise
            types = {**types, name: wider}


def _wider(kind: Any, value: str | None) -> Any | None:
    """The next type in Arrow's order of inference that may hold a value; None after the last."""
    import pyarrow as pa

    order = [
        pa.null(),
        pa.int64(),
        pa.bool_(),
        pa.date32(),
        pa.time32("s"),
        pa.timestamp("s"),
        pa.timestamp("s", "UTC"),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.float64(),
        pa.string(),
        pa.binary(),
    ]
    if kind not in order:
        return pa.string()
    later = order[order.index(kind) + 1 :]
    # No type before the value's own one holds it: the file need not be read for them.
    own = None if value is None else _type_of_value(value)
    return own if own in later else next(iter(later), None)


def _type_of_value(value: str) -> Any:
    """The type that Arrow infers for a single value."""
    import pyarrow as pa
    from pyarrow import csv

    quoted = value.replace('"', '""')
    table = csv.read_csv(
        pa.BufferReader(f'"value"\n"{quoted}"\n'.encode("utf-8", "surrogateescape")),
        parse_options=csv.ParseOptions(newlines_in_values=True),
    )
    return table.schema.types[0]


def _options(path: Path) -> tuple[Any, Any]:
    from pyarrow import csv

    return (
        csv.ReadOptions(block_size=BLOCK_BYTES),
        csv.ParseOptions(delimiter=separator_of(path)),
    )


def check_separator(path: Path) -> None:
    """Raise if the header has a separator that does not match the ending of the file name."""
    with path.open("rb") as file:
        header = file.readline(2**16).decode("latin-1")
    wanted = separator_of(path)
    found = next((sign for sign in ";\t|," if sign in header and wanted not in header), None)
    if found is not None and "\0" not in header:
        rule = f"values must be separated by {'commas' if wanted == ',' else 'tabs'}"
        raise InputError("source", rule, f"{found!r} in {path}")


def check_text(types: Mapping[str, Any], path: Path) -> None:
    """Raise if a column of a CSV file is not UTF-8. Arrow reads such a column as bytes."""
    odd = [name for name, kind in types.items() if str(kind) in ("binary", "large_binary")]
    if odd and form_of(path) == "csv":
        raise InputError("source", NOT_UTF8, f"{path}: column {odd[0]!r} is not UTF-8")
