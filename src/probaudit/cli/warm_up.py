"""The command `warm-up`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..data.warming import warm_up as compile_all
from .outputs import console


def warm_up(
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="processes that compile at the same time; one per core if absent"),
    ] = None,
) -> None:
    """Compile everything ahead, for the image of a container.

    Later runs load the compiled code. NUMBA_CACHE_DIR selects its folder.
    """
    compiled = compile_all(jobs=jobs)
    console().print(f"Kernels compiled: {compiled}. The others were compiled before.")
