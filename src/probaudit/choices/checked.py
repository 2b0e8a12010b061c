"""The error for a choice that is not an object, but its name or its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError


def class_names(base: type[Any]) -> dict[str, str]:
    """The subclasses of a choice, as names of classes by name."""
    return {one.__name__: one.__name__ for one in base.__subclasses__()}


def wrong_choice(
    argument: str, value: Any, what: str, known: Mapping[str, str], example: str
) -> InputError:
    """The error for a value that is not a lens or whatever it must be. It proposes the class that
    is meant: `known` has classes by name. Otherwise it proposes the example."""
    name = value.__name__ if isinstance(value, type) else str(value)
    meant = {_letters(word): kind for word, kind in known.items()}.get(_letters(name))
    return InputError(
        argument,
        f"must be a {what}",
        name if isinstance(value, type) else repr(value)[:80],
        way_out=(f"pass {example if meant is None else f'{meant}()'}",),
    )


def _letters(name: str) -> str:
    """A name without case and signs.

    >>> _letters("top_label") == _letters("TopLabel")
    True
    """
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()
