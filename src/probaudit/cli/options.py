"""The options of the command line, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..engines.choosing import Engine

# Options that say where outputs are, and what else is needed to read the rows again.
OUTPUTS = ("probs", "logits", "log_probs")
ROWS = ("label", "weight", "clusters", "classes", "drop_bad_rows", "tolerance")

File = Annotated[
    Path,
    typer.Argument(
        help=".csv, .parquet, .arrow or .npz with labels and outputs; or a folder or pattern",
        show_default=False,
    ),
]
Label = Annotated[str, typer.Option(help="column with the true class")]
Probs = Annotated[
    str | None,
    typer.Option(help="columns with probabilities, as names or a pattern", show_default="p_*"),
]
Logits = Annotated[str | None, typer.Option(help="columns with logits")]
LogProbs = Annotated[str | None, typer.Option(help="columns with log-probabilities")]
Confidence = Annotated[
    str | None, typer.Option(help="column with a stated confidence; goes with --correct")
]
Correct = Annotated[str | None, typer.Option(help="column that says if the answer was right")]
Weight = Annotated[str | None, typer.Option(help="column with sample weights")]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features", help="columns with features, for the loss budget and who is badly served"
    ),
]
GroupColumns = Annotated[
    str | None,
    typer.Option("--groups", help="columns with groups, judged in place of learned regions"),
]
ClusterColumn = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        help="column whose equal values are dependent rows, such as a patient's visits",
        metavar="COLUMN",
    ),
]
Classes = Annotated[
    str | None, typer.Option(help="the class of each output in order, separated by commas")
]
Costs = Annotated[
    Path | None,
    typer.Option(
        help="CSV of costs: a header with the decisions, a row for each class, its name in the first column"
    ),
]
Reject = Annotated[float, typer.Option(help="cost of the reject option, where an error costs 1")]
Drop = Annotated[
    bool,
    typer.Option("--drop-bad-rows", help="leave bad rows out and count them, instead of stopping"),
]
Tolerance = Annotated[
    float | None, typer.Option(help="how far a row of probabilities may sum from 1")
]
Json = Annotated[
    str | None, typer.Option(help="write JSON to this file, or to - for standard output")
]
Html = Annotated[
    Path | None,
    typer.Option(help="write a report to this file: one page, to be opened in any browser"),
]
Title = Annotated[str, typer.Option(help="of the report; the file's name unless given")]
Repair = Annotated[
    bool | None,
    typer.Option(help="try a calibrator in cross-validation; a report (--html) compares many"),
]
EngineName = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="memory, stream or dask; auto streams several or large files. Audits say the same",
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(help="address of a Dask scheduler; goes with --engine dask")
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="file for the state of a stream, if it is interrupted (Ctrl-C)")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="go on from the checkpoint, if there is one")
]
Threads = Annotated[
    int | None, typer.Option(help="threads to use; the result does not depend on it")
]
