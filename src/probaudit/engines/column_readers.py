"""Column readers: threads decode different columns of the same rows and share the whole rows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Batch = tuple[int, Any]  # the number of the first row, and an Arrow batch
MOST_WAITING = 2  # batches per reader; enough that threads of different speed seldom wait


class ColumnReaders(Iterator[Batch]):
    """An iterator over batches of whole rows, shared by several threads.

    Each reader yields some of the columns of the same rows, in order. A thread that finds no whole
    rows decodes the next batch of a reader that no other thread uses and that has fewer than
    MOST_WAITING batches waiting. So as many threads as there are readers decode at once, and hold
    little more memory than one would. Once a reader has ended, batches that wait on the others are
    dropped.

    schema : of all columns, in the order of the readers. cut : divides joined rows into the batches
        that threads take.
    """

    def __init__(
        self,
        readers: Iterable[Iterator[Batch]],
        schema: Any,
        cut: Callable[[int, Any], Iterable[Batch]],
    ) -> None:
        self._readers = [_ColumnReader(batches) for batches in readers]
        self._schema, self._cut = schema, cut
        self._whole: deque[Batch] = deque()
        self._changed = threading.Condition()

    def __next__(self) -> Batch:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: (
                        self._whole
                        or self._free()
                        or not any(reader.busy for reader in self._readers)
                    )
                )
                if self._whole:
                    return self._whole.popleft()
                reader = self._free()
                if reader is None:
                    raise StopIteration
                reader.busy = True
            batch = None
            try:
                batch = next(reader.batches, None)
            finally:
                with self._changed:
                    reader.busy, reader.ended = False, batch is None
                    reader.waiting.extend(() if batch is None else (batch,))
                    self._changed.notify_all()
                    self._join()

    def _free(self) -> _ColumnReader | None:
        """The free reader with the fewest waiting batches, if any."""
        free = [
            reader
            for reader in self._readers
            if not (reader.busy or reader.ended or len(reader.waiting) >= MOST_WAITING)
        ]
        return min(free, key=lambda reader: len(reader.waiting), default=None)

    def _join(self) -> None:
        """Join the waiting batches of all readers. Their lengths may differ."""
        import pyarrow as pa

        while all(reader.waiting for reader in self._readers):
            waiting = [reader.waiting.popleft() for reader in self._readers]
            start, rows = waiting[0][0], min(batch.num_rows for _, batch in waiting)
            if any(first != start for first, _ in waiting):
                starts = [first for first, _ in waiting]
                raise RuntimeError(f"readers must yield the same rows, but start at {starts}")
            if len(waiting) == 1:
                whole = waiting[0][1]
            else:
                columns = [
                    column for _, batch in waiting for column in batch.slice(0, rows).columns
                ]
                whole = pa.record_batch(columns, schema=self._schema)
            for reader, (_, batch) in zip(self._readers, waiting, strict=True):
                if batch.num_rows > rows:
                    reader.waiting.appendleft((start + rows, batch.slice(rows)))
            self._whole.extend(self._cut(start, whole))


class _ColumnReader:
    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches
        self.waiting: deque[Batch] = deque()
        self.busy = self.ended = False
