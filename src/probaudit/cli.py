"""The command line: demo, audit, check. Exit codes: 0 all well, 1 a check failed, 2 bad input."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import InputError
from .predictions import Predictions
from .reading import read, read_costs
from .report.audit import Audit, audit_rows
from .report.gate import Threshold, failures
from .version import __version__

app = typer.Typer(
    help="Can your classifier's probabilities be trusted?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

File = Annotated[Path, typer.Argument(help=".csv, .parquet, .arrow or .npz with labels and outputs", show_default=False)]
Label = Annotated[str, typer.Option(help="column with the true class")]
Probs = Annotated[str | None, typer.Option(help="columns with probabilities, as names or a pattern", show_default="p_*")]
Logits = Annotated[str | None, typer.Option(help="columns with logits")]
LogProbs = Annotated[str | None, typer.Option(help="columns with log-probabilities")]
Confidence = Annotated[str | None, typer.Option(help="column with a stated confidence; goes with --correct")]
Correct = Annotated[str | None, typer.Option(help="column that says if the answer was right")]
Weight = Annotated[str | None, typer.Option(help="column with sample weights")]
Classes = Annotated[str | None, typer.Option(help="the class of each output in order, separated by commas")]
Costs = Annotated[
    Path | None,
    typer.Option(help="CSV of costs: a header with the decisions, a row for each class, its name in the first column"),
]
Reject = Annotated[float, typer.Option(help="cost of the reject option, where an error costs 1")]
Drop = Annotated[bool, typer.Option("--drop-bad-rows", help="leave bad rows out and count them, instead of stopping")]
Tolerance = Annotated[float | None, typer.Option(help="how far a row of probabilities may sum from 1")]
Threads = Annotated[int | None, typer.Option(help="threads to use; the result does not depend on it")]


@contextmanager
def _bad_input_exits() -> Iterator[None]:
    """Bad input is told in one line, with exit code 2."""
    try:
        yield
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"probaudit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")] = False,
) -> None:
    pass


def _read(
    file: File,
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
) -> Predictions:
    return read(
        file,
        label=label,
        probs=probs,
        logits=logits,
        log_probs=log_probs,
        confidence=confidence,
        correct=correct,
        weight=weight,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        on_bad_rows="drop" if drop_bad_rows else "error",
        tolerance=tolerance,
    )


def _audit(rows: Predictions, costs: Costs = None, reject_cost: Reject = 0.1, threads: Threads = None) -> Audit:
    matrix = None if costs is None else read_costs(costs, rows.class_order)
    return audit_rows(rows, costs=matrix, reject_cost=reject_cost, threads=threads)


def audits_a_file(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes an audit the options that say which rows to audit, and how."""
    reading, auditing, own = (dict(inspect.signature(f, eval_str=True).parameters) for f in (_read, _audit, command))
    del auditing["rows"], own["audit"]

    @functools.wraps(command)
    def run(**options: Any) -> None:
        with _bad_input_exits():
            rows = _read(**{name: options[name] for name in reading})
            audit = _audit(rows, **{name: options[name] for name in auditing})
            command(audit, **{name: options[name] for name in own})

    file = reading["file"]
    merged = {"file": file} | own | {name: reading[name] for name in reading if name != "file"} | auditing
    run.__signature__ = inspect.Signature(list(merged.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in merged.items()}
    return run


@app.command()
@audits_a_file
def audit(
    audit: Audit,
    file: File,
    json: Annotated[str | None, typer.Option(help="write JSON to this file, or to - for standard output")] = None,
) -> None:
    """Judge the probabilities in a file."""
    from .report.terminal import render

    if json == "-":
        sys.stdout.write(audit.to_json())
        return
    if json is not None:
        audit.to_json(json)
    _console().print(render(audit, file.name))


@app.command()
@audits_a_file
def check(
    audit: Audit,
    maximum: Annotated[list[str], typer.Option("--max", metavar="NAME=VALUE", help="fail if the value is above")] = [],  # noqa: B006
    minimum: Annotated[list[str], typer.Option("--min", metavar="NAME=VALUE", help="fail if the value is below")] = [],  # noqa: B006
) -> None:
    """Pass or fail on thresholds, for a pipeline: exit code 0 if all hold, 1 if one does not, 2 for bad input.

    For instance --max log_score.normalized=50% --min accuracy=0.9. An unknown name is answered with all that there are.
    """
    thresholds = [Threshold.parse(text, "max") for text in maximum] + [Threshold.parse(text, "min") for text in minimum]
    if not thresholds:
        raise InputError("max", "give at least one threshold, such as --max log_score.normalized=1")
    values = audit.flat()
    failed = failures(values, thresholds)
    for threshold in thresholds:
        mark = "FAIL" if threshold in failed else "ok"
        typer.echo(f"{mark:5}{threshold.name} = {values[threshold.name]:.6g}  ({threshold.rule})")
    if failed:
        raise typer.Exit(1)


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="folder for the predictions and audits")] = Path("probaudit-demo"),
) -> None:
    """Train real classifiers on data that comes with scikit-learn, and audit them."""
    from . import demo as demonstration
    from .report.terminal import overview, render

    console = _console()
    with _bad_input_exits():
        output.mkdir(parents=True, exist_ok=True)
        audits: dict[str, dict[str, Any]] = {}
        for data, method, rows, _ in demonstration.trained():
            found = audit_rows(rows)
            audits.setdefault(data, {})[method] = found
            path = demonstration.save(output, f"{data} {method}", rows)
            found.to_json(path.with_suffix(".json"))
        for data, found_by_method in audits.items():
            console.print(f"\n[bold]{data}[/bold]\n")
            console.print(overview(found_by_method))
        worst = audits["breast cancer"]["naive Bayes"]
        console.print()
        console.print(render(worst, "breast cancer, naive Bayes"))
        console.print(f"\nPredictions and audits are in {output}. Try: probaudit audit {output}/digits-random-forest.parquet")


if __name__ == "__main__":
    app()
