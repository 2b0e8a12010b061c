"""The options of the command line, each with its help and the panel of the help that lists it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..engines.choosing import Engine

# Options that name the output columns, and the other options needed to read the same rows again.
OUTPUTS = ("probs", "logits", "log_probs")
ROWS = (
    "label",
    "weight",
    "clusters",
    "classes",
    "event",
    "drop_bad_rows",
    "tolerance",
    "ignore_label",
    "sep",
    "decimal",
)

# panels of the help; all other options are in the first one
COLUMNS, ROWS_PANEL, ENGINE, WRITTEN = "Columns", "Rows", "Large files", "Output"

File = Annotated[
    Path,
    typer.Argument(
        help="file with labels and outputs (.csv, .tsv, .jsonl, .parquet, .arrow, .npz or .npy), a"
        " folder, a pattern, or - for standard input",
        show_default=False,
    ),
]
Label = Annotated[str, typer.Option(help="column with the true class", rich_help_panel=COLUMNS)]
Probs = Annotated[
    str | None,
    typer.Option(
        help="columns with probabilities: names or a pattern",
        show_default="p_*",
        rich_help_panel=COLUMNS,
    ),
]
Logits = Annotated[str | None, typer.Option(help="columns with logits", rich_help_panel=COLUMNS)]
LogProbs = Annotated[
    str | None, typer.Option(help="columns with log-probabilities", rich_help_panel=COLUMNS)
]
Confidence = Annotated[
    str | None,
    typer.Option(help="column with a confidence; requires --correct", rich_help_panel=COLUMNS),
]
Correct = Annotated[
    str | None,
    typer.Option(
        help="column with the correctness of each answer (true / false, yes / no, 1 / 0)",
        rich_help_panel=COLUMNS,
    ),
]
Weight = Annotated[
    str | None, typer.Option(help="column with sample weights", rich_help_panel=COLUMNS)
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="columns with features, to search for hidden groups",
        rich_help_panel=COLUMNS,
    ),
]
GroupColumns = Annotated[
    list[str],
    typer.Option(
        "--groups",
        help="columns whose values are groups; repeatable; 'a*b' adds the intersections of a and b",
        metavar="COLUMNS",
        rich_help_panel=COLUMNS,
    ),
]
ClusterColumn = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        help="column with clusters: rows with the same value are dependent",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="classes of the output columns, in order, separated by commas; labels may be their"
        " positions 0, 1, ... if the classes are names",
        rich_help_panel=ROWS_PANEL,
    ),
]
EventName = Annotated[
    str | None,
    typer.Option(
        "--event",
        help="class whose probability is judged as a risk; by default the second of two classes",
        metavar="NAME",
        rich_help_panel=ROWS_PANEL,
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        help="CSV file with a column per decision and a row per class, which column 1 names"
    ),
]
Reject = Annotated[float, typer.Option(help="cost of the reject option; an error costs 1")]
Drop = Annotated[
    bool,
    typer.Option(
        "--drop-bad-rows",
        help="leave out invalid rows and count them, instead of stopping",
        rich_help_panel=ROWS_PANEL,
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        help="how far the probabilities of a row may be from a sum of 1", rich_help_panel=ROWS_PANEL
    ),
]
IgnoreLabel = Annotated[
    str | None,
    typer.Option(
        help="leave out rows with this label and count them, such as 255 or -100",
        rich_help_panel=ROWS_PANEL,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--sep",
        help="character between the values of a CSV file, such as ';' or tab",
        show_default="a comma; a tab in .tsv files",
        rich_help_panel=ROWS_PANEL,
    ),
]
Decimal = Annotated[
    str,
    typer.Option(
        help="mark before the decimals of numbers in a CSV file: . or ,", rich_help_panel=ROWS_PANEL
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="format of standard input, as the ending of a file: csv, tsv, jsonl, csv.gz, ...",
        show_default="csv",
        rich_help_panel=ROWS_PANEL,
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        help="write JSON to this file, or to - for standard output", rich_help_panel=WRITTEN
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        help="write a report to this file: one self-contained HTML page", rich_help_panel=WRITTEN
    ),
]
Material = Annotated[
    float, typer.Option(help="share of the log loss from which a gain matters to the verdict")
]
Full = Annotated[bool, typer.Option("--full", help="print all numbers", rich_help_panel=WRITTEN)]
Title = Annotated[str, typer.Option(help="title of the report", rich_help_panel=WRITTEN)]
Repair = Annotated[
    bool | None,
    typer.Option(help="cross-validate a calibrator; with --html, compare many"),
]
Score = Annotated[str, typer.Option(help="the score to decide by: log or brier")]
EngineName = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="where rows are processed; auto streams several or large files; results are identical",
        rich_help_panel=ENGINE,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="address of a Dask scheduler; requires --engine dask", rich_help_panel=ENGINE
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="file to save progress in if the run is interrupted (Ctrl-C); compare writes one file"
        " per model, with .1, .2 and so on after the name",
        rich_help_panel=ENGINE,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="continue from the checkpoint, if there is one", rich_help_panel=ENGINE
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        help="number of threads; the result does not depend on it", rich_help_panel=ENGINE
    ),
]
