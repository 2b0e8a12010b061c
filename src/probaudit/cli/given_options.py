"""The options that the user gave: their order, their spelling in other commands, and errors that
name options instead of Python arguments."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand

from ..data.extras import how_to_install
from ..engines.cluster import ClusterError
from ..errors import Argument, InputError
from .options import OUTPUTS
from .standard_input import forget_copies, without_copies

CLOSED_PIPE = 141  # as of a program that SIGPIPE ends
FULL = (errno.ENOSPC, errno.EDQUOT)
ORDER = "probaudit.order"  # key of the order of options in the context of a command
# Options whose values are names of columns or models.
NAMING = (
    "label",
    "labels",
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
# Python arguments, each with the parameter of a command that has another name. If an argument is
# listed twice, the command has one of the two parameters.
PARAMETERS = (
    ("calibrator", "method"),
    ("columns", "groups"),
    ("cross", "groups"),
    ("cv", "folds"),
    ("format", "form"),
    ("y_true", "labels"),
    ("y_proba", "probs"),
    ("from_logits", "logits"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("on_bad_rows", "drop_bad_rows"),
    ("path", "output"),
    ("regions", "groups"),
    ("source", "file"),
    ("source", "files"),
    ("source", "days"),
)


class Command(TyperCommand):
    """Prints invalid input, the loss of a Dask cluster, or a missing package, as one line; the exit
    code is 2. A reader that closes the pipe, such as `head`, ends the command as it does others."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        self._check_values(ctx, values)
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        try:
            return super().parse_args(ctx, args)
        except Exception as problem:  # a usage error, whose class typer does not export
            if "unexpected extra argument" in str(getattr(problem, "message", "")):
                problem.message += ". Quote a pattern, such as 'day-*.csv'."  # type: ignore[attr-defined]
            raise

    def _check_values(self, ctx: Any, values: Mapping[str, Any]) -> None:
        """Raise if an option has the next option as its value."""
        options = {text for parameter in self.params for text in parameter.opts}
        for parameter in self.params:
            given = values.get(parameter.name or "")
            for value in given if isinstance(given, list) else [given]:
                if parameter.param_type_name == "option" and value in options:
                    message = f"needs a value (found: the next option, {value})."
                    raise typer.BadParameter(message, ctx=ctx, param_hint=_spelled(parameter))

    def invoke(self, ctx: Any) -> Any:
        try:
            _check_given_once(ctx)
            return super().invoke(ctx)
        except (InputError, ClusterError) as error:
            spell = option_names(ctx)
            message = error.message(spell) if isinstance(error, InputError) else str(error)
            typer.echo(f"error: {without_copies(message)}", err=True)
            raise typer.Exit(2) from None
        except ImportError as problem:
            missing = how_to_install(problem)
            if missing is None:
                raise
            typer.echo(f"error: {missing}", err=True)
            raise typer.Exit(2) from None
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(CLOSED_PIPE) from None
        except OSError as problem:
            if problem.errno not in FULL:
                raise
            _drop_output()
            typer.echo(f"error: output could not be written: {problem.strerror}", err=True)
            raise typer.Exit(2) from None
        finally:
            forget_copies()


def _drop_output() -> None:
    """Send what is left of standard output nowhere, or its last flush would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_given_once(context: Any) -> None:
    """Raise if an option that names columns is repeated: only the last value would count."""
    for parameter in context.command.params:
        name, times = parameter.name, context.meta[ORDER].count(parameter.name)
        if name in NAMING and times > 1 and not getattr(parameter, "multiple", False):
            several = name in (*OUTPUTS, "features", "labels")
            way_out = ("separate several columns with commas",) if several else ()
            raise InputError(name, "must be given once", f"{times} times", way_out=way_out)


def in_paragraphs(command: Callable[..., None]) -> str:
    """The docstring of a command with one line per paragraph, which the help wraps."""
    text = cleandoc(command.__doc__ or "")
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def in_order(context: typer.Context, *names: str) -> list[tuple[str, str]]:
    """The values of repeatable options, each with the name of its option, in the order given."""
    values = {name: iter(context.params[name]) for name in names}
    return [(name, next(values[name])) for name in context.meta[ORDER] if name in values]


def given(context: typer.Context, *names: str) -> list[str]:
    """The options among `names` that differ from their defaults, as words of a command."""
    words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        default = parameter.get_default(context)
        if parameter.name in names and value is not None and value != default:
            words += [_spelled(parameter)] if value is True else [_spelled(parameter), str(value)]
    return words


def outputs_for_apply(context: typer.Context) -> list[str]:
    """The options with which `apply` reads the same outputs."""
    confidence = context.params.get("confidence")
    outputs = given(context, *OUTPUTS) if confidence is None else ["--probs", confidence]
    return [*outputs, *given(context, "tolerance", "sep", "decimal")]


def command_line(*words: Any) -> str:
    """A command with its arguments quoted for a shell."""
    return shlex.join(["probaudit", *map(str, words)])


def option_names(context: typer.Context) -> Callable[[Argument], str]:
    """A function that spells Python arguments as options of this command. It leaves the names of
    columns and models alone."""
    options = {str(parameter.name): _spelled(parameter) for parameter in context.command.params}
    flags = {_spelled(p) for p in context.command.params if getattr(p, "is_flag", False)}
    for argument, name in PARAMETERS:
        if name in options:
            options.setdefault(argument, options[name])
    for name in _names(context.params):
        options.pop(name, None)

    def spell(argument: Argument) -> str:
        known = options.get(argument.name)
        if known is None:
            return str(argument)
        # an option of another name has other values
        same = known == f"--{argument.name.replace('_', '-')}"
        value = argument.value if same and known not in flags else ""
        return f"`{known} {value}`" if value else f"`{known}`"

    return spell


def _names(params: Mapping[str, Any]) -> set[str]:
    """The names of columns and models that the user gave, except those equal to the name of their
    option."""
    values = {name: params.get(name) or () for name in NAMING}
    several = {name: [value] if isinstance(value, str) else value for name, value in values.items()}
    return {
        part.strip()
        for name, each in several.items()
        for value in each
        for part in re.split(r"[,*]" if name == "groups" else ",", value)
        if part != name
    }


def _spelled(parameter: Any) -> str:
    """An option with its dashes; an argument as the help shows it."""
    return (
        max(parameter.opts, key=len)
        if parameter.param_type_name == "option"
        else str(parameter.name).upper()
    )
