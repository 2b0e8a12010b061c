"""A progress bar that only those see who have to wait."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears


class Progress:
    """Counts rows done. The bar appears on a terminal (or when asked for) once the work takes longer than PATIENCE."""

    def __init__(self, total: int, show: bool | None = None) -> None:
        self._total = total
        self._show = sys.stderr.isatty() if show is None else show
        self._done = 0
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None

    def advance(self, rows: int) -> None:
        if not self._show:
            return
        with self._lock:
            self._done = min(self._total, self._done + rows)
            if self._bar is None and time.monotonic() - self._started > PATIENCE:
                self._open()
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("rows", total=self._total)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
