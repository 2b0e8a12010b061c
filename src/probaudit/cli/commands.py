"""The command line, `probaudit COMMAND`. Each command is a function in a module of its own subject;
this module registers them.

Exit codes: 0 success, 1 a failed check, 2 invalid input.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..version import __version__
from .apply import apply
from .audit import audit, check
from .calibrate import calibrate
from .compare import compare
from .demo import demo
from .given_options import Command
from .multilabel import multilabel
from .outputs import print_in_ascii
from .reproduce import reproduce
from .warm_up import warm_up


class Commands(TyperGroup):
    """All commands. Their help and their errors, too, suit the encoding of the terminal."""

    def main(self, *args: Any, **options: Any) -> Any:
        print_in_ascii()
        return super().main(*args, **options)


app = typer.Typer(
    cls=Commands,
    help="Can your classifier's probabilities be trusted? Start with `probaudit audit FILE`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for function in (audit, check, compare, multilabel, calibrate, apply, demo, reproduce, warm_up):
    app.command(cls=Command)(function)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"probaudit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass


if __name__ == "__main__":
    app()
