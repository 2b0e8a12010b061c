"""Numbers and names as text."""

from __future__ import annotations

from collections.abc import Sequence


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


def whole_percent(share: float) -> str:
    """A share in whole percent, never as minus zero.

    >>> whole_percent(-0.001), whole_percent(-0.014)
    ('0%', '-1%')
    """
    return f"{round(share, 2) + 0.0:.0%}"


def listed(names: Sequence[str]) -> str:
    """Names separated by commas; of many, the first twelve and how many there are.

    >>> listed(["cat", "dog"])
    'cat, dog'
    """
    return ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
