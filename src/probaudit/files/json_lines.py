"""JSON Lines: files with one JSON object per line, read in blocks of whole lines.

The fields of nested objects become columns: {"score": {"value": 1}} has a column `score.value`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK_BYTES = 2**23  # read at a time; longer lines are read whole


def read_jsonl(path: Path) -> Any:
    """The whole file as an Arrow table."""
    import pyarrow as pa

    parts = [table for table, _ in each_block(path)]
    if not parts:
        raise ValueError("the file is empty")
    return flat(pa.concat_tables(parts, promote_options="permissive"))


def each_block(path: Path, schema: Any = None) -> Iterator[tuple[Any, int]]:
    """Blocks of rows as Arrow tables with nested objects, each with the bytes read so far.

    schema : of the fields to read; by default all, with the types of each block.
    """
    import pyarrow as pa
    from pyarrow import json

    parse = json.ParseOptions(
        explicit_schema=schema,
        unexpected_field_behavior="infer" if schema is None else "ignore",
    )
    read = 0
    for block in _line_blocks(path):
        read += len(block)
        whole = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        yield json.read_json(pa.BufferReader(block), whole, parse), read


def flat(table: Any) -> Any:
    """The table with the fields of nested objects as columns."""
    import pyarrow as pa

    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _line_blocks(path: Path) -> Iterator[bytes]:
    """Blocks of whole lines; a compressed file is decompressed."""
    import pyarrow as pa

    rest = b""
    with pa.input_stream(str(path)) as file:
        while block := file.read(BLOCK_BYTES):
            lines, newline, after = (rest + block).rpartition(b"\n")
            rest = after
            if lines.strip():
                yield lines + newline
    if rest.strip():
        yield rest
