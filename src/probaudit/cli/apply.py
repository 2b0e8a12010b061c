"""The command `apply`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import Argument, InputError, WayOut
from ..files.paths import is_readable
from ..states.bad_rows import DIVIDE
from ..text import counted
from .options import Decimal, Format, Logits, LogProbs, Probs, Separator, Tolerance
from .outputs import say
from .standard_input import opened

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

# what to do about bad rows: this command has other options than Python
WAYS_OUT: dict[WayOut, WayOut] = {DIVIDE: ("if rows are rounded, raise ", Argument("tolerance"))}


def apply(
    calibrator: Annotated[
        Path, typer.Argument(help="JSON file that `calibrate` wrote", show_default=False)
    ],
    file: Annotated[
        Path,
        typer.Argument(
            help="file with outputs (.csv, .tsv, .jsonl, .parquet, .arrow, .npz or .npy), a folder,"
            " a pattern, or - for standard input",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help=".parquet, .csv or .npz file to write", show_default=False
        ),
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
    tolerance: Tolerance = None,
    sep: Separator = None,
    decimal: Decimal = ".",
    form: Format = None,
) -> None:
    """Apply a calibrator to the outputs in a file. No labels are needed.

    Calibrated outputs are named p_<class>; an .npz file has them as one array `probs`, with their
    `classes`. All other columns are kept, and float32 stays float32. A calibrator that was fitted
    with features or groups reads the columns of the same names. A .parquet file also stores which
    rows fitted the calibrator: `audit` and `compare` warn if they are the rows of the file.
    """
    from ..files.dialect import Dialect
    from ..files.row_files import parts_of
    from ..files.writing import write_arrays, write_tables

    model = _load(calibrator)
    patterns = {"probs": probs, "logits": logits, "log_probs": log_probs}
    columns = _columns_besides(model, {"features": features, "groups": groups})
    application = _Application(model, patterns, columns, tolerance)
    parts = parts_of(opened(file, form), Dialect(sep, decimal))
    if output.suffix.lower() == ".npz":
        arrays = application.arrays(parts)
        rows = len(arrays["probs"])
        write_arrays(output, arrays)
    else:
        rows = write_tables(output, application.tables(parts), model.fit_identity)
    say(f"{counted(rows)} written to {output}")
    if application.unseen:
        say(
            f"{counted(application.unseen)} in groups that the fit did not have: calibrated by the"
            " calibrator for all rows"
        )


def _load(path: Path) -> Calibrator:
    from ..calibrators import load

    try:
        return load(path)
    except InputError as problem:
        value = problem.value if problem.argument == "path" else f"{path}: {problem.value}"
        swapped = ("name the calibrator first, then the file with outputs",)
        way_out = swapped if is_readable(path) else problem.way_out
        raise InputError("calibrator", problem.rule, value, way_out=way_out) from None


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

    tolerance : how far the sum of a row may be from 1; rows within it are divided by their sum.
    unseen : the number of rows so far in groups that the fit did not have.
    """

    model: Calibrator
    patterns: Mapping[str, str | None]
    columns: Mapping[str, Any]
    tolerance: float | None = None
    unseen: int = 0

    def tables(self, parts: Iterable[Any]) -> Iterator[Any]:
        """The parts of a file with calibrated outputs in place of the original ones."""
        from ..files.writing import with_columns

        classes = self.model.classes_.tolist()
        for calibrated, others in self._each(parts):
            yield with_columns(
                others, {f"p_{name}": calibrated[:, k] for k, name in enumerate(classes)}
            )

    def arrays(self, parts: Iterable[Any]) -> dict[str, np.ndarray]:
        """All parts as arrays: calibrated outputs, their classes, and the other columns."""
        import pyarrow as pa

        from ..data.arrays import from_arrow

        outputs, tables = zip(*self._each(parts), strict=True)
        others = pa.concat_tables(tables, promote_options="permissive")
        columns = {name: from_arrow(others[name], name) for name in others.column_names}
        return columns | {"probs": np.concatenate(outputs), "classes": self.model.classes_}

    def _each(self, parts: Iterable[Any]) -> Iterator[tuple[np.ndarray, Any]]:
        """The calibrated outputs of each part, and its other columns as an Arrow table."""
        from ..files.reading import read_besides, read_outputs

        classes, start = self.model.classes_.tolist(), 0
        for part in parts:
            outputs, others = read_outputs(
                part, classes, from_logits=self.model.from_logits, **self.patterns
            )
            besides = {name: read_besides(part, name, own) for name, own in self.columns.items()}
            self.unseen += _unseen(self.model, besides)
            calibrated = self._calibrated(outputs, besides, start)
            yield in_format_of(outputs, calibrated), others
            start += len(outputs)

    def _calibrated(
        self, outputs: np.ndarray, besides: Mapping[str, Any], start: int
    ) -> np.ndarray:
        """Calibrated outputs of one part. Errors name the columns and the row in the file."""
        from ..calibrators.base import with_first_column

        try:
            outputs = with_first_column(outputs, self.model.n_features_in_, self.model.from_logits)
            if self.tolerance is not None and not self.model.from_logits:
                outputs = with_sum_1(outputs, self.tolerance)
            return self.model.predict_proba(outputs, **besides)
        except InputError as problem:
            columns = next(filter(None, self.patterns.values()), "p_*")
            raise InputError(
                columns if problem.argument == "P" else problem.argument,
                problem.rule,
                problem.value,
                row=None if problem.row is None else start + problem.row,
                way_out=WAYS_OUT.get(problem.way_out, problem.way_out),
            ) from None


def with_sum_1(outputs: np.ndarray, tolerance: float) -> np.ndarray:
    """Probabilities [n, K] whose rows sum to 1, if their sums are within the tolerance; other rows
    are left as they are.

    >>> with_sum_1(np.array([[0.5, 0.49], [0.5, 0.4]]), 0.02).round(3).tolist()
    [[0.505, 0.495], [0.5, 0.4]]
    """
    sums = outputs.sum(axis=1, keepdims=True, dtype=np.float64)
    return outputs / np.where(np.abs(sums - 1) <= tolerance, sums, 1)


def in_format_of(outputs: np.ndarray, calibrated: np.ndarray) -> np.ndarray:
    """Calibrated outputs in float32, if the outputs are float32 or float16. None is rounded to 0,
    because the log loss of an event that happens at probability 0 is infinite.

    >>> in_format_of(np.float32([[0.5, 0.5]]), np.array([[1e-60, 1.0]])).tolist()
    [[1.401298464324817e-45, 1.0]]
    """
    if outputs.dtype.itemsize > 4:
        return calibrated
    rounded = calibrated.astype(np.float32)
    rounded[(rounded == 0) & (calibrated > 0)] = np.nextafter(np.float32(0), np.float32(1))
    return rounded


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
