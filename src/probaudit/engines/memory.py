"""The engine for rows in memory: threads take blocks of rows, and each adds them to its own
state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import numpy as np

from ..data.pixels import PixelRows
from ..data.predictions import Block, Predictions
from ..data.work import Progress, default_threads
from ..errors import InputError
from ..states import Plan, Statistics, Summary
from ..states.evidence import Evidence, EvidenceState, sample_size
from ..states.sampling import drawn
from .totals import total_of_rows

BLOCK_ROWS = 2**20
MIN_ROWS = 1024
VIEW_BYTES = 2**28
COPY_BYTES = 2**23


def block_rows(rows: Predictions, threads: int) -> int:
    """The number of rows of a block, such that every thread gets the same number of blocks.

    Blocks are long, because each is one call of a kernel, but short if their values must be copied.
    Dense outputs are read in place if a block is an image.
    """
    row_bytes = max(8, rows.probs.nbytes // len(rows))
    if isinstance(rows.probs, PixelRows):
        pixels = rows.probs.pixels
        if MIN_ROWS <= pixels <= VIEW_BYTES // row_bytes and len(rows) >= threads * pixels:
            return pixels
    most = (VIEW_BYTES if rows.is_contiguous else COPY_BYTES) // row_bytes
    rounds = -(-len(rows) // (threads * max(1, min(BLOCK_ROWS, most))))
    return max(MIN_ROWS, -(-len(rows) // (threads * rounds)))


class Mergeable(Protocol):
    """A state of a pass: threads add blocks to their own states, which are then merged."""

    def update(self, block: Block) -> Any: ...
    def merge(self, other: Any) -> Any: ...


S = TypeVar("S", bound=Mergeable)
C = TypeVar("C", Statistics, EvidenceState)


def gather(rows: Predictions, plan: Plan, **options: Unpack[PassOptions]) -> Statistics:
    """One pass over the rows. The result has the same bytes for any number of threads and any block
    size."""
    return run(rows, partial(Statistics.empty, plan), **options)


def evidence_of(rows: Predictions, plan: Plan, **options: Unpack[PassOptions]) -> Evidence:
    """One pass over the rows for everything that an audit needs: sums over all rows, and a sample.

    If the sample is all rows, the same pass keeps which of them are good, for `survey`.
    """
    sample, places = sample_of(rows)
    if places is not None:
        state = run(rows, partial(EvidenceState, plan), **options)
        total = partial(total_of_rows, rows, options.get("threads"))
        return replace(state.evidence(sample, places), total=total)
    surveyed = run(rows, lambda: SurveyState(EvidenceState(plan)), **options)
    evidence = surveyed.state.evidence(rows)
    if plan == Plan.of(rows):
        keep_survey(rows, surveyed.state.statistics, surveyed)
    return evidence


def sample_of(rows: Predictions) -> tuple[Predictions, np.ndarray | None]:
    """The rows and None, if they are few enough for fitting; else a sample and its row numbers."""
    size = sample_size(rows.n_classes, 0 if rows.features is None else rows.features.shape[1])
    if len(rows) <= size:
        return rows, None
    places = drawn(len(rows), size)
    return rows.take(places), places


class PassOptions(TypedDict, total=False):
    """threads : all cores by default. rows_per_block : see `block_rows`. progress : whether to show
    a progress bar."""

    threads: int | None
    rows_per_block: int | None
    progress: bool | None


def run(
    rows: Predictions,
    empty: Callable[[], S],
    *,
    threads: int | None = None,
    rows_per_block: int | None = None,
    progress: bool | None = None,
) -> S:
    """The state of all rows. Each thread adds blocks to its own state; the states are merged.

    If several blocks fail, the error of the first one is raised, unless rounding errors below 0
    are the cause: the pass is then repeated with 0 in their place.
    """
    once = partial(_run, rows, empty, threads, rows_per_block, progress)
    try:
        return once()
    except InputError:
        if not rows.zero_rounding_errors():
            raise
        return once()


def _run(
    rows: Predictions,
    empty: Callable[[], S],
    threads: int | None,
    rows_per_block: int | None,
    progress: bool | None,
) -> S:
    threads = default_threads() if threads is None else threads
    if threads < 1:
        raise InputError("threads", "must be at least 1", threads)
    size = block_rows(rows, threads) if rows_per_block is None else rows_per_block
    if size < 1:
        raise InputError("rows_per_block", "must be at least 1", size)
    workers = [_Worker(empty()) for _ in range(min(threads, -(-len(rows) // size)))]
    with Progress(len(rows), progress) as bar:
        queue = _Queue(range(0, len(rows), size))
        others = [
            threading.Thread(target=worker.run, args=(rows, size, queue, bar))
            for worker in workers[1:]
        ]
        for thread in others:
            thread.start()
        workers[0].run(rows, size, queue, bar)
        for thread in others:
            thread.join()
    queue.raise_first()
    for worker in workers[1:]:
        workers[0].state.merge(worker.state)
    return workers[0].state


class _Queue:
    """Hands out blocks in order, and none after a failure. So all blocks before a failed one are
    processed, and the first error is known."""

    def __init__(self, starts: Iterable[int]) -> None:
        self._starts = iter(starts)
        self._lock = threading.Lock()
        self._errors: list[tuple[int, BaseException]] = []

    def next(self) -> int | None:
        with self._lock:
            return None if self._errors else next(self._starts, None)

    def fail(self, start: int, error: BaseException) -> None:
        with self._lock:
            self._errors.append((start, error))

    def raise_first(self) -> None:
        if self._errors:
            raise min(self._errors, key=lambda entry: entry[0])[1]


class _Worker(Generic[S]):
    """A state, and the loop that adds blocks to it until none is left."""

    def __init__(self, state: S) -> None:
        self.state = state

    def run(self, rows: Predictions, size: int, queue: _Queue, bar: Progress) -> None:
        while (first := queue.next()) is not None:
            try:
                self.state.update(rows.block(first, first + size, by_column=True))
            except BaseException as error:  # an interrupt too must stop the other threads
                queue.fail(first, error)
            bar.advance(size)


def summary(rows: Predictions, plan: Plan, **options: int | bool | None) -> Summary:
    """The summary of one pass over the rows; raises if no row is good."""
    return summary_of(rows, gather(rows, plan, **options))  # type: ignore[arg-type]


def summary_of(rows: Predictions, state: Statistics) -> Summary:
    """The summary of a state of these rows; raises if no row is good."""
    result = state.finalise()
    if result.rows == 0:
        raise InputError(rows.name("probs"), "no row is left to judge", result.why_empty())
    return result


@dataclass(frozen=True)
class Survey:
    """The result of a pass: its state, the numbers of the good rows, and the most probable class of
    each good row (None if the pass does not know it)."""

    state: Statistics
    good: np.ndarray
    top: np.ndarray | None

    @cached_property
    def summary(self) -> Summary:
        return self.state.finalise()


class SurveyState(Generic[C]):
    """A state that also keeps which rows of each block are good."""

    def __init__(self, state: C) -> None:
        self.state: C = state
        self._blocks: list[tuple[int, np.ndarray, np.ndarray | None]] = []

    def update(self, block: Block) -> SurveyState[C]:
        status, top = self.state.add(block)
        good = block.first_row + np.flatnonzero(is_good(status, block.weights))
        self._blocks.append((block.first_row, good, top))
        return self

    def merge(self, other: SurveyState[C]) -> SurveyState[C]:
        self.state.merge(other.state)
        self._blocks += other._blocks
        return self

    def rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The numbers of the good rows in order, and the most probable class of each if known."""
        blocks = sorted(self._blocks, key=lambda entry: entry[0])
        tops = [top for _, _, top in blocks if top is not None]
        good = np.concatenate([good for _, good, _ in blocks])
        return good, np.concatenate(tops) if tops else None


def keep_survey(predictions: Predictions, state: Statistics, found: SurveyState) -> None:
    """Keep the survey of a pass over all rows with the predictions; raises if no row is good."""
    good, top = found.rows()
    if not len(good):
        summary_of(predictions, state)
    predictions.memo["survey"] = Survey(state, good, top)


def is_good(status: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Whether each row is good: it breaks no rule and its weight is positive."""
    return status == 0 if weights is None else (status == 0) & (weights > 0)
