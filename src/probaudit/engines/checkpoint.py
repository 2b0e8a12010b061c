"""A pass that may be interrupted: the state so far, and of which files it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files.writing import write_bytes
from ..states import AuditState
from ..states.storing import pack, unpack
from ..version import __version__

SCHEMA = "probaudit.checkpoint/1"


def save(path: Path, state: AuditState, identity: Mapping[str, Any]) -> None:
    """Write the state down, with what makes its rows the ones they are. Which of them it has seen,
    it knows by itself."""
    content = {"state": np.frombuffer(state.to_bytes(), np.uint8)}
    packed = pack({"schema": SCHEMA, "version": __version__, "identity": identity}, content)
    try:
        write_bytes(path, packed)
    except OSError as problem:
        raise InputError(
            "checkpoint", "must be a file that can be written", f"{path}: {problem.strerror}"
        ) from problem


def load(path: Path, state: AuditState, identity: Mapping[str, Any]) -> AuditState:
    """The state of a checkpoint, to go on with; refused unless it is of the same files, read and
    judged the same way.

    state : an empty one, for the plan.
    """
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise InputError(
            "resume", "must be a checkpoint that can be read", f"{path}: {problem.strerror}"
        ) from None
    header, arrays = unpack(content, SCHEMA)
    try:
        version, then, now = str(header["version"]), header["identity"], identity
        files = [(str(name), int(size), int(time)) for name, size, time in then["files"]]
        rows, choices, stored = int(then["rows"]), str(then["choices"]), arrays["state"].tobytes()
    except (KeyError, TypeError, ValueError):
        raise InputError(
            "resume", f"must be a whole file of the form {SCHEMA}", str(path)
        ) from None
    if version != __version__:
        raise InputError(
            "resume", f"must be a checkpoint of probaudit {__version__}", f"it is of {version}"
        )
    for file, before in zip(map(tuple, now["files"]), files, strict=False):
        if file != before:
            what = (
                f"{file[0]} has changed since" if file[0] == before[0] else f"it is of {before[0]}"
            )
            raise InputError("resume", "must be a checkpoint of the same files", what)
    if now["rows"] != rows or len(now["files"]) != len(files):
        raise InputError(
            "resume", "must be a checkpoint of the same files", f"it is of {rows:,} rows"
        )
    found = AuditState.from_bytes(stored)
    if now["choices"] != choices or found.plan != state.plan:
        raise InputError(
            "resume", "must be a checkpoint of the same columns, classes and choices", str(path)
        )
    if found.covered.end > rows:
        raise InputError(
            "resume",
            "must be a checkpoint of the same files",
            f"it has a row {found.covered.end - 1:,}",
        )
    return found
