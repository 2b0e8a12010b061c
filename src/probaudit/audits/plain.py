"""Values that JSON can represent."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The value if JSON can represent it, else its text. Names of classes may be any object.

    >>> plain("cat"), plain(3), plain(float("nan")), plain((1, 2))
    ('cat', 3, 'nan', '(1, 2)')
    """
    return (
        value
        if isinstance(value, (str, int, bool))
        or (isinstance(value, float) and math.isfinite(value))
        else str(value)
    )
