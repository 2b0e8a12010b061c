"""The command `calibrate`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from ..audits.finding import CALIBRATED_FILE, NEW_ROWS, Commands, JudgeCalibrated
from ..data.predictions import Predictions
from ..engines.row_source import RowSource
from ..errors import InputError
from ..text import number, percent
from .given_options import command_line, given, outputs_for_apply
from .opened_rows import OpenedRows, open_rows, reading
from .options import OUTPUTS, ROWS, FeatureColumns, File, Score
from .outputs import console, say
from .running import in_steps
from .standard_input import DASH

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

SCORES = {"log": "log loss", "brier": "Brier score"}


@in_steps(reading, open_rows)
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
    score: Score = "log",
    folds: Annotated[int, typer.Option(help="number of folds for cross-validation")] = 5,
    seed: Annotated[int, typer.Option(help="seed of the folds")] = 0,
    features: FeatureColumns = None,
) -> None:
    """Fit a calibrator to the outputs in a file, and save it as JSON for `apply`.

    --method auto chooses the simplest calibrator whose cross-validated score is within one standard
    error of the best. With --groups it also tries multicalibration, which removes the
    miscalibration of groups that may overlap, and with one column a calibrator for each group. With
    --features it also tries group calibration and multicalibration, which learn groups.
    """
    from ..calibrators import save

    sample = rows.in_memory()
    groups = _group_columns(sample)
    calibrator, gain = _fitted(
        sample,
        groups,
        with_features=features is not None,
        method=method,
        score=score,
        folds=folds,
        seed=seed,
    )
    if isinstance(rows.given, RowSource) and len(rows.given) > len(sample):
        calibrator = _fitted_to_all(calibrator, rows)
        say(f"Compared on a sample of {len(sample):,} of {len(rows.given):,} rows.")
    if columns := _columns_of_fit(calibrator, sample, features):
        calibrator.columns_ = np.array(columns)
    save(calibrator, output)
    say(f"Cross-validated {gain}.")
    say(f"{type(calibrator).__name__}: {calibrator.fit_report_.status}")
    new = Path(NEW_ROWS + (".csv" if file == DASH else file.suffix))
    say(f"Saved to {output}. Next, apply it to new rows, such as {new}:")
    say(command_line("apply", output, new, *outputs_for_apply(context), "-o", CALIBRATED_FILE))
    if not sample.pairs:
        outputs = tuple(given(context, *OUTPUTS))
        spell = Commands(str(new), (*given(context, *ROWS), *outputs), outputs)
        say("If they have labels, judge it on them. The rows that fitted it flatter it.")
        say(spell(JudgeCalibrated()))


def _group_columns(rows: Predictions) -> str | tuple[str, ...] | None:
    """The column with groups, or several columns."""
    names = tuple(rows.columns or ())
    return names if len(names) > 1 else names[0] if names else None


def _columns_of_fit(calibrator: Calibrator, rows: Predictions, features: str | None) -> list[str]:
    """The columns that `apply` will read: of features, then of groups. Empty if features have no
    names."""
    of_groups = list(rows.columns or ()) if "groups" in calibrator.fitted_with else []
    if "features" not in calibrator.fitted_with:
        return of_groups
    if features is None:
        return []
    return [*(rows.feature_names or [features]), *of_groups]


def _fitted(
    rows: Predictions,
    groups: str | tuple[str, ...] | None,
    *,
    with_features: bool,
    method: str,
    score: str,
    folds: int,
    seed: int,
) -> tuple[Calibrator, str]:
    """The calibrator, selected or named, fitted to all rows; and its gain in words."""
    from ..calibrators.calibration_loss import calibration_loss
    from ..calibrators.outputs import Outputs
    from ..calibrators.registry import calibrator_named
    from ..calibrators.selection import default_candidates, fit_calibrator, select_calibrator

    if method == "auto":
        names = default_candidates(Outputs.of(rows, groups), features_given=with_features)
        choice = select_calibrator(
            rows, candidates=names, score=score, cv=folds, seed=seed, groups=groups
        )
        from ..report.number_table import of_result

        console().print(of_result(choice), "")
        scores = {candidate.name: candidate.score for candidate in choice.candidates}
        words = _gain(score, scores["identity"], scores[choice.chosen])
        if choice.chosen == "identity":
            words += ". No calibrator helps: the saved one changes nothing"
        elif choice.gain.low <= 0:
            words += (
                ". Not a clear gain: the interval includes 0. Collect more rows before you use it"
            )
        return choice.calibrator, words
    unfitted = calibrator_named(method)
    _check_columns(unfitted, method, features=with_features, groups=groups is not None)
    loss = calibration_loss(
        rows, calibrator=unfitted, score=score, cv=folds, seed=seed, groups=groups
    )
    gain = _gain(score, float(loss.raw), float(loss.calibrated))
    if math.isfinite(loss.relative):
        gain += f", {method} removes {percent(loss.relative)} of it"
    return fit_calibrator(rows, unfitted, groups=groups), gain


def _gain(score: str, before: float, after: float) -> str:
    return f"{SCORES[score]} {number(before)} before, {number(after)} after"


def _check_columns(unfitted: Calibrator, method: str, **given: bool) -> None:
    """Check that the given columns are those that the method uses."""
    for name, is_given in given.items():
        if is_given and name not in unfitted.takes:
            raise InputError(name, "must be omitted: this method does not use them", method)
    if "features" in unfitted.takes and not any(given.values()):
        also = ", or groups" if "groups" in unfitted.takes else ""
        rule = f"this method requires features to learn groups from{also}"
        raise InputError("features", rule, "none")


def _fitted_to_all(calibrator: Calibrator, rows: OpenedRows) -> Calibrator:
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
