"""The content of a page as plain data, and its rendering as one HTML file that needs no network.

Text becomes markup only here, through a template that escapes it. The content security policy
allows only the scripts and the style of the page, by their hashes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar

from ...audits.finding import COMMANDS, Finding, Level, Spelling, parts
from ...version import __version__
from .figure import Figure
from .loss_bars import LossBars
from .shell_lines import in_lines
from .slider import ThresholdSlider

if TYPE_CHECKING:
    from jinja2 import Template

NARROW_TABLE = 4  # columns of a table that fits half of a printed page


@dataclass(frozen=True)
class Words:
    kind: ClassVar[str] = "words"
    text: str


@dataclass(frozen=True)
class CommandLine:
    """A command or code to copy; `title` says what it is for."""

    kind: ClassVar[str] = "command"
    text: str
    title: str = ""


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
class StepList:
    """What to do, in order: the advice of each finding before its text, which is the reason."""

    kind: ClassVar[str] = "steps"
    steps: Sequence[Finding]
    spell: Spelling = COMMANDS

    def sentence(self, step: Finding) -> list[tuple[bool, str]]:
        """The parts of the advice, each with whether it is code; without code that ends it."""
        said = list(parts(step.advice, self.spell))
        return said if not self.code(step) else [(False, said[0][1].strip())]

    def code(self, step: Finding) -> str:
        """The code that ends the advice, to copy; "" if there is none."""
        said = list(parts(step.advice, self.spell))
        is_code = [code for code, _ in said]
        ends = is_code == [False, True] or (is_code == [False, True, False] and said[2][1] == ".")
        return in_lines(said[1][1]) if ends else ""


@dataclass(frozen=True)
class Facts:
    kind: ClassVar[str] = "facts"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of text; the first cell of each is its header. Columns listed in `words` are aligned
    left, all others right; rows listed in `marked` are highlighted, and bold unless `bold` lists
    the bold cells, as (row, column). `tips` explains headers and row names in tooltips."""

    kind: ClassVar[str] = "table"
    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    marked: Sequence[int] = ()
    tips: Mapping[str, str] = field(default_factory=dict)
    after: int | None = None  # the column after recalibration, in the colour of its curve
    bold: Collection[tuple[int, int]] | None = None

    def is_words(self, column: int) -> bool:
        return column in self.words

    def is_bold(self, row: int, column: int) -> bool:
        return row in self.marked if self.bold is None else (row, column) in self.bold


Block = (
    Words
    | CommandLine
    | FindingList
    | StepList
    | Facts
    | Table
    | Figure
    | LossBars
    | ThresholdSlider
)


@dataclass(frozen=True)
class Columns:
    """Two columns on a wide screen, one below the other on a narrow one. The left one is narrower,
    or wider with `wide_left`."""

    kind: ClassVar[str] = "columns"
    left: Sequence[Block]
    right: Sequence[Block]
    wide_left: bool = False


@dataclass(frozen=True)
class KeyFigure:
    """A highlighted number: its name, its value, and its interval or scale."""

    name: str
    value: str
    span: str = ""


@dataclass(frozen=True)
class Section:
    """A section of a page, listed in the contents by its title. A folded section is closed on
    screen and open in print. Without `headed`, the heading is left to screen readers."""

    name: str
    title: str
    blocks: Sequence[Block | Columns]
    lead: str = ""
    folded: bool = False
    headed: bool = True

    @property
    def lone(self) -> set[str]:
        """The names of figures of half width with no other one beside them."""
        found, waiting = set(), ""
        for block in self.blocks:
            half = isinstance(block, Figure) and block.half
            if waiting and not half:
                found.add(waiting)
            waiting = block.name if isinstance(block, Figure) and half and not waiting else ""
        return found | ({waiting} - {""})

    @property
    def opening(self) -> Sequence[Block | Columns]:
        """The blocks that stay on the printed page of the heading: a figure, or two of half width.
        Tables may continue on the next page."""
        first = list(itertools.takewhile(lambda block: isinstance(block, Figure), self.blocks[:2]))
        pair = len(first) == 2 and all(isinstance(one, Figure) and one.half for one in first)
        return first if pair else first[:1]

    @property
    def others(self) -> Sequence[Block | Columns]:
        return self.blocks[len(self.opening) :]

    @property
    def runs(self) -> list[tuple[bool, list[Block | Columns]]]:
        """Consecutive blocks that fit half of the width of a printed page, and those that do
        not."""
        return [
            (narrow, list(run)) for narrow, run in itertools.groupby(self.blocks, self._is_narrow)
        ]

    def _is_narrow(self, block: Block | Columns) -> bool:
        if isinstance(block, Table):
            return len(block.headers) <= NARROW_TABLE
        if isinstance(block, Figure):
            return block.half and block.name not in self.lone
        return isinstance(block, Words | FindingList | Facts)


@dataclass(frozen=True)
class Page:
    """A page: the headline with its grade (a badge in the colour of `level`) and a lead sentence,
    key figures, sections, and the summary that a reader can copy as Markdown. `term` : words of the
    lead sentence that a tooltip explains, and the explanation. `points` : findings in short, below
    the lead sentence."""

    title: str
    facts: str
    headline: str
    level: Level
    sections: Sequence[Section]
    tiles: Sequence[KeyFigure] = ()
    footer: str = f"Written by probaudit {__version__}."
    grade: str = ""
    lead: str = ""
    markdown: str = ""
    term: tuple[str, str] | None = None
    grade_tip: str = ""
    points: Sequence[tuple[Level, str]] = ()

    @property
    def lead_parts(self) -> list[tuple[str, str]]:
        """The lead sentence in parts, each with its tooltip or ""."""
        if self.term is None or self.term[0] not in self.lead:
            return [(self.lead, "")]
        before, name, after = self.lead.partition(self.term[0])
        return [(before, ""), (name, self.term[1]), (after, "")]


def _figures(blocks: Sequence[Block | Columns]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Columns):
            yield from _figures([*block.left, *block.right])


@functools.cache
def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed, as bundled by the build (see hatch_build.py)."""
    try:
        script = _text("vega.js")
    except FileNotFoundError:
        raise FileNotFoundError(
            "A page needs the Vega script, which is added when probaudit is installed, and this"
            " copy of the source was not. Run `pip install -e .` in its folder."
        ) from None
    return script.replace("</script", "<\\/script").strip()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def as_summary(page: Page) -> str:
    """The page without figures, style and script, for a notebook."""
    return _render("summary.html.j2", page=page)


@functools.cache
def _template(name: str) -> Template:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FunctionLoader(_text)
    )
    return environment.get_template(name)


def _render(template: str, **values: Any) -> str:
    return _template(template).render(**values)


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
        figure.name: {choice: vars(variant) for choice, variant in figure.shown.items()}
        for section in page.sections
        for figure in _figures(section.blocks)
    }
    drawn = {
        "config": configuration("var(--ink)", "var(--soft)", "var(--line)"),
        "figures": figures,
        "markdown": page.markdown,
        "sliders": {
            block.name: block.data()
            for section in page.sections
            for block in section.blocks
            if isinstance(block, ThresholdSlider)
        },
    }
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
        licences=_text("licences.txt"),
        script=Markup(script),
    )
