"""A progress bar that only those see who have to wait."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears


class Progress:
    """Counts rows done. On a terminal (or when asked for) a bar appears once the work takes longer than PATIENCE.

    If no row is done by then, kernels are being compiled, and the bar says so.
    """

    def __init__(self, total: int, show: bool | None = None) -> None:
        self._total = total
        self._show = sys.stderr.isatty() if show is None else show
        self._done = 0
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._open)
        self._timer.daemon = True
        self._bar: Any = None
        self._task: Any = None

    def advance(self, rows: int) -> None:
        with self._lock:
            self._done = min(self._total, self._done + rows)
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done, description="rows")

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with self._lock:
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
            words = "rows" if self._done else "compiling, on the first run only"
            self._task = self._bar.add_task(words, total=self._total, completed=self._done)
            self._bar.start()

    def __enter__(self) -> Progress:
        if self._show:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
