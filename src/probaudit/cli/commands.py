"""The command line, `probaudit COMMAND`. Each command is a function in a module of its own subject;
this module registers them.

Exit codes: 0 success, 1 a failed check or an alarm, 2 invalid input, 3 an internal error.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..version import __version__
from .apply import apply
from .audit import audit, check
from .calibrate import calibrate
from .compare import compare
from .demo import demo
from .given_options import Command, in_paragraphs
from .monitor import monitor
from .multilabel import multilabel
from .outputs import print_in_ascii
from .reproduce import reproduce
from .running import with_quiet
from .warm_up import warm_up

INTERNAL_ERROR = 3


class Commands(TyperGroup):
    """All commands. Their help and their errors, too, suit the encoding of the terminal. A crash
    exits with 3, never with the 1 of a failed check."""

    def main(self, *args: Any, **options: Any) -> Any:
        print_in_ascii()
        try:
            return super().main(*args, **options)
        except Exception as problem:
            traceback.print_exc()
            typer.echo(f"internal error: {type(problem).__name__}: {problem}", err=True)
            typer.echo("This is a bug: please report it with the lines above.", err=True)
            sys.exit(INTERNAL_ERROR)


app = typer.Typer(
    cls=Commands,
    help="Can your classifier's probabilities be trusted? Start with `probaudit audit FILE`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Judge": (audit, check, compare, multilabel, monitor),
    "Repair": (calibrate, apply),
    "Learn": (demo, reproduce),
    "Install": (warm_up,),
}
for panel, functions in PANELS.items():
    for function in functions:
        app.command(cls=Command, rich_help_panel=panel, help=in_paragraphs(function))(
            with_quiet(function)
        )


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
