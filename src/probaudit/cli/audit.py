"""The commands `audit` and `check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..audits.audit import Repairing, audit_rows, audit_source
from ..audits.audit_result import Audit
from ..audits.finding import Commands
from ..audits.gate import Threshold, check_as_dict, check_thresholds
from ..audits.row_findings import judged_on_its_own_rows
from ..data.populations import crossing
from ..data.predictions import Predictions
from ..errors import InputError
from ..files.dialect import Dialect
from ..files.layout import split_names
from ..files.reading import read_costs
from .given_options import given, outputs_for_apply
from .opened_rows import OpenedRows, open_rows, reading
from .options import (
    OUTPUTS,
    ROWS,
    Costs,
    Decimal,
    File,
    Full,
    GroupColumns,
    Html,
    Json,
    Material,
    Reject,
    Repair,
    Separator,
    Title,
)
from .outputs import console, print_report_path, say, write_json, write_results
from .running import in_steps
from .standard_input import shown


def audit_opened(
    rows: OpenedRows,
    file: File,
    *,
    costs: Costs = None,
    reject_cost: Reject = 0.1,
    repair: Repair = None,
    groups: GroupColumns = [],  # noqa: B006
    html: Html = None,
    title: Title = "",
    material: Material = 0.01,
    sep: Separator = None,
    decimal: Decimal = ".",
) -> Audit:
    """Audit the rows in memory or in a stream."""
    # a page has room for all calibrators
    repairing: Repairing = "compare" if html is not None and repair is not False else repair
    columns = rows.first.columns or {}
    crossed = [crossing(part, columns) for part in split_names(groups, columns)]
    choices: dict[str, Any] = {
        "costs": None
        if costs is None
        else read_costs(costs, rows.first.class_order, Dialect(sep, decimal)),
        "reject_cost": reject_cost,
        "repair": repairing,
        "regions": list(columns) or None,
        "cross": [names for names in crossed if names],
        "title": title or shown(file),
        "material": material,
    }
    if isinstance(rows.given, Predictions):
        return audit_rows(rows.given, threads=rows.passing.threads, **choices)
    return audit_source(rows.given, passing=rows.passing, **choices)


@in_steps(reading, open_rows, audit_opened)
def audit(
    audit: Audit,
    file: File,
    context: typer.Context,
    json: Json = None,
    html: Html = None,
    full: Full = False,
) -> None:
    """Audit the probabilities in a file.

    Prints a verdict, a summary before and after recalibration, and the command to run next. With
    --full it also prints scores, calibration errors, groups and repairs.
    """
    from ..report.summary import one_tried
    from ..report.terminal import first_screen, render

    commands = _runnable_commands(file, context, list(audit.evidence.sample.columns or ()))
    audit = replace(audit, spelling=commands)
    write_results(audit, json, html)
    if json != "-":
        page = "many calibrators and diagrams" if one_tried(audit) else "as a page with diagrams"
        more = f"All numbers: --full; {page}: --html report.html"
        console().print(
            render(audit, audit.title, commands)
            if full
            else first_screen(audit, audit.title, commands, more if html is None else ""),
            crop=False,
        )
        print_report_path(html)


def _runnable_commands(file: Path, context: typer.Context, groups: list[str]) -> Commands:
    """Spells the actions of an advice as commands that run as printed. `groups` : the columns whose
    values are groups."""
    rows = given(context, *ROWS, *OUTPUTS, "confidence", "correct", "form")
    features = context.params.get("features")
    return Commands(
        str(file),
        tuple(rows),
        tuple(outputs_for_apply(context)),
        groups=",".join(groups) or "COLUMN",
        features=features or "COLUMNS",
    )


def _thresholds(options: Mapping[str, Any]) -> list[Threshold]:
    """The thresholds of --max, then those of --min."""
    thresholds = [Threshold.parse(text, "max") for text in options["maximum"]]
    thresholds += [Threshold.parse(text, "min") for text in options["minimum"]]
    if not thresholds:
        raise InputError(
            "max",
            "at least one threshold is required",
            "none",
            way_out=("pass --max or --min, such as --max log_score.normalized=1",),
        )
    return thresholds


@in_steps(reading, open_rows, audit_opened, check=_thresholds)
def check(
    audit: Audit,
    maximum: Annotated[
        list[str],
        typer.Option("--max", metavar="NAME=VALUE", help="fail if the value is above; repeatable"),
    ] = [],  # noqa: B006
    minimum: Annotated[
        list[str],
        typer.Option("--min", metavar="NAME=VALUE", help="fail if the value is below; repeatable"),
    ] = [],  # noqa: B006
    json: Json = None,
    html: Html = None,
) -> None:
    """Check an audit against thresholds, for a pipeline.

    The exit code is 0 if all thresholds hold, 1 if one fails, 2 for invalid input, and 3 for an
    internal error. --json - prints thresholds, results and audit as JSON, and nothing else.

    Example: --max log_score.normalized=50% --min accuracy=0.9. An unknown name lists all names.

    NAME.low and NAME.high are the ends of the 95% interval. With --groups, a group's numbers are
    named groups.COLUMN=VALUE.NAME, and * stands for any text: --max 'groups.*.gap=5%'. The gap of a
    small group is noisy: --max 'groups.*.gap.low=5%' fails only if the interval excludes 5%.
    """
    checked = check_thresholds(audit.flat(), _thresholds({"maximum": maximum, "minimum": minimum}))
    write_results(audit, None, html)
    if json is not None:
        write_json(json, check_as_dict(checked, audit))
    if json != "-":
        for one in checked:
            (say if one.passed else typer.echo)(str(one))
    for finding in audit.findings:
        if finding.rule == judged_on_its_own_rows.name:
            typer.echo(f"warning: {finding.text} {finding.advice_text(audit.spelling)}", err=True)
    if not all(one.passed for one in checked):
        raise typer.Exit(1)
