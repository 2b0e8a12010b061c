"""The choice of an engine for rows that are not in memory: files are streamed or read by a cluster;
dask collections stay on their cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

import numpy as np

from ..choices.scores import Cost
from ..data.keywords import with_known_keywords
from ..errors import Argument, InputError
from ..files.layout import ReadOptions
from ..files.paths import ARRAYS, files_of, form_of, is_path
from ..states import AuditState
from ..states.evidence import Evidence, Job
from .row_source import RowSource, scan_files
from .totals import total_of_source

if TYPE_CHECKING:
    from .dask_rows import DaskRows

Engine = Literal["auto", "memory", "stream", "dask"]
LARGE = 2**28  # bytes of files above which "auto" streams them


@partial(with_known_keywords, others=ReadOptions.__annotations__)
def scan(source: Any, **options: Unpack[ReadOptions]) -> RowSource | DaskRows:
    """Like `read`, but the rows stay in their files or on their cluster, and may exceed memory.

    `audit`, `calibration_error`, `grouping_loss` and `loss_budget` take the result.

    source : a .parquet, .arrow, .csv, .tsv or .jsonl file, a folder of such files, a pattern such
        as "day-*.parquet" or "runs/**/*.csv", or a list of paths, read in the order of their paths;
        or a dask DataFrame. Folders named name=value add columns, as for `read`.
    options : as for `read`.
    """
    if hasattr(source, "__dask_graph__"):
        from .dask_rows import DaskRows

        return DaskRows.of_frame(source, **options)
    return scan_files(source, **options)


@dataclass(frozen=True)
class Passing:
    """Options of a pass over files or dask collections.

    engine : "stream" (one process, any number of threads) or "dask"; dask collections always use
        "dask".
    scheduler, client : of the cluster; by default a local cluster of processes.
    checkpoint, resume : options of "stream".
    """

    engine: Engine = "auto"
    scheduler: str | None = None
    client: Any = None
    threads: int | None = None
    checkpoint: str | Path | None = None
    resume: bool = False
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise InputError(
                "engine", f"must be one of {', '.join(get_args(Engine))}", repr(self.engine)
            )
        if self.scheduler is not None and self.engine != "dask":
            raise InputError("scheduler", 'requires engine "dask"', self.scheduler)
        if self.resume and self.checkpoint is None:
            raise InputError(
                "resume", "requires a checkpoint", way_out=("pass ", Argument("checkpoint"))
            )
        if self.checkpoint is not None and self.engine in ("dask", "memory"):
            raise InputError("checkpoint", 'requires engine "stream"', str(self.checkpoint))

    def evidence(
        self,
        source: RowSource | DaskRows,
        costs: Mapping[str, Cost] | None = None,
        reject_cost: float = 0.1,
    ) -> Evidence:
        """The evidence of one pass over the rows. Its `total` makes further passes."""
        evidence = self.gather(source, costs or {}, reject_cost).finalise()
        return replace(evidence, total=partial(self._total, source))

    def _total(self, source: RowSource | DaskRows, job: Job) -> list[np.ndarray]:
        if isinstance(source, RowSource) and self.engine != "dask":
            return total_of_source(source, self.threads, self.progress, job)
        from .cluster import connected, total
        from .dask_rows import FileRows

        with connected(self.client, scheduler=self.scheduler) as client:
            return total(
                FileRows(source) if isinstance(source, RowSource) else source, job, client=client
            )

    def gather(
        self, source: RowSource | DaskRows, costs: Mapping[str, Cost], reject_cost: float
    ) -> AuditState:
        """The state of one pass over the rows, with the same bytes for any engine."""
        if isinstance(source, RowSource) and self.engine != "dask":
            from .stream import stream

            return stream(
                source,
                costs=costs,
                reject_cost=reject_cost,
                threads=self.threads,
                progress=self.progress,
                checkpoint=self.checkpoint,
                resume=self.resume,
            )
        from .cluster import connected, gather
        from .dask_rows import FileRows

        with connected(self.client, scheduler=self.scheduler) as client:
            parts = FileRows(source) if isinstance(source, RowSource) else source
            return gather(
                parts, source.plan(costs, reject_cost), client=client, progress=self.progress
            )


def is_streamed(source: Any, engine: Engine, checkpoint: Any = None) -> bool:
    """Whether to stream the rows of files: on request, or if there are several files, or large
    ones. The results are identical either way."""
    if engine != "auto" or checkpoint is not None:
        return engine != "memory"
    if not is_path(source):
        return False
    files = files_of(source)
    return form_of(files[0]) not in ARRAYS and (
        len(files) > 1 or sum(file.stat().st_size for file in files) > LARGE
    )


def as_source(y: Any, probs: Any, **options: Any) -> RowSource | DaskRows | None:
    """The source of rows that are not in memory: a source itself, or dask arrays of labels and
    outputs. None for everything else."""
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(y, RowSource) or type(y).__name__ == "DaskRows":
        if probs is not None or given:
            rule = "a source must be passed alone, without outputs, weights or features"
            raise InputError("y_true", rule, repr(y))
        return y
    if not hasattr(probs, "__dask_graph__"):
        return None
    from .dask_rows import DaskRows

    return DaskRows.of_arrays(y, probs, names={"y": "y_true", "probs": "y_proba"}, **given)
