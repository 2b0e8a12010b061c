"""What a command writes: files, checked before any work, and the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

import typer

from ..audits.result import Result
from ..errors import InputError

FILES = ("json", "html", "output", "checkpoint")  # options that name a file to write


def check_outputs(options: Mapping[str, Any]) -> None:
    """Check that output files can be written."""
    for name in FILES:
        path = options.get(name)
        if path is None or path == "-":
            continue
        if Path(path).is_dir() or not Path(path).parent.is_dir():
            raise InputError(name, "must be a file in a folder that exists", str(path))


def write_results(result: Result, json: str | None, html: Path | None, title: str = "") -> None:
    """Write the JSON and the report that were requested."""
    if html is not None:
        result.to_html(html, title=title)
    if json == "-":
        sys.stdout.write(result.to_json())
    elif json is not None:
        result.to_json(json)


def print_report_path(html: Path | None) -> None:
    if html is not None:
        typer.echo(f"\nReport written to {html}")


ASCII = str.maketrans(
    {"→": "->", "✗": "x", "✓": "+", "·": "-", "−": "-", "–": "-", "∞": "inf", "≤": "<=", "²": "^2"}
)


class _PlainOutput:
    """Standard output that writes what its encoding can print."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        plain = text.translate(ASCII).encode(self.encoding, "replace").decode(self.encoding)
        return self._stream.write(plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console() -> Any:
    """A console; signs that the encoding of the terminal lacks are replaced by ASCII."""
    from rich.console import Console

    try:
        "".join(map(chr, ASCII)).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return Console(highlight=False, file=cast(TextIO, _PlainOutput(sys.stdout)))
    return Console(highlight=False)
