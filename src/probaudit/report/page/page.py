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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...audits.finding import COMMANDS, Finding, Level, Spelling, parts
from ...diagrams.diagram import Diagram, shown_columns
from ...diagrams.palette import COLOURS, PAPER, SERIES, colour
from ...text import column_text
from ...version import __version__
from .shell_lines import in_lines
from .slider import ThresholdSlider

if TYPE_CHECKING:
    from jinja2 import Template

MOST_TABLE_ROWS = 200
MARKED = "The vertical line marks the chosen threshold."
NARROW_TABLE = 4  # columns of a table that fits half of a printed page
LONGEST = 3.0  # relative to the base-rate forecast; a longer bar is broken
LEAST_SEGMENT = 0.01  # of the base-rate loss; shorter segments are listed below the bar
PALETTE = {*SERIES, *COLOURS.values()}
MARGIN = 1.03  # the length of the axis of loss bars, relative to the longest


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
    left, all others right; rows listed in `marked` are highlighted. `tips` explains headers and
    row names in tooltips."""

    kind: ClassVar[str] = "table"
    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    marked: Sequence[int] = ()
    tips: Mapping[str, str] = field(default_factory=dict)
    after: int | None = None  # the column after recalibration, in the colour of its curve

    def is_words(self, column: int) -> bool:
        return column in self.words


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
    opens : the figure that a click on a category of this one opens; the options of its first
        control are these categories.
    marker : the x of a vertical line, which a slider moves.
    """

    kind: ClassVar[str] = "figure"
    name: str
    variants: Mapping[Any, Diagram]  # keys are tuples of as many options as there are controls
    controls: Sequence[Control] = ()
    large: bool = False
    heading: str = ""
    opens: str = ""
    direct: bool = False
    marker: float | None = None

    @functools.cached_property
    def shown(self) -> dict[str, Variant]:
        """The variants by the indices of the chosen options, as in the script of the page."""
        places = [
            {option: str(place) for place, option in enumerate(control.options)}
            for control in self.controls
        ]
        return {
            ",".join(of[option] for of, option in zip(places, choice, strict=True)): Variant.of(
                diagram, direct=self.direct, marker=self.marker, heading=self.heading
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
        title = (
            f"{heading}: {picture.title[:1].lower()}{picture.title[1:]}"
            if heading
            else picture.title
        )
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


@dataclass(frozen=True)
class Segment:
    """A part of a loss bar: its share of the loss of the base-rate forecast, its label, and its
    role, which sets its colour (as in `diagrams.palette`)."""

    share: float
    words: str
    role: str

    @property
    def fill(self) -> str:
        return f"var({_variable(colour(self.role))})"

    @property
    def on_dark(self) -> bool:
        """Whether black letters inside have a contrast below 4.5; they are then white, but black
        in dark mode, which has brighter colours."""
        return (_luminance(colour(self.role)) + 0.05) / 0.05 < 4.5


@dataclass(frozen=True)
class LossBar:
    label: str
    segments: Sequence[Segment]

    @property
    def length(self) -> float:
        return sum(max(0.0, part.share) for part in self.segments)

    @property
    def broken(self) -> bool:
        """Whether the bar is too long to be drawn as a whole."""
        return self.length > LONGEST

    @property
    def drawn(self) -> list[Segment]:
        """The segments that are long enough to be seen, on the same scale in all bars."""
        return [part for part in self.segments if part.share >= LEAST_SEGMENT]

    @property
    def small(self) -> str:
        """The segments that are not drawn, as text."""
        return ", ".join(part.words for part in self.segments if part not in self.drawn)

    def places(self, end: float) -> list[tuple[Segment, float, float]]:
        """Each drawn segment with its left end and its width in percent of an axis from 0 to
        `end`."""
        shares = [max(0.0, part.share) for part in self.drawn]
        at = (np.minimum(np.cumsum([0.0, *shares]), LONGEST) / end * 100).round(3).tolist()
        return [
            (part, left, round(right - left, 3))
            for part, left, right in zip(self.drawn, at, at[1:], strict=False)
            if right > left
        ]

    @property
    def description(self) -> str:
        return f"{self.label}: {'; '.join(part.words for part in self.segments)}"


@dataclass(frozen=True)
class LossBars:
    """Stacked bars on one scale from 0, with a mark at 1, the loss of the base-rate forecast. A bar
    above `LONGEST` is broken there."""

    kind: ClassVar[str] = "bars"
    scale_words: str
    bars: Sequence[LossBar]

    @property
    def end(self) -> float:
        """The end of the axis, so that the longest bar and the mark at 1 are on it."""
        return MARGIN * min(LONGEST, max([1.0, *(bar.length for bar in self.bars)]))

    @property
    def beyond(self) -> bool:
        """Whether a bar is longer than the loss of the base-rate forecast."""
        return max(bar.length for bar in self.bars) > 1

    @property
    def base_rate(self) -> float:
        """The place of the base-rate forecast in percent of the axis."""
        return round(100 / self.end, 3)


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
    lead sentence that a tooltip explains, and the explanation."""

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


def _luminance(colour: str) -> float:
    """The relative luminance of a colour such as "#0072B2", as in WCAG 2."""
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _variable(colour: str, prefix: str = "mark") -> str:
    """The CSS variable of a palette colour for marks or for text, which needs more contrast. The
    style sheet adapts it to light and dark."""
    return f"--{prefix}-{colour[1:].lower()}"


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
    return f"var({_variable(part, prefix)})" if known else part


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
