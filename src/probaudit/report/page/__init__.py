"""A self-contained page: sections of text, tables and figures, rendered as HTML. The only place
where text becomes markup."""

from .page import (
    Control,
    Facts,
    Figure,
    FindingList,
    KeyFigure,
    Page,
    Section,
    Table,
    Words,
    as_html,
    as_summary,
)

__all__ = [
    "Control",
    "Facts",
    "Figure",
    "FindingList",
    "KeyFigure",
    "Page",
    "Section",
    "Table",
    "Words",
    "as_html",
    "as_summary",
]
