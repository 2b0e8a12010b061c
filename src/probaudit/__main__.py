"""`python -m probaudit` is the command line."""

from __future__ import annotations

from .cli.commands import app

app(prog_name="probaudit")
