"""The command `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Unpack

import typer

from ..audits.finding import COMMANDS, Commands
from ..data.predictions import Predictions
from ..engines.choosing import Passing, is_streamed
from ..files.dialect import Dialect
from ..files.layout import ReadOptions
from ..files.reading import read_costs
from .given_options import given, in_order
from .opened_rows import OpenedRows, Reading, reading
from .options import (
    COLUMNS,
    OUTPUTS,
    ROWS,
    Costs,
    Decimal,
    Full,
    Html,
    Json,
    Repair,
    Score,
    Separator,
    Title,
)
from .outputs import console, print_report_path, say, write_results
from .running import in_steps
from .standard_input import DASH, opened

LENS_VALUES = 5_000_000  # outputs per model up to which files show errors by lens


@dataclass(frozen=True)
class OpenedModels:
    """The rows of each model by name; of streamed rows a sample.

    total : the number of rows in the first file.
    commands : by model, how to spell actions on its rows.
    """

    rows: dict[str, Predictions]
    total: int
    commands: dict[str, Commands]

    @property
    def first(self) -> Predictions:
        return next(iter(self.rows.values()))


def open_models(
    reading: Reading,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="files with the same rows, one per model; or one file with several column sets",
            show_default=False,
        ),
    ],
    context: typer.Context,
    *,
    probs: Annotated[
        list[str],
        typer.Option(
            help="columns with probabilities; once for all files, or once per model",
            rich_help_panel=COLUMNS,
        ),
    ] = [],  # noqa: B006
    logits: Annotated[
        list[str], typer.Option(help="columns with logits", rich_help_panel=COLUMNS)
    ] = [],  # noqa: B006
    log_probs: Annotated[
        list[str], typer.Option(help="columns with log-probabilities", rich_help_panel=COLUMNS)
    ] = [],  # noqa: B006
    name: Annotated[
        list[str], typer.Option(help="name of a model, once per model in the order of files")
    ] = [],  # noqa: B006
) -> OpenedModels:
    """The models of the command line, with their rows."""
    from ..comparisons.same_rows import read_models

    passing = reading.passing
    files = [opened(file, reading.form if file == DASH else None) for file in files]
    if passing.engine == "auto" and any(
        is_streamed(file, "auto", passing.checkpoint) for file in files
    ):
        # stream all or none, so that samples have the same rows
        passing = replace(passing, engine="stream")
    sources: list[OpenedRows] = []

    def rows_of(file: Path, **options: Unpack[ReadOptions]) -> Predictions:
        own = shared
        if shared.checkpoint is not None:
            number = len(sources) + 1
            own = replace(shared, checkpoint=_numbered(Path(shared.checkpoint), number))
        sources.append(OpenedRows.of(file, own, options))
        return sources[-1].in_memory()

    outputs = in_order(context, *OUTPUTS)  # kinds may be mixed: one set of columns per model
    with _one_cluster(passing) as shared:
        rows = read_models(files, rows_of, outputs=outputs, names=name, reading=reading.options)
    commands = _commands(context, files, outputs, len(rows))
    return OpenedModels(rows, len(sources[0].given), dict(zip(rows, commands, strict=True)))


def _commands(
    context: typer.Context, files: list[Path], outputs: list[tuple[str, str]], models: int
) -> list[Commands]:
    """Each model's file and columns, in the order of the models."""
    reading, changing = given(context, *ROWS, "form"), given(context, "tolerance", "sep", "decimal")
    found = []
    for k in range(models):
        file = files[k if len(files) > 1 else 0]
        kind, pattern = outputs[k if len(outputs) > 1 else 0] if outputs else ("", "")
        columns = [f"--{kind.replace('_', '-')}", pattern] if kind else []
        found.append(Commands(str(file), (*reading, *columns), (*columns, *changing)))
    return found


@contextmanager
def _one_cluster(passing: Passing) -> Iterator[Passing]:
    """The same passes; if the engine is Dask, all on one cluster."""
    if passing.engine != "dask":
        yield passing
        return
    from ..engines.cluster import connected

    with connected(scheduler=passing.scheduler) as client:
        yield replace(passing, client=client)


def _numbered(checkpoint: Path, number: int) -> Path:
    """The checkpoint of a model, by its number from 1."""
    return checkpoint.with_name(f"{checkpoint.name}.{number}")


def _checkpoints(options: Mapping[str, Any]) -> list[Path]:
    """The checkpoints of all models: one per file, or one per set of columns."""
    if options["checkpoint"] is None:
        return []
    models = max(len(options["files"]), sum(len(options[kind]) for kind in OUTPUTS))
    return [_numbered(options["checkpoint"], k + 1) for k in range(models)]


@in_steps(reading, open_models, checkpoints=_checkpoints)
def compare(
    models: OpenedModels,
    *,
    reference: Annotated[
        str | None,
        typer.Option(help="the model to compare the others with", show_default="the first"),
    ] = None,
    score: Score = "log",
    costs: Costs = None,
    sep: Separator = None,
    decimal: Decimal = ".",
    repair: Repair = None,
    json: Json = None,
    html: Html = None,
    title: Title = "",
    full: Full = False,
) -> None:
    """Compare models on the same rows: paired differences with intervals, ranks, and a verdict.

    Prints which model to use and a table of all models. With --full it also prints further errors
    and all differences. Streamed rows are compared on a sample, the same for each model.
    """
    from ..comparisons.comparison import compare as compare_models
    from ..report.comparison_terminal import first_screen, render

    first = models.first
    comparison = compare_models(
        models.rows,
        costs=None
        if costs is None
        else read_costs(costs, first.class_order, Dialect(sep, decimal)),
        reference=reference,
        score=score,  # type: ignore[arg-type]
        repair=repair,
        regions=list(first.columns) if first.columns else None,
        lenses=(json or html) is not None and first.probs.size <= LENS_VALUES,
    )
    comparison = replace(comparison, spellings=models.commands)
    write_results(comparison, json, html, title)
    if json == "-":
        return
    more = "" if html is not None else "All numbers: --full; diagrams: --html report.html"
    console().print(
        render(comparison, title, COMMANDS)
        if full
        else first_screen(comparison, title, COMMANDS, more)
    )
    if models.total > len(first):
        say(f"\nCompared on a sample of {len(first):,} of {models.total:,} rows.")
    print_report_path(html)
