"""Write the page docs/known-truth.md from the results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from known_truth_cases import LEVEL, Case, Family, Item, cases, families, wrong_in
from known_truth_reasons import reason_for
from known_truth_worlds import BLOCK_VALUES, BLOCKS, Truth, worlds

if TYPE_CHECKING:
    from known_truth import Results, Tally

LOWEST, HIGHEST = 0.93, 0.97
MOST_ALARMS = 0.07  # 5% plus two points
LEAST_BELOW = 0.955  # for lower bounds: 97.5% minus two points
TINY = 1e-9
ENOUGH_FOR_SPREAD = 20  # runs needed to know the standard deviation of an estimate
HEADER = (
    "estimator",
    "world",
    "n",
    "runs",
    "truth",
    "bias",
    "coverage %",
    "false alarms %",
    "power %",
    "note",
)

ENOUGH = 1_000  # replications needed before the page may be cited
FEW = """
> **These numbers are a trial run with {asked} replications of the cheap cases. They show the
> layout only; do not cite them.**
"""
INTRODUCTION = """# Estimators against known truth

This page evaluates every interval, test and verdict of the package in simulated worlds with known
truth. `benchmarks/known_truth.py` writes the tables; anyone can run it again:
{few}
```console
python benchmarks/known_truth.py --replications {asked}      # resumes where it stopped
python benchmarks/known_truth.py --only 'scores / rare*'     # some cases: family / world / n
```

## How to read the tables

- **truth**: the population value of the estimated quantity. It is a closed form, or a mean over a
  reference sample of {blocks} x {values:,} outputs in which true probabilities replace the labels.
  Where several definitions are possible, the text above the table says which one is used. A note
  marks rows where the error of the truth exceeds a tenth of the standard deviation of the
  estimate; it may lower the coverage there.
- **bias**: the mean of the estimates minus the truth, with its Monte Carlo standard error.
- **coverage**: the share of 95% intervals that contain the truth, with its Monte Carlo standard
  error (0.7 points at 1,000 runs, 1.5 at 200). Cells outside 93–97% are **bold** and explained
  below. For lower bounds, marked "≥", it is the share of intervals that start below the truth;
  cells below 95.5% are bold.
- **false alarms**: in worlds where nothing is wrong, how often an interval lies above 0, a test has
  p ≤ {level:g}, or an audit warns. Cells above 7% are bold.
- **power**: the same in worlds where something is wrong.
- **runs**: the number of replications. Expensive cases have fewer. All cases with the same world
  and n use the same rows.

