"""The engine for rows in memory: blocks shared out over threads, each with a state of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import numpy as np

from ..choices.lenses import Lens
from ..data.parallel import default_threads
from ..data.predictions import Block, Predictions
from ..data.progress import Progress
from ..errors import InputError
from ..states import CELLS, COARSE_CELLS, EventGrid, Plan, Statistics, Summary
from ..states.bad_rows import explain
from ..states.evidence import MANY_EVENTS, Evidence, EvidenceState, sample_size
from ..states.sampling import drawn
from .totals import total_of_rows

T = TypeVar("T")

BLOCK_ROWS = 2**20
MIN_ROWS = 1024
VIEW_BYTES = 2**28
COPY_BYTES = 2**23


def block_rows(rows: Predictions, threads: int) -> int:
    """Rows of a block, so that every thread gets as many blocks as the others.

    A block pays for one call of a kernel, so it should be long. It must be short where its values
    have to be copied.
    """
    row_bytes = max(8, rows.probs.nbytes // len(rows))
    most = (VIEW_BYTES if rows.is_contiguous else COPY_BYTES) // row_bytes
    rounds = -(-len(rows) // (threads * max(1, min(BLOCK_ROWS, most))))
    return max(MIN_ROWS, -(-len(rows) // (threads * rounds)))


class State(Protocol):
    """What a pass adds blocks to; states of the parts of a pass are merged."""

    def update(self, block: Block) -> Any: ...
    def merge(self, other: Any) -> Any: ...


S = TypeVar("S", bound=State)


def gather(rows: Predictions, plan: Plan, **options: Unpack[PassOptions]) -> Statistics:
    """One pass over the rows. The result has the same bytes for any number of threads and any block
    size."""
    return run(rows, partial(Statistics.empty, plan), **options)


def evidence_of(rows: Predictions, plan: Plan, **options: Unpack[PassOptions]) -> Evidence:
    """One pass over the rows for all that an audit needs: sums over all of them, and a sample."""
    state = run(rows, partial(EvidenceState, plan), **options)
    sample, places = sample_of(rows)
    if places is None:
        return state.evidence(rows)
    return replace(
        state.evidence(sample, places), total=partial(total_of_rows, rows, options.get("threads"))
    )


def sample_of(rows: Predictions) -> tuple[Predictions, np.ndarray | None]:
    """The rows, if they are few enough to fit to; else a sample of them, and the number of each of
    its rows."""
    size = sample_size(rows.n_classes, 0 if rows.features is None else rows.features.shape[1])
    if len(rows) <= size:
        return rows, None
    places = drawn(len(rows), size)
    return rows.take(places), places


class PassOptions(TypedDict, total=False):
    """threads : all cores unless given. rows_per_block : see `block_rows`. progress : whether to
    show it."""

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
    """The state of all rows: each thread adds blocks to a state of its own, and these are
    merged."""
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
    """Hands out blocks in order, and none after a failure: no block before a failed one is then
    left undone."""

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
    """A state, and the work of adding blocks to it until there are none."""

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
    """One pass over the rows, read out; raises if no row is left to judge."""
    return _judged(rows, gather(rows, plan, **options))  # type: ignore[arg-type]


def _judged(rows: Predictions, state: Statistics) -> Summary:
    found = state.finalise()
    if found.rows == 0:
        raise InputError(rows.name("probs"), "no row is left to judge", found.why_empty())
    return found


def each_block(rows: Predictions, job: Callable[[Block], T], threads: int | None = None) -> list[T]:
    """What a job gives for every block, in order; blocks are shared out over threads. The first
    block's failure is raised."""
    threads = default_threads() if threads is None else threads
    size = block_rows(rows, threads)
    if len(rows) <= size:
        return [job(rows.block(0, len(rows)))]
    with ThreadPoolExecutor(threads) as pool:
        return list(
            pool.map(lambda first: job(rows.block(first, first + size)), range(0, len(rows), size))
        )


def good_of_block(plan: Plan, block: Block) -> np.ndarray:
    """Which rows of a block count: they break no rule and have a positive weight. Bad rows raise
    unless dropped."""
    status = Statistics.empty(plan).status(block)
    if plan.on_bad_rows == "error" and status.any():
        first = int(np.flatnonzero(status)[0])
        raise explain(plan, block, first, int(status[first]))
    return _counted(status, block)


def _counted(status: np.ndarray, block: Block) -> np.ndarray:
    return status == 0 if block.weights is None else (status == 0) & (block.weights > 0)


@dataclass(frozen=True)
class Survey:
    """The state of a pass, the numbers of the rows that count, and (if it is known) the most
    probable class of each."""

    state: Statistics
    good: np.ndarray
    top: np.ndarray | None

    @cached_property
    def summary(self) -> Summary:
        return self.state.finalise()


def take_survey(rows: Predictions, plan: Plan) -> Survey:
    """One pass over the rows; raises if no row is left to judge."""

    def job(block: Block) -> tuple[Statistics, np.ndarray, np.ndarray | None]:
        state = Statistics.empty(plan)
        status, top = state.add(block)
        return state, block.first_row + np.flatnonzero(_counted(status, block)), top

    parts = each_block(rows, job)
    state = parts[0][0]
    for other, _, _ in parts[1:]:
        state.merge(other)
    good, tops = (
        np.concatenate([good for _, good, _ in parts]),
        [top for _, _, top in parts if top is not None],
    )
    if not len(good):
        _judged(rows, state)
    return Survey(state, good, np.concatenate(tops) if tops else None)


def good_rows(rows: Predictions, plan: Plan) -> np.ndarray:
    """The numbers of all rows that count."""
    return take_survey(rows, plan).good


def events(rows: Predictions, lens: Lens) -> list[EventGrid]:
    """One pass over the rows: the grid of each event that a lens shows. The same bytes for any
    cutting into blocks."""
    plan = Plan.of(rows)

    def grids(block: Block) -> list[EventGrid]:
        good = good_of_block(plan, block)
        part = slice(block.first_row, block.first_row + len(good))
        probs, labels, weights = rows.probabilities(part), block.labels, plan.scaled(block.weights)
        if not good.all():
            probs, labels, weights = (
                probs[good],
                labels[good],
                None if weights is None else weights[good],
            )
        views = lens.views(probs, labels)
        if views[0].outputs.ndim != 1:
            raise InputError("lens", "must show a single event", repr(lens))
        cells = CELLS if len(views) <= MANY_EVENTS else COARSE_CELLS
        return [EventGrid(cells, weighted=plan.weighted).update(*view, weights) for view in views]

    first, *others = each_block(rows, grids)
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            mine.merge(theirs)
    return first
