"""A self-contained page: sections of text, tables and figures, rendered as HTML. The only place
where text becomes markup."""

from .figure import Control, Figure
from .loss_bars import LossBar, LossBars, Segment
from .page import (
    Block,
    Columns,
    CommandLine,
    Facts,
    FindingList,
    KeyFigure,
    Page,
    Section,
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
