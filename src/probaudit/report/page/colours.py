"""The colours of the diagrams, as variables that the style sheet has for light and dark."""

from __future__ import annotations

from ...diagrams.palette import COLOURS, SERIES

PALETTE = {*SERIES, *COLOURS.values()}


def css_variable(colour: str, prefix: str = "mark") -> str:
    """The CSS variable of a palette colour for marks or for text, which needs more contrast. The
    style sheet adapts it to light and dark."""
    return f"--{prefix}-{colour[1:].lower()}"
