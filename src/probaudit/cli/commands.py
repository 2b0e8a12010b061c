"""The command line: demo, audit, compare, check, calibrate, apply. Exit codes: 0 all well, 1 a
check failed, 2 bad input."""

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
from .opening import Rows, open_rows, read_options
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
    rows: Rows,
    file: File,
    costs: Costs = None,
    reject_cost: Reject = 0.1,
    repair: Repair = None,
    html: Html = None,
    title: Title = "",
) -> Audit:
    given, passing = rows
    # a page has room for all repairs
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
    """Judge the probabilities in a file."""
    from ..report.terminal import render

    _write(audit, json, html)
    if json != "-":
        _console().print(render(_with_commands(audit, file, context), audit.title))
        _say_where(html)


def _applied(context: typer.Context) -> list[str]:
    """The options with which `apply` finds the outputs that this command was given."""
    stated = context.params.get("confidence")
    return given(context, *OUTPUTS) if stated is None else ["--probs", stated]


def _with_commands(audit: Audit, file: Path, context: typer.Context) -> Audit:
    """The same audit with commands in its advice that can be run as they are."""
    commands = {
        "probaudit calibrate FILE": line(
            "calibrate", file, *given(context, *ROWS, *OUTPUTS, "confidence", "correct")
        ),
        "probaudit apply calibrator.json FILE -o OUTPUT": line(
            "apply", "calibrator.json", file, *_applied(context), "-o", "calibrated.parquet"
        ),
    }

    def runnable(advice: str) -> str:
        for words, typed in commands.items():
            advice = advice.replace(words, typed)
        return advice

    return replace(
        audit,
        findings=tuple(
            replace(finding, advice=runnable(finding.advice)) for finding in audit.findings
        ),
    )


