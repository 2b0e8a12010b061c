"""The command `monitor`: a folder of days against a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from ..data.predictions import Predictions
from ..engines.choosing import Passing
from ..errors import InputError
from ..files.layout import ReadOptions
from ..files.paths import files_of, is_readable
from ..files.reading import read
from ..monitoring.alarm import Alarm, Check, direction
from ..monitoring.monitor import Monitor
from ..text import counted
from ..version import __version__
from .opened_rows import OpenedRows, reading
from .options import (
    Classes,
    Confidence,
    Correct,
    Decimal,
    Drop,
    IgnoreLabel,
    Json,
    Label,
    Logits,
    LogProbs,
    Probs,
    Separator,
    Tolerance,
    Weight,
)
from .outputs import say, write_json
from .running import in_steps

SCHEMA = "probaudit.monitoring/1"
HISTORY = 1_000_000  # checks that are kept for the JSON file
# window and every, if they are not given
DEFAULTS = {"files": (1, 1), "rows": (10_000, 1_000)}
TESTS = "Tests"  # panel of the help


@dataclass(frozen=True)
class Day:
    """A file or folder of the stream, with the checks that ended in it and the alarms they
    raised."""

    path: Path
    rows: int
    checks: tuple[Check, ...]
    alarms: tuple[Alarm, ...]

    @property
    def changed(self) -> bool:
        """Whether a check that ended in it found a significant change, be it new or not."""
        return any(check.alarming for check in self.checks)

    def __str__(self) -> str:
        changes = {
            change.measure: direction(change)
            for check in self.checks
            for change in check.changes
            if change.measure in check.alarming
        }
        words = ", ".join(f"{measure} {side}" for measure, side in changes.items())
        end = f"ALARM  {words}" if changes else "ok" if self.checks else "the window is not full"
        return f"{self.path.name}  {counted(self.rows)}  {end}"


class OpenedDays(NamedTuple):
    """The rows of the reference, the days to compare with it, and the options to read them."""

    reference: OpenedRows
    days: list[Path]
    options: ReadOptions


def open_days(
    reference: Annotated[
        Path,
        typer.Argument(
            help="file, folder or pattern with rows from a time when the model worked well",
            show_default=False,
        ),
    ],
    days: Annotated[
        Path,
        typer.Argument(
            help="folder of days: each file, or each subfolder, is one; or a file or pattern",
            show_default=False,
        ),
    ],
    *,
    label: Label = "label",
    probs: Probs = None,
    logits: Logits = None,
    log_probs: LogProbs = None,
    confidence: Confidence = None,
    correct: Correct = None,
    weight: Weight = None,
    classes: Classes = None,
    drop_bad_rows: Drop = False,
    tolerance: Tolerance = None,
    ignore_label: IgnoreLabel = None,
    sep: Separator = None,
    decimal: Decimal = ".",
) -> OpenedDays:
    """The rows of the reference, and the days."""
    options = reading(
        label=label,
        confidence=confidence,
        correct=correct,
        weight=weight,
        classes=classes,
        drop_bad_rows=drop_bad_rows,
        tolerance=tolerance,
        ignore_label=ignore_label,
        sep=sep,
        decimal=decimal,
    ).options | ReadOptions(probs=probs, logits=logits, log_probs=log_probs)
    return OpenedDays(OpenedRows.of(reference, Passing(), options), days_of(days), options)


@in_steps(open_days, checkpoints=lambda options: [])
def monitor(
    opened: OpenedDays,
    *,
    by: Annotated[
        Literal["files", "rows"],
        typer.Option(help="the unit of --window and --every", rich_help_panel=TESTS),
    ] = "files",
    window: Annotated[
        int | None,
        typer.Option(
            help="files or rows that each check compares with the reference",
            show_default="1 file, or 10,000 rows",
            rich_help_panel=TESTS,
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            help="files or rows between checks",
            show_default="1 file, or 1,000 rows",
            rich_help_panel=TESTS,
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            help="probability of any false alarm in --horizon checks", rich_help_panel=TESTS
        ),
    ] = 0.05,
    horizon: Annotated[
        int, typer.Option(help="number of checks that --alpha refers to", rich_help_panel=TESTS)
    ] = 1_000,
    ignore: Annotated[
        list[str],
        typer.Option(
            metavar="MEASURE=VALUE",
            help="difference up to which a measure may change; repeatable",
            rich_help_panel=TESTS,
        ),
    ] = [],  # noqa: B006
    json: Json = None,
) -> None:
    """Compare the files of a folder, day after day, with a reference.

    Prints a line for each day, the last check, and the alarms: changes of log loss, accuracy,
    calibration error, confidence or class frequencies that sampling noise does not explain. Days
    are read in the order of their names, so dates must sort (2026-03-09). The exit code is 0
    without an alarm, 1 with one, 2 for invalid input, and 3 for an internal error.
    """
    rows, usual = opened.reference, DEFAULTS[by]
    watcher = Monitor(
        rows.given
        if isinstance(rows.given, Predictions)
        else rows.passing.gather(rows.given, {}, 0.1),
        window=usual[0] if window is None else window,
        every=usual[1] if every is None else every,
        by="blocks" if by == "files" else "rows",
        alpha=alpha,
        horizon=horizon,
        ignore=_differences(ignore),
        history=HISTORY,
    )
    found = [_day(watcher, path, opened.options, json != "-") for path in opened.days]
    if json is not None:
        write_json(json, _as_dict(watcher, found))
    if json != "-":
        say("")
        say(watcher.report())
    if watcher.alarms:
        raise typer.Exit(1)


def days_of(path: Path) -> list[Path]:
    """The files and subfolders of a folder, in the order of their names, except those that begin
    with a dot or an underscore; the files of a pattern."""
    if not path.is_dir():
        return list(files_of(path))
    inside = [one for one in sorted(path.iterdir()) if one.name[0] not in "._"]
    found = [one for one in inside if one.is_dir() or is_readable(one)]
    return found or list(files_of(path))  # which raises


def _day(watcher: Monitor, path: Path, options: ReadOptions, printed: bool) -> Day:
    """Add the rows of a day to the monitor, and print what they show. An error names the day."""
    before = watcher.checks_made
    try:
        rows = read(path, **options)
        alarms = watcher.update(rows)
    except InputError as problem:
        value = f"{path}: {problem.value}"
        raise InputError(
            problem.argument, problem.rule, value, row=problem.row, way_out=problem.way_out
        ) from None
    new = watcher.checks_made - before
    day = Day(path, len(rows), tuple(watcher.checks)[len(watcher.checks) - new :], tuple(alarms))
    if printed:
        (typer.echo if day.changed else say)(str(day))
    return day


def _differences(given: Sequence[str]) -> dict[str, float]:
    """The measures of --ignore with their differences."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            rule = "must have the form MEASURE=VALUE, such as accuracy=0.01"
            raise InputError("ignore", rule, repr(text)) from None
    return found


def _as_dict(watcher: Monitor, days: Sequence[Day]) -> dict[str, Any]:
    """The result as plain values; numbers that are not finite are None."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "passed": not watcher.alarms,
        "reference_rows": watcher.reference.evidence.summary.rows,
        "settings": {
            "by": "files" if watcher.by == "blocks" else "rows",
            "window": watcher.window_size,
            "every": watcher.every,
            "alpha": watcher.alpha,
            "horizon": watcher.horizon,
            "ignore": watcher.ignore,
            "level": watcher.level,
        },
        "days": [
            {
                "path": str(day.path),
                "rows": day.rows,
                "checks": [_finite(asdict(check)) for check in day.checks],
                "alarms": [_finite(asdict(alarm)) for alarm in day.alarms],
            }
            for day in days
        ],
    }


def _finite(value: Any) -> Any:
    """A copy of plain values in which numbers that are not finite are None."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
