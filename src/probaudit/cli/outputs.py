"""What a command writes: files, checked before any work, and the terminal."""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import typer

from ..audits.result import Result, json_text
from ..data.work import SILENT
from ..errors import InputError
from ..files.writing import write_text

FILES = ("json", "html", "output", "checkpoint")  # options that name a file to write


def check_outputs(options: Mapping[str, Any]) -> None:
    """Check that output files can be written."""
    for name in FILES:
        path = options.get(name)
        if path is None or path == "-":
            continue
        if Path(path).is_dir() or not Path(path).parent.is_dir():
            way_out = ("name a file",) if Path(path).is_dir() else ("create the folder",)
            rule = "must be a file in a folder that exists"
            raise InputError(name, rule, str(path), way_out=way_out)


def write_results(result: Result, json: str | None, html: Path | None, title: str = "") -> None:
    """Write the JSON and the report that were requested."""
    if html is not None:
        with naming("html"):
            result.to_html(html, title=title)
    if json is not None:
        write_json(json, result.to_dict())


def write_json(path: str, content: Mapping[str, Any]) -> None:
    """Write plain values as JSON to a file, or to - for standard output."""
    if path == "-":
        typer.echo(json_text(content), nl=False)
    else:
        with naming("json"):
            write_text(Path(path), json_text(content))


@contextmanager
def naming(option: str) -> Iterator[None]:
    """An error of the file that is written names the option that asked for it."""
    try:
        yield
    except InputError as problem:
        if problem.argument != "path":
            raise
        raise InputError(option, problem.rule, problem.value, way_out=problem.way_out) from None


def say(text: str) -> None:
    """Print a line, unless the command is quiet."""
    if not SILENT.get():
        typer.echo(text)


def print_report_path(html: Path | None) -> None:
    if html is not None:
        say(f"\nReport written to {html}")


# signs that an encoding may lack, and what is printed then
ASCII = {
    "→": "->",
    "✗": "x",
    "✓": "+",
    "·": "-",
    "−": "-",
    "–": "-",
    "∞": "inf",
    "≤": "<=",
    "²": "^2",
    "†": "~",
    "…": "...",
    "\u2007": " ",
}
LONGER = 2  # letters by which a line grows, such as by an arrow


def print_in_ascii() -> None:
    """Print signs that the encoding of a terminal lacks in ASCII, on both standard streams."""
    codecs.register_error("in_ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="in_ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(ASCII.get(letter, "?") for letter in missing), error.end


class _Trimmed:
    """Standard output without blanks at the ends of lines, which tables have."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(" +$", "", text, flags=re.MULTILINE))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console() -> Any:
    """A console, silent if the command is quiet. What a file or another program reads has no blanks
    at the ends of lines."""
    from rich.console import Console

    stream = sys.stdout if sys.stdout.isatty() else cast(TextIO, _Trimmed(sys.stdout))
    found = Console(highlight=False, file=stream, quiet=SILENT.get())
    if not found.encoding.startswith("utf"):
        found.width -= LONGER
    return found
