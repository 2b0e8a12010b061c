"""Rows whose columns are read in several parts side by side, and joined."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Batch = tuple[int, Any]  # the number of the first row, and rows of Arrow
MOST_WAITING = 2  # batches of a side: enough that threads of uneven speed seldom wait


class Sides(Iterator[Batch]):
    """Batches of rows for threads that take them in turn.

    Each side gives some of the columns of the same rows, in order. A thread that finds no rows that
    are whole reads on at a side that no other thread reads, and that has not MOST_WAITING batches
    waiting for the others: as many threads as there are sides decode at once, and hold little more
    than if one did. Once a side has ended, what waits on the others is not handed out.

    schema : of all columns, in the order of the sides. cut : what is handed out of joint rows.
    """

    def __init__(
        self,
        sides: Iterable[Iterator[Batch]],
        schema: Any,
        cut: Callable[[int, Any], Iterable[Batch]],
    ) -> None:
        self._sides = [_Side(batches) for batches in sides]
        self._schema, self._cut = schema, cut
        self._whole: deque[Batch] = deque()
        self._changed = threading.Condition()

    def __next__(self) -> Batch:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: (
                        self._whole or self._free() or not any(side.busy for side in self._sides)
                    )
                )
                if self._whole:
                    return self._whole.popleft()
                side = self._free()
                if side is None:
                    raise StopIteration
                side.busy = True
            found = None
            try:
                found = next(side.batches, None)
            finally:
                with self._changed:
                    side.busy, side.ended = False, found is None
                    side.waiting.extend(() if found is None else (found,))
                    self._changed.notify_all()
                    self._join()

    def _free(self) -> _Side | None:
        """The side that is farthest behind, of those that can be read."""
        free = [
            side
            for side in self._sides
            if not (side.busy or side.ended or len(side.waiting) >= MOST_WAITING)
        ]
        return min(free, key=lambda side: len(side.waiting), default=None)

    def _join(self) -> None:
        """Make what waits on all sides whole. A side may have fewer rows in a batch than
        another."""
        import pyarrow as pa

        while all(side.waiting for side in self._sides):
            waiting = [side.waiting.popleft() for side in self._sides]
            start, rows = waiting[0][0], min(batch.num_rows for _, batch in waiting)
            if any(first != start for first, _ in waiting):
                raise RuntimeError(
                    f"sides must give the same rows, not from {[first for first, _ in waiting]} on"
                )
            if len(waiting) == 1:
                whole = waiting[0][1]
            else:
                columns = [
                    column for _, batch in waiting for column in batch.slice(0, rows).columns
                ]
                whole = pa.record_batch(columns, schema=self._schema)
            for side, (_, batch) in zip(self._sides, waiting, strict=True):
                if batch.num_rows > rows:
                    side.waiting.appendleft((start + rows, batch.slice(rows)))
            self._whole.extend(self._cut(start, whole))


class _Side:
    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches
        self.waiting: deque[Batch] = deque()
        self.busy = self.ended = False
