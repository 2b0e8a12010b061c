"""Numbers and names as messages say them."""

from __future__ import annotations

from collections.abc import Sequence


def counted(rows: int) -> str:
    """So many rows.

    >>> counted(1), counted(1200)
    ('1 row', '1,200 rows')
    """
    return "1 row" if rows == 1 else f"{rows:,} rows"


def listed(names: Sequence[str]) -> str:
    """The names, or the first twelve of many.

    >>> listed(["cat", "dog"])
    'cat, dog'
    """
    return ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
