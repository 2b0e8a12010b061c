"""The command `apply`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import InputError
from ..text import counted
from .options import Logits, LogProbs, Probs

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator


def apply(
    calibrator: Annotated[
        Path, typer.Argument(help="JSON file that `calibrate` wrote", show_default=False)
    ],
    file: Annotated[
        Path,
        typer.Argument(help=".csv, .parquet, .arrow or .npz file with outputs", show_default=False),
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
    """Apply a calibrator to the outputs in a file. No labels are needed.

    Calibrated outputs are named p_<class>; all other columns are kept. A calibrator that was fitted
    with features or groups reads the columns of the same names. A .parquet file also stores which
    rows fitted the calibrator: `audit` and `compare` warn if they are the rows of the file.
    """
    from ..files.row_files import parts_of
    from ..files.writing import write_tables

    model = _load(calibrator)
    patterns = {"probs": probs, "logits": logits, "log_probs": log_probs}
    columns = _columns_besides(model, {"features": features, "groups": groups})
    application = _Application(model, patterns, columns)
    rows = write_tables(output, application.tables(parts_of(file)), model.fit_identity)
    typer.echo(f"{counted(rows)} written to {output}")
    if application.unseen:
        typer.echo(
            f"{counted(application.unseen)} in groups that the fit did not have: calibrated by the"
            " calibrator for all rows"
        )


def _load(path: Path) -> Calibrator:
    from ..calibrators import load

    try:
        return load(path)
    except InputError as problem:
        value = problem.value if problem.argument == "path" else f"{path}: {problem.value}"
        raise InputError("calibrator", problem.rule, value, way_out=problem.way_out) from None


def _columns_besides(model: Calibrator, given: Mapping[str, str | None]) -> dict[str, Any]:
    """The columns that a calibrator needs besides outputs: as given, or as in its fit."""
    for name, value in given.items():
        if value is not None and name not in model.fitted_with:
            rule = "must be omitted: this calibrator does not use them"
            raise InputError(name, rule, type(model).__name__)
    missing = [name for name in model.fitted_with if given[name] is None]
    if missing and not hasattr(model, "columns_"):
        rule = "are required: the calibrator was fitted with them, but does not name their columns"
        raise InputError(missing[0], rule, "none")
    names = model.columns_.tolist() if missing else []
    last = len(names) - model.group_columns
    of_fit = {"features": names[:last], "groups": names[last:]}
    return {
        name: of_fit[name] if given[name] is None else given[name] for name in model.fitted_with
    }


@dataclass
class _Application:
    """A calibrator and the columns that it reads.

    unseen : the number of rows so far in groups that the fit did not have.
    """

    model: Calibrator
    patterns: Mapping[str, str | None]
    columns: Mapping[str, Any]
    unseen: int = 0

    def tables(self, parts: Iterable[Any]) -> Iterator[Any]:
        """The parts of a file with calibrated outputs in place of the original ones."""
        from ..files.reading import read_besides, read_outputs
        from ..files.writing import with_columns

        classes, start = self.model.classes_.tolist(), 0
        for part in parts:
            outputs, others = read_outputs(
                part, classes, from_logits=self.model.from_logits, **self.patterns
            )
            besides = {name: read_besides(part, name, own) for name, own in self.columns.items()}
            self.unseen += _unseen(self.model, besides)
            calibrated = self._calibrated(outputs, besides, start)
            yield with_columns(
                others, {f"p_{name}": calibrated[:, k] for k, name in enumerate(classes)}
            )
            start += len(outputs)

    def _calibrated(
        self, outputs: np.ndarray, besides: Mapping[str, Any], start: int
    ) -> np.ndarray:
        """Calibrated outputs of one part. Errors name the columns and the row in the file."""
        from ..calibrators.base import with_first_column

        try:
            return self.model.predict_proba(
                with_first_column(outputs, self.model.n_features_in_, self.model.from_logits),
                **besides,
            )
        except InputError as problem:
            columns = next(filter(None, self.patterns.values()), "p_*")
            raise InputError(
                columns if problem.argument == "P" else problem.argument,
                problem.rule,
                problem.value,
                row=None if problem.row is None else start + problem.row,
                way_out=problem.way_out,
            ) from None


def _unseen(model: Calibrator, besides: Mapping[str, Any]) -> int:
    """The number of rows in groups that the fit did not have."""
    from ..calibrators.combining import PerGroup, group_table, group_values, known_places

    if "groups" not in besides:
        return 0
    columns = group_table(besides["groups"], len(besides["groups"]))
    single = isinstance(model, PerGroup)
    known, edges = ([x] if single else x for x in (model.groups_, model.edges_))
    unseen = [
        known_places(group_values(column, cuts), own) == len(own)
        for column, own, cuts in zip(columns, known, edges, strict=False)
    ]
    return int(np.any(unseen, axis=0).sum())
