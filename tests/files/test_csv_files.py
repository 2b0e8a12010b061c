"""A CSV file gives the same types, whether it is read whole or in batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from probaudit.files import csv_files
from probaudit.files.csv_files import count_rows, open_csv, read_csv

PAIRS = [
    ("1", "true"),
    ("1", "1.5"),
    ("1", "2020-01-01"),
    ("2020-01-01", "1"),
    ("2020-01-01", "2020-01-01 10:00:00"),
    ("2020-01-01 10:00:00", "2020-01-01 10:00:00.123"),
    ("2020-01-01 10:00:00", "2020-01-01 10:00:00Z"),
    ("", "2020-01-01 10:00:00.5Z"),
    ("", "true"),
    ("true", "2.5"),
    ("10:00", "10:00:00.5"),
    ("1", '"a ""b"" c"'),
    ("1", "\xff"),
]


@pytest.mark.parametrize(("first", "last"), PAIRS)
def test_types_do_not_depend_on_the_way_of_reading(tmp_path: Path, monkeypatch, first, last):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2**12)
    path = tmp_path / "x.csv"
    rows = [f"{first},{i}" for i in range(2000)]
    path.write_text("\n".join(["a,b", *rows, f"{last},1", ""]), encoding="latin-1")
    whole = read_csv(path)
    with open_csv(path) as reader:
        schema = reader.schema
    guess = dict(zip(schema.names, schema.types, strict=True))
    n, types = count_rows(path, schema.names, guess, lambda read: None)
    assert guess["a"] != types["a"]
    assert (n, list(types.values())) == (len(whole), list(whole.schema.types))
