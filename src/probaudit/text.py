"""Numbers and names as text: one format for each kind of number, wherever it appears.

Errors and scores have four decimals in tables and captions and three in sentences, shares one
decimal of a percent in tables and none in headlines. No number has an exponent, and a negative one
has a real minus sign.
"""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

Row = TypeVar("Row")

MISSING = "–"
LEFT = 'style="text-align:left"'  # notebooks align names to the right
SHOWN_ROWS = 11  # of a long table
NOISE = 15  # decimals beyond which there is only rounding error
MOST_DECIMALS = 8  # of a column of small numbers

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "–": "--",
    "∞": r"$\infty$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "†": r"$^{\dagger}$",
}
MARKDOWN = "\\`*_{}[]<>#|~$&"


def _minus(text: str) -> str:
    """Replace hyphens by minus signs."""
    return text.replace("-", "−")


def number(x: float, decimals: int = 4) -> str:
    """An error or a score.

    >>> number(0.25), number(0.00002), number(-0.5), number(-1e-17), number(0.12345, 3)
    ('0.2500', '< 0.0001', '−0.5000', '0.0000', '0.123')
    """
    x = round(float(x), NOISE) + 0.0
    if math.isnan(x):
        return MISSING
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    least = 10.0**-decimals
    if 0 < abs(x) < least / 2:
        return f"< {least:.{decimals}f}" if x > 0 else f"> −{least:.{decimals}f}"
    return _minus(f"{x:.{decimals}f}")


def short_number(x: float) -> str:
    """An error or a score in a sentence: three decimals.

    >>> short_number(0.12345), short_number(0.0002), short_number(-0.5)
    ('0.123', '< 0.001', '−0.500')
    """
    return number(x, 3)


def significant(x: float, digits: int = 3) -> str:
    """A number of any size, with a number of significant digits.

    >>> significant(0.000012345), significant(-1234.5), significant(2.0)
    ('0.0000123', '−1,230', '2')
    """
    if not math.isfinite(x):
        return number(x)
    return _minus(f"{Decimal(f'{float(x):.{digits}g}'):,f}")


def percent(share: float) -> str:
    """A share in a table, to 0.1%. Rounding error in a sum never changes the text.

    >>> percent(0.1234), percent(-0.014), percent(-1e-9), percent(float("nan"))
    ('12.3%', '−1.4%', '0.0%', '–')
    """
    if not math.isfinite(share):
        return number(share)
    return _minus(f"{round(round(float(share), 12), 3) + 0.0:.1%}")


def points(difference: float) -> str:
    """A difference of shares in percentage points, to 0.1.

    >>> points(0.0731), points(-0.2)
    ('7.3', '−20.0')
    """
    return percent(difference).removesuffix("%")


def whole_percent(share: float) -> str:
    """A share in a headline, in whole percent.

    >>> whole_percent(-0.001), whole_percent(-0.014), whole_percent(0.625)
    ('0%', '−1%', '63%')
    """
    if not math.isfinite(share):
        return number(share)
    whole = math.floor(abs(100 * float(share)) + 0.5 + 1e-9)
    return _minus(f"{math.copysign(whole, share) + 0.0 if whole else 0:.0f}%")


def interval_text(low: float, high: float, spell: Callable[[float], str] = number) -> str:
    """The ends of an interval.

    >>> interval_text(0.25, 0.5), interval_text(0.25, 0.5, percent), interval_text(math.nan, 1.0)
    ('0.2500 to 0.5000', '25.0% to 50.0%', '–')
    """
    return MISSING if math.isnan(low) else f"{spell(low)} to {spell(high)}"


def column_text(values: Sequence[object], *, in_percent: bool = False) -> list[str]:
    """The cells of a column; its numbers have the same decimals.

    >>> column_text([0.5, 0.25]), column_text([1200.0, 3.0]), column_text([0.5], in_percent=True)
    (['0.50', '0.25'], ['1,200', '3'], ['50.0%'])
    >>> column_text([0.123456, math.nan]), column_text([0.000123456, 0.0]), column_text([True, "a"])
    (['0.1235', '–'], ['0.000123', '0.000000'], ['yes', 'a'])
    """
    finite = [x for x in values if isinstance(x, float) and math.isfinite(x)]
    decimals = _column_decimals(finite)
    return [_cell_text(x, decimals, in_percent) for x in values]


def _column_decimals(numbers: Sequence[float]) -> int:
    """Four; more if all numbers are small, to show three digits; fewer if all are round."""
    largest = max(map(abs, numbers), default=0.0)
    small = 0 < largest < 0.001
    most = min(MOST_DECIMALS, 2 - math.floor(math.log10(largest))) if small else 4
    exact = (d for d in range(most) if all(abs(x - round(x, d)) < 10**-NOISE for x in numbers))
    return next(exact, most)