"Not available" means that the call failed; the note gives the reason. "–" means that a column does
not apply.
"""


@dataclass(frozen=True)
class Row:
    """One row of a table as numbers. Columns that do not apply are NaN."""

    family: str
    item: str
    world: str
    n: int
    runs: int
    kind: str
    truth: float = math.nan
    truth_error: float = math.nan
    bias: float = math.nan
    bias_error: float = math.nan
    deviation: float = math.nan
    coverage: float = math.nan
    intervals: int = 0
    false_alarms: float = math.nan
    power: float = math.nan
    failed: int = 0
    why: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.item, self.world, self.n

    @property
    def coverage_marked(self) -> bool:
        if self.kind == "bound":
            return self.coverage < LEAST_BELOW
        return not math.isnan(self.coverage) and not LOWEST <= self.coverage <= HIGHEST

    @property
    def alarms_marked(self) -> bool:
        return self.false_alarms > MOST_ALARMS

    @property
    def marked(self) -> bool:
        return self.coverage_marked or self.alarms_marked

    @property
    def side(self) -> str:
        """What needs a reason: coverage "below" or "above" its range, or too many "alarms"."""
        if not self.coverage_marked:
            return "alarms"
        return "below" if self.coverage < LOWEST or self.kind == "bound" else "above"

    @property
    def within_error(self) -> bool:
        """Whether every marked cell is within two Monte Carlo standard errors of its range."""
        within = []
        if self.coverage_marked:
            low = LEAST_BELOW if self.kind == "bound" else LOWEST
            gap = max(low - self.coverage, self.coverage - HIGHEST if self.kind != "bound" else 0)
            within.append(gap <= 2 * share_error(low, self.intervals))
        if self.alarms_marked:
            within.append(
                self.false_alarms - MOST_ALARMS <= 2 * share_error(MOST_ALARMS, self.runs)
            )
        return all(within)


def share_error(share: float, runs: int) -> float:
    return math.sqrt(share * (1 - share) / runs) if runs else math.nan


def rows(chosen: list[Case], found: Results) -> Iterator[Row]:
    for case in chosen:
        tallies, truths = found.tallies.get(case.name, {}), found.truths.get(case.name, {})
        for name, item in families()[case.family].items.items():
            if name in tallies:
                yield row_of(case, name, item, tallies[name], truths.get(name))


def _wrong(case: Case, item: Item, truth: Truth | None) -> bool:
    """Whether the world has what the item should report."""
    return bool(item.about & wrong_in(case.world)) if truth is None else truth.value > 1


def row_of(case: Case, name: str, item: Item, tally: Tally, truth: Truth | None) -> Row:
    base = (case.family, name, case.world, case.n, tally.runs, item.kind)
    if not tally.runs:
        return Row(*base, failed=tally.failed, why=tally.why)
    if item.kind in ("test", "rate"):
        alarm = {
            "power" if _wrong(case, item, truth) else "false_alarms": tally.alarms / tally.runs
        }
        return Row(*base, failed=tally.failed, why=tally.why, **alarm)
    mean, value = tally.bias / tally.runs, tally.truth / tally.runs
    spread = math.sqrt(max(0.0, tally.bias_squared / tally.runs - mean**2))
    parts: dict[str, float] = {}
    if tally.intervals:
        hits = tally.starts_below if item.kind == "bound" else tally.covered
        parts["coverage"] = hits / tally.intervals
        parts |= _alarm(item, tally, value, per_run=truth is None and not wrong_in(case.world))
    return Row(
        *base,
        truth=value,
        truth_error=math.nan if truth is None else truth.error,
        bias=mean,
        bias_error=spread / math.sqrt(tally.runs),
        deviation=spread,
        intervals=tally.intervals,
        failed=tally.failed,
        why=tally.why,
        **parts,
    )


def _alarm(item: Item, tally: Tally, truth: float, *, per_run: bool) -> dict[str, float]:
    """The rate of alarms. per_run : the truth differs between runs, and nothing is wrong."""
    above, below = tally.above_zero / tally.intervals, tally.below_zero / tally.intervals
    if item.alarm == "none":
        return {}
    if item.alarm == "above":
        return {"false_alarms" if truth <= TINY or per_run else "power": above}
    if abs(truth) <= TINY:
        return {"false_alarms": above + below}
    return {"power": above if truth > 0 else below}


def _number(value: float, digits: int = 4) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:.{digits}f}"
    return (text.lstrip("-") if float(text) == 0 else text).replace("-", "−")


def _signed(value: float, error: float) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:+.4f}"
    text = "0.0000" if float(text) == 0 else text
    return f"{text} ± {error:.4f}".replace("-", "−")


def _percent(share: float, runs: int, *, bold: bool = False, bound: bool = False) -> str:
    if math.isnan(share):
        return "–"
    text = f"{'≥ ' if bound else ''}{100 * share:.1f} ± {100 * share_error(share, runs):.1f}"
    return f"**{text}**" if bold else text


def cells(row: Row, numbers: dict[str, int]) -> tuple[str, ...]:
    start = (row.item, row.world, f"{row.n:,}")
    if not row.runs:
        return (*start, "0", *["–"] * 5, f"not available: {row.why}".replace("|", "/"))
    notes = [f"[{numbers[_reason(row)]}]"] if row.marked else []
    notes += [f"{row.failed} runs failed: {row.why}".replace("|", "/")] if row.failed else []
    if row.runs >= ENOUGH_FOR_SPREAD and row.truth_error > max(TINY, row.deviation / 10):
        notes.append(f"truth known to ± {row.truth_error:.4f}")
    if row.kind in ("interval", "bound") and not row.intervals:
        notes.append("no interval")
    return (
        *start,
        f"{row.runs:,}",
        _number(row.truth),
        _signed(row.bias, row.bias_error),
        _percent(row.coverage, row.intervals, bold=row.coverage_marked, bound=row.kind == "bound"),
        _percent(row.false_alarms, row.runs, bold=row.alarms_marked),
        _percent(row.power, row.runs),
        "; ".join(notes),
    )


UNEXPLAINED = "Not explained yet."
WITHIN_ERROR = "Within two Monte Carlo standard errors of its range."


def _reason(row: Row) -> str:
    """The reason for a marked row. Monte Carlo error comes first."""
    if row.within_error:
        return WITHIN_ERROR
    return reason_for(*row.key, row.side) or UNEXPLAINED


def _table(found: list[Row], numbers: dict[str, int]) -> list[str]:
    lines = [
        " | ".join(HEADER),
        " | ".join("---" if k < 2 else "---:" for k in range(len(HEADER) - 1)) + " | ---",
    ]
    lines += [" | ".join(cells(row, numbers)) for row in found]
    return [f"| {line} |" for line in lines]


def _summary(found: list[Row]) -> list[str]:
    """One line per estimator: the ranges of coverage and power, and the most false alarms."""
    lines = [
        "| estimator | cells | coverage %, lowest to highest | cells in range | false alarms %,"
        " highest | power % |"
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for item in dict.fromkeys(row.item for row in found):
        mine = [row for row in found if row.item == item]
        if not any(row.runs for row in mine):
            lines.append(f"| {item} | {len(mine)} | not available | – | – | – |")
            continue
        covered = [row.coverage for row in mine if not math.isnan(row.coverage)]
        alarms = [row.false_alarms for row in mine if not math.isnan(row.false_alarms)]
        power = [row.power for row in mine if not math.isnan(row.power)]
        bound = "≥ " if mine[0].kind == "bound" else ""
        inside = sum(not row.coverage_marked for row in mine if not math.isnan(row.coverage))
        parts = (
            item,
            str(len(mine)),
            f"{bound}{_range(covered)}",
            f"{inside} of {len(covered)}" if covered else "–",
            f"{100 * max(alarms):.1f}" if alarms else "–",
            _range(power),
        )
        lines.append(f"| {' | '.join(parts)} |")
    return lines


def _range(shares: list[float]) -> str:
    if not shares:
        return "–"
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{low:.1f}" if len(shares) == 1 else f"{low:.1f} to {high:.1f}"


def _reasons(found: list[Row], numbers: dict[str, int]) -> list[str]:
    """The marked cells, listed by reason."""
    if not numbers:
        return ["None."]
    lines = []
    for text, number in numbers.items():
        mine = [row for row in found if row.marked and _reason(row) == text]
        where = "; ".join(f"{row.item} ({row.world}, n = {row.n:,})" for row in mine)
        lines += [f"- **[{number}]** {text}", f"  *{where}.*"]
    return lines


def page(chosen: list[Case], found: Results, asked: int) -> str:
    """The whole page as Markdown."""
    lines = list(rows(chosen, found))
    reasons = dict.fromkeys(_reason(row) for row in lines if row.marked)
    numbers = {text: number for number, text in enumerate(reasons, 1)}
    few = FEW.format(asked=asked) if asked < ENOUGH else ""
    text = INTRODUCTION.format(
        few=few, asked=f"{asked:_}", blocks=BLOCKS, values=BLOCK_VALUES, level=LEVEL
    )
    parts = [text, "## Summary", "", *_summary(lines), ""]
    parts += ["## Cells outside their range", "", *_reasons(lines, numbers), ""]
    parts += ["## Worlds", "", "| world | description |", "| --- | --- |"]
    used = {case.world for case in chosen}
    parts += [
        f"| {world.name} | {world.words} |" for world in worlds().values() if world.name in used
    ]
    for family in families().values():
        mine = [row for row in lines if row.family == family.name]
        if mine:
            parts += ["", f"## {family.title}", "", family.words, "", *_table(mine, numbers)]
    return "\n".join(parts) + "\n"


def text_table(chosen: list[Case], found: Results) -> str:
    """The rows as a plain table for the terminal."""
    lines = list(rows(chosen, found))
    numbers = {_reason(row): 0 for row in lines if row.marked}
    table = [HEADER, *(cells(row, numbers) for row in lines)]
    widths = [min(44, max(len(line[k]) for line in table)) for k in range(len(HEADER))]
    return "\n".join(
        "  ".join(part[:44].ljust(width) for part, width in zip(line, widths, strict=True))
        for line in table
    )


def page_keys(text: str) -> set[tuple[str, str, str]]:
    """Item, world and n of every row in the tables of the page."""
    split = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    lines = (parts for parts in split if len(parts) >= len(HEADER) - 1)
    return {
        (parts[0], parts[1], parts[2]) for parts in lines if parts[2].replace(",", "").isdigit()
    }


def expected_keys() -> set[tuple[str, str, str]]:
    """Item, world and n of every row that the cases require."""
    known: dict[str, Family] = families()
    return {
        (item, case.world, f"{case.n:,}") for case in cases() for item in known[case.family].items
    }