def _write(found: Audit | Comparison, json: str | None, html: Path | None, title: str = "") -> None:
    """Write what was asked for."""
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
    """The same passes, all on one cluster if it is to be one."""
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
        raise InputError("max", "give at least one threshold, such as --max log_score.normalized=1")
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
    """Pass or fail on thresholds, for a pipeline: exit code 0 if all hold, 1 if one does not, 2 for
    bad input.

    For instance --max log_score.normalized=50% --min accuracy=0.9. An unknown name is answered with
    all that there are.
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
            help="files with the same rows, a model each; or one with several sets of columns",
            show_default=False,
        ),
    ],
    label: Label = "label",
    probs: Annotated[
        list[str],
        typer.Option(help="columns with probabilities; once for all files, or for each model"),
    ] = [],  # noqa: B006
    logits: Annotated[list[str], typer.Option(help="columns with logits")] = [],  # noqa: B006
    log_probs: Annotated[list[str], typer.Option(help="columns with log-probabilities")] = [],  # noqa: B006
    name: Annotated[
        list[str], typer.Option(help="what to call the models, in the order of files or columns")
    ] = [],  # noqa: B006
    reference: Annotated[
        str | None,
        typer.Option(help="the model that others are compared with", show_default="the first"),
    ] = None,
    score: Annotated[str, typer.Option(help="what decides: log or brier")] = "log",
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
        typer.Option(
            help="as for audit; a file for each model, with .1, .2 and so on after the name"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on from the checkpoints, if there are any")
    ] = False,
    threads: Threads = None,
    json: Json = None,
    html: Html = None,
    title: Title = "",
) -> None:
    """Compare models on the same rows: paired differences with intervals, ranks, and a verdict.

    Of rows that are streamed, those of a sample are compared: the same of each model.
    """
    from ..comparisons.comparison import compare as compare_models
    from ..comparisons.same_rows import read_models
    from ..report.comparison_terminal import render

    checkpoints: list[Path] = []
    with checkpointed(checkpoints):
        check_outputs({"json": json, "html": html, "checkpoint": checkpoint})
        passing = Passing(engine, scheduler, None, threads, checkpoint, resume)
        if engine == "auto" and any(is_streamed(file, engine, checkpoint) for file in files):
            # all or none, so that samples have the same rows
            passing = replace(passing, engine="stream")
        others: dict[str, Any] = {
            "label": label,
            "confidence": confidence,
            "correct": correct,
            "weight": weight,
        }
        others |= {"features": features, "clusters": clusters, "tolerance": tolerance}
        sources: list[Rows] = []

        def rows_of(file: Path, **options: Unpack[ReadOptions]) -> Predictions:
            own = passes
            if checkpoint is not None:
                checkpoints.append(checkpoint.with_name(f"{checkpoint.name}.{len(sources) + 1}"))
                own = replace(passes, checkpoint=checkpoints[-1])
            sources.append(Rows.of(file, own, options))
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
            models, costs=matrix, reference=reference, score=score, repair=repair, regions=regions
        )  # type: ignore[arg-type]
        _write(found, json, html, title)
        if json != "-":
            _console().print(render(found, title or ", ".join(found.names)))
            if len(sources[0].given) > len(first):
                typer.echo(
                    f"\nCompared on a sample of {len(first):,} of {len(sources[0].given):,} rows."
                )
            _say_where(html)


@command()
@takes(open_rows)
def calibrate(
    rows: Rows,
    file: File,
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="JSON file for the calibrator", show_default=False),
    ],
    method: Annotated[str, typer.Option(help="auto, or the name of one")] = "auto",
    score: Annotated[str, typer.Option(help="what decides: log or brier")] = "log",
    folds: Annotated[int, typer.Option(help="folds of the cross-validation")] = 5,
    seed: Annotated[int, typer.Option(help="of the folds")] = 0,
    features: FeatureColumns = None,
) -> None:
    """Fit a calibrator to the outputs in a file, and save it as JSON for `apply`.

    With --method auto the one with the best cross-validated score is chosen, or a simpler one that
    is as good within one standard error. Scores are out of fold: each row is judged by a calibrator
    that did not see it. --groups, one column, also tries a calibrator for each group; --features
    also tries group calibration, which learns groups from them.
    """
    from ..calibrators import save

    some = rows.in_memory()
    groups = _one_group_column(some)
    calibrator, gain = _calibrated(some, groups, features is not None, method, score, folds, seed)
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
    typer.echo(f"Saved to {output}. Try, best with rows that it was not fitted to:")
    typer.echo(line("apply", output, file, *_applied(context), "-o", "calibrated.parquet"))
    if not some.pairs:
        outputs = given(context, *OUTPUTS)
        each = [*outputs, "--probs", "p_*"] if outputs else []
        typer.echo(line("compare", file, "calibrated.parquet", *given(context, *ROWS), *each))


def _one_group_column(rows: Predictions) -> str | None:
    """The column of groups that may get calibrators of their own."""
    names = list(rows.columns or ())
    if len(names) > 1:
        raise InputError(
            "groups",
            "must be one column, whose groups may get calibrators of their own",
            ", ".join(names),
        )
    return names[0] if names else None


def _calibrated(
    rows: Predictions,
    groups: str | None,
    with_features: bool,
    method: str,
    score: str,
    folds: int,
    seed: int,
) -> tuple[Calibrator, str]:
    """The calibrator chosen or asked for, fitted to all rows; and in words what it gains."""
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
            raise InputError(name, "this method does not use them; leave them out", method)
    if unfitted.takes == "features" and not with_features:
        raise InputError("features", "are needed: the columns that groups are learned from", "none")
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


def _fit_all(calibrator: Calibrator, rows: Rows) -> Calibrator:
    """Fitted to all rows, if that can be done in passes; else as it is, fitted to the sample."""
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
            help="columns with features, in the order of the fit; the same as in the fit unless given"
        ),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="column with groups; the same as in the fit unless given")
    ] = None,
) -> None:
    """Calibrate the outputs in a file; no labels are needed. Other columns are kept, and outputs
    become p_<class>.

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
        raise InputError("calibrator", problem.rule, found) from None
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
                raise InputError(name, problem.rule, problem.value, row=row) from None
            yield with_columns(
                others, {f"p_{name}": found[:, k] for k, name in enumerate(model.classes_.tolist())}
            )
            before += len(outputs)

    rows = write_tables(output, calibrated(parts_of(file)))
    typer.echo(f"{counted(rows)} written to {output}")
    if unseen:
        typer.echo(
            f"{counted(unseen)} of groups that the fit had not seen: they share the calibrator of all rows"
        )


def _columns_besides(model: Calibrator, asked: dict[str, str | None]) -> dict[str, Any]:
    """The columns that a calibrator needs besides outputs, by what it takes them for: as asked for,
    or as in its fit."""
    for name, value in asked.items():
        if value is not None and model.takes != name:
            raise InputError(
                name, "this calibrator does not use them; leave them out", type(model).__name__
            )
    if model.takes is None or getattr(model, "grouped_by_", "features") == "outputs":
        return {}
    wanted = asked[model.takes]
    if wanted is None and not hasattr(model, "columns_"):
        raise InputError(
            model.takes,
            "are needed: the calibrator was fitted with them, from columns it does not name",
            "none",
        )
    return {model.takes: model.columns_.tolist() if wanted is None else wanted}


def _unseen(model: Calibrator, besides: dict[str, Any]) -> int:
    """Rows of groups that a calibrator was not fitted to."""
    from ..calibrators.combining import PerGroup

    if not isinstance(model, PerGroup):
        return 0
    return int((model.places(besides["groups"]) == len(model.groups_)).sum())


@command()
def demo(
    output: Annotated[Path, typer.Option(help="folder for the predictions and audits")] = Path(
        "probaudit-demo"
    ),
) -> None:
    """Train real classifiers on data that comes with scikit-learn, and audit them."""
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
    console.print(render(audits["breast cancer"]["naive Bayes"], demonstration.REPORTS[0]))
    reports = ", ".join(str(path) for path in sorted(output.glob("*.html")))
    console.print(f"\nOpen in a browser: {reports}", soft_wrap=True)
    console.print(
        f"Then try: probaudit audit {output}/digits-random-forest.parquet --html report.html"
    )


if __name__ == "__main__":
    app()
