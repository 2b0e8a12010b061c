"""Standard input: `-` in place of a file. It is copied to a temporary file, because a command may
read its rows several times."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import Argument, InputError

DASH = Path("-")
NAME = "standard input"
# The first bytes of formats that are not text.
FIRST_BYTES = {
    b"\x1f\x8b": "csv.gz",
    b"\x28\xb5\x2f\xfd": "csv.zst",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"PK\x03\x04": "npz",
    b"\x93NUMPY": "npy",
    b"{": "jsonl",
}
_copies: list[tuple[TemporaryDirectory[str], Path]] = []  # deleted when the program ends


def opened(file: Path, form: str | None) -> Path:
    """The file itself; of standard input, the copy. `form` : the ending that tells its format."""
    if file != DASH:
        if form is not None:
            raise InputError(
                "format",
                "applies to standard input; the ending of a file tells its format",
                form,
                way_out=("leave it out, or pipe the file in and give - as its name",),
            )
        return file
    if _copies:
        raise InputError("source", "standard input can be read only once", "-")
    folder = TemporaryDirectory(prefix="probaudit-")
    path = Path(folder.name, f"standard-input.{(form or 'csv').lstrip('.')}")
    _copies.append((folder, path))
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    if not path.stat().st_size:
        raise InputError(
            "source", "standard input must have rows", "0 bytes", way_out=("pipe a file into it",)
        )
    if form is None:
        _check_text(path)
    return path


def _check_text(path: Path) -> None:
    """Raise if standard input is not text, although no format was given."""
    with path.open("rb") as copy:
        start = copy.read(8).lstrip()
    for first, form in FIRST_BYTES.items():
        if start.startswith(first):
            raise InputError(
                "format",
                "standard input is CSV text unless a format is given",
                f"{form}",
                way_out=("pass ", Argument("format", form)),
            )


def shown(file: Path) -> str:
    """The name of a file in titles."""
    return NAME if file == DASH else file.name


def without_copies(message: str) -> str:
    """A message that names standard input, not its copy."""
    for _, path in _copies:
        message = message.replace(str(path), NAME)
    return message


def forget_copies() -> None:
    """Delete the copies."""
    while _copies:
        _copies.pop()[0].cleanup()
