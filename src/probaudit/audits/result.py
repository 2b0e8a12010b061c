"""What audits and comparisons have in common: they can be written as JSON and as a page, and shown
in a notebook."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.writing import write_text

if TYPE_CHECKING:
    from ..report.page import Page


class Result(ABC):
    """Plain values and pages are the subclass's to say; how they are written is the same for
    all."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The whole of it as plain values."""

    @abstractmethod
    def _page(self, title: str) -> Page:
        """The whole of it as a page."""

    @abstractmethod
    def _short_page(self) -> Page:
        """What a notebook shows."""

    def to_json(self, path: str | Path | None = None) -> str:
        """As JSON; written to a file too, if a path is given."""
        return _written(
            json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n", path
        )

    def to_html(self, path: str | Path | None = None, *, title: str = "") -> str:
        """As one page that needs no network; written to a file too, if a path is given."""
        from ..report.page import as_html

        return _written(as_html(self._page(title)), path)

    def _repr_html_(self) -> str:
        from ..report.page import as_summary

        return as_summary(self._short_page())


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(Path(path), text)
    return text
