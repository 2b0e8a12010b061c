"""Text for matplotlib: escaped, and wrapped to a width."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER = 0.55  # mean width of a character, in multiples of the font size
SYMBOL = 8  # width of symbol and spaces of an entry in a legend, in characters
SHORTEST = 12  # characters of a line


def escaped(text: str) -> str:
    """Escape dollar signs, so that names are not parsed as formulas."""
    from matplotlib import rcParams

    special = "%&#_$" if rcParams["text.usetex"] else "$"
    return "".join(f"\\{letter}" if letter in special else letter for letter in text)


def wrapped(text: str, pixels: float, size: float, ax: Axes) -> str:
    """Lines of similar length that fit into a width, for a font size in points."""
    return "\n".join(map(escaped, balanced(text, max(SHORTEST, letters(ax, pixels, size)))))


def balanced(text: str, width: int) -> list[str]:
    """As few lines of at most `width` characters as possible, and the longest as short as possible.

    >>> balanced("calibration error of the top k", 28)
    ['calibration error', 'of the top k']
    """
    fewest = len(textwrap.wrap(text, width))
    shortest = next(w for w in range(1, width + 1) if len(textwrap.wrap(text, w)) <= fewest)
    return textwrap.wrap(text, max(shortest, min(width, SHORTEST)))


def font_points(key: Any) -> float:
    """A font size of rcParams in points."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=rcParams[key]).get_size())


def letters(ax: Axes, pixels: float, size: float) -> int:
    """The number of characters that fit into a width."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return int(pixels * 72 / figure.dpi / (LETTER * size))
