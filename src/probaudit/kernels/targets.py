"""The processors for which wheels contain compiled kernels."""

from __future__ import annotations

import functools
import platform

import numba

# The levels of the x86-64 psABI, as LLVM spells their features.
_V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"

# By machine, best first: name and features as numba.config takes them (CPU_NAME, CPU_FEATURES), and
# what a machine needs. Without `-prefer-256-bit`, level 4 would use half of its vectors.
_X86 = [("x86-64-v4", "-prefer-256-bit", _V4), ("x86-64-v3", "", _V3)]
_ARM = [("generic", "", "neon")]
TARGETS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def targets() -> list[tuple[str, str]]:
    """Name and features of each target of this kind of machine, best first."""
    return [(name, features) for name, features, _ in TARGETS.get(platform.machine().lower(), [])]


@functools.cache
def runnable_targets() -> list[tuple[str, str]]:
    """The targets whose code this machine runs, unless the user chose one for numba."""
    chosen = (numba.config.CPU_NAME, numba.config.CPU_FEATURES) != (None, None)
    if chosen or not numba.config.ENABLE_AVX:
        return []
    try:
        from llvmlite.binding import get_host_cpu_features

        has = get_host_cpu_features()
    except Exception:  # LLVM does not know the machine: compile
        return []
    known = TARGETS.get(platform.machine().lower(), [])
    return [
        (name, features)
        for name, features, needs in known
        if all(has.get(feature) for feature in needs.split())
    ]
