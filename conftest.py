"""Examples of modules that need torch are not run without it."""

from __future__ import annotations

from importlib.util import find_spec

TORCH = ("losses", "mixing", "networks")

collect_ignore = (
    [] if find_spec("torch") else [f"src/probaudit/training/{name}.py" for name in TORCH]
)
