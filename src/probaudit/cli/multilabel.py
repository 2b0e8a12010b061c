"""The command `multilabel`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..files.reading import read_multilabel
from .options import ClusterColumn, Drop, File, Html, Json, Logits, LogProbs, Probs, Title, Weight
from .outputs import console, print_report_path, write_results
from .running import in_steps


def open_labels(
    file: File,
    *,
    labels: Annotated[
        str, typer.Option(help="columns with labels, 0 or 1: names or a pattern")
    ] = "y_*",
    probs: Probs = None,
    logits: Logits = None,
    log_probs: LogProbs = None,
    weight: Weight = None,
    clusters: ClusterColumn = None,
) -> dict[str, object]:
    """The arguments of `multilabel_table` that a file holds."""
    return read_multilabel(
        file,
        labels=labels,
        probs=probs,
        logits=logits,
        log_probs=log_probs,
        weight=weight,
        clusters=clusters,
    )


@in_steps(open_labels, checkpoints=lambda options: [])
def multilabel(
    rows: dict[str, object],
    file: File,
    *,
    ignore_label: Annotated[
        float | None,
        typer.Option(help="value of cells without a label; nan for missing values"),
    ] = None,
    drop_bad_rows: Drop = False,
    json: Json = None,
    html: Html = None,
    title: Title = "",
) -> None:
    """Judge a multilabel model: each label by itself, worst first, and all labels together.

    Each label has a column of 0 and 1 and a column with its probability, matched by the part of
    their names that the stars of --labels and --probs match; or all labels are one 2-D array in an
    .npz file.
    """
    from ..audits.multilabel import multilabel_table
    from ..report.multilabel_page import render

    found = multilabel_table(
        **rows,  # type: ignore[arg-type]
        ignore_label=ignore_label,
        on_bad_rows="drop" if drop_bad_rows else "error",
    )
    write_results(found, json, html, title or file.name)
    if json != "-":
        console().print(render(found, title or file.name))
        print_report_path(html)
