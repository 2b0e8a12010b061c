"""The rows that a command reads: in memory, or streamed from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
    Decimal,
    Drop,
    EngineName,
    EventName,
    FeatureColumns,
    File,
    Format,
    GroupColumns,
    IgnoreLabel,
    Label,
    Logits,
    LogProbs,
    Probs,
    Resume,
    Scheduler,
    Separator,
    Threads,
    Tolerance,
    Weight,
)
from .standard_input import opened


class Reading(NamedTuple):
    """How to read rows: the options of a pass over files, those of `read` and `scan`, and the
    format of standard input."""

    passing: Passing
    options: ReadOptions
    form: str | None


def reading(
    *,
    label: Label = "label",
    confidence: Confidence = None,
    correct: Correct = None,
    weight: Weight = None,
    classes: Classes = None,
    event: EventName = None,
    features: FeatureColumns = None,
    groups: GroupColumns = [],  # noqa: B006
    clusters: ClusterColumn = None,
    drop_bad_rows: Drop = False,
    tolerance: Tolerance = None,
    ignore_label: IgnoreLabel = None,
    sep: Separator = None,
    decimal: Decimal = ".",
    form: Format = None,
    engine: EngineName = "auto",
    scheduler: Scheduler = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    threads: Threads = None,
) -> Reading:
    """The options of the command line that say how to read rows, except for the output columns."""
    passing = Passing(
        engine=engine,
        scheduler=scheduler,
        threads=threads,
        checkpoint=checkpoint,
        resume=resume,
    )
    options = ReadOptions(
        label=label,
        confidence=confidence,
        correct=correct,
        weight=weight,
        features=features,
        columns=groups or None,
        clusters=clusters,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        event=event,
        on_bad_rows="drop" if drop_bad_rows else "error",
        tolerance=tolerance,
        ignore_label=ignore_label,
        sep=sep,
        decimal=decimal,
    )
    return Reading(passing, options, form)


def open_rows(
    reading: Reading,
    file: File,
    *,
    probs: Probs = None,
    logits: Logits = None,
    log_probs: LogProbs = None,
) -> OpenedRows:
    """The rows of a file."""
    options = reading.options | ReadOptions(probs=probs, logits=logits, log_probs=log_probs)
    return OpenedRows.of(opened(file, reading.form), reading.passing, options)


class OpenedRows(NamedTuple):
    """The rows of a command, with the options of a pass over them if they are not in memory."""

    given: Predictions | RowSource
    passing: Passing

    @classmethod
    def of(cls, file: Path, passing: Passing, options: ReadOptions) -> OpenedRows:
        """In memory; as a source of blocks if the file is large or streaming is requested."""
        if not is_streamed(file, passing.engine, passing.checkpoint):
            return cls(read(file, **options), passing)
        from ..engines.row_source import scan_files

        return cls(scan_files(file, **options), passing)

    @property
    def first(self) -> Predictions:
        """The first rows, or all: enough to know classes and columns."""
        return self.given if isinstance(self.given, Predictions) else self.given.first_rows

    def in_memory(self) -> Predictions:
        """All rows; of a stream, the sample that calibrators are fitted to."""
        if isinstance(self.given, Predictions):
            return self.given
        sample = self.passing.gather(self.given, {}, 0.1).finalise().sample
        fit = self.first.calibrator_fit
        return sample if fit is None else replace(sample, calibrator_fit=fit)
