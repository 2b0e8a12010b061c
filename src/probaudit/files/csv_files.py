"""Reading CSV and TSV files, whole or in batches, with the same options and column types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import Argument, InputError
from .dialect import COMMAS, Dialect
from .paths import form_of

BLOCK_BYTES = 2**23  # read at a time; the maximum length of a line
NOT_UTF8 = "text must be encoded as UTF-8"
CONVERSION_ERROR = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to [^:]*:[^']*(?:'(.*)')?", re.S
)


def read_csv(path: Path, dialect: Dialect = COMMAS) -> Any:
    """The whole file as an Arrow table. Arrow infers each column's type from all its values."""
    from pyarrow import csv

    check_separator(path, dialect)
    return csv.read_csv(path, *_options(path, dialect))


def open_csv(
    path: Path,
    columns: Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
    dialect: Dialect = COMMAS,
) -> Any:
    """A reader of Arrow batches. Types that are not given are inferred from the first block only;
    `count_rows` finds the types that hold all values."""
    from pyarrow import csv

    return csv.open_csv(
        path,
        *_options(path, dialect, include_columns=columns, column_types=types),
    )


def count_rows(
    path: Path,
    names: Sequence[str],
    types: dict[str, Any],
    progress: Callable[[int], None],
    dialect: Dialect = COMMAS,
) -> tuple[int, dict[str, Any]]:
    """The number of rows, and the first types in Arrow's order of inference that hold every value.

    names : all columns of the file. types : a first guess for the columns that are needed.
    progress : called with the number of bytes read so far.
    """
    import pyarrow as pa

    while True:
        try:
            with open_csv(path, list(types), types, dialect) as reader:
                rows = 0
                for i, batch in enumerate(reader, 1):
                    rows += batch.num_rows
                    progress(i * BLOCK_BYTES)
            return rows, types
        except pa.ArrowInvalid as problem:
            found = CONVERSION_ERROR.search(str(problem))
            name = names[int(found[1])] if found else None
            value = None if found is None else found[2]
            wider = _wider(types[name], value, dialect) if name in types else None
            if name is None or wider is None:
                raise
            types = {**types, name: wider}


def _wider(kind: Any, value: str | None, dialect: Dialect = COMMAS) -> Any | None:
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
    own = None if value is None else _type_of_value(value, dialect)
    return own if own in later else next(iter(later), None)


def _type_of_value(value: str, dialect: Dialect = COMMAS) -> Any:
    """The type that Arrow infers for a single value."""
    import pyarrow as pa
    from pyarrow import csv

    quoted = value.replace('"', '""')
    table = csv.read_csv(
        pa.BufferReader(f'"value"\n"{quoted}"\n'.encode("utf-8", "surrogateescape")),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(decimal_point=dialect.decimal),
    )
    return table.schema.types[0]


def _options(path: Path, dialect: Dialect, **columns: Any) -> tuple[Any, Any, Any]:
    from pyarrow import csv

    return (
        csv.ReadOptions(block_size=BLOCK_BYTES),
        csv.ParseOptions(delimiter=dialect.separator(path)),
        csv.ConvertOptions(decimal_point=dialect.decimal, **columns),
    )


def check_separator(path: Path, dialect: Dialect = COMMAS) -> None:
    """Raise if the header has another separator than the dialect."""
    import pyarrow as pa

    with pa.input_stream(str(path)) as file:  # decompresses
        first = file.read(2**16)
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(
            "source", NOT_UTF8, f"{path} is UTF-16", way_out=("save it as CSV in UTF-8",)
        )
    header = first.partition(b"\n")[0].decode("latin-1")
    wanted = dialect.separator(path)
    found = next((sign for sign in ";\t|," if sign in header and wanted not in header), None)
    if found is not None and "\0" not in header:
        names = {",": "commas", "\t": "tabs"}
        rule = f"values must be separated by {names.get(wanted, repr(wanted))}"
        sep = "tab" if found == "\t" else f"'{found}'"
        raise InputError(
            "source", rule, f"{found!r} in {path}", way_out=("pass ", Argument("sep", sep))
        )


def check_text(types: Mapping[str, Any], path: Path) -> None:
    """Raise if a column of a CSV file is not UTF-8. Arrow reads such a column as bytes."""
    odd = [name for name, kind in types.items() if str(kind) in ("binary", "large_binary")]
    if odd and form_of(path) == "csv":
        raise InputError("source", NOT_UTF8, f"{path}: column {odd[0]!r} is not UTF-8")
