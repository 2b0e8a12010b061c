"""The command `reproduce`: the experiments of the papers, beside the printed values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..reproduce.papers import MODULES, paper
from .outputs import say


def reproduce(
    papers: Annotated[
        list[int],
        typer.Argument(
            help="1 grouping loss, 2 proper scores, 3 generalised ECE, 4 group calibration,"
            " 5 calibration and sharpness",
            show_default="all",
        ),
    ] = [],  # noqa: B006
    *,
    quick: Annotated[bool, typer.Option("--quick", help="smaller sizes, 30 seconds a paper")] = (
        False
    ),
    data: Annotated[
        Path | None,
        typer.Option(help="folder with predictions as .npz files, see docs/reproduce.md"),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="folder for pages, JSON files and stored results")
    ] = Path("probaudit-reproduction"),
) -> None:
    """Recompute figures and tables of five papers, beside the printed values.

    Writes a page and a JSON file per paper. An interrupted run resumes if the command is repeated.
    """
    from ..reproduce.data_folder import DataFolder
    from ..reproduce.running import reproduce as run

    chosen = [paper(number) for number in dict.fromkeys(papers or MODULES)]
    folder = DataFolder.of(data)
    try:
        for one in chosen:
            found = run(one, output, folder, quick=quick, report=say)
            page = output / f"paper-{one.number}.html"
            found.to_html(page)
            found.to_json(page.with_suffix(".json"))
            say(f"\nPaper {one.number}: {found.headline}")
            for left in found.left_out:
                say(f"left out: {left.title} {left.reason}")
            say(f"Page written to {page}\n")
    except KeyboardInterrupt:
        typer.echo("\nInterrupted. Complete results are stored: repeat the command.", err=True)
        raise
