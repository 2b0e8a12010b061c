"""What commands share: their options, the order in which options were given, and errors that name
options."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from ..engines.cluster import ClusterError
from ..errors import Argument, InputError

ORDER = "probaudit.order"
NAMING = (
    "label",
    "probs",
    "logits",
    "log_probs",
    "confidence",
    "correct",
    "weight",
    "features",
    "groups",
    "clusters",
    "name",
)
# An argument in Python, and the parameter of a command for the same thing; of two, the one that the
# command has.
PARAMETERS = (
    ("calibrator", "method"),
    ("columns", "groups"),
    ("cv", "folds"),
    ("from_logits", "logits"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("on_bad_rows", "drop_bad_rows"),
    ("path", "output"),
    ("regions", "groups"),
    ("source", "file"),
    ("source", "files"),
)


class Command(TyperCommand):
    """Reports invalid input, or a lost Dask cluster, in one line, with exit code 2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (InputError, ClusterError) as error:
            words = (
                error.message(option_names(ctx)) if isinstance(error, InputError) else str(error)
            )
            typer.echo(f"error: {words}", err=True)
            raise typer.Exit(2) from None


def in_order(context: typer.Context, *names: str) -> list[tuple[str, str]]:
    """The values of repeatable options, each with its option, in the order of the command
    line."""
    values = {name: iter(context.params[name]) for name in names}
    return [(name, next(values[name])) for name in context.meta[ORDER] if name in values]


def given(context: typer.Context, *names: str) -> list[str]:
    """The given options among `names`, spelled for another command."""
    words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if (
            parameter.name in names
            and value != parameter.get_default(context)
            and value is not None
        ):
            words += [_spelled(parameter)] if value is True else [_spelled(parameter), str(value)]
    return words


def line(*words: Any) -> str:
    """A command as typed into a shell."""
    return shlex.join(["probaudit", *map(str, words)])


def option_names(context: typer.Context) -> Callable[[Argument], str]:
    """How this command spells the arguments of Python functions: as its own options. Names of
    columns and models are left alone."""
    options = {str(parameter.name): _spelled(parameter) for parameter in context.command.params}
    for argument, name in PARAMETERS:
        if name in options:
            options.setdefault(argument, options[name])
    for name in _names(context.params):
        options.pop(name, None)

    def spell(argument: Argument) -> str:
        known = options.get(argument.name)
        return str(argument) if known is None else f"`{known}`"

    return spell


def _names(params: Mapping[str, Any]) -> set[str]:
    """Names of columns and models that were given, except those equal to the name of their
    option."""
    values = {name: params.get(name) or () for name in NAMING}
    several = {name: [value] if isinstance(value, str) else value for name, value in values.items()}
    return {
        part.strip()
        for name, each in several.items()
        for value in each
        for part in value.split(",")
        if part != name
    }


def _spelled(parameter: Any) -> str:
    """An option with its dashes; an argument as the help shows it."""
    return (
        max(parameter.opts, key=len)
        if parameter.param_type_name == "option"
        else str(parameter.name).upper()
    )


def takes(
    *makers: Callable[..., Any], first: Callable[[dict[str, Any]], Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of functions that make its first argument, each from the result
    of the function before it.

    first : checks all options before any work.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        chain = [dict(inspect.signature(f, eval_str=True).parameters) for f in (*makers, command)]
        for parameters in chain[1:]:
            del parameters[next(iter(parameters))]  # the result of the function before

        @functools.wraps(command)
        def run(**options: Any) -> None:
            with checkpointed([] if options["checkpoint"] is None else [options["checkpoint"]]):
                check_outputs(options)
                if first is not None:
                    first(options)
                made: tuple[Any, ...] = ()
                for function, parameters in zip((*makers, command), chain, strict=True):
                    made = (function(*made, **{name: options[name] for name in parameters}),)

        merged = {"file": chain[0]["file"]} | chain[-1] | chain[0]
        for parameters in chain[1:-1]:
            merged |= parameters
        run.__signature__ = inspect.Signature(list(merged.values()))  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in merged.items()}
        return run

    return decorate


def check_outputs(options: dict[str, Any]) -> None:
    """Check that output files can be written, before any work."""
    for name in ("json", "html", "output", "checkpoint"):
        path = options.get(name)
        if (
            path is not None
            and path != "-"
            and (Path(path).is_dir() or not Path(path).parent.is_dir())
        ):
            raise InputError(name, "must be a file in a folder that exists", str(path))


@contextmanager
def checkpointed(paths: list[Path]) -> Iterator[None]:
    """Keep checkpoints until the work is done and outputs are written."""
    try:
        yield
    except KeyboardInterrupt:
        kept = ", ".join(str(path) for path in paths if path.exists())
        if kept:
            typer.echo(
                f"\nInterrupted. Progress is saved in {kept}: repeat the command with --resume.",
                err=True,
            )
        raise
    except typer.Exit:  # a failed check is complete too
        _remove(paths)
        raise
    _remove(paths)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
