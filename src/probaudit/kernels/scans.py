"""Scans of sixteen rows along their classes: generated vector instructions, or plain loops."""

from __future__ import annotations

from .numba_private import LLVM, works

if works(LLVM):
    from .llvm_sixteen import largest_ten, scan_sixteen
else:
    from .plain_vectors import largest_ten

    scan_sixteen = None  # only columns that are read by address need it

__all__ = ["largest_ten", "scan_sixteen"]
