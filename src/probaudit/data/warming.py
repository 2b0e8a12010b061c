"""Compiled code ahead of time, for images of containers."""

from __future__ import annotations

from .work import Progress


def warm_up(*, progress: bool | None = None) -> int:
    """Compile every kernel for ordinary use and store it, so that no later run on this machine
    has to; returns how many were compiled.

    A wheel for this platform contains them, and 0 are compiled. Otherwise this takes some minutes.
    NUMBA_CACHE_DIR selects the folder of compiled code. See docs/first-run.md.

    progress : whether to show a bar; by default, on a terminal.

    >>> warm_up()  # doctest: +SKIP
    0
    """
    from ..kernels.signatures import compile_listed, wanted

    with Progress(len(wanted()), progress, unit="kernels", work="compiling") as bar:
        return compile_listed(bar.advance)
