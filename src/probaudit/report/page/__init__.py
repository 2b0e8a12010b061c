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
    Table,
    Words,
    as_html,
    as_summary,
)

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
    "Section",
    "Segment",
    "Table",
    "Words",
    "as_html",
    "as_summary",
]
