"""The command `warm-up`."""

from __future__ import annotations

from ..data.warming import warm_up as compile_all
from .outputs import console


def warm_up() -> None:
    """Compile everything ahead, for the image of a container.

    Later runs load the compiled code. NUMBA_CACHE_DIR selects its folder.
    """
    console().print(f"Kernels compiled: {compile_all()}. The others were compiled before.")
