"""The options of the command line, each with its help."""

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
)

File = Annotated[
    Path,
    typer.Argument(
        help=".csv, .parquet, .arrow or .npz file with labels and outputs, a folder, or a pattern",
        show_default=False,
    ),
]
Label = Annotated[str, typer.Option(help="column with the true class")]
Probs = Annotated[
    str | None,
    typer.Option(help="columns with probabilities: names or a pattern", show_default="p_*"),
]
Logits = Annotated[str | None, typer.Option(help="columns with logits")]
LogProbs = Annotated[str | None, typer.Option(help="columns with log-probabilities")]
Confidence = Annotated[
    str | None, typer.Option(help="column with a confidence; requires --correct")
]
Correct = Annotated[
    str | None, typer.Option(help="column with the correctness of each answer (true or false)")
]
Weight = Annotated[str | None, typer.Option(help="column with sample weights")]
FeatureColumns = Annotated[
    str | None,
    typer.Option("--features", help="columns with features, to search for hidden groups"),
]
GroupColumns = Annotated[
    list[str],
    typer.Option(
        "--groups",
        help="columns whose values are groups; repeatable; 'a*b' adds the intersections of a and b",
        metavar="COLUMNS",
    ),
]
ClusterColumn = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        help="column with clusters: rows with the same value are dependent",
        metavar="COLUMN",
    ),
]
Classes = Annotated[
    str | None, typer.Option(help="classes of the output columns, in order, separated by commas")
]
EventName = Annotated[
    str | None,
    typer.Option(
        "--event",
        help="class whose probability is judged as a risk; by default the second of two classes",
        metavar="NAME",
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
        "--drop-bad-rows", help="leave out invalid rows and count them, instead of stopping"
    ),
]
Tolerance = Annotated[
    float | None, typer.Option(help="how far the probabilities of a row may be from a sum of 1")
]
IgnoreLabel = Annotated[
    str | None,
    typer.Option(help="leave out rows with this label and count them, such as 255 or -100"),
]
Json = Annotated[
    str | None, typer.Option(help="write JSON to this file, or to - for standard output")
]
Html = Annotated[
    Path | None,
    typer.Option(help="write a report to this file: one self-contained HTML page"),
]
Material = Annotated[
    float, typer.Option(help="share of the log loss from which a gain matters to the verdict")
]
Full = Annotated[bool, typer.Option("--full", help="print all numbers")]
Title = Annotated[str, typer.Option(help="title of the report")]
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
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(help="address of a Dask scheduler; requires --engine dask")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="file to save progress in if the run is interrupted (Ctrl-C); compare writes one file"
        " per model, with .1, .2 and so on after the name"
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="continue from the checkpoint, if there is one")
]
Threads = Annotated[
    int | None, typer.Option(help="number of threads; the result does not depend on it")
]
