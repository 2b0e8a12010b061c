"""Work on many rows: chunks of rows for several threads, and a progress bar."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

CHUNKS = 8
CHUNK_VALUES = 2**16
PATIENCE = 2.0  # seconds before a progress bar appears
SILENT = ContextVar("probaudit.silent", default=False)  # no progress bars, as with --quiet


def default_threads() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_chunk(values: np.ndarray, job: Callable[[slice], T]) -> list[T]:
    """The results of a job for chunks of rows, in order. Chunks run in threads, because kernels
    release the GIL. They depend only on the size of the array, not on the machine."""
    rows, chunks = len(values), max(1, min(CHUNKS, values.size // CHUNK_VALUES))
    parts = [slice(i * rows // chunks, (i + 1) * rows // chunks) for i in range(chunks)]
    threads = min(chunks, default_threads())
    if threads == 1:
        return [job(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(job, parts))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products in one thread, so that no digit depends on the number of cores. Products of
    blocks of rows are small: more threads mostly wait for each other, and use the other cores."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1, user_api="blas"):
        yield


class Progress:
    """A progress bar. On a terminal (or with `show`) it appears once the work takes longer than
    PATIENCE.

    total : how much there is to do; None if unknown. unit : what is counted. work : the label of
        the bar; by default the unit.
    """

    def __init__(
        self,
        total: int | None,
        show: bool | None = None,
        *,
        done: int = 0,
        unit: str = "rows",
        work: str = "",
    ) -> None:
        self._total, self._unit, self._work = total, unit, work or unit
        self._show = sys.stderr.isatty() and not SILENT.get() if show is None else show
        self._before = self._done = done
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._open)
        self._timer.daemon = True
        self._closed = False
        self._bar: Any = None
        self._task: Any = None

    def advance(self, rows: int) -> None:
        """Add to the number of rows done."""
        with self._lock:
            self._note(self._done + rows)

    def reach(self, done: int) -> None:
        """Set the number of rows done."""
        with self._lock:
            self._note(done)

    def _note(self, done: int) -> None:
        self._done = done if self._total is None else min(self._total, done)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=self._rate())

    def _rate(self) -> str:
        """Rows or bytes per second, as text."""
        done, seconds = self._done - self._before, time.monotonic() - self._start
        if done <= 0 or seconds <= 0:
            return ""
        return {
            "rows": f"{done / seconds:,.0f} rows/s",
            "bytes": f"{done / seconds / 1e6:,.0f} MB/s",
        }.get(self._unit, "")

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        rate, left = TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
        done = DownloadColumn() if self._unit == "bytes" else MofNCompleteColumn()
        columns = TextColumn("{task.description}"), BarColumn(), done, rate, left
        with self._lock:
            if self._closed:  # during the imports
                return
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(
                self._work, total=self._total, completed=self._done, rate=self._rate()
            )
            self._bar.start()

    def __enter__(self) -> Progress:
        if self._show:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
