"""Compiled code ahead of time, for images of containers."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .work import Progress, default_threads

# Reads a part of the list of signatures. Prints a dot for each, and then how many were compiled.
_COMPILE = """
import json, sys
from probaudit.kernels import signatures
part = json.load(sys.stdin)
signatures.listed = lambda: part
print(signatures.compile_listed(lambda one: print(end=".", flush=True)))
"""


def warm_up(*, jobs: int | None = None, progress: bool | None = None) -> int:
    """Compile every kernel for ordinary use and store it, so that no later run on this machine
    has to; returns how many were compiled.

    A wheel for this platform contains them, and 0 are compiled. Otherwise this takes some minutes.
    NUMBA_CACHE_DIR selects the folder of compiled code. See docs/first-run.md.

    jobs : how many processes compile at the same time; by default one for each core.
    progress : whether to show a bar; by default, on a terminal.

    >>> warm_up()  # doctest: +SKIP
    0
    """
    from ..kernels.signatures import compile_listed, listed, wanted

    jobs = jobs or default_threads()
    with Progress(len(wanted()), progress, unit="kernels", work="compiling") as bar:
        if jobs == 1:
            return compile_listed(bar.advance)
        parts: list[dict[str, list[Any]]] = [{} for _ in range(jobs)]
        single = [(name, one) for name, signatures in listed().items() for one in signatures]
        for place, (name, signature) in enumerate(single):
            parts[place % jobs].setdefault(name, []).append(signature)
        with ThreadPoolExecutor(jobs) as pool:
            compiled = list(pool.map(lambda part: _compiled(part, bar), parts))
    return sum(compiled) + compile_listed()  # loads them, and compiles what no process did


def _compiled(part: dict[str, list[Any]], bar: Progress) -> int:
    """How many signatures another process compiled; 0 if it could not."""
    command, pipe = [sys.executable, "-c", _COMPILE], subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(part))
        process.stdin.close()
        while (read := process.stdout.read(1)) == ".":
            bar.advance(1)
        rest = read + process.stdout.read()
    return int(rest) if process.returncode == 0 else 0
