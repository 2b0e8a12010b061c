"""The command line. `main` is its entry point; `commands.app` has the commands."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Where a package that it needs is missing, say how to install it."""
    try:
        from .commands import app
    except ModuleNotFoundError as problem:
        from ..data.extras import how_to_install

        print(f"error: {how_to_install(problem)}", file=sys.stderr)
        raise SystemExit(2) from None
    app(prog_name="probaudit")
