"""The command line: demo, audit, check, calibrate, apply. Exit codes: 0 all well, 1 a check failed, 2 bad input."""

from __future__ import annotations

import functools
import inspect
import math
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
FeatureColumns = Annotated[
    str | None, typer.Option("--features", help="columns with features, for the loss budget and who is badly served")
]
GroupColumns = Annotated[str | None, typer.Option("--groups", help="columns with groups, judged in place of learned regions")]
Classes = Annotated[str | None, typer.Option(help="the class of each output in order, separated by commas")]
Costs = Annotated[
    Path | None,
    typer.Option(help="CSV of costs: a header with the decisions, a row for each class, its name in the first column"),
]
Reject = Annotated[float, typer.Option(help="cost of the reject option, where an error costs 1")]
Drop = Annotated[bool, typer.Option("--drop-bad-rows", help="leave bad rows out and count them, instead of stopping")]
Tolerance = Annotated[float | None, typer.Option(help="how far a row of probabilities may sum from 1")]
Repair = Annotated[
    bool | None, typer.Option(help="try a calibrator in cross-validation; unless said, up to 20 million outputs")
]
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
    features: FeatureColumns = None,
    groups: GroupColumns = None,
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
        features=features,
        columns=groups,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        on_bad_rows="drop" if drop_bad_rows else "error",
        tolerance=tolerance,
    )


def _audit(
    rows: Predictions, costs: Costs = None, reject_cost: Reject = 0.1, repair: Repair = None, threads: Threads = None
) -> Audit:
    matrix = None if costs is None else read_costs(costs, rows.class_order)
    regions = list(rows.columns) if rows.columns else None
    return audit_rows(rows, costs=matrix, reject_cost=reject_cost, repair=repair, regions=regions, threads=threads)


def takes(*makers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of functions that make its first argument, each from what the one before it made."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        chain = [dict(inspect.signature(f, eval_str=True).parameters) for f in (*makers, command)]
        for parameters in chain[1:]:
            del parameters[next(iter(parameters))]  # made by the one before

        @functools.wraps(command)
        def run(**options: Any) -> None:
            with _bad_input_exits():
                made: tuple[Any, ...] = ()
                for function, parameters in zip((*makers, command), chain, strict=True):
                    made = (function(*made, **{name: options[name] for name in parameters}),)

        merged = {"file": chain[0]["file"]} | chain[-1] | chain[0]
        for parameters in chain[1:-1]:
            merged |= parameters
        run.__signature__ = inspect.Signature(list(merged.values()))  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in merged.items()}
        return run

    return decorate


@app.command()
@takes(_read, _audit)
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
@takes(_read, _audit)
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
@takes(_read)
def calibrate(
    rows: Predictions,
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file for the calibrator", show_default=False)],
    method: Annotated[str, typer.Option(help="auto, or the name of one")] = "auto",
    score: Annotated[str, typer.Option(help="what decides: log or brier")] = "log",
    folds: Annotated[int, typer.Option(help="folds of the cross-validation")] = 5,
    seed: Annotated[int, typer.Option(help="of the folds")] = 0,
) -> None:
    """Fit a calibrator to the outputs in a file, and save it as JSON for `apply`.

    With --method auto the one with the best cross-validated score is chosen, or a simpler one that is as good within one
    standard error. Scores are out of fold: each row is judged by a calibrator that did not see it.
    """
    from .calibration_loss import calibration_loss
    from .calibrators import save
    from .selecting import calibrator_named, fit_calibrator, select_calibrator

    if method == "auto":
        choice = select_calibrator(rows, score=score, cv=folds, seed=seed)
        typer.echo(f"{choice!r}\n")
        calibrator = choice.calibrator
    else:
        calibrator = fit_calibrator(rows, calibrator_named(method))
    found = calibration_loss(rows, calibrator=calibrator, score=score, cv=folds, seed=seed)
    save(calibrator, output)
    before, after = float(found.raw), float(found.calibrated)
    gone = f": {float(found.relative):.1%} of it is gone" if math.isfinite(found.relative) else ""
    typer.echo(f"{score} score {before:.4f} before, {after:.4f} after{gone} (each row out of fold)")
    typer.echo(f"{type(calibrator).__name__}: {calibrator.fit_report_.status}")
    typer.echo(f"Saved to {output}. Try: probaudit apply {output} {file} -o calibrated.parquet")


@app.command()
def apply(
    calibrator: Annotated[Path, typer.Argument(help="JSON file that `calibrate` wrote", show_default=False)],
    file: Annotated[Path, typer.Argument(help=".csv, .parquet, .arrow or .npz with outputs", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help=".parquet or .csv file to write", show_default=False)],
    probs: Probs = None,
    logits: Logits = None,
    log_probs: LogProbs = None,
) -> None:
    """Calibrate the outputs in a file; no labels are needed. Other columns are kept, and outputs become p_<class>."""
    from .calibrators import load
    from .calibrators.base import with_first_column
    from .reading import read_outputs
    from .writing import write_table

    with _bad_input_exits():
        model = load(calibrator)
        given = {"probs": probs, "logits": logits, "log_probs": log_probs}
        outputs, others = read_outputs(file, model.classes_.tolist(), from_logits=model.from_logits, **given)
        calibrated = model.predict_proba(with_first_column(outputs, model.n_features_in_, model.from_logits))
        names = {f"p_{name}": calibrated[:, k] for k, name in enumerate(model.classes_.tolist())}
        write_table(output, {name: column for name, column in others.items() if name not in names} | names)
    typer.echo(f"{len(calibrated):,} rows written to {output}")


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
