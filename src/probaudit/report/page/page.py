"""The content of a page as plain data, and its rendering as one HTML file that needs no network.

Text becomes markup only here, through a template that escapes it. The content security policy
allows only the scripts and the style of the page, by their hashes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, ClassVar

import numpy as np

from ...audits.finding import COMMANDS, Finding, Level, Spelling, parts
from ...diagrams.diagram import Diagram
from ...text import significant
from ...version import __version__

MOST_TABLE_ROWS = 200


@dataclass(frozen=True)
class Words:
    kind: ClassVar[str] = "words"
    text: str


@dataclass(frozen=True)
class FindingList:
    """Findings; `spell` writes the actions of their advice."""

    kind: ClassVar[str] = "findings"
    findings: Sequence[Finding]
    spell: Spelling = COMMANDS

    def advice(self, finding: Finding) -> list[tuple[bool, str]]:
        """The parts of a finding's advice, each with whether it is code."""
        return list(parts(finding.advice, self.spell))


@dataclass(frozen=True)
class Facts:
    kind: ClassVar[str] = "facts"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of text; the first cell of each is its header. Columns listed in `words` are aligned
    left, all others right; rows listed in `marked` are highlighted."""

    kind: ClassVar[str] = "table"
    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    marked: Sequence[int] = ()

    def is_words(self, column: int) -> bool:
        return column in self.words


@dataclass(frozen=True)
class Control:
    """A choice that the reader can make."""

    name: str
    options: Sequence[str]


@dataclass(frozen=True)
class Figure:
    """A diagram, or one for each combination of the options of its controls."""

    kind: ClassVar[str] = "figure"
    name: str
    variants: Mapping[Any, Diagram]  # keys are tuples of as many options as there are controls
    controls: Sequence[Control] = ()

    @functools.cached_property
    def shown(self) -> dict[str, Variant]:
        """The variants by the indices of the chosen options, as in the script of the page."""
        places = [
            {option: str(place) for place, option in enumerate(control.options)}
            for control in self.controls
        ]
        return {
            ",".join(of[option] for of, option in zip(places, choice, strict=True)): Variant.of(
                diagram
            )
            for choice, diagram in self.variants.items()
        }

    @property
    def half(self) -> bool:
        """Whether the figure fits half of the page's width."""
        return self.first.spec.get("columns", 1) == 1

    @property
    def first(self) -> Variant:
        return self.shown[",".join("0" for _ in self.controls)]


@dataclass(frozen=True)
class Variant:
    """One diagram in the form that the page needs."""

    title: str
    caption: str
    description: str
    columns: dict[str, list[str]]
    spec: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, diagram: Diagram) -> Variant:
        from ...diagrams.vega_drawer import spec

        picture = diagram.picture()
        columns = {
            name: [_cell_text(value) for value in _thinned(column)]
            for name, column in diagram.columns().items()
        }
        return cls(
            picture.title,
            picture.caption,
            picture.description,
            columns,
            spec(picture, titled=False),
        )

    @property
    def table_rows(self) -> list[tuple[str, ...]]:
        return list(zip(*self.columns.values(), strict=True))


@dataclass(frozen=True)
class KeyFigure:
    """A highlighted number: its name, its value, and its interval or scale."""

    name: str
    value: str
    span: str = ""


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: Sequence[Words | FindingList | Facts | Table | Figure]
    lead: str = ""


@dataclass(frozen=True)
class Page:
    title: str
    facts: str
    headline: str
    level: Level
    sections: Sequence[Section]
    tiles: Sequence[KeyFigure] = ()
    footer: str = f"Written by probaudit {__version__}."


def _thinned(column: np.ndarray) -> np.ndarray:
    """At most MOST_TABLE_ROWS entries, evenly spaced: the table of a curve need not list all."""
    if len(column) <= MOST_TABLE_ROWS:
        return column
    return column[np.linspace(0, len(column) - 1, MOST_TABLE_ROWS).round().astype(int)]


def _cell_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        return "" if value is None else str(value)
    if isinstance(value, (int, np.integer)) or float(value).is_integer():
        return f"{int(value):,}".replace("-", "−")
    return significant(float(value), 4)


@functools.cache
def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed, as bundled by vl-convert."""
    import vl_convert

    return (
        vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        .replace("</script", "<\\/script")
        .strip()
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def as_summary(page: Page) -> str:
    """The page without figures, style and script, for a notebook."""
    return _render("summary.html.j2", page=page)


def _render(template: str, **values: Any) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FunctionLoader(_text)
    )
    return environment.get_template(template).render(**values)


def as_html(page: Page) -> str:
    """The page as one HTML file."""
    from markupsafe import Markup

    from ...diagrams.vega_drawer import configuration

    style, script, library = _text("page.css"), _text("page.js"), _library()
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    figures = {
        block.name: block.shown
        for section in page.sections
        for block in section.blocks
        if isinstance(block, Figure)
    }
    plain = {
        name: {choice: vars(variant) for choice, variant in shown.items()}
        for name, shown in figures.items()
    }
    drawn = {"config": configuration("var(--ink)", "var(--soft)", "var(--line)"), "figures": plain}
    data = json.dumps(drawn, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # characters that could end or split a script; in JSON they occur only in strings
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return _render(
        "page.html.j2",
        page=page,
        version=__version__,
        policy=policy,
        style=Markup(style),
        figures=Markup(data),
        library=Markup(library),
        script=Markup(script),
    )
