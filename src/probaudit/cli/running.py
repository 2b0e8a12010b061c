"""Run a command in steps, each of which declares its own options, and keep checkpoints until the
last step is done."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.work import SILENT
from .options import WRITTEN
from .outputs import check_outputs

Options = Mapping[str, Any]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="print only errors, failed thresholds, alarms, and JSON that goes to -",
        rich_help_panel=WRITTEN,
    ),
]


def one_checkpoint(options: Options) -> list[Path]:
    """The checkpoint of a command that reads one set of rows."""
    return [] if options["checkpoint"] is None else [options["checkpoint"]]


def in_steps(
    *steps: Callable[..., Any],
    check: Callable[[Options], object] | None = None,
    checkpoints: Callable[[Options], Sequence[Path]] = one_checkpoint,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate the last step of a command. Each step takes the result of the previous one as its
    first argument; the options of all steps become those of the command.

    check : checks options before any work.
    checkpoints : the checkpoint files of the command, given its options.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        functions = (*steps, command)
        chain = [dict(inspect.signature(f, eval_str=True).parameters) for f in functions]
        for parameters in chain[1:]:
            del parameters[next(iter(parameters))]  # the result of the previous step

        @functools.wraps(command)
        def run(**options: Any) -> None:
            with kept_until_done(checkpoints(options)):
                check_outputs(options)
                if check is not None:
                    check(options)
                result: tuple[Any, ...] = ()
                for function, parameters in zip(functions, chain, strict=True):
                    result = (function(*result, **{name: options[name] for name in parameters}),)

        merged = dict(chain[-1])  # help lists the options of the last step first
        for parameters in reversed(chain[:-1]):
            merged |= parameters
        keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in merged.values()]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in merged.items()}
        return run

    return decorate


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option --quiet."""
    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )

    @functools.wraps(command)
    def run(*, quiet: bool, **options: Any) -> None:
        before = SILENT.set(quiet)
        try:
            command(**options)
        finally:
            SILENT.reset(before)

    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def kept_until_done(checkpoints: Sequence[Path]) -> Iterator[None]:
    """Delete checkpoints once the work is done and outputs are written. If the user interrupts the
    work, keep them and say how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        kept = ", ".join(str(path) for path in checkpoints if path.exists())
        if kept:
            typer.echo(
                f"\nInterrupted. Progress is saved in {kept}: repeat the command with --resume.",
                err=True,
            )
        raise
    except typer.Exit:  # a failed check is complete too
        _delete(checkpoints)
        raise
    _delete(checkpoints)


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
