"""The predictions of each batch, joined in memory or written to a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.predictions import Predictions, label_codes
from ..data.work import Progress
from ..engines.row_source import RowSource, scan_files
from ..errors import InputError
from ..files.writing import arrow_table, write_tables
from ..text import listed
from .batches import Batches
from .forward import Features, Forward, Outputs

GROUP_VALUES = 2**22  # values of a row group, at least; the last may have fewer
LABEL, FEATURES = "label", "features"
# How columns of outputs begin, and the option of `read` for them.
COLUMNS: dict[Outputs, tuple[str, str]] = {
    "logits": ("logit_", "logits"),
    "probabilities": ("p_", "probs"),
    "log_probabilities": ("log_p_", "log_probs"),
}


class Part(NamedTuple):
    """The predictions of some rows."""

    labels: np.ndarray
    outputs: np.ndarray
    features: Features
    columns: Mapping[str, np.ndarray]
    tolerance: float

    @property
    def values(self) -> int:
        """The number of values of outputs and features."""
        features = self.features if isinstance(self.features, Mapping) else {"": self.features}
        sizes = [column.size for column in features.values() if column is not None]
        return self.outputs.size + sum(sizes)


def answered(
    forward: Forward, batches: Batches, classes: Sequence[Any] | None, progress: bool | None
) -> Iterator[Part]:
    """The predictions of each batch. The inputs are not kept."""
    names, first = None if classes is None else np.array(classes), None
    with Progress(batches.count, progress, unit="batches", work="collecting predictions") as bar:
        for inputs, labels, columns in batches:
            outputs, features, tolerance = forward.ask(inputs)
            if names is not None and names.dtype.kind == "U" and labels.dtype.kind in "biuf":
                labels = _named(labels, names)
            part = Part(labels, outputs, features, columns, tolerance)
            _check(part, part if first is None else first)
            first = part if first is None else first
            yield part
            bar.advance(1)
    if first is None:
        raise InputError("data", "needs at least one row", "no batch")


def _named(labels: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The classes of column numbers."""
    codes = label_codes(labels, tuple(range(len(names))))
    wrong = labels[(codes < 0) | (codes >= len(names))]
    if len(wrong):
        rule = f"labels must be column numbers from 0 to {len(names) - 1}, as `classes` are text"
        raise InputError("data", rule, wrong[0])
    return np.asarray(names[codes])


def _check(part: Part, first: Part) -> None:
    """Raise unless there is one value per row, with the shapes and columns of the first part."""
    n = len(part.labels)
    if part.outputs.ndim == 0 or len(part.outputs) != n:
        rule = f"must return one row of outputs for each of the {n} labels of a batch"
        raise InputError("model", rule, f"shape {part.outputs.shape}")
    if part.outputs.shape[1:] != first.outputs.shape[1:]:
        rule = f"outputs must have the same shape in all batches ({first.outputs.shape[1:]})"
        raise InputError("model", rule, part.outputs.shape[1:])
    if list(part.columns) != list(first.columns):
        rule = f"all batches must have the same columns ({listed(list(first.columns))})"
        raise InputError("data", rule, ", ".join(part.columns) or "none")
    features = part.features if isinstance(part.features, Mapping) else {FEATURES: part.features}
    for argument, columns in (("layer", features), ("data", part.columns)):
        for name, column in columns.items():
            if column is not None and column.shape[:1] != (n,):
                rule = f"{name!r} must have one value for each of the {n} labels of a batch"
                raise InputError(argument, rule, f"shape {column.shape}")


def in_memory(
    parts: Sequence[Part], outputs: Outputs, classes: Sequence[Any] | None
) -> Predictions:
    """All parts as `Predictions`."""
    whole = _joined(parts)
    return Predictions(
        whole.labels,
        whole.outputs,
        from_logits=outputs == "logits",
        from_log_probs=outputs == "log_probabilities",
        classes=classes,
        features=whole.features,
        columns=dict(whole.columns) or None,
        tolerance=whole.tolerance if outputs == "probabilities" else None,
        names={"y": "labels", "probs": "outputs"},
    )


def _joined(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def together(columns: list[Any]) -> Any:
        if isinstance(columns[0], Mapping):
            return {name: together([c[name] for c in columns]) for name in columns[0]}
        return None if columns[0] is None else np.concatenate(columns)

    return first._replace(
        labels=together([part.labels for part in parts]),
        outputs=together([part.outputs for part in parts]),
        features=together([part.features for part in parts]),
        columns=together([part.columns for part in parts]),
        tolerance=max(part.tolerance for part in parts),
    )


def parquet_path(to: str | Path) -> Path:
    path = Path(to)
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise InputError("to", "must end in .parquet", str(to))
    return path


def to_file(
    path: Path, parts: Iterable[Part], outputs: Outputs, classes: Sequence[Any] | None
) -> RowSource:
    """Write parts to a Parquet file as they come, and open it as `scan` does.

    Columns: label; one per class (logit_*, p_* or log_p_*); features, a list per row, or one column
    f_* for each feature with a name; and the columns of the batches under their names.
    """
    prefix, option = COLUMNS[outputs]
    found: dict[str, Any] = {}

    def tables() -> Iterator[Any]:
        for part in _row_groups(parts):
            features = part.features
            found["features"] = (
                None if features is None else "f_*" if isinstance(features, Mapping) else FEATURES
            )
            found["columns"] = list(part.columns) or None
            found["tolerance"] = max(part.tolerance, found.get("tolerance", 0.0))
            yield arrow_table(_columns(part, prefix, classes))

    write_tables(path, tables())
    tolerance = found.pop("tolerance") if outputs == "probabilities" else None
    options: Any = {**found, "tolerance": tolerance, option: f"{prefix}*", "classes": classes}
    return scan_files(path, label=LABEL, **options)


def _row_groups(parts: Iterable[Part]) -> Iterator[Part]:
    """Parts joined to row groups. A file with a group for each batch would be large and slow."""
    held: list[Part] = []
    for part in parts:
        held.append(part)
        if sum(each.values for each in held) >= GROUP_VALUES:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _columns(part: Part, prefix: str, classes: Sequence[Any] | None) -> dict[str, Any]:
    """The columns of a table."""
    if part.outputs.ndim > 2 or part.labels.ndim > 1:
        rule = "dense outputs cannot be written to a table"
        raise InputError("to", rule, f"outputs of shape {part.outputs.shape}")
    single = part.outputs.ndim == 1
    names = list(range(2 if single else part.outputs.shape[1])) if classes is None else classes
    matrix = part.outputs[:, None] if single else part.outputs
    shown = names[1:] if single else names
    if len(shown) != matrix.shape[1]:
        rule = f"needs one name for each of the {matrix.shape[1] + single} classes"
        raise InputError("classes", rule, len(names))
    table: dict[str, Any] = {LABEL: part.labels}
    table |= {f"{prefix}{name}": matrix[:, k] for k, name in enumerate(shown)}
    if isinstance(part.features, Mapping):
        table |= {f"f_{name}": column for name, column in part.features.items()}
    elif part.features is not None:
        table[FEATURES] = part.features
    for name, column in part.columns.items():
        if name in table or name.startswith((prefix, "f_")):
            rule = f"must not have columns named label, features, {prefix}* or f_*"
            raise InputError("data", rule, repr(name))
        table[name] = column
    return table
