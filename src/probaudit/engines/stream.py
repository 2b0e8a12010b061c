"""The engine for rows in files: threads decode pieces of files, and each adds them to its own
sums."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np

from ..choices.scores import Cost
from ..data.columns import Columns
from ..data.predictions import Block, Predictions
from ..data.work import Progress, default_threads
from ..errors import Argument, InputError
from ..states import AuditState, Plan
from ..states.evidence import EvidenceState
from ..states.row_sample import NUMBERS
from . import checkpoint as checkpoints
from .column_readers import Batch, ColumnReaders
from .row_source import Piece, RowSource, numbered

SAVE_EVERY = 60.0  # seconds between checkpoints
WAKE_EVERY = 0.2  # seconds between wake-ups of the main thread: only it receives an interrupt
READERS_BYTES = 3 * 2**27  # memory of all readers, above which two threads share one
DECODED_WITHIN = 5.0  # seconds to wait, after an interrupt, for rows that are being decoded


def stream(
    source: RowSource,
    *,
    costs: Mapping[str, Cost] | None = None,
    reject_cost: float = 0.1,
    threads: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    save_every: float = SAVE_EVERY,
) -> AuditState:
    """One pass over the rows of a source (`scan`), in memory that does not grow with their number.

    The state has the same bytes as that of the same rows in memory, for any number of threads and
    any division into files.

    checkpoint : a file to which the state is written when the pass is interrupted (Ctrl-C), every
        minute (`save_every` seconds), and at the end. It is not removed.
    resume : continue from the checkpoint, if it exists; if it covers all rows, nothing is read.
        Files and options must be the same as before.
    """
    threads = default_threads() if threads is None else threads
    if threads < 1:
        raise InputError("threads", "must be at least 1", threads)
    if not save_every > 0:
        raise InputError("save_every", "must be positive", save_every)
    if resume and checkpoint is None:
        raise InputError(
            "resume", "requires a checkpoint", way_out=("pass ", Argument("checkpoint"))
        )
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and not path.parent.is_dir():
        raise InputError("checkpoint", "its folder must exist", str(path))
    if path is not None and source.would_read(path):
        raise InputError(
            "checkpoint",
            "must not be one of the files that are read",
            str(path),
            way_out=("give it another name",),
        )
    state = AuditState.empty(source.plan(costs, reject_cost))
    if path is not None and resume and path.exists():
        state = checkpoints.load(path, state, source.identity)
    if state.rows == source.n:
        return state

    def keep(state: AuditState) -> None:
        source.check_unchanged()
        if path is not None:
            checkpoints.save(path, state, source.identity)

    state.sample_for(source.first_rows).expect_here(source.n)
    with Progress(source.n, progress, done=state.rows) as bar:
        state = _Pass(source, state, bar, threads).run(keep, None if path is None else save_every)
    if state.rows != source.n:
        raise RuntimeError(f"{source.n - state.rows} rows have not been added")
    sample = state.sample_for(source.first_rows)
    if len(sample.numbers) < min(source.n, sample.size):
        raise RuntimeError("too few rows have a small priority")  # see likely_bound
    keep(state)
    return state


class _Pass:
    """Threads that add the rows that a state lacks, each to its own sums; and one thread that saves
    checkpoints.

    Rows are handed out in order, and none beyond a failure, so that the first bad row is the one
    that is reported. Two threads share a reader if there are too few pieces, or if one reader each
    would take much memory. A thread without rows of its own helps another.
    """

    def __init__(self, source: RowSource, state: AuditState, bar: Progress, threads: int) -> None:
        threads = min(threads, 2 * len(source.pieces))
        own = threads <= len(source.pieces) and threads * source.held_bytes <= READERS_BYTES
        readers = threads if own else -(-threads // 2)
        # threads per reader, which decode at once and share the decoded rows
        self._sharing = -(-threads // readers)
        self._source, self._state, self._bar = source.read_in_place(threads, readers), state, bar
        self._pieces = iter(source.pieces)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[tuple[int, BaseException]] = []
        batches = [self._reader() for _ in range(readers)]
        firsts = (i % len(batches) for i in range(threads))
        self._shares = [_Share(state.plan, batches[i:] + batches[:i], self._work) for i in firsts]

    def _reader(self) -> ColumnReaders:
        """A reader of pieces, which are taken one after the other as needed."""
        pieces: list[Piece] = []
        readers = [
            self._columns_of(pieces, columns)
            for columns in self._source.column_groups(self._sharing)
        ]
        return ColumnReaders(readers, self._source.schema, self._missing)

    def run(self, keep: Callable[[AuditState], None], save_every: float | None) -> AuditState:
        """The state of all rows. An interrupt is raised again, after the state so far is saved."""
        interrupt: BaseException | None = None
        try:
            for share in self._shares:
                share.thread.start()
            # In a thread of its own: an interrupt reaches only the main thread, and must not cut a
            # checkpoint short.
            if save_every:
                threading.Thread(target=self._keep, args=(keep, save_every), daemon=True).start()
            for share in self._shares:
                while not share.ended.wait(WAKE_EVERY):
                    pass
        except BaseException as caught:
            interrupt = caught
        with self._still():
            self._stop.set()
            if self._errors:
                raise min(self._errors, key=lambda entry: entry[0])[1] from interrupt
            if interrupt is None:
                return self._whole()
            if save_every and not any(share.torn for share in self._shares):
                try:
                    keep(self._whole())
                except InputError as problem:
                    print(f"Rows since the last checkpoint are lost. {problem}", file=sys.stderr)
                    interrupt.__cause__ = problem
        # No thread adds rows any more, but exiting while one decodes may crash the process.
        for share in self._shares:
            if share.thread.ident is not None:
                share.ended.wait(DECODED_WITHIN)
        raise interrupt

    def _work(self, share: _Share) -> None:
        try:
            for start, batch in chain.from_iterable(share.batches):
                self._add(share, start, batch)
        except BaseException as error:  # no row is at fault
            self._fail(-1, error)

    def _add(self, share: _Share, start: int, batch: Any) -> None:
        try:
            rows = numbered(partial(self._source.predictions, in_place=True), batch, start)
            picked, block = self._block_and_sample(rows, start)
            with share.lock:
                if self._stop.is_set():
                    return
                share.torn = True
                share.sums.update(block)
                with self._lock:
                    self._state.note(picked, rows, start)
                share.torn = False
            self._bar.advance(len(rows))
        except BaseException as error:
            self._fail(start, error)

    def _block_and_sample(
        self, rows: Predictions, start: int
    ) -> tuple[dict[str, np.ndarray], Block]:
        """The rows that may enter the sample, and the block of all rows. A pass over columns also
        copies the rows of the sample."""
        sample, block = (
            self._state.sample_for(rows),
            rows.block(0, len(rows), by_column=True)._replace(first_row=start),
        )
        if not isinstance(rows.probs, Columns):
            return sample.picked(rows, start), block
        picked = sample.room_for(rows, start)
        return picked, block._replace(copied=(picked[NUMBERS] - start, picked["probs"]))

    def _fail(self, row: int, error: BaseException) -> None:
        with self._lock:
            self._errors.append((row, error))

    def _ends_before(self, row: int) -> bool:
        """Whether rows from this one on are skipped: the pass was stopped, or an earlier row
        failed."""
        with self._lock:
            return self._stop.is_set() or any(failed < row for failed, _ in self._errors)

    def _columns_of(self, pieces: list[Piece], columns: list[str]) -> Iterator[Batch]:
        """Batches of some columns, piece by piece, each with the number of its first row. `pieces`
        is shared with the readers of the other columns of the same rows."""
        for i in count():
            piece = self._piece(pieces, i)
            if piece is None:
                return
            reached = piece.first_row
            try:
                for start, batch in (
                    self._source.batches(piece, columns) if self._gaps(reached, piece.rows) else ()
                ):
                    if self._ends_before(start):
                        return
                    reached = start + batch.num_rows
                    yield start, batch
            except Exception as error:
                self._fail(reached, error)
                return

    def _piece(self, pieces: list[Piece], i: int) -> Piece | None:
        """The i-th of these pieces. If needed the next of all is taken, unless the pass failed."""
        with self._lock:
            if i == len(pieces) and not self._errors:
                pieces.extend(islice(self._pieces, 1))
            return pieces[i] if i < len(pieces) and not self._stop.is_set() else None

    def _gaps(self, start: int, rows: int) -> list[tuple[int, int]]:
        with self._lock:
            return self._state.covered.gaps(start, start + rows)

    def _missing(self, start: int, batch: Any) -> Iterator[Batch]:
        """The rows of a batch that the state lacks, in one part per thread that shares the
        reader."""
        rows = -(-batch.num_rows // self._sharing)
        for first, end in self._gaps(start, batch.num_rows):
            for low in range(first, end, rows):
                if not self._ends_before(low):
                    yield low, batch.slice(low - start, min(rows, end - low))

    def _keep(self, keep: Callable[[AuditState], None], seconds: float) -> None:
        while not self._stop.wait(seconds):
            with self._still():
                if self._stop.is_set() or any(share.torn for share in self._shares):
                    return
                try:
                    keep(self._whole())
                except BaseException as error:
                    with self._lock:
                        self._errors.append((-1, error))
                    self._stop.set()

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Hold all locks: threads may decode rows meanwhile, but not add them."""
        with ExitStack() as stack:
            for share in self._shares:
                stack.enter_context(share.lock)
            yield

    def _whole(self) -> AuditState:
        """The sum of the state and all shares, which are not changed."""
        whole = AuditState(self._state.plan)
        for sums in (self._state.sums, *(share.sums for share in self._shares)):
            whole.sums.merge(sums)
        whole.covered, whole.sample = self._state.covered, self._state.sample
        return whole


class _Share:
    """A thread, its readers and its sums. `torn` is set while rows are being added, and stays set
    if that fails.

    batches : its own reader first, then those of others, which it helps at the end.
    ended : set at the end. Python 3.11 regards a thread as ended if an interrupt comes while it is
        joined.
    """

    def __init__(
        self, plan: Plan, batches: list[ColumnReaders], work: Callable[[_Share], None]
    ) -> None:
        self.sums, self.batches = EvidenceState(plan), batches
        self.lock = threading.Lock()
        self.torn = False
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def _run(self, work: Callable[[_Share], None]) -> None:
        try:
            work(self)
        finally:
            self.ended.set()
