"""Figures of a page: diagrams in the form that its script draws, each with a table."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...diagrams.diagram import Diagram, shown_columns
from ...diagrams.palette import PAPER
from ...text import column_text
from .colours import PALETTE, css_variable

MOST_TABLE_ROWS = 200
MARKED = "The vertical line marks the chosen threshold."


@dataclass(frozen=True)
class Control:
    """A choice that the reader can make."""

    name: str
    options: Sequence[str]


@dataclass(frozen=True)
class Figure:
    """A diagram, or one for each combination of the options of its controls. A large figure fills
    the page; if it is square, its caption stands beside it. With `direct`, curves are labelled
    beside them, where there is room.

    heading : before the titles of the diagrams, where another figure has the same titles.
    title : instead of the titles of the diagrams.
    opens : the figure that a click on a category of this one opens; the options of its first
        control are these categories.
    marker : the x of a vertical line, which a slider moves.
    tabled : whether it has a table of its own; not if a table with the same numbers is below it.
    """

    kind: ClassVar[str] = "figure"
    name: str
    variants: Mapping[Any, Diagram]  # keys are tuples of as many options as there are controls
    controls: Sequence[Control] = ()
    large: bool = False
    heading: str = ""
    title: str = ""
    opens: str = ""
    direct: bool = False
    marker: float | None = None
    tabled: bool = True

    @functools.cached_property
    def shown(self) -> dict[str, Variant]:
        """The variants by the indices of the chosen options, as in the script of the page."""
        places = [
            {option: str(place) for place, option in enumerate(control.options)}
            for control in self.controls
        ]
        return {
            ",".join(of[option] for of, option in zip(places, choice, strict=True)): Variant.of(
                diagram,
                direct=self.direct,
                marker=self.marker,
                heading=self.heading,
                title=self.title,
            )
            for choice, diagram in self.variants.items()
        }

    @property
    def square(self) -> bool:
        """Whether its first panel is square, so that a caption fits beside it."""
        spec = self.first.spec
        panel = spec.get("concat", [spec])[0]
        return bool(panel["width"] == panel["height"])

    @property
    def half(self) -> bool:
        """Whether the figure fits half of the page's width."""
        return not self.large and self.first.spec.get("columns", 1) == 1

    @property
    def first(self) -> Variant:
        return self.shown[",".join("0" for _ in self.controls)]


@dataclass(frozen=True)
class Variant:
    """One diagram in the form that the page needs. Files have all `columns`; the table on the page
    has those of `shown`, as in `shown_columns`."""

    title: str
    caption: str
    description: str
    columns: dict[str, list[str]]
    shown: dict[str, tuple[str, ...]]
    words: tuple[str, ...]  # columns of the table whose cells are words, aligned left
    spec: dict[str, Any] = field(repr=False)

    @classmethod
    def of(
        cls,
        diagram: Diagram,
        *,
        direct: bool = False,
        marker: float | None = None,
        heading: str = "",
        title: str = "",
    ) -> Variant:
        from ...diagrams.direct_labels import directly_labelled
        from ...diagrams.vega_drawer import spec, with_marker

        picture = diagram.picture()
        if direct:
            picture = directly_labelled(picture, marker)
        columns = {
            name: column_text(_thinned(column).tolist(), in_percent=name in diagram.percents)
            for name, column in diagram.columns().items()
        }
        drawn, caption = spec(picture, titled=False), picture.caption
        if marker is not None:
            drawn, caption = with_marker(drawn, marker), f"{caption} {MARKED}"
        shown = shown_columns(name for name in columns if name not in diagram.in_files)
        words = tuple(name for name in shown if not any(map(_is_number, columns.get(name, ["0"]))))
        title = title or picture.title
        title = f"{heading}: {title[:1].lower()}{title[1:]}" if heading else title
        return cls(title, caption, picture.description, columns, shown, words, _adaptive(drawn))

    @property
    def table_rows(self) -> list[list[tuple[str, str]]]:
        """The rows of the table: each cell with the name of its column."""
        cells = (
            [joined(parts) for parts in zip(*map(self.columns.get, names), strict=True)]
            for names in self.shown.values()
        )
        return [list(zip(self.shown, row, strict=True)) for row in zip(*cells, strict=True)]


def _is_number(cell: str) -> bool:
    return cell.lstrip("−<>= ")[:1] in tuple("0123456789∞")


def joined(parts: Sequence[str]) -> str:
    """The ends of an interval in one cell, as in the script of the page.

    >>> joined(("1%", "3%")), joined(("–", "–"))
    ('1% to 3%', '–')
    """
    return parts[0] if len(set(parts)) == 1 else " to ".join(parts)


def _adaptive(part: Any, key: str = "", prefix: str = "mark") -> Any:
    """A specification with CSS variables in place of palette colours. Records of data become
    columns, which are shorter; the script of the page turns them back."""
    if isinstance(part, dict):
        if "values" in part:
            return part | _as_columns(part["values"])
        prefix = "text" if part.get("type") == "text" else "mark"
        return {k: _adaptive(v, k, prefix) for k, v in part.items()}
    if isinstance(part, list):
        return [_adaptive(entry, key) for entry in part]
    if key == "fill" and part == PAPER:
        return "var(--paper)"
    known = key in ("color", "range", "stroke") and part in PALETTE
    return f"var({css_variable(part, prefix)})" if known else part


def _as_columns(values: list[Any]) -> dict[str, Any]:
    """Records as columns; other values, such as the ticks of an axis, stay."""
    if not values or not isinstance(values[0], dict):
        return {"values": values}
    return {"values": {name: [record[name] for record in values] for name in values[0]}}


def _thinned(column: np.ndarray) -> np.ndarray:
    """At most MOST_TABLE_ROWS entries, evenly spaced: the table of a curve need not list all."""
    if len(column) <= MOST_TABLE_ROWS:
        return column
    return column[np.linspace(0, len(column) - 1, MOST_TABLE_ROWS).round().astype(int)]
