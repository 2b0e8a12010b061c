"""The one error that bad input raises."""

from __future__ import annotations


class InputError(ValueError):
    """Says which argument broke which rule, with which value, and in which row if rows are at
    fault.

    >>> raise InputError("y_proba", "a row must sum to 1 within 1e-05", "sums to 0.94", row=17)
    Traceback (most recent call last):
    probaudit.errors.InputError: `y_proba`, row 17: sums to 0.94; a row must sum to 1 within 1e-05
    """

    def __init__(
        self, argument: str, rule: str, value: object = None, *, row: int | None = None
    ) -> None:
        self.argument, self.rule, self.value, self.row = argument, rule, value, row
        place = f"`{argument}`" if row is None else f"`{argument}`, row {row}"
        super().__init__(f"{place}: {rule}" if value is None else f"{place}: {value}; {rule}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.argument, self.rule, self.value, self.row)


def _rebuild(argument: str, rule: str, value: object, row: int | None) -> InputError:
    return InputError(argument, rule, value, row=row)
