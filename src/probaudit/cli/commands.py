"""The command line: demo, audit, compare, check, calibrate, apply. Exit codes: 0 success, 1 a
failed check, 2 invalid input."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import numpy as np
import typer

from ..audits.audit import Audit, Repairing, audit_rows, audit_source
from ..audits.finding import COMMANDS, Commands
from ..audits.gate import Threshold, failures
from ..comparisons.comparison import Comparison
from ..data.predictions import Predictions
from ..engines.choosing import Passing, is_streamed
from ..engines.row_source import RowSource
from ..errors import InputError
from ..files.reading import ReadOptions, read_costs
from ..text import counted
from ..version import __version__
from .command import Command, check_outputs, checkpointed, given, in_order, line, takes
from .opening import OpenedRows, open_rows, read_options
from .options import (
    OUTPUTS,
    ROWS,
    Classes,
    ClusterColumn,
    Confidence,
    Correct,
    Costs,
    Drop,
    EngineName,
    FeatureColumns,
    File,
    GroupColumns,
    Html,
    Json,
    Label,
    Logits,
    LogProbs,
    Probs,
    Reject,
    Repair,
    Scheduler,
    Threads,
    Title,
    Tolerance,
    Weight,
)

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

app = typer.Typer(
    help="Can your classifier's probabilities be trusted?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
command = functools.partial(app.command, cls=Command)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"probaudit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass


def _audit(
    rows: OpenedRows,
    file: File,
    *,
    costs: Costs = None,
    reject_cost: Reject = 0.1,
    repair: Repair = None,
    html: Html = None,
    title: Title = "",
) -> Audit:
    given, passing = rows
    # a page has room for all calibrators
    compared: Repairing = "compare" if html is not None and repair is not False else repair
    choices: dict[str, Any] = {
        "costs": None if costs is None else read_costs(costs, rows.first.class_order),
        "reject_cost": reject_cost,
        "repair": compared,
        "regions": list(rows.first.columns) if rows.first.columns else None,
        "title": title or file.name,
    }
    if isinstance(given, Predictions):
        return audit_rows(given, threads=passing.threads, **choices)
    return audit_source(given, passing=passing, **choices)


@command()
@takes(open_rows, _audit)
def audit(
    audit: Audit,
    file: File,
    context: typer.Context,
    json: Json = None,
    html: Html = None,
) -> None:
    """Audit the probabilities in a file."""
    from ..report.terminal import render

    _write(audit, json, html)
    if json != "-":
        _console().print(render(audit, audit.title, _commands(file, context)))
        _say_where(html)


def _applied(context: typer.Context) -> list[str]:
    """The options that name the same outputs for `apply`."""
    stated = context.params.get("confidence")
    return given(context, *OUTPUTS) if stated is None else ["--probs", stated]


def _commands(file: Path, context: typer.Context) -> Commands:
    """How to spell the actions of an advice, so that the commands run as printed."""
    rows = given(context, *ROWS, *OUTPUTS, "confidence", "correct")
    groups, features = context.params.get("groups"), context.params.get("features")
    return Commands(
        str(file),
        tuple(rows),
        tuple(_applied(context)),
        # `calibrate` takes one column of groups
        groups=groups if groups and "," not in groups else "COLUMN",
        features=features or "COLUMNS",
    )


def _write(found: Audit | Comparison, json: str | None, html: Path | None, title: str = "") -> None:
    """Write the JSON and the report that were requested."""
    if html is not None:
        found.to_html(html, title=title)
    if json == "-":
        sys.stdout.write(found.to_json())
    elif json is not None:
        found.to_json(json)


def _say_where(html: Path | None) -> None:
    if html is not None:
        typer.echo(f"\nReport written to {html}")


@contextmanager
def _one_cluster(passing: Passing) -> Iterator[Passing]:
    """The same passes, on one Dask cluster if that is the engine."""
    if passing.engine != "dask":
        yield passing
        return
    from ..engines.cluster import connected

    with connected(scheduler=passing.scheduler) as client:
        yield replace(passing, client=client)


def _thresholds(options: dict[str, Any]) -> list[Threshold]:
    found = [Threshold.parse(text, "max") for text in options["maximum"]]
    found += [Threshold.parse(text, "min") for text in options["minimum"]]
    if not found:
        raise InputError("max", "requires a threshold, such as --max log_score.normalized=1")
    return found


@command()
@takes(open_rows, _audit, first=_thresholds)
def check(
    audit: Audit,
    maximum: Annotated[
        list[str], typer.Option("--max", metavar="NAME=VALUE", help="fail if the value is above")
    ] = [],  # noqa: B006
    minimum: Annotated[
        list[str], typer.Option("--min", metavar="NAME=VALUE", help="fail if the value is below")
    ] = [],  # noqa: B006
    json: Json = None,
    html: Html = None,
) -> None:
    """Pass or fail on thresholds, for a pipeline: exit code 0 if all hold, 1 if one fails, 2 for
    invalid input.

    Example: --max log_score.normalized=50% --min accuracy=0.9. An unknown name prints all names.
    """
    thresholds = _thresholds({"maximum": maximum, "minimum": minimum})
    values = audit.flat()
    failed = failures(values, thresholds)
    _write(audit, json, html)
    for threshold in thresholds:
        mark = "FAIL" if threshold in failed else "ok"
        typer.echo(f"{mark:5}{threshold.name} = {values[threshold.name]:.6g}  ({threshold.rule})")
    if failed:
        raise typer.Exit(1)


@command()
def compare(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="files with the same rows, one per model; or one file with several column sets",
            show_default=False,
        ),
    ],
    *,
    label: Label = "label",
    probs: Annotated[
        list[str],
        typer.Option(help="columns with probabilities; once for all files, or once per model"),
    ] = [],  # noqa: B006
    logits: Annotated[list[str], typer.Option(help="columns with logits")] = [],  # noqa: B006
    log_probs: Annotated[list[str], typer.Option(help="columns with log-probabilities")] = [],  # noqa: B006
    name: Annotated[
        list[str], typer.Option(help="names of the models, in the order of files or columns")
    ] = [],  # noqa: B006
    reference: Annotated[
        str | None,
        typer.Option(help="the model to compare the others with", show_default="the first"),
    ] = None,
    score: Annotated[str, typer.Option(help="the score that decides: log or brier")] = "log",
    confidence: Confidence = None,
    correct: Correct = None,
    weight: Weight = None,
    classes: Classes = None,
    features: FeatureColumns = None,
    groups: GroupColumns = None,
    clusters: ClusterColumn = None,
    costs: Costs = None,
    drop_bad_rows: Drop = False,
    tolerance: Tolerance = None,
    repair: Repair = None,
    engine: EngineName = "auto",
    scheduler: Scheduler = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="as for audit; one file per model, with .1, .2 and so on after the name"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="continue from the checkpoints, if there are any")
    ] = False,
    threads: Threads = None,
    json: Json = None,
    html: Html = None,
    title: Title = "",
) -> None:
    """Compare models on the same rows: paired differences with intervals, ranks, and a verdict.

    Streamed rows are compared on a sample, the same for each model.
    """
    from ..comparisons.comparison import compare as compare_models
    from ..comparisons.same_rows import read_models
    from ..report.comparison_terminal import render

    checkpoints: list[Path] = []
    with checkpointed(checkpoints):
        check_outputs({"json": json, "html": html, "checkpoint": checkpoint})
        passing = Passing(
            engine=engine,
            scheduler=scheduler,
            threads=threads,
            checkpoint=checkpoint,
            resume=resume,
        )
        if engine == "auto" and any(is_streamed(file, engine, checkpoint) for file in files):
            # stream all or none, so that samples have the same rows
            passing = replace(passing, engine="stream")
        others: dict[str, Any] = {
            "label": label,
            "confidence": confidence,
            "correct": correct,
            "weight": weight,
        }
        others |= {"features": features, "clusters": clusters, "tolerance": tolerance}
        sources: list[OpenedRows] = []

        def rows_of(file: Path, **options: Unpack[ReadOptions]) -> Predictions:
            own = passes
            if checkpoint is not None:
                checkpoints.append(checkpoint.with_name(f"{checkpoint.name}.{len(sources) + 1}"))
                own = replace(passes, checkpoint=checkpoints[-1])
            sources.append(OpenedRows.of(file, own, options))
            return sources[-1].in_memory()

        with _one_cluster(passing) as passes:
            models = read_models(
                files,
                rows_of,
                outputs=in_order(context, *OUTPUTS),
                names=name,
                reading=read_options(
                    groups=groups, classes=classes, drop_bad_rows=drop_bad_rows, **others
                ),
            )
        first = next(iter(models.values()))
        matrix = None if costs is None else read_costs(costs, first.class_order)
        regions = list(first.columns) if first.columns else None
        found = compare_models(
            models,
            costs=matrix,
            reference=reference,
            score=score,  # type: ignore[arg-type]
            repair=repair,
            regions=regions,
        )
        _write(found, json, html, title)
        if json != "-":
            _console().print(render(found, title or ", ".join(found.names), COMMANDS))
            if len(sources[0].given) > len(first):
                typer.echo(
                    f"\nCompared on a sample of {len(first):,} of {len(sources[0].given):,} rows."
                )
            _say_where(html)


@command()
@takes(open_rows)
def calibrate(
    rows: OpenedRows,
    file: File,
    context: typer.Context,
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="JSON file for the calibrator", show_default=False),
    ],
    method: Annotated[str, typer.Option(help="auto, or the name of a calibrator")] = "auto",
    score: Annotated[str, typer.Option(help="the score that decides: log or brier")] = "log",
    folds: Annotated[int, typer.Option(help="folds of cross-validation")] = 5,
    seed: Annotated[int, typer.Option(help="seed of the folds")] = 0,
    features: FeatureColumns = None,
) -> None:
    """Fit a calibrator to the outputs in a file, and save it as JSON for `apply`.

    --method auto chooses the simplest calibrator whose cross-validated score is within one standard
    error of the best. Each row is scored by a calibrator fitted to other rows. --groups, one
    column, also tries a calibrator for each group. --features also tries group calibration, which
    learns groups from the features.
    """
    from ..calibrators import save

    some = rows.in_memory()
    groups = _one_group_column(some)
    calibrator, gain = _calibrated(
        some,
        groups,
        with_features=features is not None,
        method=method,
        score=score,
        folds=folds,
        seed=seed,
    )
    if isinstance(rows.given, RowSource) and len(rows.given) > len(some):
        calibrator = _fit_all(calibrator, rows)
        typer.echo(f"Compared on a sample of {len(some):,} of {len(rows.given):,} rows.")
    if calibrator.takes == "groups":
        calibrator.columns_ = np.array([groups])
    elif calibrator.takes == "features" and features is not None:
        calibrator.columns_ = np.array(some.feature_names or [features])
    save(calibrator, output)
    typer.echo(f"{gain} (each row out of fold)")
    typer.echo(f"{type(calibrator).__name__}: {calibrator.fit_report_.status}")
    typer.echo(f"Saved to {output}. Next, preferably with rows that did not fit it:")
    typer.echo(line("apply", output, file, *_applied(context), "-o", "calibrated.parquet"))
    if not some.pairs:
        outputs = given(context, *OUTPUTS)
        each = [*outputs, "--probs", "p_*"] if outputs else []
        typer.echo(line("compare", file, "calibrated.parquet", *given(context, *ROWS), *each))


def _one_group_column(rows: Predictions) -> str | None:
    """The column whose groups may get their own calibrators."""
    names = list(rows.columns or ())
    if len(names) > 1:
        raise InputError(
            "groups",
            "must be one column: each of its groups may get its own calibrator",
            ", ".join(names),
        )
    return names[0] if names else None


def _calibrated(
    rows: Predictions,
    groups: str | None,
    *,
    with_features: bool,
    method: str,
    score: str,
    folds: int,
    seed: int,
) -> tuple[Calibrator, str]:
    """The calibrator, chosen or named, fitted to all rows; and its gain in words."""
    from ..calibrators.calibration_loss import Outputs, calibration_loss
    from ..calibrators.registry import calibrator_named
    from ..calibrators.selection import default_candidates, fit_calibrator, select_calibrator

    if method == "auto":
        names = default_candidates(Outputs.of(rows, groups), features_given=with_features)
        choice = select_calibrator(
            rows, candidates=names, score=score, cv=folds, seed=seed, groups=groups
        )
        typer.echo(f"{choice!r}\n")
        scores = {candidate.name: candidate.score for candidate in choice.candidates}
        return (
            choice.calibrator,
            f"{score} score {scores['identity']:.4f} before, {scores[choice.chosen]:.4f} after",
        )
    unfitted = calibrator_named(method)
    asked = {"features": with_features, "groups": groups is not None}
    for name, value in asked.items():
        if value and unfitted.takes != name:
            raise InputError(name, "this method does not use them", method)
    if unfitted.takes == "features" and not with_features:
        raise InputError("features", "this method requires them, to learn groups from", "none")
    found = calibration_loss(
        rows, calibrator=unfitted, score=score, cv=folds, seed=seed, groups=groups
    )
    gone = (
        f", {method} removes {float(found.relative):.1%} of it"
        if math.isfinite(found.relative)
        else ""
    )
    words = (
        f"{score} score {float(found.raw):.4f} before, {float(found.calibrated):.4f} after{gone}"
    )
    return fit_calibrator(rows, unfitted, groups=groups), words


def _fit_all(calibrator: Calibrator, rows: OpenedRows) -> Calibrator:
    """The calibrator fitted to all rows if it can be fitted in passes; else the given one."""
    from ..calibrators.fitting.distributed import fit_on_cluster
    from ..calibrators.fitting.streaming import fit_stream, fits_in_passes
    from ..engines.cluster import connected
    from ..engines.dask_rows import FileRows

    source, passing = rows
    if not fits_in_passes(calibrator) or not isinstance(source, RowSource):
        return calibrator
    if passing.engine != "dask":
        return fit_stream(calibrator, source, threads=passing.threads, progress=None)
    with connected(scheduler=passing.scheduler) as client:
        return fit_on_cluster(calibrator, FileRows(source), source.plan(), client=client)


@command()
def apply(
    calibrator: Annotated[
        Path, typer.Argument(help="JSON file that `calibrate` wrote", show_default=False)
    ],
    file: Annotated[
        Path, typer.Argument(help=".csv, .parquet, .arrow or .npz with outputs", show_default=False)
    ],
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help=".parquet or .csv file to write", show_default=False),
    ],
    probs: Probs = None,
    logits: Logits = None,
    log_probs: LogProbs = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="columns with features, in the order of the fit; by default those of the fit"
        ),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="column with groups; by default that of the fit")
    ] = None,
) -> None:
    """Calibrate the outputs in a file, without labels. The calibrated outputs are named p_<class>;
    all other columns are kept.

    A calibrator that was fitted with features or groups reads the columns of the same names.
    """
    from ..calibrators import load
    from ..calibrators.base import with_first_column
    from ..files.reading import read_besides, read_outputs
    from ..files.row_files import parts_of
    from ..files.writing import with_columns, write_tables

    try:
        model = load(calibrator)
    except InputError as problem:
        found = problem.value if problem.argument == "path" else f"{calibrator}: {problem.value}"
        raise InputError("calibrator", problem.rule, found, way_out=problem.way_out) from None
    patterns = {"probs": probs, "logits": logits, "log_probs": log_probs}
    columns = _columns_besides(model, {"features": features, "groups": groups})
    unseen = 0

    def calibrated(parts: Iterable[Any]) -> Iterator[Any]:
        nonlocal unseen
        before = 0
        for part in parts:
            outputs, others = read_outputs(
                part, model.classes_.tolist(), from_logits=model.from_logits, **patterns
            )
            besides = {name: read_besides(part, name, which) for name, which in columns.items()}
            unseen += _unseen(model, besides)
            try:
                found = model.predict_proba(
                    with_first_column(outputs, model.n_features_in_, model.from_logits), **besides
                )
            except InputError as problem:
                name = (
                    next(filter(None, patterns.values()), "p_*")
                    if problem.argument == "P"
                    else problem.argument
                )
                row = None if problem.row is None else before + problem.row
                raise InputError(
                    name, problem.rule, problem.value, row=row, way_out=problem.way_out
                ) from None
            yield with_columns(
                others, {f"p_{name}": found[:, k] for k, name in enumerate(model.classes_.tolist())}
            )
            before += len(outputs)

    rows = write_tables(output, calibrated(parts_of(file)))
    typer.echo(f"{counted(rows)} written to {output}")
    if unseen:
        typer.echo(
            f"{counted(unseen)} in groups that the fit did not have: calibrated as all rows are"
        )


def _columns_besides(model: Calibrator, asked: dict[str, str | None]) -> dict[str, Any]:
    """The columns that a calibrator needs besides outputs: as requested, or as in its fit."""
    for name, value in asked.items():
        if value is not None and model.takes != name:
            raise InputError(name, "this calibrator does not use them", type(model).__name__)
    if model.takes is None or getattr(model, "grouped_by_", "features") == "outputs":
        return {}
    wanted = asked[model.takes]
    if wanted is None and not hasattr(model, "columns_"):
        raise InputError(
            model.takes,
            "the calibrator was fitted with them, but does not name their columns",
            "none",
        )
    return {model.takes: model.columns_.tolist() if wanted is None else wanted}


def _unseen(model: Calibrator, besides: dict[str, Any]) -> int:
    """The number of rows in groups that the fit did not have."""
    from ..calibrators.combining import PerGroup

    if not isinstance(model, PerGroup):
        return 0
    return int((model.places(besides["groups"]) == len(model.groups_)).sum())


@command()
def demo(
    output: Annotated[Path, typer.Option(help="folder for predictions and audits")] = Path(
        "probaudit-demo"
    ),
) -> None:
    """Train classifiers on data sets of scikit-learn, and audit them."""
    from ..cli import demo as demonstration
    from ..comparisons.comparison import compare as compare_models
    from ..report.terminal import overview, render

    console = _console()
    output.mkdir(parents=True, exist_ok=True)
    models: dict[str, dict[str, Predictions]] = {}
    audits: dict[str, dict[str, Audit]] = {}
    for data, method, rows in demonstration.trained():
        title = f"{data}, {method}"
        found = audit_rows(
            rows, title=title, repair="compare" if title in demonstration.REPORTS else None
        )
        models.setdefault(data, {})[method] = rows
        audits.setdefault(data, {})[method] = found
        path = demonstration.save(output, f"{data} {method}", rows)
        found.to_json(path.with_suffix(".json"))
        if title in demonstration.REPORTS:
            found.to_html(path.with_suffix(".html"))
    for data, found_by_method in audits.items():
        console.print(f"\n[bold]{data}[/bold]\n")
        console.print(overview(found_by_method))
    compared = output / "digits-compared.html"
    compare_models(models["digits"]).to_html(compared, title="digits, five classifiers")
    console.print()
    console.print(
        render(audits["breast cancer"]["naive Bayes"], demonstration.REPORTS[0], COMMANDS)
    )
    reports = ", ".join(str(path) for path in sorted(output.glob("*.html")))
    console.print(f"\nOpen in a browser: {reports}", soft_wrap=True)
    console.print(
        f"Then try: probaudit audit {output}/digits-random-forest.parquet --html report.html"
    )


if __name__ == "__main__":
    app()
