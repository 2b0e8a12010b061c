"""Dialects of CSV files: what separates values, and what marks the decimals of a number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ..errors import Argument, InputError
from .paths import ending_of, form_of

TAB_NAMES = ("tab", "\\t")  # other spellings of the tab, which is hard to type in a shell


@dataclass(frozen=True)
class Dialect:
    """The dialect of CSV files.

    sep : between values; by default a comma, or a tab in .tsv files.
    decimal : the mark before the decimals of a number.

    >>> Dialect(sep=";", decimal=",").separator(Path("preds.csv"))
    ';'
    """

    sep: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.sep in TAB_NAMES:
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise InputError(
                "sep", "must be a single character, or tab, and no quotation mark", repr(self.sep)
            )
        if self.decimal not in (".", ","):
            raise InputError("decimal", "must be a point or a comma", repr(self.decimal))
        if self.decimal == (self.sep or ","):
            raise InputError(
                "decimal",
                "must differ from the separator of values",
                repr(self.decimal),
                way_out=("pass the separator of the file, such as ", Argument("sep", "';'")),
            )

    def separator(self, path: Path) -> str:
        """The separator of values in a file."""
        return self.sep or ("\t" if ending_of(path) == ".tsv" else ",")

    def check_used(self, files: Collection[Path]) -> None:
        """Raise if the dialect was chosen, but no file has one."""
        if self == Dialect() or any(form_of(path) == "csv" for path in files):
            return
        raise InputError(
            "sep" if self.sep is not None else "decimal",
            "applies to .csv and .tsv files only",
            str(next(iter(files), "")),
            way_out=("leave it out",),
        )


COMMAS = Dialect()
