"""The rows that a command reads: in memory, or streamed from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..data.predictions import Predictions
from ..engines.choosing import Passing, is_streamed
from ..engines.row_source import RowSource
from ..files.layout import ReadOptions
from ..files.reading import read
from .options import (
    Checkpoint,
    Classes,
    ClusterColumn,
    Confidence,
    Correct,
    Drop,
    EngineName,
    FeatureColumns,
    File,
    GroupColumns,
    Label,
    Logits,
    LogProbs,
    Probs,
    Resume,
    Scheduler,
    Threads,
    Tolerance,
    Weight,
)


def open_rows(
    file: File,
    *,
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
    clusters: ClusterColumn = None,
    drop_bad_rows: Drop = False,
    tolerance: Tolerance = None,
    engine: EngineName = "auto",
    scheduler: Scheduler = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    threads: Threads = None,
) -> OpenedRows:
    """The rows of a file, by the options of the command line."""
    passing = Passing(
        engine=engine,
        scheduler=scheduler,
        threads=threads,
        checkpoint=checkpoint,
        resume=resume,
    )
    options = read_options(
        label=label,
        probs=probs,
        logits=logits,
        log_probs=log_probs,
        confidence=confidence,
        correct=correct,
        weight=weight,
        features=features,
        groups=groups,
        clusters=clusters,
        classes=classes,
        drop_bad_rows=drop_bad_rows,
        tolerance=tolerance,
    )
    return OpenedRows.of(file, passing, options)


def read_options(
    *, groups: str | None, classes: str | None, drop_bad_rows: bool, **others: Any
) -> ReadOptions:
    """The options of `read` and `scan`."""
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    chosen = {
        "columns": groups,
        "classes": names,
        "on_bad_rows": "drop" if drop_bad_rows else "error",
    }
    return ReadOptions(**chosen, **others)  # type: ignore[typeddict-item]


class OpenedRows(NamedTuple):
    """The rows of a command, and how to pass over them if they are not in memory."""

    given: Predictions | RowSource
    passing: Passing

    @classmethod
    def of(cls, file: Path, passing: Passing, options: ReadOptions) -> OpenedRows:
        """In memory; or as a source of blocks if the file is large or streaming is requested."""
        if not is_streamed(file, passing.engine, passing.checkpoint):
            return cls(read(file, **options), passing)
        from ..engines.row_source import scan_files

        return cls(scan_files(file, **options), passing)

    @property
    def first(self) -> Predictions:
        """The first rows, or all: enough to know classes and columns."""
        return self.given if isinstance(self.given, Predictions) else self.given.first_rows

    def in_memory(self) -> Predictions:
        """All rows, or the sample that fits use if there are more."""
        if isinstance(self.given, Predictions):
            return self.given
        return self.passing.gather(self.given, {}, 0.1).finalise().sample
