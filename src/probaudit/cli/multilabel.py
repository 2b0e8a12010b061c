"""The command `multilabel`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..files.reading import read_multilabel
from .options import (
    COLUMNS,
    ClusterColumn,
    Decimal,
    Drop,
    File,
    Format,
    Html,
    Json,
    Logits,
    LogProbs,
    Probs,
    Separator,
    Title,
    Weight,
)
from .outputs import console, print_report_path, write_results
from .running import in_steps
from .standard_input import opened, shown


def open_labels(
    file: File,
    *,
    labels: Annotated[
        str,
        typer.Option(
            help="columns with labels, 0 or 1: names or a pattern", rich_help_panel=COLUMNS
        ),
    ] = "y_*",
    probs: Probs = None,
    logits: Logits = None,
    log_probs: LogProbs = None,
    weight: Weight = None,
    clusters: ClusterColumn = None,
    sep: Separator = None,
    decimal: Decimal = ".",
    form: Format = None,
) -> dict[str, object]:
    """The arguments of `multilabel_table` that a file holds."""
    return read_multilabel(
        opened(file, form),
        labels=labels,
        probs=probs,
        logits=logits,
        log_probs=log_probs,
        weight=weight,
        clusters=clusters,
        sep=sep,
        decimal=decimal,
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
    write_results(found, json, html, title or shown(file))
    if json != "-":
        console().print(render(found, title or shown(file)))
        print_report_path(html)
