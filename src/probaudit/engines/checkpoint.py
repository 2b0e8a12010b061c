"""Checkpoints of an interrupted pass: the state so far, and the identity of its files."""

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
    """Save the state and the identity of its rows (`RowSource.identity`). The state itself knows
    which rows it covers."""
    content = {"state": np.frombuffer(state.to_bytes(), np.uint8)}
    packed = pack({"schema": SCHEMA, "version": __version__, "identity": identity}, content)
    try:
        write_bytes(path, packed)
    except InputError as problem:
        raise InputError("checkpoint", problem.rule, problem.value) from None


def load(path: Path, state: AuditState, identity: Mapping[str, Any]) -> AuditState:
    """The state of a checkpoint, from which a pass continues. Raises unless it was made from the
    same files with the same options.

    state : an empty state with the plan of the pass.
    """
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise InputError(
            "resume", "must be a readable checkpoint", f"{path}: {problem.strerror}"
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
            "resume", f"must be a checkpoint of probaudit {__version__}", f"version {version}"
        )
    for file, before in zip(map(tuple, now["files"]), files, strict=False):
        if file != before:
            changed = file[0] == before[0]
            found = f"{file[0]} has changed since" if changed else f"it is of {before[0]}"
            raise InputError("resume", "must be a checkpoint of the same files", found)
    if now["rows"] != rows or len(now["files"]) != len(files):
        raise InputError(
            "resume", "must be a checkpoint of the same files", f"it is of {rows:,} rows"
        )
    restored = AuditState.from_bytes(stored)
    if now["choices"] != choices or restored.plan != state.plan:
        raise InputError(
            "resume", "must be a checkpoint of the same columns, classes and choices", str(path)
        )
    if restored.covered.end > rows:
        raise InputError(
            "resume",
            "must be a checkpoint of the same files",
            f"it has a row {restored.covered.end - 1:,}",
        )
    return restored
