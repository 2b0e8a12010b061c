"""A self-contained page: sections of text, tables and figures, rendered as HTML. The only place
where text becomes markup."""

from .page import (
    Block,
    Columns,
    CommandLine,
    Control,
    Facts,
    Figure,
    FindingList,
    KeyFigure,
    LossBar,
    LossBars,
    Page,
    Section,
    Segment,
    StepList,
    Table,
    Words,
    as_html,
    as_summary,
)
from .slider import Position, ThresholdSlider

__all__ = [
    "Block",
    "Columns",
    "CommandLine",
    "Control",
    "Facts",
    "Figure",
    "FindingList",
    "KeyFigure",
    "LossBar",
    "LossBars",
    "Page",
    "Position",
    "Section",
    "Segment",
    "StepList",
    "Table",
    "ThresholdSlider",
    "Words",
    "as_html",
    "as_summary",
]