def _cell_text(value: object, decimals: int, in_percent: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and in_percent:
        return percent(value)
    if isinstance(value, int) or (isinstance(value, float) and not decimals):
        return _minus(f"{value:,.0f}") if math.isfinite(value) else number(value)
    return number(value, decimals) if isinstance(value, float) else str(value)


def p_value(p: float) -> str:
    """A p-value in a table: two decimals, as many as a test with 199 resamples supports.

    >>> p_value(0.0321), p_value(1e-9), p_value(0.5)
    ('0.03', '< 0.01', '0.50')
    """
    return MISSING if math.isnan(p) else "< 0.01" if p < 0.01 else f"{p:.2f}"


def p_words(p: float) -> str:
    """A p-value in a sentence.

    >>> p_words(0.0321), p_words(1e-9)
    ('p = 0.03', 'p < 0.01')
    """
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def counted(rows: int) -> str:
    """A number of rows.

    >>> counted(1), counted(1200)
    ('1 row', '1,200 rows')
    """
    return "1 row" if rows == 1 else f"{rows:,} rows"


def fraction(share: float) -> str:
    """A share as a fraction, if it is one over a whole number.

    >>> fraction(0.125), fraction(0.3)
    ('1/8', '0.3')
    """
    whole = round(1 / share)
    return f"1/{whole}" if whole > 1 and 1 / whole == share else f"{share:g}"


def class_words(name: object) -> str:
    """A class in a sentence.

    >>> class_words("malignant"), class_words(1), class_words("1")
    ('malignant', 'class 1', 'class 1')
    """
    text = str(name)
    return (
        text
        if text.replace("_", "").replace("-", "").isalpha() and text not in ("True", "False")
        else f"class {text}"
    )


def capitalised(sentence: str) -> str:
    """A sentence with a capital first letter; the rest is unchanged.

    >>> capitalised("the log loss of TOT")
    'The log loss of TOT'
    """
    return sentence[:1].upper() + sentence[1:]


def enumerated(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> enumerated(["cat", "dog", "fox"]), enumerated(["cat"]), enumerated([])
    ('cat, dog and fox', 'cat', '')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def listed(names: Sequence[str]) -> str:
    """Names separated by commas; of many, the first twelve and how many there are.

    >>> listed(["cat", "dog"])
    'cat, dog'
    """
    return ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")


def aligned_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text in columns; the first to the left, the others to the right.

    >>> aligned_columns([["a", "10"], ["bc", "9"]])
    ['a   10', 'bc   9']
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            text.rjust(width) if k else text.ljust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def evenly_spaced(rows: Sequence[Row], most: int = SHOWN_ROWS) -> list[Row]:
    """At most `most` entries, evenly spaced from the first to the last one.

    >>> evenly_spaced(range(101))
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    """
    if len(rows) <= most:
        return list(rows)
    return [rows[round(k * (len(rows) - 1) / (most - 1))] for k in range(most)]


@dataclass(frozen=True)
class TextTable:
    """Rows of text below a caption and above a note; the first cell of each row is its name.

    >>> print(TextTable("Sizes", ("", "rows"), [["a", "10"], ["b", "9"]]).text())
    Sizes
       rows
    a    10
    b     9
    """

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def text(self) -> str:
        """For a terminal."""
        lines = [self.caption, *aligned_columns([self.headers, *self.rows]), self.note]
        return "\n".join(line for line in lines if line)

    def html(self) -> str:
        """For a notebook, with all text escaped."""

        def cells(tag: str, row: Sequence[str]) -> str:
            return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)

        body = "".join(
            f"<tr><th {LEFT}>{html.escape(row[0])}</th>{cells('td', row[1:])}</tr>"
            for row in self.rows
        )
        note = f"<p>{html.escape(self.note)}</p>".replace("\n", "<br>") if self.note else ""
        return (
            f"<div><table><caption>{html.escape(self.caption)}</caption>"
            f"<thead><tr>{cells('th', self.headers)}</tr></thead><tbody>{body}</tbody></table>"
            f"{note}</div>"
        )


class ShownAsTable(ABC):
    """A result that a terminal prints and a notebook displays as the same table. A dataclass needs
    `repr=False`, else it replaces `__repr__`."""

    @abstractmethod
    def _text_table(self) -> TextTable:
        """The table."""

    def __repr__(self) -> str:
        return self._text_table().text()

    def _repr_html_(self) -> str:
        return self._text_table().html()


def in_latex(text: str) -> str:
    """Text with the special characters of LaTeX escaped.

    >>> print(in_latex("50% of a_b"))
    50\\% of a\\_b
    """
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def in_markdown(text: str) -> str:
    """Text in a cell of a Markdown table, with special characters escaped.

    >>> print(in_markdown("a|b"))
    a\\|b
    """
    return "".join(
        f"\\{letter}" if letter in MARKDOWN else letter for letter in " ".join(text.split())
    )
