"""The base class of audits and comparisons: JSON, HTML and notebook output."""

from __future__ import annotations

import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.work import one_blas_thread
from ..files.writing import write_text

if TYPE_CHECKING:
    from ..report.page import Page


class Result(ABC):
    """A result that can be written as JSON and as a page. Subclasses provide the content."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The result in one sentence."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""

    @abstractmethod
    def _page(self, title: str) -> Page:
        """The result as a page."""

    @abstractmethod
    def _short_page(self) -> Page:
        """The page without figures, for a notebook."""

    def to_json(self, path: str | Path | None = None) -> str:
        """The result as JSON text, also written to `path` if given."""
        return _written(json_text(self.to_dict()), path)

    @one_blas_thread()
    def to_html(self, path: str | Path | None = None, *, title: str = "") -> str:
        """The result as one HTML page that needs no network, also written to `path` if given."""
        from ..report.page import as_html

        return _written(as_html(self._page(title)), path)

    def _repr_html_(self) -> str:
        from ..report.page import as_summary

        return as_summary(self._short_page())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """HTML, and text for frontends without it. A notebook stores both, so there the text is
        the headline only; otherwise every result would be stored, and printed by some converters,
        twice."""
        text = self.headline if _in_notebook() else repr(self)
        return {"text/html": self._repr_html_(), "text/plain": text}


def _in_notebook() -> bool:
    """Whether IPython displays HTML. In a terminal it displays text only."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "text/html" in shell.display_formatter.active_types


def json_text(content: Mapping[str, Any]) -> str:
    """Plain values as JSON text."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(Path(path), text)
    return text


def plain_columns(columns: Mapping[str, np.ndarray]) -> dict[str, list[float | None]]:
    """Columns of numbers as lists, None where there is no number."""
    return {
        name: [value if math.isfinite(value) else None for value in column.tolist()]
        for name, column in columns.items()
    }


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
