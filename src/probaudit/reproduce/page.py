"""The page of a reproduction: findings first, then each figure and table beside the printed one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..audits.finding import Level
from ..report.page import Block, Control, Facts, Figure, Page, Section, Table, Words
from ..text import number
from ..version import __version__
from .beside import PrintedBesideOurs
from .outcome import Claim, Row
from .papers import Part
from .reproduction import Reproduction

FINDINGS = "Where our numbers agree, where not, and why"
VERDICTS = {True: "agrees", False: "differs", None: ""}
MARKS = "✓ holds, ✗ does not hold, ? undecided"
HOLDS = {True: "holds", False: "does not hold", None: "undecided"}


def reproduction_page(found: Reproduction, title: str = "") -> Page:
    parts = [_part(found, part) for part in found.paper.parts]
    sections = [
        _findings(found),
        *(section for section in parts if section.blocks),
        _all_numbers(found),
        *_left_out(found),
        _settings(found),
    ]
    return Page(
        title or f"Paper {found.paper.number}: {found.paper.title}",
        f"{found.paper.citation}. {found.mode.capitalize()} run.",
        found.headline,
        _level(found),
        sections,
    )


def _level(found: Reproduction) -> Level:
    failed = any(row.agrees is False for row in found.rows)
    failed = failed or any(claim.holds is False for claim in found.claims)
    return "warning" if failed else "good"


def _findings(found: Reproduction) -> Section:
    return Section("findings", FINDINGS, [Words(text) for text in found.findings])


def _part(found: Reproduction, part: Part) -> Section:
    done = [found.done[one.name] for one in part.experiments if one.name in found.done]
    rows = [row for one in done for row in one.outcome.rows]
    claims = [claim for one in done for claim in one.outcome.claims]
    blocks: list[Block] = []
    if claims:
        blocks.append(_claims(claims))
    if rows:
        blocks.append(_compact(part.title, rows))
    drawn = PrintedBesideOurs.of(rows, part.beside)
    if drawn:
        control = Control("of", tuple(column for (column,) in drawn))
        several = len(drawn) > 1
        variants = drawn if several else {(): next(iter(drawn.values()))}
        blocks.append(Figure(f"{part.name}-beside", variants, [control] * several))
    for one, experiment in zip(
        done, [e for e in part.experiments if e.name in found.done], strict=True
    ):
        blocks += [
            Figure(f"{experiment.name}-{name}", {(): figure})
            for name, figure in one.outcome.figures.items()
        ]
        blocks += [Words(note) for note in one.outcome.notes]
    return Section(part.name, part.title, blocks, part.lead)


def _claims(claims: Sequence[Claim]) -> Table:
    """Claims of the form "NAME: CLAIM" about several names are a table with a line per name; others
    have a line each."""
    parts = [claim.statement.partition(": ") for claim in claims]
    names = list(dict.fromkeys(name for name, _, _ in parts))
    kinds = list(dict.fromkeys(kind for _, _, kind in parts))
    if len(names) > 1 and len(claims) == len(names) * len(kinds) and all(kinds):
        cells = {(name, kind): claim for (name, _, kind), claim in zip(parts, claims, strict=True)}
        lines = [[name, *(_tested(cells[name, kind]) for kind in kinds)] for name in names]
        sources = ", ".join(dict.fromkeys(claim.source for claim in claims))
        return Table(f"Claims tested ({sources}): {MARKS}", ("", *kinds), lines)
    lines = [
        [claim.statement, HOLDS[claim.holds], claim.measured, claim.interval, claim.source]
        for claim in claims
    ]
    marked = [k for k, claim in enumerate(claims) if claim.holds is False]
    headers = ("claim", "verdict", "measured", "95% interval", "source")
    return Table("Claims tested", headers, lines, words=(0, 1, 4), marked=marked)


def _tested(claim: Claim) -> str:
    mark = {True: "✓", False: "✗", None: "?"}[claim.holds]
    return f"{mark} {claim.measured}" + (f" ({claim.interval})" if claim.interval else "")


def _compact(caption: str, rows: Sequence[Row]) -> Table:
    """One line per row. Each cell has our number, and in brackets the printed one; if nothing is
    printed, the 95% interval."""
    columns = list(dict.fromkeys(row.column for row in rows))
    names = list(dict.fromkeys(row.row for row in rows))
    printed = any(not math.isnan(row.printed) for row in rows)
    cells = {(row.row, row.column): _cell(row, printed=printed) for row in rows}
    lines = [[name, *(cells.get((name, column), "") for column in columns)] for name in names]
    spans = any(not math.isnan(row.low) for row in rows)
    brackets = ": ours (printed)" if printed else ": ours (95% interval)" if spans else ""
    return Table(caption + brackets, ("", *columns), lines)


def _cell(row: Row, *, printed: bool) -> str:
    ours = _rounded(row.ours, row)
    if printed:
        beside = "" if math.isnan(row.printed) else f" ({_rounded(row.printed, row)})"
    else:
        beside = f" ({_interval(row, row.decimals)})" if _interval(row, row.decimals) else ""
    return ours + beside + (" ≠" if row.agrees is False else "")


def _rounded(value: float, row: Row) -> str:
    """A number as the table prints it; whole numbers have no "< 1"."""
    whole = row.decimals == 0 and math.isfinite(value)
    return number(round(value) if whole else value, row.decimals)


def _interval(row: Row, decimals: int) -> str:
    if math.isnan(row.low):
        return ""
    return f"{number(row.low, decimals)} to {number(row.high, decimals)}"


def _all_numbers(found: Reproduction) -> Section:
    headers = (
        *("", "quantity", "source", "printed", "ours"),
        *("95% interval", "difference", "tolerance", "verdict"),
    )
    lines = [
        (
            row.row,
            row.column,
            row.source,
            number(row.printed, row.decimals),
            number(row.ours, row.decimals + 1),
            _interval(row, row.decimals + 1),
            number(row.difference, row.decimals + 1),
            number(row.tolerance, row.decimals + 1),
            VERDICTS[row.agrees],
        )
        for row in found.rows
    ]
    marked = [k for k, row in enumerate(found.rows) if row.agrees is False]
    table = Table("All numbers", headers, lines, words=(0, 1, 2, 8), marked=marked)
    lead = "Without a tolerance, the printed number belongs to another network or formula."
    return Section("numbers", "All numbers", [table], lead, folded=True)


def _left_out(found: Reproduction) -> list[Section]:
    lines = [(one.title, one.reason) for one in found.left_out]
    blocks: list[Block] = []
    if lines:
        blocks.append(Table("Not run", ("experiment", "reason"), lines, words=(0, 1)))
    blocks += [Words(text) for text in found.paper.out_of_reach]
    return [Section("left-out", "What is left out", blocks)] if blocks else []


def _settings(found: Reproduction) -> Section:
    titles = {one.name: one.title for one in found.paper.experiments}
    entries = [
        (
            titles[name],
            ", ".join(
                [f"{key} {value}" for key, value in one.settings.items()] + [f"{one.seconds:.1f} s"]
            ),
        )
        for name, one in found.done.items()
    ]
    facts = Facts([*entries, ("probaudit", __version__)])
    return Section("settings", "Settings and times", [facts], folded=True)
