"""The error for a choice that is not an object, but its name or its class."""

from __future__ import annotations

from typing import Any

from ..errors import InputError


def wrong_choice(argument: str, value: Any, base: type[Any], example: str) -> InputError:
    """The error for a value that is not a `base`. It proposes the subclass whose name or class was
    given, or the example."""
    name = value.__name__ if isinstance(value, type) else str(value)
    known = {_letters(one.__name__): one.__name__ for one in base.__subclasses__()}
    found = known.get(_letters(name))
    return InputError(
        argument,
        f"must be a {base.__name__.lower()}",
        name if isinstance(value, type) else repr(value)[:80],
        way_out=(f"pass {example if found is None else f'{found}()'}",),
    )


def _letters(name: str) -> str:
    """A name without case and signs.

    >>> _letters("top_label") == _letters("TopLabel")
    True
    """
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()
