"""The rows that a command works on: in memory, or where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..data.predictions import Predictions
from ..engines.choosing import Passing, is_streamed
from ..engines.row_source import RowSource
from ..files.reading import ReadOptions, read
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
) -> Rows:
    passing = Passing(engine, scheduler, None, threads, checkpoint, resume)
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
    return Rows.of(file, passing, options)


def read_options(
    *, groups: str | None, classes: str | None, drop_bad_rows: bool, **others: Any
) -> ReadOptions:
    """What `read` and `scan` take."""
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    chosen = {
        "columns": groups,
        "classes": names,
        "on_bad_rows": "drop" if drop_bad_rows else "error",
    }
    return ReadOptions(**chosen, **others)  # type: ignore[typeddict-item]


class Rows(NamedTuple):
    """What a command works on, and how a pass over it is made if it is not in memory."""

    given: Predictions | RowSource
    passing: Passing

    @classmethod
    def of(cls, file: Path, passing: Passing, options: ReadOptions) -> Rows:
        """In memory; or where they are, if there are many or that was asked for."""
        if not is_streamed(file, passing.engine, passing.checkpoint):
            return cls(read(file, **options), passing)
        from ..engines.row_source import scan

        return cls(scan(file, **options), passing)

    @property
    def first(self) -> Predictions:
        """Some of the rows, which tell what all are."""
        return self.given if isinstance(self.given, Predictions) else self.given.first_rows

    def in_memory(self) -> Predictions:
        """All rows, or a sample if they are more than fits are made of."""
        if isinstance(self.given, Predictions):
            return self.given
        return self.passing.gather(self.given, {}, 0.1).finalise().sample
