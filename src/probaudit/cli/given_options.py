"""The options that the user gave: their order, their spelling in other commands, and errors that
name options instead of Python arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

from ..engines.cluster import ClusterError
from ..errors import Argument, InputError
from .options import OUTPUTS

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
)


class Command(TyperCommand):
    """Prints invalid input, or the loss of a Dask cluster, as one line; the exit code is 2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (InputError, ClusterError) as error:
            spell = option_names(ctx)
            message = error.message(spell) if isinstance(error, InputError) else str(error)
            typer.echo(f"error: {message}", err=True)
            raise typer.Exit(2) from None


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
    return given(context, *OUTPUTS) if confidence is None else ["--probs", confidence]


def command_line(*words: Any) -> str:
    """A command with its arguments quoted for a shell."""
    return shlex.join(["probaudit", *map(str, words)])


def option_names(context: typer.Context) -> Callable[[Argument], str]:
    """A function that spells Python arguments as options of this command. It leaves the names of
    columns and models alone."""
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
