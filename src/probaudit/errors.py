"""The error that invalid input raises."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Argument(NamedTuple):
    """An argument that a way out names. Python and the command line spell it differently.

    >>> str(Argument("tolerance")), str(Argument("on_bad_rows", '"drop"'))
    ('`tolerance`', '`on_bad_rows="drop"`')
    """

    name: str
    value: str = ""

    def __str__(self) -> str:
        return f"`{self.name}={self.value}`" if self.value else f"`{self.name}`"


WayOut = tuple["str | Argument", ...]


def nearest(name: str, known: Iterable[str]) -> WayOut:
    """The way out for a misspelled name: the known name that is most like it; empty if none is.

    >>> nearest("lable", ["label", "p_0"])
    ("the nearest name is 'label'",)
    >>> nearest("Y", ["y", "p"])
    ("the nearest name is 'y'",)
    """
    known = list(known)
    found = [one for one in known if one.casefold() == name.casefold()]
    found = found or difflib.get_close_matches(name, known, 1)
    return (f"the nearest name is {found[0]!r}",) if found else ()


def in_a_list(argument: str, name: object, known: Iterable[str]) -> WayOut:
    """The way out for a name that an argument must list, or a misspelled one.

    >>> in_a_list("metrics", "ece", ["ece", "ace"])
    ("pass `metrics=['ece']`",)
    """
    known = list(known)
    return (f"pass `{argument}={[name]!r}`",) if name in known else nearest(str(name), known)


def not_a_truth_value(argument: str, value: object) -> InputError:
    """The error for an argument that must be True or False.

    >>> str(not_a_truth_value("normalize", "yes"))
    "`normalize`: must be True or False (found: 'yes'). Pass `normalize=True`, or leave it out."
    """
    way_out = ("pass ", Argument(argument, "True"), ", or leave it out")
    return InputError(argument, "must be True or False", repr(value), way_out=way_out)


class InputError(ValueError):
    """Names the argument, the rule it broke, the value found, and the row if a row is at fault.

    way_out : what to do about it, as text and arguments; `message` spells the arguments.

    >>> raise InputError("y_proba", "a row must sum to 1 within 1e-05", "sums to 0.94", row=17)
    Traceback (most recent call last):
    probaudit.errors.InputError: `y_proba`: a row must sum to 1 within 1e-05 (row 17: sums to 0.94)
    >>> raise InputError("bins", "must be at least 1", 0, way_out=("leave out ", Argument("bins")))
    Traceback (most recent call last):
    probaudit.errors.InputError: `bins`: must be at least 1 (found: 0). Leave out `bins`.
    """

    def __init__(
        self,
        argument: str,
        rule: str,
        value: object = None,
        *,
        row: int | None = None,
        way_out: WayOut = (),
    ) -> None:
        self.argument, self.rule, self.value, self.row = argument, rule, value, row
        self.way_out = way_out
        super().__init__(self.message())

    def message(self, spell: Callable[[Argument], str] = str) -> str:
        """Rule, value found and way out, with arguments as `spell` writes them."""
        # a row is named with the column of a file, which no option replaces
        where = spell(Argument(self.argument)) if self.row is None else f"`{self.argument}`"
        place = "found" if self.row is None else f"row {self.row}"
        found = "" if self.value is None and self.row is None else f" ({place}: {self.value})"
        out = "".join(part if isinstance(part, str) else spell(part) for part in self.way_out)
        return f"{where}: {self.rule}{found}" + (f". {out[:1].upper()}{out[1:]}." if out else "")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.argument, self.rule, self.value, self.row, self.way_out)


def _rebuild(
    argument: str, rule: str, value: object, row: int | None, way_out: WayOut
) -> InputError:
    return InputError(argument, rule, value, row=row, way_out=way_out)
